"""Each rule of frontier is needed: without it, the explorer or a scenario finds what breaks.

The gallery (test_gallery.py) finds every one of them in random runs or by hand; here the
explorer does, in the smallest scope, wherever the scope is small enough to be explored.
"""

from typing import Any

import msgspec
import pytest

from flaw_scenes import RANDOM_SCOPES, SCENARIOS
from frontier_runs import adversarial_plan
from tidings.explore import Scope, explore
from tidings.explore.gallery import AT_ONCE, ONE_CRASH, SCOPES, scope_of
from tidings.protocols import PROTOCOLS
from tidings.simulator import Plan, walk
from tidings.spec import Value

FLAWS = {name for name, one in PROTOCOLS.items() if one.breaks and "frontier" in name}

SMALLEST = [name for name in FLAWS if name in SCOPES]

BEYOND = {
    "flawed/frontier-saying-it-once": "packets are lost",
    "flawed/frontier-acknowledging-early": "a write is lost",
    "flawed/frontier-not-answering": "five processes",
    "flawed/frontier-not-heeding": "five processes",
    "flawed/frontier-half-heeding": "five processes",
}
"""What the explorer would have to try for the others."""


def test_every_flaw_is_looked_for_in_some_way() -> None:
    assert set(SMALLEST) | BEYOND.keys() == FLAWS
    assert BEYOND.keys().isdisjoint(SMALLEST)
    assert BEYOND.keys() <= RANDOM_SCOPES.keys() | SCENARIOS.keys()


@pytest.mark.parametrize("name", sorted(SMALLEST))
def test_the_explorer_finds_the_flaw_and_nothing_else(name: str) -> None:
    explored = explore(scope_of(name), workers=1)
    found = {what.value for what in explored.found}
    assert found
    assert found <= set(PROTOCOLS[name].breaks)


@pytest.mark.parametrize(
    "options",
    [{"mode": "all"}, {"mode": "origin"}, {"mode": "all", "batch_ms": 0, "stable_ms": 1}],
    ids=str,
)
@pytest.mark.parametrize(
    "scope",
    [
        {"processes": 1, "broadcasts": 1},
        {"processes": 1, "broadcasts": 2},
        {"processes": 2, "broadcasts": 1},
        {"processes": 2, "broadcasts": 2},
        ONE_CRASH,
    ],
    ids=str,
)
def test_the_sound_protocol_is_explored_completely_and_clean(
    options: dict[str, Any], scope: dict[str, Any]
) -> None:
    explored = explore(Scope(protocol="frontier", options=options, **scope), workers=1)
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


def test_who_crashes_and_comes_back_is_explored_completely_and_clean() -> None:
    """In the other mode, which takes six times as long, the soak does the same."""
    explored = explore(Scope(protocol="frontier", restarts=1, **ONE_CRASH), workers=1)
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


def test_two_broadcasts_at_once_are_explored_completely_and_clean() -> None:
    explored = explore(Scope(protocol="frontier", broadcasts=2, **AT_ONCE), workers=1)
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


@pytest.mark.parametrize("name", sorted(FLAWS))
def test_no_flaw_makes_a_run_raise(name: str) -> None:
    """A flaw shows in the verdicts; a traceback would only say that something is wrong here."""
    for seed in range(10):
        walk(msgspec.structs.replace(adversarial_plan(seed), protocol=name, options={}), seed)
    plan = Plan(processes=5, broadcasts=8, crashes=2, restarts=2, links="lossy", partitions=1)
    walk(msgspec.structs.replace(plan, protocol=name), 29)
