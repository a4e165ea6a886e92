"""A run that ended in a fault, as a run that can be stored, and replayed up to the fault."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tidings.core import TidingsError
from tidings.guests.diagnosis import ProcessFault
from tidings.guests.loading import Own
from tidings.protocols import Factory
from tidings.simulator.play import recorded, replay, world_of
from tidings.trace import Row, Run

ANOTHER_TIME = (
    "it does not do the same twice, so there is no run to store; does it iterate over a set, call "
    "hash(), or read a file or a clock? (PYTHONHASHSEED=0 settles sets and hashes)"
)


def failed_run(
    fault: ProcessFault, *, seed: int | None = None, plan: Mapping[str, Any] | None = None
) -> Run | None:
    """Everything up to the fault; the last step of its schedule is the fatal one.

    The rows come from playing all the others once more. None if the fault came before the first
    choice, or if the process behaves differently this time, which is then noted.
    """
    world = fault.world
    if world is None:
        return None
    world.schedule = fault.schedule
    protocol, options = _name_of(world.factory)

    def run(rows: list[Row]) -> Run:
        return recorded(world, rows, protocol=protocol, options=options, seed=seed, plan=plan)

    try:
        once_more = world_of(run([]).manifest, factory=world.factory)
        rows = replay(once_more, fault.schedule[:-1])
    except (TidingsError, AssertionError):
        fault.add_note(ANOTHER_TIME)
        return None
    return run([*rows, *fault.rows])


def _name_of(factory: Factory) -> tuple[str, Mapping[str, Any]]:
    """What to call the protocol in the manifest; only a class from a file can be found again."""
    match factory:
        case partial(func=Own(name=name), keywords=options):
            return name, options
    return getattr(factory, "__name__", "unnamed"), {}
