"""What becomes of a member's own broadcasts: how many are under way, and who waits for which.

Messages are counted here as the program broadcasts them, from 1 in every life. How the process
counts them, the first accepted one tells; from there on the two differ by a fixed offset, since
nothing that was queued is ever dropped. A message of an earlier life is known by its own number
alone, so there is a second count for those who ask by that.
"""

import asyncio
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter

from tidings.core import MessageId, Span, TextSpan, UsageError

_number = itemgetter(0)


class Milestones:
    """A number that grows, and those who wait for it to reach theirs."""

    def __init__(self) -> None:
        self.reached = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """For which number, in order."""
        self._error: BaseException | None = None

    async def reach(self, number: int) -> None:
        """Wait for it; who asks has seen that it is not reached yet."""
        if self._error is not None:
            raise self._error
        one = number, asyncio.get_running_loop().create_future()
        insort(self._waiting, one, key=_number)
        try:
            await one[1]
        except asyncio.CancelledError:
            first = bisect_left(self._waiting, number, key=_number)
            with suppress(ValueError):  # it was reached meanwhile
                del self._waiting[self._waiting.index(one, first)]
            raise

    def advance(self, number: int) -> None:
        self.reached = max(self.reached, number)
        due = bisect_left(self._waiting, self.reached + 1, key=_number)
        for _, future in self._waiting[:due]:
            if not future.done():
                future.set_result(None)
        del self._waiting[:due]

    def fail(self, error: BaseException) -> None:
        self._error = error
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


class Receipt:
    """What becomes of one broadcast."""

    __slots__ = ("_ledger", "_number")

    def __init__(self, ledger: "Ledger", number: int) -> None:
        self._ledger = ledger
        self._number = number

    def __repr__(self) -> str:
        return f"<Receipt of {self.id or f'a text that {self._ledger.member} has yet to take'}>"

    @property
    def id(self) -> MessageId | None:
        """The message's name; None until the process has taken it."""
        return self._ledger.name_of(self._number)

    async def delivered(self) -> MessageId:
        """Return when half of the members hold it, and it is delivered here: it cannot be lost."""
        ledger = self._ledger
        if self._number > ledger.delivered.reached:
            await ledger.reach(ledger.delivered, self._number)
        return self._named()

    async def stable(self) -> MessageId:
        """Return when every member holds it."""
        if self._ledger.never_stable:
            raise UsageError(self._ledger.never_stable)
        await self._ledger.reach(self._ledger.stable, self._number)
        return self._named()

    def _named(self) -> MessageId:
        name = self.id
        assert name is not None, f"broadcast {self._number} was delivered and never accepted"
        return name


class NumberedReceipt(Receipt):
    """Of a message that has its number: of this life, or of an earlier one."""

    __slots__ = ()

    @property
    def id(self) -> MessageId:
        return MessageId(self._ledger.member, self._number)

    async def delivered(self) -> MessageId:
        await self._ledger.reach(self._ledger.numbers_delivered, self._number)
        return self.id

    async def stable(self) -> MessageId:
        if self._ledger.never_stable:
            raise UsageError(self._ledger.never_stable)
        await self._ledger.reach(self._ledger.numbers_stable, self._number)
        return self.id


