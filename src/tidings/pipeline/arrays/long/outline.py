"""A long run as it looks from outside: every piece surveyed by itself, and how they fit together.

A piece is one group of rows of one file. After the surveys it is known who was correct, and which
sequence numbers each origin used.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING, Array, joined
from tidings.pipeline.arrays.known import ABSENT, Endings, KnownRuns, Lives
from tidings.pipeline.arrays.long.cutting import Marks, marked
from tidings.pipeline.arrays.rows import (
    BEGINS_AGAIN,
    BROADCAST,
    DELIVER,
    OVER,
    BadRowsError,
    Directory,
    Share,
    checked,
    in_line,
    places_of,
    smallest,
)
from tidings.pipeline.arrays.steps import steps_in

BEYOND = 1 << 40
"""No table has so many places."""


class Kept(NamedTuple):
    """The events of one history in one piece, all but their texts, in few bytes."""

    rows: Array | slice
    """Which rows of the piece they are."""
    is_broadcast: Array
    origin: Array
    seq: Array
    view: Array

    @classmethod
    def of(cls, rows: Array | slice, is_broadcast: Array, *columns: Array) -> "Kept":
        return cls(rows, is_broadcast, *map(smallest, columns))


class SurveyedHistory(NamedTuple):
    """What a survey tells of one history in one piece."""

    run: int
    process: int
    rows: int
    first: tuple[int, int, int]
    """Index, kind and incarnation of its first row."""
    last: tuple[int, int, int]
    """The same of its last; if that is a gap, the last index that is missing."""
    lowest: int
    """The least sequence number of its broadcasts; NOTHING if there are none."""
    highest: int
    has_gap: bool
    has_agreed_views: bool
    marks: Marks
    """Every so many events, for the cutting."""
    kept: Kept | None
    """If they stay in memory."""


def survey(
    piece: Share, directory: Directory, every: int, window: int, keeps: bool = False
) -> list[SurveyedHistory]:
    """Check a piece, and tell what is in it; there is a mark after ``every`` so many events."""
    unread = ("digest",) if piece.source.is_digested else ()
    columns = [column for column in piece.source.columns if column not in unread]
    table = piece.read(columns)
    rows = checked(table, directory, unread)
    if not len(rows.run):
        return []
    changing = steps_in(table, directory)
    line = in_line(rows, np.zeros(len(rows.run), np.int8), directory, is_piece=True)
    rows = line.rows
    stretches = []
    for start, end in zip(line.starts.tolist(), line.ends.tolist(), strict=True):
        mine = slice(start, end + 1)
        kind = rows.kind[mine]
        is_broadcast = kind == BROADCAST
        events = places_of(is_broadcast | (kind == DELIVER))
        index, origin, seq, view = (
            column[mine][events] for column in (rows.index, rows.origin, rows.seq, rows.view)
        )
        is_broadcast = is_broadcast[events]
        sent = seq[is_broadcast]
        first, last = (
            (int(index[at]), int(rows.kind[at]), int(rows.incarnation[at]))
            for index, at in ((rows.index, start), (rows.last_index, end))
        )
        stretches.append(
            SurveyedHistory(
                int(rows.run[start]),
                int(rows.process[start]),
                end + 1 - start,
                first,
                last,
                int(sent.min()) if len(sent) else NOTHING,
                int(sent.max()) if len(sent) else NOTHING,
                bool(line.is_hole[mine].any()),
                int(rows.run[start]) in changing,
                marked(index, origin, seq, directory.width, every, window),
                Kept.of(events, is_broadcast, origin, seq, view) if keeps else None,
            )
        )
    return stretches


class Outline(NamedTuple):
    """A long run as its surveys tell it."""

    run: int
    rows: int
    known: KnownRuns
    """About this one run."""
    low: Array
    """(process): the least sequence number it used."""
    size: Array
    """(process): how many places its sequence numbers take in a table."""
    last_index: int
    parts: tuple["RunPiece", ...]
    """In reading order."""
    marks: Mapping[int, Marks]
    """Of each process that has any."""
    has_agreed_views: bool

    @property
    def pieces(self) -> list[Share]:
        return [part.piece for part in self.parts]

    @property
    def views(self) -> int:
        return len(self.known.forsaken)

    @property
    def is_forsaken_in_part(self) -> bool:
        """What is owed depends on the causal past, all the way back."""
        forsaken = self.known.forsaken
        return self.views > 1 and bool(self.known.settled[0]) and bool(forsaken.any())


class RunPiece(NamedTuple):
    """What a piece has of a run."""

    piece: Share
    owners: tuple[int, ...]
    """Whose rows there are."""
    is_alone: bool
    """There are no rows of other runs."""
    first_index: int | None
    """The index of the first row, if there is but one owner and all others follow it."""
    kept: Kept | None
    """The events of this owner, if they stayed in memory."""


def outlines(
    pieces: Sequence[Share], surveys: Sequence[Sequence[SurveyedHistory]], directory: Directory
) -> dict[int, Outline]:
    """Every run that has rows, put together from the surveys of all pieces, in reading order."""
    of_run: dict[int, list[tuple[Share, SurveyedHistory]]] = {}
    runs_in: dict[Share, set[int]] = {}
    for piece, stretches in zip(pieces, surveys, strict=True):
        runs_in[piece] = {stretch.run for stretch in stretches}
        for stretch in stretches:
            of_run.setdefault(stretch.run, []).append((piece, stretch))
    endings = Endings(directory.shapes)
    return {run: _outline(run, parts, runs_in, directory, endings) for run, parts in of_run.items()}


def _outline(
    run: int,
    parts: Sequence[tuple[Share, SurveyedHistory]],
    runs_in: Mapping[Share, set[int]],
    directory: Directory,
    endings: Endings,
) -> Outline:
    width = directory.width
    last_kind, holed = np.full((1, width), ABSENT), np.zeros((1, width), bool)
    low, high = np.full(width, np.iinfo(np.int64).max), np.full(width, NOTHING)
    last_index = 0
    last: dict[int, tuple[Share, SurveyedHistory]] = {}
    of_piece: dict[Share, list[SurveyedHistory]] = {}
    marks: dict[int, list[Marks]] = {}
    for piece, stretch in parts:
        process = stretch.process
        begin = int(directory.first_indices(np.array(run), np.array(process)))
        follows_hole = _follows_a_hole(piece, stretch, last.get(process), begin)
        holed[0, process] |= follows_hole or stretch.has_gap
        last[process] = piece, stretch
        last_kind[0, process] = stretch.last[1]
        last_index = max(last_index, stretch.last[0])
        of_piece.setdefault(piece, []).append(stretch)
        marks.setdefault(process, []).append(stretch.marks)
        if stretch.highest != NOTHING:
            low[process] = min(low[process], stretch.lowest)
            high[process] = max(high[process], stretch.highest)
    known = endings.known(directory.shape[[run]], Lives(last_kind, holed))
    low[high == NOTHING] = 0
    size = high - low + 1
    size[high == NOTHING] = 0
    # What would not fit in 64 bits does not fit in any table either.
    size = np.where((high.astype(float) - low) > BEYOND, BEYOND, size)
    return Outline(
        run,
        sum(stretch.rows for _, stretch in parts),
        known,
        low,
        size,
        last_index,
        tuple(
            RunPiece(
                piece,
                tuple(stretch.process for stretch in stretches),
                runs_in[piece] == {run},
                None if stretches[0].has_gap else stretches[0].first[0],
                stretches[0].kept,
            )
            for piece, stretches in of_piece.items()
        ),
        {process: Marks(*joined(some)) for process, some in marks.items()},
        any(stretch.has_agreed_views for _, stretch in parts),
    )


def _follows_a_hole(
    piece: Share, stretch: SurveyedHistory, last: tuple[Share, SurveyedHistory] | None, begin: int
) -> bool:
    """Whether a file is missing before it; BadRowsError if it cannot follow the one before it."""
    index, kind, incarnation = stretch.first
    if last is None:
        if index < begin:
            raise BadRowsError
        return index > begin
    before, (last_index, last_kind, last_incarnation) = last[0], last[1].last
    is_hole = before.file != piece.file and index > last_index + 1
    acts = OVER[last_kind] and not BEGINS_AGAIN[kind]
    if acts or incarnation < last_incarnation or not (is_hole or index == last_index + 1):
        raise BadRowsError
    return is_hole
