"""Sets of whole numbers kept as ranges: what arrives almost in order takes almost no space."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Self


class IntervalSet:
    """A mutable set of whole numbers, stored as sorted ranges that never touch.

    Insertion finds its place in O(log ranges), membership too; union, subset and clipping walk
    over ranges and never over numbers.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add_range(first, last)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ranges in order, both ends included."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def add(self, number: int) -> None:
        self.add_range(number, number)

    def add_range(self, first: int, last: int) -> None:
        """Insert first..last; ranges that overlap it or touch it melt into one."""
        assert first <= last, f"{first}..{last} is not a range"
        # Those from `low` up to but not including `high` touch or overlap first..last.
        low = bisect_right(self._firsts, first)
        if low > 0 and self._lasts[low - 1] >= first - 1:
            low -= 1
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def update(self, other: "IntervalSet") -> None:
        for first, last in other.ranges:
            self.add_range(first, last)

    def since(self, first: int) -> "IntervalSet":
        """What is left when everything below ``first`` is taken away."""
        kept = type(self)()
        for begin, end in self.ranges:
            if end >= first:
                kept._firsts.append(max(begin, first))
                kept._lasts.append(end)
        return kept

    def copy(self) -> Self:
        twin = type(self)()
        twin._firsts, twin._lasts = self._firsts[:], self._lasts[:]
        return twin

    def __contains__(self, number: int) -> bool:
        position = bisect_right(self._firsts, number) - 1
        return position >= 0 and number <= self._lasts[position]

    def __le__(self, other: "IntervalSet") -> bool:
        """Subset: every range of this one lies within a single range of the other."""
        for first, last in self.ranges:
            position = bisect_right(other._firsts, first) - 1
            if position < 0 or last > other._lasts[position]:
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self.ranges == other.ranges

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __repr__(self) -> str:
        return f"IntervalSet({self.ranges})"

    def __str__(self) -> str:
        return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in self.ranges) or "nothing"
