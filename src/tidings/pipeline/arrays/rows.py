"""Rows of a trace as arrays, every one of them checked.

The rules are those of ``faults``; here they only say whether anything at all is wrong. Then the
slower reader there is asked which row it is, and says so in words.

A column that nobody needs is not read: no order depends on ``time_ns``, and the statistics in the
footer of a Parquet file say that ``peer`` is empty from end to end. In a table without a column it
counts as empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.core import Members
from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import Array
from tidings.pipeline.arrays.known import ABSENT, Lives, Shape, shapes_of
from tidings.trace import KINDS, NEEDED, Manifest
from tidings.trace.manifest import begins_of
from tidings.trace.parquet import narrowed
from tidings.trace.schema import (
    AGREED,
    BINDING,
    COLUMNS,
    COUNTS,
    JUDGED,
    LONGEST_WORD,
    REQUIRED,
    WORDS,
)

BROADCAST, DELIVER, GAP = (KINDS.index(kind) for kind in ("broadcast", "deliver", "gap"))
OVER = np.isin(KINDS, ("crash", "leave"))
BEGINS_AGAIN = np.isin(KINDS, ("recover", "join"))


class BadRowsError(Exception):
    """Something is wrong with the rows; where and what is for others to say."""


class UnreadableError(Exception):
    """A file that could be opened, and whose rows cannot be read."""

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class Directory(NamedTuple):
    """All runs of a trace, as the manifest tells of them."""

    numbers: Mapping[str, int]
    shape: Array
    """(run): the number of its shape."""
    shapes: Sequence[Shape]
    slots: Array
    """(shape, position in its dictionary of names): the number of the process, or ABSENT."""
    views: Array
    """(shape): how many lists of members it has."""
    begins: Array | None
    """(shape, process): the index at which its history begins; None if that is 0 everywhere."""

    @classmethod
    def of(cls, manifests: Mapping[str, Manifest]) -> "Directory":
        shapes, shape = shapes_of(manifests.values())
        slots = np.full((len(shapes), max(len(one.numbers) for one in shapes)), ABSENT)
        for number, one in enumerate(shapes):
            slots[number, : len(one.numbers)] = one.numbers
        return cls(
            {run: number for number, run in enumerate(manifests)},
            shape,
            shapes,
            slots,
            np.array([len(one.manifest.views) for one in shapes]),
            _begins(shapes, slots.shape),
        )

    def names(self, run: int) -> Members:
        """What the numbers of its processes stand for."""
        return self.shapes[int(self.shape[run])].names

    @property
    def width(self) -> int:
        """The number of processes of the largest run."""
        return int(self.slots.shape[1])

    def numbered(self, shape: int, positions: Array) -> Array:
        """The numbers of processes by their positions in the dictionary of names."""
        slots = self.slots[shape]
        is_in_order = np.array_equal(slots, np.arange(len(slots)))
        return positions.astype(np.int64) if is_in_order else slots[positions]

    def first_indices(self, run: Array, process: Array) -> Array | int:
        """Where the histories of these begin."""
        return 0 if self.begins is None else self.begins[self.shape[run], process]


def _begins(shapes: Sequence[Shape], size: tuple[int, int]) -> Array | None:
    if not any(one.manifest.cuts for one in shapes):
        return None
    begins = np.zeros(size, np.int64)
    for number, one in enumerate(shapes):
        begins[number, : len(one.names)] = begins_of(one.manifest)
    return begins


class Rows(NamedTuple):
    """Checked rows in reading order; runs and processes are numbers, absent values are 0."""

    run: Array
    process: Array
    index: Array
    kind: Array
    incarnation: Array
    origin: Array
    seq: Array
    digest: Array
    view: Array
    last_index: Array
    """The index itself, and of a gap the last that is missing."""

    def at(self, places: Array) -> "Rows":
        return Rows(*(column[places] for column in self))


class Source(NamedTuple):
    """One Parquet file of a trace."""

    path: str
    groups: tuple[int, ...]
    """How many rows each group has."""
    columns: tuple[str, ...]
    """Those that have to be looked at: the judged, and others that the footer does not acquit."""
    is_digested: bool
    """No row is without a digest."""

    @property
    def rows(self) -> int:
        return sum(self.groups)


class Share(NamedTuple):
    """Some groups of rows of a file."""

    file: int
    """The place of the file in reading order."""
    source: Source
    begin: int
    end: int

    def read(self, columns: Sequence[str] = ()) -> Any:
        """Its rows as a table: these columns, or all that have to be looked at."""
        groups = range(self.begin, self.end)
        return read(self.source.path, columns or self.source.columns, groups)


def source_of(path: Path) -> Source:
    """A file as its footer tells it."""
    try:
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
            groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
            chunks: dict[str, list[Any]] = {"digest": []}
            for group in groups:
                for chunk in map(group.column, range(metadata.num_columns)):
                    chunks.setdefault(chunk.path_in_schema.split(".")[0], []).append(chunk)
            suspects = [
                name
                for name in COLUMNS
                if name in schema.names and name not in (*JUDGED, "time_ns")
                if groups and not _is_innocent(name, chunks[name])
            ]
            return Source(
                str(path),
                tuple(group.num_rows for group in groups),
                (*JUDGED, *suspects),
                bool(chunks["digest"]) and _nulls(chunks["digest"]) == 0,
            )
    except (pa.ArrowException, OSError, KeyError) as fault:
        raise UnreadableError(str(path)) from fault


def _nulls(chunks: Sequence[Any]) -> int | None:
    """How many values are missing, if the statistics tell."""
    statistics = [chunk.statistics for chunk in chunks]
    is_known = all(one is not None and one.has_null_count for one in statistics)
    return sum(one.null_count for one in statistics) if is_known else None


def _is_innocent(name: str, chunks: Sequence[Any]) -> bool:
    """Whether the statistics rule out that anything is wrong with the column."""
    nulls = _nulls(chunks)
    is_empty: bool = nulls == sum(chunk.num_values for chunk in chunks)
    if name == "incarnation" and nulls is not None and not is_empty:
        statistics = [chunk.statistics for chunk in chunks]
        return all(one.has_min_max and one.min == one.max == 0 for one in statistics)
    return is_empty


def read(path: str, columns: Sequence[str], groups: Sequence[int]) -> Any:
    """These columns of some groups of rows of a file, as one Arrow table."""
    try:
        about = Path(path).stat()
        file = _opened(path, about.st_mtime_ns, about.st_size)
        table = file.read_row_groups(list(groups), columns=list(columns), use_threads=False)
        table.validate(full=True)  # a damaged page may yield what is no text, or no number of one
        return narrowed(table.select(columns))  # Arrow takes peer.host for a part of peer
    except OverflowError:
        raise BadRowsError from None
    except (pa.ArrowException, OSError) as fault:
        raise UnreadableError(path) from fault


@lru_cache(maxsize=16)
def _opened(path: str, written_ns: int, size: int) -> Any:
    """An open file; a footer with hundreds of groups takes longer to read than a group.

    The time and the size tell a file from another one that came under the same name.
    """
    footer = pq.read_metadata(path)
    columns = footer.schema.to_arrow_schema().names
    words = [word for word in ("run", "kind", *WORDS) if word in columns]
    return pq.ParquetFile(
        path, metadata=footer, read_dictionary=words, page_checksum_verification=True
    )


def checked(table: Any, directory: Directory, unread: Sequence[str] = ()) -> Rows:
    """The columns of a table as arrays; BadRowsError if any row of it is wrong by itself.

    ``unread`` columns are known to be full, and were left out.
    """
    return _Checker(table, directory, unread).rows()


class _Checker:
    def __init__(self, table: Any, directory: Directory, unread: Sequence[str] = ()) -> None:
        self.table = table
        self.directory = directory
        self.unread = unread
        self.given = set(table.column_names)

    def rows(self) -> Rows:
        directory, table = self.directory, self.table
        for column in REQUIRED:
            _refuse(column in self.given and table[column].null_count > 0)
        run = self.coded("run", directory.numbers)
        kind = self.coded("kind", _KIND_NUMBERS)
        self._check_needs(kind)
        shape = directory.shape[run] if len(directory.shapes) > 1 else None
        counts = {column: self._count(column) for column in COUNTS}
        slots = {column: self._slots(column, shape) for column in ("process", "origin", "peer")}
        _refuse(bool(((slots["origin"] != slots["process"]) & _are(kind, _BINDING)).any()))
        known = directory.views[0] if shape is None else directory.views[shape]
        _refuse(bool((counts["view"] >= known).any()))
        if "value" in self.given and (is_agreed := _are(kind, _AGREED)).any():
            _refuse(bool((self.values("value", 1)[is_agreed] < 1).any()))
        self._check_words()
        self._check_vectors(shape)
        return Rows(
            run,
            slots["process"],
            counts["index"],
            kind,
            counts["incarnation"],
            slots["origin"],
            counts["seq"],
            self.values("digest"),
            counts["view"],
            self._last_indices(kind, counts["index"]),
        )

    def _last_indices(self, kind: Array, index: Array) -> Array:
        is_gap = kind == GAP
        if not is_gap.any():
            return index
        last = np.where(is_gap, self.values("value"), index)
        _refuse(bool((last < index).any()))
        return last

    def coded(self, column: str, numbers: Mapping[str, int]) -> Array:
        """The number of each word; the words themselves are looked up once each."""
        words = self.table[column]
        if not pa.types.is_dictionary(words.type):
            words = words.dictionary_encode()
        if words.num_chunks != 1:
            words = words.unify_dictionaries()
        codes = [self._codes(chunk, numbers) for chunk in words.chunks]
        return codes[0] if len(codes) == 1 else np.concatenate([np.zeros(0, np.int32), *codes])

    def _codes(self, words: Any, numbers: Mapping[str, int]) -> Array:
        _refuse(words.null_count > 0)
        known = [numbers.get(word, ABSENT) for word in words.dictionary.to_pylist()]
        lookup = np.array(known, np.int8 if len(numbers) < 128 else np.int32)
        if len(lookup) == 1:
            _refuse(bool(lookup[0] == ABSENT) and len(words) > 0)
            return np.full(len(words), lookup[0])
        codes = lookup.take(words.indices.to_numpy())
        _refuse(bool((lookup == ABSENT).any()) and bool((codes == ABSENT).any()))
        return codes

    def _check_needs(self, kind: Array) -> None:
        seen = np.array([(kind == one).any() for one in range(len(KINDS))])
        for column in _NEEDED_BY:
            in_need = _NEEDED_BY[column]
            if column in self.unread or not seen[in_need].any():
                continue
            _refuse(column not in self.given)
            if self.table[column].null_count:
                _refuse(bool((_are(kind, in_need) & ~_are_there(self.table[column])).any()))

    def values(self, column: str, absent: int = 0) -> Array:
        if column not in self.given:
            return self._alike(absent)
        return numbers_of(self.table[column], absent)

    def _alike(self, value: int) -> Array:
        """The same value in every row, stored once."""
        return np.broadcast_to(np.int64(value), len(self.table))

    def _bounds(self, column: str) -> tuple[int, int]:
        """The least and the largest value, of those that are there; 0 and 0 if none is."""
        if column not in self.given:
            return 0, 0
        bounds = pc.min_max(self.table[column]).as_py()
        return (bounds["min"], bounds["max"]) if bounds["min"] is not None else (0, 0)

    def _count(self, column: str) -> Array:
        least, most = self._bounds(column)
        _refuse(least < 0)
        return self.values(column) if most else self._alike(0)

    def _slots(self, column: str, shape: Array | None) -> Array:
        """Positions in the dictionary of names become numbers of processes."""
        if column not in self.given:
            return self._alike(0)
        slots = self.directory.slots
        least, most = self._bounds(column)
        _refuse(not 0 <= least <= most < slots.shape[1])
        if shape is not None:
            found = slots[shape, self.values(column)]
        elif least == most and not self.table[column].null_count:
            found = self._alike(slots[0][least])
        else:
            found = self.directory.numbered(0, self.values(column))
        if (slots == ABSENT).any():
            is_absent = found == ABSENT
            if self.table[column].null_count:
                is_absent &= _are_there(self.table[column])
            _refuse(bool(is_absent.any()))
        return found

    def _check_words(self) -> None:
        for column in WORDS:
            if column in self.given:
                for chunk in self.table[column].chunks:
                    lengths = pc.min_max(pc.utf8_length(_words_in(chunk))).as_py()
                    least, most = lengths["min"], lengths["max"]
                    _refuse(least is not None and not 0 < least <= most <= LONGEST_WORD)

    def _check_vectors(self, shape: Array | None) -> None:
        if "vector" not in self.given:
            return
        vectors = self.table["vector"]
        for row in np.flatnonzero(_are_there(vectors)):
            slots = self.directory.slots[0 if shape is None else shape[row]]
            for place, count in vectors[int(row)].as_py():
                is_named = 0 <= place < len(slots) and slots[place] != ABSENT
                _refuse(not is_named or count is None or count < 0)


def numbers_of(values: Any, absent: int = 0) -> Array:
    """The numbers of a column as an array."""
    if values.null_count:
        values = pc.fill_null(values, absent)
    return values.to_numpy()


def _are_there(values: Any) -> Array:
    """Which values are not null, from Arrow's own bits, all unpacked at once."""
    there = [np.zeros(0, bool)]
    for chunk in values.chunks:
        bits = chunk.buffers()[0]
        if bits is None:
            there.append(np.full(len(chunk), chunk.null_count == 0))
        else:
            every = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").view(bool)
            there.append(every[chunk.offset : chunk.offset + len(chunk)])
    return there[1] if len(there) == 2 else np.concatenate(there)


