"""Violations on their way out: the first few to whoever asked, all of them into a folder.

The folder is a table in parts. Each is written by the task that found what is in it, so nobody has
to hold all of them. A part is named for what it is about, and gets its name when it is whole: a
task that is done again, because its worker died, writes the same part again.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.core import EnvironmentMissing, UsageError
from tidings.pipeline.arrays.findings import (
    MOST_WITNESSES,
    NOTHING,
    Judged,
    first_of_each_run,
)
from tidings.pipeline.arrays.rows import Directory
from tidings.spec import JUDGED, ViewRule
from tidings.trace.layout import refuse_to_overwrite


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
        is_first = first_of_each_run(run * len(JUDGED) + guarantee, self.most)
        return judged._replace(breaches=judged.breaches.filter(pa.array(is_first)))


def write_part(folder: Path, part: str, table: Any) -> None:
    """A worker makes no folder: one that it does not see would be another one."""
    draft = folder / f".{part}-{uuid4().hex}"
    try:
        pq.write_table(table, draft, compression="zstd")
        draft.replace(folder / f"{part}.parquet")
    except (FileNotFoundError, PermissionError) as fault:
        raise not_shared(
            folder.parent, f"{socket.gethostname()} cannot write to it: {fault.strerror}"
        ) from fault


def not_shared(folder: Path, reason: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{folder}: {reason}; it has to be on a file system that all workers share, under the same "
        "path (see docs/pipeline.md)"
    )


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to write parts to; when the block ends well they are in ``path``, or nowhere.

    There may be an empty folder, and nothing else. It may be a link or the root of a file system,
    which nothing can replace: so the parts are written within it, and then moved.
    """
    path = path.resolve()
    within = path if path.is_dir() else path.parent
    made = [one for one in (within, *within.parents) if not one.exists()]
    within.mkdir(parents=True, exist_ok=True)
    # No other audit has a folder of this name, so all that is in it is ours.
    draft = within / f"tidings-{uuid4().hex}.open"
    draft.mkdir()
    try:
        yield draft
        for left in draft.iterdir():
            if left.suffix != ".parquet" or left.name.startswith("."):
                left.unlink()
        if within != path:
            refuse_to_overwrite(path)
            draft.rename(path)
        elif list(path.iterdir()) == [draft]:
            for part in draft.iterdir():
                part.rename(path / part.name)
        else:
            raise UsageError(f"{path} is not an empty folder any more; choose another")
    except BaseException:
        rmtree(draft, ignore_errors=True)
        with suppress(OSError):  # somebody else has put something there
            for folder in made:
                folder.rmdir()
        raise
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
    guarantees = np.array([str(one) for one in JUDGED], object)
    rules = np.array([*(str(one) for one in ViewRule), None], object)
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
            "root_seq": pa.array(columns["root_seq"], mask=columns["root_origin"] == NOTHING),
            "witness": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), witness),
            "note": pa.array(rules[columns["note"]], pa.string()),
        }
    )
