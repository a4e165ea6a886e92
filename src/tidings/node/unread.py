"""What is delivered and waits for the program: the first of it in memory, the rest on disk.

A member goes on acknowledging whether its program reads or not: the others rely on it, and the
program itself may wait for its own broadcast before it reads on. So what is too much for memory
stays where it is already, in the log, and is read back when its turn comes (``Rereading``); what
earlier lives left unprocessed is there, too. A group that keeps nothing on disk has nowhere to
leave it: it must stop listening.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import accumulate, count, groupby, repeat
from operator import length_hint

from tidings.core import (
    Found,
    Members,
    Message,
    MessageId,
    Rereading,
    TextSpan,
    text_spans_of,
)
from tidings.node.config import Limits

Recall = Callable[[MessageId, int, int, Mapping[str, int]], Awaitable[Iterable[Found]]]
"""``recall(first, last, most_bytes, after)`` reads messages of one origin back, or the first of
them if they are many; of other origins, too, what stands near, and of each only what comes after
so many."""


class Replayed(Message, frozen=True, array_like=True, gc=False):
    """A message that was handed over before a restart, or was just about to be."""


NOTHING = TextSpan("", 1, ())


class ReplayedSpan(TextSpan, frozen=True, array_like=True):
    kind = Replayed


class Unread:
    def __init__(self, members: Members, limits: Limits, recall: Recall | None) -> None:
        self.hand = NOTHING
        """Whose messages are being handed over."""
        self._texts = iter(NOTHING.texts)
        self.messages: Iterator[Message] = iter(())
        """What is left of these: texts, and the messages that are made of them as they are taken.
        Nothing is counted here, message by message: the iterator knows where it is."""
        self.at_once = 1
        """How many were handed over at the last request: those may not be processed yet."""
        self.ready: deque[TextSpan] = deque()
        """What comes next, in memory."""
        self._sizes: deque[int] = deque((0,))
        """How long the texts are of what is in hand, and of each that is ready."""
        self._count = 0
        self._bytes = 0
        """How many messages are in hand and ready, and how long their texts are."""
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

    def pass_over(self, upto: Mapping[str, int]) -> None:
        """So much counts as delivered and handed over, and is neither here nor on disk."""
        self._delivered |= upto
        self._handed |= upto
        self._rereading = self._reread()

    def position(self) -> dict[str, int]:
        """Of each origin the last message that was handed over."""
        upto = dict(self._handed)
        for span in reversed(self.ready):
            upto[span.origin] = span.first - 1
        if self.has_more_in_hand:
            upto[self.hand.origin] = self.hand.first + self.next - 1
        return upto

    def skip(self, upto: Mapping[str, int]) -> None:
        """These need not be handed over; all of them are delivered, and nothing is in hand."""
        assert not self.has_more_in_hand, f"{self.hand} is being handed over"
        self._handed |= {one: max(last, self._handed.get(one, 0)) for one, last in upto.items()}
        ready, self.ready = self.ready, deque()
        self._sizes = deque((self._sizes[0],))
        self._count, self._bytes = len(self.hand.texts), self._sizes[0]
        for span in ready:
            rest = span.texts[max(0, upto.get(span.origin, 0) + 1 - span.first) :]
            if rest:
                self._make_ready(
                    type(span)(span.origin, span.last + 1 - len(rest), rest), sum(map(len, rest))
                )
        self._count_later()
        self._rereading = self._reread()

    def replay(self, after: Mapping[str, int], upto: Mapping[str, int]) -> None:
        delivered = self._delivered
        # Of members that came later nothing may be delivered yet.
        is_so = all(delivered.get(origin, 0) == last for origin, last in upto.items())
        assert is_so, f"{upto} is replayed, and {delivered} was delivered"
        self._delivered |= upto
        self._handed |= after
        self._count_later()
        self._rereading = self._reread()

    def _count_later(self) -> None:
        self._later = sum(self._delivered.values()) - sum(self._handed.values())

    @property
    def next(self) -> int:
        """The place in hand of the next one."""
        return len(self.hand.texts) - length_hint(self._texts)

    def __len__(self) -> int:
        return self._count - self.next + self._later

    @property
    def has_later(self) -> bool:
        return self._later > 0

    @property
    def is_too_much(self) -> bool:
        """For memory."""
        limits = self._limits
        in_memory = self._count - self.next
        return in_memory >= limits.unread_messages or self._bytes >= limits.unread_bytes

    def add(self, spans: Iterable[TextSpan]) -> None:
        """These come next."""
        for one in spans:
            self._handed.setdefault(one.origin, one.first - 1)  # its origin may be new
            self._delivered[one.origin] = one.last
            size = sum(map(len, one.texts))
            room = self._room_for(one, size)
            self._later += len(one.texts) - room
            if room < len(one.texts):
                one = TextSpan(one.origin, one.first, one.texts[:room])
                size = sum(map(len, one.texts))
            if room:
                self._make_ready(one, size)
                self._handed[one.origin] = one.last

    def _room_for(self, span: TextSpan, size: int) -> int:
        """How many of them may stay in memory; their texts are of this size."""
        if self._recall is None:
            return len(span.texts)
        if self._later:
            return 0
        room = max(0, self._limits.unread_messages - len(self))
        room_bytes = self._limits.unread_bytes - self._bytes
        if len(span.texts) <= room and size <= room_bytes:
            return len(span.texts)
        sizes = accumulate(map(len, span.texts[:room]))
        return sum([size <= room_bytes for size in sizes])

    def _make_ready(self, span: TextSpan, size: int) -> None:
        self.ready.append(span)
        self._sizes.append(size)
        self._count += len(span.texts)
        self._bytes += size

    # --- handing over

    @property
    def is_ready(self) -> bool:
        """Whether something can be handed over at once."""
        return self.has_more_in_hand or bool(self.ready)

    @property
    def has_more_in_hand(self) -> bool:
        return length_hint(self._texts) > 0

    def turn(self) -> MessageId | None:
        """All in hand was handed over, and somebody asks for more; the last that was in hand."""
        done = self.hand
        self._count -= len(done.texts)
        self._bytes -= self._sizes.popleft()
        if not self.ready:
            self._sizes.append(0)
        self.hand = hand = self.ready.popleft() if self.ready else NOTHING
        self._texts = iter(hand.texts)
        self.messages = map(hand.kind, repeat(hand.origin), count(hand.first), self._texts)
        return MessageId(done.origin, done.last) if done.texts else None

    def pop(self) -> Message:
        """The next one in hand."""
        self.at_once = 1
        return next(self.messages)

    def pop_all(self) -> TextSpan:
        """All that is left in hand."""
        hand, place = self.hand, self.next
        texts = tuple(self._texts)
        self.at_once = len(texts)
        return type(hand)(hand.origin, hand.first + place, texts) if place else hand

    def done_in_hand(self) -> MessageId | None:
        """The last one in hand after which another one was asked for."""
        count = self.next - self.at_once
        return MessageId(self.hand.origin, self.hand.first + count - 1) if count > 0 else None

    # --- reading back

    async def read_back(self, processed: Mapping[str, int]) -> None:
        """Some of what is on disk becomes ready; what the program has processed is left out.

        It may take more than one call. Cancelled, it has done nothing.
        """
        assert self._recall is not None, "there is no disk to read from"
        if self._rereading.is_over:
            self._rereading = self._reread()
        self._take(processed)
        rereading = self._rereading
        if not self.is_ready and not rereading.is_over:
            wanted = rereading.wanted()
            last, share = rereading.upto[wanted.origin], rereading.share
            rereading.add(wanted, await self._recall(wanted, last, share, rereading.handed))
            self._take(processed)

    def _take(self, processed: Mapping[str, int]) -> None:
        self._rereading.skip(processed)
        due = self._rereading.take()
        for is_again, messages in groupby(due, self._is_again):
            for span in text_spans_of(messages):
                size = sum(map(len, span.texts))
                kind = ReplayedSpan if is_again else TextSpan
                self._make_ready(kind(span.origin, span.first, span.texts), size)
        self._count_later()

    def _is_again(self, message: Message) -> bool:
        return message.seq <= self._before.get(message.origin, 0)
