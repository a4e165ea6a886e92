"""The explorer: complete, honest about what it did not see, and right about what it saw.

Every flaw of the gallery is found in its smallest scope, with every reduction and without any.
An enumeration that takes no short cut at all agrees with it about all ways a run can end.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from smallest_scopes import SMALL, SMALLEST, mended_scope_of, smaller_scopes_than
from tidings.core import (
    Accept,
    Broadcast,
    Deliver,
    Message,
    MessageId,
    Part,
    Process,
    Refuse,
    Send,
    UsageError,
)
from tidings.core.renaming import renamed, renamed_state
from tidings.core.state import fingerprint
from tidings.explore import (
    ALL,
    Reduction,
    Scope,
    SearchProgress,
    explore,
    reductions_without,
    search,
)
from tidings.explore.branch import Branch
from tidings.explore.crew import Seen
from tidings.explore.expand import Explorer
from tidings.explore.gallery import scope_of
from tidings.explore.search import ENOUGH_FOR_SEVERAL
from tidings.protocols import PROTOCOLS, factory
from tidings.simulator import World, choices
from tidings.simulator.choices import Choice
from tidings.simulator.play import recorded, replay
from tidings.simulator.script import protocol_of
from tidings.spec import Extra, Guarantee, Value, broken, judge

NONE: frozenset[Reduction] = frozenset()
EVERY = frozenset(ALL)
ONE_CRASH = {"processes": 3, "broadcasts": 1, "crashes": 1}


def alone(scope: Scope, reductions: frozenset[Reduction] = EVERY):
    return explore(scope, reductions=reductions, workers=1)


# --- the gallery


def test_every_flaw_of_the_gallery_has_a_smallest_scope() -> None:
    flawed = {name for name, algorithm in PROTOCOLS.items() if algorithm.breaks}
    assert {name for name in flawed if "frontier" not in name} == SMALLEST.keys()


@pytest.mark.parametrize("name", SMALL)
def test_each_flaw_is_found_in_its_smallest_scope_and_nothing_else(name: str) -> None:
    explored = alone(scope_of(name))
    assert explored.found, explored.pace
    assert {what.value for what in explored.found} <= set(PROTOCOLS[name].breaks)
    for what, run in explored.found.items():
        assert explored.verdict(what) is Value.VIOLATED
        assert broken(run, what, explored.scope.max_packets) is not None


@pytest.mark.parametrize("name", SMALL)
def test_reductions_change_no_verdict(name: str) -> None:
    reduced, whole = (alone(scope_of(name), reductions) for reductions in (EVERY, NONE))
    assert reduced.found.keys() == whole.found.keys()
    assert reduced.pace.states <= whole.pace.states


@pytest.mark.parametrize("name", SMALL)
def test_in_no_smaller_scope_does_all_of_it_show(name: str) -> None:
    breaks = set(PROTOCOLS[name].breaks)
    everything = explore(scope_of(name), workers=1, keep_going=True)
    assert {what.value for what in everything.found} == breaks
    for smaller in smaller_scopes_than(name):
        explored = explore(smaller, workers=1, keep_going=True)
        assert not explored.cut
        assert {what.value for what in explored.found} < breaks, smaller


@pytest.mark.parametrize("name", SMALL)
def test_the_mended_form_is_clean_where_the_flaw_shows(name: str) -> None:
    explored = alone(mended_scope_of(name))
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


@pytest.mark.parametrize("without", ALL)
@pytest.mark.parametrize("name", ["flawed/careless", "flawed/silent-relay", "flawed/unordered"])
def test_each_reduction_alone_changes_no_verdict(name: str, without: Reduction) -> None:
    every, but_one = (alone(scope_of(name), one) for one in (EVERY, EVERY - {without}))
    assert every.found.keys() == but_one.found.keys()


def test_the_first_way_found_is_a_shortest() -> None:
    """p1 broadcasts, delivers its own message at once, crashes, and every copy is lost."""
    (run,) = alone(scope_of("flawed/hasty")).found.values()
    steps = run.manifest.schedule
    assert bytes(steps).count(b"broadcast") == 1
    assert [row.kind for row in run.rows if row.process == "p1"][-1] == "crash"
    assert {row.kind for row in run.rows if row.process != "p1"} == {"settle"}


SOUND = [
    "majority-relay",
    "majority-relay notice=yes",
    "history-sets",
    "interval-history",
    "two-phase",
    "stage-gossip",
]


@pytest.mark.parametrize("words", SOUND)
def test_two_broadcasts_and_a_crash_break_nothing(words: str) -> None:
    protocol, options = protocol_of(words)
    scope = Scope(protocol=protocol, options=options, processes=3, broadcasts=2, crashes=1)
    explored = alone(scope)
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


SILENT_AND_PULLING = "flawed/silent-relay pull=yes"
"""The first two proposals of the first note as they stand: together they are sound."""


@pytest.mark.parametrize(
    "words", ["majority-relay pull=yes", "majority-relay notice=yes pull=yes", SILENT_AND_PULLING]
)
def test_whatever_a_peer_has_delivered_may_be_delivered(words: str) -> None:
    protocol, options = protocol_of(words)
    explored = alone(Scope(protocol=protocol, options=options, **ONE_CRASH))
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


def test_the_reductions_together_save_more_than_they_must() -> None:
    scope = Scope(processes=3, broadcasts=2, crashes=1)
    whole, reduced = (alone(scope, one) for one in (NONE, EVERY))
    assert not whole.cut
    assert whole.pace.states >= 3 * reduced.pace.states


# --- nothing is left out


Ending = tuple[frozenset[str], frozenset[tuple[str, MessageId]]]
"""Who crashed, and who delivered what."""


def endings_by_hand(scope: Scope) -> set[Ending]:
    """How the runs of a scope may end, found without any short cut: no state is recognised.

    Each schedule is played from its start in an ordinary world, and crashes choose what is lost.
    """
    endings: set[Ending] = set()
    make = factory(scope.protocol, scope.options)
    waiting: list[tuple[Choice, ...]] = [()]
    while waiting:
        schedule = waiting.pop()
        world = World("by-hand", scope.members, make)
        rows = [row for choice in schedule for row in world.apply(choice)]
        if not world.choices():
            delivered = frozenset((r.process, r.message) for r in rows if r.kind == "deliver")
            endings.add((frozenset(world.crashed), delivered))
        waiting += [(*schedule, choice) for choice in everything(scope, world, schedule)]
    return endings


def everything(scope: Scope, world: World, schedule: Sequence[Choice]) -> Iterator[Choice]:
    yield from world.choices()
    if sum(isinstance(choice, choices.UserBroadcast) for choice in schedule) < scope.broadcasts:
        for process in world.up:
            yield choices.UserBroadcast(process, b"1")
    if len(world.crashed) < scope.crashes:
        for process in world.up:
            sent = [packet for packet in world.in_flight if packet.link.sender == process]
            for count in range(len(sent) + 1):
                for lost in combinations(sent, count):
                    yield choices.Crash(process, lost)


def endings_explored(scope: Scope, reductions: frozenset[Reduction]) -> set[Ending]:
    explorer = Explorer(scope, reductions)
    endings: set[Ending] = set()
    for branch in every_state(explorer):
        if branch.is_quiet() and explorer.is_settled(branch):
            delivered = frozenset(
                (process, message)
                for process, mask in branch.delivered.items()
                for message, bit in branch.bits.items()
                if mask & bit
            )
            endings.add((frozenset(branch.crashed), delivered))
    return endings


def every_state(explorer: Explorer) -> Iterator[Branch]:
    seen: set[int] = set()
    waiting = list(explorer.first())
    while waiting:
        branch = waiting.pop()
        number = explorer.signatures.number(branch.total())
        if number not in seen and not branch.broken:
            seen.add(number)
            yield branch
            waiting += explorer.following(branch)


@pytest.mark.parametrize("protocol", ["majority-relay", "history-sets", "flawed/half-only"])
def test_an_enumeration_without_short_cuts_ends_in_the_same_ways(protocol: str) -> None:
    scope = Scope(protocol=protocol, processes=2, broadcasts=1, crashes=0)
    assert endings_explored(scope, NONE) == endings_by_hand(scope)
    tiny = Scope(protocol="flawed/hasty", **ONE_CRASH)
    assert endings_explored(tiny, NONE) == endings_by_hand(tiny)


def test_reductions_keep_every_way_a_run_can_end() -> None:
    for protocol in ("majority-relay", "two-phase", "stage-gossip", "interval-history"):
        scope = Scope(protocol=protocol, **ONE_CRASH)
        whole = endings_explored(scope, NONE)
        assert endings_explored(scope, EVERY - {Reduction.SYMMETRY}) == whole
        assert len(endings_explored(scope, EVERY)) <= len(whole)
        assert any(crashed and delivered for crashed, delivered in whole)


def test_in_order_nothing_overtakes_anything_on_its_link() -> None:
    careless = {"protocol": "flawed/careless", "processes": 3, "broadcasts": 2}
    assert Guarantee.CAUSAL_ORDER in explore(Scope(**careless), workers=1).found
    assert not explore(Scope(**careless, in_order=True), workers=1).found


@pytest.mark.parametrize("protocol", ["majority-relay", "two-phase", "interval-history"])
def test_what_can_happen_in_order_can_happen(protocol: str) -> None:
    scope = {"protocol": protocol, **ONE_CRASH}
    as_named = EVERY - {Reduction.SYMMETRY}
    in_order = endings_explored(Scope(**scope, in_order=True), as_named)
    assert in_order <= endings_explored(Scope(**scope), NONE)
    assert in_order == endings_explored(Scope(**scope, in_order=True), NONE)


def test_ends_in_which_nothing_was_owed_are_counted_apart() -> None:
    """Whether p1 broadcasts at all is left open; and with p1 may die all that it said."""
    pace = explore(Scope(**ONE_CRASH), workers=1).pace
    assert 0 < pace.owed < pace.settled
    silent = explore(Scope(processes=3, broadcasts=0, crashes=1), workers=1).pace
    assert (silent.owed, silent.settled > 0) == (0, True)


def test_a_crash_loses_any_part_of_what_was_sent() -> None:
    """Of p1's two copies none, either one, or both arrive after its crash."""
    explorer = Explorer(Scope(**ONE_CRASH), NONE)
    fates = set()
    for branch in every_state(explorer):
        if branch.crashed == {"p1"} and branch.spoken["p1"] and explorer.is_settled(branch):
            left = {packet.link.receiver for packet in branch.in_flight}
            fates.add(frozenset(left & {"p2", "p3"}))
    assert fates == {frozenset(), frozenset({"p2"}), frozenset({"p3"}), frozenset({"p2", "p3"})}


