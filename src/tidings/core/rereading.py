"""What was delivered is read back in pieces, and handed over again with causes first.

The order of the first delivery is not remembered: it would take as much memory as there are
messages. Any order will do that keeps each origin's messages in theirs and puts causes before what
they caused, and such an order follows from the messages themselves. So all that is remembered is
two numbers for each origin: up to where everything was handed over, and up to where to go.

There is always a next one. Of all that is left take the message that was delivered first: what
caused it was delivered before it, so nothing of that is left. Origins whose next message is not in
memory are read in turn; sooner or later it is the turn of this one.
"""

from collections.abc import Iterable, Mapping

from tidings.core.message import Message, MessageId

Causes = tuple[MessageId, ...]
"""What must be handed over before a message, beside its origin's message before it."""
Found = tuple[Message, Causes]

_CAUSE_BYTES = 64
"""What a cause takes in memory, about."""


class Rereading:
    """From ``handed``, which it moves, to ``upto``; not much more than so much is in memory."""

    def __init__(
        self, handed: dict[str, int], upto: Mapping[str, int], most: int, most_bytes: int
    ) -> None:
        self.handed = handed
        self.upto = dict(upto)
        self.in_memory = 0
        """How many messages were read and are not due."""
        self._bytes = 0
        self._most, self._most_bytes = most, most_bytes
        self._found: dict[str, dict[int, Found]] = {origin: {} for origin in upto}
        self._turns = list(upto)

    @property
    def is_over(self) -> bool:
        return all(self.handed[origin] >= last for origin, last in self.upto.items())

    def wanted(self) -> MessageId:
        """Which message to read next; those that follow it will be wanted soon."""
        for origin in self._turns:
            seq = self.handed[origin] + 1
            if seq <= self.upto[origin] and seq not in self._found[origin]:
                self._turns.remove(origin)
                self._turns.append(origin)
                return MessageId(origin, seq)
        raise AssertionError(f"what is left after {self.handed} waits for itself")

    def add(self, wanted: MessageId, found: Iterable[Found]) -> None:
        """This was read: the wanted message, and whatever stood near it."""
        if self._is_full:
            # None of it is due. What is in hand may be, and then there is room again.
            self._forget()
        has_wanted = False
        for message, causes in found:
            is_wanted = message.id == wanted
            if is_wanted or not self._is_full:
                self._keep(message, causes)
                has_wanted |= is_wanted
            elif has_wanted:
                break
        assert has_wanted, f"{wanted} is not processed, and not kept"

    @property
    def _is_full(self) -> bool:
        return self.in_memory >= self._most or self._bytes >= self._most_bytes

    def _keep(self, message: Message, causes: Causes) -> None:
        origin, seq = message.id
        if self.handed[origin] < seq <= self.upto[origin] and seq not in self._found[origin]:
            self._found[origin][seq] = (message, causes)
            self.in_memory += 1
            self._bytes += _size(message, causes)

    def _forget(self) -> None:
        for found in self._found.values():
            found.clear()
        self.in_memory = self._bytes = 0

    def take(self) -> list[Message]:
        """What can be handed over now; it counts as handed over."""
        taken: list[Message] = []
        before = -1
        while len(taken) > before:
            before = len(taken)
            for origin in self._found:
                self._take_of(origin, taken)
        return taken

    def _take_of(self, origin: str, taken: list[Message]) -> None:
        found, handed = self._found[origin], self.handed
        while (following := found.get(handed[origin] + 1)) is not None:
            message, causes = following
            if causes and any(handed[cause] < seq for cause, seq in causes):
                return
            self._drop(origin, handed[origin] + 1)
            handed[origin] += 1
            taken.append(message)

    def _drop(self, origin: str, seq: int) -> None:
        self._bytes -= _size(*self._found[origin].pop(seq))
        self.in_memory -= 1

    def skip(self, processed: Mapping[str, int]) -> None:
        """Nobody waits for these any more, and they may be kept no longer."""
        for origin, last in processed.items():
            if last > self.handed[origin]:
                self.handed[origin] = last
                for seq in [seq for seq in self._found[origin] if seq <= last]:
                    self._drop(origin, seq)


def _size(message: Message, causes: Causes) -> int:
    return len(message.text) + _CAUSE_BYTES * len(causes)
