"""Real groups that change for long: from three members to seven and back, and in the storm.

``TIDINGS_SOAK_MINUTES=10 make soak ROOM=node_churn`` for ten minutes of each,
``TIDINGS_SOAK_SEED=7`` for others.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changing_storm import assert_everybody_kept_to_the_views, rage_and_change
from node_churn import (
    PER_S,
    assert_it_was_hard_and_nothing_is_lost,
    assert_nobody_waits_for_long,
    assert_nothing_is_left_behind,
    churn,
)
from tidings.conform import conform
from tidings.conform.words import story
from tidings.pipeline import audit
from tidings.trace import layout, read_manifests

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
GROUP_S = 240
"""How long one group goes on."""
STORM_PER_S = 300

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    begin_s = time.monotonic()

    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{time.monotonic() - begin_s:6.0f} s  {line}", end="", flush=True)

    return tell


def test_groups_grow_and_shrink_and_nothing_is_lost_nor_left_behind(
    tmp_path: Path, spark: Any, tell: Tell
) -> None:
    """On a machine of its own: nobody else may keep the members from their work."""
    end_s = time.monotonic() + 60 * MINUTES
    events: Counter[str] = Counter()
    groups = 0
    while time.monotonic() < end_s:
        folder = tmp_path / f"group-{groups}"
        folder.mkdir()
        outcome = churn(folder, GROUP_S, SEED * 1_000 + groups, tell, level_s=10)
        (verdicts,) = audit(spark, folder / "trace").verdicts.values()
        assert_it_was_hard_and_nothing_is_lost(outcome, verdicts)
        assert_nothing_is_left_behind(outcome)
        assert_nobody_waits_for_long(outcome)
        # Who is dead or stopped for a while offers nothing.
        assert outcome.offered > 0.7 * PER_S * outcome.seconds, "the load was lighter"
        shutil.rmtree(folder)
        groups += 1
        events += outcome.events
        tell(f"{groups} groups, {dict(events)}")
    assert events["killed in a change"], events
    assert events["replaced at its address"], events


def test_a_storm_over_groups_that_change(tmp_path: Path, spark: Any, tell: Tell) -> None:
    """A view about every twenty seconds, all of it audited and taken again step by step."""
    end_s = time.monotonic() + 60 * MINUTES
    faults: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    groups = 0
    while time.monotonic() < end_s:
        folder = tmp_path / f"group-{groups}"
        folder.mkdir()
        settings = ["trace.conform = true"]
        seed = SEED * 1_000 + groups
        storm = rage_and_change(folder, GROUP_S, seed, tell, STORM_PER_S, settings=settings)
        (verdicts,) = audit(spark, folder / "trace").verdicts.values()
        assert_everybody_kept_to_the_views(storm, verdicts)
        (manifest,) = read_manifests(layout(folder / "trace").manifests).values()
        found = conform(folder / "trace", manifest)
        stories = [story(one, manifest.run) for one in found.divergences]
        assert found.conforms, stories + found.unknown
        shutil.rmtree(folder)
        groups += 1
        faults += storm.faults
        changes += storm.counts
        changes["packets conformed"] += found.packets
        tell(f"{groups} groups, {dict(faults)}, {dict(changes)}")
    for change in ("added", "replaced", "removed", "rebound"):
        assert changes[change], changes
