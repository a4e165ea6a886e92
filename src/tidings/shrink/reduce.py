"""Leaving out: delta debugging (Zeller and Hildebrandt) on a schedule that is read loosely.

Whole processes first, then broadcasts, faults and single moves, in large chunks and then one by
one, until nothing more can go. Where leaving out leads no further, a smaller group may still fail:
few processes with few messages have few runs, and a few hundred at random see most of them. What
fails there is reduced like the rest. What is left in the end is told as simply as possible: short
texts, plain names, a settled order.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, islice, permutations
from typing import NamedTuple

import msgspec

from tidings.core import TidingsError, quorum
from tidings.core.group import natural
from tidings.shrink.play import FAULTS, Play, Sketch, SketchedChoice, Stage, sketch_of
from tidings.shrink.trials import Trials
from tidings.simulator import World, choices
from tidings.simulator.choices import Choice

MOST_PARTS = 8
"""Up to how many processes every part of the group is tried; beyond, only some."""
MOST_RENAMED = 5
"""Up to how many members exchange their names, to see which naming is simplest."""
TRIES = 400
"""How many runs by chance in each scope."""
FAILURES = 20
"""How many of those that fail are reduced: they tend to end alike."""


def reduced(play: Play, trials: Trials) -> Play:
    reductions = (
        _plain_crashes,
        _fewer_processes,
        partial(_fewer_moves, kinds=(choices.UserBroadcast,)),
        partial(_fewer_moves, kinds=(*FAULTS, choices.Sample)),
        partial(_fewer_moves, kinds=(object,)),
        _merged_processes,
        _other_crashes,
    )
    return _repeated(reductions, play, trials)


def _repeated(
    changes: Iterable[Callable[[Play, Trials], Play]], play: Play, trials: Trials
) -> Play:
    """All of them in turn, until none leads any further."""
    before = None
    while play is not before:
        before = play
        for change in changes:
            play = change(play, trials)
    return play


def _first_smaller(sketches: Iterable[Sketch], than: Play, trials: Trials) -> Play:
    """The first that is smaller, or what there was."""
    smaller = (trials.smaller(sketch, than) for sketch in sketches)
    return next((play for play in smaller if play is not None), than)


# --- processes


def _fewer_processes(play: Play, trials: Trials) -> Play:
    parts = map(play.sketch.among, _parts(tuple(play.world.processes)))
    smaller = _first_smaller(parts, play, trials)
    return play if smaller is play else _fewer_processes(smaller, trials)


def _parts(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Parts of a group, small ones first; of a large group those that lack a few neighbours."""
    if len(names) <= MOST_PARTS:
        for size in range(1, len(names)):
            yield from combinations(names, size)
        return
    size = len(names) // 2
    while size:
        for position in range(0, len(names), size):
            yield names[:position] + names[position + size :]
        size //= 2


def _merged_processes(play: Play, trials: Trials) -> Play:
    """One process takes over what another did."""
    names = tuple(play.world.processes)
    if len(names) > MOST_PARTS:
        return play
    same = {name: name for name in names}
    merged = (play.sketch.renamed(same | {one: other}) for one, other in permutations(names, 2))
    return _first_smaller(merged, play, trials)


# --- moves


def _fewer_moves(play: Play, trials: Trials, kinds: tuple[type, ...]) -> Play:
    """Without all moves of these kinds, without half of them, a quarter, ..., one; last first."""
    ids = [move.id for move in reversed(play.moves) if isinstance(move.choice, kinds)]
    size = len(ids)
    while size:
        position = 0
        while position < len(ids):
            smaller = trials.smaller(play.sketch.without(ids[position : position + size]), play)
            if smaller is None:
                position += size
            else:
                play = smaller
                left = {move.id for move in play.moves}
                ids = [one for one in ids if one in left]
        size = (size + 1) // 2 if size > 1 else 0
    return play


# --- crashes


