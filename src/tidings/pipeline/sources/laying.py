"""Histories gathered, numbered, and written as the Parquet files of a trace.

A long run has a file for each process, short runs are put together, each whole in one file: as
the judges like to read them. Which history goes into which file is decided before, by the counts of
the survey; a task writes one file.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.pipeline.arrays.perform import Perform
from tidings.pipeline.sources.gathering import PORTION_ROWS, TEXTS, Gathering, Rows, Shelf, portions
from tidings.pipeline.sources.meaning import ABSENT, KIND
from tidings.pipeline.sources.names import Names, keys_of
from tidings.pipeline.sources.numbering import POSITION, RUN_BITS, Numbering, NumberingFault
from tidings.pipeline.sources.storing import mapped, write_columns
from tidings.trace.foreign import MESSAGES
from tidings.trace.parquet import ARROW, FORM, LOOKED_UP, ROWS_A_GROUP, words_of
from tidings.trace.schema import KINDS

ROWS_A_FILE = ROWS_A_GROUP
"""When a file has so many rows, the next one is begun as soon as it can be."""


class Sheet(NamedTuple):
    """What a worker has to know to write rows."""

    folder: str
    runs: Sequence[str]
    sources: Sequence[str]
    keeps_places: bool
    stores: str
    """The folder of the stores, for what is lost."""


class Laid(NamedTuple):
    """What a task wrote, and what it noticed."""

    kinds: Counter[str]
    endings: dict[int, str]
    faults: list[NumberingFault]
    lost: list[str]
    """Tables of messages that nobody is seen to broadcast."""

    @classmethod
    def joined(cls, parts: Sequence["Laid"]) -> "Laid":
        return cls(
            sum((one.kinds for one in parts), Counter()),
            {history: end for one in parts for history, end in one.endings.items()},
            sorted(fault for one in parts for fault in one.faults),
            [table for one in parts for table in one.lost],
        )


def files_of(sizes: Iterable[tuple[int, int]]) -> dict[int, int]:
    """For each history, by its number and in order, the file it goes into; from its size."""
    files: dict[int, int] = {}
    file, in_file, in_run, last_run = 0, 0, 0, None
    for history, rows in sizes:
        run = history >> RUN_BITS
        if (in_file if run != last_run else in_run) >= ROWS_A_FILE:
            file, in_file, in_run = file + 1, 0, 0
        if run != last_run:
            in_run = 0
        files[history], last_run = file, run
        in_file, in_run = in_file + rows, in_run + rows
    return files


def lay_out(
    perform: Perform,
    jobs: Sequence[Sequence[Gathering]],
    shelves: Sequence[Shelf],
    names: Names | None,
    sheet: Sheet,
) -> Laid:
    """Write the histories of each job into a file of its own, each in order."""

    def write(number: int) -> Laid:
        return _write(number, jobs[number], shelves, names, sheet)

    return Laid.joined(perform(write, range(len(jobs))))


def _write(
    number: int,
    job: Sequence[Gathering],
    shelves: Sequence[Shelf],
    names: Names | None,
    sheet: Sheet,
) -> Laid:
    numbering, drawer = Numbering(), Drawer(sheet.folder)
    kinds = np.zeros(len(KINDS), np.int64)
    lost: list[str] = []
    stored = next(mapped(shelf.path) for shelf in shelves if shelf.path)
    for rows in portions(job, shelves, [name for name in _WANTED if name in stored]):
        is_message = np.isin(rows["kind"], _MESSAGES)
        if names is None:
            rows["origin"], is_seen = rows["by"], is_message
        else:
            rows["origin"], rows["seq"], is_seen = names.of(rows, is_message)
            is_lost = is_message & (rows["origin"] == ABSENT)
            if is_lost.any():
                lost.append(_kept(rows, np.flatnonzero(is_lost), sheet))
        rows.setdefault("time_ns", np.zeros(len(is_message), np.int64))
        texts = _texts(rows, is_message & ~is_seen)
        numbers = {name: rows[name] for name in _NUMBERS}
        columns, kept = numbering.numbered(numbers)
        if not kept.all():
            texts = {name: values.filter(pa.array(kept)) for name, values in texts.items()}
        kinds += np.bincount(columns["kind"], minlength=len(KINDS))
        if kept.any():
            file = np.full(len(columns["kind"]), number)
            drawer.add(file, _table(columns, texts, sheet))
    drawer.close()
    faults = [numbering.fault] if numbering.fault else []
    counts = {KINDS[code]: int(kinds[code]) for code in np.flatnonzero(kinds)}
    return Laid(Counter(counts), numbering.endings, faults, lost)


_MESSAGES = [KIND[kind] for kind in MESSAGES]
_WANTED = ("time_ns", "by", "seq", "digest", "key", "other_key", *TEXTS)
_NUMBERS = (
    *("history", "order", "source", "place", "kind", "time_ns"),
    *("origin", "seq", "digest"),
)


def _kept(rows: Rows, which: Any, sheet: Sheet) -> str:
    """What is lost, once, in a table for the driver."""
    key, other = keys_of(rows)
    _, first = np.unique(key[which], return_index=True)
    those = which[first]
    columns = {"key": key, "other_key": other, "run": rows["history"] >> RUN_BITS}
    columns["by"] = rows.get("by", np.full(len(key), ABSENT))
    ids = rows["id"].take(pa.array(those)).combine_chunks()
    kept = {name: values[those] for name, values in columns.items()}
    return write_columns(Path(sheet.stores, f"{uuid4().hex}.lost"), kept | {"id": ids})


def _texts(rows: Rows, is_nobodys: Any) -> dict[str, Any]:
    """The texts that a trace keeps: an id on the broadcast, or if there is none."""
    texts = {name: rows[name] for name in ("text",) if name in rows}
    if "id" in rows:
        is_shown = (rows["kind"] == KIND["broadcast"]) | is_nobodys
        places = np.where(is_shown, np.arange(len(is_shown)), ABSENT)
        texts["message"] = rows["id"].take(pa.array(places, mask=~is_shown))
    return texts


class Drawer:
    """Takes rows of a trace in the order of their files, and writes one file after the other."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = ABSENT
        self._open: Any = None
        self._draft = Path()
        self._waiting: list[Any] = []
        self._rows = 0

    def add(self, file: Any, table: Any) -> None:
        """A table, and the number of the file of each of its rows."""
        for begin, end in pairwise(np.flatnonzero(np.diff(file, prepend=ABSENT, append=ABSENT))):
            if file[begin] != self._file:
                self.close()
                self._file = int(file[begin])
            self._waiting.append(table.slice(begin, end - begin))
            self._rows += int(end - begin)
            if self._rows >= ROWS_A_GROUP:
                self._flush()

    def close(self) -> None:
        self._flush()
        if self._open is not None:
            self._open.close()
            self._draft.rename(Path(self._folder, f"trace-{self._file + 1}.parquet"))
            self._open = None

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._open is None:
            # Of two attempts at one task, the last one's file counts.
            self._draft = Path(self._folder, f"{self._file}.{uuid4().hex}.open")
            schema = self._waiting[0].schema
            self._open = pq.ParquetWriter(self._draft, schema, **_form(schema.names))
        rows = pa.concat_tables(self._waiting).unify_dictionaries()
        self._open.write_table(rows, row_group_size=ROWS_A_GROUP)
        self._waiting, self._rows = [], 0


