"""One trace, stored in every way in which the audit can read it: for tests and benchmarks."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connectors import CATALOG, ROOT, fitting
from hdfs import running_hdfs
from kafka_broker import running_broker
from tidings import pipeline
from tidings.pipeline import Audit
from tidings.trace import foreign, parquet

sys.path.append(str(ROOT / "bench"))

from rivals import generate

PROCESSES = 5
COLUMNS = ("run", "process", "index", "kind", "origin", "seq", "digest", "view")
"""What is judged."""
MAPPING = """
run = "long"

[columns]
process = "process"
order = "index"
kind = "kind"
origin = "origin"
seq = "seq"
text = "digest"

[kinds]
broadcast = "broadcast"
deliver = "deliver"
crash = "crash"
settle = "settle"

[group]
members = "from the log"
"""
"""For what has no columns of a trace; the digest serves as a text."""


# --- the trace


def write_trace(folder: Path, events: int) -> None:
    """A long run in which p2 breaks all five guarantees, a few times each.

    It delivers an altered text, two messages of p1 in the wrong order, and near its end one of its
    own messages twice and the next one not at all.
    """
    generate.long_run(folder, events, PROCESSES)
    path = folder / "p2.parquet"
    table = pq.read_table(path)
    origin, kind = (table[name].to_numpy(zero_copy_only=False) for name in ("origin", "kind"))
    of_p1, of_p2 = (np.flatnonzero((kind == "deliver") & (origin == one)) for one in (0, 1))
    somewhere = np.random.default_rng(events).integers(len(of_p1) // 2)
    altered, one, other = of_p1[somewhere], *of_p1[somewhere + 10 : somewhere + 12]
    twice, never = of_p2[-4:-2]
    for name in ("seq", "digest"):
        values = table[name].fill_null(0).to_numpy().copy()
        values[[one, other]] = values[[other, one]]
        values[never] = values[twice]
        if name == "digest":
            values[altered] += 1
        column = pa.array(values, mask=np.asarray(table[name].is_null()))
        table = table.set_column(table.column_names.index(name), table.field(name), column)
    pq.write_table(table, path, row_group_size=parquet.ROWS_A_GROUP, **parquet.FORM)


# --- where it is stored


class Stored(NamedTuple):
    """A trace somewhere, as its user would name it."""

    source: Path | str | DataFrame
    form: str = "tidings"
    options: Mapping[str, str] = {}
    mapping: Path | None = None
    manifest: Path | None = None
    becomes: Path | None = None
    """First it is made a trace of its own, here."""

    def audit(self, spark: SparkSession) -> Audit:
        """With all violations."""
        if self.becomes is not None:
            assert self.mapping is not None
            logs: Any = self.source
            pipeline.ingest(spark, logs, foreign.read_mapping(self.mapping), self.becomes)
            return pipeline.audit(spark, self.becomes, examples=None)
        return pipeline.audit(
            spark,
            self.source,
            self.mapping,
            format=self.form,
            options=self.options,
            manifest=self.manifest,
            examples=None,
        )


class Place:
    """Where a trace is stored again: a session, an empty folder, and servers if one is needed."""

    def __init__(self, spark: SparkSession, trace: Path, folder: Path, until_done: ExitStack):
        self.spark = spark
        self.trace = trace
        self.folder = folder
        self._until_done = until_done
        self.mapping = folder / "mapping.toml"
        self.mapping.write_text(MAPPING)

    def rows(self) -> DataFrame:
        return self.spark.read.format("tidings").load(str(self.trace)).select(*COLUMNS)

    def server(self, running: Callable[[Path], AbstractContextManager[str]]) -> str:
        return self._until_done.enter_context(running(self.folder))


def _path(place: Place) -> Stored:
    return Stored(place.trace)


def _file_uri(place: Place) -> Stored:
    return Stored(place.trace.as_uri())


def _hdfs(place: Place) -> Stored:
    uri = f"{place.server(running_hdfs)}/traces/long"
    hadoop: Any = place.spark._jvm.org.apache.hadoop.fs
    target = hadoop.Path(uri)
    system = target.getFileSystem(place.spark._jsc.hadoopConfiguration())
    system.mkdirs(target)
    for file in place.trace.iterdir():
        system.copyFromLocalFile(hadoop.Path(str(file)), target)
    return Stored(uri)


def _dataframe(place: Place) -> Stored:
    rows = place.spark.read.parquet(str(place.trace / "*.parquet")).select(*COLUMNS)
    return Stored(rows, manifest=place.trace / "manifest.jsonl")


def _tidings(place: Place) -> Stored:
    return Stored(place.rows())


def _csv(place: Place) -> Stored:
    place.rows().write.option("header", "true").csv(str(place.folder / "csv"))
    return Stored(str(place.folder / "csv"), "csv")


def _csv_with_a_mapping(place: Place) -> Stored:
    return Stored(f"{_csv(place).source}/*.csv", mapping=place.mapping)


def _csv_ingested(place: Place) -> Stored:
    return _csv_with_a_mapping(place)._replace(becomes=place.folder / "ingested")


def _delta(place: Place) -> Stored:
    place.rows().write.format("delta").save(str(place.folder / "delta"))
    return Stored(str(place.folder / "delta"), "delta")


def _iceberg(place: Place) -> Stored:
    place.rows().writeTo(f"{CATALOG}.logs.rows").using("iceberg").createOrReplace()
    return Stored(f"{CATALOG}.logs.rows", "iceberg")


def _kafka(place: Place) -> Stored:
    """Records by process, so that a partition has whole histories, side by side."""
    options = {"kafka.bootstrap.servers": place.server(running_broker)}
    value = F.to_json(F.struct("*")).alias("value")
    records = place.rows().select(F.col("process").alias("key"), value)
    records.write.format("kafka").options(**options).option("topic", "rows").save()
    return Stored("rows", "kafka", options, place.mapping)


WAYS: dict[str, Callable[[Place], Stored]] = {
    "path": _path,
    "file://": _file_uri,
    "hdfs://": _hdfs,
    "DataFrame": _dataframe,
    'format("tidings")': _tidings,
    "csv": _csv,
    "csv, mapping": _csv_with_a_mapping,
    "csv, ingest": _csv_ingested,
    "delta": _delta,
    "iceberg": _iceberg,
    "kafka, mapping": _kafka,
}


def ways() -> list[str]:
    """Those that there are connectors for, here."""
    lacking = {"delta", "iceberg", "kafka"} - fitting().keys()
    return [way for way in WAYS if way.split(",")[0] not in lacking]
