"""What the algorithms with vectors share: messages that know their causes, and wait for them.

A message carries what its origin had delivered when it broadcast it, one number per member.
It is delivered as its origin's next message, once it is *safe* (which is what the algorithms
differ in) and everything its origin had delivered is delivered here too.
"""

from abc import abstractmethod
from collections.abc import Iterator

import msgspec

from tidings.core import (
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
    take_first,
)
from tidings.core.renaming import Vector


class Stamped(msgspec.Struct, frozen=True, array_like=True):
    """A message and what its origin had delivered when it broadcast it, in member order."""

    id: MessageId
    text: bytes
    causes: Vector

    def __str__(self) -> str:
        return f"{self.id} after {self.causes}" if any(self.causes) else str(self.id)


class Carrying(Packet, frozen=True):
    """A packet with a message in it; the base of those that carry one."""

    message: Stamped

    @property
    def about(self) -> MessageId:
        return self.message.id

    def __str__(self) -> str:
        return f"{self.kind} {self.message}"


class HoldBack(Process):
    """A process with a hold-back queue ordered by vectors."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.seq = 0
        self.delivered = dict.fromkeys(members, 0)
        self.waiting: dict[MessageId, Stamped] = {}

    def step(self, event: Event) -> list[Effect]:
        return list(self._react(event))

    @abstractmethod
    def _react(self, event: Event) -> Iterator[Effect]: ...

    @abstractmethod
    def _is_safe(self, message: MessageId) -> bool:
        """Whether every correct process is bound to get the message, whoever crashes now."""

    @abstractmethod
    def _lacks(self, message: MessageId) -> str:
        """What is missing for a message that is held to be safe, in words; empty if nothing."""

    def _forget(self, message: MessageId) -> None:
        """The message is being delivered: drop what was only needed until then."""

    def _stamp(self, text: bytes) -> Stamped:
        """The user's text as this process's next message."""
        self.seq += 1
        causes = tuple(self.delivered.values())
        return Stamped(MessageId(self.me, self.seq), text, causes)

    def _is_finished(self, message: MessageId) -> bool:
        return message.seq <= self.delivered[message.origin]

    def _hold(self, message: Stamped) -> Iterator[Effect]:
        self.waiting[message.id] = message
        yield Held((message.id,))

    def _deliver_what_is_ready(self) -> Iterator[Effect]:
        """Every delivery may free another: look again until a whole round frees none."""
        progress = True
        while progress:
            progress = False
            for origin in self.members:
                message = self.waiting.get(MessageId(origin, self.delivered[origin] + 1))
                if message is not None and self._is_ready(message):
                    progress = True
                    yield from self._deliver(message)

    def _is_ready(self, message: Stamped) -> bool:
        return self._is_safe(message.id) and self._causes_are_delivered(message)

    def _causes_are_delivered(self, message: Stamped) -> bool:
        return all(
            have >= need for have, need in zip(self.delivered.values(), message.causes, strict=True)
        )

    def _deliver(self, message: Stamped) -> Iterator[Effect]:
        self.delivered[message.id.origin] = message.id.seq
        del self.waiting[message.id]
        self._forget(message.id)
        yield Deliver((Message(*message.id, message.text),))

    def why(self, message: MessageId) -> str:
        if message.origin not in self.delivered:
            return f"{message.origin} is not a member"
        if self._is_finished(message):
            return f"{self.me} has delivered {message}"
        if message not in self.waiting:
            return f"{self.me} does not hold {message}"
        reasons = [self._lacks(message)] if self._lacks(message) else []
        if self.delivered[message.origin] < message.seq - 1:
            reasons.append(f"{MessageId(message.origin, message.seq - 1)} to be delivered first")
        causes = zip(self.delivered.items(), self.waiting[message].causes, strict=True)
        reasons += [
            f"its cause {MessageId(origin, need)}" for (origin, have), need in causes if have < need
        ]
        return f"{message} waits at {self.me} for " + ", and for ".join(reasons)
