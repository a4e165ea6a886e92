"""Whether the causes of each message came first, slab by slab.

Every event of an origin asks for an index in the reader's history: that of the reader's first
delivery of the same message. Causal Order is broken at a message where the largest index asked for
before its broadcast reaches the index at which the reader delivered the message itself. So all
pairs of an event and a later first broadcast of one origin have to be compared, for each reader,
and each pair is compared in exactly one place:

- both in one slab and about messages of it: there (``ask``), by a running maximum;
- the event is away: the slab says which bound its index must stay below, the least index of the
  broadcasts that follow and are known (``Request``); the slab of the message says what the event
  asks for (``Answer``); they meet at the ``border``;
- the broadcast is away: the slab says what was asked for so far, the answer where it was delivered;
- both are away: the border has both answers;
- in two slabs: the largest that all earlier slabs ask for is compared with the least that this one
  needs (``Scan``). Maxima and minima do not care where they are cut.

If nothing is broken by any of these, there is no violation, and nothing more to do. Otherwise there
is one, and ``early`` lists them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import Array
from tidings.pipeline.arrays.long.packing import BELOW, HomeRows, LongRun, NotedRows
from tidings.pipeline.arrays.long.slab import Slab


class Past(NamedTuple):
    """What part of a run says of each (origin, reader)."""

    asked: Array
    """The largest index that the origin's events ask for."""
    needed: Array
    """The least index of a first broadcast that is judged; never if none is."""
    latest: Array
    """The largest of these; BELOW if there is none."""
    is_broken: Array
    """A message came before one of its causes within this part."""

    @classmethod
    def of_nothing(cls, run: LongRun) -> "Past":
        below, never = (
            np.full((run.width, run.width), value, np.int64) for value in (BELOW, run.never)
        )
        return cls(below, never, below.copy(), np.zeros((run.width, run.width), bool))

    def joined(self, other: "Past") -> "Past":
        return Past(
            np.maximum(self.asked, other.asked),
            np.minimum(self.needed, other.needed),
            np.maximum(self.latest, other.latest),
            self.is_broken | other.is_broken,
        )


class Request(NamedTuple):
    """What a slab knows about those events of one process in it that are away."""

    process: int
    index: Array
    is_broadcast: Array
    bound: Array
    """(reader, event): what the event asks for has to be less"""
    so_far: Array
    """(reader, broadcast): the largest that was asked for before, by events that are not away"""


class Answer(NamedTuple):
    """What a slab says of events elsewhere that are about its messages."""

    process: int
    index: Array
    is_broadcast: Array
    asked: Array
    """(reader, event)"""
    at: Array
    """(reader, broadcast): where it was delivered, if that is judged; otherwise never"""

    @classmethod
    def joined(cls, parts: Sequence["Answer"]) -> "Answer":
        """All about one process, in the order of its history."""
        index, is_broadcast = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
        asked, at = (np.concatenate([part[n] for part in parts], axis=1) for n in (3, 4))
        order, of_sent = np.argsort(index), np.argsort(index[is_broadcast])
        columns = (index[order], is_broadcast[order], asked[:, order], at[:, of_sent])
        return cls(parts[0].process, *columns)


class History:
    """The events of one process in its slab."""

    def __init__(self, process: int, parts: Sequence[HomeRows]) -> None:
        self.process, self.parts = process, parts
        self.begins = np.cumsum([0, *(part.size for part in parts)])[:-1]
        """How many events come before each part."""

    @cached_property
    def message(self) -> Array:
        """In the order of the history."""
        return np.concatenate([part.in_order(part.message) for part in self.parts])

    @cached_property
    def sent(self) -> Array:
        """Where the broadcasts are."""
        places = zip(self.parts, self.begins, strict=True)
        return np.concatenate(
            [part.by_label.order[part.broadcasts] + begin for part, begin in places]
        )

    @property
    def has_away(self) -> bool:
        return any(part.here is not None for part in self.parts)


def histories(slab: Slab) -> Iterator[History]:
    for process in range(slab.run.width):
        mine = [
            part for part in slab.parts if isinstance(part, HomeRows) and part.process == process
        ]
        if mine:
            yield History(process, mine)


