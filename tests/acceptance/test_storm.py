"""The beginning of what ``make soak ROOM=node`` does for half an hour: every fault once or more."""

from pathlib import Path
from typing import Any

from storm import assert_everything_happened, assert_nothing_is_lost_or_repeated, rage
from tidings.pipeline import audit


def test_a_storm_of_every_fault_loses_and_repeats_nothing(tmp_path: Path, spark: Any) -> None:
    outcome = rage(tmp_path, seconds=30, seed=7, tell=print)
    (verdicts,) = audit(spark, tmp_path / "trace").verdicts.values()
    assert_nothing_is_lost_or_repeated(outcome, verdicts)
    assert_everything_happened(outcome)
