"""The beginning of what ``make soak ROOM=node`` and ``ROOM=storm`` do for half an hour each."""

from pathlib import Path
from typing import Any

from mishaps import assert_all_mishaps_happened, assert_the_healthy_hold, suffer
from storm import assert_everything_happened, assert_nothing_is_lost_or_repeated, rage
from tidings.pipeline import audit
from tidings.spec import judge
from tidings.trace import read_runs


def test_a_storm_of_every_fault_loses_and_repeats_nothing(tmp_path: Path, spark: Any) -> None:
    outcome = rage(tmp_path, seconds=30, seed=7, tell=print)
    (verdicts,) = audit(spark, tmp_path / "trace").verdicts.values()
    assert_nothing_is_lost_or_repeated(outcome, verdicts)
    assert_everything_happened(outcome)


def test_a_group_bears_every_mishap(tmp_path: Path) -> None:
    outcome = suffer(tmp_path, 2, print, per_s=200, only_mishaps=True, backlog=300)
    (run,) = read_runs(tmp_path / "trace")
    assert_the_healthy_hold(outcome, judge(run))
    assert_all_mishaps_happened(outcome.faults, outcome.signs, 1)
