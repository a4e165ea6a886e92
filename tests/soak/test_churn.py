"""Groups that go from three members to seven and back, again and again, for half an hour.

``TIDINGS_SOAK_MINUTES=10 make soak ROOM=churn`` for ten minutes, ``TIDINGS_SOAK_SEED=7`` for
others.
"""

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from churn import assert_it_was_hard_and_nothing_is_lost, churn
from tidings.pipeline import audit
from tidings.spec import Value

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
GROUP_S = 240
"""How long one group goes on."""


@pytest.mark.parametrize("pause_s", [1.0, 20.0])
def test_groups_change_for_long(
    pause_s: float, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{time.monotonic() - begin_s:6.0f} s  {line}", end="", flush=True)

    begin_s = time.monotonic()
    events: Counter[str] = Counter()
    groups = 0
    while time.monotonic() < begin_s + 30 * MINUTES:
        folder = tmp_path / f"group-{groups}"
        folder.mkdir()
        outcome = churn(folder, GROUP_S, SEED * 1_000 + groups, tell, pause_s=pause_s)
        assert_it_was_hard_and_nothing_is_lost(outcome)
        (verdicts,) = audit(spark, folder / "trace").verdicts.values()
        assert all(one.value is Value.HOLDS for one in verdicts), verdicts
        shutil.rmtree(folder)
        groups += 1
        events += outcome.events
        tell(f"{groups} groups, {outcome.views} views in the last, {dict(events)}")
    assert events["replaced"], events
    assert events["killed in a change"], events
