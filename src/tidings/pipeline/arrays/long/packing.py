"""The rows of a piece on their way to slabs: about one byte each.

Most rows of a slab are deliveries of consecutive messages of some origin, so a row is the number of
its origin, and the rest are exceptions: where the indices leave something out, where the sequence
numbers of an origin do not follow each other. Broadcasts bring their digests, deliveries only sums
of them (``texts``). That is a ``Home``: the rows of one process in its own slab.

Of a row whose message belongs to another slab, one that is *away*, that slab gets a ``Note`` with
all there is to know. So whoever judges a slab knows every row about each of its messages.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import Array, Found
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.cutting import Cutting
from tidings.pipeline.arrays.long.outline import Outline, RunPiece
from tidings.pipeline.arrays.long.reading import read_events
from tidings.pipeline.arrays.long.texts import LANES, mixed
from tidings.pipeline.arrays.perform import Parcel
from tidings.pipeline.arrays.rows import Directory, smallest
from tidings.pipeline.arrays.written import Showing
from tidings.spec import BELOW_THE_CUT, Guarantee

BELOW = BELOW_THE_CUT
"""Less than any index, and so asks for nothing."""


class LongRun(NamedTuple):
    """What every task knows of a long run, and how it is cut."""

    outline: Outline
    """Without its pieces: each task has its own."""
    directory: Directory
    cutting: Cutting
    limits: JudgingLimits
    tasks: int
    """So many in each stage."""
    showing: Showing
    salt: int
    """For the sums of texts."""

    def shown(self, guarantee: Guarantee, found: Found, part: str) -> Found:
        """The first of these violations; all of them are written, if they are wanted."""
        if self.showing.folder:
            table = found.table(guarantee, np.array([self.outline.run]))
            self.showing.write(f"run-{self.outline.run:08}-{part}", table, self.directory)
        return found.first(self.showing.most)

    @property
    def width(self) -> int:
        return self.directory.width

    @property
    def index_type(self) -> type:
        return np.int32 if self.outline.last_index < np.iinfo(np.int32).max else np.int64

    @property
    def never(self) -> int:
        """The index of what was not delivered: after everything."""
        return int(np.iinfo(self.index_type).max)


class Home(NamedTuple):
    """Some events of one process in one slab, one after the other."""

    process: int
    first: int
    """The index of the first."""
    gaps: Array | None
    """How many indices are left out before each event, if any are."""
    labels: Array
    """The origin of each delivery; for a broadcast, the number of processes."""
    starts: Array
    """(label): its first sequence number"""
    steps: Array | None
    """By label, how many numbers are left out before each event, if any are."""
    texts: Array
    """The digests of the broadcasts."""
    views: Array | None
    """Those of the broadcasts, if there are several lists of members."""
    sums: Array
    """(origin, lane): of the texts of what was delivered and is not away, nor given by a cut"""
    digests: Array | None
    """Of all events, if the sums did not suffice."""

    @property
    def size(self) -> int:
        return len(self.labels)


class Note(NamedTuple):
    """Events of one process in one slab about messages of another."""

    process: int
    slab: int
    """Where the events are."""
    index: Array
    is_broadcast: Array
    origin: Array
    seq: Array
    digest: Array
    views: Array | None

    @property
    def size(self) -> int:
        return len(self.index)


class ByLabel:
    """Events in the order of their labels: all of one origin stand together, broadcasts last."""

    def __init__(self, labels: Array, width: int) -> None:
        self.order = np.argsort(labels, kind="stable")
        """The place in the history of each."""
        self.counts = np.bincount(labels, minlength=width + 1)
        self.begins = np.cumsum(self.counts) - self.counts
        self.some = np.flatnonzero(self.counts)
        """The labels that there are."""
        self.deliveries = int(self.begins[width])
        """How many there are; the broadcasts follow them."""


def scatter(
    bundle: Sequence[RunPiece],
    run: LongRun,
    only: Collection[int] | None = None,
    with_digests: bool = False,
) -> Iterator[Parcel]:
    """What some pieces have for each slab, or for ``only`` some of them."""
    columns = {"kind", "origin", "seq", "digest", "index"}
    if run.outline.views > 1:
        columns.add("view")
    for part in bundle:
        for process, events in read_events(part, columns, run.outline, run.directory):
            for packing in _packings(process, events, run):
                yield from (note for note in packing.notes() if only is None or note.place in only)
                if only is None or packing.slab in only:
                    yield Parcel(packing.slab, packing.home(with_digests))


def _packings(process: int, events: Events, run: LongRun) -> Iterator["_Packing"]:
    """The events of a process, slab by slab."""
    bounds = np.searchsorted(events.index, run.cutting.next_index[:, process])
    ends = np.concatenate([[0], bounds, [len(events.index)]])
    for slab in np.flatnonzero(np.diff(ends)).tolist():
        yield _Packing(process, slab, events.at(slice(ends[slab], ends[slab + 1])), run)


class _Packing:
    def __init__(self, process: int, slab: int, events: Events, run: LongRun) -> None:
        self.process, self.slab, self.events, self.run = process, slab, events, run
        width = run.width
        self.labels = events.origin.astype(np.uint8 if width < 255 else np.uint16)
        self.labels[events.is_broadcast] = width
        self.by_label = by_label = ByLabel(self.labels, width)
        self.seq = events.seq[by_label.order]
        self.steps = np.diff(self.seq, prepend=self.seq[0] - 1) - 1
        self.steps[by_label.begins[by_label.some]] = 0
        self.is_away = self._are_away()
        """By label, or None if none is."""

    def _are_away(self) -> Array | None:
        some, counts = self.by_label.some, self.by_label.counts
        # A broadcast is about a message of the process itself.
        before, last = (
            np.append(limit, limit[self.process]) for limit in self.run.cutting.numbers(self.slab)
        )
        begins = self.by_label.begins[some]
        least = np.minimum.reduceat(self.seq, begins)
        largest = np.maximum.reduceat(self.seq, begins)
        if not ((least <= before[some]) | (largest > last[some])).any():
            return None
        away: Array = self.seq <= np.repeat(before, counts)
        away |= self.seq > np.repeat(last, counts)
        return away

    def notes(self) -> Iterator[Parcel]:
        if self.is_away is None:
            return
        away = self.events.at(np.sort(self.by_label.order[self.is_away]))
        place = self.run.cutting.slab_of(away.origin, away.seq)
        for slab in np.unique(place).tolist():
            some = away.at(place == slab)
            yield Parcel(
                slab,
                Note(
                    self.process,
                    self.slab,
                    some.index,
                    some.is_broadcast,
                    some.origin,
                    some.seq,
                    some.digest,
                    some.view if self.run.outline.views > 1 else None,
                ),
            )

    def home(self, with_digests: bool) -> Home:
        events, by_label = self.events, self.by_label
        starts = np.zeros(self.run.width + 1, np.int64)
        starts[by_label.some] = self.seq[by_label.begins[by_label.some]]
        index = events.index
        is_dense = index[-1] - index[0] == len(index) - 1
        views = events.view[events.is_broadcast] if self.run.outline.views > 1 else None
        return Home(
            self.process,
            int(index[0]),
            None if is_dense else smallest(np.diff(index, prepend=index[0] - 1) - 1),
            self.labels,
            starts,
            smallest(self.steps) if self.steps.any() else None,
            events.digest[events.is_broadcast],
            views,
            self._sums(),
            events.digest if with_digests else None,
        )

    def _sums(self) -> Array:
        by_label, cuts = self.by_label, self.run.outline.known.cuts
        deliveries = slice(by_label.deliveries)
        seq, places = self.seq[deliveries], by_label.order[deliveries]
        lanes = mixed(seq, self.events.digest[places], self.run.salt)
        left_out = None if self.is_away is None else self.is_away[deliveries]
        if cuts is not None:
            origin = self.events.origin[places]
            is_given = cuts.are_given(np.zeros_like(origin), origin, seq)
            left_out = is_given if left_out is None else left_out | is_given
        sums = np.zeros((self.run.width, LANES), np.uint64)
        heard = by_label.some[by_label.some < self.run.width]
        for lane, numbers in enumerate(lanes if len(heard) else ()):
            if left_out is not None:
                numbers[left_out] = 0
            sums[heard, lane] = np.add.reduceat(numbers, by_label.begins[heard])
        return sums


# --- unpacked


class Span(NamedTuple):
    """Rows of one label about messages that follow each other."""

    label: int
    rows: slice
    messages: slice


class HomeRows:
    """The rows of a Home, by label."""

    is_home = True

    def __init__(self, home: Home, slab: int, width: int) -> None:
        self.home, self.process, self.slab, self.width = home, home.process, slab, width
        self.by_label = by_label = ByLabel(home.labels, width)
        self.size = home.size
        index = np.arange(home.first, home.first + self.size)
        if home.gaps is not None:
            index += np.cumsum(home.gaps, dtype=np.int64)
        self.index = index[by_label.order]
        self.first = home.first
        self.origin_of_label = np.append(np.arange(width), home.process)
        self.deliveries = slice(0, by_label.deliveries)
        self.broadcasts = slice(by_label.deliveries, self.size)
        self.texts, self.views = home.texts, home.views
        self.digest = None if home.digests is None else home.digests[by_label.order]
        self.nowhere = 0
        """In place of the message of a row that is away."""
        self.spans: Sequence[Span] | None = None
        """All rows about messages of the slab, if it is so simple: nothing more has to be known."""

    @cached_property
    def message(self) -> Array:
        """Which message of the slab each is about."""
        message = np.full(self.size, self.nowhere)
        for _, rows, messages in self.spans or ():
            message[rows] = np.arange(messages.start, messages.stop)
        return message

    @cached_property
    def here(self) -> Array | None:
        """Which are about messages of the slab, unless all are."""
        if sum(rows.stop - rows.start for _, rows, _ in self.spans or ()) == self.size:
            return None
        here = np.zeros(self.size, bool)
        for _, rows, _ in self.spans or ():
            here[rows] = True
        return here

    @property
    def heard(self) -> Sequence[Span] | None:
        """The spans of deliveries."""
        return None if self.spans is None else [one for one in self.spans if one.label < self.width]

    @property
    def sent(self) -> Array:
        """The messages of the broadcasts."""
        if self.spans is None:
            return self.message[self.broadcasts]
        message = np.full(len(self.texts), self.nowhere)
        for label, rows, messages in self.spans:
            if label == self.width:
                first = self.by_label.deliveries
                places = slice(rows.start - first, rows.stop - first)
                message[places] = np.arange(messages.start, messages.stop)
        return message

    def of_here(self, column: Array) -> Array:
        """Without the rows that are away."""
        if self.spans is not None:
            return np.concatenate([column[:0], *(column[rows] for _, rows, _ in self.spans)])
        return column if self.here is None else column[self.here]

    def found_in(self, table: Array) -> Array:
        """What a table of (reader, message) says of each row that is not away."""
        if self.spans is not None:
            none = table[:, :0]
            parts = (table[:, messages] for _, _, messages in self.spans)
            return np.concatenate([none, *parts], axis=1)
        return table.take(self.of_here(self.message), axis=1, mode="clip")

    @cached_property
    def origin(self) -> Array:
        return np.repeat(self.origin_of_label, self.by_label.counts)

    @cached_property
    def seq(self) -> Array:
        home, by_label = self.home, self.by_label
        seq = np.repeat(home.starts - by_label.begins, by_label.counts)
        seq += np.arange(self.size)
        if home.steps is not None:
            total = np.cumsum(home.steps, dtype=np.int64)
            # Where a label begins its step is 0, so the sum there is that before it.
            before = total[np.minimum(by_label.begins, self.size - 1)]
            seq += total - np.repeat(before, by_label.counts)
        return seq

    @property
    def broadcasts_so_far(self) -> Array:
        """How many there are up to each row."""
        counts = np.cumsum(self.home.labels == self.width, dtype=np.int32)
        return counts[self.by_label.order]

    def in_order(self, column: Array) -> Array:
        """In the order of the history."""
        placed = np.empty(len(column), column.dtype)
        placed[self.by_label.order] = column
        return placed


class NotedRows:
    """The rows of a Note, all about messages of the slab that got it."""

    is_home = False

    def __init__(self, note: Note) -> None:
        self.process, self.slab = note.process, note.slab
        self.index, self.origin, self.seq = note.index, note.origin, note.seq
        self.first = int(note.index[0])
        self.size = note.size
        self.is_broadcast = note.is_broadcast
        self.deliveries = np.flatnonzero(~note.is_broadcast)
        self.broadcasts = np.flatnonzero(note.is_broadcast)
        self.texts = note.digest[self.broadcasts]
        self.views = None if note.views is None else note.views[self.broadcasts]
        self.digest = note.digest
        self.message: Array = None
        self.here: Array | None = None
        self.heard: Sequence[Span] | None = None

    @property
    def sent(self) -> Array:
        return self.message[self.broadcasts]


Part = HomeRows | NotedRows


def unpacked(contents: list[Home | Note], slab: int, width: int) -> list[Part]:
    """One process after the other, each in the order of its history.

    The parts of one process come from pieces and slabs that do not overlap: their first rows say
    which is earlier, so what is first among parts in this order is first in the history.
    """
    parts: list[Part] = [
        HomeRows(one, slab, width) if isinstance(one, Home) else NotedRows(one) for one in contents
    ]
    return sorted(parts, key=lambda part: (part.process, part.first))