def _plain_crashes(play: Play, trials: Trials) -> Play:
    """Who is doomed to crash in mid-sentence may as well crash after it, and lose the rest."""
    for stroke in list(play.struck.values()):
        moves: list[SketchedChoice] = []
        for move in play.moves:
            if move.id != stroke.id:
                moves.append(move)
            if play.struck.get(move.id) == stroke:
                moves.append(stroke)
        play = trials.smaller(play.sketch.with_moves(*moves), play) or play
    return play


def _other_crashes(play: Play, trials: Trials) -> Play:
    """Crashes at other moments, with other losses."""
    crashes = [move for move in play.moves if isinstance(move.choice, choices.Crash)]
    return _first_smaller(
        (
            play.sketch.with_moves(*others[:position], other, *others[position:])
            for crash in crashes
            for others in ([move for move in play.moves if move is not crash],)
            for other in _variations(crash)
            for position in range(len(others) + 1)
        ),
        play,
        trials,
    )


def _variations(crash: SketchedChoice) -> Iterator[SketchedChoice]:
    """The crash losing everything, nothing, as much as it does, a packet less, a packet more."""
    lost = crash.parcels or ()
    yield crash._replace(parcels=(), kept=(), loses_others=True)
    yield crash._replace(parcels=(), kept=(), loses_others=False)
    yield crash
    for one in lost:
        yield crash._replace(
            parcels=tuple(each for each in lost if each != one), kept=(*crash.kept, one)
        )
    for one in crash.kept:
        yield crash._replace(
            parcels=(*lost, one), kept=tuple(each for each in crash.kept if each != one)
        )


# --- small runs by chance


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


# --- telling what is left


def tidied(play: Play, trials: Trials) -> Play:
    """The same small run, as simple as it can be told."""
    play = trials.no_larger(_with_short_texts(play.sketch), play) or play
    play = trials.no_larger(_with_new_names(play), play) or play
    return _repeated((_with_simplest_names, _in_order), play, trials)


def _with_short_texts(sketch: Sketch) -> Sketch:
    """Texts that were equal stay equal, and the others different."""
    texts: dict[bytes, bytes] = {}

    def shortened(move: SketchedChoice) -> SketchedChoice:
        if not isinstance(move.choice, choices.UserBroadcast):
            return move
        text = texts.setdefault(move.choice.text, b"%d" % (len(texts) + 1))
        return move._replace(choice=choices.UserBroadcast(move.choice.process, text))

    return sketch.with_moves(*map(shortened, sketch.moves))


def _with_new_names(play: Play) -> Sketch:
    """p1, p2, ... in the order of the old names, newcomers last."""
    names = {name: f"p{number}" for number, name in enumerate(play.world.processes, start=1)}
    return play.sketch.renamed(names)


def _with_simplest_names(play: Play, trials: Trials) -> Play:
    members = play.sketch.members
    if len(members) > MOST_RENAMED:
        return play
    same = {name: name for name in play.world.processes}
    sketch = play.sketch
    for names in permutations(members):
        naming = same | dict(zip(members, names, strict=True))
        play = _simpler(sketch.renamed(naming), play, trials)
    return play


def _in_order(play: Play, trials: Trials) -> Play:
    """Whoever may act earlier does so in the order of the names."""
    for position in range(len(play.moves) - 1):
        before, [one, other], after = (
            play.moves[:position],
            play.moves[position : position + 2],
            play.moves[position + 2 :],
        )
        if natural(other.actor) < natural(one.actor):
            play = _simpler(play.sketch.with_moves(*before, other, one, *after), play, trials)
    return play


def _simpler(sketch: Sketch, than: Play, trials: Trials) -> Play:
    play = trials.no_larger(sketch, than)
    return play if play is not None and _telling(play) < _telling(than) else than


def _telling(play: Play) -> tuple[object, ...]:
    """Who acts, and how, in this order: the least of it is the simplest."""
    return tuple((natural(move.actor), msgspec.json.encode(move.choice)) for move in play.moves)
