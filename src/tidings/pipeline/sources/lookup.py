"""What an operator can look up: the log's own id of a message, and the file and line of a row.

A trace made of a log keeps them beside the judged columns (docs/trace-format.md): ``message`` on
the broadcast, and on rows of messages that nobody broadcast; ``source`` and ``place`` on every row
that the log has. Only the rows that violations name are read.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings.core import MessageId
from tidings.pipeline.sources.survey import place_in
from tidings.pipeline.spark.spool import literally
from tidings.spec import Place, Verdict, Violation
from tidings.trace import Manifest, layout

KEPT = {"message", "source", "place"}


class Wanted(NamedTuple):
    """A row to look for: an event, or the broadcast of a message."""

    run: str
    process: str
    number: int
    is_broadcast: bool


def log_of(
    spark: SparkSession,
    trace: Path,
    manifests: Mapping[str, Manifest],
    verdicts: Mapping[str, Iterable[Verdict]],
) -> dict[str, dict[Place | MessageId, str]]:
    """For each run what its shown violations are in the log, if the trace knows it."""
    shown = [
        (run, violation)
        for run, five in verdicts.items()
        for verdict in five
        for violation in verdict.violations
    ]
    found = look_up(spark, trace, manifests, {one for run, of in shown for one in _wanted(run, of)})
    log: dict[str, dict[Place | MessageId, str]] = {}
    for one, (message, place) in found.items():
        words = ", ".join(word for word in (message, place) if word)
        if one.is_broadcast:
            log.setdefault(one.run, {})[MessageId(one.process, one.number)] = words
        else:
            log.setdefault(one.run, {})[Place(one.process, one.number)] = words
    return log


def _wanted(run: str, violation: Violation) -> Iterable[Wanted]:
    for message in (violation.message, violation.cause):
        if message is not None:
            yield Wanted(run, message.origin, message.seq, is_broadcast=True)
    for place in violation.witness:
        yield Wanted(run, place.process, place.index, is_broadcast=False)


def look_up(
    spark: SparkSession, trace: Path, manifests: Mapping[str, Manifest], wanted: set[Wanted]
) -> dict[Wanted, tuple[str, str]]:
    """The message and the place of each row that has any."""
    files, kept = _kept(trace)
    if not wanted or not kept:
        return {}
    positions = {
        run: {name: position for position, name in enumerate(manifest.names)}
        for run, manifest in manifests.items()
    }
    keys = pa.Table.from_pylist(
        [
            {
                "run": one.run,
                "process": positions[one.run][one.process],
                "number": one.number,
                "is_broadcast": one.is_broadcast,
            }
            for one in wanted
        ],
        schema=pa.schema(
            {
                "run": pa.string(),
                "process": pa.int16(),
                "number": pa.int64(),
                "is_broadcast": pa.bool_(),
            }
        ),
    )
    rows = spark.read.parquet(*files)
    events = rows.select("run", "process", *kept, F.col("index").alias("number"), F.lit(False))
    broadcasts = rows.where(F.col("kind") == "broadcast").select(
        "run", "process", *kept, F.col("seq"), F.lit(True)
    )
    found = (
        events.union(broadcasts)
        .toDF("run", "process", *kept, "number", "is_broadcast")
        .join(F.broadcast(spark.createDataFrame(keys)), list(keys.column_names), "left_semi")
        .collect()
    )
    return {
        Wanted(
            one["run"], manifests[one["run"]].names[one["process"]], one["number"],
            one["is_broadcast"],
        ): _words(one.asDict())
        for one in found
    }  # fmt: skip


def _kept(trace: Path) -> tuple[list[str], list[str]]:
    """The files of the trace, for Spark, and what of the log they keep."""
    files = layout(trace).parquet
    names = pq.read_schema(files[0]).names if files else []
    return [literally(file.resolve()) for file in files], [one for one in names if one in KEPT]


def _words(row: Mapping[str, Any]) -> tuple[str, str]:
    place, source = row.get("place"), row.get("source")
    where = place_in(source, place) if source is not None and place is not None else ""
    return row.get("message") or "", where


def add_log(
    spark: SparkSession, trace: Path, manifests: Mapping[str, Manifest], folder: Path
) -> None:
    """The table of violations gets ``message``, and the ``place`` of the last witness."""
    files, kept = _kept(trace)
    parts = list(folder.glob("*.parquet"))
    if not kept or not parts:
        return
    numbers = [
        {"run": run, "who": name, "process": position}
        for run, manifest in manifests.items()
        for position, name in enumerate(manifest.names)
    ]
    schema = pa.schema({"run": pa.string(), "who": pa.string(), "process": pa.int16()})
    names = spark.createDataFrame(pa.Table.from_pylist(numbers, schema=schema))
    rows = spark.read.parquet(*files).join(F.broadcast(names), ["run", "process"])
    for missing in KEPT - set(kept):
        rows = rows.withColumn(missing, F.lit(None).cast("string"))
    messages = (
        rows.where(F.col("kind") == "broadcast")
        .select("run", F.col("who").alias("origin"), "seq", "message")
        .dropDuplicates(["run", "origin", "seq"])
    )
    number = F.when(F.col("source").endswith(".parquet"), ": row ").otherwise(":")
    places = rows.select(
        "run",
        F.struct(F.col("who").alias("process"), "index").alias("last"),
        F.concat("source", number, F.col("place").cast("string")).alias("place"),
    )
    (
        spark.read.parquet(*(literally(part.resolve()) for part in parts))
        .withColumn("last", F.try_element_at("witness", F.lit(-1)))
        .join(messages, ["run", "origin", "seq"], "left")
        .join(places, ["run", "last"], "left")
        .select(*pq.read_schema(parts[0]).names, "message", "place")
        .write.option("compression", "zstd")
        .parquet(str(folder / "with-log"))
    )
    for part in parts:
        part.unlink()
    for part in (folder / "with-log").glob("*.parquet"):
        part.rename(folder / part.name)
    rmtree(folder / "with-log")
