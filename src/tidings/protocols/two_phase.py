"""two-phase (the fourth note): first ask who holds the message, then say that it may be delivered.

The idea. The origin sends the message to all in a BCAST, and whoever gets it acknowledges it to
the origin with an ACK. When Q = ceil(n/2) processes hold it, itself counted, the origin sends
BCAST_DELIVER to all; whoever gets one for the first time passes it on to all. A process delivers
a message when Q distinct processes, itself counted, are known to have sent its BCAST_DELIVER.

Why the guarantees hold.
- No Duplication: a message is delivered only as its origin's next one, which then moves on; and
  whatever speaks of a delivered message is ignored.
- No Creation: text and vector are written once, by the origin, and only ever copied.
- Validity: the correct processes are at least Q, so a correct origin is acknowledged by enough
  of them and sends BCAST_DELIVER to all; they pass it on, and everybody counts Q of them.
- Uniform Agreement: Q senders of BCAST_DELIVER include a correct one. Its packets make every
  correct process a sender too, and these alone are Q. It does not matter who got the BCAST.
- Causal Order: a message carries what its origin had delivered, and waits for it (holdback.py).

What it costs. BCAST and ACK are 2(n-1) packets, BCAST_DELIVER n(n-1): (n-1)(n+2) together. Four
delays: BCAST, ACK, BCAST_DELIVER, and its relay; the origin itself delivers at the fourth too.
The first phase buys nothing that the second does not: it is why this is not the protocol to run.
State: a vector, and the messages that are not delivered yet. What a crashed origin left between
its phases stays held, for nobody can know that its BCAST_DELIVER is not still on its way.

Where we differ from the fourth note.
- There one BCAST_DELIVER is enough to deliver. The origin can then deliver, and crash so that
  every BCAST_DELIVER it sent is lost: nobody else will deliver. Hence the Q senders; and since a
  process may meet BCAST_DELIVER without ever having had the BCAST, it carries text and vector.
- There a message is known by its text, and a text said twice is lost. Here by origin and number.
- There acknowledgements are counted. Here it is known whose they are, so that a packet that
  arrives twice counts once; and the origin is among them, or it could never speak alone.
- FINACK, the answer to BCAST_DELIVER, made the origin deliver. The relays do that now.
- There is no order in the note. Here there is a vector.
- A BCAST that comes after BCAST_DELIVER is not acknowledged: the origin has enough already.
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
    quorum,
    take_first,
)
from tidings.protocols.holdback import Carrying, HoldBack, Stamped


class Bcast(Carrying, frozen=True, tag="bcast"):
    """The first phase: here is a message, do you hold it?"""


class Ack(Packet, frozen=True, tag="ack"):
    """To the origin: the sender of this holds the message."""

    id: MessageId


class BcastDeliver(Carrying, frozen=True, tag="bcast-deliver"):
    """The second phase: enough processes hold it. The text travels along once more."""


class TwoPhase(HoldBack):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.ackers: dict[MessageId, set[str]] = {}
        """Of own messages in their first phase: who is known to hold them."""
        self.relayers: dict[MessageId, set[str]] = {}
        """Of messages in their second phase: who is known to have sent BCAST_DELIVER."""

    @property
    def indifferent(self) -> bool:
        return True

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts):
                for text in texts:
                    message = self._stamp(text)
                    yield Accept((message.id,))
                    yield from self._ask(message)
            case Receive(_, Bcast(message)):
                if self._is_new(message):
                    yield from self._acknowledge(message)
            case Receive(sender, Ack(message_id)):
                yield from self._count_ack(message_id, sender)
            case Receive(sender, BcastDeliver(message)):
                if not self._is_finished(message.id):
                    yield from self._take(message, sender)

    # --- the first phase

    def _ask(self, message: Stamped) -> Iterator[Effect]:
        self.ackers[message.id] = self._first_ackers()
        yield from self._hold(message)
        yield Send(self.others, Bcast(message))
        yield from self._release(message)

    def _first_ackers(self) -> set[str]:
        """Who holds a message before anybody has answered."""
        return {self.me}

    def _is_new(self, message: Stamped) -> bool:
        return not self._is_finished(message.id) and message.id not in self.waiting

    def _acknowledge(self, message: Stamped) -> Iterator[Effect]:
        yield from self._hold(message)
        yield Send((message.id.origin,), Ack(message.id))

    def _count_ack(self, message: MessageId, acker: str) -> Iterator[Effect]:
        # Who acknowledges late, after the first phase has ended, changes nothing.
        if message in self.ackers:
            self.ackers[message].add(acker)
            yield from self._release(self.waiting[message])

    def _release(self, message: Stamped) -> Iterator[Effect]:
        """Begin the second phase of an own message as soon as enough processes hold it."""
        if len(self.ackers[message.id]) >= quorum(len(self.members)):
            del self.ackers[message.id]
            yield from self._relay(message)
            yield from self._deliver_what_is_ready()

    # --- the second phase

    def _take(self, message: Stamped, sender: str) -> Iterator[Effect]:
        if message.id not in self.waiting:
            yield from self._hold(message)
        if message.id not in self.relayers:
            yield from self._relay(message)
        self.relayers[message.id].add(sender)
        yield from self._deliver_what_is_ready()

    def _relay(self, message: Stamped) -> Iterator[Effect]:
        self.relayers[message.id] = {self.me}
        yield Send(self.others, BcastDeliver(message))

    def _is_safe(self, message: MessageId) -> bool:
        return len(self.relayers.get(message, ())) >= quorum(len(self.members))

    def _lacks(self, message: MessageId) -> str:
        if message in self.ackers:
            return self._more(self.ackers[message], "acknowledge it")
        if message not in self.relayers:
            return f"{message.origin} to say that enough processes hold it"
        return self._more(self.relayers[message], "say that enough processes hold it")

    def _more(self, known: set[str], act: str) -> str:
        missing = quorum(len(self.members)) - len(known)
        silent = ", ".join(member for member in self.members if member not in known)
        return f"{missing} more of {silent} to {act}" if missing > 0 else ""

    def _forget(self, message: MessageId) -> None:
        del self.relayers[message]
