"""The beginning of what ``make soak ROOM=node_churn`` does for half an hour.

There it is judged on Spark, here without: the worker that has Spark has enough to do.
"""

from pathlib import Path

from node_churn import (
    assert_it_was_hard_and_nothing_is_lost,
    assert_nothing_is_left_behind,
    churn,
)
from tidings.conform import conform
from tidings.conform.words import story
from tidings.pipeline import audit_here
from tidings.trace import layout, read_manifests


def test_a_group_grows_and_shrinks_under_load_and_kills(tmp_path: Path) -> None:
    about = {"per_s": 300, "pause_s": 0.2, "most": 5, "settings": ("trace.conform = true",)}
    outcome = churn(tmp_path, 1, 3, print, **about)
    (verdicts,) = audit_here(tmp_path / "trace").verdicts.values()
    assert_it_was_hard_and_nothing_is_lost(outcome, verdicts)
    assert_nothing_is_left_behind(outcome)
    (manifest,) = read_manifests(layout(tmp_path / "trace").manifests).values()
    found = conform(tmp_path / "trace", manifest)
    assert found.conforms, [story(one, manifest.run) for one in found.divergences] + found.unknown
