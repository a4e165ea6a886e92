"""Violations on their way out: the first few to whoever asked, all of them into a folder.

The folder is a table in parts. Each is written by the task that found what is in it, so nobody has
to hold all of them. A part is named for what it is about, and gets its name when it is whole: a
task that is done again, because its worker died, writes the same part again.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.pipeline.arrays.findings import (
    MOST_WITNESSES,
    NOTHING,
    Judged,
    first_of_each_run,
)
from tidings.pipeline.arrays.rows import Directory
from tidings.spec import Guarantee


class Showing(NamedTuple):
    """What becomes of violations."""

    most: int | None
    """So many of each guarantee and run are shown, or all."""
    folder: str = ""
    """All of them are written here, if anywhere."""

    @property
    def at_first(self) -> int | None:
        """So many have to be found."""
        return None if self.folder else self.most

    def write(self, part: str, breaches: Any, directory: Directory) -> None:
        """Some violations, in numbers, as a part of the table."""
        if len(breaches):
            write_part(Path(self.folder), part, named(breaches, directory))

    def kept(self, judged: Judged, directory: Directory) -> Judged:
        """Whole runs with the first of their violations; all are written."""
        if not self.folder:
            return judged
        self.write(f"runs-{judged.run.min():08}", judged.breaches, directory)
        run, guarantee = (judged.breaches[name].to_numpy() for name in ("run", "guarantee"))
        is_first = first_of_each_run(run * len(Guarantee) + guarantee, self.most)
        return judged._replace(breaches=judged.breaches.filter(pa.array(is_first)))


def write_part(folder: Path, part: str, table: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{part}-{socket.gethostname()}-{os.getpid()}"
    pq.write_table(table, draft, compression="zstd")
    draft.replace(folder / f"{part}.parquet")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write parts to; it gets its own name when the block ends well, or vanishes.

    Under that name there may be an empty folder, and nothing else.
    """
    path = path.absolute()
    draft = path.with_name(path.name + ".open")
    rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        for left in draft.iterdir():
            if left.suffix != ".parquet" or left.name.startswith("."):
                left.unlink()
        draft.replace(path)
    finally:
        rmtree(draft, ignore_errors=True)


def empty(folder: Path) -> None:
    """What was written there on a way that led nowhere."""
    for part in folder.iterdir():
        part.unlink()


def rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in folder.glob("[!.]*.parquet"))


def named(breaches: Any, directory: Directory) -> Any:
    """Violations with names for the numbers: the columns of ``violations``."""
    columns = {name: breaches[name].to_numpy() for name in breaches.column_names}
    run = columns["run"]
    names = np.full((len(directory.shapes), directory.width + 1), None)
    for number, shape in enumerate(directory.shapes):
        names[number, : len(shape.names)] = shape.names

    def processes(numbers: Any) -> Any:
        # NOTHING is -1: the last column, which has no names.
        return pa.array(names[directory.shape[run], numbers], pa.string())

    who, index = (
        np.stack([columns[f"witness_{what}_{place}"] for place in range(MOST_WITNESSES)], axis=1)
        for what in ("process", "index")
    )
    is_place = who != NOTHING
    whose = names[directory.shape[run][:, None], who][is_place]
    ends = np.concatenate([[0], np.cumsum(is_place.sum(axis=1))])
    witness = pa.StructArray.from_arrays(
        [pa.array(whose, pa.string()), pa.array(index[is_place])], ["process", "index"]
    )
    labels = np.array(list(directory.numbers), object)
    guarantees = np.array([str(one) for one in Guarantee], object)
    return pa.table(
        {
            "run": pa.array(labels[run], pa.string()),
            "guarantee": pa.array(guarantees[columns["guarantee"]], pa.string()),
            "process": processes(columns["process"]),
            "origin": processes(columns["origin"]),
            "seq": columns["seq"],
            "cause_origin": processes(columns["cause_origin"]),
            "cause_seq": pa.array(columns["cause_seq"], mask=columns["cause_origin"] == NOTHING),
            "root_origin": processes(columns["root_origin"]),
            "root_seq": columns["root_seq"],
            "witness": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), witness),
        }
    )
