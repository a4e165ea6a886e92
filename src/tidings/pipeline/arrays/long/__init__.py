"""One run of any length, judged in slabs that fit in memory.

A piece is one group of rows of one file. First every piece is checked by itself (``survey``), and
the ends of neighbours against each other (``outlines``): then it is known who was correct, and
which sequence numbers each origin used.

Then the run is cut into *slabs* (``cutting``): of every process a part of its history, and of every
origin some of its messages. Every piece is read once more, or its texts alone if the survey could
keep the rest (``reading``), and its rows go to their slabs, about one byte each (``packing``); a
row that is *away* from its message goes to the message's slab too. So a slab knows all about its
messages, and judges four guarantees by itself (``slab``). For Causal Order it goes through its part
of the histories; about the few rows that are away, slabs ask each other, and meet at the *border*
(``causes``). What remains is a running maximum from slab to slab, one number for each origin and
reader. Only if something is wrong is there a second job: to compare suspected texts one by one, or
to list the early deliveries (``early``) and to say what they, and messages that are missing, follow
from (``grouping``).

Nothing here is an approximation but the sums of texts, and what they leave to chance is said in
``texts``. Wherever the run is cut, names in any order, duplicates, strays and altered texts are
judged as the specification does. How it is cut decides only what it costs.

A task has some neighbouring slabs, and judges them one after the other. How many there are follows
from the number of rows: tasks do not read the whole trace, whoever works at them.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.causes import CountedCauses
from tidings.pipeline.arrays.findings import NOTHING, Findings, Found, joined
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.causes import Answer, Asked, Past, Request, Scan, border
from tidings.pipeline.arrays.long.cutting import cutting_for
from tidings.pipeline.arrays.long.early import list_early
from tidings.pipeline.arrays.long.grouping import Grouped
from tidings.pipeline.arrays.long.outline import Outline, SurveyedHistory, outlines, survey
from tidings.pipeline.arrays.long.packing import Home, LongRun, Note, scatter
from tidings.pipeline.arrays.long.slab import Slab, SlabVerdicts, in_order_of_broadcasts
from tidings.pipeline.arrays.perform import (
    Exchange,
    Parcel,
    Stage,
    exchanged_plainly,
    in_bundles,
)
from tidings.pipeline.arrays.rows import Directory
from tidings.pipeline.arrays.written import Showing
from tidings.spec import Extra, Guarantee

__all__ = ["Outline", "SurveyedHistory", "judge_long", "outlines", "survey"]


class SlabFindings(NamedTuple):
    """What a slab found, and what its events have in their past."""

    verdicts: SlabVerdicts
    ordered: int
    """How many deliveries were judged by Causal Order."""
    past: Past
    answers: frozenset[int]
    """The slabs with events about our messages."""


class AlteredTexts(NamedTuple):
    """How many there are in a slab, the first of them, and all causes of No Creation there."""

    texts: int
    found: Found
    forged: CountedCauses


def judge_long(
    outline: Outline,
    directory: Directory,
    limits: JudgingLimits,
    *,
    showing: Showing,
    exchange: Exchange = exchanged_plainly,
) -> Findings:
    """The verdicts on one long run; TooLongError if a slab of it does not fit in memory."""
    tasks, slabs = limits.tasks(outline.rows), limits.slabs(outline.rows)
    bundles = in_bundles(outline.parts, tasks)
    begins = _begins(outline.run, directory)
    cutting = cutting_for(outline.marks, outline.low, begins, slabs, limits.most_moments)
    bare = outline._replace(parts=(), marks={})
    run = LongRun(bare, directory, cutting, limits, tasks, showing, secrets.randbits(64))

    judge, compare = (
        Stage(cutting.slabs, tasks, partial(work, run=run)) for work in (_judge, _compare)
    )
    # To start a task takes longer than most borders do.
    meet = Stage(cutting.slabs, -(-tasks // 4), partial(_border, run=run))
    found: dict[int, SlabFindings] = dict(
        exchange(bundles, partial(scatter, run=run), [judge, meet])
    )
    suspects = frozenset(slab for slab, one in found.items() if one.verdicts.is_suspected)
    texts = partial(scatter, run=run, only=suspects, with_digests=True)
    altered = exchange(bundles, texts, [compare]) if suspects else []
    wanted = Scan({slab: one.past for slab, one in found.items()}, run).wanted()
    helpers = [slab for slab, one in found.items() if not one.answers.isdisjoint(wanted)]
    last = np.max([one.verdicts.last for one in found.values()], axis=0, initial=NOTHING)
    owing = {slab: last for slab, one in found.items() if one.verdicts.has_debts}
    grouped = list_early(wanted, helpers, owing, bundles, run, exchange) if wanted or owing else []
    return _put_together(found, dict(altered), grouped, showing.most)


def _begins(run: int, directory: Directory) -> list[int]:
    """The first index of each process."""
    every = np.arange(directory.width)
    indices = np.broadcast_to(directory.first_indices(np.full_like(every, run), every), len(every))
    return [int(index) for index in indices]


def _judge(place: int, contents: list[Home | Note], run: LongRun) -> Iterator[Parcel]:
    slab = Slab(place, contents, run)
    verdicts, asked = slab.verdicts(), Asked(slab)
    past, requests = asked.ask()
    answered = set()
    for other, answer in asked.answers():
        answered.add(other)
        yield Parcel(other, answer)
    yield from (Parcel(place, request) for request in requests)
    yield Parcel(place, SlabFindings(verdicts, asked.judged, past, frozenset(answered)))


def _border(place: int, contents: list[Any], run: LongRun) -> Iterator[Parcel]:
    requests = [one for one in contents if isinstance(one, Request)]
    answers = [one for one in contents if isinstance(one, Answer)]
    (found,) = (one for one in contents if isinstance(one, SlabFindings))
    past = found.past.joined(border(requests, answers, run))
    yield Parcel(place, found._replace(past=past))


def _compare(place: int, contents: list[Home | Note], run: LongRun) -> Iterator[Parcel]:
    slab = Slab(place, contents, run)
    altered = slab.altered()
    shown = run.shown(Guarantee.NO_CREATION, altered.rooted(), f"slab-{place:06}-altered")
    yield Parcel(place, AlteredTexts(len(altered.position), shown, slab.forged(altered)))


def _put_together(
    slabs: Mapping[int, SlabFindings],
    altered: Mapping[int, AlteredTexts],
    grouped: Sequence[Grouped],
    most: int | None,
) -> Findings:
    verdicts = [slab.verdicts for slab in slabs.values()]
    causes = CountedCauses.joined(
        [
            *(one.repeated for one in verdicts),
            *((altered.get(place) or one.verdicts).forged for place, one in slabs.items()),
            *(one.causes for one in grouped),
        ]
    )
    counts = sum((one.counts for one in verdicts), Counter[str]())
    repeated, invented, renamed, lost = (
        Found.joined([one.found[kind] for one in verdicts])
        for kind in ("repeated", "invented", "renamed", "lost")
    )
    invented = Found.joined([invented, *(one.found for one in altered.values())])
    odd = sum(one.texts for one in altered.values())
    of_each = [
        (counts["deliveries"], 0, counts["repeated"]),
        (counts["compared"], 0, counts["invented"] + odd + counts["renamed"]),
        np.sum([(0, 0, 0), *(one.validity for one in verdicts)], axis=0),
        np.sum([(0, 0, 0), *(one.agreement for one in verdicts)], axis=0),
        (sum(slab.ordered for slab in slabs.values()), 0, sum(one.early for one in grouped)),
    ]
    unreached = min((one.unreached for one in verdicts if one.unreached), default=None)
    found: dict[Guarantee | Extra, Found] = {
        Guarantee.NO_DUPLICATION: repeated,
        Guarantee.NO_CREATION: Found(*joined([invented, renamed])),
        Guarantee.VALIDITY: lost,
        Guarantee.UNIFORM_AGREEMENT: in_order_of_broadcasts(
            [one.found["owed"] for one in verdicts]
        ),
        Guarantee.CAUSAL_ORDER: Found.joined(
            [one.found[Guarantee.CAUSAL_ORDER] for one in grouped]
        ),
    }
    found = {guarantee: some.first(most) for guarantee, some in found.items()}
    for guarantee in (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT):
        rooted = [one.found[guarantee] for one in grouped]
        found[guarantee] = _with_roots(found[guarantee], rooted)
    of_five = np.append([of_each], causes.counts[None, :, None], axis=2)
    of_views = np.zeros((1, 1, 4), np.int64)  # runs that have any are judged otherwise
    return Findings(
        np.append(of_five, of_views, axis=1),
        np.array([unreached[2:4] if unreached else (NOTHING, NOTHING)]),
        found,
        causes.largest,
    )


def _with_roots(found: Found, rooted: Sequence[Found]) -> Found:
    """The first violations in order, with the roots that their readers know."""
    roots = {
        (process, origin, seq): root
        for some in rooted
        for process, origin, seq, root in zip(
            some.process.tolist(), some.origin.tolist(), some.seq.tolist(), some.root, strict=True
        )
    }
    names = zip(found.process.tolist(), found.origin.tolist(), found.seq.tolist(), strict=True)
    none = np.zeros((0, 2), np.int64)
    return found._replace(root=np.concatenate([none, *([roots[name]] for name in names)]))
