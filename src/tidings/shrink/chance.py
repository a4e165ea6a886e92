"""Small runs by chance: where leaving out leads no further, a smaller group may still fail.

Few processes with few messages have few runs, and a few hundred at random see most of them. What
fails there is reduced like the rest.
"""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tidings.core import TidingsError, quorum
from tidings.shrink.play import Play, Stage
from tidings.shrink.reduce import reduced
from tidings.shrink.sketch import Sketch, sketch_of
from tidings.shrink.trials import Trials
from tidings.simulator import World, choices
from tidings.simulator.choices import Choice

TRIES = 400
"""How many runs in each scope."""
FAILURES = 20
"""How many of those that fail are reduced: they tend to end alike."""


class ChanceScope(NamedTuple):
    """How large a group, how much load, and how many faults of each kind at most."""

    members: int
    texts: tuple[bytes, ...]
    most: Counter[type[Choice]]
    """Of broadcasts, newcomers and faults."""
    disks_lost: bool
    """Whether those who come back may have lost their disks."""
    most_steps: int

    @property
    def processes(self) -> int:
        return self.members + self.most[choices.Join]


def smallest_by_chance(best: Play, source: Play, trials: Trials) -> Play:
    """The smallest scope in which chance finds a failure, and the smallest failure there."""
    dice = random.Random(0)

    def order(scope: ChanceScope) -> tuple[int, int]:
        return trials.order(scope.processes, len(scope.texts))

    for scope in sorted(_scopes_up_to(best, source), key=order):
        if order(scope) > trials.order(best.size.processes, best.size.broadcasts):
            break
        tries = (_by_chance(scope, trials, dice) for _ in range(TRIES))
        for play in islice(filter(None, tries), FAILURES):
            best = min(best, reduced(play, trials), key=trials.rank)
    return best


def _by_chance(scope: ChanceScope, trials: Trials, dice: random.Random) -> Play | None:
    try:
        return trials.failing(_walked(scope, trials.stage, dice))
    except TidingsError:
        return None


def _scopes_up_to(play: Play, source: Play) -> Iterator[ChanceScope]:
    """Every scope not larger than a play, with no more faults than its source had."""
    schedule = source.world.schedule
    made = Counter(type(step.choice) for step in schedule)
    texts = [
        move.choice.text for move in play.moves if isinstance(move.choice, choices.UserBroadcast)
    ]
    for processes in range(1, play.size.processes + 1):
        for joiners in range(min(made[choices.Join], processes - 1) + 1):
            members = processes - joiners
            crashes = min(made[choices.Crash] + made[choices.Doom], quorum(members) - 1)
            for broadcasts in range(1, len(texts) + 1):
                most: dict[type[Choice], int] = {
                    choices.UserBroadcast: broadcasts,
                    choices.Join: joiners,
                    choices.Crash: crashes,
                    choices.Recover: min(made[choices.Recover], 2),
                    choices.Duplicate: min(made[choices.Duplicate], 1),
                    choices.Drop: min(made[choices.Drop], 2),
                }
                yield ChanceScope(
                    members=members,
                    texts=tuple(texts[:broadcasts]),
                    most=Counter(most),
                    disks_lost=any(getattr(step.choice, "disk_lost", False) for step in schedule),
                    most_steps=20 + 2 * play.size.steps,
                )


def _walked(scope: ChanceScope, stage: Stage, dice: random.Random) -> Sketch:
    """A run in a scope in which everything that may happen is equally likely to come next."""
    world = World(
        "chance",
        tuple(f"p{number}" for number in range(1, scope.members + 1)),
        stage.factory,
        links=stage.links,
        draw=lambda process, label, weights: dice.choices(range(len(weights)), weights)[0],
        weigh=lambda packet: 0,
    )
    left = scope.most.copy()
    while len(world.schedule) < scope.most_steps and (
        options := list(_options(world, scope, left, dice))
    ):
        choice = dice.choice(options)
        left[type(choice)] -= 1
        world.apply(choice)
    return sketch_of(world.views[0], world.schedule)


def _options(
    world: World, scope: ChanceScope, left: Counter[type[Choice]], dice: random.Random
) -> Iterator[Choice]:
    arriving = [one for one in world.choices() if isinstance(one, choices.PacketArrival)]
    is_over = not (arriving or left[choices.UserBroadcast] or left[choices.Join])
    if is_over or not world.up:
        return
    yield from world.choices()
    somebody = dice.choice(world.up)
    if left[choices.UserBroadcast]:
        yield choices.UserBroadcast(somebody, scope.texts[-left[choices.UserBroadcast]])
    if left[choices.Join]:
        yield choices.Join(f"p{scope.processes - left[choices.Join] + 1}", somebody)
    if left[choices.Crash]:
        share = dice.random()
        sent = [packet for packet in world.in_flight if packet.link.sender == somebody]
        yield choices.Crash(somebody, tuple(one for one in sent if dice.random() < share))
    if left[choices.Recover]:
        for process in [name for name in world.processes if name in world.crashed]:
            yield choices.Recover(process, scope.disks_lost and dice.random() < 0.5)
    for fault in (choices.Duplicate, choices.Drop):
        if left[fault] and arriving:
            yield fault(dice.choice(arriving).packet)
