"""What was delivered is read back in pieces, and handed over again with causes first.

The order of the first delivery is not remembered: it would take as much memory as there are
messages. Any order will do that keeps each origin's messages in theirs and puts causes before what
they caused, and such an order follows from the messages themselves. So all that is remembered is
two numbers for each origin: up to where everything was handed over, and up to where to go.

There is always a next one. Of all that is left take the message that was delivered first: what
caused it was delivered before it, so nothing of that is left. Each origin has its share of the
memory, for its next messages. So when the next message of every origin has been read, one of them
is due.
"""

from collections.abc import Iterable, Mapping

from tidings.core.message import Message, MessageId

Causes = tuple[MessageId, ...]
"""What must be handed over before a message, beside its origin's message before it."""
Found = tuple[Message, Causes]

_CAUSE_BYTES = 64
"""What a cause takes in memory, about."""


class Rereading:
    """From ``handed``, which it moves, to ``upto``.

    At most ``most`` messages and about ``most_bytes`` are in memory, but always one of each origin.
    """

    def __init__(
        self, handed: dict[str, int], upto: Mapping[str, int], most: int, most_bytes: int
    ) -> None:
        self.handed = handed
        self.upto = dict(upto)
        self._share = max(1, most // len(self.upto))
        self._share_bytes = most_bytes // len(self.upto)
        self._found: dict[str, dict[int, Found]] = {origin: {} for origin in self.upto}
        self._bytes = dict.fromkeys(self.upto, 0)

    @property
    def is_over(self) -> bool:
        return all(self.handed[origin] >= last for origin, last in self.upto.items())

    @property
    def in_memory(self) -> int:
        """How many messages were read and are not due."""
        return sum(map(len, self._found.values()))

    def wanted(self) -> tuple[MessageId, int]:
        """Which message to read next, and the last of those after it that there is room for."""
        for origin, last in self.upto.items():
            following = self.handed[origin] + 1
            if following <= last and following not in self._found[origin]:
                return MessageId(origin, following), min(last, self.handed[origin] + self._share)
        raise AssertionError(f"what is left after {self.handed} waits for itself")

    def add(self, wanted: MessageId, found: Iterable[Found]) -> None:
        """This was read: the wanted message, and whatever stood near it."""
        origin, seq = wanted
        for message, causes in found:
            self._keep(message, causes)
            if seq in self._found[origin] and not self._has_room(origin):
                break
        assert seq in self._found[origin], f"{wanted} is not processed, and not kept"

    def _has_room(self, origin: str) -> bool:
        is_full = len(self._found[origin]) >= self._share
        return not is_full and self._bytes[origin] < self._share_bytes

    def _keep(self, message: Message, causes: Causes) -> None:
        origin, seq = message.id
        ahead = seq - self.handed[origin]
        is_wanted = ahead > 0 and seq <= self.upto[origin] and ahead <= self._share
        has_room = ahead == 1 or self._has_room(origin)
        if is_wanted and has_room and seq not in self._found[origin]:
            self._found[origin][seq] = (message, causes)
            self._bytes[origin] += _size(message, causes)

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
        self._bytes[origin] -= _size(*self._found[origin].pop(seq))

    def skip(self, processed: Mapping[str, int]) -> None:
        """Nobody waits for these any more, and they may be kept no longer."""
        for origin, last in processed.items():
            if last > self.handed[origin]:
                self.handed[origin] = last
                for seq in [seq for seq in self._found[origin] if seq <= last]:
                    self._drop(origin, seq)


def _size(message: Message, causes: Causes) -> int:
    return len(message.text) + _CAUSE_BYTES * len(causes)
