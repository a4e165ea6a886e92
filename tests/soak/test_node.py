"""Five durable nodes in a storm for half an hour, at 2,000 broadcasts per second, then the audit.

``TIDINGS_SOAK_S=300 make soak ROOM=node`` for five minutes, ``TIDINGS_SOAK_SEED=7`` for another
storm. Then 500 groups of three under tiny limits, one after the other; ``TIDINGS_SOAK_RUNS=50`` for
fewer, and the seed says where they begin.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broken_demo import assert_nodes_break
from conftest import Tidings
from storm import (
    assert_everything_happened,
    assert_nobody_was_held_up,
    assert_nothing_is_lost_or_repeated,
    rage,
)
from tidings.demo.simulated import BREAKS
from tidings.pipeline import audit
from tiny_limits import survive

SECONDS = float(os.environ.get("TIDINGS_SOAK_S", 1_800))
PER_S = 2_500
"""With some of them dead or stopped most of the time, 2,000 on average."""
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 6))
RUNS = int(os.environ.get("TIDINGS_SOAK_RUNS", 500))


def test_half_an_hour_of_every_fault_loses_and_repeats_nothing(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    outcome = rage(tmp_path, SECONDS, SEED, tell, PER_S)
    (verdicts,) = audit(spark, tmp_path / "trace", progress=tell).verdicts.values()
    assert_nothing_is_lost_or_repeated(outcome, verdicts)
    assert_nobody_was_held_up(outcome)
    assert_everything_happened(outcome)


@pytest.mark.parametrize("what", BREAKS)
def test_flawed_nodes_break_exactly_what_they_are_expected_to(tidings: Tidings, what: str) -> None:
    assert_nodes_break(tidings, what)


def test_tiny_limits_break_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    happened: Counter[str] = Counter()
    for seed in range(1_000 * SEED, 1_000 * SEED + RUNS):
        happened += survive([seed])
        if happened["runs"] % 50 == 0:
            with capsys.disabled():
                print(f"\n{happened['runs']:,} of {RUNS:,} runs", end="", flush=True)
    for what in ("texts", "kills", "leaves", "returns", "pauses", "replayed"):
        assert happened[what] > 0, what
