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


class History(NamedTuple):
    """The events of one process in its slab, in order."""

    process: int
    parts: Sequence[HomeRows]
    message: Array
    sent: Array
    """Where the broadcasts are."""

    @property
    def index(self) -> Array:
        return np.concatenate([part.in_order(part.index) for part in self.parts])

    @property
    def has_away(self) -> bool:
        return any(part.here is not None for part in self.parts)


def histories(slab: Slab) -> Iterator[History]:
    for process in range(slab.run.width):
        mine = [
            part for part in slab.parts if isinstance(part, HomeRows) and part.process == process
        ]
        if mine:
            begins = np.cumsum([0, *(part.size for part in mine)])[:-1]
            yield History(
                process,
                mine,
                np.concatenate([part.in_order(part.message) for part in mine]),
                np.concatenate(
                    [
                        part.by_label.order[part.broadcasts] + begin
                        for part, begin in zip(mine, begins, strict=True)
                    ]
                ),
            )


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
    """One history of a slab, asked about."""

    def __init__(self, asked: Asked, history: History) -> None:
        slab, self.asked, self.history = asked.slab, asked, history
        self.never, kind, width = slab.never, slab.run.index_type, slab.run.width
        sent, self.about = history.sent, history.message[history.sent]
        self.is_first: Array | None = None
        """Which broadcasts are judged, unless all are."""
        self.request: Request | None = None
        if not history.has_away and slab.is_full and not slab.again:
            return
        index = history.index
        self.is_first = asked.is_first(self.about, index[sent])
        if history.has_away:
            away = np.flatnonzero(history.message == slab.count)
            is_sent = np.isin(away, sent)
            self.after = np.searchsorted(sent, away, side="right")
            """How many broadcasts come up to each event that is away."""
            self.request = Request(
                history.process,
                index[away],
                is_sent,
                np.full((width, len(away)), self.never, kind),
                np.full((width, int(is_sent.sum())), BELOW, kind),
            )

    def fill(self, past: Past) -> None:
        # In front of all events stands one that asks for nothing, so that from one broadcast to the
        # next there is always an event: the maximum of each such part, and then a running one.
        events = np.append(self.asked.slab.count, self.history.message)
        starts = np.append(0, self.history.sent + 1)
        readers = np.flatnonzero(self.asked.whole)
        at_once = max(1, self.asked.slab.run.limits.cells_at_once // len(events))
        for begin in range(0, len(readers), at_once):
            self._fill(past, readers[begin : begin + at_once], events, starts)

    def _fill(self, past: Past, readers: Array, events: Array, starts: Array) -> None:
        process, delivered = self.history.process, self.asked.slab.delivered
        is_block = readers[-1] - readers[0] + 1 == len(readers)
        rows = slice(readers[0], readers[-1] + 1) if is_block else readers
        asked = self.asked.table[rows].take(events, axis=1, mode="clip")
        so_far = np.maximum.reduceat(asked, starts, axis=1)
        np.maximum.accumulate(so_far, axis=1, out=so_far)
        past.asked[process, readers] = so_far[:, -1]
        if not len(self.about):
            return
        at = delivered[rows].take(self.about, axis=1, mode="clip")
        at[at == BELOW] = self.never
        if self.is_first is not None:
            at[:, ~self.is_first] = self.never
        is_judged = at != self.never
        past.needed[process, readers] = at.min(axis=1)
        past.latest[process, readers] = np.where(is_judged, at, BELOW).max(axis=1)
        past.is_broken[process, readers] = ((so_far[:, :-1] >= at) & is_judged).any(axis=1)
        if self.request is not None:
            none = np.full((len(readers), 1), self.never, at.dtype)
            least = np.minimum.accumulate(np.append(at, none, axis=1)[:, ::-1], axis=1)[:, ::-1]
            self.request.bound[readers] = least[:, self.after]
            sent = self.after[self.request.is_broadcast]
            self.request.so_far[readers] = so_far[:, sent - 1]


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
