"""The gallery of flaws: each breaks exactly what it should, where the mended form holds.

The scope of each is the smallest in which it shows. Random runs look for it there; the same
seeds through the sound algorithm must hold.
"""

import shlex

import pytest
from typer.testing import CliRunner

from amounts import amount
from flaw_scenes import COSTS, RANDOM_SCOPES, SCENARIOS, leaves_somebody_out, packets, played, runs
from tidings.cli import app
from tidings.explore import gallery
from tidings.protocols import PROTOCOLS
from tidings.simulator import walk
from tidings.spec import Value, judge
from tidings.trace import Run


def broken(run: Run) -> set[str]:
    return {v.guarantee.value for v in judge(run) if v.value is Value.VIOLATED}


def holds(run: Run) -> bool:
    return all(verdict.value is Value.HOLDS for verdict in judge(run))


def test_every_flaw_has_its_scope() -> None:
    flawed = {name for name, algorithm in PROTOCOLS.items() if algorithm.breaks}
    assert flawed == RANDOM_SCOPES.keys() | COSTS.keys() | SCENARIOS.keys()
    assert all(PROTOCOLS[name].instead_of for name in flawed)


@pytest.mark.parametrize("name", RANDOM_SCOPES)
def test_each_flaw_breaks_what_it_should_and_nothing_else(name: str) -> None:
    expected = set(PROTOCOLS[name].breaks)
    found: set[str] = set()
    for seed, run in runs(name, RANDOM_SCOPES[name], range(6000)):
        now = broken(run)
        assert now <= expected, f"seed {seed} breaks {now - expected} too"
        found |= now
        if found == expected and seed >= amount(100, full=300):
            return
    pytest.fail(f"only {found or 'nothing'} of {expected} was broken")


@pytest.mark.parametrize("name", RANDOM_SCOPES)
def test_the_mended_form_holds_where_the_flaw_shows(name: str) -> None:
    seeds = range(amount(100, full=300))
    for seed, run in runs(PROTOCOLS[name].instead_of, RANDOM_SCOPES[name], seeds):
        assert holds(run), f"seed {seed}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_rare_flaw_shows_in_its_scenario_where_the_mended_form_holds(name: str) -> None:
    flawed, sound = (played(one, SCENARIOS[name]) for one in (name, PROTOCOLS[name].instead_of))
    expected = set(PROTOCOLS[name].breaks) - {"reach"}
    assert broken(flawed) == expected
    assert leaves_somebody_out(flawed) == ("reach" in PROTOCOLS[name].breaks)
    assert holds(sound)
    assert not leaves_somebody_out(sound)


@pytest.mark.parametrize("name", COSTS)
def test_a_flaw_of_cost_exceeds_what_the_sound_one_never_needs(name: str) -> None:
    scope, bound = COSTS[name]
    sound = PROTOCOLS[name].instead_of
    assert max(packets(run) for _, run in runs(sound, scope, range(600))) <= bound
    flawed_runs = [run for _, run in runs(name, scope, range(600))]
    assert max(map(packets, flawed_runs)) > bound
    assert not any(map(broken, flawed_runs)), "it is wasteful, not wrong"


def test_pulling_what_is_missing_mends_a_silent_relay() -> None:
    """Whoever keeps silent has delivered, or will, and its STATE tells the others."""
    scope = {"processes": 3, "broadcasts": 2, "crashes": 1}
    seeds = [seed for seed, run in runs("flawed/silent-relay", scope, range(600)) if broken(run)]
    assert seeds
    for seed, run in runs("flawed/silent-relay pull=yes", scope, range(600)):
        assert holds(run), f"seed {seed}"


def test_the_storm_does_not_end_when_a_predecessor_is_lost() -> None:
    scope, _ = COSTS["flawed/storm"]
    unsettled = [
        seed
        for seed, run in runs("flawed/storm", scope, range(2000))
        if not any(row.kind == "settle" for row in run.rows)
    ]
    assert unsettled, "no run lost a predecessor"
    for seed in unsettled[:3]:
        ((_, calm),) = runs("stage-gossip form=news", scope, range(seed, seed + 1))
        assert any(row.kind == "settle" for row in calm.rows)


def test_a_gambled_broadcast_often_fails_although_nothing_crashes() -> None:
    scope = {"processes": 5, "broadcasts": 1}
    failed = sum(bool(broken(run)) for _, run in runs("flawed/gambling-relay", scope, range(400)))
    assert failed >= 40, f"{failed} of 400"


@pytest.mark.parametrize("name", gallery.SEEDS)
def test_the_seed_of_a_flaw_shows_it(name: str) -> None:
    seed, plan = gallery.plan_of(name)
    assert broken(walk(plan, seed)) <= set(PROTOCOLS[name].breaks)
    assert broken(walk(plan, seed))


def test_only_what_takes_a_scenario_has_no_command_that_shows_it() -> None:
    flawed = {name for name, algorithm in PROTOCOLS.items() if algorithm.breaks}
    assert {name for name in flawed if not gallery.how_to_see(name)} == {
        "flawed/frontier-not-heeding",
        "flawed/frontier-half-heeding",
    }


@pytest.mark.parametrize("name", ["flawed/known-by-text", "flawed/frontier-saying-it-once"])
def test_the_command_that_shows_a_flaw_can_be_typed(name: str) -> None:
    _, *words = shlex.split(gallery.how_to_see(name))
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1, found.output
    answer = CliRunner().invoke(app, ["algorithms", name])
    assert gallery.how_to_see(name) in answer.output.replace("\n", " ")
