"""One run of any length, judged in pieces that fit in memory.

A piece is one group of rows of one file. First every piece is checked by itself (``survey``), and
the ends of neighbours against each other (``outlines``): then it is known who was correct, and
which sequence numbers each origin used. These are dense, or this way is not taken, so a message
is a place in a table.

Then the processes are dealt out. Whoever gets some of them (``judge_slice``) reads the whole trace
twice, one piece after the other. The first time it notes, of its own processes as readers, where
each first delivered each message, and, of its own processes as origins, the text of each message as
it was first heard: if everybody heard the same, the text is right. The second time it goes through
the history of every origin and asks for the causes, as ``batch`` does; the running maximum is
carried from piece to piece. Four bytes for each message and reader, eight for each message of an
origin, and one piece: that is all the memory it takes.

Nothing here is an approximation. Names in any order, duplicates, strays and altered texts are
judged as the specification does; what they cost is another look at the pieces concerned.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import NOTHING, Breaches, Findings
from tidings.pipeline.arrays.known import ABSENT, Endings, Known, Lives
from tidings.pipeline.arrays.rows import (
    BEGINS_AGAIN,
    BROADCAST,
    OVER,
    BadRowsError,
    Directory,
    checked,
    events_of,
    in_line,
    read,
)
from tidings.spec import Guarantee

Array = Any
Perform = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Does a task for each item of a list, wherever, and returns what came of each, in order."""

KEPT_ROWS = 1 << 26
"""Of a run of no more rows a task keeps, from the first reading, which message each is about."""

SPARSE = 4
"""The table of messages may have this many places for each broadcast."""


