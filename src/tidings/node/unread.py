"""What is delivered and waits for the program: the first of it in memory, the rest on disk.

A member goes on acknowledging whether its program reads or not: the others rely on it, and the
program itself may wait for its own broadcast before it reads on. So what is too much for memory
stays where it is already, in the log, and is read back when its turn comes (``Rereading``); what
earlier lives left unprocessed is there, too. A group that keeps nothing on disk has nowhere to
leave it: it must stop listening.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from tidings.core import Found, Members, Message, MessageId, Rereading, Span
from tidings.node.config import Limits

Recall = Callable[[MessageId, int, int, Mapping[str, int]], Awaitable[Iterable[Found]]]
"""``recall(first, last, most_bytes, after)`` reads messages of one origin back, or the first of
them if they are many; of other origins, too, what stands near, and of each only what comes after
so many."""


class Replayed(Message, frozen=True, array_like=True):
    """A message that was handed over before a restart, or was just about to be."""


class Unread:
    def __init__(self, members: Members, limits: Limits, recall: Recall | None) -> None:
        self.ready: deque[Message] = deque()
        """What can be handed over at once."""
        self._bytes = 0
        """How long the texts of those are."""
        self._limits = limits
        self._recall = recall
        self._before: Mapping[str, int] = {}
        """What was delivered in earlier lives: what is still handed over of it is replayed."""
        self._delivered = dict.fromkeys(members, 0)
        self._handed = dict.fromkeys(members, 0)
        """What was ready at some time; what comes after it, and is delivered, is on disk alone."""
        self._later = 0
        """How many that are."""
        self._rereading = self._reread()

    def _reread(self) -> Rereading:
        """What is delivered by now; what comes next follows when that is done."""
        return Rereading(self._handed, self._delivered, self._limits.recall_bytes)

    def begin(self, delivered: Mapping[str, int]) -> None:
        """So much was delivered in earlier lives; of that only what is replayed comes again."""
        self._before = dict(delivered)
        self._delivered |= delivered
        self._handed |= delivered

    def replay(self, after: Mapping[str, int], upto: Mapping[str, int]) -> None:
        assert upto == self._delivered, f"{upto} is replayed, and {self._delivered} was delivered"
        self._handed |= after
        self._count_later()
        self._rereading = self._reread()

    def _count_later(self) -> None:
        self._later = sum(self._delivered.values()) - sum(self._handed.values())

    def __len__(self) -> int:
        return len(self.ready) + self._later

    @property
    def has_later(self) -> bool:
        return self._later > 0

    @property
    def is_too_much(self) -> bool:
        """For memory."""
        limits = self._limits
        return len(self.ready) >= limits.unread_messages or self._bytes >= limits.unread_bytes

    def add(self, messages: Sequence[Message], spans: Sequence[Span]) -> None:
        """These come next: in their order, and in short."""
        size = sum([len(message.text) for message in messages])
        room = self._room_for(messages, size)
        for span in spans:
            self._delivered[span.origin] = span.last
        if room == len(messages):
            self.ready.extend(messages)
            self._bytes += size
            for span in spans:
                self._handed[span.origin] = span.last
            return
        for message in messages[:room]:
            self._make_ready(message)
            self._handed[message.id.origin] = message.id.seq
        self._later += len(messages) - room

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
        sizes = accumulate([len(message.text) for message in messages[:room]])
        return sum([size <= room_bytes for size in sizes])

    def _make_ready(self, message: Message) -> None:
        self.ready.append(message)
        self._bytes += len(message.text)

    def pop(self) -> Message:
        message = self.ready.popleft()
        self._bytes -= len(message.text)
        return message

    async def read_back(self, processed: Mapping[str, int]) -> None:
        """Some of what is on disk becomes ready; what the program has processed is left out.

        It may take more than one call. Cancelled, it has done nothing.
        """
        assert self._recall is not None, "there is no disk to read from"
        if self._rereading.is_over:
            self._rereading = self._reread()
        self._take(processed)
        rereading = self._rereading
        if not self.ready and not rereading.is_over:
            wanted = rereading.wanted()
            last, share = rereading.upto[wanted.origin], rereading.share
            rereading.add(wanted, await self._recall(wanted, last, share, rereading.handed))
            self._take(processed)

    def _take(self, processed: Mapping[str, int]) -> None:
        self._rereading.skip(processed)
        for message in self._rereading.take():
            is_again = message.id.seq <= self._before.get(message.id.origin, 0)
            self._make_ready(Replayed(message.id, message.text) if is_again else message)
        self._count_later()
