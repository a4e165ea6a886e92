"""Leaving out: delta debugging (Zeller and Hildebrandt) on a schedule that is read loosely.

Whole processes first, then broadcasts, faults and single moves, in large chunks and then one by
one, until nothing more can go. What is left is then told as simply as possible: short texts, plain
names, a settled order.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, permutations

import msgspec

from tidings.core.group import natural
from tidings.shrink.play import FAULTS, Play
from tidings.shrink.sketch import Sketch, SketchedChoice
from tidings.shrink.trials import Trials
from tidings.simulator import choices

MOST_PARTS = 8
"""Up to how many processes every part of the group is tried; beyond, only some."""
MOST_RENAMED = 5
"""Up to how many members exchange their names, to see which naming is simplest."""


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
    parts = _parts(tuple(play.world.processes))
    smaller = _first_smaller(map(play.sketch.among, parts), play, trials)
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
            chunk = ids[position : position + size]
            smaller = trials.smaller(play.sketch.without(chunk), play)
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
        rest = tuple(parcel for parcel in lost if parcel != one)
        yield crash._replace(parcels=rest, kept=(*crash.kept, one))
    for one in crash.kept:
        rest = tuple(parcel for parcel in crash.kept if parcel != one)
        yield crash._replace(parcels=(*lost, one), kept=rest)


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
            swapped = play.sketch.with_moves(*before, other, one, *after)
            play = _simpler(swapped, play, trials)
    return play


def _simpler(sketch: Sketch, than: Play, trials: Trials) -> Play:
    play = trials.no_larger(sketch, than)
    return play if play is not None and _telling(play) < _telling(than) else than


def _telling(play: Play) -> tuple[object, ...]:
    """Who acts, and how, in this order: the least of it is the simplest."""
    return tuple((natural(move.actor), msgspec.json.encode(move.choice)) for move in play.moves)
