"""Numbered rows become the Parquet files of a trace.

A long run has a file for each process, short runs are put together, each whole in one file: as
the pipeline likes to read them.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.trace.foreign.meaning import ABSENT, KIND, history_of, process_of, run_of
from tidings.trace.parquet import ARROW, FORM, ROWS_A_GROUP, table_of, words_of
from tidings.trace.schema import KINDS

ROWS_A_FILE = ROWS_A_GROUP
"""When a file has so many rows, the next one is begun as soon as it can be."""


class Dictionary:
    """Who is mentioned in each run, and at which position of its manifest's ``names``."""

    def __init__(self, mentioned: Iterable[int], runs: int) -> None:
        self._histories = np.array(sorted(mentioned), np.int64)
        self._begins = np.searchsorted(self._histories, history_of(np.arange(runs + 1), 0))

    def names(self, run: int) -> list[int]:
        own = self._histories[self._begins[run] : self._begins[run + 1]]
        return [int(one) for one in process_of(own)]

    def positions(self, history: Any) -> Any:
        return np.searchsorted(self._histories, history) - self._begins[run_of(history)]


class Writer:
    """Takes rows sorted by history and index."""

    def __init__(self, folder: Path, dictionary: Dictionary, runs: Sequence[str]) -> None:
        self._folder = folder
        self._dictionary = dictionary
        self._runs = runs
        self._history = ABSENT
        self._file: Any = None
        self._waiting: list[Any] = []
        self._rows = {"waiting": 0, "file": 0, "run": 0}
        self.rows = 0
        self.files = 0

    def add(self, block: Any) -> None:
        history = block["history"].to_numpy()
        for begin, end in pairwise(np.flatnonzero(np.diff(history, prepend=ABSENT, append=ABSENT))):
            if history[begin] != self._history:
                self._begin(int(history[begin]))
            self._take(block.slice(begin, end - begin))

    def close(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self, history: int) -> None:
        """A new history: the place to begin a new file, if this one is long enough."""
        is_new_run = run_of(history) != run_of(self._history)
        if self._rows["file" if is_new_run else "run"] >= ROWS_A_FILE:
            self.close()
            self._rows = dict.fromkeys(self._rows, 0)
        if is_new_run:
            self._rows["run"] = 0
        self._history = history

    def _take(self, part: Any) -> None:
        self._waiting.append(part)
        for what in self._rows:
            self._rows[what] += part.num_rows
        self.rows += part.num_rows
        if self._rows["waiting"] >= ROWS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._file is None:
            self.files += 1
            path = self._folder / f"trace-{self.files}.parquet"
            self._file = pq.ParquetWriter(path, ARROW, **FORM)
        self._file.write_table(self._table(pa.concat_tables(self._waiting)))
        self._waiting, self._rows["waiting"] = [], 0

    def _table(self, rows: Any) -> Any:
        of = {name: rows[name].to_numpy() for name in rows.column_names}
        history, kind, origin = of["history"], of["kind"], of["origin"]
        run = run_of(history)
        about = origin != ABSENT
        origins = self._dictionary.positions(history_of(run, np.where(about, origin, 0)))
        in_use, codes = np.unique(run, return_inverse=True)
        with_text = np.isin(kind, [KIND["broadcast"], KIND["deliver"]])
        columns = {
            "run": words_of(codes, [self._runs[one] for one in in_use]),
            "process": pa.array(self._dictionary.positions(history), pa.int16()),
            "index": of["index"],
            "kind": words_of(kind, KINDS),
            "time_ns": of["time_ns"],
            "incarnation": of["incarnation"],
            "origin": pa.array(origins, pa.int16(), mask=~about),
            "seq": pa.array(of["seq"], mask=~about),
            "digest": pa.array(of["digest"], mask=~with_text),
            "view": pa.array(np.zeros(len(kind), np.int64), mask=kind != KIND["broadcast"]),
        }
        return table_of(columns)
