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
from tidings.pipeline.arrays.long.grouping import DebtsOf, Grouped, debts_of, group
from tidings.pipeline.arrays.long.outline import RunPiece
from tidings.pipeline.arrays.long.packing import BELOW, Home, LongRun, Note, scatter
from tidings.pipeline.arrays.long.slab import Slab
from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage


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

    early: Early
    records: Records


def list_early(
    wanted: Mapping[int, Wanted],
    answering: Iterable[int],
    owing: Mapping[int, Array],
    bundles: Sequence[Sequence[RunPiece]],
    run: LongRun,
    exchange: Exchange,
) -> list[Grouped]:
    """Early deliveries and debts, reader by reader; ``answering`` slabs help.

    ``owing`` are the slabs with debts, each with the ``SlabVerdicts.last`` of the whole run.
    """
    needed = frozenset(wanted).union(answering, owing)
    help_out = partial(_help, wanted=frozenset(wanted), owing=owing, run=run)
    stages = [
        Stage(run.cutting.slabs, run.tasks, help_out),
        Stage(run.cutting.slabs, run.tasks, partial(_list, wanted=wanted, run=run)),
        Stage(run.width**2, run.tasks, partial(_resolve, run=run)),
        Stage(run.width, run.tasks, partial(group, run=run)),
    ]
    parcels = exchange(bundles, partial(scatter, run=run, only=needed), stages)
    return [grouped for _, grouped in parcels]


def _help(
    place: int,
    contents: list[Home | Note],
    wanted: frozenset[int],
    owing: Mapping[int, Array],
    run: LongRun,
) -> Iterator[Parcel]:
    """Answer the slabs that list something; one that does so itself sends its rows on."""
    slab = Slab(place, contents, run)
    if place in owing:
        yield from (Parcel(place, debts) for debts in debts_of(slab, owing[place]))
    for other, answer in Asked(slab).answers():
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
        elif isinstance(one, DebtsOf):
            yield Parcel(one.reader * run.width + one.reader, one)
        else:
            rows.append(one)
    if place not in wanted:
        return
    asked = Asked(Slab(place, rows, run))
    listed = []
    for history in histories(asked.slab):
        process, some = history.process, wanted[place]
        readers = np.flatnonzero(some.is_listed[process]).tolist()
        if readers:
            answer = Answer.joined(about[process]) if process in about else None
            listing = _Listing(history, asked, answer)
            listed += [(process, reader, listing.of(reader, some)) for reader in readers]
    for process, reader, part in listed:
        yield Parcel(process * run.width + reader, part)


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
        return OfPair(found, Records(so_far[1:][records], self.event[records]))


def _resolve(place: int, contents: list[OfPair | DebtsOf], run: LongRun) -> Iterator[Parcel]:
    """Of one pair every early delivery, with its cause wherever that is."""
    process, reader = divmod(place, run.width)
    yield from (Parcel(reader, one) for one in contents if isinstance(one, DebtsOf))
    pairs = [one for one in contents if isinstance(one, OfPair)]
    if not pairs:
        return
    at, origin, seq, sent_at, cause = joined([part.early for part in pairs])
    asked, event = joined([part.records for part in pairs])
    order = np.argsort(asked)
    waiting = np.flatnonzero(cause[:, 0] == NOTHING)
    cause[waiting] = event[order[np.searchsorted(asked[order], at[waiting], side="left")]]
    witness = [(process, cause[:, 0]), (process, sent_at), (reader, at)]
    yield Parcel(reader, Found.of(reader, at, origin, seq, witness, (cause[:, 1], cause[:, 2])))
