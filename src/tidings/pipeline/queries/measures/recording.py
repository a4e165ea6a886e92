"""A trace opened to be measured: its rows as they are stored, and what became of each process.

Names stay positions in the dictionary of their run until the end of each table: an event then
needs no join, and a table of messages is joined once with the few rows that its runs are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.ingest import corrupt_files_named
from tidings.pipeline.spark.naming import jobs_named
from tidings.pipeline.spark.spool import spool_for, stored_rows
from tidings.trace import Manifest, layout, read_manifests
from tidings.trace.parquet import missing_columns
from tidings.trace.schema import AGREED
from tidings.trace.spooling import fill


class Recording(NamedTuple):
    """The rows of a trace and two small tables about its runs."""

    rows: DataFrame
    """As they are stored: ``process``, ``origin`` and ``peer`` are positions in ``names``."""
    runs: DataFrame
    """run, clock, names, views (as positions), up, gone (positions: what the manifest tells)."""
    lives: DataFrame
    """run, process, last (its last index), settled, ended (where such a row stands), or null; left
    (by agreement, and it is in no view since)."""
    width: int
    """How many names the largest dictionary has."""
    kinds: frozenset[str]
    """Of held and state, those of which there is any row: what is not there need not be sought."""

    def rows_of(self, *kinds: str) -> DataFrame:
        return self.rows.where(F.col("kind").isin(*kinds))

    def named(self, table: DataFrame, *positions: str) -> DataFrame:
        """Names for positions, and no times of which nobody knows what clock they are from."""
        runs = self.runs.select("run", "names", "clock")
        names = {column: F.get("names", F.col(column)) for column in positions}
        return table.join(F.broadcast(runs), "run", "inner").withColumns(names)


@contextmanager
def record(spark: SparkSession, path: Path | str) -> Iterator[Recording]:
    """Open the trace at ``path``; its tables live as long as the block."""
    files = layout(Path(path))
    manifests = read_manifests(files.manifests)
    with spool_for(spark, Path(path)) as spool:
        sources = fill(spool, files, manifests)
        with corrupt_files_named(sources):
            with jobs_named(spark) as progress:
                progress("reading the trace to measure it")
                recording = recording_of(spark, stored_rows(spark, spool), manifests)
            try:
                yield recording
            finally:
                recording.lives.unpersist()


def recording_of(
    spark: SparkSession, rows: DataFrame, manifests: Mapping[str, Manifest]
) -> Recording:
    """The same for rows that are a table already: the columns of a Parquet trace."""
    ended = F.col("kind").isin("crash", "leave")
    is_agreed = F.col("kind").isin(*AGREED) & F.col("value").isNotNull()
    is_leaving = F.col("kind") == "leave"
    outside = F.max(F.when(is_agreed & is_leaving, F.col("index")))
    inside = F.max(F.when(is_agreed & ~is_leaving, F.col("index")))
    lives = (
        rows.groupBy("run", "process")
        .agg(
            F.max("index").alias("last"),
            F.max(F.when(F.col("kind") == "settle", F.col("index"))).alias("settled"),
            F.max(F.when(ended, F.col("index"))).alias("ended"),
            (F.coalesce(outside, F.lit(-1)) > F.coalesce(inside, F.lit(-1))).alias("left"),
            F.max(F.col("time_ns").isNull()).alias("timeless"),
            *(F.max(F.col("kind") == kind).alias(kind) for kind in _OPTIONAL),
        )
        .persist()
    )
    found = lives.agg(*(F.max(one).alias(one) for one in ("timeless", *_OPTIONAL))).collect()[0]
    runs = _runs_table(spark, manifests.values())
    if found["timeless"]:
        # A delivery of which nobody knows when it was is one nevertheless: it counts, as of a run
        # without a clock.
        timeless = lives.where("timeless").select("run").distinct()
        without = runs.join(timeless, "run", "left_semi").withColumn("clock", F.lit(None))
        runs = runs.join(timeless, "run", "left_anti").unionByName(without)
        rows = rows.withColumn("time_ns", F.coalesce("time_ns", F.lit(0)))
    return Recording(
        rows=rows,
        runs=runs,
        lives=lives.drop("timeless", *_OPTIONAL),
        width=max(len(manifest.names) for manifest in manifests.values()),
        kinds=frozenset(kind for kind in _OPTIONAL if found[kind]),
    )


def unmeasured(path: Path | str) -> str:
    """In one line what the columns of a trace cannot tell; empty if they can tell everything."""
    for file in layout(Path(path)).parquet:
        missing = missing_columns(file)
        untold = [measure for measure, needs in _NEEDS.items() if not needs.isdisjoint(missing)]
        if untold:
            columns = sorted(set().union(*_NEEDS.values()).intersection(missing))
            lacks = f"{file.name} has no {', '.join(columns)}"
            return f"not measured: {', '.join(untold)} ({lacks})"
    return ""


_NEEDS = {
    "costs": {"packet_kind", "bytes"},
    "states": {"name", "value"},
    "latencies and hold-back times": {"time_ns"},
}
_OPTIONAL = ("held", "state")
_POSITIONS = pa.list_(pa.int16())
_RUNS = pa.schema(
    {
        "run": pa.string(),
        "clock": pa.string(),
        "names": pa.list_(pa.string()),
        "views": pa.list_(_POSITIONS),
        "up": _POSITIONS,
        "gone": _POSITIONS,
    }
)


def _runs_table(spark: SparkSession, manifests: Iterable[Manifest]) -> DataFrame:
    runs = []
    for manifest in manifests:
        positions = {name: position for position, name in enumerate(manifest.names)}
        fates = [(positions[name], fate) for name, fate in manifest.fates.items()]
        runs.append(
            {
                "run": manifest.run,
                "clock": manifest.clock,
                "names": manifest.names,
                "views": [[positions[name] for name in view] for view in manifest.views],
                "up": [position for position, fate in fates if fate == "up"],
                "gone": [position for position, fate in fates if fate != "up"],
            }
        )
    return spark.createDataFrame(pa.Table.from_pylist(runs, schema=_RUNS))


def audiences(recording: Recording) -> DataFrame:
    """Who was addressed by each member list, and who of them owes a delivery.

    - run, view, names, clock; members, owing: how many the list has, how many of them correct
    - is_addressed, is_owing: for each position of the dictionary whether it is one of these
    - settled: it is known of every member whether it is correct
    """
    is_correct = (F.col("settled") == F.col("last")) & ~F.col("left")
    has_ended = F.col("ended") == F.col("last")
    ends = recording.lives.groupBy("run").agg(
        F.collect_list(F.when(is_correct, F.col("process"))).alias("correct"),
        F.collect_list(F.when(has_ended, F.col("process"))).alias("over"),
        F.collect_list(F.when(F.col("left"), F.col("process"))).alias("left"),
    )
    nobody = F.array().cast("array<smallint>")
    known = recording.runs.join(ends, "run", "left").select(
        *("run", "clock", "names", "up", F.posexplode("views").alias("view", "list")),
        F.coalesce("correct", nobody).alias("correct"),
        # Who is said to be up, and did not settle, came back from a crash to an unknown end.
        F.array_except(F.coalesce("over", nobody), "up").alias("over"),
        F.array_union("gone", F.coalesce("left", nobody)).alias("gone"),
    )
    settled = F.array_union(F.array_union("correct", "over"), F.col("gone"))
    owing = F.array_intersect("list", "correct")
    return known.select(
        *("run", F.col("view").cast("bigint").alias("view"), "names", "clock"),
        *(F.size("list").alias("members"), F.size(owing).alias("owing")),
        _positions_of(F.col("list")).alias("is_addressed"),
        _positions_of(owing).alias("is_owing"),
        (F.size(F.array_except("list", settled)) == 0).alias("settled"),
    )


def _positions_of(chosen: Column) -> Column:
    """For every position of the dictionary whether it is one of the chosen."""
    return F.transform(
        "names", lambda _, position: F.array_contains(chosen, position.cast("smallint"))
    )


def percentiles(
    values: DataFrame,
    *by: str,
    value: str = "value_ns",
    shares: Sequence[int] = (50, 90, 99),
) -> DataFrame:
    """For each group: count, min, p50, p90, p99 and max of the values that are not null, by unit.

    By nearest rank (``core/ranks.py``), and exact: values are sorted, on disk if they have to be.
    ``value`` ends with its unit, and so do the columns: p50_ns, ..., max_ns.
    """
    unit = value.rpartition("_")[2]
    group = Window.partitionBy(*by)
    ranked = values.where(F.col(value).isNotNull()).select(
        *by,
        F.col(value).alias("value"),
        F.row_number().over(group.orderBy(value)).alias("rank"),
        F.count("*").over(group).alias("count"),
    )
    ranks = {
        f"min_{unit}": F.lit(1),
        **{f"p{share}_{unit}": F.ceil(F.col("count") * share / 100) for share in shares},
        f"max_{unit}": F.col("count"),
    }
    return ranked.groupBy(*by).agg(
        F.max("count").alias("count"),
        *(
            F.max(F.when(F.col("rank") == rank, F.col("value"))).alias(name)
            for name, rank in ranks.items()
        ),
    )
