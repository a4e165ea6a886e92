"""The smallest run that still fails: fewer processes, messages, faults and steps.

From any run with a stored schedule: leave something out, play the rest, judge it, go on from
there if it still breaks the same guarantee; then look into smaller scopes by chance; then tell what
is left as simply as possible (reduce.py).
"""

import msgspec

from tidings.core import UsageError
from tidings.protocols import Factory
from tidings.shrink.play import Play, Size, Stage, sketch_of
from tidings.shrink.reduce import reduced, smallest_by_chance, tidied
from tidings.shrink.trials import (
    Charge,
    Property,
    ShrinkProgress,
    Trials,
    Watch,
    planned_packets,
)
from tidings.simulator import RunReplay, World, recorded, replay
from tidings.simulator.play import world_of
from tidings.spec import Extra, Guarantee
from tidings.trace import Run, digest

__all__ = [
    "Charge",
    "Property",
    "ShrinkProgress",
    "Size",
    "charge_against",
    "planned_packets",
    "shrink",
]


def charge_against(
    run: Run, what: Property | None = None, max_packets: int | None = None
) -> Charge:
    """What a run is to be shrunk for: this property, or the first that it breaks."""
    if max_packets is None:
        max_packets = planned_packets(run.manifest)
    possible = [Charge(guarantee) for guarantee in Guarantee] + [Charge(Extra.REACH)]
    if max_packets is not None:
        possible.append(Charge(Extra.COST, max_packets))
    elif what is Extra.COST:
        raise UsageError("how many packets are too many? say it with --max-packets")
    broken = [charge for charge in possible if charge.against(run)]
    for charge in broken:
        if what in (None, charge.what):
            return charge
    found = ", ".join(charge.what for charge in broken) or "nothing"
    sought = f"and not {what}" if what else "so there is nothing to shrink"
    raise UsageError(f"run {run.manifest.run} breaks {found}, {sought}")


def shrink(
    run: Run,
    what: Property | None = None,
    *,
    max_packets: int | None = None,
    factory: Factory | None = None,
    progress: Watch = lambda now: None,
) -> Run:
    """A smaller run that breaks the same; ``factory`` stands in for the manifest's protocol."""
    charge = charge_against(run, what, max_packets)
    first = RunReplay(run, factory=factory)
    for _ in first:
        pass  # what does not come out as stored says so here
    return _stored(_smallest(first.world, charge, progress), run, charge)


def _smallest(world: World, charge: Charge, progress: Watch) -> Play:
    sketch = sketch_of(world.views[0], world.schedule)
    for settles in (False, True):
        # What shows before the end needs none.
        stage = Stage(world.factory, world.links, settles, 2 * len(world.schedule) + 100)
        trials = Trials(stage, charge, progress)
        if (source := trials.source(sketch)) is not None:
            return tidied(smallest_by_chance(reduced(source, trials), source, trials), trials)
    raise UsageError(f"the run does not break {charge.what} when it is played to its end")


def _stored(play: Play, source: Run, charge: Charge) -> Run:
    """The play as a run of its own, named by what it is: the same input has the same name."""
    allowed = {} if charge.max_packets is None else {"max_packets": charge.max_packets}
    plan = {"shrunk_from": source.manifest.run, "breaks": charge.what.value, **allowed}
    protocol, options = str(source.manifest.protocol), source.manifest.options
    draft = recorded(play.world, (), protocol=protocol, options=options, plan=plan).manifest
    manifest = msgspec.structs.replace(draft, run=digest(msgspec.json.encode(draft))[:8])
    world = world_of(manifest, factory=play.world.factory)
    rows = replay(world, play.world.schedule)
    return recorded(world, rows, protocol=protocol, options=options, plan=plan)
