"""The gallery of flaws: each breaks exactly what it should, where the mended form holds.

The scope of each is the smallest in which it shows. Random runs look for it there; the same
seeds through the sound algorithm must hold.
"""

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.explore import gallery
from tidings.protocols import PROTOCOLS
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script, protocol_of
from tidings.spec import Value, judge
from tidings.trace import Run

SLOW = {"delay_ms_max": 100.0, "gap_ms_mean": 60.0}
ONE_CRASH = {"processes": 3, "broadcasts": 1, "crashes": 1}

SCOPES: dict[str, dict[str, Any]] = {
    "flawed/repeating": {"processes": 3, "broadcasts": 1},
    "flawed/embroidering": {"processes": 2, "broadcasts": 1},
    "flawed/falling-silent": {"processes": 1, "broadcasts": 4},
    "flawed/hasty": ONE_CRASH,
    "flawed/careless": {"processes": 3, "broadcasts": 2} | SLOW,
    "flawed/silent-relay": ONE_CRASH,
    "flawed/self-counting-relay": ONE_CRASH,
    "flawed/gambling-relay": ONE_CRASH,
    "flawed/small-quorum": ONE_CRASH,
    "flawed/on-receipt-only": {"processes": 1, "broadcasts": 1},
    "flawed/others-only": ONE_CRASH,
    "flawed/early-exit": {"processes": 3, "broadcasts": 1},
    "flawed/waiting-for-all": {"processes": 1, "broadcasts": 2, "joiners": 1},
    "flawed/two-phase-as-written": ONE_CRASH,
    "flawed/first-word": ONE_CRASH,
    "flawed/known-by-text": {"processes": 1, "broadcasts": 2, "texts": (b"same",)},
    "flawed/never-alone": {"processes": 1, "broadcasts": 1},
    "flawed/unordered": {"processes": 3, "broadcasts": 2} | SLOW,
    "flawed/half-only": ONE_CRASH,
    "flawed/relayers-vector": {"processes": 3, "broadcasts": 2} | SLOW,
    "flawed/single-pass": {"processes": 3, "broadcasts": 3},
    "flawed/frontier-quorum-of-f": ONE_CRASH,
    "flawed/frontier-never-fetching": ONE_CRASH,
    "flawed/frontier-overlooking-causes": {"processes": 3, "broadcasts": 2} | SLOW,
    "flawed/frontier-saying-it-once": {
        "processes": 3,
        "broadcasts": 1,
        "links": "lossy",
        "lost": 0.3,
    },
    "flawed/frontier-forgetting-early": ONE_CRASH,
    "flawed/frontier-acknowledging-early": ONE_CRASH | {"restarts": 1},
    "flawed/frontier-not-greeting": {"processes": 3, "broadcasts": 1, "restarts": 1},
}

COSTS: dict[str, tuple[dict[str, Any], int]] = {
    "flawed/forgetful-relay": ({"processes": 3, "broadcasts": 1}, 6),
    "flawed/storm": ({"processes": 3, "broadcasts": 2, "crashes": 1, "budget": 5000}, 40),
}
"""Flaws of cost: the scope, and how many packets the sound algorithm never exceeds there."""


