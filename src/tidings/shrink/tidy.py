"""The same small run, told as simply as possible: short texts, plain names, a settled order."""

from itertools import permutations

import msgspec

from tidings.core.group import natural
from tidings.shrink.play import Play
from tidings.shrink.sketch import Sketch, SketchedChoice
from tidings.shrink.trials import Trials
from tidings.simulator import choices

MOST_RENAMED = 5
"""Up to how many members exchange their names, to see which naming is simplest."""


def tidied(play: Play, trials: Trials) -> Play:
    play = trials.no_larger(_with_short_texts(play.sketch), play) or play
    play = trials.no_larger(_with_new_names(play), play) or play
    while True:
        before = play
        play = _with_simplest_names(play, trials)
        play = _in_order(play, trials)
        if play is before:
            return play


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
    members = play.sketch.members
    joined = [name for name in play.world.processes if name not in members]
    names = {name: f"p{number}" for number, name in enumerate((*members, *joined), start=1)}
    return play.sketch.renamed(names)


def _with_simplest_names(play: Play, trials: Trials) -> Play:
    members = play.sketch.members
    if len(members) > MOST_RENAMED:
        return play
    same = {name: name for name in play.world.processes}
    namings = [same | dict(zip(members, names, strict=True)) for names in permutations(members)]
    sketch = play.sketch
    for names in namings:
        play = _simpler(sketch.renamed(names), play, trials)
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