class Asked:
    """What each event of a slab asks for, as far as its message is here."""

    def __init__(self, slab: Slab) -> None:
        self.slab, self.never = slab, slab.never
        self.whole = slab.known.is_whole[0]
        self.table = slab.delivered
        """(reader, message): BELOW where the message does not ask this reader"""
        members = slab.known.members
        if not slab.is_full or not members.all():
            self.table = slab.delivered.copy()
            is_asking = np.append(slab.sent_at[:-1] >= 0, False) | slab.given
            for reader in range(slab.run.width):
                self.table[reader][~(is_asking & members[slab.view, reader])] = BELOW

    @property
    def judged(self) -> int:
        """How many deliveries there are to be judged."""
        at = self.slab.delivered[self.whole][:, self.slab.sent]
        return int(((at != self.never) & (at != BELOW)).sum())

    def is_first(self, message: Array, index: Array) -> Array:
        """Which broadcasts are the first of a message of this slab."""
        is_first: Array = (self.slab.sent_at[message] == index) & (message < self.slab.count)
        return is_first

    def ask(self) -> tuple[Past, list[Request]]:
        """Go through the history of every process, with all readers."""
        past = Past.of_nothing(self.slab.run)
        requests = []
        for history in histories(self.slab):
            asking = _Asking(self, history)
            asking.fill(past)
            if asking.request is not None:
                requests.append(asking.request)
        return past, requests

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """For other slabs, about their events."""
        for part in self.slab.parts:
            if isinstance(part, NotedRows):
                sent = part.message[part.broadcasts]
                at = self.slab.delivered[:, sent]
                at[at == BELOW] = self.never
                at[:, ~self.is_first(sent, part.index[part.broadcasts])] = self.never
                asked = self.table[:, part.message]
                # Whoever has a hole is not judged, and asks for nothing.
                at[~self.whole], asked[~self.whole] = self.never, BELOW
                yield part.slab, Answer(part.process, part.index, part.is_broadcast, asked, at)


