"""Where a long run is cut into slabs: the part of each history, and the messages of each origin.

Any cutting gives the same verdicts. A good one cuts all processes at about the same moment, so that
nearly every row lies in the slab of its message. Nobody needs a clock for that: the survey marks,
every so many rows, the largest number of each origin right before, and the sum of these maxima is a
time that all processes share. Equal shares of all rows on this time are the slabs. A late joiner, a
lagging or a crashed process shows in its own marks. Names that are no counters, times or hashes for
example, make bad cuttings: most rows lie away from their messages, which costs time alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import Array

_BEYOND = 1e15
"""Numbers are not counters if they are so far apart; up to here they are exact as floats."""


class Cutting(NamedTuple):
    """Where the slabs end, all but the last; both columns ascend."""

    last_seq: Array
    """(slab, origin): the last number of its messages in the slab"""
    next_index: Array
    """(slab, process): the index at which its next slab begins"""

    @property
    def slabs(self) -> int:
        return len(self.last_seq) + 1

    def numbers(self, slab: int) -> tuple[Array, Array]:
        """Of each origin the number before the first, and the last, in a slab."""
        width = self.last_seq.shape[1]
        before = self.last_seq[slab - 1] if slab else np.full(width, -1)
        is_last = slab == self.slabs - 1
        return before, np.full(width, np.iinfo(np.int64).max) if is_last else self.last_seq[slab]

    def slab_of(self, origin: Array, seq: Array) -> Array:
        """The slab of each message."""
        slab = np.zeros(len(seq), np.int64)
        for one in np.unique(origin).tolist():
            mine = origin == one
            slab[mine] = np.searchsorted(self.last_seq[:, one], seq[mine], side="left")
        return slab


class Marks(NamedTuple):
    """What one history shows at some of its rows."""

    index: Array
    largest: Array
    """(mark, origin): the largest number right before it; -1 if there is none"""


def marked(index: Array, origin: Array, seq: Array, width: int, every: int, window: int) -> Marks:
    """Marks in a part of one history, every so many events and at the last.

    Each looks back over a ``window`` of so many events for each process.
    """
    at = np.unique(np.append(np.arange(every, len(seq) + 1, every), len(seq)) - 1)
    at = at[at >= 0]
    window = min(every, window * width)
    near = np.maximum(at[:, None] - np.arange(window), 0)
    largest = np.full((len(at), width), -1)
    row = np.repeat(np.arange(len(at)), window)
    np.maximum.at(largest, (row, origin[near].ravel()), seq[near].ravel())
    return Marks(index[at], largest)


class _Course(NamedTuple):
    """A history from its beginning on: how many messages of each origin it knew, and when."""

    index: Array
    known: Array
    """(mark, origin)"""
    time: Array

    @classmethod
    def of(cls, marks: Marks, low: Array, begin: int) -> "_Course":
        known = np.maximum(np.maximum.accumulate(marks.largest, axis=0) - low + 1, 0)
        known = np.minimum(np.concatenate([np.zeros((1, len(low))), known]), _BEYOND)
        return cls(np.append(begin, marks.index), known, known.sum(axis=1))


def cutting_for(
    marks: Mapping[int, Marks],
    low: Array,
    begins: Sequence[int],
    slabs: int,
    most_moments: int,
) -> Cutting:
    """A cutting into so many slabs, from the marks of each process.

    ``low`` is the least number of each origin, ``begins`` the first index of each process.
    """
    width = len(low)
    courses = {who: _Course.of(some, low, begins[who]) for who, some in marks.items()}
    if slabs == 1 or not courses:
        return Cutting(np.zeros((0, width), np.int64), np.zeros((0, width), np.int64))
    moments = _moments(list(courses.values()), slabs, most_moments)
    known = np.zeros((slabs - 1, width))
    for course in courses.values():
        for origin in range(width):
            heard = np.interp(moments, course.time, course.known[:, origin], left=0)
            known[:, origin] = np.maximum(known[:, origin], heard)
    index = np.zeros((slabs - 1, width))
    for who, course in courses.items():
        # Each origin says where this history passes the last of its messages in the slab.
        votes = [
            np.interp(known[:, one], course.known[:, one], course.index, right=course.index[-1] + 1)
            for one in np.flatnonzero(course.known[-1] > 0)
        ]
        late = np.interp(moments, course.time, course.index)
        index[:, who] = np.median(votes, axis=0) if votes else late
    last_seq = np.maximum.accumulate(known, axis=0).astype(np.int64) + low - 1
    return Cutting(last_seq, np.maximum.accumulate(index, axis=0).astype(np.int64))


def _moments(courses: Sequence[_Course], slabs: int, most: int) -> Array:
    """The times between slabs that have the same number of rows."""
    time = np.unique(np.concatenate([course.time for course in courses]))
    if len(time) > most:
        time = time[np.linspace(0, len(time) - 1, most).astype(np.int64)]
    rows = sum(np.interp(time, one.time, one.index - one.index[0]) for one in courses)
    shares = np.arange(1, slabs) / slabs
    return np.interp(shares * rows[-1], rows, time)
