"""Groups of five in the storm with mishaps, one after another for half an hour; then rollbacks.

``TIDINGS_SOAK_MINUTES=10 make soak ROOM=storm`` for ten minutes of each, ``TIDINGS_SOAK_SEED=7``
for others.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mishaps import assert_all_mishaps_happened, assert_the_healthy_hold, suffer
from rollbacks import End, assert_every_end_was_seen, roll_back
from tidings.pipeline import audit

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
PER_S = 1_000

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    begin_s = time.monotonic()

    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{time.monotonic() - begin_s:6.0f} s  {line}", end="", flush=True)

    return tell


def test_groups_bear_every_mishap(tmp_path: Path, spark: Any, tell: Tell) -> None:
    end_s = time.monotonic() + 60 * MINUTES
    faults: Counter[str] = Counter()
    signs: Counter[str] = Counter()
    groups = broadcasts = 0
    while time.monotonic() < end_s:
        folder = tmp_path / f"group-{groups}"
        folder.mkdir()
        outcome = suffer(folder, SEED * 1_000 + groups, tell, PER_S)
        (verdicts,) = audit(spark, folder / "trace").verdicts.values()
        assert_the_healthy_hold(outcome, verdicts)
        shutil.rmtree(folder)
        groups += 1
        broadcasts += outcome.offered
        faults += outcome.faults
        signs += outcome.signs
        tell(f"{groups} groups, {broadcasts:,} broadcasts, {faults.total()} faults")
    tell(f"{dict(faults)}, {dict(signs)}")
    assert_all_mishaps_happened(faults, signs, groups)


def test_rollbacks_are_noticed_or_do_no_harm(tmp_path: Path, tell: Tell) -> None:
    end_s = time.monotonic() + 60 * MINUTES
    ends: Counter[End] = Counter()
    runs = twice = 0
    slowest_s = 0.0
    while time.monotonic() < end_s:
        folder = tmp_path / f"run-{runs}"
        folder.mkdir()
        outcome = roll_back(folder, SEED * 1_000_000 + runs)
        shutil.rmtree(folder)
        runs += 1
        ends[outcome.end] += 1
        twice += outcome.twice
        slowest_s = max(slowest_s, outcome.noticed_s)
        if runs % 100 == 0:
            tell(f"{runs} runs: {dict(ends)}, {twice:,} names with two texts, {slowest_s:.1f} s")
    tell(f"{runs} runs: {dict(ends)}, {twice:,} names with two texts, at most {slowest_s:.1f} s")
    assert_every_end_was_seen(ends, max(1, runs // 100))
