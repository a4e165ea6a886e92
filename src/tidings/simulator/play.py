"""Playing a world by a given hand: a stored schedule, or simply everything that is left."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tidings import guests
from tidings.core import DataError, UsageError, ordered
from tidings.guests import is_file
from tidings.protocols import Factory
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Schedule, Step
from tidings.simulator.world import Links, Watch, World, watch_nothing
from tidings.trace import SCHEMA_VERSION, Fate, Manifest, Row, Run, collect
from tidings.trace.schema import names_in


class PlayedStep(NamedTuple):
    """One step of a schedule, played: its number, counted from 1, and what came of it."""

    number: int
    step: Step
    rows: list[Row]


def moments(world: World, schedule: Schedule) -> Iterator[PlayedStep]:
    """Make the same choices again, with the same draws, one at a time."""
    for number, step in enumerate(schedule, start=1):
        # What was drawn while the processes started stands before the draws of the first step.
        world.draw = draws = _Draws(step.draws[len(world.drawn) :])
        try:
            if step.time_ns < world.now_ns:
                raise UsageError(f"it is at {step.time_ns} ns, before the step it follows")
            rows = world.apply(step.choice, step.time_ns)
            if draws.left:
                raise UsageError(f"nobody draws {draws.left[0]}")
        except UsageError as fault:
            raise DataError(f"step {number} of the schedule does not fit: {fault}") from None
        yield PlayedStep(number, step, rows)


def replay(world: World, schedule: Schedule) -> list[Row]:
    """Make the same choices again, with the same draws."""
    return [row for moment in moments(world, schedule) for row in moment.rows]


class _Draws:
    """What the processes drew, in order."""

    def __init__(self, drawn: Iterable[int]) -> None:
        self.left = list(drawn)

    def __call__(self, process: str, label: str, weights: Sequence[int]) -> int:
        if not self.left or not 0 <= self.left[0] < len(weights):
            drew = f"{self.left[0]} of {len(weights)}" if self.left else "nothing"
            raise UsageError(f"{process} chooses {label!r}, and drew {drew}")
        return self.left.pop(0)


class RunReplay:
    """A run once more, from its manifest and its schedule alone.

    Every row that comes is compared with the stored one, so who has played to some place knows
    that the run was the same up to there, byte for byte.
    """

    def __init__(
        self, run: Run, *, factory: Factory | None = None, watch: Watch = watch_nothing
    ) -> None:
        self.run = run
        self.manifest = run.manifest
        self.schedule = schedule_of(run.manifest)
        if not self.schedule:
            raise DataError(
                f"run {self.manifest.run} has no schedule and cannot be replayed: only simulated "
                "runs have one"
            )
        self.rows: list[Row] = []
        self.world = world_of(run.manifest, factory=factory, watch=watch)

    def __iter__(self) -> Iterator[PlayedStep]:
        stored = {(row.process, row.index): row for row in self.run.rows}
        for moment in moments(self.world, self.schedule):
            for row in moment.rows:
                self._compare(row, stored.pop((row.process, row.index), None), moment.number)
            self.rows += moment.rows
            yield moment
        for row in stored.values():
            raise DataError(f"the stored trace goes on, but the replay does not: {_text(row)}")
        for field in ("views", "fates"):
            if getattr(self.so_far().manifest, field) != getattr(self.manifest, field):
                raise DataError(f"the replay has other {field!r} than the manifest")

    @staticmethod
    def _compare(row: Row, stored: Row | None, number: int) -> None:
        if stored is None or _text(row) != _text(stored):
            place = f"{row.process}:{row.index}"
            was = _text(stored) if stored is not None else "nothing"
            raise DataError(
                f"step {number}: the replay differs from the stored trace at {place}, which was "
                f"{was} and is now {_text(row)}"
            )

    def so_far(self) -> Run:
        """The run up to the step that was played last."""
        return recorded(
            self.world,
            self.rows,
            protocol=str(self.manifest.protocol),
            options=self.manifest.options,
            seed=self.manifest.seed,
            plan=self.manifest.plan,
        )


def _text(row: Row) -> str:
    return msgspec.json.encode(row).decode()


def world_of(
    manifest: Manifest, *, factory: Factory | None = None, watch: Watch = watch_nothing
) -> World:
    """The world in which a stored run began. ``factory`` stands in for the manifest's protocol."""
    schedule = schedule_of(manifest)
    try:
        make = factory or guests.factory(manifest.protocol or "unnamed", manifest.options)
        return World(
            run=manifest.run,
            members=manifest.views[0],
            factory=make,
            links=links_of(manifest),
            draw=_Draws(schedule[0].draws if schedule else ()),
            watch=watch,
        )
    except UsageError as fault:
        is_own = factory is None and is_file(manifest.protocol or "")
        hint = "; --process FILE:CLASS says where the class is now" if is_own else ""
        raise DataError(f"run {manifest.run} cannot be replayed: {fault}{hint}") from None


def links_of(manifest: Manifest) -> Links:
    try:
        links: Links = msgspec.convert(manifest.plan.get("links", "retrying"), Links)
    except msgspec.ValidationError:
        raise DataError(f"run {manifest.run}: links are retrying or lossy") from None
    return links


MOST_STEPS = 100_000
"""How many choices a hand-written run may take to come to rest."""


def until_quiet(world: World) -> Iterator[Choice]:
    """Everything that happens by itself, oldest first, until nothing more does.

    Quiet means: nothing is in flight, and rounds in which every timer runs out and everything that
    this sends arrives lead to where the world has been before.
    """
    before: set[bytes] = set()
    while True:
        if len(world.schedule) > MOST_STEPS:
            raise UsageError(f"the run does not come to rest in {MOST_STEPS:,} steps")
        possible = world.choices()
        arriving = [choice for choice in possible if isinstance(choice, choices.PacketArrival)]
        if arriving:
            yield arriving[0]
            continue
        state = world.fingerprint()
        if state in before or not possible:
            return
        before.add(state)
        for choice in possible:
            if isinstance(choice, choices.TimerExpiry) and choice in world.choices():
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
    """The run that a world has been through, with its manifest.

    The plan says which links there were, unless they were the usual ones.
    """
    links = {} if world.links == "retrying" else {"links": world.links}
    strangers = names_in(rows) - set(world.processes)
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        run=world.run,
        names=(*world.processes, *ordered(strangers)),
        views=tuple(world.views),
        protocol=protocol,
        options=dict(options or {}),
        seed=seed,
        plan={**(plan or {}), **links},
        schedule=msgspec.Raw(msgspec.json.encode(world.schedule)),
        fates={process: fate_of(process, world) for process in world.processes},
        clock="simulated",
    )
    return collect(manifest, rows)


def fate_of(process: str, world: World) -> Fate:
    if process in world.left:
        return "left"
    return "crashed" if process in world.crashed else "up"


def schedule_of(manifest: Manifest) -> Schedule:
    try:
        return msgspec.json.decode(manifest.schedule, type=Schedule)
    except msgspec.MsgspecError as fault:
        raise DataError(f"run {manifest.run}: not a schedule: {fault}") from None
