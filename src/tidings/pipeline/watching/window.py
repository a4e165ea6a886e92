"""What is kept of the history of one process while it is watched.

``got`` and ``sent`` are sets of names and stay small: one range for each origin, if messages are
numbered and delivered in sequence. ``events`` is the window: the rows from ``base`` on. Each row
says whether it is the first of its name there, and what has yet to be decided about it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidings.core import DataError
from tidings.pipeline.watching.pieces import (
    CUT_OFF,
    NO_VIEW,
    Events,
    Piece,
    Rebinds,
    Step,
)
from tidings.pipeline.watching.ranges import Array, Ranges
from tidings.trace import HistoryCut
from tidings.trace.schema import BEGINNINGS, ENDS

TEXT, ORDER = 1, 2
"""What may be open about a delivery: whether it was broadcast so; whether its causes came first."""
NOTHING_SENT = Ranges()


class GoneError(Exception):
    """The source no longer has the rows; the text says which."""


class Moved(NamedTuple):
    """Messages that are bound to another view now."""

    old: int
    new: int
    seqs: Ranges


class News(NamedTuple):
    """What the judge has to look at when a history goes on."""

    repeated: Array
    """Places, in the events, of deliveries that are not the first of their name."""
    renamed: Array
    """The same of broadcasts."""
    moved: list[Moved]


class History:
    def __init__(self, name: str) -> None:
        self.name = name
        self.begin = 0
        self.end = 0
        """Where the contiguous part ends that has been taken."""
        self.rows = 0
        self.deliveries = 0
        self.last_kind = "nothing"
        self.holed = False
        self.time_ns = 0
        self.late: list[Piece] = []
        """What comes after a part that is missing, by index."""
        self.late_rows = 0
        self.patience = 0
        """Deliveries below this index wait no longer for what may be their causes."""
        self.got: dict[int, Ranges] = {}
        """By origin, what was delivered; below the cut, too."""
        self.cut: HistoryCut | None = None
        """What was deleted before the watch began."""
        self.had: dict[int, int] = {}
        """By origin, how many were delivered below the cut."""
        self.sent: dict[int, Ranges] = {}
        """By view, what was broadcast, under the view of the last binding."""
        self.given = 0
        """How many were broadcast below the cut."""
        self.steps: list[Step] = []
        """Its rows about agreed views."""
        self.by_then: list[dict[int, Ranges]] = []
        """What it had delivered at each of these that is not its leaving, by origin."""
        self.misbound: list[tuple[int, int]] = []
        """Rows, and sequence numbers, that bind a message to a view that it is not in."""
        self.misbindings = 0
        """How many of them there are; not all are kept."""
        self.base = 0
        """Where the window begins."""
        self.events = Events.empty()
        self.is_first = np.zeros(0, bool)
        self.open = np.zeros(0, np.int8)

    # --- what was cut off before the watch began

    def begin_at(self, cut: HistoryCut, delivered: dict[int, int]) -> None:
        self.cut = cut
        self.begin = self.end = self.base = cut.index
        self.given = cut.broadcast
        self.had = delivered
        for origin, last in delivered.items():
            if last:
                self.got[origin] = Ranges.of([(1, last)])

    def is_given(self, seq: Array) -> Array:
        return (seq >= 1) & (seq <= self.given)

    def had_delivered(self, origin: int, seq: int) -> bool:
        return 1 <= seq <= self.had.get(origin, 0)

    # --- names

    def has_got(self, origin: int, seq: Array) -> Array:
        return self.got.get(origin, NOTHING_SENT).has(seq)

    def has_sent(self, seq: Array) -> Array:
        """Whether a broadcast under this name has been taken."""
        found = np.zeros(len(seq), bool)
        for of_view in self.sent.values():
            found |= of_view.has(seq)
        return found

    @property
    def all_sent(self) -> Ranges:
        every = Ranges()
        for of_view in self.sent.values():
            every = every | of_view
        return every

    @property
    def all_named(self) -> Ranges:
        """The same, and what was broadcast below the cut."""
        return self.all_sent | (Ranges.of([(1, self.given)]) if self.given else Ranges())

    # --- agreed views

    def views_at(self, index: Array, first: int | None) -> Array:
        """In which view the process is at each of these rows; NO_VIEW before it has joined."""
        steps = [one for one in self.steps if one.kind != "leave"]
        begins = np.array([one.index for one in steps], np.int64)
        views = [NO_VIEW if first is None else first, *(one.view for one in steps)]
        return np.array(views)[np.searchsorted(begins, index)]

    # --- rows come

    def take(self, piece: Piece, events: Events, views: int) -> "News":
        """Go on with a piece that begins where the history ends."""
        if self.last_kind in ENDS and piece.first_kind not in (*BEGINNINGS, CUT_OFF):
            raise DataError(f"{self.name} acts ({piece.first_kind}) after its {self.last_kind}")
        is_first = np.zeros(events.size, bool)
        broadcasts = np.flatnonzero(events.is_broadcast)
        if piece.last_view >= views:
            raise DataError(f"{self.name}: view {piece.last_view} is not in the manifest")
        if len(broadcasts):
            view = events.view[broadcasts]
            if view.min() == NO_VIEW:
                raise DataError(f"{self.name}: a broadcast row needs 'view'")
            seq = events.seq[broadcasts]
            fresh = ~self.has_sent(seq) & ~self.is_given(seq) & _are_new(seq)
            is_first[broadcasts] = fresh
            for number in np.unique(view).tolist():
                chosen = fresh & (view == number)
                self.sent.setdefault(number, Ranges()).add(seq[chosen])
        delivered = np.flatnonzero(~events.is_broadcast)
        self._take_steps(piece.steps, events.at(delivered))
        for origin, places in events.at(delivered).by_origin():
            places = delivered[places]
            seq = events.seq[places]
            got = self.got.setdefault(origin, Ranges())
            is_first[places] = ~got.has(seq) & _are_new(seq)
            got.add(seq)
        self.rows += piece.rows
        self.deliveries += len(delivered)
        self.holed |= piece.has_gap
        self.last_kind, self.end, self.time_ns = piece.last_kind, piece.end, piece.time_ns
        self.events = Events.joined([self.events, events])
        self.is_first = np.concatenate([self.is_first, is_first])
        is_open = np.where(is_first, TEXT | ORDER, TEXT) * ~events.is_broadcast
        self.open = np.concatenate([self.open, is_open.astype(np.int8)])
        fresh = events.at(broadcasts[is_first[broadcasts]])
        return News(
            repeated=delivered[~is_first[delivered]],
            renamed=broadcasts[~is_first[broadcasts]],
            moved=[part for one in piece.rebinds for part in self._rebind(one, fresh)],
        )

    def _take_steps(self, steps: Sequence[Step], delivered: Events) -> None:
        for step in steps:
            self.steps.append(step)
            if step.kind != "leave":
                by_then = {origin: seqs.copy() for origin, seqs in self.got.items()}
                before = delivered.until(step.index)
                for origin, places in before.by_origin():
                    by_then.setdefault(origin, Ranges()).add(before.seq[places])
                self.by_then.append(by_then)

    def _rebind(self, one: Rebinds, fresh: Events) -> "list[Moved]":
        """Address messages to another view.

        ``fresh`` is what the piece broadcasts: what comes after the row is not moved by it.
        """
        named = Ranges.of([(one.first, one.last)]) - Ranges.of_numbers(fresh.since(one.index).seq)
        parts = [Moved(view, one.view, sent & named) for view, sent in self.sent.items()]
        moved = [part for part in parts if part.seqs and part.old != part.new]
        for part in moved:
            self.sent[part.old] = self.sent[part.old] - part.seqs
            self.sent[part.new] = self.sent.get(part.new, Ranges()) | part.seqs
        return moved

    # --- the window

    @property
    def first_open(self) -> int:
        """The index of the first delivery of which anything is undecided; the end if none is."""
        places = np.flatnonzero(self.open)
        return int(self.events.index[places[0]]) if len(places) else self.end

    def drop(self, index: int) -> None:
        """Rows below this index are not kept any longer."""
        if index <= self.base:
            return
        place = int(np.searchsorted(self.events.index, index))
        self.base = index
        self.events = self.events.at(slice(place, None))
        self.is_first, self.open = self.is_first[place:], self.open[place:]


def _are_new(seq: Array) -> Array:
    """Of each number whether it has not come before in the array."""
    if len(seq) < 2 or bool((seq[1:] > seq[:-1]).all()):
        return np.ones(len(seq), bool)
    new = np.zeros(len(seq), bool)
    new[np.unique(seq, return_index=True)[1]] = True
    return new
