"""Storms of a minute for half an hour, every step recorded and stepped through again.

``TIDINGS_SOAK_MINUTES=10 make soak ROOM=conform`` for ten minutes, ``TIDINGS_SOAK_SEED=7`` for
other storms. Each of them is audited, too.
"""

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from storm import assert_nothing_is_lost_or_repeated, rage
from tidings.conform import conform
from tidings.conform.words import story
from tidings.pipeline import audit
from tidings.trace import layout, read_manifests

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
STORM_S, PER_S = 60.0, 1_000


def test_members_do_in_every_storm_what_their_protocol_would(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = time.monotonic() + 60 * MINUTES
    seen: Counter[str] = Counter()
    while time.monotonic() < end_s:
        folder = tmp_path / f"storm-{seen['storms']}"
        folder.mkdir()
        seed = SEED * 1_000 + seen["storms"]
        outcome = rage(folder, STORM_S, seed, print, PER_S, settings=["trace.conform = true"])
        (verdicts,) = audit(spark, folder / "trace").verdicts.values()
        assert_nothing_is_lost_or_repeated(outcome, verdicts)
        (manifest,) = read_manifests(layout(folder / "trace").manifests).values()
        found = conform(folder / "trace", manifest)
        assert found.conforms, [story(one, manifest.run) for one in found.divergences]
        assert not found.unknown, found.unknown
        seen.update(storms=1, broadcasts=outcome.offered, faults=outcome.faults.total())
        seen.update(packets=found.packets, lives=sum(one.lives for one in found.members.values()))
        shutil.rmtree(folder)
        with capsys.disabled():
            print(f"\nseed {seed} conforms; so far {dict(seen)}", end="", flush=True)
    assert seen["lives"] > 5 * seen["storms"], "nobody was killed"
    assert seen["packets"] > 1_000 * seen["storms"]
