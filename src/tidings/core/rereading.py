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

_MESSAGE_BYTES, _CAUSE_BYTES = 200, 64
"""What a message takes in memory beside its text, and each of its causes, about."""


class Rereading:
    """From ``handed``, which it moves, to ``upto``.

    About ``most_bytes`` are in memory, but at least one message of each origin.
    """

    def __init__(self, handed: dict[str, int], upto: Mapping[str, int], most_bytes: int) -> None:
        self.handed = handed
        self.upto = dict(upto)
        self.share = most_bytes // len(self.upto)
        """How many bytes each origin may take."""
        self._found: dict[str, dict[int, Found]] = {origin: {} for origin in self.upto}
        self._bytes = dict.fromkeys(self.upto, 0)

    @property
    def is_over(self) -> bool:
        return all(self.handed[origin] >= last for origin, last in self.upto.items())

    @property
    def in_memory(self) -> int:
        """How many messages were read and are not due."""
        return sum(map(len, self._found.values()))

    def wanted(self) -> MessageId:
        """Which message to read next; those that follow it will be wanted soon."""
        for origin, last in self.upto.items():
            following = self.handed[origin] + 1
            if following <= last and following not in self._found[origin]:
                return MessageId(origin, following)
        raise AssertionError(f"what is left after {self.handed} waits for itself")

    def add(self, wanted: MessageId, found: Iterable[Found]) -> None:
        """This was read: the wanted message, and whatever stood near it."""
        origin, seq = wanted
        for message, causes in found:
            self._keep(message, causes)
            if seq in self._found[origin] and self._bytes[origin] >= self.share:
                break
        assert seq in self._found[origin], f"{wanted} is not processed, and not kept"

    def _keep(self, message: Message, causes: Causes) -> None:
        origin, seq = message.id
        if origin not in self.upto:
            return  # nothing is wanted of it
        following = self.handed[origin] + 1
        has_room = seq == following or self._bytes[origin] < self.share
        is_wanted = following <= seq <= self.upto[origin]
        if is_wanted and has_room and seq not in self._found[origin]:
            self._found[origin][seq] = (message, causes)
            self._bytes[origin] += _size(message, causes)

    def take(self) -> list[Message]:
        """What can be handed over now; it counts as handed over."""
        due: list[Message] = []
        before = -1
        while len(due) > before:
            before = len(due)
            for origin in self._found:
                self._take_of(origin, due)
        return due

    def _take_of(self, origin: str, due: list[Message]) -> None:
        found, handed = self._found[origin], self.handed
        while (following := found.get(handed[origin] + 1)) is not None:
            message, causes = following
            if causes and any(handed.get(cause, seq) < seq for cause, seq in causes):
                return
            self._drop(origin, handed[origin] + 1)
            handed[origin] += 1
            due.append(message)

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
    return len(message.text) + _MESSAGE_BYTES + _CAUSE_BYTES * len(causes)
