"""Tables larger than memory, sorted: pieces that fit are sorted and stored, then merged.

Merging goes block by block. Of every piece one block is in memory; whatever is not above the
lowest of their last rows can be put in order at once, for nothing below it is still to come.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROWS_A_PIECE = 1 << 20
ROWS_A_BLOCK = 1 << 14

Key = tuple[int, ...]


class Sorter:
    """Rows come in by ``add`` as they like, and go out sorted by some columns of numbers."""

    def __init__(self, folder: Path, keys: Sequence[str]) -> None:
        self._folder = folder
        self._keys = keys
        self._waiting: list[Any] = []
        self._rows_waiting = 0
        self._stored: list[Path] = []
        folder.mkdir()

    def add(self, table: Any) -> None:
        if table.num_rows:
            self._waiting.append(table)
        self._rows_waiting += table.num_rows
        if self._rows_waiting >= ROWS_A_PIECE:
            self._store()

    def _store(self) -> None:
        path = self._folder / f"{len(self._stored)}.arrow"
        piece = self._sorted(self._waiting)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(path, piece.schema, options=options) as writer:
            writer.write_table(piece, max_chunksize=ROWS_A_BLOCK)
        self._stored.append(path)
        self._waiting, self._rows_waiting = [], 0

    def _sorted(self, tables: Sequence[Any]) -> Any:
        table = pa.concat_tables(tables)
        return table.take(np.lexsort([table[key].to_numpy() for key in reversed(self._keys)]))

    def blocks(self) -> Iterator[Any]:
        """All rows in order, as tables; what was stored is gone afterwards."""
        if not self._stored:
            if self._waiting:
                yield self._sorted(self._waiting)
            return
        if self._waiting:
            self._store()
        pieces = [_Piece(path, self._keys) for path in self._stored]
        while pieces := [piece for piece in pieces if piece.has_rows()]:
            bound = min(piece.last for piece in pieces)
            yield self._sorted([piece.take(bound) for piece in pieces if piece.first <= bound])
        for path in self._stored:
            path.unlink()


class _Piece:
    """A stored piece, of which one block is in memory."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self._file = pa.ipc.open_file(path)
        self._keys = keys
        self._next = 0
        self._begin = self._end = 0

    def has_rows(self) -> bool:
        """Whether any rows are left; the block is then not empty."""
        if self._begin == self._end and self._next < self._file.num_record_batches:
            self._rows = pa.Table.from_batches([self._file.get_batch(self._next)])
            self._columns = [self._rows[key].to_numpy() for key in self._keys]
            self._next += 1
            self._begin, self._end = 0, self._rows.num_rows
        return self._begin < self._end

    @property
    def first(self) -> Key:
        return self._key(self._begin)

    @property
    def last(self) -> Key:
        return self._key(self._end - 1)

    def _key(self, row: int) -> Key:
        return tuple(int(column[row]) for column in self._columns)

    def take(self, bound: Key) -> Any:
        """The rows up to the bound, which are then no longer here."""
        count = bisect_right(range(self._begin, self._end), bound, key=self._key)
        first = self._rows.slice(self._begin, count)
        self._begin += count
        return first
