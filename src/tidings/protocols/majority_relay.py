"""majority-relay: everybody passes everything on, and nobody speaks before half have.

The idea. On the first copy of a message a process relays it to all. It remembers who is known
to have relayed the message and delivers it when Q = ceil(n/2) of them are, itself counted.
Among any Q processes one is correct, and a correct relayer's copies reach everybody: so what
one process delivers, all correct ones will.

Why the guarantees hold.
- No Duplication: a message is delivered only as its origin's next one, which then moves on.
- No Creation: packets are copies of what the origin sent; links do not invent.
- Validity: all correct processes relay, and they are at least Q; the origin's own vector never
  waits for anything the origin has not delivered.
- Uniform Agreement: Q relayers include a correct one, whose copies make every correct process
  relay in turn; each of these then counts Q relayers. Predecessors follow by induction.
- Causal Order: a copy carries what its origin had delivered at the broadcast, and waits for it.

What it costs. n(n-1) packets and two delays for one broadcast; the payload travels with every
packet. State: a vector, and the messages that are not delivered yet.

Where we differ from the note. It forgets the set of relayers at delivery, after which a late
copy looks new and is relayed a second time. Here "I have relayed it" needs no memory of its own:
everything is relayed before it is delivered, and what is delivered is a prefix per origin.
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
    Process,
    Receive,
    Send,
    quorum,
    take_first,
)


class Copy(Packet, frozen=True, tag="copy"):
    """A message and what its origin had delivered when it broadcast it, in member order."""

    id: MessageId
    text: bytes
    causes: tuple[int, ...]


class MajorityRelay(Process):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.seq = 0
        self.delivered = dict.fromkeys(members, 0)
        self.waiting: dict[MessageId, Copy] = {}
        self.relayers: dict[MessageId, set[str]] = {}

    def step(self, event: Event) -> list[Effect]:
        return list(self._react(event))

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts):
                for text in texts:
                    yield from self._broadcast(text)
            case Receive(sender, Copy() as copy):
                yield from self._take(copy, sender)

    def _broadcast(self, text: bytes) -> Iterator[Effect]:
        self.seq += 1
        copy = Copy(MessageId(self.me, self.seq), text, tuple(self.delivered.values()))
        yield Accept((copy.id,))
        yield from self._take(copy, self.me)

    def _take(self, copy: Copy, sender: str) -> Iterator[Effect]:
        if copy.id.seq <= self.delivered[copy.id.origin]:
            return
        if copy.id not in self.waiting:
            self.waiting[copy.id] = copy
            self.relayers[copy.id] = {self.me}
            yield Held((copy.id,))
            yield Send(self.others, copy)
        self.relayers[copy.id].add(sender)
        yield from self._deliver_what_is_ready()

    def _deliver_what_is_ready(self) -> Iterator[Effect]:
        """Every delivery may free another: look again until a whole round frees none."""
        progress = True
        while progress:
            progress = False
            for origin in self.members:
                copy = self.waiting.get(MessageId(origin, self.delivered[origin] + 1))
                if copy is not None and self._is_ready(copy):
                    progress = True
                    yield from self._deliver(copy)

    def _is_ready(self, copy: Copy) -> bool:
        return self._is_safe(copy.id) and self._causes_are_delivered(copy)

    def _is_safe(self, message: MessageId) -> bool:
        return len(self.relayers[message]) >= quorum(len(self.members))

    def _causes_are_delivered(self, copy: Copy) -> bool:
        return all(
            have >= need for have, need in zip(self.delivered.values(), copy.causes, strict=True)
        )

    def _deliver(self, copy: Copy) -> Iterator[Effect]:
        self.delivered[copy.id.origin] = copy.id.seq
        del self.waiting[copy.id], self.relayers[copy.id]
        yield Deliver((Message(copy.id, copy.text),))

    def why(self, message: MessageId) -> str:
        if message.origin not in self.delivered:
            return f"{message.origin} is not a member"
        if message.seq <= self.delivered[message.origin]:
            return f"{self.me} has delivered {message}"
        if message not in self.waiting:
            return f"{self.me} has never seen {message}"
        copy, relayers = self.waiting[message], self.relayers[message]
        reasons = []
        if (missing := quorum(len(self.members)) - len(relayers)) > 0:
            silent = [member for member in self.members if member not in relayers]
            reasons.append(f"{missing} more of {', '.join(silent)} to relay it")
        if self.delivered[message.origin] < message.seq - 1:
            reasons.append(f"{MessageId(message.origin, message.seq - 1)} to be delivered first")
        reasons += [
            f"its cause {MessageId(origin, need)}"
            for (origin, have), need in zip(self.delivered.items(), copy.causes, strict=True)
            if have < need
        ]
        return f"{message} waits at {self.me} for " + ", and for ".join(reasons)