class _Asking:
    """One history of a slab, asked about.

    An event may ask for no more than the least index of the judged broadcasts that follow it: that
    is its bound. So nothing has to be put in the order of the history; it is enough to know how
    many broadcasts there are up to each event.
    """

    def __init__(self, asked: Asked, history: History) -> None:
        slab, self.asked, self.history = asked.slab, asked, history
        self.never = slab.never
        parts = history.parts
        self.about = np.concatenate([part.sent for part in parts])
        self.is_first: Array | None = None
        """Which broadcasts are judged, unless all are."""
        if history.has_away or not slab.is_full or slab.again:
            index = np.concatenate([part.index[part.broadcasts] for part in parts])
            self.is_first = asked.is_first(self.about, index)
        before = np.cumsum([0, *(len(part.texts) for part in parts)])
        self.after = [part.broadcasts_so_far + n for part, n in zip(parts, before, strict=False)]
        """For each part, how many broadcasts come up to each event."""
        self.after_here = [part.of_here(one) for part, one in zip(parts, self.after, strict=True)]
        self.request = self._request() if history.has_away else None

    def _request(self) -> Request:
        slab, columns = self.asked.slab, []
        for part, after in zip(self.history.parts, self.after, strict=True):
            if part.here is not None:
                away = np.flatnonzero(~part.here)
                away = away[np.argsort(part.by_label.order[away])]
                columns.append((part.index[away], away >= part.by_label.deliveries, after[away]))
        index, is_sent, self.away_after = (
            np.concatenate(one) for one in zip(*columns, strict=True)
        )
        kind, width = slab.run.index_type, slab.run.width
        return Request(
            self.history.process,
            index,
            is_sent,
            np.full((width, len(index)), self.never, kind),
            np.full((width, int(is_sent.sum())), BELOW, kind),
        )

    def fill(self, past: Past) -> None:
        readers = np.flatnonzero(self.asked.whole)
        events = max(part.size for part in self.history.parts)
        at_once = max(1, self.asked.slab.run.limits.cells_at_once // events)
        for begin in range(0, len(readers), at_once):
            self._fill(past, readers[begin : begin + at_once])

    def _fill(self, past: Past, readers: Array) -> None:
        process, never = self.history.process, self.never
        is_block = readers[-1] - readers[0] + 1 == len(readers)
        rows = slice(readers[0], readers[-1] + 1) if is_block else readers
        at = self.asked.slab.delivered[rows].take(self.about, axis=1, mode="clip")
        at[at == BELOW] = never
        if self.is_first is not None:
            at[:, ~self.is_first] = never
        past.latest[process, readers] = np.where(at == never, BELOW, at).max(axis=1, initial=BELOW)
        # Behind the last broadcast nothing is bound.
        bounds = np.full((len(readers), len(self.about) + 1), never, at.dtype)
        np.minimum.accumulate(at[:, ::-1], axis=1, out=bounds[:, -2::-1])
        past.needed[process, readers] = bounds[:, 0]
        for part, after in zip(self.history.parts, self.after_here, strict=True):
            asked = part.found_in(self.asked.table[rows])
            bound = bounds.take(after, axis=1, mode="clip")
            largest = np.maximum(past.asked[process, readers], asked.max(axis=1, initial=BELOW))
            past.asked[process, readers] = largest
            is_bad = asked >= bound
            if is_bad.any():
                past.is_broken[process, readers] |= (is_bad & (bound != never)).any(axis=1)
        if self.request is not None:
            self.request.bound[readers] = bounds[:, self.away_after]
            if self.request.so_far.size:
                self.request.so_far[readers] = self._so_far(rows)

    def _so_far(self, rows: Array | slice) -> Array:
        """(reader, broadcast that is away): the largest that events before it ask for."""
        events, starts = self._before_away
        asked = self.asked.table[rows].take(events, axis=1, mode="clip")
        return np.maximum.accumulate(np.maximum.reduceat(asked, starts, axis=1), axis=1)

    @cached_property
    def _before_away(self) -> tuple[Array, Array]:
        """The messages of all events before the last broadcast that is away, and where each of
        these broadcasts has its own part of them."""
        assert self.request is not None
        sent = self.history.sent[self.away_after[self.request.is_broadcast] - 1]
        # In front of all events stands one that asks for nothing.
        events = np.append(self.asked.slab.count, self.history.message[: sent[-1]])
        return events, np.append(0, sent[:-1] + 1)


def border(requests: Sequence[Request], answers: Sequence[Answer], run: LongRun) -> Past:
    """What the events of a slab that are away add to its past."""
    past = Past.of_nothing(run)
    about: dict[int, list[Answer]] = {}
    for one in answers:
        about.setdefault(one.process, []).append(one)
    assert about.keys() == {request.process for request in requests}, "an answer to no request"
    for request in requests:
        process, never = request.process, run.never
        answer = Answer.joined(about[process])
        assert (answer.index == request.index).all(), "an event without an answer"
        asked, at, sent = answer.asked, answer.at, answer.is_broadcast
        past.asked[process] = asked.max(axis=1)
        is_bad = (asked >= request.bound) & (request.bound != never)
        if sent.any():
            past.needed[process] = at.min(axis=1)
            past.latest[process] = np.where(at == never, BELOW, at).max(axis=1)
            before = np.full_like(asked, BELOW)
            before[:, 1:] = np.maximum.accumulate(asked, axis=1)[:, :-1]
            so_far = np.maximum(before[:, sent], request.so_far)
            is_bad[:, sent] |= (so_far >= at) & (at != never)
        past.is_broken[process] = is_bad.any(axis=1)
    return past


class Wanted(NamedTuple):
    """What one slab has to list, and what it has to know for it: of each (origin, reader)."""

    is_listed: Array
    before: Array
    """The largest that earlier slabs ask for."""
    least: Array
    """The least index that later slabs judge."""
    largest: Array
    """The largest of them."""


class Scan:
    """The pasts of all slabs, one after the other."""

    def __init__(self, pasts: Mapping[int, Past], run: LongRun) -> None:
        nothing = Past.of_nothing(run)
        every = [pasts.get(slab, nothing) for slab in range(run.cutting.slabs)]
        asked, needed, latest, is_broken = map(np.stack, zip(*every, strict=True))
        self.before = np.full_like(asked, BELOW)
        self.before[1:] = np.maximum.accumulate(asked, axis=0)[:-1]
        inherits = (self.before >= needed) & (needed != run.never)
        self.is_broken = is_broken | inherits
        """(slab, origin, reader): a message of the origin came too early at the reader"""
        self.least = np.full_like(needed, run.never)
        self.least[:-1] = np.minimum.accumulate(needed[::-1], axis=0)[::-1][1:]
        self.largest = np.full_like(latest, BELOW)
        self.largest[:-1] = np.maximum.accumulate(latest[::-1], axis=0)[::-1][1:]
        is_heir_later = np.zeros_like(inherits)
        is_heir_later[:-1] = np.logical_or.accumulate(inherits[::-1], axis=0)[::-1][1:]
        has_causes = is_heir_later & (asked > self.before) & (asked >= self.least)
        self.is_listed = self.is_broken | has_causes

    def wanted(self) -> dict[int, Wanted]:
        """What has to be listed, by slab."""
        if not self.is_broken.any():
            return {}
        return {
            slab: Wanted(
                self.is_listed[slab], self.before[slab], self.least[slab], self.largest[slab]
            )
            for slab in np.flatnonzero(self.is_listed.any(axis=(1, 2))).tolist()
        }
