"""The table of violations with what an operator can look up (``lookup``), joined on Spark."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.sources.lookup import kept_in
from tidings.pipeline.spark.spool import literally
from tidings.trace import Manifest, layout

_JUDGED = "run string, process bigint, index bigint, kind string, seq bigint"
_KEPT = {"message": "string", "source": "string", "place": "bigint"}


def _logged_rows(spark: SparkSession, trace: Path) -> DataFrame | None:
    """The rows of all files that keep something of the log."""
    by_kept: dict[tuple[str, ...], list[str]] = {}
    for file in layout(trace).parquet:
        if kept := tuple(kept_in(file)):
            by_kept.setdefault(kept, []).append(literally(file.resolve()))
    tables = []
    for kept, files in by_kept.items():
        schema = ", ".join([_JUDGED, *(f"{name} {_KEPT[name]}" for name in kept)])
        columns = [
            F.col(name) if name in kept else F.lit(None).cast(type_).alias(name)
            for name, type_ in _KEPT.items()
        ]
        rows = spark.read.schema(schema).parquet(*files)
        tables.append(rows.select("run", "process", "index", "kind", "seq", *columns))
    return reduce(lambda one, other: one.unionByName(other), tables) if tables else None


def add_log(
    spark: SparkSession, trace: Path, manifests: Mapping[str, Manifest], folder: Path
) -> None:
    """The table of violations gets ``message``, and the ``place`` of the last witness."""
    logged = _logged_rows(spark, trace)
    parts = list(folder.glob("*.parquet"))
    if logged is None or not parts:
        return
    numbers = [
        {"run": run, "who": name, "process": position}
        for run, manifest in manifests.items()
        for position, name in enumerate(manifest.names)
    ]
    schema = pa.schema({"run": pa.string(), "who": pa.string(), "process": pa.int64()})
    names = spark.createDataFrame(pa.Table.from_pylist(numbers, schema=schema))
    rows = logged.join(F.broadcast(names), ["run", "process"])
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
