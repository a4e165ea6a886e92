"""Playing a world by a given hand: a stored schedule, or simply everything that is left."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidings.core import UsageError, ordered
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Schedule
from tidings.simulator.world import World
from tidings.trace import SCHEMA_VERSION, Manifest, Row, Run, collect
from tidings.trace.schema import names_in


def replay(world: World, schedule: Schedule) -> list[Row]:
    """Make the same choices again, with the same draws."""
    rows = []
    for step in schedule:
        drawn = iter(step.draws)

        def draw(
            process: str, label: str, weights: Sequence[int], drawn: Iterator[int] = drawn
        ) -> int:
            return next(drawn)

        world.draw = draw
        rows += world.apply(step.choice, step.time_ns)
    return rows


MOST_STEPS = 100_000
"""How many choices a hand-written run may take to come to rest."""


def until_quiet(world: World) -> Iterator[Choice]:
    """Everything that happens by itself, oldest first, until nothing more does.

    Quiet means: nothing is in flight, and a round in which every timer runs out and everything
    that this sends arrives has changed nothing.
    """
    before = b""
    while True:
        if len(world.schedule) > MOST_STEPS:
            raise UsageError(f"the run does not come to rest in {MOST_STEPS:,} steps")
        possible = world.choices()
        arriving = [choice for choice in possible if isinstance(choice, choices.Receive)]
        if arriving:
            yield arriving[0]
            continue
        state = world.fingerprint()
        if state == before or not possible:
            return
        before = state
        for choice in possible:
            if isinstance(choice, choices.Timeout) and choice in world.choices():
                yield choice


def recorded(
    world: World,
    rows: Sequence[Row],
    *,
    protocol: str,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Run:
    """The run that a world has been through, with its manifest."""
    strangers = names_in(rows) - set(world.processes)
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        run=world.run,
        names=(*world.processes, *ordered(strangers)),
        views=tuple(world.views),
        protocol=protocol,
        options=dict(options or {}),
        seed=seed,
        plan=dict(plan or {}),
        schedule=msgspec.Raw(msgspec.json.encode(world.schedule)),
        fates={
            process: "crashed" if process in world.crashed else "up" for process in world.processes
        },
        clock="simulated",
    )
    return collect(manifest, rows)


def schedule_of(manifest: Manifest) -> Schedule:
    return msgspec.json.decode(manifest.schedule, type=Schedule)
