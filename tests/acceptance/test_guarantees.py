"""The guarantees under every fault we know of, on the simulated and on the real network alike.

Each scenario is written once; a few run on machines of their own as well, with TLS. It ends with
``settle``, which judges the trace by the specification: all five guarantees, and none of them in
vain. And it shows that its fault has really happened.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ground import Group, Weather
from happened import delivered, lives, lost, overtaken, repeated, unfinished
from machines import Machines
from namespaces import unavailable
from real_ground import on_loopback
from requirements_met import require
from simulated_ground import Simulated
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.flawed import (
    NeverFetching,
    NotGreeting,
    OverlookingCauses,
    QuorumOfF,
    SayingItOnce,
)
from tidings.trace import Run

GroupOf = Callable[..., Group]


GROUNDS = ["simulated 1", "simulated 2", "simulated 3", "real 1"]
on_machines_too = pytest.mark.parametrize("group_of", [*GROUNDS, "machines 1"], indirect=True)


@pytest.fixture(params=GROUNDS)
def group_of(request: pytest.FixtureRequest, tmp_path: Path) -> GroupOf:
    """``group_of(5)`` makes p1 to p5 on this ground, with this seed."""
    ground, seed = request.param.split()
    if ground == "simulated":
        return partial(Simulated, seed=int(seed))
    if ground == "machines":
        require("namespaces", not unavailable(), unavailable())
        return partial(Machines, tmp_path, seed=int(seed))
    return partial(on_loopback, tmp_path, seed=int(seed))


def minority(group: Group, seed: int) -> list[str]:
    return random.Random(seed).sample(group.members, (len(group.members) - 1) // 2)


def rest(group: Group, some: list[str]) -> list[str]:
    return [member for member in group.members if member not in some]


def test_what_one_says_everybody_delivers(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.say("p2", 20)
        group.until_delivered(20)
        run = group.settle()
    for member in group.members:
        assert delivered(run, member) == [f"p2#{seq}" for seq in range(1, 21)]


def test_everybody_may_speak_at_once(group_of: GroupOf) -> None:
    with group_of(5) as group:
        for member in group.members:
            group.say(member, 30)
        group.until_delivered(150)
        run = group.settle()
    for member in group.members:
        assert len(delivered(run, member)) == 150


def test_on_slow_links_everything_comes_later(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.slow(20, jitter_ms=30)
        group.say("p1", 20)
        group.say("p3", 20)
        group.until_delivered(40)
        run = group.settle()
    # Nobody delivers before half of the members are known to hold it: there, and back.
    assert min(delays_ms(run, "p1")) >= 40


def delays_ms(run: Run, process: str) -> list[float]:
    """How long it took to deliver what it broadcast itself."""
    mine = [row for row in run.histories[process] if row.origin == process]
    begun = {row.message: row.time_ns for row in mine if row.kind == "broadcast"}
    return [(row.time_ns - begun[row.message]) / 1e6 for row in mine if row.kind == "deliver"]


def test_a_connection_that_breaks_in_mid_frame_loses_nothing(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.say("p1")
        group.until_delivered(1)
        group.break_off("p1", "p2")
        group.say("p1", size=100_000)
        group.say("p2", 5)
        group.until_delivered(7)
        run = group.settle()
    assert lost(run)["p1", "p2"] > 0


def test_a_half_open_connection_is_found_out(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.talk(rate=50)
        group.go_on(20)
        group.half_open("p2", "p1")
        group.until(lambda: not group.is_linked("p2", "p1"))
        # p1 does not know, and talks to nobody.
        assert group.is_linked("p1", "p2")
        group.until(lambda: group.is_linked("p2", "p1"))
        group.go_on(20)
        run = group.settle()
    assert lost(run)["p1", "p2"] > 0


def test_a_link_cut_in_one_direction_stops_nobody(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.talk(rate=50)
        group.go_on(20)
        group.cut("p3", "p1")
        # What p3 says reaches p1 through p2, and p3 hears of it.
        group.go_on(50)
        group.until(lambda: not group.is_linked("p1", "p3"))
        group.go_on(50)
        run = group.settle()
    assert lost(run)["p3", "p1"] > 0


@on_machines_too
def test_a_minority_cut_off_stands_still_and_catches_up(group_of: GroupOf) -> None:
    with group_of(5) as group:
        few = minority(group, seed=1)
        many = rest(group, few)
        group.talk(rate=50)
        group.go_on(20)
        group.part(few, many)
        group.until(lambda: not any(group.is_linked(a, b) for a in few for b in many))
        before = [group.delivered(member) for member in few]
        group.go_on(200, *many)
        # What it says itself has no majority either: delivered now, it could be lost.
        assert [group.delivered(member) for member in few] == before
        group.heal()
        goal = max(map(group.delivered, many))
        group.until_delivered(goal, *few)
        run = group.settle()
    assert all(lost(run)[a, b] > 0 for a in few for b in many)


def test_loss_repetition_and_another_order_above_tcp_are_borne(group_of: GroupOf) -> None:
    with group_of(3, Weather(lost=0.1, duplicated=0.1, reordered=0.2)) as group:
        group.talk(rate=50)
        group.go_on(300)
        run = group.settle()
    assert lost(run).total() > 10
    assert repeated(run) > 10
    assert overtaken(run) > 10


def test_a_minority_killed_in_mid_broadcast_takes_nothing_with_it(group_of: GroupOf) -> None:
    with group_of(5) as group:
        few = minority(group, seed=2)
        group.slow(20)
        group.talk(rate=100)
        group.go_on(100)
        group.kill(*few)
        group.go_on(100, *rest(group, few))
        run = group.settle()
    assert all(unfinished(run, member) > 0 for member in few)
    assert not any(run.histories[member][-1].kind == "settle" for member in few)


def test_a_minority_killed_in_mid_broadcast_comes_back_and_goes_on(group_of: GroupOf) -> None:
    with group_of(5) as group:
        few = minority(group, seed=3)
        group.slow(20)
        group.talk(rate=100)
        group.go_on(100)
        group.kill(*few)
        group.go_on(100, *rest(group, few))
        group.restart(*few)
        group.go_on(100)
        run = group.settle()
    assert all(unfinished(run, member) > 0 for member in few)
    for member in few:
        assert len(lives(run, member)) == 2
        assert any(row.kind == "broadcast" for row in lives(run, member)[1])


@on_machines_too
def test_a_member_that_returns_learns_what_it_missed_though_nobody_speaks(
    group_of: GroupOf,
) -> None:
    with group_of(3) as group:
        group.say("p1", 10)
        group.until_delivered(10)
        group.kill("p3")
        group.say("p2", 10)
        group.until_delivered(20, "p1", "p2")
        group.restart("p3")
        group.until_delivered(20)
        run = group.settle()
    assert [row.origin for row in lives(run, "p3")[1] if row.kind == "deliver"] == ["p2"] * 10


def test_everybody_killed_at_once_comes_back_and_goes_on(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.slow(20)
        group.talk(rate=100)
        for _ in range(2):
            group.go_on(50)
            group.kill(*group.members)
            group.restart(*group.members)
        group.go_on(50)
        run = group.settle()
    assert all(len(lives(run, member)) == 3 for member in group.members)
    assert sum(unfinished(run, member) for member in group.members) > 0


def test_who_is_stopped_holds_nobody_up_and_catches_up(group_of: GroupOf) -> None:
    with group_of(5) as group:
        few = minority(group, seed=4)
        group.talk(rate=50)
        group.go_on(50)
        group.stop(*few)
        group.go_on(50, *rest(group, few))
        before = [group.delivered(member) for member in few]
        group.go_on(150, *rest(group, few))
        assert [group.delivered(member) for member in few] == before
        group.resume(*few)
        group.go_on(200)
        run = group.settle()
    assert all(len(lives(run, member)) == 1 for member in few)


def test_who_comes_back_without_its_disk_is_refused(group_of: GroupOf) -> None:
    with group_of(3) as group:
        group.talk(rate=50)
        group.go_on(50)
        group.kill("p3")
        group.restart_without_disk("p3")
        group.until(lambda: not group.is_up("p3"))
        group.go_on(50, "p1", "p2")
        run = group.settle()
    assert run.histories["p3"][-1].kind != "settle"
    assert len(delivered(run, "p3")) >= 50


FOUND = {
    QuorumOfF: test_a_minority_cut_off_stands_still_and_catches_up,
    NeverFetching: test_a_connection_that_breaks_in_mid_frame_loses_nothing,
    OverlookingCauses: test_loss_repetition_and_another_order_above_tcp_are_borne,
    SayingItOnce: test_loss_repetition_and_another_order_above_tcp_are_borne,
    NotGreeting: test_a_member_that_returns_learns_what_it_missed_though_nobody_speaks,
}


@pytest.mark.parametrize("flaw", FOUND)
def test_a_flawed_protocol_does_not_pass(flaw: type[Frontier]) -> None:
    with pytest.raises(AssertionError):
        FOUND[flaw](partial(Simulated, process=flaw))
