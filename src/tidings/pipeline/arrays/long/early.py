"""The early deliveries of a long run, each with its cause: the second job, if there are any.

A slab that has something to list gets its rows once more, and the answers about those that are
away. With these in place the running maximum of an (origin, reader), begun with what earlier slabs
asked for, is that of the definition. The cause of an early delivery is the event at which the
maximum first reached its index: in the slab by binary search, or else in an earlier one. There it
is a *record*, an event at which the maximum grew. Along the records of a pair both the place in the
history and the index asked for grow, so the first event that asked for as much is the least record
that did. A slab sends only records that later ones can ask for: from the first that reaches the
least index that is judged later, up to the first that reaches the largest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING, Array, Found, joined
from tidings.pipeline.arrays.long.causes import Answer, Asked, History, Wanted, histories
from tidings.pipeline.arrays.long.outline import RunPiece
from tidings.pipeline.arrays.long.packing import BELOW, Home, LongRun, Note, scatter
from tidings.pipeline.arrays.long.slab import Slab
from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage
from tidings.spec import Guarantee


class Early(NamedTuple):
    """Deliveries before a cause; ``cause`` is NOTHING while it lies in an earlier slab."""

    at: Array
    origin: Array
    seq: Array
    sent_at: Array
    cause: Array
    """(delivery, index and origin and seq)"""


class Records(NamedTuple):
    """Events of one origin that ask one reader for more than all before."""

    asked: Array
    event: Array
    """(record, index and origin and seq)"""


class OfPair(NamedTuple):
    """What one slab lists of one (origin, reader)."""

    found: int
    early: Early
    records: Records


def list_early(
    wanted: Mapping[int, Wanted],
    answering: Iterable[int],
    bundles: Sequence[Sequence[RunPiece]],
    run: LongRun,
    exchange: Exchange,
) -> tuple[int, Found]:
    """How many early deliveries there are, and the first of them; ``answering`` slabs help."""
    needed = frozenset(wanted).union(answering)
    stages = [
        Stage(run.cutting.slabs, run.tasks, partial(_help, wanted=frozenset(wanted), run=run)),
        Stage(run.cutting.slabs, run.tasks, partial(_list, wanted=wanted, run=run)),
        Stage(run.width**2, run.tasks, partial(_resolve, run=run)),
    ]
    parcels = exchange(bundles, partial(scatter, run=run, only=needed), stages)
    return (
        sum(count for _, (count, _) in parcels),
        Found.joined([found for _, (_, found) in parcels]).first(run.showing.most),
    )


def _help(
    place: int, contents: list[Home | Note], wanted: frozenset[int], run: LongRun
) -> Iterator[Parcel]:
    """Answer the slabs that list something; one that does so itself sends its rows on."""
    for other, answer in Asked(Slab(place, contents, run)).answers():
        if other in wanted:
            yield Parcel(other, answer)
    if place in wanted:
        yield from (Parcel(place, one) for one in contents)


def _list(
    place: int, contents: list[Any], wanted: Mapping[int, Wanted], run: LongRun
) -> Iterator[Parcel]:
    about: dict[int, list[Answer]] = {}
    rows = []
    for one in contents:
        if isinstance(one, Answer):
            about.setdefault(one.process, []).append(one)
        else:
            rows.append(one)
    asked = Asked(Slab(place, rows, run))
    listed = []
    for history in histories(asked.slab):
        process, some = history.process, wanted[place]
        readers = np.flatnonzero(some.is_listed[process]).tolist()
        if readers:
            answer = Answer.joined(about[process]) if process in about else None
            listing = _Listing(history, asked, answer)
            listed += [(process, reader, listing.of(reader, some)) for reader in readers]
    yield from _first(listed, run)


class _Listing:
    def __init__(self, history: History, asked: Asked, answer: Answer | None) -> None:
        self.history, self.asked, self.answer = history, asked, answer
        parts = history.parts
        self.event = np.stack(
            [
                np.concatenate([part.in_order(column) for part, column in columns])
                for columns in (
                    [(part, part.index) for part in parts],
                    [(part, part.origin) for part in parts],
                    [(part, part.seq) for part in parts],
                )
            ],
            axis=1,
        )
        """(event, index and origin and seq)"""
        self.about = history.message[history.sent]
        self.is_first = asked.is_first(self.about, self.event[history.sent, 0])
        self.away = np.flatnonzero(history.message == asked.slab.count)
        self.away_sent = np.flatnonzero(self.about == asked.slab.count)
        assert (answer is None) == (not len(self.away)), "answers to the events that are away"

    def of(self, reader: int, wanted: Wanted) -> OfPair:
        never, pair = self.asked.never, (self.history.process, reader)
        asked = self.asked.table[reader][self.history.message].astype(np.int64)
        at = self.asked.slab.delivered[reader][self.about].astype(np.int64)
        at[(at == BELOW) | ~self.is_first] = never
        if self.answer is not None:
            asked[self.away] = self.answer.asked[reader]
            at[self.away_sent] = self.answer.at[reader]
        so_far = np.maximum.accumulate(np.append(wanted.before[pair], asked))
        early = np.flatnonzero((so_far[self.history.sent] >= at) & (at != never))
        # The place before the first event stands for all earlier slabs.
        cause = np.searchsorted(so_far, at[early], side="left") - 1
        causes = self.event[np.maximum(cause, 0)]
        causes[cause < 0] = NOTHING
        sent = self.event[self.history.sent[early]]
        found = Early(at[early], sent[:, 1], sent[:, 2], sent[:, 0], causes)
        grows = (so_far[1:] > so_far[:-1]) & (so_far[1:] >= wanted.least[pair])
        records = np.flatnonzero(grows)
        last = np.searchsorted(so_far[1:][records], wanted.largest[pair])
        records = records[: last + 1]
        return OfPair(len(early), found, Records(so_far[1:][records], self.event[records]))


def _first(listed: Sequence[tuple[int, int, OfPair]], run: LongRun) -> Iterator[Parcel]:
    """What is listed, to the place of each pair: of the deliveries the first few, or all."""
    reader = np.repeat([one for _, one, _ in listed], [part.found for *_, part in listed])
    at = np.concatenate([np.zeros(0, np.int64), *(part.early.at for *_, part in listed)])
    shown = np.zeros(len(at), bool)
    shown[np.lexsort((at, reader))[: run.showing.at_first]] = True
    begin = 0
    for process, who, part in listed:
        mine = shown[begin : begin + part.found]
        begin += part.found
        early = Early(*(column[mine] for column in part.early))
        yield Parcel(process * run.width + who, OfPair(part.found, early, part.records))


def _resolve(place: int, contents: list[OfPair], run: LongRun) -> Iterator[Parcel]:
    """Of one pair every early delivery, with its cause wherever that is."""
    process, reader = divmod(place, run.width)
    at, origin, seq, sent_at, cause = joined([part.early for part in contents])
    asked, event = joined([part.records for part in contents])
    order = np.argsort(asked)
    waiting = np.flatnonzero(cause[:, 0] == NOTHING)
    cause[waiting] = event[order[np.searchsorted(asked[order], at[waiting], side="left")]]
    witness = [(process, cause[:, 0]), (process, sent_at), (reader, at)]
    found = Found.of(reader, at, origin, seq, witness, (cause[:, 1], cause[:, 2]))
    found = run.shown(Guarantee.CAUSAL_ORDER, found, f"pair-{place:06}-early")
    yield Parcel(place, (sum(part.found for part in contents), found))