SCENARIOS = {
    "flawed/copy-counting": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        duplicate p1->p2
        receive p1->p2
        crash p2
        crash p1
        settle
        """,
    "flawed/waiting-for-finack": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p2->p1
        receive p3->p1
        receive p1->p2 bcast-deliver
        crash p2
        crash p1
        settle
        """,
    "flawed/received-vector": """
        group p1 p2 p3
        broadcast p1 lost words
        broadcast p1 last words
        crash p1 keeping p1->p2 p1#2
        receive p1->p2
        broadcast p2 where is the rest?
        settle
        """,
    "flawed/skipping-only": """
        group p1 p2 p3
        broadcast p1 lost words
        join p4 via p2
        receive p4->p1
        broadcast p1 last words
        crash p1 keeping p1->p2 p1#2, p1->p4 p1#2
        settle
        """,
    "flawed/leaving-out": """
        group p1 p2 p3
        join p4 via p1
        receive p4->p1
        broadcast p1 welcome
        receive p1->p2
        broadcast p2 who is that?
        settle
        """,
    "flawed/frontier-asking-once": """
        group p1 p2 p3
        broadcast p1 one
        receive p1->p2
        receive p2->p3
        timeout p3 pull
        broadcast p1 two
        receive p1->p2
        timeout p2 batch
        receive p2->p3
        receive p1->p3 p1#1
        receive p3->p2 holding
        receive p3->p2 pull
        crash p1
        settle
        """,
    "flawed/frontier-restamping": """
        group p1 p2 p3
        broadcast p1 which way?
        receive p1->p2
        broadcast p2 that way
        receive p2->p1 holding
        receive p2->p1 data
        receive p2->p3 holding
        timeout p3 pull
        timeout p3 pull
        receive p3->p1 pull
        receive p1->p3 push
        settle
        """,
    "flawed/frontier-owing-nothing": """
        group p1 p2 p3
        broadcast p1 hello
        receive p1->p2
        receive p2->p1
        timeout p1 commit
        receive p1->p2 commit
        crash p1
        settle
        """,
    "flawed/frontier-not-answering": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p1->p4
        receive p1->p5
        receive p2->p1
        receive p3->p1
        receive p4->p1
        receive p5->p1
        crash p1 losing p1->p2
        settle
        """,
    "flawed/frontier-not-heeding": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p1->p4
        receive p1->p5
        timeout p2 ask
        receive p2->p3
        receive p2->p4
        receive p2->p5
        receive p2->p1 holding
        receive p3->p1
        receive p4->p1
        receive p5->p1
        crash p1 losing p1->p2
        settle
        """,
    "flawed/frontier-half-heeding": """
        group p1 p2 p3 p4 p5
        broadcast p1 one
        broadcast p1 two
        receive p1->p2
        receive p1->p2
        receive p1->p4
        receive p1->p4
        receive p1->p3
        receive p1->p5
        timeout p2 ask
        receive p2->p3 asking
        receive p2->p5 asking
        timeout p3 ask
        timeout p5 ask
        receive p1->p3
        receive p1->p5
        receive p2->p1 holding
        receive p2->p1 holding
        receive p3->p1 holding
        receive p3->p1 holding
        receive p4->p1 holding
        receive p4->p1 holding
        receive p5->p1 holding
        receive p5->p1 holding
        crash p4
        crash p1 losing p1->p2
        settle
        """,
}
"""Flaws so rare that chance hardly finds them: written by hand."""


def played(protocol: str, scenario: str) -> Run:
    script = Script("test")
    script.command(f"protocol {protocol}")
    for line in scenario.strip().splitlines():
        script.command(line.strip())
    return script.run()


def leaves_somebody_out(run: Run) -> bool:
    """Whether a message is not addressed to everybody whom its causes were addressed to."""
    lists = {
        row.message: set(run.manifest.views[row.view])
        for row in run.rows
        if row.kind == "broadcast"
    }
    for history in run.histories.values():
        known: set[str] = set()
        for row in history:
            if row.kind == "deliver":
                known |= lists[row.message]
            elif row.kind == "broadcast" and not known <= lists[row.message]:
                return True
    return False


def runs(protocol: str, scope: dict[str, Any], seeds: range):
    name, options = protocol_of(protocol)
    for seed in seeds:
        yield seed, walk(Plan(protocol=name, options=options, **scope), seed)


def broken(run: Run) -> set[str]:
    return {v.guarantee.value for v in judge(run) if v.value is Value.VIOLATED}


def holds(run: Run) -> bool:
    return all(verdict.value is Value.HOLDS for verdict in judge(run))


def packets(run: Run) -> int:
    return sum(row.kind == "send" for row in run.rows)


def test_every_flaw_has_its_scope() -> None:
    flawed = {name for name, algorithm in PROTOCOLS.items() if algorithm.breaks}
    assert flawed == SCOPES.keys() | COSTS.keys() | SCENARIOS.keys()
    assert all(PROTOCOLS[name].instead_of for name in flawed)


@pytest.mark.parametrize("name", SCOPES)
def test_each_flaw_breaks_what_it_should_and_nothing_else(name: str) -> None:
    expected = set(PROTOCOLS[name].breaks)
    found: set[str] = set()
    for seed, run in runs(name, SCOPES[name], range(6000)):
        now = broken(run)
        assert now <= expected, f"seed {seed} breaks {now - expected} too"
        found |= now
        if found == expected and seed >= 300:
            return
    pytest.fail(f"only {found or 'nothing'} of {expected} was broken")


@pytest.mark.parametrize("name", SCOPES)
def test_the_mended_form_holds_where_the_flaw_shows(name: str) -> None:
    for seed, run in runs(PROTOCOLS[name].instead_of, SCOPES[name], range(300)):
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
    told = CliRunner().invoke(app, ["algorithms", name])
    assert gallery.how_to_see(name) in told.output.replace("\n", " ")
