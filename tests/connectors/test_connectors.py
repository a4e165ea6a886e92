"""One trace, written as a table of every kind and read back: the same rows, the same verdicts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connectors import CATALOG, fitting
from tidings import pipeline
from tidings.pipeline import Audit
from tidings.spec import Guarantee

COLUMNS = ("run", "process", "index", "kind", "origin", "seq", "digest", "view")
"""What is judged."""
MAPPING = """
[columns]
run = "run"
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
"""A topic has no columns, only what a mapping makes of its values; the digest serves as a text."""


class Stored(NamedTuple):
    """A table somewhere, as its user would name it."""

    form: str
    source: str
    options: Mapping[str, str]

    @property
    def is_topic(self) -> bool:
        return self.form == "kafka"

    def read(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self.form).options(**self.options)
        return reader.load() if self.is_topic else reader.load(self.source)


def _as_delta(rows: DataFrame, folder: Path, broker: Callable[[], str]) -> Stored:
    rows.write.format("delta").save(str(folder))
    return Stored("delta", str(folder), {})


def _as_iceberg(rows: DataFrame, folder: Path, broker: Callable[[], str]) -> Stored:
    rows.writeTo(f"{CATALOG}.logs.rows").using("iceberg").create()
    return Stored("iceberg", f"{CATALOG}.logs.rows", {})


def _as_kafka(rows: DataFrame, folder: Path, broker: Callable[[], str]) -> Stored:
    """Records by process, so that a partition has whole histories, side by side."""
    options = {"kafka.bootstrap.servers": broker()}
    records = rows.select(F.col("process").alias("key"), F.to_json(F.struct("*")).alias("value"))
    records.write.format("kafka").options(**options).option("topic", "rows").save()
    return Stored("kafka", "rows", options | {"subscribe": "rows", "startingOffsets": "earliest"})


def _as_csv(rows: DataFrame, folder: Path, broker: Callable[[], str]) -> Stored:
    rows.write.option("header", "true").csv(str(folder))
    return Stored("csv", str(folder), {"header": "true"})


WRITERS = {"csv": _as_csv, "delta": _as_delta, "iceberg": _as_iceberg, "kafka": _as_kafka}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, trace: Path) -> DataFrame:
    return spark.read.format("tidings").load(str(trace)).select(*COLUMNS)


@pytest.fixture(scope="module", params=["csv", *fitting()])
def stored(
    request: pytest.FixtureRequest, rows: DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> Stored:
    folder = tmp_path_factory.mktemp("stored") / str(request.param)
    return WRITERS[request.param](rows, folder, lambda: request.getfixturevalue("broker"))


def _sum(rows: DataFrame) -> Any:
    """How many rows, and a number that does not depend on their order."""
    typed = rows.select(*(F.col(name).cast("string") for name in COLUMNS))
    row = F.xxhash64(*COLUMNS).cast("decimal(38)")
    return typed.agg(F.count("*"), F.sum(row)).first()


def test_a_table_has_the_rows_that_were_written(
    spark: SparkSession, rows: DataFrame, stored: Stored
) -> None:
    found = stored.read(spark)
    if stored.is_topic:
        schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        value = F.from_json(F.col("value").cast("string"), schema)
        found = found.select(value.alias("row")).select("row.*")
    assert _sum(found) == _sum(rows)


@pytest.fixture(scope="module")
def specified(spark: SparkSession, trace: Path) -> Audit:
    """What the audit says of the trace itself."""
    audited = pipeline.audit(spark, trace, examples=None)
    violated = {one.guarantee for one in audited.verdicts["long"] if one.violations}
    assert violated >= {Guarantee.NO_CREATION, Guarantee.CAUSAL_ORDER}
    return audited


def test_the_audit_of_a_table_says_what_the_audit_of_the_trace_says(
    spark: SparkSession, trace: Path, stored: Stored, specified: Audit, tmp_path: Path
) -> None:
    (tmp_path / "mapping.toml").write_text(MAPPING)
    meaning = {"mapping": tmp_path / "mapping.toml"} if stored.is_topic else {}
    audited = pipeline.audit(
        spark,
        stored.source,
        format=stored.form,
        options=stored.options,
        examples=None,
        **meaning,
    )
    assert audited.rows == specified.rows
    assert audited.verdicts == specified.verdicts


def test_the_audit_of_a_dataframe_says_what_the_audit_of_the_trace_says(
    spark: SparkSession, rows: DataFrame, specified: Audit
) -> None:
    audited = pipeline.audit(spark, rows, examples=None)
    assert audited.rows == specified.rows
    assert audited.verdicts == specified.verdicts
