"""frontier for as long as it takes: 100,000 adversarial runs, and every run of small groups."""

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from frontier_adversary import report_every_divergence, survive
from frontier_runs import hold_all_guarantees
from tidings.lab.explore import Scope, explore
from tidings.spec import Value

FIRST = 1_000_000


def on_all_cores(
    survives: Callable[[range], Counter[str]], runs: int, chunk: int, capsys: Any
) -> Counter[str]:
    """What the runs contained; none of them may raise."""
    chunks = [range(start, start + chunk) for start in range(FIRST, FIRST + runs, chunk)]
    happened: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(survives, chunks):
            happened += found
            with capsys.disabled():
                print(f"\n{happened['runs']:,} of {runs:,} runs", end="", flush=True)
    with capsys.disabled():
        print(f"\n{dict(sorted(happened.items()))}", flush=True)
    assert happened["runs"] == runs
    return happened


def test_a_hundred_thousand_adversarial_runs_hold_all_guarantees(capsys) -> None:
    happened = on_all_cores(hold_all_guarantees, 100_000, 2_500, capsys)
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
        assert happened[what] >= 5_000, what


def test_an_adversary_without_a_clock_breaks_nothing(capsys) -> None:
    on_all_cores(survive, 10_000, 500, capsys)


def test_older_disks_never_diverge_in_silence(capsys) -> None:
    happened = on_all_cores(report_every_divergence, 10_000, 500, capsys)
    assert happened["divergences"] >= 50


MODES: dict[str, dict[str, Any]] = {
    "all": {"mode": "all"},
    "all, at once": {"mode": "all", "batch_ms": 0},
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
