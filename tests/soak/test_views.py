"""Groups that change, for as long as it takes: random runs in any order and with churn, 10,000
each, the latter audited on Spark, and every run of small groups.

``TIDINGS_SOAK_RUNS=1000 make soak ROOM=views`` for fewer runs, ``TIDINGS_SOAK_SEED=5`` for others.
"""

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chunks import CHUNK, on_all_cores
from churn_runs import sound, write_chunk
from tidings import pipeline
from tidings.explore import Scope, explore
from tidings.spec import Value
from views_runs import hold_everything

RUNS = int(os.environ.get("TIDINGS_SOAK_RUNS", 10_000))
FIRST = int(os.environ.get("TIDINGS_SOAK_SEED", 1)) * 1_000_000


def test_random_runs_hold_everything(capsys) -> None:
    runs = -(-RUNS // CHUNK) * CHUNK
    happened = on_all_cores(hold_everything, runs, FIRST, capsys)
    for what in ("rival proposals", "sleepers through two views", "rebound messages"):
        assert happened[what] >= runs // 100, what
    for what in ("dead proposers", "void messages"):
        assert happened[what] >= runs // 1_000, what


BATCH = 1_000
"""So many runs are audited together."""


def test_churn_is_audited_on_spark_in_batches(spark: SparkSession, tmp_path: Path, capsys) -> None:
    happened: Counter[str] = Counter()
    for begin in range(FIRST, FIRST + RUNS, BATCH):
        folder = tmp_path / str(begin)
        folder.mkdir()
        chunks = [range(one, one + CHUNK) for one in range(begin, begin + BATCH, CHUNK)]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(write_chunk, [folder] * len(chunks), chunks):
                happened += found
        audited = pipeline.audit(spark, folder)
        assert len(audited.verdicts) == BATCH
        happened += sound(audited.verdicts)
        rmtree(folder)
        with capsys.disabled():
            print(f"\nchurn: {happened['runs']:,} of {RUNS:,} runs", end="", flush=True)
    with capsys.disabled():
        print(f"\n{dict(sorted(happened.items()))}", flush=True)
    runs = happened["runs"]
    assert happened["runs with something owed in the end"] >= 0.9 * runs
    for what in ("rival proposals", "rebound messages", "sleepers through two views"):
        assert happened[what] >= runs // 100, what
    for what in ("dead proposers", "void messages"):
        assert happened[what] >= runs // 200, what


ONE_LEAVES = {"broadcasts": 0, "changes": ("p1 remove p3",)}
SPEAKING_AND_CRASHING = {"broadcasts": 1, "crashes": 1, "in_order": True}
"""Any order of packets is too much then."""


@pytest.mark.parametrize(
    "scope",
    [
        ONE_LEAVES | {"broadcasts": 1},
        ONE_LEAVES | {"crashes": 1},
        ONE_LEAVES | {"crashes": 1, "early_timeouts": 1},
        {"broadcasts": 0, "changes": ("p1 remove p3", "p2 remove p1")},
        {"broadcasts": 0, "changes": ("p1 add p4",)},
        {"broadcasts": 0, "processes": 4, "changes": ("p1 remove p4",)},
        ONE_LEAVES | SPEAKING_AND_CRASHING,
        {"changes": ("p1 add p4",)} | SPEAKING_AND_CRASHING,
    ],
    ids=str,
)
def test_three_or_four_change_in_every_order(scope: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"protocol": "views", "options": {"batch_ms": 0}, "early_timeouts": 0}
    explored = explore(Scope(**usual | scope))
    verdicts = {explored.verdict(what) for what in explored.properties}
    assert verdicts == {Value.HOLDS}, explored.cut
    assert (explored.pace.owed > 0) is (explored.scope.broadcasts > 0)