# --- the judge along the way is the specification


@pytest.mark.parametrize("name", ["majority-relay", *SMALL])
def test_the_judge_along_the_way_agrees_with_the_specification(name: str) -> None:
    scope = scope_of(name) if name in SMALLEST else Scope(processes=3, broadcasts=2, crashes=1)
    explorer = Explorer(scope, NONE)
    dice = random.Random(7)
    for _ in range(60):
        (branch,) = explorer.first()
        while not branch.broken and (children := list(explorer.following(branch))):
            branch = dice.choice(children)
        settled = not branch.broken and explorer.is_settled(branch)
        world = World("judged", scope.members, explorer.factory)
        rows = replay(world, branch.schedule_so_far())
        rows += world.apply(choices.Settle()) if settled else []
        run = recorded(world, rows, protocol=name)
        violated = {v.guarantee for v in judge(run) if v.value is Value.VIOLATED}
        safety = {*branch.broken} - {Extra.COST, Extra.REACH}
        assert safety == violated - {Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT}
        if settled:
            assert set(explorer.at_the_end(branch).broken) == violated
        assert (Extra.REACH in branch.broken) == (broken(run, Extra.REACH) is not None)


def contents(value: Any) -> Any:
    """What is in it now, however it is changed in place later on."""
    match value:
        case dict():
            return {key: contents(one) for key, one in value.items()}
        case list():
            return [contents(one) for one in value]
        case set():
            return frozenset(value)
    return value


