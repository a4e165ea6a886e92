"""One run of any length, judged in pieces that fit in memory.

A piece is one group of rows of one file. First every piece is checked by itself (``survey``), and
the ends of neighbours against each other (``outlines``): then it is known who was correct, and
which sequence numbers each origin used. These are dense, or this way is not taken, so a message
is a place in a table.

Then the processes are dealt out. Whoever gets some of them (``judge_slice``) reads the whole trace
twice, one piece after the other. The first time it notes, of its own processes as readers, where
each first delivered each message, and, of its own processes as origins, the text of each message as
it was first heard: if everybody heard the same, the text is right. The second time it goes through
the history of every origin and asks for the causes, as ``batch`` does; the running maximum is
carried from piece to piece. Four bytes for each message and reader, eight for each message of an
origin, and one piece: that is all the memory it takes, but for what is wrong: of each bad delivery
some dozen numbers are noted.

Nothing here is an approximation. Names in any order, duplicates, strays and altered texts are
judged as the specification does; what they cost is another look at the pieces concerned.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING, Findings, Found, joined
from tidings.pipeline.arrays.long.causes import Answer, Asked, Past, Request, Scan, border
from tidings.pipeline.arrays.long.cutting import Cutting, cutting_for
from tidings.pipeline.arrays.long.debts import Debts
from tidings.pipeline.arrays.long.early import list_early
from tidings.pipeline.arrays.long.outline import (
    Outline,
    RunPiece,
    SurveyedHistory,
    outlines,
    survey,
)
from tidings.pipeline.arrays.long.packing import Home, LongRun, Note, scatter
from tidings.pipeline.arrays.long.slab import Slab, SlabVerdicts, in_order_of_broadcasts
from tidings.pipeline.arrays.long.slice import SliceFindings, judge_slice
from tidings.pipeline.arrays.perform import (
    Exchange,
    Parcel,
    Perform,
    Stage,
    exchanged_plainly,
    plainly,
)
from tidings.pipeline.arrays.rows import Directory
from tidings.spec import Guarantee

__all__ = [
    "Cutting",
    "Outline",
    "SurveyedHistory",
    "cutting_for",
    "judge_long",
    "judge_slabs",
    "outlines",
    "survey",
]


def judge_long(
    outline: Outline,
    directory: Directory,
    *,
    slices: int = 1,
    most: int | None = None,
    perform: Perform = plainly,
) -> Findings:
    """The verdicts on one long run: ``slices`` tasks, and a few more to look up witnesses."""
    dealt = [part.tolist() for part in np.array_split(np.arange(directory.width), slices)]
    task = partial(judge_slice, outline=outline, directory=directory, most=most)
    parts: list[SliceFindings] = perform(task, [mine for mine in dealt if mine])
    debts = Debts(outline, directory, parts, most, perform)
    counts = sum((part.counts for part in parts), Counter[str]())
    repeated, invented, renamed, early = (
        Found.joined([part.found[kind] for part in parts]).first(most)
        for kind in ("repeated", "invented", "renamed", "early")
    )
    of_each = [
        (counts["deliveries"], 0, counts["repeated"]),
        (counts["compared"], 0, counts["invented"] + counts["renamed"]),
        debts.validity_counts,
        debts.agreement_counts,
        (counts["ordered"], 0, counts["early"]),
    ]
    unreached = min((part.unreached for part in parts if part.unreached), default=None)
    return Findings(
        np.array([of_each], np.int64),
        np.array([unreached[2:4] if unreached else (NOTHING, NOTHING)]),
        {
            Guarantee.NO_DUPLICATION: repeated,
            Guarantee.NO_CREATION: Found(*joined([invented, renamed])).first(most),
            Guarantee.VALIDITY: debts.validity,
            Guarantee.UNIFORM_AGREEMENT: debts.agreement,
            Guarantee.CAUSAL_ORDER: early,
        },
    )


# --- in slabs


class SlabFindings(NamedTuple):
    """What a slab found, and what its events have in their past."""

    verdicts: SlabVerdicts
    ordered: int
    """How many deliveries were judged by Causal Order."""
    past: Past
    answers: frozenset[int]
    """The slabs with events about our messages."""


def judge_slabs(
    outline: Outline,
    bundles: Sequence[Sequence[RunPiece]],
    directory: Directory,
    cutting: Cutting,
    *,
    most: int | None = None,
    most_rows: int,
    exchange: Exchange = exchanged_plainly,
) -> Findings:
    """The verdicts on one long run, whose pieces were put into bundles, one for each task."""
    bare = outline._replace(parts=(), marks={})
    run = LongRun(bare, directory, cutting, most, secrets.randbits(64), most_rows)
    slabs = cutting.slabs
    stages = [Stage(slabs, partial(_judge, run=run)), Stage(slabs, partial(_border, run=run))]
    found: dict[int, SlabFindings] = dict(exchange(bundles, partial(_scatter, run=run), stages))
    suspects = frozenset(slab for slab, one in found.items() if one.verdicts.is_suspected)
    texts = partial(_scatter, run=run, only=suspects, with_digests=True)
    compare = [Stage(slabs, partial(_compare, run=run))]
    altered = exchange(bundles, texts, compare) if suspects else []
    wanted = Scan({slab: one.past for slab, one in found.items()}, run).wanted()
    helpers = [slab for slab, one in found.items() if not one.answers.isdisjoint(wanted)]
    early = list_early(wanted, helpers, bundles, run, exchange) if wanted else (0, Found.joined([]))
    return _put_together(list(found.values()), [one for _, one in altered], early, most)


def _scatter(
    bundle: Sequence[RunPiece],
    run: LongRun,
    only: frozenset[int] | None = None,
    with_digests: bool = False,
) -> Iterator[Parcel]:
    for part in bundle:
        yield from scatter(part, run, only, with_digests)


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
    altered = Slab(place, contents, run).altered()
    yield Parcel(place, (len(altered.position), altered.first(run.most)))


def _put_together(
    slabs: Sequence[SlabFindings],
    altered: Sequence[tuple[int, Found]],
    early: tuple[int, Found],
    most: int | None,
) -> Findings:
    verdicts = [slab.verdicts for slab in slabs]
    counts = sum((one.counts for one in verdicts), Counter[str]())
    repeated, invented, renamed, lost = (
        Found.joined([one.found[kind] for one in verdicts])
        for kind in ("repeated", "invented", "renamed", "lost")
    )
    invented = Found.joined([invented, *(found for _, found in altered)])
    odd = sum(count for count, _ in altered)
    of_each = [
        (counts["deliveries"], 0, counts["repeated"]),
        (counts["compared"], 0, counts["invented"] + odd + counts["renamed"]),
        np.sum([(0, 0, 0), *(one.validity for one in verdicts)], axis=0),
        np.sum([(0, 0, 0), *(one.agreement for one in verdicts)], axis=0),
        (sum(slab.ordered for slab in slabs), 0, early[0]),
    ]
    unreached = min((one.unreached for one in verdicts if one.unreached), default=None)
    found = {
        Guarantee.NO_DUPLICATION: repeated,
        Guarantee.NO_CREATION: Found(*joined([invented, renamed])),
        Guarantee.VALIDITY: lost,
        Guarantee.UNIFORM_AGREEMENT: in_order_of_broadcasts(
            [one.found["owed"] for one in verdicts]
        ),
        Guarantee.CAUSAL_ORDER: early[1],
    }
    return Findings(
        np.array([of_each], np.int64),
        np.array([unreached[2:4] if unreached else (NOTHING, NOTHING)]),
        {guarantee: some.first(most) for guarantee, some in found.items()},
    )
