"""Small runs by chance: where leaving out leads no further, a smaller group may still fail.

Few processes with few messages have few runs, and a few hundred at random see most of them. What
fails there is reduced like the rest.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tidings.core import TidingsError, quorum
from tidings.shrink.play import Play, Stage, weightless
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
    joiners: int
    texts: tuple[bytes, ...]
    crashes: int
    restarts: int
    disks_lost: bool
    """Whether those who come back may have lost their disks."""
    duplicates: int
    drops: int
    most_steps: int

    @property
    def processes(self) -> int:
        return self.members + self.joiners


def smallest_by_chance(best: Play, source: Play, trials: Trials) -> Play:
    """The smallest scope in which chance finds a failure, and the smallest failure there."""
    dice = random.Random(0)

    def order(scope: ChanceScope) -> tuple[int, int]:
        return trials.order(scope.processes, len(scope.texts))

    for scope in sorted(_scopes_up_to(best, source), key=order):
        if order(scope) > trials.order(best.size.processes, best.size.broadcasts):
            break
        tries = (_by_chance(scope, trials, dice) for _ in range(TRIES))
        failures = (play for play in tries if play is not None)
        for play in islice(failures, FAILURES):
            best = min(best, reduced(play, trials), key=trials.rank)
    return best


def _by_chance(scope: ChanceScope, trials: Trials, dice: random.Random) -> Play | None:
    try:
        return trials.failing(Chance(scope, trials.stage, dice).sketch)
    except TidingsError:
        return None


def _scopes_up_to(play: Play, source: Play) -> Iterator[ChanceScope]:
    """Every scope not larger than a play, with no more faults than its source had."""

    made = [step.choice for step in source.world.schedule]

    def count(*kinds: type[Choice]) -> int:
        return sum(isinstance(choice, kinds) for choice in made)

    texts = [
        move.choice.text for move in play.moves if isinstance(move.choice, choices.UserBroadcast)
    ]
    for processes in range(1, play.size.processes + 1):
        for joiners in range(min(count(choices.Join), processes - 1) + 1):
            members = processes - joiners
            for broadcasts in range(1, len(texts) + 1):
                yield ChanceScope(
                    members=members,
                    joiners=joiners,
                    texts=tuple(texts[:broadcasts]),
                    crashes=min(count(choices.Crash, choices.Doom), quorum(members) - 1),
                    restarts=min(count(choices.Recover), 2),
                    disks_lost=any(getattr(choice, "disk_lost", False) for choice in made),
                    duplicates=min(count(choices.Duplicate), 1),
                    drops=min(count(choices.Drop), 2),
                    most_steps=20 + 2 * play.size.steps,
                )


class Chance:
    """A run in a scope in which everything that may happen is equally likely to come next."""

    def __init__(self, scope: ChanceScope, stage: Stage, dice: random.Random) -> None:
        names = [f"p{number}" for number in range(1, scope.processes + 1)]
        self._dice = dice
        self._texts = list(scope.texts)
        self._joiners = names[scope.members :]
        self._crashes = scope.crashes
        self._restarts = scope.restarts
        self._disks_lost = scope.disks_lost
        self._duplicates = scope.duplicates
        self._drops = scope.drops
        self._world = World(
            "chance",
            tuple(names[: scope.members]),
            stage.factory,
            links=stage.links,
            draw=self._draw,
            weigh=weightless,
        )
        while len(self._world.schedule) < scope.most_steps and (options := list(self._options())):
            self._make(dice.choice(options))

    @property
    def sketch(self) -> Sketch:
        return sketch_of(self._world.views[0], self._world.schedule)

    def _draw(self, process: str, label: str, weights: Sequence[int]) -> int:
        return self._dice.choices(range(len(weights)), weights)[0]

    def _options(self) -> Iterator[Choice]:
        world, dice = self._world, self._dice
        arriving = [one for one in world.choices() if isinstance(one, choices.PacketArrival)]
        if not (arriving or self._texts or self._joiners) or not world.up:
            return
        yield from world.choices()
        somebody = dice.choice(world.up)
        if self._texts:
            yield choices.UserBroadcast(somebody, self._texts[0])
        if self._joiners:
            yield choices.Join(self._joiners[0], somebody)
        if self._crashes:
            share = dice.random()
            sent = [packet for packet in world.in_flight if packet.link.sender == somebody]
            yield choices.Crash(somebody, tuple(one for one in sent if dice.random() < share))
        if self._restarts:
            for process in world.processes:
                if process in world.crashed:
                    yield choices.Recover(process, self._disks_lost and dice.random() < 0.5)
        if self._duplicates and arriving:
            yield choices.Duplicate(dice.choice(arriving).packet)
        if self._drops and arriving:
            yield choices.Drop(dice.choice(arriving).packet)

    def _make(self, choice: Choice) -> None:
        match choice:
            case choices.UserBroadcast():
                self._texts.pop(0)
            case choices.Join():
                self._joiners.pop(0)
            case choices.Crash():
                self._crashes -= 1
            case choices.Recover():
                self._restarts -= 1
            case choices.Duplicate():
                self._duplicates -= 1
            case choices.Drop():
                self._drops -= 1
        self._world.apply(choice)
