"""The pieces of a long run read again, and what the first reading notes for the second to ask.

Some neighbouring processes are looked at, as readers and as origins. Four bytes for each message
and reader, eight for each message of an origin: that is the memory it takes.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import NOTHING, Array
from tidings.pipeline.arrays.known import Cuts
from tidings.pipeline.arrays.long.outline import Outline, RunPiece
from tidings.pipeline.arrays.rows import Directory, events_of
from tidings.spec import BELOW_THE_CUT

BELOW = BELOW_THE_CUT
"""Less than any index, and so asks for nothing."""


def read_events(
    part: RunPiece, columns: set[str], outline: Outline, directory: Directory
) -> Iterator[tuple[int, Events]]:
    """The events of each process that has any in a piece."""
    piece, owners, is_alone, first_index = part
    if is_alone and len(owners) == 1 and first_index is not None:
        # Checked before: the rows are all of one process, and their indices follow each other.
        table = piece.read(sorted(columns - {"index"}))
        yield owners[0], events_of(table, directory, outline.run, first_index)
        return
    columns = columns | {"process"} if is_alone else columns | {"process", "run"}
    events = events_of(piece.read(sorted(columns)), directory, outline.run)
    for owner in owners:
        yield owner, events.at(events.process == owner)


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
        origin = np.searchsorted(self.base + self.size, message, side="right")
        return origin, message - self.base[origin] + self.low[origin]


class Tables:
    def __init__(self, mine: Sequence[int], outline: Outline) -> None:
        self.known = outline.known
        self.names = Names(outline)
        kind = np.int32 if outline.last_index < np.iinfo(np.int32).max else np.int64
        self.never = int(np.iinfo(kind).max)
        places = max(1, outline.messages)
        self.delivered = {reader: np.full(places, self.never, kind) for reader in mine}
        """For each reader and message the index of its first delivery; BELOW if it was cut off."""
        self.given: Array | None = None
        """Which messages were broadcast below the cut."""
        if self.known.cuts is not None:
            self._note_cuts(self.known.cuts, outline)
        self.sent_at = None if outline.is_full else np.full(places, NOTHING)
        """For each message the index of its first broadcast; None if every place is one."""
        self.view = None if outline.views == 1 else np.zeros(places, np.int32)

    def _note_cuts(self, cuts: Cuts, outline: Outline) -> None:
        self.given = np.zeros(max(1, outline.messages), bool)
        for origin in range(len(outline.size)):
            self.given[_places(outline, origin, int(cuts.broadcast[0, origin]))] = True
            for reader, delivered in self.delivered.items():
                delivered[_places(outline, origin, int(cuts.had[0, reader, origin]))] = BELOW

    def note_broadcasts(self, message: Array, events: Events) -> None:
        if self.sent_at is None and self.view is None:
            return
        broadcasts = np.flatnonzero(events.is_broadcast)
        message = message[broadcasts]
        if self.sent_at is not None:
            is_new = self.sent_at[message] == NOTHING
            if self.given is not None:
                is_new &= ~self.given[message]
            message, broadcasts = message[is_new][::-1], broadcasts[is_new][::-1]
            self.sent_at[message] = events.index[broadcasts]
        if self.view is not None:
            self.view[message] = events.view[broadcasts]

    def so_far(self, reader: int, message: Array, is_named: Array | None, before: int) -> Array:
        """The largest index in the reader's history that each event, or one before it, asks for."""
        asked: Array = self.delivered[reader].take(message, mode="clip")
        if not self.known.members[:, reader].all():
            views = 0 if self.view is None else self.view[message]
            asked[np.broadcast_to(~self.known.members[views, reader], len(asked))] = NOTHING
        if self.sent_at is not None:
            is_unsent = self.sent_at[message] == NOTHING
            if self.given is not None:
                is_unsent &= ~self.given[message]
            asked[is_unsent] = NOTHING
        if is_named is not None:
            asked[~is_named] = NOTHING
        if len(asked):
            asked[0] = max(asked[0], before)
        return np.maximum.accumulate(asked, out=asked)

    def missing(self, reader: int) -> Array:
        return self.delivered[reader] == self.never

    def owing(self, reader: int) -> Array | None:
        """What is missing and addressed to this reader, where not all are addressed alike."""
        if self.view is None:
            return None
        return self.missing(reader) & self.known.survivors[self.view, reader]


def _places(outline: Outline, origin: int, last: int) -> slice:
    """Where the messages of an origin stand, from number 1 up to this."""
    base, low = int(outline.base[origin]), int(outline.low[origin])
    count = min(int(outline.size[origin]), max(0, last - low + 1))
    return slice(base + (low == 0 and count > 0), base + count)
