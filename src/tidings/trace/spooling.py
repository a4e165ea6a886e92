"""A trace as the pipeline reads it: every file as Parquet, in a folder of our own.

Each file appears there under its number, in the order in which the files are read: Parquet files as
links, JSON Lines converted on the way by the reader that can name the line of a fault, the segments
of nodes expanded.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tidings.core import DataError
from tidings.trace import parquet, unpack
from tidings.trace.files import read_all, read_lines
from tidings.trace.histories import Histories, refuse_cuts_beyond
from tidings.trace.layout import Layout
from tidings.trace.manifest import Manifest
from tidings.trace.schema import Row
from tidings.trace.segments import Owner


def fill(spool: Path, files: Layout, manifests: Mapping[str, Manifest]) -> list[Path]:
    """Put every file of the trace into the spool under its number; the sources by number."""
    sources = [*files.jsonl, *files.parquet, *files.segments]
    reader = _OneFile(manifests)
    left = Counter[Owner]()
    for number, source in enumerate(sources):
        target = spooled(spool, number)
        if source in files.parquet:
            if not parquet.check_file(source) and len(sources) > 1:
                # A run in which nothing happened is one file; among others somebody lost rows.
                raise DataError(f"{source}: empty: it has no rows")
            target.symlink_to(source.resolve())
        elif source in files.segments:
            left.update(unpack.write_segment(target, source, manifests))
        else:
            read_lines(source, reader)
            parquet.write_rows(target, reader.here, manifests)
    cut_off = [(owner.run, owner.process) for owner, blocks in left.items() if not blocks]
    refuse_cuts_beyond(cut_off, manifests)
    return sources


def spooled(spool: Path, number: int) -> Path:
    """Where the file with this number is."""
    return spool / f"{number:06}.parquet"


def corrupt(source: Path) -> DataError:
    return DataError(f"{source}: corrupt: its rows cannot be read")


def refuse_bad_rows(files: Layout, manifests: Mapping[str, Manifest]) -> None:
    """Read everything row by row; DataError names the first that is bad."""
    read_all(files, manifests, _LastRows(manifests))


class _LastRows(Histories):
    """Checks every row like its parent, but keeps only the end of each history."""

    def add(self, row: Row) -> None:
        super().add(row)
        del self.rows[row.run, row.process][:-1]


class _OneFile(_LastRows):
    """Keeps all rows of the file as well that is being read."""

    def begin_file(self) -> None:
        super().begin_file()
        self.here: list[Row] = []

    def add(self, row: Row) -> None:
        super().add(row)
        self.here.append(row)
