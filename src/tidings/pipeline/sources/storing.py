"""What a task reads, interpreted and stored once: columns of numbers, sorted by history and order.

A store is one Arrow file, in a folder that all tasks see. Whoever needs rows of a history later
maps it into memory, and touches only those. A worker counts and names by itself: its runs and
processes have numbers of its own, and its blocks (neighbouring lines of one file) begin at line 0,
until the driver has heard of all of them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tidings.pipeline.sources.cells import Cells, OpenQuoteError
from tidings.pipeline.sources.meaning import ABSENT, BadRow, Meaning, Meant, Words
from tidings.trace.schema import KINDS

STORE_ROWS = 1 << 17
"""A store has at least so many rows, if there are more than that."""
NARROW = {"history": np.int32, "block": np.int32, "kind": np.int8, "by": np.int32}
"""Columns of small numbers; the others have 64 bits."""


class Block(NamedTuple):
    """Rows of one source that were read one after the other."""

    source: str
    start: int
    lines: int
    """How many lines it has, if it has lines at all."""
    bad: BadRow | None


class StoredHistory(NamedTuple):
    run: str
    process: str
    first: tuple[int, int]
    """The block and the position of its first row."""
    rows: int
    kinds: Counter[str]


class Store(NamedTuple):
    """A file of rows, and what is in it."""

    path: str
    blocks: Sequence[Block]
    histories: Sequence[StoredHistory]
    """In the order of the rows; whoever is only an origin has none."""
    read: int
    ignored: int
    has_open_quote: bool = False


class Chunk(NamedTuple):
    """Some rows of a block."""

    source: str
    start: int
    cells: Cells
    lines: int


def store(chunks: Iterable[Chunk], meaning: Meaning, folder: str) -> list[Store]:
    """Interpret all rows and store those that count; of a bad log, only where it is bad."""
    stores, keeper = [], _Keeper()
    try:
        for chunk in chunks:
            keeper.add(chunk, meaning.of(chunk.cells, chunk.source))
            if keeper.rows >= STORE_ROWS:
                stores.append(keeper.stored(folder))
                keeper = _Keeper()
    except OpenQuoteError:
        return [Store("", [], [], 0, 0, has_open_quote=True)]
    return [*stores, keeper.stored(folder)]


class _Keeper:
    def __init__(self) -> None:
        self._blocks: dict[tuple[str, int], Block] = {}
        self._histories: dict[tuple[str, str], int] = {}
        self._firsts: dict[int, tuple[int, int]] = {}
        self._parts: list[dict[str, Any]] = []
        self._read = self._ignored = 0
        self.rows = 0

    def add(self, chunk: Chunk, meant: Meant) -> None:
        key = chunk.source, chunk.start
        before = self._blocks.get(key, Block(*key, 0, None))
        bad = min(filter(None, [before.bad, meant.bad]), default=None)
        self._blocks[key] = Block(*key, before.lines + chunk.lines, bad)
        self._read += meant.read
        self._ignored += meant.ignored
        if bad is not None or not len(meant.columns["kind"]):
            return
        block = list(self._blocks).index(key)
        history = self._numbers(meant.run, meant.process)
        columns = {"history": history, "block": np.full(len(history), block), **meant.columns}
        if meant.origin is not None:
            columns["by"] = self._numbers(meant.run, meant.origin)
        for name, kind in NARROW.items():
            if name in columns:
                columns[name] = columns[name].astype(kind, copy=False)
        firsts = np.full(len(self._histories), ABSENT)
        firsts[history[::-1]] = columns["position"][::-1]
        for code in np.flatnonzero(firsts != ABSENT).tolist():
            self._firsts.setdefault(code, (block, int(firsts[code])))
        self._parts.append(columns)
        self.rows += len(history)

    def _numbers(self, run: Words, process: Words) -> Any:
        """The number of each row's history, or of its origin's; a new one gets the next."""
        width = len(process.words) + 1
        pairs = run.codes.astype(np.int64) * width + process.codes
        counts = np.bincount(pairs + 1, minlength=len(run.words) * width + 1)
        known = np.full(len(counts), ABSENT)
        for pair in (np.flatnonzero(counts) - 1).tolist():
            if pair % width < width - 1:
                word = run.words[pair // width], process.words[pair % width]
                known[pair] = self._histories.setdefault(word, len(self._histories))
        return known[pairs]

    def stored(self, folder: str) -> Store:
        blocks, counts = list(self._blocks.values()), (self._read, self._ignored)
        if not self._parts or any(block.bad for block in blocks):
            return Store("", blocks, [], *counts)
        names = self._parts[0].keys()
        columns = {name: _joined([part.pop(name) for part in self._parts]) for name in [*names]}
        in_order = _by_history(columns)
        path = Path(folder, f"{uuid4().hex}.store")
        columns = {name: chosen(values, in_order) for name, values in columns.items()}
        histories = self._listed(columns)
        del columns["history"]  # whoever reads a slice knows whose it is
        return Store(write_columns(path, columns), blocks, histories, *counts)

    def _listed(self, columns: dict[str, Any]) -> list[StoredHistory]:
        pairs = columns["history"].astype(np.int64) * len(KINDS) + columns["kind"]
        counts = np.bincount(pairs, minlength=len(self._histories) * len(KINDS))
        by_history = counts.reshape(-1, len(KINDS))
        return [
            StoredHistory(
                *word,
                self._firsts.get(code, (ABSENT, ABSENT)),
                int(row.sum()),
                Counter({KINDS[kind]: int(row[kind]) for kind in np.flatnonzero(row)}),
            )
            for word, code in self._histories.items()
            for row in [by_history[code]]
        ]


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], pa.Array):
        return pa.chunked_array(parts).combine_chunks()
    return np.concatenate(parts)


def chosen(values: Any, places: Any) -> Any:
    """These rows of a column."""
    return values[places] if isinstance(values, np.ndarray) else values.take(pa.array(places))


def _by_history(columns: dict[str, Any]) -> Any:
    """The order of histories, and in each that of the log if it has one of its own."""
    history = columns["history"]
    if not len(history) or history.max() < 1 << 15:
        history = history.astype(np.int16)  # which numpy sorts in no time
    by_history = np.argsort(history, kind="stable")
    if "order" in columns:
        order, history = columns["order"][by_history], columns["history"][by_history]
        if ((order[1:] < order[:-1]) & (history[1:] == history[:-1])).any():
            return np.lexsort((columns["order"], columns["history"]))
    return by_history


def write_columns(path: Path, columns: dict[str, Any]) -> str:
    """Store columns of one length, under a name that nobody else has or knows yet."""
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    return str(path)


MOST_MAPPED = 64
"""How many files a worker keeps open after it has read them: the next task may want the same."""


def mapped(path: str) -> dict[str, Any]:
    """The columns of a store, as they lie in the file."""
    batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
    return {
        name: column if pa.types.is_string(column.type) else column.to_numpy()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
