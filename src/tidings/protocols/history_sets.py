"""history-sets (the second note): every message names everything that came before it.

The idea. A message carries the ids of all that its origin had broadcast or delivered: its causal
past, spelled out. On the first copy of a message a process relays it to all. It delivers the
message when Q = ceil(n/2) distinct processes, itself counted, are known to hold it, and the whole
past that the message names is delivered.

Why the guarantees hold.
- No Duplication: what is held is not taken again, and what is delivered waits no more.
- No Creation: a relay is the very packet that came; links do not invent.
- Validity: all correct processes hold the message in the end, and they are at least Q; all that
  the origin named it delivers itself, its own earlier messages by induction.
- Uniform Agreement: Q holders include a correct one. It relayed to all, so every correct process
  holds the message and relays in turn, and each counts Q. The past follows by induction: it is
  finite, and a message never names one that came later.
- Causal Order: it is the condition of delivery, word for word.

What it costs. n(n-1) packets and two delays for one broadcast, and a past that grows with every
message ever delivered: in the packets, and in the two sets of ids kept here. This file is the
yardstick for those that do better; interval_history.py says the same in a few ranges.

Where we differ from the note.
- It leaves a received message alone "if it was sent already", which is read most easily as
  never counting the copies that follow one's own relay. Here only the relay happens once.
- It counts copies. Links may duplicate, so we keep the set of those who hold the message: the
  senders of its copies, its origin (who may have sent us nothing) and ourselves.
- It tries to deliver on receipt only, and a group of one never receives. We try after the
  broadcast too.
- It looks through everything that waits until a whole pass delivers nothing. Here a message that
  is held by enough waits in the list of one missing cause and is looked at again when that cause
  is delivered, which comes to the same and reads each past once.
"""

from collections.abc import Iterator

from tidings.core import (
    Accept,
    Broadcast,
    Choose,
    Deliver,
    Effect,
    Event,
    Held,
    Members,
    Message,
    MessageId,
    Packet,
    Receive,
    Send,
    listed,
    quorum,
    take_first,
)
from tidings.protocols.past import PastNaming


class CopyWithPast(Packet, frozen=True, tag="copy"):
    """A message, and all that its origin had broadcast or delivered before it, sorted."""

    id: MessageId
    text: bytes
    past: tuple[MessageId, ...]

    def __str__(self) -> str:
        return f"copy {self.id}" + (f" after {listed(*self.past)}" if self.past else "")


class HistorySets(PastNaming):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.held: set[MessageId] = set()
        """Everything ever received or broadcast here, and so relayed."""
        self.delivered: set[MessageId] = set()
        self.texts: dict[MessageId, bytes] = {}
        self.missing: dict[MessageId, list[MessageId]] = {}
        """Of each waiting message the past, from the end of which what is delivered is struck."""

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts):
                for text in texts:
                    copy = self._write(text)
                    yield Accept((copy.id,))
                    yield from self._take(self.me, copy)
            case Receive(sender, CopyWithPast() as copy):
                yield from self._take(sender, copy)

    def _write(self, text: bytes) -> CopyWithPast:
        """The user's text as this process's next message."""
        own = (MessageId(self.me, seq) for seq in range(1, self.seq + 1))
        past = tuple(sorted(self.delivered.union(own)))
        self.seq += 1
        return CopyWithPast(MessageId(self.me, self.seq), text, past)

    def _take(self, sender: str, copy: CopyWithPast) -> Iterator[Effect]:
        if copy.id not in self.held:
            yield from self._hold(copy)
            yield from self._count(copy.id, {copy.id.origin, sender, self.me})
        else:
            yield from self._count(copy.id, {sender})

    def _hold(self, copy: CopyWithPast) -> Iterator[Effect]:
        self.held.add(copy.id)
        self.texts[copy.id] = copy.text
        self.holders[copy.id] = set()
        self.missing[copy.id] = list(copy.past)
        yield Held((copy.id,))
        yield Send(self.others, copy)

    def _is_safe(self, message: MessageId) -> bool:
        return len(self.holders[message]) >= quorum(len(self.members))

    def _missing_cause(self, message: MessageId) -> MessageId | None:
        missing = self.missing[message]
        while missing and missing[-1] in self.delivered:
            missing.pop()
        return missing[-1] if missing else None

    def _deliver(self, message: MessageId) -> Iterator[Effect]:
        assert message not in self.delivered, f"{self.me} would deliver {message} twice"
        self.delivered.add(message)
        del self.holders[message], self.missing[message]
        yield Deliver((Message(*message, self.texts.pop(message)),))

    def why(self, message: MessageId) -> str:
        if message in self.delivered:
            return f"{self.me} has delivered {message}"
        if message not in self.held:
            return f"{self.me} does not hold {message}"
        reasons = []
        holders = self.holders[message]
        lacking = quorum(len(self.members)) - len(holders)
        if lacking > 0:
            silent = ", ".join(member for member in self.members if member not in holders)
            reasons.append(f"{lacking} more of {silent} to hold it")
        causes = [cause for cause in self.missing[message] if cause not in self.delivered]
        reasons += [f"its cause {cause}" for cause in causes]
        return f"{message} waits at {self.me} for " + ", and for ".join(reasons)