class Ledger:
    def __init__(self, member: str, window: int, window_bytes: int) -> None:
        self.member = member
        self.window = window
        self.window_bytes = window_bytes
        self.never_stable = ""
        """Why stability will never be known, if so."""
        self.count = 0
        """How many were broadcast, and how many of these the process has taken."""
        self.accepted = 0
        self.last = 0
        """The number of the last message that the process has taken, in all lives."""
        self.delivered = Milestones()
        self.stable = Milestones()
        self.numbers_delivered = Milestones()
        self.numbers_stable = Milestones()
        self.on_waiting: Callable[[bool], None] = lambda is_waiting: None
        """Called by whoever waits for something of this, before and after."""
        self.on_delivery: Callable[[float], None] | None = None
        """Told how many seconds the first of a batch took, from ``broadcast`` on."""
        self._offset = 0
        self.bytes = 0
        """How long the texts under way are together."""
        self._room: deque[asyncio.Future[None]] = deque()
        self._flights: deque[tuple[int, float]] = deque()
        self._noted = 0

    @property
    def under_way(self) -> int:
        return self.count - self.delivered.reached

    @property
    def is_full(self) -> bool:
        under_way = self.count - self.delivered.reached
        return under_way >= self.window or self.bytes >= self.window_bytes

    def add(self, size: int, count: int = 1) -> Receipt:
        """So many more are under way, with texts of so many bytes."""
        self.count += count
        self.bytes += size
        if self.on_delivery is not None and self._noted <= self.accepted:
            # All before it were taken: it begins the next batch.
            self._noted = self.count
            self._flights.append((self.count, time.perf_counter()))
        return Receipt(self, self.count)

    def receipt(self, seq: int) -> Receipt:
        if seq > self.last:
            name = MessageId(self.member, seq)
            numbers = f"its last message is number {self.last:,}" if self.last else "it has none"
            raise UsageError(f"{self.member} has broadcast no {name}: {numbers}")
        return NumberedReceipt(self, seq)

    async def reach(self, milestones: Milestones, number: int) -> None:
        if number > milestones.reached:
            self.on_waiting(True)
            try:
                await milestones.reach(number)
            finally:
                self.on_waiting(False)

    async def wait_for_room(self) -> None:
        """Return when there may be room; who is cancelled lets the next one go first."""
        future = asyncio.get_running_loop().create_future()
        self._room.append(future)
        self.on_waiting(True)
        try:
            await future
        except BaseException:
            with suppress(ValueError):
                self._room.remove(future)
            self._make_room()
            raise
        finally:
            self.on_waiting(False)

    def _make_room(self) -> None:
        room = self.window - self.under_way if self.bytes < self.window_bytes else 0
        while room > 0 and self._room:
            future = self._room.popleft()
            if not future.done():
                future.set_result(None)
                room -= 1

    # --- what is learnt

    def come_back(self, last: int, delivered: int) -> None:
        """The last that was broadcast, and delivered, in earlier lives."""
        self.last = last
        self.numbers_delivered.advance(delivered)

    def accept(self, spans: Sequence[Span]) -> None:
        if not self.accepted:
            self._offset = spans[0].first - 1
        self.accepted += sum(map(len, spans))
        self.last = spans[-1].last

    def deliver(self, own: TextSpan) -> None:
        """Those of an earlier life may still be delivered, to whoever asks by their numbers."""
        self.numbers_delivered.advance(own.last)
        if self.accepted:
            earlier = max(0, self._offset + 1 - own.first)
            self.bytes -= sum(map(len, own.texts[earlier:] if earlier else own.texts))
            self.delivered.advance(own.last - self._offset)
            self._make_room()
            while self._flights and self._flights[0][0] <= self.delivered.reached:
                _, begin_s = self._flights.popleft()
                assert self.on_delivery is not None, "nobody asked how long it takes"
                self.on_delivery(time.perf_counter() - begin_s)

    def stabilise_up_to(self, seq: int) -> None:
        self.numbers_stable.advance(seq)
        if self.accepted:
            self.stable.advance(seq - self._offset)

    def end_with(self, seq: int, error: BaseException) -> None:
        """Everything up to here is delivered, at the others if not here, and nothing after it."""
        self.numbers_delivered.advance(seq)
        if self.accepted:
            self.delivered.advance(seq - self._offset)
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Nothing more will be learnt."""
        for one in (self.delivered, self.stable, self.numbers_delivered, self.numbers_stable):
            one.fail(error)
        while self._room:
            future = self._room.popleft()
            if not future.done():
                future.set_result(None)

    def name_of(self, number: int) -> MessageId | None:
        if number > self.accepted:
            return None
        return MessageId(self.member, self._offset + number)
