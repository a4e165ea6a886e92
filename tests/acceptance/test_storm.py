"""The beginning of what ``make soak ROOM=node`` and ``ROOM=storm`` do for half an hour each.

There it is judged on Spark, here without: the worker that has Spark has enough to do.
"""

from pathlib import Path

from mishaps import assert_all_mishaps_happened, assert_the_healthy_hold, suffer
from storm import assert_everything_happened, assert_nothing_is_lost_or_repeated, rage
from tidings.conform import conform
from tidings.conform.words import story
from tidings.pipeline import audit_here
from tidings.spec import judge
from tidings.trace import layout, read_manifests, read_runs


def test_a_storm_of_every_fault_loses_and_repeats_nothing(tmp_path: Path) -> None:
    outcome = rage(tmp_path, 30, 7, print, 1_000, settings=["trace.conform = true"])
    (verdicts,) = audit_here(tmp_path / "trace").verdicts.values()
    assert_nothing_is_lost_or_repeated(outcome, verdicts)
    assert_everything_happened(outcome)
    (manifest,) = read_manifests(layout(tmp_path / "trace").manifests).values()
    found = conform(tmp_path / "trace", manifest)
    assert found.conforms, [story(one, manifest.run) for one in found.divergences] + found.unknown
    assert found.packets > 1_000
    assert all(one.lives > 1 and one.rows > 1_000 for one in found.members.values())


def test_a_group_bears_every_mishap(tmp_path: Path) -> None:
    outcome = suffer(tmp_path, 2, print, per_s=200, only_mishaps=True, backlog=300)
    (run,) = read_runs(tmp_path / "trace")
    assert_the_healthy_hold(outcome, judge(run))
    assert_all_mishaps_happened(outcome.faults, outcome.signs, 1)
