"""A trace in a few numbers, however long it is: what one page can show."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidings.pipeline.progress import Show, silent
from tidings.pipeline.queries.measures.costs import costs, run_costs, states
from tidings.pipeline.queries.measures.latencies import MEASURES, latencies
from tidings.pipeline.queries.measures.recording import Recording, percentiles, record
from tidings.pipeline.spark.naming import naming_jobs

SHARES = (25, 50, 75, 95, 99)
MOST_SAMPLES = 200
"""Of what one process keeps: more cannot be told apart."""


class PacketsSent(NamedTuple):
    """Packets of one kind, of all runs."""

    kind: str
    packets: int
    bytes: int


class Quantiles(NamedTuple):
    """Of some times in nanoseconds, by nearest rank."""

    known: int
    """How many there are."""
    least: int
    p25: int
    p50: int
    p75: int
    p95: int
    p99: int
    most: int


class StateSample(NamedTuple):
    """How many bytes a process kept at a moment."""

    time_ns: int
    bytes: int


class Overview(NamedTuple):
    broadcasts: int
    sent: tuple[PacketsSent, ...]
    """The heaviest first."""
    waits: dict[tuple[str, str], Quantiles]
    """By group of runs and measure (own, first, majority, last), of what is known."""
    kept: dict[str, tuple[StateSample, ...]]
    """By process, if there is one run only."""


@naming_jobs
def overview(
    spark: SparkSession,
    path: Path | str,
    groups: Mapping[str, str],
    *,
    most_samples: int = MOST_SAMPLES,
    progress: Show = silent,
) -> Overview:
    """``groups`` says of every run to which group it belongs: to its protocol, for example."""
    progress("reading the trace to measure it")
    with record(spark, path) as recording:
        progress("measuring what was sent")
        sent = _sent(recording)
        broadcasts = run_costs(recording).agg(F.sum("broadcasts")).collect()[0][0]
        progress("measuring how long it took")
        waits = _waits(spark, recording, groups)
        progress("measuring what was kept")
        kept = _kept(recording, most_samples) if len(groups) == 1 else {}
        return Overview(broadcasts or 0, sent, waits, kept)


def _sent(recording: Recording) -> tuple[PacketsSent, ...]:
    by_kind = costs(recording).groupBy("packet_kind").agg(F.sum("packets"), F.sum("bytes"))
    found = [PacketsSent(kind, packets, size or 0) for kind, packets, size in by_kind.collect()]
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.kind)))


def _waits(
    spark: SparkSession, recording: Recording, groups: Mapping[str, str]
) -> dict[tuple[str, str], Quantiles]:
    named = spark.createDataFrame(list(groups.items()), "run string, group string")
    each = latencies(recording).join(F.broadcast(named), "run", "inner")
    values = each.unpivot("group", [f"{one}_ns" for one in MEASURES], "measure", "value_ns")
    columns = ("count", "min_ns", *(f"p{share}_ns" for share in SHARES), "max_ns")
    return {
        (row["group"], row["measure"].removesuffix("_ns")): Quantiles(
            *(row[one] for one in columns)
        )
        for row in percentiles(values, "group", "measure", shares=SHARES).collect()
    }


def _kept(recording: Recording, most: int) -> dict[str, tuple[StateSample, ...]]:
    kept: dict[str, list[StateSample]] = {}
    samples = states(recording).where("name = 'bytes' and time_ns is not null")
    for row in _thinned(samples, most).collect():
        kept.setdefault(row["process"], []).append(StateSample(row["time_ns"], row["value"]))
    return {process: tuple(samples) for process, samples in kept.items()}


def _thinned(samples: DataFrame, most: int) -> DataFrame:
    """So many of each process, at equal distances, the last among them."""
    of_process = Window.partitionBy("process")
    behind = F.row_number().over(of_process.orderBy(F.col("index").desc())) - 1
    step = F.ceil(F.count("*").over(of_process) / most)
    return (
        samples.select("process", "index", "time_ns", "value", (behind % step).alias("off"))
        .where("off = 0")
        .orderBy("process", "index")
    )
