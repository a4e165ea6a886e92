"""What is delivered and waits for the program: the first of it in memory, the rest on disk.

A member goes on acknowledging whether its program reads or not: the others rely on it, and the
program itself may wait for its own broadcast before it reads on. So what is too much for memory
stays where it is already, in the log, and is read back when its turn comes; only the order is
remembered. A group that keeps nothing on disk has nowhere to leave it: it must stop listening.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from tidings.core import Message, MessageId
from tidings.node.config import NO_LIMIT, Limits
from tidings.node.tracing import stretches

Recall = Callable[[MessageId, int], Awaitable[dict[int, Message]]]
"""Reads messages of one origin back, from this one on, or the first of them if they are many."""


class Replayed(Message, frozen=True, array_like=True):
    """A message that was handed over before a restart, or was just about to be."""


class Run(msgspec.Struct):
    """Messages of one origin that follow each other, and are on disk alone."""

    origin: str
    first: int
    count: int
    is_again: bool
    """Whether they are replayed."""


class Unread:
    def __init__(self, limits: Limits, recall: Recall | None) -> None:
        self.ready: deque[Message] = deque()
        """What can be handed over at once."""
        self._bytes = 0
        """How long the texts of those are."""
        self._limits = limits
        self._recall = recall
        self._later: deque[Run] = deque()
        self._later_count = 0
        self._found: dict[str, dict[int, Message]] = {}
        """By origin, what was read back and is not yet due."""

    def __len__(self) -> int:
        return len(self.ready) + self._later_count

    @property
    def has_later(self) -> bool:
        return bool(self._later)

    @property
    def is_too_much(self) -> bool:
        """For memory."""
        limits = self._limits
        return len(self.ready) >= limits.unread_messages or self._bytes >= limits.unread_bytes

    def add(self, messages: Sequence[Message]) -> None:
        """These come next."""
        size = sum([len(message.text) for message in messages])
        room = self._room_for(messages, size)
        if room == len(messages):
            self.ready.extend(messages)
            self._bytes += size
            return
        for message in messages[:room]:
            self._make_ready(message)
        again = isinstance(messages[0], Replayed)
        for origin, first, count in stretches([one.id for one in messages[room:]]):
            self._leave_for_later(origin, first, count, again)

    def _room_for(self, messages: Sequence[Message], size: int) -> int:
        """How many of them may stay in memory; their texts are of this size."""
        if self._recall is None:
            return len(messages)
        if self._later:
            return 0
        room = max(0, self._limits.unread_messages - len(self.ready))
        room_bytes = self._limits.unread_bytes - self._bytes
        if len(messages) <= room and size <= room_bytes:
            return len(messages)
        fitting = 0
        for message in messages[:room]:
            room_bytes -= len(message.text)
            if room_bytes < 0:
                break
            fitting += 1
        return fitting

    def _make_ready(self, message: Message) -> None:
        self.ready.append(message)
        self._bytes += len(message.text)

    def pop(self) -> Message:
        message = self.ready.popleft()
        self._bytes -= len(message.text)
        return message

    def _leave_for_later(self, origin: str, first: int, count: int, again: bool) -> None:
        self._later_count += count
        last = self._later[-1] if self._later else None
        if last is not None and (last.origin, last.is_again) == (origin, again):
            last.count += count
        else:
            self._later.append(Run(origin, first, count, again))

    async def read_back(self, processed: Mapping[str, int]) -> None:
        """Some of what is on disk becomes ready; what the program has processed is left out.

        Cancelled, it has done nothing.
        """
        assert self._recall is not None, "there is no disk to read from"
        run = self._later[0]
        self._skip(run, processed.get(run.origin, 0))
        found = self._found.get(run.origin, {})
        if run.count and run.first not in found:
            # More than this run: the next one of its origin most often follows on it.
            found = await self._recall(MessageId(run.origin, run.first), NO_LIMIT)
            self._found[run.origin] = found
            assert run.first in found, f"{run.origin}#{run.first} is not processed, and not kept"
        while run.count and run.first in found:
            message = found.pop(run.first)
            again = Replayed(message.id, message.text) if run.is_again else message
            self._make_ready(again)
            self._advance(run, 1)
        if not run.count and self._later and self._later[0] is run:
            self._later.popleft()
        if not self._later:
            self._found.clear()

    def _skip(self, run: Run, processed: int) -> None:
        """What is processed may be kept no longer."""
        self._advance(run, min(run.count, max(0, processed + 1 - run.first)))

    def _advance(self, run: Run, count: int) -> None:
        run.first += count
        run.count -= count
        self._later_count -= count