def plainly(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest Perform: here, one after the other."""
    return [task(item) for item in items]


class Piece(NamedTuple):
    """One group of rows of one file."""

    file: int
    """The place of the file in reading order."""
    path: str
    group: int
    columns: tuple[str, ...]


class Stretch(NamedTuple):
    """What a survey tells of one history in one piece."""

    run: int
    process: int
    rows: int
    first: tuple[int, int, int]
    """Index, kind and incarnation of its first row."""
    last: tuple[int, int, int]
    broadcasts: int
    lowest: int
    highest: int
    first_seq: int
    last_seq: int
    is_rising: bool
    """The sequence numbers of its broadcasts grow from each to the next."""


def survey(piece: Piece, directory: Directory) -> list[Stretch]:
    """Check a piece, and tell what is in it."""
    rows = checked(read(piece.path, piece.columns, [piece.group]), directory)
    if not len(rows.run):
        return []
    files = np.zeros(len(rows.run), np.int8)
    line = in_line(rows, files, directory.width, len(directory.shape))
    rows = line.rows
    stretches = []
    for start, end in zip(line.starts.tolist(), line.ends.tolist(), strict=True):
        mine = slice(start, end + 1)
        sent = rows.seq[mine][rows.kind[mine] == BROADCAST]
        first, last = (
            (int(rows.index[at]), int(rows.kind[at]), int(rows.incarnation[at]))
            for at in (start, end)
        )
        stretches.append(
            Stretch(
                int(rows.run[start]),
                int(rows.process[start]),
                end + 1 - start,
                first,
                last,
                len(sent),
                int(sent.min()) if len(sent) else NOTHING,
                int(sent.max()) if len(sent) else NOTHING,
                int(sent[0]) if len(sent) else NOTHING,
                int(sent[-1]) if len(sent) else NOTHING,
                bool((sent[1:] > sent[:-1]).all()),
            )
        )
    return stretches


class Outline(NamedTuple):
    """A long run as its surveys tell it."""

    run: int
    rows: int
    known: Known
    """About this one run."""
    low: Array
    """(process): the least sequence number it used."""
    size: Array
    """(process): how many places its sequence numbers take in the table of messages."""
    is_rising: bool
    """No name is used twice, and the order of names is that of broadcasts."""
    is_full: bool
    """Every place in the table is a message that was broadcast."""
    last_index: int
    pieces: tuple[Piece, ...]
    owners: tuple[tuple[int, ...], ...]
    """Whose rows are in each piece."""
    is_alone: tuple[bool, ...]
    """Whether a piece has rows of this run only."""

    @property
    def base(self) -> Array:
        """(process): where its messages begin in the table."""
        return np.cumsum(self.size) - self.size

    @property
    def messages(self) -> int:
        return int(self.size.sum())

    @property
    def views(self) -> int:
        return len(self.known.forsaken)

    @property
    def obstacle(self) -> str:
        """Why the run cannot be judged in pieces, if so."""
        if self.messages > SPARSE * max(self.rows, 1024):
            return "its sequence numbers are too sparse"
        if self.views > 1 and self.known.settled[0] and self.known.forsaken.any():
            return "one of several lists lost its majority"
        return ""


def outlines(
    pieces: Sequence[Piece], surveys: Sequence[Sequence[Stretch]], directory: Directory
) -> dict[int, Outline]:
    """Every run that has rows, put together from the surveys of all pieces, in reading order."""
    of_run: dict[int, list[tuple[Piece, Stretch]]] = {}
    runs_in: dict[Piece, set[int]] = {}
    for piece, stretches in zip(pieces, surveys, strict=True):
        runs_in[piece] = {stretch.run for stretch in stretches}
        for stretch in stretches:
            of_run.setdefault(stretch.run, []).append((piece, stretch))
    endings = Endings(directory.shapes)
    return {run: _outline(run, parts, runs_in, directory, endings) for run, parts in of_run.items()}


def _outline(
    run: int,
    parts: Sequence[tuple[Piece, Stretch]],
    runs_in: Mapping[Piece, set[int]],
    directory: Directory,
    endings: Endings,
) -> Outline:
    width = directory.width
    last_kind, holed = np.full((1, width), ABSENT), np.zeros((1, width), bool)
    low, high = np.full(width, np.iinfo(np.int64).max), np.full(width, NOTHING)
    is_rising, sent, last_index = True, 0, 0
    last: dict[int, tuple[Piece, Stretch]] = {}
    last_seq: dict[int, int] = {}
    owners: dict[Piece, list[int]] = {}
    for piece, stretch in parts:
        process = stretch.process
        holed[0, process] |= _follows_a_hole(piece, stretch, last.get(process))
        last[process] = piece, stretch
        last_kind[0, process] = stretch.last[1]
        last_index = max(last_index, stretch.last[0])
        owners.setdefault(piece, []).append(process)
        if stretch.broadcasts:
            low[process] = min(low[process], stretch.lowest)
            high[process] = max(high[process], stretch.highest)
            follows = stretch.first_seq > last_seq.get(process, NOTHING)
            is_rising &= stretch.is_rising and follows
            last_seq[process] = stretch.last_seq
            sent += stretch.broadcasts
    low[high == NOTHING] = 0
    size = high - low + 1
    size[high == NOTHING] = 0
    # What would not fit in 64 bits does not fit in any table either.
    size = np.where((high.astype(float) - low) > 2**40, 2**40, size)
    return Outline(
        run,
        sum(stretch.rows for _, stretch in parts),
        endings.known(directory.shape[[run]], Lives(last_kind, holed)),
        low,
        size,
        is_rising,
        is_rising and int(size.sum()) == sent,
        last_index,
        tuple(owners),
        tuple(tuple(whose) for whose in owners.values()),
        tuple(runs_in[piece] == {run} for piece in owners),
    )


def _follows_a_hole(piece: Piece, stretch: Stretch, last: tuple[Piece, Stretch] | None) -> bool:
    """Whether a file is missing before it; BadRowsError if it cannot follow the one before it."""
    index, kind, incarnation = stretch.first
    if last is None:
        return index > 0
    before, (last_index, last_kind, last_incarnation) = last[0], last[1].last
    is_hole = before.file != piece.file and index > last_index + 1
    acts = OVER[last_kind] and not BEGINS_AGAIN[kind]
    if acts or incarnation < last_incarnation or not (is_hole or index == last_index + 1):
        raise BadRowsError
    return is_hole


# --- one slice of the processes


class Found(NamedTuple):
    """Violations found by one slice, in numbers, each list in the specification's order."""

    process: Array
    position: Array
    """The index of the event of this process at which it shows: the order within a process."""
    origin: Array
    seq: Array
    witness: Array
    """(violation, event, process and index)"""
    cause: Array
    """(violation, origin and seq)"""

    @classmethod
    def of(
        cls,
        process: Array,
        position: Array,
        origin: Array,
        seq: Array,
        witness: Sequence[tuple[Array, Array]],
        cause: tuple[Array, Array] | None = None,
    ) -> "Found":
        events = np.full((len(position), 3, 2), NOTHING)
        for place, (whose, index) in enumerate(witness):
            events[:, place, 0] = whose
            events[:, place, 1] = index
        causes = np.full((len(position), 2), NOTHING)
        if cause is not None:
            causes[:, 0], causes[:, 1] = cause
        process = np.broadcast_to(process, len(position))
        return cls(process, position, np.asarray(origin), np.asarray(seq), events, causes)

    def taken(self, places: Array) -> "Found":
        return Found(*(column[places] for column in self))

    @classmethod
    def joined(cls, parts: Sequence["Found"]) -> "Found":
        """All in order of process and position."""
        nothing = np.zeros(0, np.int64)
        parts = [cls.of(nothing, nothing, nothing, nothing, ()), *parts]
        whole = cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return whole.taken(np.lexsort((whole.position, whole.process)))

    def followed_by(self, other: "Found") -> "Found":
        return Found(*(np.concatenate(column) for column in zip(self, other, strict=True)))

    def first(self, most: int | None) -> "Found":
        return self if most is None else self.taken(np.arange(min(most, len(self.position))))


class SliceFindings(NamedTuple):
    """What one slice says of its processes."""

    deliveries: int
    repeats: Found
    repeated: int
    invented: Found
    inventions: int
    renamed: Found
    renamings: int
    early: Found
    earliness: int
    ordered: int
    """How many deliveries were judged for Causal Order."""
    unreached: tuple[int, int, int, int] | None
    """Process, index, origin and seq of the first delivery whose broadcast may still come."""
    missing: dict[int, bytes]
    """For each of its processes the messages it did not deliver, as packed bits."""
    owing: dict[int, bytes]
    """Those among them that are addressed to it; empty where everybody is addressed alike."""
    sent: bytes
    """The messages that were broadcast, as packed bits; empty if all were."""


def judge_slice(
    mine: Sequence[int], outline: Outline, directory: Directory, most: int | None
) -> SliceFindings:
    """Judge some neighbouring processes, as readers of everything and as origins."""
    return _Slice(mine, outline, directory, most).findings()


class _Slice:
    def __init__(
        self, mine: Sequence[int], outline: Outline, directory: Directory, most: int | None
    ) -> None:
        self.mine = mine
        self.outline = outline
        self.directory = directory
        self.most = most
        self.names = _Names(outline)
        self.known = outline.known
        kind = np.int32 if outline.last_index < np.iinfo(np.int32).max else np.int64
        self.never = int(np.iinfo(kind).max)
        places = max(1, outline.messages)
        self.delivered = {reader: np.full(places, self.never, kind) for reader in mine}
        """For each reader and message the index of its first delivery."""
        begin, end = min(mine), max(mine)
        self.begin = int(outline.base[begin])
        self.end = int(outline.base[end] + outline.size[end])
        """The messages of our own origins stand between these two."""
        self.sent_at = None if outline.is_full else np.full(places, NOTHING)
        self.view = None if outline.views == 1 else np.zeros(places, np.int16)
        self.has_strays = False
        is_simple = outline.is_full and outline.rows <= KEPT_ROWS
        self.kept: list[_Kept] | None = [] if is_simple else None
        """What the second reading needs, while there is nothing unusual to look at."""
        self.repeats: list[Found] = []
        self.deliveries = 0

    def findings(self) -> SliceFindings:
        suspects = self._listen()
        order = self._order(suspects)
        strays, renamed, texts = order.strays, Found.joined(order.renamed), order.texts
        invented = Found.joined([*self._invented(strays), *self._altered(texts)])
        repeats = Found.joined([*self.repeats, *self._repeated(strays)])
        early = order.early
        return SliceFindings(
            deliveries=self.deliveries,
            repeats=repeats.first(self.most),
            repeated=len(repeats.position),
            invented=invented.first(self.most),
            inventions=len(invented.position),
            renamed=renamed.first(self.most),
            renamings=len(renamed.position),
            early=self._with_causes(early),
            earliness=sum(len(one.message) for one in early),
            ordered=order.judged,
            unreached=self._unreached(strays),
            missing={reader: _packed(self._is_missing(reader)) for reader in self.mine},
            owing=self._owing(),
            sent=b"" if self.sent_at is None else _packed(self.sent_at != NOTHING),
        )

    # --- the first reading: who delivered what, and where; what everybody heard

    def _listen(self) -> Array:
        """Fill the tables; the messages, if any, of which not everybody heard the same text."""
        heard = np.zeros(self.end - self.begin, np.int64)
        suspects: list[Array] = []
        for process, events in self._events("digest", "view", own=("index",)):
            message, is_named = self.names.places(events)
            if is_named is not None:
                self.kept = None
                self._count_strays(process, events, is_named)
                events, message = _where(events, is_named), message[is_named]
            elif self.kept is not None:
                self.kept.append(_Kept.of(process, message, events.is_broadcast))
            self._hear(heard, message, events.digest, suspects)
            self._note_broadcasts(message, events)
            if process in self.delivered:
                self._note_deliveries(process, message, events)
        return np.unique(np.concatenate([np.zeros(0, np.int64), *suspects]))

    def _hear(self, heard: Array, message: Array, digest: Array, suspects: list[Array]) -> None:
        if len(heard) < self.outline.messages:
            is_ours = (message >= self.begin) & (message < self.end)
            message, digest = message[is_ours], digest[is_ours]
        place = message - self.begin
        is_new = heard[place] == 0
        if is_new.any():
            heard[place[is_new]] = digest[is_new]
        # A text whose digest is 0 looks like one not heard yet: look at it more closely.
        is_odd = (heard[place] != digest) | (digest == 0)
        if is_odd.any():
            suspects.append(np.unique(message[is_odd]))

    def _note_broadcasts(self, message: Array, events: Events) -> None:
        if self.sent_at is None and self.view is None:
            return
        broadcasts = np.flatnonzero(events.is_broadcast)
        message = message[broadcasts]
        if self.sent_at is None:
            assert self.view is not None
            self.view[message] = events.view[broadcasts]
            return
        is_new = self.sent_at[message] == NOTHING
        message, broadcasts = message[is_new][::-1], broadcasts[is_new][::-1]
        self.sent_at[message] = events.index[broadcasts]
        if self.view is not None:
            self.view[message] = events.view[broadcasts]

    def _note_deliveries(self, reader: int, message: Array, events: Events) -> None:
        is_delivery = ~events.is_broadcast
        message = message[is_delivery]
        index = events.index[is_delivery]
        delivered = self.delivered[reader]
        self.deliveries += len(index)
        is_new = delivered[message] == self.never
        if is_new.all():
            delivered[message[::-1]] = index[::-1]
        else:
            delivered[message[is_new][::-1]] = index[is_new][::-1]
        first = delivered[message]
        again = np.flatnonzero(first != index)
        if len(again):
            witness = [(reader, first[again]), (reader, index[again])]
            names = self.names.of(message[again])
            self.repeats.append(Found.of(reader, index[again], *names, witness))

    def _count_strays(self, process: int, events: Events, is_named: Array) -> None:
        if process in self.delivered:
            self.has_strays = True
            self.deliveries += int((~is_named & ~events.is_broadcast).sum())

    # --- the second reading: whether the causes came first

    def _order(self, suspects: Array) -> "_Order":
        order = _Order(self, suspects)
        if self.kept is not None and not len(suspects):
            for one in self.kept:
                order.ask(one.process, one.message, None, one.broadcasts)
            self.kept = None
            return order
        closely = ("index", "digest") if len(suspects) else ()
        own = ("index",) if self.has_strays or self.sent_at is not None else ()
        for process, events in self._events(*closely, own=own):
            message, is_named = self.names.places(events)
            order.read(process, events, message, is_named)
        return order

    def _with_causes(self, early: "list[_Early]") -> Found:
        """Early deliveries, the first of them or all, each with its first missing cause."""
        if not early:
            return Found.joined([])
        reader = np.concatenate([np.full(len(one.message), one.reader) for one in early])
        origin = np.concatenate([np.full(len(one.message), one.origin) for one in early])
        message = np.concatenate([one.message for one in early])
        at = np.concatenate([one.at for one in early])
        shown = np.lexsort((at, reader))[: self.most]
        reader, origin, message, at = reader[shown], origin[shown], message[shown], at[shown]
        sent_at = np.full(len(shown), NOTHING)
        cause = np.full((len(shown), 3), NOTHING)
        largest: dict[tuple[int, int], int] = {}
        suspected = set(origin.tolist())
        for process, events in self._events("index", only=suspected):
            names, is_named = self.names.places(events)
            mine = np.flatnonzero(origin == process)
            _note_places(sent_at, mine, message, names, events)
            for one in set(reader[mine].tolist()):
                so_far = self.so_far(one, names, is_named, largest.get((one, process), NOTHING))
                largest[one, process] = int(so_far[-1]) if len(so_far) else NOTHING
                open_ones = mine[(reader[mine] == one) & (cause[mine, 0] == NOTHING)]
                at_event = np.searchsorted(so_far, at[open_ones], side="left")
                is_found = at_event < len(so_far)
                found, at_event = open_ones[is_found], at_event[is_found]
                cause[found, 0] = events.index[at_event]
                cause[found, 1] = events.origin[at_event]
                cause[found, 2] = events.seq[at_event]
        witness = [(origin, cause[:, 0]), (origin, sent_at), (reader, at)]
        return Found.of(reader, at, *self.names.of(message), witness, (cause[:, 1], cause[:, 2]))

    def so_far(self, reader: int, message: Array, is_named: Array | None, before: int) -> Array:
        """The largest index in the reader's history that each event, or one before it, asks for."""
        asked: Array = self.delivered[reader].take(message, mode="clip")
        if not self.known.members[:, reader].all():
            views = 0 if self.view is None else self.view[message]
            asked[np.broadcast_to(~self.known.members[views, reader], len(asked))] = NOTHING
        if self.sent_at is not None:
            asked[self.sent_at[message] == NOTHING] = NOTHING
        if is_named is not None:
            asked[~is_named] = NOTHING
        if len(asked):
            asked[0] = max(asked[0], before)
        return np.maximum.accumulate(asked, out=asked)

    # --- what strays and suspects amount to

    def _invented(self, strays: Sequence["_Strays"]) -> Iterator[Found]:
        hidden = self.known.holed[0] | self._may_come()
        for stray in strays:
            shown = ~hidden[stray.origin]
            index = stray.index[shown]
            witness = [(stray.reader, index)]
            yield Found.of(stray.reader, index, stray.origin[shown], stray.seq[shown], witness)

    def _repeated(self, strays: Sequence["_Strays"]) -> Iterator[Found]:
        """Repeated deliveries of what has no place in the table; the others are known by now."""
        for reader in self.mine:
            mine = [stray for stray in strays if stray.reader == reader]
            if not mine:
                continue
            index, origin, seq, is_named = (
                np.concatenate([stray[column] for stray in mine]) for column in (1, 2, 3, 4)
            )
            index, origin, seq = index[~is_named], origin[~is_named], seq[~is_named]
            order = np.lexsort((index, seq, origin))
            index, origin, seq = index[order], origin[order], seq[order]
            is_first = np.ones(len(index), bool)
            is_first[1:] = (origin[1:] != origin[:-1]) | (seq[1:] != seq[:-1])
            first = index[np.maximum.accumulate(np.where(is_first, np.arange(len(index)), 0))]
            again = ~is_first
            witness = [(reader, first[again]), (reader, index[again])]
            yield Found.of(reader, index[again], origin[again], seq[again], witness)

    def _unreached(self, strays: Sequence["_Strays"]) -> tuple[int, int, int, int] | None:
        may_come = self._may_come()
        waiting = [
            (stray.reader, int(stray.index[at]), int(stray.origin[at]), int(stray.seq[at]))
            for stray in strays
            for at in np.flatnonzero(may_come[stray.origin])[:1]
        ]
        return min(waiting, default=None)

    def _may_come(self) -> Array:
        return (self.known.present & ~self.known.told_all)[0]

    def _altered(self, texts: Sequence["_Texts"]) -> Iterator[Found]:
        """Deliveries of a suspected message with a text that none of its broadcasts had."""
        said: dict[int, set[int]] = {}
        sent_at: dict[int, int] = {}
        for part in texts:
            for message, index, digest in zip(*part.of(part.is_broadcast), strict=True):
                said.setdefault(message, set()).add(digest)
                sent_at[message] = min(index, sent_at.get(message, index))
        for part in texts:
            for message, index, digest in zip(*part.of(~part.is_broadcast), strict=True):
                if message in said and digest not in said[message]:
                    origin, seq = self.names.of(np.array([message]))
                    witness = [(part.process, index), (origin, sent_at[message])]
                    yield Found.of(part.process, np.array([index]), origin, seq, witness)

    # --- what was not delivered

    def _is_missing(self, reader: int) -> Array:
        return self.delivered[reader] == self.never

    def _owing(self) -> dict[int, bytes]:
        if self.view is None:
            return {}
        return {
            reader: _packed(self._is_missing(reader) & self.known.survivors[self.view, reader])
            for reader in self.mine
        }

    # --- reading

    def _events(
        self, *columns: str, own: Sequence[str] = (), only: set[int] | None = None
    ) -> Iterator[tuple[int, Events]]:
        """The events of every process, or of ``only`` some, piece by piece in reading order.

        Always read is what says which message it is; ``own`` columns for our processes only.
        """
        ours = set(self.mine)
        for piece, owners, is_alone in zip(
            self.outline.pieces, self.outline.owners, self.outline.is_alone, strict=True
        ):
            if only is not None and only.isdisjoint(owners):
                continue
            wanted = {"kind", "origin", "seq", *columns}
            if not ours.isdisjoint(owners) or self.sent_at is not None:
                wanted.update(own)
            if self.outline.views == 1:
                wanted.discard("view")
            yield from _read_events(piece, owners, is_alone, wanted, self.outline, self.directory)


def _read_events(
    piece: Piece,
    owners: tuple[int, ...],
    is_alone: bool,
    columns: set[str],
    outline: Outline,
    directory: Directory,
) -> Iterator[tuple[int, Events]]:
    """The events of each process that has any in a piece."""
    if not is_alone:
        columns = columns | {"run"}
    process = owners[0] if is_alone and len(owners) == 1 else None
    if process is None:
        columns = columns | {"process"}
    events = events_of(
        read(piece.path, sorted(columns), [piece.group]), directory, outline.run, process
    )
    if process is not None:
        yield process, events
        return
    for owner in owners:
        yield owner, _where(events, events.process == owner)


class _Names:
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


class _Kept(NamedTuple):
    """Events of one process: which message each is about, and which are broadcasts."""

    process: int
    message: Array
    broadcasts: Array

    @classmethod
    def of(cls, process: int, message: Array, is_broadcast: Array) -> "_Kept":
        return cls(process, message.astype(np.int32), np.flatnonzero(is_broadcast))


class _Strays(NamedTuple):
    """Deliveries of one reader, in one piece, of what nobody broadcast."""

    reader: int
    index: Array
    origin: Array
    seq: Array
    is_named: Array
    """Whether it has a place in the table all the same."""


class _Texts(NamedTuple):
    """Events of one process, in one piece, about messages whose text is in question."""

    process: int
    is_broadcast: Array
    message: Array
    index: Array
    digest: Array

    def of(self, which: Array) -> tuple[list[int], list[int], list[int]]:
        columns = (self.message, self.index, self.digest)
        return tuple(column[which].tolist() for column in columns)


class _Early(NamedTuple):
    """Messages of one origin that a reader delivered before one of their causes, and where."""

    reader: int
    origin: int
    message: Array
    at: Array


class _Order:
    """The second reading."""

    def __init__(self, slice_: _Slice, suspects: Array) -> None:
        self.slice = slice_
        self.suspects = suspects
        known = slice_.known
        is_whole = (known.present & ~known.holed)[0]
        self.readers = [reader for reader in slice_.mine if is_whole[reader]]
        self.largest: dict[tuple[int, int], int] = {}
        self.judged = 0
        self.early: list[_Early] = []
        self.strays: list[_Strays] = []
        self.renamed: list[Found] = []
        self.texts: list[_Texts] = []

    def read(self, process: int, events: Events, message: Array, is_named: Array | None) -> None:
        slice_ = self.slice
        sent_at = slice_.sent_at
        if process in slice_.delivered:
            self._note_strays(process, events, message, is_named)
        if len(self.suspects):
            self._note_texts(process, events, message, is_named)
        broadcasts = np.flatnonzero(events.is_broadcast)
        if sent_at is not None:
            is_first = sent_at[message[broadcasts]] == events.index[broadcasts]
            if process in slice_.delivered:
                self._note_renamed(process, events, message, broadcasts[~is_first])
            broadcasts = broadcasts[is_first]
        self.ask(process, message, is_named, broadcasts)

    def ask(self, process: int, message: Array, is_named: Array | None, broadcasts: Array) -> None:
        """Go through some of an origin's history, with every reader of ours."""
        slice_ = self.slice
        if not len(message):
            return
        for reader in self.readers:
            before = self.largest.get((reader, process), NOTHING)
            so_far = slice_.so_far(reader, message, is_named, before)
            self.largest[reader, process] = int(so_far[-1])
            at = slice_.delivered[reader][message[broadcasts]]
            asked = so_far[broadcasts - 1]
            if len(broadcasts) and broadcasts[0] == 0:
                asked[0] = before
            is_judged = at != slice_.never
            self.judged += int(is_judged.sum())
            early = np.flatnonzero(is_judged & (asked >= at))
            if len(early):
                found = message[broadcasts[early]]
                self.early.append(_Early(reader, process, found, at[early].astype(np.int64)))

    def _note_strays(
        self, reader: int, events: Events, message: Array, is_named: Array | None
    ) -> None:
        if is_named is None:
            is_named = np.ones(len(message), bool)
            if self.slice.sent_at is None:
                return
        is_stray = ~is_named
        if self.slice.sent_at is not None:
            is_stray |= self.slice.sent_at[message] == NOTHING
        strays = np.flatnonzero(is_stray & ~events.is_broadcast)
        if len(strays):
            columns = (events.index, events.origin, events.seq, is_named)
            self.strays.append(_Strays(reader, *(column[strays] for column in columns)))

    def _note_renamed(self, origin: int, events: Events, message: Array, again: Array) -> None:
        assert self.slice.sent_at is not None
        if len(again):
            first, index = self.slice.sent_at[message[again]], events.index[again]
            witness = [(origin, first), (origin, index)]
            self.renamed.append(
                Found.of(origin, index, events.origin[again], events.seq[again], witness)
            )

    def _note_texts(
        self, process: int, events: Events, message: Array, is_named: Array | None
    ) -> None:
        place = np.searchsorted(self.suspects, message)
        is_suspect = self.suspects.take(place, mode="clip") == message
        if is_named is not None:
            is_suspect &= is_named
        if is_suspect.any():
            columns = (events.is_broadcast, message, events.index, events.digest)
            self.texts.append(_Texts(process, *(column[is_suspect] for column in columns)))


def _where(events: Events, which: Array) -> Events:
    """Some of the events; a column that was not read stays empty."""
    return Events(*(column[which] if len(column) else column for column in events))


def _note_places(
    sent_at: Array, wanted: Array, message: Array, names: Array, events: Events
) -> None:
    """Note where the wanted messages were first broadcast, if it was among these events."""
    broadcasts = np.flatnonzero(events.is_broadcast)
    wanted = wanted[sent_at[wanted] == NOTHING]
    if not len(broadcasts) or not len(wanted):
        return
    order = np.argsort(names[broadcasts], kind="stable")
    sent = names[broadcasts][order]
    place = np.searchsorted(sent, message[wanted], side="left")
    is_here = sent.take(place, mode="clip") == message[wanted]
    sent_at[wanted[is_here]] = events.index[broadcasts[order[place[is_here]]]]


def _packed(flags: Array) -> bytes:
    return zlib.compress(np.packbits(flags).tobytes(), level=1)


# --- all slices together


def judge_long(
    outline: Outline,
    directory: Directory,
    *,
    slices: int = 1,
    most: int | None = None,
    perform: Perform = plainly,
) -> Findings:
    """The verdicts on one long run: ``slices`` tasks, and a few more to look up witnesses."""
    dealt = [part.tolist() for part in np.array_split(np.arange(directory.width), slices)]
    task = partial(judge_slice, outline=outline, directory=directory, most=most)
    parts: list[SliceFindings] = perform(task, [mine for mine in dealt if mine])
    debts = _Debts(outline, directory, parts, most, perform)
    deliveries = sum(part.deliveries for part in parts)
    inventions = sum(part.inventions + part.renamings for part in parts)
    invented = Found.joined([part.invented for part in parts]).first(most)
    renamed = Found.joined([part.renamed for part in parts]).first(most)
    found = {
        Guarantee.NO_DUPLICATION: Found.joined([part.repeats for part in parts]).first(most),
        Guarantee.NO_CREATION: invented.followed_by(renamed).first(most),
        Guarantee.VALIDITY: debts.validity,
        Guarantee.UNIFORM_AGREEMENT: debts.agreement,
        Guarantee.CAUSAL_ORDER: Found.joined([part.early for part in parts]).first(most),
    }
    counts = [
        (deliveries, 0, sum(part.repeated for part in parts)),
        (deliveries, 0, inventions),
        debts.validity_counts,
        debts.agreement_counts,
        (sum(part.ordered for part in parts), 0, sum(part.earliness for part in parts)),
    ]
    unreached = min((part.unreached for part in parts if part.unreached), default=None)
    return Findings(
        np.array([counts], np.int64),
        np.array([unreached[2:] if unreached else (NOTHING, NOTHING)]),
        Breaches.joined([_breaches(guarantee, each) for guarantee, each in found.items()]),
    )


def _breaches(guarantee: Guarantee, found: Found) -> Breaches:
    return Breaches.of(
        guarantee,
        run=np.zeros(len(found.position), np.int64),
        process=found.process,
        origin=found.origin,
        seq=found.seq,
        cause_origin=found.cause[:, 0],
        cause_seq=found.cause[:, 1],
        witness_process=found.witness[:, :, 0],
        witness_index=found.witness[:, :, 1],
    )


class _Debts:
    """Validity and Uniform Agreement, from what each process says that it did not deliver."""

    def __init__(
        self,
        outline: Outline,
        directory: Directory,
        parts: Sequence[SliceFindings],
        most: int | None,
        perform: Perform,
    ) -> None:
        self.outline = outline
        self.known = outline.known
        self.most = most
        self.missing = {who: bits for part in parts for who, bits in part.missing.items()}
        self.owing = {who: bits for part in parts for who, bits in part.owing.items()}
        self.sent = self._bits(parts[0].sent) if parts[0].sent else None
        self.validity_counts = self.agreement_counts = (0, 0, 0)
        self.validity = self.agreement = Found.joined([])
        if self.known.settled[0]:
            lost, owed = self._lost(), self._owed()
            look_up = partial(_look_up, outline=outline, directory=directory)
            self.validity = self._witnessed(lost, look_up, perform, is_agreement=False)
            self.agreement = self._witnessed(owed, look_up, perform, is_agreement=True)

    def _bits(self, packed: bytes) -> Array:
        """A flag for each message."""
        bits = np.frombuffer(zlib.decompress(packed), np.uint8)
        return np.unpackbits(bits, count=self.outline.messages).view(bool)

    def _lost(self) -> tuple[Array, Array]:
        """Messages that their own correct origin did not deliver, and the origin."""
        found = []
        due = 0
        for origin in np.flatnonzero(self.known.correct[0]).tolist():
            begin = int(self.outline.base[origin])
            mine = slice(begin, begin + int(self.outline.size[origin]))
            sent = np.ones(mine.stop - begin, bool) if self.sent is None else self.sent[mine]
            due += int(sent.sum())
            lost = begin + np.flatnonzero(self._bits(self.missing[origin])[mine] & sent)
            found.append((lost, np.full(len(lost), origin)))
        message, process = _joined(found)
        self.validity_counts = self._counts(due, len(message))
        return self._shown(message, process)

    def _owed(self) -> tuple[Array, Array]:
        """Messages that somebody delivered and a correct addressee did not, and who did not."""
        nowhere = np.ones(self.outline.messages, bool)
        for bits in self.missing.values():
            nowhere &= self._bits(bits)
        delivered = ~nowhere if self.sent is None else self.sent & ~nowhere
        found = []
        for process in np.flatnonzero(self.known.correct[0]).tolist():
            if self.owing:
                owing = self._bits(self.owing[process])
            elif self.known.survivors[0, process]:
                owing = self._bits(self.missing[process])
            else:
                continue
            owed = np.flatnonzero(owing & delivered)
            found.append((owed, np.full(len(owed), process)))
        message, process_ = _joined(found)
        self.agreement_counts = self._counts(int(delivered.sum()), len(message))
        return self._shown(message, process_)

    def _counts(self, due: int, violated: int) -> tuple[int, int, int]:
        """If the list has no majority left, nothing is owed: there is but one list then."""
        return (0, due, 0) if self.known.forsaken.any() else (due, 0, violated)

    def _shown(self, message: Array, process: Array) -> tuple[Array, Array]:
        """Those among which the first few are, by the order of broadcasts."""
        if self.known.forsaken.any():
            return message[:0], process[:0]
        if self.most is None or not self.outline.is_rising:
            return message, process
        among = np.isin(message, np.unique(message)[: self.most])
        return message[among], process[among]

    def _witnessed(
        self,
        missed: tuple[Array, Array],
        look_up: Callable[..., Any],
        perform: Perform,
        is_agreement: bool,
    ) -> Found:
        message, process = missed
        if not len(message):
            return Found.joined([])
        wanted = np.unique(message)
        pieces = list(
            zip(self.outline.pieces, self.outline.owners, self.outline.is_alone, strict=True)
        )
        heard = perform(partial(look_up, wanted=wanted), pieces)
        who, index, is_broadcast, about, view = _joined([one for some in heard for one in some], 5)
        order = np.lexsort((index, who, ~is_broadcast.astype(bool), about))
        who, index, about, view = who[order], index[order], about[order], view[order]
        is_delivery = ~is_broadcast.astype(bool)[order]
        # Of each message the broadcast comes first, then its first delivery at the first process.
        sent = np.searchsorted(about, message, side="left")
        is_first = is_delivery.copy()
        is_first[1:] &= ~is_delivery[:-1] | (about[1:] != about[:-1])
        firsts = np.flatnonzero(is_first)
        witness = [(who[sent], index[sent])]
        if is_agreement:
            seen = firsts[np.searchsorted(about[firsts], message, side="left")]
            witness.append((who[seen], index[seen]))
        names = _Names(self.outline).of(message)
        rank = self.known.rank[view[sent], process]
        found = Found.of(process, index[sent], *names, witness)
        told = np.lexsort((rank, index[sent], names[0]))
        return found.taken(told).first(self.most)


def _look_up(
    item: tuple[Piece, tuple[int, ...], bool],
    wanted: Array,
    outline: Outline,
    directory: Directory,
) -> list[tuple[Array, ...]]:
    """Every event of a piece about these messages: process, index, is_broadcast, message, view."""
    names = _Names(outline)
    found = []
    columns = {"kind", "origin", "seq", "index", "view"}
    for process, events in _read_events(*item, columns, outline, directory):
        message, is_named = names.places(events)
        is_wanted = wanted.take(np.searchsorted(wanted, message), mode="clip") == message
        if is_named is not None:
            is_wanted &= is_named
        places = np.flatnonzero(is_wanted)
        if len(places):
            columns_ = (events.index, events.is_broadcast, message, events.view)
            whose = np.full(len(places), process)
            found.append((whose, *(column[places].astype(np.int64) for column in columns_)))
    return found


def _joined(parts: Sequence[tuple[Array, ...]], columns: int = 2) -> tuple[Array, ...]:
    nothing = np.zeros(0, np.int64)
    return tuple(
        np.concatenate([nothing, *(part[column] for part in parts)]) for column in range(columns)
    )
