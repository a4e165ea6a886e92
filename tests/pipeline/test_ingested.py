"""Foreign logs on Spark: a trace made by ``tidings ingest`` is a trace like any other."""

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from broker_logs import FIXTURES, MAPPING
from tidings import pipeline
from tidings.spec import Value, Verdict, judge
from tidings.trace import foreign, read_runs


def in_order(run: tuple[str, tuple[Verdict, ...]]) -> tuple[str, list[Verdict]]:
    """The verdicts on a run, the violations in an order that both judges would choose."""
    name, verdicts = run
    return name, [
        msgspec.structs.replace(one, violations=tuple(sorted(one.violations, key=repr)))
        for one in verdicts
    ]


def test_spark_finds_in_the_logs_of_brokers_what_the_specification_finds(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "trace"
    found = sorted(FIXTURES.glob("*/*.jsonl"))
    pipeline.ingest(spark, found, foreign.read_mapping(MAPPING), folder)
    audited = pipeline.audit(spark, folder, examples=1000)
    specified = {run.manifest.run: judge(run) for run in read_runs(folder)}
    assert list(map(in_order, audited.verdicts.items())) == list(map(in_order, specified.items()))
    values = [one.value for five in audited.verdicts.values() for one in five]
    assert values.count(Value.VIOLATED) == 23
