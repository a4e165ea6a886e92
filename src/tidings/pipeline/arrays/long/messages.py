"""Numbers for the messages of a slab.

Origins mostly count their messages, so the number of a message is a place in a table that has a
row for each number that its origin used. What lies outside, strays for example, is ranked and comes
after; if the names of the run are too sparse for a table, everything is ranked.
"""

from collections.abc import Sequence

import numpy as np

from tidings.pipeline.arrays.findings import Array
from tidings.pipeline.arrays.long.packing import HomeRows, LongRun, NotedRows, Part, Span


class Messages:
    """Says of each part which message its rows are about; of those that are away, ``count``."""

    def __init__(self, slab: int, parts: Sequence[Part], run: LongRun) -> None:
        self.before, self.last = run.cutting.numbers(slab)
        low, size = run.outline.low, run.outline.size
        self.low = np.maximum(low, np.minimum(self.before, np.iinfo(np.int64).max - 1) + 1)
        high = np.minimum(low + (size - 1), self.last)
        self.size = np.where(size > 0, np.maximum(high - self.low + 1, 0), 0)
        rows, limits = sum(part.size for part in parts), run.limits
        if self.size.sum() > limits.places_a_row * rows + limits.more_places:
            self.size[:] = 0
        self.base = np.cumsum(self.size) - self.size
        self.count = int(self.size.sum())
        self.origin = np.repeat(np.arange(run.width), self.size)
        self.seq = np.arange(self.count) + np.repeat(self.low - self.base, self.size)
        outside = []
        for part in parts:
            is_in = self._in_table(part) if isinstance(part, HomeRows) else self._noted(part)
            if is_in is not None:
                is_out = ~is_in if part.here is None else ~is_in & part.here
                outside.append((part, np.flatnonzero(is_out)))
        self._rank(outside)
        for part in parts:
            if isinstance(part, HomeRows) and part.spans is not None:
                part.nowhere = self.count
            elif part.here is not None:
                part.message[~part.here] = self.count

    def _noted(self, part: NotedRows) -> Array:
        """Which rows have a place in the table."""
        place = part.seq - self.low[part.origin]
        part.message = place + self.base[part.origin]
        is_in: Array = (place >= 0) & (place < self.size[part.origin])
        return is_in

    def _in_table(self, part: HomeRows) -> Array | None:
        """Which rows have a place in the table, unless all have."""
        if part.home.steps is None:
            part.spans = self._spans(part)
            if part.spans is not None:
                return None
        part.here = None
        by_label, origin = part.by_label, part.origin_of_label
        some = by_label.some
        shift = (self.base - self.low)[origin]
        part.message = part.seq + np.repeat(shift, by_label.counts)
        least = np.minimum.reduceat(part.seq, by_label.begins[some])
        largest = np.maximum.reduceat(part.seq, by_label.begins[some])
        low, size = self.low[origin[some]], self.size[origin[some]]
        if ((least >= low) & (largest - low < size)).all():
            return None
        if ((least <= self.before[origin[some]]) | (largest > self.last[origin[some]])).any():
            part.here = (part.seq > self.before[part.origin]) & (part.seq <= self.last[part.origin])
        place = part.seq - self.low[part.origin]
        is_in: Array = (place >= 0) & (place < self.size[part.origin])
        return is_in

    def _spans(self, part: HomeRows) -> list[Span] | None:
        """Those of a part without steps; None if a row of the slab has no place in the table."""
        spans = []
        for label in part.by_label.some.tolist():
            origin, start = int(part.origin_of_label[label]), int(part.home.starts[label])
            first = max(start, int(self.before[origin]) + 1)
            end = min(start + int(part.by_label.counts[label]), int(self.last[origin]) + 1)
            place, count = first - int(self.low[origin]), end - first
            if count <= 0:
                continue
            if place < 0 or place + count > self.size[origin]:
                return None
            row = int(part.by_label.begins[label]) + first - start
            message = int(self.base[origin]) + place
            spans.append(Span(label, slice(row, row + count), slice(message, message + count)))
        return spans

    def _rank(self, outside: Sequence[tuple[Part, Array]]) -> None:
        if not sum(len(rows) for _, rows in outside):
            return
        origin = np.concatenate([part.origin[rows] for part, rows in outside])
        seq = np.concatenate([part.seq[rows] for part, rows in outside])
        order = np.lexsort((seq, origin))
        is_new = np.ones(len(order), bool)
        in_order = origin[order], seq[order]
        is_new[1:] = np.any([one[1:] != one[:-1] for one in in_order], axis=0)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.cumsum(is_new) - 1 + self.count
        ends = np.cumsum([len(rows) for _, rows in outside])
        for (part, rows), ranks in zip(outside, np.split(rank, ends[:-1]), strict=True):
            part.message[rows] = ranks
        self.origin = np.concatenate([self.origin, in_order[0][is_new]])
        self.seq = np.concatenate([self.seq, in_order[1][is_new]])
        self.count = len(self.seq)

    def names(self, message: Array) -> tuple[Array, Array]:
        """Origin and sequence number."""
        return self.origin[message], self.seq[message]
