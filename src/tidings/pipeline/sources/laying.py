"""Rows exchanged by history, sorted, and written as the Parquet files of a trace.

A long run has a file for each process, short runs are put together, each whole in one file: as
the judges like to read them. Which history goes into which file is decided before, by the counts of
the survey; a task writes one file after the other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings import __version__
from tidings.pipeline.sources.meaning import KIND
from tidings.pipeline.sources.numbering import (
    ABSENT,
    BY_MAPPING,
    RUN_BITS,
    Numbering,
    NumberingFault,
)
from tidings.pipeline.sources.survey import LINE_BITS
from tidings.pipeline.spark.workers import RESULT, packed, results
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


class Laid(NamedTuple):
    """What a task wrote, and what it noticed."""

    kinds: Counter[str]
    endings: dict[int, tuple[str, int]]
    faults: list[NumberingFault]
    nameless: int

    @classmethod
    def joined(cls, parts: Sequence["Laid"]) -> "Laid":
        return cls(
            sum((one.kinds for one in parts), Counter()),
            {history: end for one in parts for history, end in one.endings.items()},
            sorted(fault for one in parts for fault in one.faults),
            sum(one.nameless for one in parts),
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


def lay_out(spark: SparkSession, rows: DataFrame, files: int, sheet: Sheet) -> Laid:
    """Write rows with a ``file`` and a ``history`` into the folder, each history in order."""
    task, version = partial(_write, sheet=sheet), __version__

    def work(arriving: Iterator[Any]) -> Iterator[Any]:
        yield packed(0, task, arriving, version)

    tasks = min(files, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    in_order = rows.repartitionById(tasks, F.col("file") % tasks).sortWithinPartitions(
        "file", "history", "order", "place"
    )
    return Laid.joined(results(in_order.mapInArrow(work, RESULT)))


def _write(arriving: Iterator[Any], sheet: Sheet) -> Laid:
    numbering, drawer = Numbering(), Drawer(sheet.folder)
    kinds: Counter[str] = Counter()
    for batch in arriving:
        if batch.num_rows:
            columns = {
                name: _numbers(batch.column(name))
                for name in batch.schema.names
                if name in _NUMBERS
            }
            columns, kept = numbering.numbered(columns)
            texts = {
                name: batch.column(name).filter(pa.array(kept))
                for name in ("message", "text")
                if name in batch.schema.names
            }
            codes, counts = np.unique(columns["kind"], return_counts=True)
            kinds.update(
                {KINDS[code]: int(count) for code, count in zip(codes, counts, strict=True)}
            )
            if kept.any():
                drawer.add(columns["file"], _table(columns, texts, sheet))
    drawer.close()
    return Laid(
        kinds,
        numbering.endings,
        [numbering.fault] if numbering.fault else [],
        numbering.nameless,
    )


_NUMBERS = (
    *("file", "history", "order", "place", "kind", "time_ns"),
    *("origin", "seq", "digest"),
)


def _numbers(column: Any) -> Any:
    return column.cast(pa.int64()).fill_null(ABSENT).to_numpy(zero_copy_only=False)


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
            self._open = pq.ParquetWriter(self._draft, self._waiting[0].schema, **FORM)
        rows = pa.concat_tables(self._waiting).unify_dictionaries()
        self._open.write_table(rows, row_group_size=ROWS_A_GROUP)
        self._waiting, self._rows = [], 0


def _table(of: dict[str, Any], texts: dict[str, Any], sheet: Sheet) -> Any:
    history, kind, origin = of["history"], of["kind"], of["origin"]
    run, about = history >> RUN_BITS, origin != ABSENT
    in_use, codes = np.unique(run, return_inverse=True)
    is_broadcast = kind == KIND["broadcast"]
    with_text = is_broadcast | (kind == KIND["deliver"])
    columns: dict[str, Any] = {
        "run": words_of(codes, [sheet.runs[one] for one in in_use]),
        "process": pa.array(history & (1 << RUN_BITS) - 1, pa.int16()),
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
        is_placed = of["place"] != BY_MAPPING
        source = np.where(is_placed, of["place"] >> LINE_BITS, ABSENT)
        columns["source"] = words_of(source, sheet.sources)
        number = of["place"] & (1 << LINE_BITS) - 1
        columns["place"] = pa.array(number, mask=~is_placed)
    for field in LOOKED_UP:
        if field.name in columns or field.name in texts:
            schema = schema.append(field)
    rows, columns = len(kind), columns | texts
    nothing = {one.name: pa.nulls(rows, one.type) for one in schema if one.name not in columns}
    return pa.table(columns | nothing, schema=schema)
