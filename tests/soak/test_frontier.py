"""frontier for as long as it takes: 300,000 adversarial runs, and every run of small groups.

``TIDINGS_SOAK_RUNS=30000 make soak ROOM=frontier`` for fewer runs, ``TIDINGS_SOAK_SEED=5`` for
others. Interrupted, it goes on where it was (chunks.py).
"""

import os
from typing import Any

import pytest

from chunks import CHUNK, on_all_cores
from frontier_adversary import report_every_divergence, survive
from frontier_links import survive_broken_links
from frontier_runs import hold_all_guarantees
from tidings.explore import Scope, explore
from tidings.spec import Value

RUNS = int(os.environ.get("TIDINGS_SOAK_RUNS", 300_000))
"""Half of them with a clock, half without; of these, every second with links that break."""
FIRST = int(os.environ.get("TIDINGS_SOAK_SEED", 1)) * 1_000_000


def whole_chunks(runs: int) -> int:
    return -(-runs // CHUNK) * CHUNK


def test_adversarial_runs_hold_all_guarantees(capsys) -> None:
    runs = whole_chunks(RUNS // 2)
    happened = on_all_cores(hold_all_guarantees, runs, FIRST, capsys)
    for what in (
        "packets lost",
        "packets duplicated",
        "partitions",
        "recover",
        "crashes in mid-broadcast",
        "restarts in mid-broadcast",
        "crashes at a write",
        "pull packets",
        "asking packets",
    ):
        assert happened[what] >= runs // 20, what


def test_an_adversary_without_a_clock_breaks_nothing(capsys) -> None:
    on_all_cores(survive, whole_chunks(RUNS // 4), FIRST, capsys)


def test_links_that_break_break_nothing_else(capsys) -> None:
    runs = whole_chunks(RUNS // 4)
    happened = on_all_cores(survive_broken_links, runs, FIRST, capsys)
    assert min(happened["links down"], happened["links up"], happened["Recover"]) >= runs


def test_older_disks_never_diverge_in_silence(capsys) -> None:
    runs = whole_chunks(RUNS // 30)
    happened = on_all_cores(report_every_divergence, runs, FIRST, capsys)
    assert happened["divergences"] >= runs // 500


MODES: dict[str, dict[str, Any]] = {
    "all": {"mode": "all"},
    "all, at once": {"mode": "all", "batch_ms": 0},
    "all, origins first": {"mode": "all", "batch_ms": 0, "stable_ms": 1},
    "origin": {"mode": "origin"},
}

SCOPES: list[dict[str, Any]] = [
    *({"processes": 1, "broadcasts": broadcasts} for broadcasts in (1, 2, 3)),
    *({"processes": 2, "broadcasts": broadcasts} for broadcasts in (1, 2, 3)),
    {"processes": 3, "broadcasts": 1, "crashes": 1},
    {"processes": 3, "broadcasts": 1, "crashes": 1, "duplicates": 1},
    {"processes": 3, "broadcasts": 1, "crashes": 1, "restarts": 1},
    {"processes": 4, "broadcasts": 1, "crashes": 1},
    {"processes": 3, "broadcasts": 2, "crashes": 1},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_small_groups_are_explored_completely_and_clean(
    mode: str, scope: dict[str, Any], capsys
) -> None:
    explored = explore(Scope(protocol="frontier", options=MODES[mode], **scope))
    pace = explored.pace
    with capsys.disabled():
        print(
            f"\n{mode}, {scope}: {pace.states:,} states, {pace.transitions:,} transitions, "
            f"{pace.depth} deep, {pace.seconds:.0f} s, {explored.cut or 'complete'}",
            flush=True,
        )
    assert not explored.cut, explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)