def test_a_branch_keeps_nothing_of_what_the_moves_after_it_changed_or_refused() -> None:
    """Branches share what is not changed in place: what one adds must not appear in the others."""
    explorer = Explorer(Scope(protocol="frontier", processes=3, broadcasts=2), NONE)
    explorer.factory = factory("frontier", {"window": 1})
    refusals = []
    (first,) = explorer.first()
    first.watch = lambda process, seen: refusals.append(process) if type(seen) is Refuse else None
    (one,) = first.after(choices.UserBroadcast("p1", b"1"))
    earlier = [contents(vars(branch)) for branch in (first, one)]
    assert refusals == []
    (refused,) = one.after(choices.UserBroadcast("p1", b"2"))
    assert refusals == ["p1"]
    for kept in ("processes", "in_flight", "timers", "disks", "digests", "packets_sent"):
        assert getattr(refused, kept) == getattr(one, kept), "a text that was refused is gone"
    earlier.append(contents(vars(refused)))
    (other,) = refused.after(choices.UserBroadcast("p2", b"3"))
    assert refusals == ["p1"]
    assert len(other.digests) == 2
    assert [contents(vars(branch)) for branch in (first, one, refused)] == earlier


def test_states_that_differ_only_in_what_was_delivered_are_different_states() -> None:
    """A process that keeps no account of its deliveries is caught repeating itself."""

    class Absent(Process):
        def step(self, event):
            if isinstance(event, Broadcast):
                message = Message(self.me, 1, event.texts[0])
                return [Accept((message.id,)), Deliver((message,))]
            return []

    explorer = Explorer(Scope(processes=1, broadcasts=1), NONE)
    explorer.factory = Absent
    (before,) = explorer.first()
    (after,) = before.after(choices.UserBroadcast("p1", b"1"))
    assert before.processes["p1"] is after.processes["p1"]
    assert before.total() != after.total()


