"""Sets of sequence numbers as ranges, asked and changed by whole arrays.

``core.IntervalSet`` is the same for one number at a time. What is delivered almost in order takes
one range for each origin, however long the run is.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

Array = Any
"""Of numpy; one dimension."""

_NONE = np.zeros(0, np.int64)


class Ranges:
    """A set of whole numbers from 0 on: sorted ranges, both ends included, that never touch."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, firsts: Array = _NONE, lasts: Array = _NONE) -> None:
        self.firsts = firsts
        self.lasts = lasts

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> "Ranges":
        both = np.array(list(pairs), np.int64).reshape(-1, 2)
        return _melted(both[:, 0], both[:, 1])

    @classmethod
    def of_numbers(cls, numbers: Array) -> "Ranges":
        if not len(numbers):
            return cls()
        ordered = numbers if _rises(numbers) else np.unique(numbers)
        is_break = np.diff(ordered) > 1
        return cls(
            np.concatenate([ordered[:1], ordered[1:][is_break]]),
            np.concatenate([ordered[:-1][is_break], ordered[-1:]]),
        )

    def copy(self) -> "Ranges":
        return Ranges(self.firsts, self.lasts)  # arrays are replaced, never changed

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.firsts.tolist(), self.lasts.tolist(), strict=True))

    def __len__(self) -> int:
        return int((self.lasts - self.firsts + 1).sum())

    def __bool__(self) -> bool:
        return bool(len(self.firsts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.pairs == other.pairs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({self.pairs})"

    def has(self, numbers: Array) -> Array:
        """Of each number whether it is in the set."""
        if not len(self.firsts):
            return np.zeros(len(numbers), bool)
        if len(self.firsts) == 1:
            return (numbers >= self.firsts[0]) & (numbers <= self.lasts[0])
        at = np.searchsorted(self.firsts, numbers, side="right") - 1
        return (at >= 0) & (numbers <= self.lasts[at.clip(0)])

    def __contains__(self, number: int) -> bool:
        return bool(self.has(np.array([number]))[0])

    def add(self, numbers: Array) -> None:
        more = self | Ranges.of_numbers(numbers)
        self.firsts, self.lasts = more.firsts, more.lasts

    def __or__(self, other: "Ranges") -> "Ranges":
        if not other:
            return Ranges(self.firsts, self.lasts)
        if not self:
            return Ranges(other.firsts, other.lasts)
        return _melted(
            np.concatenate([self.firsts, other.firsts]), np.concatenate([self.lasts, other.lasts])
        )

    def __sub__(self, other: "Ranges") -> "Ranges":
        left = []
        removed = other.pairs
        at = 0
        for first, last in self.pairs:
            while at < len(removed) and removed[at][1] < first:
                at += 1
            place = at
            while first <= last and place < len(removed) and removed[place][0] <= last:
                if removed[place][0] > first:
                    left.append((first, removed[place][0] - 1))
                first = removed[place][1] + 1
                place += 1
            if first <= last:
                left.append((first, last))
        return Ranges.of(left)

    def __and__(self, other: "Ranges") -> "Ranges":
        return self - (self - other)


def numbers_in(seqs: Ranges, most: int = 1 << 62) -> Array:
    """The first of them, one by one."""
    some: list[int] = []
    for first, last in seqs.pairs:
        some += range(first, min(last, first + most - len(some) - 1) + 1)
        if len(some) >= most:
            break
    return np.array(some, np.int64)


def _rises(numbers: Array) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _melted(firsts: Array, lasts: Array) -> Ranges:
    """Any ranges as a set: those that overlap or touch become one."""
    if len(firsts) < 2:
        return Ranges(firsts, lasts)
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    # Numbers go up to 2**63 - 1, so it is the beginning that is moved by one, never an end.
    is_break = firsts[1:] - 1 > lasts[:-1]
    return Ranges(
        firsts[np.concatenate([[True], is_break])], lasts[np.concatenate([is_break, [True]])]
    )
