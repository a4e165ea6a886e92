"""stage-gossip (the fifth note): everybody tells what they know of how far everybody is.

The idea. With respect to one message every process is at a stage: 0, it has not got it; 1, it
holds it; 2, it has delivered it. Packets carry the sender's table of all stages; who receives one
merges it into its own by taking the higher stage of each. A process delivers a message when
Q = ceil(n/2) processes, itself counted, are known to be at stage 1 or 2.

Only a process itself moves its own stage, and stages never fall. So a table may lag behind the
truth but never runs ahead of it, whoever passed it on and however often.

Two forms, by the option ``form``.

``ring`` (the default: both proposals of the fifth note, together). Members stand in a ring.
A process speaks of a message once: the origin when it broadcasts it, anybody else on the first
copy that carries the text. It sends the text to the f + 1 members that follow it in the ring
(f = Q - 1 is how many may crash) and a NOTICE, which has the table but no text, to all others.
A notice is remembered even by those who lack the text, and never answered.

``news`` (the note's proposal to forward only what is new, alone). When the table of a message
differs from the one last sent, the message and its table go to all who are not known to be at
stage 2. A process's own delivery is such news.

Why the guarantees hold.
- No Duplication: a message is delivered only as its origin's next one, which then moves on; a
  message that is finished is not looked at again.
- No Creation: text and vector are written once, by the origin, and only ever copied.
- Validity and Uniform Agreement, ``ring``: a correct origin holds its message, and of any Q holders
  one is correct. Of the f + 1 that follow a correct holder in the ring one is correct, and gets
  the text; so it goes once around, and every correct process holds it. Each of them has spoken
  to everybody, so everybody knows of Q holders.
- Validity and Uniform Agreement, ``news``: a correct holder's first word goes, with the text, to
  all but those it knows to have delivered. So every correct process holds or has delivered it,
  and who has not delivered it hears so from every other.
- Causal Order: a message carries what its origin had delivered, and waits for it (holdback.py).

What it costs. ``ring``: n(n-1) packets and two delays in the best case for one broadcast, of
which n(f+1) carry the text. If the direct copies are slow, the text may have to walk the ring.
``news``: packets in the order of n^3, since each of n tables grows up to n times and each growth
is told to n. It ends all the same, for a table can grow 2n times at most.

State. ``ring`` forgets a message when it delivers it. What remains of a crashed process's words
(a text too few hold, a notice without its text) stays. ``news`` forgets a message when everybody
is known to have delivered it. A crashed member never will have: from then on every message stays,
text and table, though nothing more is sent about it. That is one more reason why it is not the
default.

Where we differ from the fifth note.
- It compares with the vector of whoever sent this copy, and counts what was received. The first
  makes the answer overtake the question when the relayer knows less than the origin, or wait for
  something later than itself when it knows more; the second waits for messages that may have
  died with their origin. Here the vector is the origin's, of deliveries, fixed at the broadcast.
- It goes over the held messages once per packet. One delivery may free another, and perhaps no
  further packet comes: here they are gone over until none is freed.
- It forwards on every receipt, which costs about n^4 packets, and never ends if a message can
  never be delivered because its predecessor died with the origin. Hence the two forms.
- Its "half of the group is enough to send to" says neither which half nor how the others come
  to know. At n = 3 a text that goes to one neighbour only can end with it. Hence the ring, where
  everybody's f + 1 are different ones, and the notices.
- In ``news`` a delivery is told also to those who have delivered before, in a NOTICE: otherwise
  nobody would learn of the last delivery, and nobody could ever forget the message.
"""

from collections.abc import Iterator

from tidings.core import (
    Accept,
    Broadcast,
    Choose,
    Effect,
    Event,
    Members,
    MessageId,
    Packet,
    Receive,
    Send,
    UsageError,
    quorum,
    take_first,
)
from tidings.protocols.holdback import Carrying, HoldBack, Stamped

FORMS = ("ring", "news")

ABSENT, HOLDS, DELIVERED = "012"
"""The stages of a process. A table is a string of them, one for each member in order."""


class Gossip(Carrying, frozen=True, tag="gossip"):
    """The message, and how far everybody is known to be with it."""

    stages: str

    def __str__(self) -> str:
        return f"gossip {self.message}, stages {self.stages}"


class StageNotice(Packet, frozen=True, tag="notice"):
    """How far everybody is known to be, for one who gets the text elsewhere, or has it."""

    id: MessageId
    stages: str

    def __str__(self) -> str:
        return f"notice {self.id}, stages {self.stages}"


