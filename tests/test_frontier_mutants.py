"""Each rule of frontier is needed: without it, the explorer or a scenario finds what breaks.

The gallery (test_gallery.py) finds every one of them in random runs or by hand; here the
explorer does, in the smallest scope, wherever the scope is small enough to be explored.
"""

from typing import Any

import msgspec
import pytest

from frontier_runs import adversarial_plan
from test_gallery import SCENARIOS, SCOPES
from tidings.lab.explore import Scope, explore
from tidings.protocols import PROTOCOLS
from tidings.simulator import Plan, walk
from tidings.spec import Value

FLAWS = {name for name, one in PROTOCOLS.items() if one.breaks and "frontier" in name}

AT_ONCE = {"options": {"batch_ms": 0}}
"""Without the timers that batch acknowledgements there is less to try."""
ONE_CRASH = {"processes": 3, "broadcasts": 1, "crashes": 1}
ONE_RESTART = ONE_CRASH | {"restarts": 1}

SMALLEST: dict[str, dict[str, Any]] = {
    "flawed/frontier-quorum-of-f": ONE_CRASH,
    "flawed/frontier-never-fetching": ONE_CRASH,
    "flawed/frontier-forgetting-early": ONE_CRASH,
    "flawed/frontier-overlooking-causes": {"broadcasts": 2},
    "flawed/frontier-restamping": {"broadcasts": 2} | AT_ONCE,
    "flawed/frontier-asking-once": {"broadcasts": 2, "crashes": 1} | AT_ONCE,
    "flawed/frontier-not-greeting": ONE_RESTART,
}

BEYOND = {
    "flawed/frontier-saying-it-once": "packets are lost",
    "flawed/frontier-acknowledging-early": "a write is lost",
    "flawed/frontier-not-answering": "five processes",
    "flawed/frontier-not-heeding": "five processes",
    "flawed/frontier-half-heeding": "five processes",
}
"""What the explorer would have to try for the others."""


def test_every_flaw_is_looked_for_in_some_way() -> None:
    assert SMALLEST.keys() | BEYOND.keys() == FLAWS
    assert SMALLEST.keys().isdisjoint(BEYOND)
    assert BEYOND.keys() <= SCOPES.keys() | SCENARIOS.keys()


@pytest.mark.parametrize("name", SMALLEST)
def test_the_explorer_finds_the_flaw_and_nothing_else(name: str) -> None:
    explored = explore(Scope(protocol=name, **SMALLEST[name]), workers=1)
    found = {what.value for what in explored.found}
    assert found
    assert found <= set(PROTOCOLS[name].breaks)


@pytest.mark.parametrize("mode", ["all", "origin"])
@pytest.mark.parametrize(
    "scope",
    [
        {"processes": 1, "broadcasts": 1},
        {"processes": 1, "broadcasts": 2},
        {"processes": 2, "broadcasts": 1},
        {"processes": 2, "broadcasts": 2},
        ONE_CRASH,
        ONE_RESTART,
    ],
    ids=str,
)
def test_the_sound_protocol_is_explored_completely_and_clean(
    mode: str, scope: dict[str, Any]
) -> None:
    explored = explore(Scope(protocol="frontier", options={"mode": mode}, **scope), workers=1)
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
