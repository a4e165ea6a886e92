"""A process step by step, and a group round by round: what it is given, and what came of it."""

from collections.abc import Iterable

from tidings.core import Deliver, Effect, Members, MessageId, each_message
from tidings.protocols.holdback import Stamped
from tidings.simulator import World
from tidings.simulator.choices import PacketArrival, UserBroadcast


def group_of(size: int) -> Members:
    return tuple(f"p{number}" for number in range(1, size + 1))


def stamped(message: str, *causes: int) -> Stamped:
    return Stamped(MessageId.parse(message), b"x", causes)


def delivered(effects: Iterable[Effect]) -> list[str]:
    return [str(m.id) for e in effects if isinstance(e, Deliver) for m in each_message(e.messages)]


def kept_after(world: World, rounds: int) -> list[dict[str, int]]:
    """What each member keeps when all have broadcast so often, and everything has arrived."""
    for _ in range(rounds):
        for member in world.up:
            world.apply(UserBroadcast(member, b"x"))
        while world.in_flight:
            world.apply(PacketArrival(next(iter(world.in_flight))))
    return [world.processes[member].kept() for member in world.up]
