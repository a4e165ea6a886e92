"""A trace on disk becomes one table of checked rows.

Spark reads the files of a spool (``trace.spooling``). A file's number tells a missing file from a
gap within one, and no name that a user chose reaches Spark's glob patterns.

Runs and processes become numbers. A run's number is its position among the manifests; a
process's number is its place in the order a person expects (p2 before p10), not its position in
the run's dictionary, so that "the first" means the same here as in the specification.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.core import DataError, Members, ordered
from tidings.pipeline.queries.faults import PROCESS, fault_in_row, in_sequence
from tidings.pipeline.spark.spool import stored_rows, unseen
from tidings.spec.endings import Life
from tidings.trace import Manifest, Row, layout, read_manifests
from tidings.trace.manifest import begins_of
from tidings.trace.schema import AGREED
from tidings.trace.spooling import corrupt, fill


class Trace(NamedTuple):
    """Checked rows, and the small things about them that the driver knows."""

    rows: DataFrame
    """run, process, index, kind, origin, seq, digest, view: numbers for runs and processes."""
    manifests: Sequence[Manifest]
    names: Sequence[Members]
    """For each run the names that its process numbers stand for."""
    lives: Mapping[tuple[int, int], Life]
    steps: Mapping[int, Mapping[str, Sequence[Row]]]
    """Of the runs that have any, the rows of each process about agreed views, by index."""

    @property
    def width(self) -> int:
        """The number of processes of the largest run."""
        return max(map(len, self.names))


def ingest(spark: SparkSession, path: Path, spool: Path) -> Trace:
    """Read the trace at ``path`` by way of the empty folder ``spool``, or refuse it."""
    files = layout(path)
    manifests = read_manifests(files.manifests)
    sources = fill(spool, files, manifests)
    runs = runs_table(spark, manifests)
    names = [ordered(manifest.names) for manifest in manifests.values()]
    with corrupt_files_named(sources):
        stored = stored_rows(spark, spool)
        lives = _lives(placed(stored, runs), sources, names)
        steps = _steps(stored, list(manifests.values()))
    return Trace(numbered(stored, runs), tuple(manifests.values()), names, lives, steps)


@contextmanager
def corrupt_files_named(sources: Sequence[Path]) -> Iterator[None]:
    """A file whose footer is sound and whose rows are not is named as itself.

    So is one that Spark, elsewhere, does not find at all.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if "PATH_NOT_FOUND" in str(fault):
            raise unseen(sources[0].parent, "Spark does not find it") from None
        spooled = re.search(r"([0-9]{6})\.parquet", str(fault))
        if "FAILED_READ_FILE" not in str(fault) or spooled is None:
            raise
        if "FILE_NOT_EXIST" in str(fault):
            raise unseen(sources[int(spooled[1])], "a worker does not find it") from None
        raise corrupt(sources[int(spooled[1])]) from None


def runs_table(spark: SparkSession, manifests: Mapping[str, Manifest]) -> DataFrame:
    """run, number, numbers (of the names in its dictionary), known (how many views it has),
    begins (for each number the index at which the history begins)."""
    runs = []
    for number, manifest in enumerate(manifests.values()):
        places = {name: place for place, name in enumerate(ordered(manifest.names))}
        runs.append(
            {
                "run": manifest.run,
                "number": number,
                "numbers": [places[name] for name in manifest.names],
                "known": len(manifest.views),
                "begins": begins_of(manifest),
            }
        )
    schema = pa.schema(
        {
            "run": pa.string(),
            "number": pa.int32(),
            "numbers": pa.list_(pa.int16()),
            "known": pa.int64(),
            "begins": pa.list_(pa.int64()),
        }
    )
    return spark.createDataFrame(pa.Table.from_pylist(runs, schema=schema))


def numbered(stored: DataFrame, runs: DataFrame) -> DataFrame:
    """The rows that are judged, with numbers for names."""
    return stored.join(F.broadcast(runs), "run", "inner").select(
        F.col("number").alias("run"),
        F.get("numbers", "process").alias("process"),
        *("index", "kind"),
        F.get("numbers", "origin").alias("origin"),
        *("seq", "digest", "view"),
    )


def placed(stored: DataFrame, runs: DataFrame) -> DataFrame:
    """Every row with the place it was read from, and what is wrong with it by itself."""
    is_gap = F.col("kind") == "gap"
    places = stored.select(
        *stored.columns,
        F.substring_index("_metadata.file_name", ".", 1).cast("int").alias("file"),
        F.col("_metadata.row_index").alias("row"),
    )
    return places.join(F.broadcast(runs), "run", "left").select(
        F.col("number").alias("run"),
        F.get("numbers", "process").alias("process"),
        *("file", "row", "index", "kind"),
        F.when(is_gap, F.col("value")).otherwise(F.col("index")).alias("last_index"),
        F.get("begins", F.get("numbers", "process")).alias("begin"),
        F.coalesce("incarnation", F.lit(0)).alias("incarnation"),
        fault_in_row().alias("fault"),
    )


def _lives(
    rows: DataFrame, sources: Sequence[Path], names: Sequence[Members]
) -> dict[tuple[int, int], Life]:
    """How each history ends; DataError for the first row, in reading order, that is wrong."""
    in_order = F.struct("file", "row")
    fault = F.when(F.col("fault").isNotNull(), F.struct("file", "row", "fault"))
    histories = (
        in_sequence(rows)
        .groupBy("run", "process")
        .agg(
            F.count("*").alias("rows"),
            F.max_by("kind", in_order).alias("last_kind"),
            F.bool_or("holed").alias("holed"),
            F.min(fault).alias("fault"),
        )
        .collect()
    )
    faulty = [history for history in histories if history.fault is not None]
    if faulty:
        raise _data_error(min(faulty, key=lambda history: history.fault), sources, names)
    return {
        (history.run, history.process): Life(history.rows, history.last_kind, history.holed)
        for history in histories
    }


def _steps(stored: DataFrame, manifests: Sequence[Manifest]) -> dict[int, dict[str, list[Row]]]:
    is_agreed = F.col("kind").isin(*AGREED) & F.col("value").isNotNull()
    columns = ("run", "process", "index", "kind", "view", "value", "vector")
    numbers = {manifest.run: number for number, manifest in enumerate(manifests)}
    steps: dict[int, dict[str, list[Row]]] = {}
    for row in stored.where(is_agreed).select(*columns).collect():
        names = manifests[numbers[row["run"]]].names
        given = {name: row[name] for name in ("kind", "view", "value") if row[name] is not None}
        if row["vector"] is not None:
            given["vector"] = {names[position]: last for position, last in row["vector"].items()}
        process = names[row["process"]]
        step = Row(run="", process=process, index=row["index"], time_ns=0, **given)
        steps.setdefault(numbers[row["run"]], {}).setdefault(process, []).append(step)
    for of_run in steps.values():
        for of_process in of_run.values():
            of_process.sort(key=lambda row: row.index)
    return steps


def _data_error(history: Any, sources: Sequence[Path], names: Sequence[Members]) -> DataError:
    file, row, fault = history.fault
    if history.process is not None:
        fault = fault.replace(PROCESS, names[history.run][history.process])
    return DataError(f"{sources[file]}: row {row + 1}: {fault}")