def _words_in(chunk: Any) -> Any:
    """The words that stand in some row: a dictionary may have others."""
    if not pa.types.is_dictionary(chunk.type):
        return chunk
    return chunk.dictionary.take(chunk.indices.drop_null().unique())


_BINDING, _AGREED = np.isin(KINDS, BINDING), np.isin(KINDS, AGREED)
_KIND_NUMBERS: dict[str, int] = {kind: number for number, kind in enumerate(KINDS)}
_NEEDED_BY = {
    column: np.array([column in NEEDED[kind] for kind in KINDS])
    for column in sorted({one for row in NEEDED.values() for one in row})
}


def _are(kind: Array, some: Array) -> Array:
    """Which rows are of some kinds. To compare all with each kind is faster than to look up one."""
    found = np.zeros(len(kind), bool)
    for one in np.flatnonzero(some):
        found |= kind == one
    return found


def _refuse(is_wrong: bool) -> None:
    if is_wrong:
        raise BadRowsError


def joined(parts: Iterable[Rows]) -> Rows:
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class RowSequence(NamedTuple):
    """Rows, those of one history behind each other in reading order."""

    rows: Rows
    runs: Array
    """The runs that have rows, ascending."""
    history: Array
    """For each row the place of its run, times the width, plus its process."""
    starts: Array
    """Where each history begins."""
    ends: Array
    """Its last row."""
    is_hole: Array
    """Whether a file is missing before the row, or the row itself is a gap."""


