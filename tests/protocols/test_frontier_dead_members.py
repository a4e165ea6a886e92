"""frontier with members that are dead: what a broadcast costs, and that logs still shrink."""

from collections.abc import Iterable

import pytest

from tidings.core import LinkDown, quorum
from tidings.protocols import factory
from tidings.protocols.frontier import Frontier
from tidings.simulator import World, choices, until_quiet
from tidings.simulator.choices import PacketId

SIZES = (3, 5, 10, 20, 50)
MEMBERS = ("p1", "p2", "p3", "p4", "p5")


def group(size: int, mode: str, dead: int, *, is_noticed: bool = False) -> World:
    """So many members, of which the last ones die before anything is said."""
    members = tuple(f"p{number:02}" for number in range(1, size + 1))
    world = World("dead", members, factory("frontier", {"mode": mode, "batch_ms": 0}))
    for member in members[size - dead :]:
        world.apply(choices.Crash(member))
    if is_noticed:
        for member in world.up:
            for peer in world.crashed:
                world._step(member, LinkDown(peer))
    return world


def step(world: World) -> bool:
    """Everything in flight arrives; if nothing is, the timer with the least delay runs out."""
    if world.in_flight:
        for packet in list(world.in_flight):
            world.apply(choices.PacketArrival(packet))
        return True
    if world.timers:
        process, name = min(world.timers, key=lambda timer: world.timers[timer])
        world.apply(choices.TimerExpiry(process, name))
        return True
    return False


def broadcast(world: World) -> tuple[int, int]:
    """How many packets until all that live have delivered it, and until nothing happens."""
    before = world.packets_sent
    world.apply(choices.UserBroadcast("p01", b"x"))
    seq = held(world, "p01")
    while any(frontier(world, member).log.delivered["p01"] < seq for member in world.up):
        assert step(world)
    until_safe = world.packets_sent - before
    while step(world):
        pass
    return until_safe, world.packets_sent - before


def frontier(world: World, member: str) -> Frontier:
    found = world.processes[member]
    assert isinstance(found, Frontier)
    return found


def held(world: World, member: str) -> int:
    return frontier(world, member).log.held["p01"]


@pytest.mark.parametrize("size", SIZES)
def test_without_a_dead_member_safe_and_stable_cost_the_same(size: int) -> None:
    others = size - 1
    assert broadcast(group(size, "all", 0)) == (others + others * others,) * 2
    assert broadcast(group(size, "origin", 0)) == (3 * others,) * 2


def dead_members(size: int) -> Iterable[int]:
    return sorted({1, quorum(size) - 1})


@pytest.mark.parametrize(
    ("size", "dead"), [(size, dead) for size in SIZES for dead in dead_members(size)]
)
def test_dead_members_change_no_order_of_magnitude(size: int, dead: int) -> None:
    others, living = size - 1, size - 1 - dead
    assert broadcast(group(size, "all", dead)) == (others + living * others,) * 2
    world = group(size, "origin", dead)
    # Of three, each knows by itself that two hold what it holds: nobody waits for the commit.
    until_safe = others + living if quorum(size) == 2 else 2 * others + living
    in_all = 2 * others + living
    assert broadcast(world) == (until_safe, in_all + living * dead), "each holder asks the dead"
    noticed = group(size, "origin", dead, is_noticed=True)
    assert broadcast(noticed)[1] == in_all, "but not when the link is down"


def test_a_lone_message_waits_for_nobody_whose_link_is_down() -> None:
    world = group(5, "origin", 1, is_noticed=True)
    world.apply(choices.UserBroadcast("p01", b"x"))
    while frontier(world, "p04").log.delivered["p01"] < 1:
        assert world.in_flight, "it waits for a timer"
        step(world)


def test_holders_of_a_dead_origins_messages_inform_each_other_and_forget() -> None:
    world = group(5, "origin", 0)
    world.apply(choices.UserBroadcast("p01", b"x"))
    for packet in [one for one in world.in_flight if one.link.sender == "p01"]:
        world.apply(choices.PacketArrival(packet))
    world.apply(choices.Crash("p01"))
    while step(world):
        pass
    for member in world.up:
        assert frontier(world, member).knowledge.stable["p01"] == 1, member
        assert not frontier(world, member).log.texts["p01"]


def test_a_member_that_was_lacking_is_asked_when_the_origin_is_dead() -> None:
    """p05 was slow; the others were told that all but p05 hold it, and the origin died."""
    world = group(5, "origin", 0)
    world.apply(choices.UserBroadcast("p01", b"x"))
    late = [one for one in world.in_flight if one.link.receiver == "p05"]
    for packet in [one for one in world.in_flight if one not in late]:
        world.apply(choices.PacketArrival(packet))
    for packet in [one for one in world.in_flight if one.link.receiver == "p01"]:
        world.apply(choices.PacketArrival(packet))
    world.apply(choices.TimerExpiry("p01", "commit"))
    answer = [one for one in world.in_flight if one.link.sender == "p01" and one not in late]
    for packet in [one for one in answer if one.link.receiver != "p05"]:
        world.apply(choices.PacketArrival(packet))
    lost = tuple(one for one in world.in_flight if one.link.sender == "p01")
    world.apply(choices.Crash("p01", lost))
    asked_by = 0
    while step(world):
        asked_by += sum(one.link.receiver == "p05" for one in world.in_flight)
    assert asked_by
    for member in world.up:
        assert frontier(world, member).log.delivered["p01"] == 1, member
        assert frontier(world, member).knowledge.stable["p01"] == 1, member


# --- what is owed


def test_a_debt_only_grows() -> None:
    """p2 restarts, owes the others a question about p1#3, and is told of #1 and #2 meanwhile.

    p1 tells all but p2 that they hold all three, and dies: p2 has to ask.
    """
    world = World("owed", MEMBERS, factory("frontier", {"mode": "origin"}))

    def receive(sender: str, receiver: str, kind: str, times: int = 1) -> None:
        for _ in range(times):
            packet = next(
                one
                for one, flying in world.in_flight.items()
                if one.link == (sender, receiver) and flying.content.kind == kind
            )
            world.apply(choices.PacketArrival(packet))

    def lost(sender: str, receiver: str) -> tuple[PacketId, ...]:
        return tuple(one for one in world.in_flight if one.link == (sender, receiver))

    for text in (b"1", b"2", b"3"):
        world.apply(choices.UserBroadcast("p1", text))
    receive("p1", "p2", "data", 3)
    world.apply(choices.Crash("p2", lost("p2", "p1")))
    world.apply(choices.Recover("p2"))
    receive("p2", "p1", "state")
    for other in ("p1", "p3", "p4", "p5"):
        receive(other, "p2", "state")
    for other, count in (("p4", 1), ("p5", 2)):
        receive("p1", other, "data", count)
        receive(other, "p1", "holding", count)
        world.apply(choices.TimerExpiry("p1", "commit"))
        receive("p1", "p2", "commit")
    for other, count in (("p4", 1), ("p3", 2)):
        receive("p1", other, "data", count)
        receive(other, "p1", "holding", count)
    world.apply(choices.TimerExpiry("p1", "commit"))
    receive("p1", "p2", "commit")
    assert frontier(world, "p2").knowledge.stable["p1"] == 2
    for other in ("p3", "p4", "p5"):
        receive("p1", other, "data")
        receive(other, "p1", "holding")
    world.apply(choices.Crash("p1", lost("p1", "p2")))
    for choice in until_quiet(world):
        world.apply(choice)
    delivered = {frontier(world, member).log.delivered["p1"] for member in world.up}
    assert delivered == {3}
