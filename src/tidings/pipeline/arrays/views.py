"""Agreed views by arrays: what ``spec.views`` says, for all runs of a batch that have any.

The time of a process falls into stays, one for each view that it was in, and each stay has a row of
bounds: of every origin, which of its messages belong there. A delivery has a position, which lies
in one stay; whether it is within the bounds is one comparison for all deliveries of the batch. What
is missing shows in numbers: between two bounds there are as many messages as their difference.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING, Array, Found, first_of_each_run
from tidings.pipeline.arrays.known import Rebind
from tidings.spec.agreed import Stay
from tidings.spec.endings import Ending
from tidings.spec.verdict import Place, ViewRule

_RULES = list(ViewRule)
_NO_BOUND = np.iinfo(np.int64).max


class Changing(NamedTuple):
    """A run with agreed views: its place in the batch, what its end says, what was moved."""

    run: int
    ending: Ending
    rebinds: Sequence[Rebind]


class PlacedEvents(NamedTuple):
    """The events of a batch, by run, process and index."""

    run: Array
    process: Array
    index: Array
    is_broadcast: Array
    origin: Array
    seq: Array
    view: Array
    message: Array
    """A number for each message."""
    is_sent: Array
    """(message): somebody broadcast it."""


class _Shown(NamedTuple):
    """A violation, with its place in the order."""

    run: int
    process: int
    row: int
    """The index of the row where it shows."""
    is_about_a_message: bool
    origin: int
    seq: int
    rule: int
    other: tuple[int, int]


class ViewsJudge:
    def __init__(self, changing: list[Changing], events: PlacedEvents, width: int) -> None:
        self.changing = changing
        self.events = events
        self.width = width
        self.stays: list[Stay] = []
        self.runs: list[Changing] = []
        """Of each stay."""
        self.processes: list[int] = []
        for one in changing:
            for process in one.ending.evidence.processes:
                if process not in one.ending.evidence.run.holed:
                    self._add(one, process)

    def _add(self, one: Changing, process: str) -> None:
        for stay in one.ending.evidence.agreed.stays(process):
            self.stays.append(stay)
            self.runs.append(one)
            self.processes.append(one.ending.places[process])

    def found(self, runs: int, most: int | None) -> tuple[Array, Found]:
        """(run): judged, not owed, violated, causes; and the first violations of each run."""
        violations = sorted(self._violations())
        counts = np.zeros((runs, 4), np.int64)
        for one in self.changing:
            counts[one.run, 0] = one.ending.evidence.agreed.rows
        of_run = np.array([one.run for one in violations], np.int64)
        counts[:, 2] = np.bincount(of_run, minlength=runs)
        is_shown = first_of_each_run(of_run, most)
        return counts, _found(
            [one for one, shown in zip(violations, is_shown, strict=True) if shown]
        )

    def _violations(self) -> Iterator[_Shown]:
        for one in self.changing:
            yield from _missteps(one)
        if self.stays:
            self._place()
            yield from self._misplaced()
            yield from self._elsewhere()
            yield from self._left_out()

    # --- which stay each event lies in, and its bounds

    def _place(self) -> None:
        events, count = self.events, len(self.stays)
        history = events.run * self.width + events.process
        mine = np.array(
            [one.run * self.width + at for one, at in zip(self.runs, self.processes, strict=True)]
        )
        begins = np.array([stay.begin for stay in self.stays])
        starts, ends = (np.searchsorted(history, mine, side) for side in ("left", "right"))
        firsts = np.array(
            [
                start + np.searchsorted(events.index[start:end], begin)
                for start, end, begin in zip(starts, ends, begins, strict=True)
            ]
        )
        # Stays of one history follow each other, and histories are in the order of the events.
        is_in = np.isin(history, mine)
        self.stay = np.searchsorted(firsts, np.arange(len(history)), side="right") - 1
        self.stay[~is_in] = NOTHING
        self.view = np.array([NOTHING if one.view is None else one.view for one in self.stays])
        self.low = np.zeros((count, self.width), np.int64)
        self.high = np.zeros((count, self.width), np.int64)
        for number, (stay, one) in enumerate(zip(self.stays, self.runs, strict=True)):
            for origin, place in one.ending.places.items():
                low, high = one.ending.evidence.agreed.bounds(stay, origin)
                self.low[number, place] = low
                self.high[number, place] = _NO_BOUND if high is None else high
        keys = history * len(events.is_sent) + events.message
        delivered = np.flatnonzero(is_in & ~events.is_broadcast)
        _, first = np.unique(keys[delivered], return_index=True)
        self.first = delivered[first]
        """Where each process first delivers each message."""

    # --- the rules

    def _misplaced(self) -> Iterator[_Shown]:
        events, at = self.events, self.first[self.events.is_sent[self.events.message[self.first]]]
        stay, origin, seq = self.stay[at], events.origin[at], events.seq[at]
        is_below, is_beyond = seq <= self.low[stay, origin], seq > self.high[stay, origin]
        for position, below in zip(
            at[is_below | is_beyond], is_below[is_below | is_beyond], strict=True
        ):
            number = int(self.stay[position])
            following = self.runs[number].ending.evidence.agreed.following(self.stays[number])
            is_own = below or following is None
            limit = self.stays[number].entry if is_own or following is None else following.place
            yield self._at(int(position), ViewRule.MISPLACED, number, limit)

    def _elsewhere(self) -> Iterator[_Shown]:
        events = self.events
        bound = np.flatnonzero(events.is_broadcast & (self.stay != NOTHING))
        for position in bound[events.view[bound] != self.view[self.stay[bound]]]:
            number = int(self.stay[position])
            yield self._at(int(position), ViewRule.ELSEWHERE, number, self.stays[number].entry)
        for number, (stay, one) in enumerate(zip(self.stays, self.runs, strict=True)):
            process = self.processes[number]
            end = _NO_BOUND if stay.end is None else stay.end
            for index, who, seq, view in one.rebinds:
                if who == process and stay.begin <= index < end and view != stay.view:
                    other = _numbered(one, stay.entry)
                    rule = _RULES.index(ViewRule.ELSEWHERE)
                    yield _Shown(one.run, process, index, seq > 0, process, seq, rule, other)

    def _left_out(self) -> Iterator[_Shown]:
        is_left = [
            stay.end is not None
            and stay.rank is not None
            and one.ending.evidence.agreed.following(stay) is not None
            for stay, one in zip(self.stays, self.runs, strict=True)
        ]
        stays, origins = np.nonzero(np.array(is_left)[:, None] & (self.high > self.low))
        if not len(stays):
            return
        low, high = self.low[stays, origins], self.high[stays, origins]
        seqs, begin, end = self._delivered_between(stays, origins, low, high)
        for due in np.flatnonzero(end - begin < high - low):
            number, origin = int(stays[due]), int(origins[due])
            here = seqs[begin[due] : end[due]]
            gap = np.flatnonzero(here != low[due] + 1 + np.arange(len(here)))
            missing = int(low[due]) + 1 + int(gap[0] if len(gap) else len(here))
            stay, one = self.stays[number], self.runs[number]
            following = one.ending.evidence.agreed.following(stay)
            assert following is not None
            assert stay.end is not None
            other, rule = _numbered(one, following.place), _RULES.index(ViewRule.LEFT_OUT)
            process = self.processes[number]
            yield _Shown(one.run, process, stay.end, True, origin, missing, rule, other)

    def _delivered_between(
        self, stays: Array, origins: Array, low: Array, high: Array
    ) -> tuple[Array, Array, Array]:
        """What the process of each stay delivers of the origin, at any time, within the bounds.

        All sequence numbers, and of each stay where its own begin and end.
        """
        events, at = self.events, self.first
        numbers, ranks = np.unique(np.concatenate([events.seq[at], low, high]), return_inverse=True)
        ranks, below, upto = np.split(ranks, [len(at), len(at) + len(low)])
        history = events.run[at] * self.width + events.process[at]
        keys = (history * self.width + events.origin[at]) * len(numbers) + ranks
        order = np.argsort(keys)
        keys, seqs = keys[order], events.seq[at][order]
        mine = np.array(
            [self.runs[stay].run * self.width + self.processes[stay] for stay in stays.tolist()]
        )
        group = (mine * self.width + origins) * len(numbers)
        begin = np.searchsorted(keys, group + below, side="right")
        end = np.searchsorted(keys, group + upto, side="right")
        return seqs, begin, end

    def _at(self, position: int, rule: ViewRule, stay: int, other: Place | None) -> _Shown:
        events, one = self.events, self.runs[stay]
        return _Shown(
            one.run,
            self.processes[stay],
            int(events.index[position]),
            bool(events.seq[position] > 0),
            int(events.origin[position]),
            int(events.seq[position]),
            _RULES.index(rule),
            _numbered(one, other),
        )


def _missteps(one: Changing) -> Iterator[_Shown]:
    for row, rule, other in one.ending.evidence.agreed.missteps():
        process = one.ending.places[row.process]
        place = _numbered(one, other)
        yield _Shown(one.run, process, row.index, False, process, 0, _RULES.index(rule), place)


def _numbered(one: Changing, place: Place | None) -> tuple[int, int]:
    if place is None:
        return NOTHING, NOTHING
    return one.ending.places[place.process], place.index


def _found(violations: list[_Shown]) -> Found:
    if not violations:
        return Found.joined([])
    run, process, index, _, origin, seq, rule, other = map(np.array, zip(*violations, strict=True))
    has_other = other[:, 0] != NOTHING
    here = np.stack([process, index], axis=1)
    first = np.where(has_other[:, None], other, here)
    second = np.where(has_other[:, None], here, NOTHING)
    return Found.of(
        process, index, origin, seq, [tuple(first.T), tuple(second.T)], run=run, note=rule
    )