def in_sequence(rows: Rows, files: Array, directory: Directory) -> tuple[Array, Events, Lives]:
    """Rows checked against each other: the runs that have any, their events, how they end.

    The runs by their numbers in the trace; the events by the places of the runs in there.
    """
    width = directory.width
    line = in_line(rows, files, directory)
    last_kind = np.full(len(line.runs) * width, ABSENT)
    last_kind[line.history[line.ends]] = line.rows.kind[line.ends]
    holed = np.zeros(len(line.runs) * width, bool)
    holed[line.history[line.is_hole]] = True
    lives = Lives(last_kind.reshape(-1, width), holed.reshape(-1, width))
    return line.runs, _events(line.rows, line.history, width), lives


def in_line(rows: Rows, files: Array, directory: Directory, is_piece: bool = False) -> RowSequence:
    """Put rows in order and look at each beside the one before it.

    ``files`` says for each row which file it comes from: an index left out within a file is a
    fault; where a file begins it is a hole, left by a file that is missing. Of a piece alone
    nobody knows what comes before it.
    """
    begins = np.ones(len(rows.run), bool)
    if _is_one(rows.run) and _is_one(rows.process):
        here, history = rows.run[:1], np.broadcast_to(rows.process[0], len(rows.run))
        begins[1:] = False
    else:
        is_here = np.bincount(rows.run, minlength=len(directory.shape)) > 0
        here = np.flatnonzero(is_here)
        history = (np.cumsum(is_here) - 1)[rows.run] * directory.width + rows.process
        if (history[1:] < history[:-1]).any():
            order = np.argsort(history, kind="stable")
            history, files, rows = history[order], files[order], rows.at(order)
        begins[1:] = history[1:] != history[:-1]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(history)) - 1
    first = (
        rows.index[starts]
        if is_piece
        else directory.first_indices(rows.run[starts], rows.process[starts])
    )
    return RowSequence(rows, here, history, starts, ends, _holes(rows, begins, files, first))