class StageGossip(HoldBack):
    def __init__(
        self, me: str, members: Members, choose: Choose = take_first, *, form: str = "ring"
    ) -> None:
        if form not in FORMS:
            raise UsageError(f"stage-gossip has no form {form!r}; it has: {', '.join(FORMS)}")
        super().__init__(me, members, choose)
        self.form = form
        self.stages: dict[MessageId, str] = {}
        """The tables of all messages that are not finished."""
        self.announced: dict[MessageId, str] = {}
        """news: the table last sent for each of them."""
        self.log: dict[MessageId, Stamped] = {}
        """news: those that are delivered here and not known to be everywhere."""

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts):
                for text in texts:
                    message = self._stamp(text)
                    yield Accept((message.id,))
                    yield from self._take(message, self._my(ABSENT))
            case Receive(_, Gossip(message, stages)):
                if not self._is_over(message.id):
                    yield from self._take(message, stages)
            case Receive(_, StageNotice(message_id, stages)):
                if not self._is_over(message_id):
                    yield from self._note(message_id, stages)

    def _take(self, message: Stamped, stages: str) -> Iterator[Effect]:
        self._merge(message.id, stages)
        if not self._has_text(message.id):
            self._merge(message.id, self._my(HOLDS))
            yield from self._hold(message)
            if self.form == "ring":
                yield from self._speak(message)
        yield from self._deliver_what_is_ready()
        yield from self._spread_news(message.id)

    def _note(self, message: MessageId, stages: str) -> Iterator[Effect]:
        self._merge(message, stages)
        yield from self._deliver_what_is_ready()
        yield from self._spread_news(message)

    def _packet(self, message: Stamped) -> Gossip:
        return Gossip(message, self.stages[message.id])

    # --- stages

    def _my(self, stage: str) -> str:
        """The table of one who knows of nobody but itself."""
        return "".join(stage if member == self.me else ABSENT for member in self.members)

    def _merge(self, message: MessageId, stages: str) -> None:
        known = self.stages.get(message, self._my(ABSENT))
        self.stages[message] = "".join(map(max, known, stages))

    def _at(self, message: MessageId, *stages: str) -> Members:
        """The members known to be at one of these stages."""
        table = zip(self.members, self.stages[message], strict=True)
        return tuple(member for member, stage in table if stage in stages)

    def _has_text(self, message: MessageId) -> bool:
        return message in self.waiting or message in self.log

    def _is_over(self, message: MessageId) -> bool:
        """Delivered, and nothing is left to be told about it: whatever still comes is late."""
        return self._is_finished(message) and message not in self.stages

    # --- safety

    def _is_safe(self, message: MessageId) -> bool:
        return len(self._at(message, HOLDS, DELIVERED)) >= quorum(len(self.members))

    def _lacks(self, message: MessageId) -> str:
        missing = quorum(len(self.members)) - len(self._at(message, HOLDS, DELIVERED))
        silent = ", ".join(self._at(message, ABSENT))
        return f"{missing} more of {silent} to be known to hold it" if missing > 0 else ""

    def _deliver(self, message: Stamped) -> Iterator[Effect]:
        yield from super()._deliver(message)
        if self.form == "news":
            self.log[message.id] = message
            yield from self._announce_delivery(message)

    def _forget(self, message: MessageId) -> None:
        if self.form == "ring":
            del self.stages[message]

    # --- ring

    def _speak(self, message: Stamped) -> Iterator[Effect]:
        """Tell everybody, once; those to whom the text is sent are enough to carry it around."""
        successors = self._successors()
        yield Send(successors, self._packet(message))
        bystanders = self._bystanders(successors)
        if bystanders:
            yield Send(bystanders, StageNotice(message.id, self.stages[message.id]))

    def _successors(self) -> Members:
        """The f + 1 members that follow in the ring, the last of which follows the first."""
        here = self.members.index(self.me)
        after = self.members[here + 1 :] + self.members[:here]
        return after[: quorum(len(self.members))]

    def _bystanders(self, successors: Members) -> Members:
        return tuple(member for member in self.others if member not in successors)

    # --- news

    def _spread_news(self, message: MessageId) -> Iterator[Effect]:
        """Forward the message if there is news of it; forget it once there can be none."""
        if self.form != "news" or not self._has_text(message):
            return
        listeners = self._listeners(message)
        if listeners and self._is_news(message):
            self.announced[message] = self.stages[message]
            held = self.log.get(message) or self.waiting[message]
            yield Send(listeners, self._packet(held))
        if self.stages[message] == DELIVERED * len(self.members):
            for forgetful in (self.stages, self.announced, self.log):
                forgetful.pop(message, None)

    def _listeners(self, message: MessageId) -> Members:
        """Those who are not known to have delivered it."""
        behind = self._at(message, ABSENT, HOLDS)
        return tuple(member for member in behind if member != self.me)

    def _is_news(self, message: MessageId) -> bool:
        return self.stages[message] != self.announced.get(message)

    def _announce_delivery(self, message: Stamped) -> Iterator[Effect]:
        done = self._at(message.id, DELIVERED)
        self._merge(message.id, self._my(DELIVERED))
        if done:
            yield Send(done, StageNotice(message.id, self.stages[message.id]))
        yield from self._spread_news(message.id)