def _table(of: dict[str, Any], texts: dict[str, Any], sheet: Sheet) -> Any:
    history, kind, origin = of["history"], of["kind"], of["origin"]
    run, about = history >> RUN_BITS, origin != ABSENT
    is_one = run[0] == run[-1]
    in_use, codes = (run[:1], run - run) if is_one else np.unique(run, return_inverse=True)
    is_broadcast = kind == KIND["broadcast"]
    with_text = is_broadcast | (kind == KIND["deliver"])
    columns: dict[str, Any] = {
        "run": words_of(codes, [sheet.runs[one] for one in in_use]),
        "process": pa.array(history & POSITION, pa.int16()),
        "index": of["index"],
        "kind": words_of(kind, KINDS),
        "time_ns": of["time_ns"],
        "incarnation": of["incarnation"],
        "origin": pa.array(origin, pa.int16(), mask=~about),
        "seq": pa.array(of["seq"], mask=~about),
        "digest": pa.array(of["digest"], mask=~with_text),
        "view": pa.array(np.zeros(len(kind), np.int64), mask=~is_broadcast),
    }
    schema = ARROW
    if sheet.keeps_places:
        columns["source"] = words_of(of["source"], sheet.sources)
        columns["place"] = pa.array(of["place"], mask=of["source"] == ABSENT)
    for field in LOOKED_UP:
        if field.name in columns or field.name in texts:
            schema = schema.append(field)
    rows, columns = len(kind), columns | texts
    nothing = {one.name: _nulls(one.type, rows) for one in schema if one.name not in columns}
    return pa.table(columns | nothing, schema=schema)


@cache
def _no_values(kind: Any) -> Any:
    return pa.nulls(2 * PORTION_ROWS, kind)


def _nulls(kind: Any, rows: int) -> Any:
    return _no_values(kind).slice(0, rows) if rows <= 2 * PORTION_ROWS else pa.nulls(rows, kind)


def _form(names: Sequence[str]) -> dict[str, Any]:
    """As all traces are stored; the places in a log are words and growing numbers too."""
    if "source" not in names or "place" not in names:
        return FORM
    encoding: Any = FORM["column_encoding"]
    words: Any = FORM["use_dictionary"]
    return FORM | {
        "use_dictionary": [*words, "source"],
        "column_encoding": encoding | {"place": "DELTA_BINARY_PACKED"},
    }
