"""Percentiles by nearest rank: always a value that was measured, never one in between.

The p-th percentile of n values is the one at place ceil(n p / 100) in ascending order, from 1; the
0th is the first. This is numpy's ``percentile(..., method="inverted_cdf")``.
"""

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

T = TypeVar("T")


def rank(percent: float, count: int) -> int:
    """Which of so many values in ascending order is this percentile, from 1."""
    # For a whole percentage the quotient is whole, or off by a hundredth at least.
    return max(1, ceil(count * percent / 100))


def percentile(percent: float, ascending: Sequence[T]) -> T:
    return ascending[rank(percent, len(ascending)) - 1]
