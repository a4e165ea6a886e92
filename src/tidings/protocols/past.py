"""What the algorithms that name the causal past share: counting holders, and waiting for causes.

A message is tried when enough processes hold it. If a cause is missing, it waits in the list of
that one cause, and is looked at again when the cause is delivered: no scan of all that waits.
"""

from abc import abstractmethod
from collections.abc import Iterator

from tidings.core import Choose, Effect, Event, Members, MessageId, Process, take_first


class PastNaming(Process):
    """A process whose messages name everything that came before them."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.seq = 0
        self.holders: dict[MessageId, set[str]] = {}
        """Of each message that waits: who is known to hold it."""
        self.blocked: dict[MessageId, list[MessageId]] = {}
        """Under a cause that is missing, messages that lack nothing but their past."""

    def step(self, event: Event) -> list[Effect]:
        return list(self._react(event))

    @abstractmethod
    def _react(self, event: Event) -> Iterator[Effect]: ...

    @abstractmethod
    def _is_safe(self, message: MessageId) -> bool:
        """Whether one of those who hold it is bound to be correct."""

    @abstractmethod
    def _missing_cause(self, message: MessageId) -> MessageId | None:
        """Something that must be delivered before the message and is not, if anything."""

    @abstractmethod
    def _deliver(self, message: MessageId) -> Iterator[Effect]: ...

    def _count(self, message: MessageId, holders: set[str]) -> Iterator[Effect]:
        """Note who holds a message that waits; the moment these are enough, try to deliver it."""
        if message not in self.holders:
            return
        was_safe = self._is_safe(message)
        self.holders[message] |= holders
        if not was_safe and self._is_safe(message):
            yield from self._deliver_from(message)

    def _deliver_from(self, message: MessageId) -> Iterator[Effect]:
        """Deliver the message if its past is delivered, and then whatever that sets free."""
        freed = [message]
        for one in freed:
            cause = self._missing_cause(one)
            if cause is not None:
                self.blocked.setdefault(cause, []).append(one)
                continue
            yield from self._deliver(one)
            freed += self.blocked.pop(one, ())