# --- exchanging names


INDIFFERENT = [
    name
    for name, algorithm in PROTOCOLS.items()
    if algorithm.kind("p1", ("p1", "p2", "p3")).indifferent
]


def test_some_protocols_treat_all_members_alike() -> None:
    assert {"majority-relay", "two-phase"} <= set(INDIFFERENT)
    assert not {"stage-gossip", "interval-history"} & set(INDIFFERENT)


@pytest.mark.parametrize("name", INDIFFERENT)
def test_to_an_indifferent_protocol_names_are_only_names(name: str) -> None:
    """Exchange the names before a step or after it: the same state, and the same packets."""
    names = {"p1": "p2", "p2": "p3", "p3": "p1"}
    explorer = Explorer(Scope(protocol=name, processes=3, broadcasts=2), NONE)
    steps = 0
    for branch in every_state(explorer):
        for packets in branch.arrivals().values():
            for packet in packets.values():
                process, event = branch.processes[packet.link.receiver], branch.received(packet)
                twin = explorer.factory(
                    names[process.me], process.members, lambda label, weights: 0
                )
                put_into(twin, renamed_state(process.state(), names))
                (outcome, *_) = explorer.reactions.of(process, event)
                effects = twin.step(renamed(event, names))
                assert twin.fingerprint() == fingerprint(
                    renamed_state(outcome.process.state(), names)
                )
                assert _packets(effects) == _packets(renamed(outcome.effects, names))
                steps += 1
        if steps > 400:
            return
    assert steps > 20


def put_into(process: Process, state: dict[str, Any]) -> None:
    """Each value into the process itself, or into the parts of it that have such a field."""
    parts = [one for one in vars(process).values() if isinstance(one, Part)]
    for name, value in state.items():
        for part in parts:
            if name in part.__struct_fields__:
                setattr(part, name, value)
        if name in vars(process) and not isinstance(vars(process)[name], Part):
            setattr(process, name, value)


def _packets(effects) -> set[tuple[str, bytes]]:
    return {
        (receiver, fingerprint(effect.packet))
        for effect in effects
        if isinstance(effect, Send)
        for receiver in effect.to
    }


def test_symmetry_is_not_used_where_nobody_declared_it() -> None:
    scope = Scope(protocol="stage-gossip", **ONE_CRASH)
    with_it, without = (alone(scope, one) for one in (EVERY, EVERY - {Reduction.SYMMETRY}))
    assert with_it.pace.states == without.pace.states


# --- honest about what was not seen


def test_a_search_that_is_cut_knows_nothing_for_sure() -> None:
    explored = alone(Scope(processes=3, broadcasts=2, crashes=1, depth=3))
    assert explored.cut == "not deeper than 3 moves"
    assert {explored.verdict(what) for what in explored.properties} == {Value.UNKNOWN}


def test_a_limit_of_depth_that_is_not_met_cuts_nothing() -> None:
    whole = alone(Scope(**ONE_CRASH))
    limited = alone(Scope(**ONE_CRASH, depth=whole.pace.depth + 1))
    assert not limited.cut
    assert limited.pace.states == whole.pace.states


def test_two_workers_see_what_one_sees() -> None:
    """But for crashes right after a step: of equal states, the first that is seen says whose."""
    scope = Scope(processes=3, broadcasts=3, crashes=1, depth=9)
    reductions = frozenset(Reduction) - {Reduction.CRASH}
    one, two = (explore(scope, reductions=reductions, workers=workers) for workers in (1, 2))
    assert one.pace.frontier > 2 * ENOUGH_FOR_SEVERAL
    assert one.cut == two.cut
    assert one.pace.states == two.pace.states
    assert one.pace.depth == two.pace.depth