def _is_one(numbers: Array) -> bool:
    return len(numbers) > 0 and bool((numbers == numbers[0]).all())


def _holes(rows: Rows, begins: Array, files: Array, first: Array | int) -> Array:
    """Which rows follow a missing file; BadRowsError where one cannot follow the one before it.

    ``first`` is the index at which each history begins. A gap is a hole as well.
    """
    follows = np.empty(len(begins), bool)
    np.equal(rows.index[1:] - rows.last_index[:-1], 1, out=follows[1:])
    follows[begins] = rows.index[begins] == first
    is_hole = rows.kind == GAP
    is_over = _are(rows.kind[:-1], OVER)
    if is_over.any():
        _refuse(bool((is_over & ~BEGINS_AGAIN[rows.kind[1:]] & ~begins[1:]).any()))
    _refuse(bool(((rows.incarnation[1:] < rows.incarnation[:-1]) & ~begins[1:]).any()))
    if not follows.all():
        is_ahead = np.empty(len(begins), bool)
        np.greater(rows.index[1:], rows.last_index[:-1], out=is_ahead[1:])
        is_ahead[begins] = rows.index[begins] > first
        is_first = begins | np.append(False, files[1:] != files[:-1])
        _refuse(bool((~follows & ~(is_first & is_ahead)).any()))
        is_hole |= ~follows
    return is_hole


