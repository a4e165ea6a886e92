"""The pieces of a long run read again, and the place of each message in one table."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.long.outline import Outline, RunPiece
from tidings.pipeline.arrays.rows import Directory, events_of, read

Array = Any


def read_events(
    part: RunPiece, columns: set[str], outline: Outline, directory: Directory
) -> Iterator[tuple[int, Events]]:
    """The events of each process that has any in a piece."""
    piece, owners, is_alone, first_index = part
    if is_alone and len(owners) == 1 and first_index is not None:
        # Checked before: the rows are all of one process, and their indices follow each other.
        table = read(piece.path, sorted(columns - {"index"}), [piece.group])
        yield owners[0], events_of(table, directory, outline.run, owners[0], first_index)
        return
    columns = columns | {"process"} if is_alone else columns | {"process", "run"}
    table = read(piece.path, sorted(columns), [piece.group])
    events = events_of(table, directory, outline.run)
    for owner in owners:
        yield owner, where(events, events.process == owner)


def where(events: Events, which: Array) -> Events:
    """Some of the events; a column that was not read stays empty."""
    return Events(*(column[which] if len(column) else column for column in events))


class Names:
    """Where messages stand in the table, and back."""

    def __init__(self, outline: Outline) -> None:
        self.base, self.size, self.low = outline.base, outline.size, outline.low
        self.offset = self.base - self.low
        used = self.size > 0
        self.safe = (
            (int(self.low[used].max()), int((self.low + self.size)[used].min()))
            if used.any() and used.all()
            else (1, 0)
        )

    def places(self, events: Events) -> tuple[Array, Array | None]:
        """The place of each event's message, and which have one, unless all have."""
        if not len(events.seq):
            return events.seq, None
        least, beyond = self.safe
        if least <= events.seq.min() and events.seq.max() < beyond:
            return events.seq + self.offset[events.origin], None
        shifted = events.seq - self.low[events.origin]
        is_named = (shifted >= 0) & (shifted < self.size[events.origin])
        shifted += self.base[events.origin]
        if is_named.all():
            return shifted, None
        return np.where(is_named, shifted, 0), is_named

    def of(self, message: Array) -> tuple[Array, Array]:
        """Origin and sequence number."""
        ends = self.base + self.size
        origin = np.searchsorted(ends, message, side="right")
        return origin, message - self.base[origin] + self.low[origin]