@pytest.mark.parametrize(("other", "is_new"), [(5, False), (13, True)])
def test_a_state_is_new_to_one_worker_whatever_another_writes_meanwhile(
    other: int, is_new: bool
) -> None:
    """Both 5 and 13 belong to place 5 of eight, and the other worker is a little faster."""
    seen = Seen(slots=8)
    filling = seen._filling

    @contextmanager
    def too_late() -> Iterator[None]:
        seen._filling = filling
        assert seen.add(other)
        yield

    seen._filling = too_late()  # type: ignore[assignment]
    assert seen.add(5) is is_new
    assert not seen.add(5)
    assert not seen.add(other)
    seen.close()


def test_two_workers_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ENOUGH_FOR_SEVERAL", 2)
    for name in ("flawed/unordered", "flawed/relayers-vector", "flawed/waiting-for-all"):
        one, two = (explore(scope_of(name), workers=workers) for workers in (1, 2))
        assert one.found.keys() == two.found.keys()
        assert one.pace.depth == two.pace.depth


def test_what_one_worker_takes_for_inert_the_other_is_held_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "ENOUGH_FOR_SEVERAL", 2)
    scope = Scope(protocol="flawed/single-pass", processes=3, broadcasts=2)
    explored = explore(scope, workers=2)
    assert explored.lively == ("gossip",)
    assert explored.found.keys() == alone(scope, NONE).found.keys()


def test_interrupted_it_says_what_it_saw() -> None:
    def interrupt(pace: SearchProgress) -> None:
        if pace.states > 1000:
            raise KeyboardInterrupt

    explored = explore(Scope(processes=3, broadcasts=3, crashes=1), workers=1, progress=interrupt)
    assert explored.cut == "interrupted"
    assert explored.pace.states > 1000
    assert {explored.verdict(what) for what in explored.properties} == {Value.UNKNOWN}


def test_interrupted_later_it_keeps_what_it_found() -> None:
    def interrupt(pace: SearchProgress) -> None:
        if pace.depth > 3:
            raise KeyboardInterrupt

    scope = Scope(protocol="flawed/hasty", processes=3, broadcasts=2, crashes=1)
    explored = explore(scope, workers=1, keep_going=True, progress=interrupt)
    assert explored.cut == "interrupted"
    assert explored.verdict(Guarantee.UNIFORM_AGREEMENT) is Value.VIOLATED
    assert explored.verdict(Guarantee.CAUSAL_ORDER) is Value.UNKNOWN


def test_a_packet_that_matters_after_all_is_not_mistaken_for_inert() -> None:
    """single-pass looks around only when something arrives: even a late copy wakes it."""
    scope = Scope(protocol="flawed/single-pass", processes=3, broadcasts=2)
    explored = alone(scope)
    assert explored.lively == ("gossip",)
    assert explored.found.keys() == alone(scope, NONE).found.keys()


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_states_and_finds_do_not_depend_on_the_hash_seed(seed: str, tmp_path: Path) -> None:
    script = (
        "from tidings.explore import Scope, explore\n"
        "from tidings.protocols import PROTOCOLS\n"
        "e = explore(Scope(protocol='flawed/unordered', processes=3, broadcasts=2), workers=1)\n"
        "(run,) = e.found.values()\n"
        "print(e.pace.states, e.pace.transitions, run.manifest.run, bytes(run.manifest.schedule))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    ).stdout
    scope = Scope(protocol="flawed/unordered", processes=3, broadcasts=2)
    explored = alone(scope)
    (run,) = explored.found.values()
    pace, manifest = explored.pace, run.manifest
    expected = f"{pace.states} {pace.transitions} {manifest.run} {bytes(manifest.schedule)!r}\n"
    assert answer == expected


# --- what may be asked for


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"processes": 0}, "groups of 1 to 9 processes"),
        ({"processes": 10}, "groups of 1 to 9 processes"),
        ({"processes": 3, "crashes": 2}, "at most 1 of 3"),
        ({"broadcasts": -1}, "fewer than 0 broadcasts"),
        ({"joiners": 9}, "at most 9 processes"),
        ({"depth": -1}, "depth is 0 or more"),
    ],
)
def test_scopes_that_make_no_sense_are_refused(asked: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        explore(Scope(**asked), workers=1)


def test_reductions_are_left_out_by_name() -> None:
    rest = {Reduction.ORDER, Reduction.CRASH, Reduction.SYMMETRY}
    assert reductions_without(["inert"]) == rest
    assert reductions_without(["all"]) == set()
    with pytest.raises(UsageError, match="no reduction 'magic'"):
        reductions_without(["magic"])