def _events(rows: Rows, history: Array, width: int) -> Events:
    is_broadcast = rows.kind == BROADCAST
    events = Events(
        history // width,
        rows.process,
        rows.index,
        is_broadcast,
        rows.origin,
        rows.seq,
        rows.digest,
        rows.view,
    )
    return events.at(places_of(is_broadcast | (rows.kind == DELIVER)))


def events_of(table: Any, directory: Directory, run: int, first_index: int | None = None) -> Events:
    """The events of one run in a table that was checked before; absent columns are empty.

    ``first_index`` is the index of the first row, if the others follow it.
    """
    checker = _Checker(table, directory)
    shape = int(directory.shape[run])
    kind = checker.coded("kind", _KIND_NUMBERS)
    is_wanted = (kind == BROADCAST) | (kind == DELIVER)
    if "run" in checker.given:
        is_wanted &= checker.coded("run", directory.numbers) == run
    columns = {
        name: checker.values(name) if name in checker.given else np.zeros(0, np.int64)
        for name in ("process", "index", "seq", "digest", "view")
    }
    if first_index is not None:
        columns["index"] = np.arange(first_index, first_index + len(kind))
    columns |= {
        "run": np.zeros(0, np.int64),
        "process": directory.numbered(shape, columns["process"]),
        "is_broadcast": kind == BROADCAST,
        "origin": directory.numbered(shape, checker.values("origin")),
    }
    return Events(**columns).at(places_of(is_wanted))


def places_of(is_wanted: Array) -> Array | slice:
    """Where these rows are; as a slice, which copies nothing, if they stand together."""
    places = np.flatnonzero(is_wanted)
    if not len(places):
        return slice(0)
    begin, end = int(places[0]), int(places[-1]) + 1
    return slice(begin, end) if end - begin == len(places) else places


def smallest(values: Array) -> Array:
    """The same in the fewest bytes that hold all of them."""
    least, most = values.min(initial=0), values.max(initial=0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values
