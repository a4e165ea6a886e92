"""Spark answers to the specification: the same verdicts, counts and witnesses."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.spec import Guarantee, Value, Verdict, judge
from tidings.trace import read_runs
from traces import random_runs, write_drafts

RUNS = 600
ALL = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    write_drafts(folder, random_runs(RUNS))
    return folder


@pytest.fixture(scope="module")
def specified(folder: Path) -> dict[str, tuple[Verdict, ...]]:
    return {run.manifest.run: judge(run) for run in read_runs(folder)}


@pytest.fixture(scope="module")
def audited(spark: SparkSession, folder: Path) -> pipeline.Audit:
    return pipeline.audit(spark, folder, examples=ALL)


def test_spark_and_the_specification_agree(
    audited: pipeline.Audit, specified: dict[str, tuple[Verdict, ...]]
) -> None:
    assert list(audited.verdicts) == list(specified)
    for run, wanted in specified.items():
        for found, expected in zip(audited.verdicts[run], wanted, strict=True):
            assert _without_violations(found) == _without_violations(expected), run
            assert Counter(found.violations) == Counter(expected.violations), run


def test_the_random_runs_are_not_vacuous(specified: dict[str, tuple[Verdict, ...]]) -> None:
    values = Counter(
        (verdict.guarantee, verdict.value) for v in specified.values() for verdict in v
    )
    for guarantee in Guarantee:
        assert values[guarantee, Value.VIOLATED] >= RUNS * 0.10, (guarantee, values)
        assert values[guarantee, Value.UNKNOWN] >= RUNS * 0.05, (guarantee, values)
        assert values[guarantee, Value.HOLDS] >= RUNS * 0.20, (guarantee, values)
    assert sum(verdict.not_owed > 0 for v in specified.values() for verdict in v) > 20
    reasons = Counter(verdict.reason for v in specified.values() for verdict in v)
    for words in ("is missing", "left no history", "does not reach", "neither settled", "owed"):
        assert any(words in reason for reason in reasons), words


def _without_violations(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(verdict, violations=())
