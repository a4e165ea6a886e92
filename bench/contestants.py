"""Those who judge one trace in the benchmark, each in a process of its own.

A contestant imports what it needs only when it takes part: memory is counted too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contest import Judge


@contextmanager
def floor() -> Iterator[Judge]:
    """Spark scans the columns that an audit needs, and groups the rows: the least it could do."""
    from pyspark.sql import functions as F

    from tidings import pipeline

    with pipeline.session() as spark:

        def judge(folder: Path) -> None:
            rows = spark.read.parquet(*map(str, folder.glob("*.parquet")))
            (
                rows.groupBy("process", "origin")
                .agg(
                    F.sum(F.col("digest").cast("double")),
                    F.max("index"),
                    F.max("seq"),
                    F.max("view"),
                    F.sum(F.when(F.col("kind") == "deliver", 1)),
                    F.count("run"),
                )
                .collect()
            )

        yield judge


@contextmanager
def on_spark() -> Iterator[Judge]:
    from tidings import pipeline

    with pipeline.session() as spark:
        yield lambda folder: _expect_good(pipeline.audit(spark, folder).verdicts)


@contextmanager
def by_queries() -> Iterator[Judge]:
    from tidings import pipeline

    with pipeline.session() as spark:
        yield lambda folder: _expect_good(pipeline.audit(spark, folder, checker="sql").verdicts)


@contextmanager
def locally() -> Iterator[Judge]:
    """The same arrays without Spark, on one core."""
    from tidings import pipeline

    def judge(folder: Path) -> None:
        _expect_good(pipeline.audit_here(folder, examples=3).verdicts)

    yield judge


@contextmanager
def in_duckdb() -> Iterator[Judge]:
    from rivals import duckdb_rival

    yield lambda folder: _expect_nothing(duckdb_rival.judge(_histories(folder)))


@contextmanager
def in_polars() -> Iterator[Judge]:
    from rivals import polars_rival

    yield lambda folder: _expect_nothing(polars_rival.judge(_histories(folder)))


def _histories(folder: Path) -> list[Path]:
    """A file for each process, in their order."""
    return sorted(folder.glob("*.parquet"), key=lambda file: int(file.stem[1:]))


def _expect_good(verdicts: Any) -> None:
    from tidings.spec import Value

    values = {verdict.value for five in verdicts.values() for verdict in five}
    assert values == {Value.HOLDS}, f"a valid trace was judged {values}"


def _expect_nothing(breaches: dict[str, int]) -> None:
    assert len(breaches) == 5, f"five guarantees, not {list(breaches)}"
    assert not any(breaches.values()), f"a valid trace was judged {breaches}"
