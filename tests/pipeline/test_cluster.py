"""The same audit on a real cluster, whose executors die, and through Spark Connect."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from audit_elsewhere import auditing
from pipeline_ways import specified_by
from spark_cluster import connect_server, standalone, wait_for
from tidings.spec import Guarantee, Value
from tidings.trace import read_runs
from traces import known_violations

TIDINGS = Path(sys.executable).with_name("tidings")

COUNTING = """
import itertools, sys
from tidings import pipeline

progress = pipeline.Progress(print, clock=itertools.count(0, 10).__next__)
with pipeline.session(remote=sys.argv[1]) as spark, progress.following(pipeline.tasks_of(spark)):
    progress("counting")
    spark.range(0, 1 << 21, 1, 8).selectExpr("sum(length(sha2(string(id), 256)))").collect()
    progress.look()
    deliveries = spark.read.format("tidings").load(sys.argv[2]).where("kind = 'deliver'")
    print(deliveries.count(), "deliveries")
"""
"""A job of some seconds, and a clock that runs faster; then a trace as a table."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "runs [1] {a}*"
    known_violations(folder)
    return folder


def _specified(trace: Path) -> Any:
    verdicts = specified_by(trace)
    broken = {one.guarantee for one in verdicts["known"] if one.value is Value.VIOLATED}
    assert broken == set(Guarantee) - {Guarantee.UNIFORM_AGREEMENT}
    return json.loads(msgspec.json.encode(verdicts))


def _watched(trace: Path, *words: str) -> object:
    """The verdicts of a watch of all that is there, in the words of the specification."""
    answer = subprocess.run(
        [TIDINGS, "watch", str(trace), *words, "--once", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert answer.returncode == 1, answer.stderr
    *alarms, end = map(json.loads, answer.stdout.splitlines())
    assert len({one["alarm"]["key"] for one in alarms}) == len(alarms) > 0
    (run,) = end["runs"]
    return {"known": [_without_causes(one) for one in run["verdicts"].values()]}


def _without_causes(verdict: dict[str, Any]) -> dict[str, Any]:
    violations = [one | {"root": None} for one in verdict["violations"]]
    return verdict | {"causes": 0, "largest_causes": [], "violations": violations}


def _specified_without_causes(trace: Path) -> object:
    return {"known": [_without_causes(one) for one in _specified(trace)["known"]]}


def test_an_executor_dies_between_two_exchanges_and_the_verdicts_are_those_of_the_specification(
    trace: Path, tmp_path: Path
) -> None:
    """What it had packed for others is lost with it, and what it was working at."""
    with (
        standalone(tmp_path) as cluster,
        auditing(trace, "master", cluster.master, "pieces", wait_in=tmp_path) as audit,
    ):
        waiting = tmp_path / "waiting"
        wait_for(lambda: waiting.exists() or not audit.is_running(), "rows have arrived")
        executor = int(waiting.read_text())
        assert executor in cluster.executors(), "it is one of the cluster's"
        os.kill(executor, signal.SIGKILL)
        assert audit.verdicts() == [_specified(trace)]
        assert executor not in cluster.executors()
        assert _watched(trace, "--master", cluster.master) == _specified_without_causes(trace)
    assert not [found for found in trace.iterdir() if found.is_dir()], "the spool is gone"


def test_spark_connect_gives_the_verdicts_of_the_specification(trace: Path, tmp_path: Path) -> None:
    with connect_server(tmp_path, "local[2]") as remote:
        spoken = subprocess.run(
            [TIDINGS, "audit", str(trace), "--remote", remote, "--examples", "1000", "--json"],
            capture_output=True,
            text=True,
            timeout=240,
        )
        watched = _watched(trace, "--remote", remote)
        answer = subprocess.run(
            [sys.executable, "-c", COUNTING, remote, trace],
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert spoken.returncode == 1, spoken.stderr
    assert watched == _specified_without_causes(trace)
    (run,) = json.loads(spoken.stdout)["runs"]
    assert {"known": list(run["verdicts"].values())} == _specified(trace)
    known = r"^counting: \d+ s so far, [1-9]\d* of \d+ known tasks done$"
    assert re.search(known, answer.stdout, re.M), answer
    rows = [row for run in read_runs(trace) for row in run.rows]
    deliveries = sum(row.kind == "deliver" for row in rows)
    assert f"{deliveries} deliveries" in answer.stdout
