"""Where everything stands in a space-time diagram: one lane per process, causes to the left.

Time is order, not clock: every event has a column of its own, so that nothing overlaps and the
slowest packet does not make the picture endless. Packets that a process sends in one breath leave
from one column.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidings.core import Members
from tidings.report.causality import Causality
from tidings.spec import Place
from tidings.spec.evidence import place
from tidings.trace import Row

LANE = 86.0
"""From one lane to the next."""
GAP = 24.0
"""From one column to the next, at least."""
SLOPE = 30.0
"""How far right of its send a receive stands, at least, and again some for every lane between."""
STUB = 50.0
"""How far a packet gets that is lost."""


class Spot(NamedTuple):
    x: float
    y: float


class Lanes:
    """The spots of all events, from x = 0 on, and y = 0 for the first lane."""

    def __init__(
        self,
        processes: Members,
        rows: Sequence[Row],
        causality: Causality,
        label_width: Callable[[Row], float],
        marked: Place | None,
    ) -> None:
        self.y = {process: LANE * number for number, process in enumerate(processes)}
        self._causality = causality
        self._label_width = label_width
        self._marked = marked
        self._x: dict[Place, float] = {}
        self._columns: set[Place] = set()
        self._label_end: dict[str, float] = {}
        self._last: dict[str, Row] = {}
        self.width = 0.0
        for row in rows:
            if row.kind != "settle":
                self._place(row)
        # All settle at once, when nothing is on its way any more.
        end = self.width + 2 * GAP
        for row in rows:
            if row.kind == "settle":
                self._columns.add(place(row))
                self._x[place(row)] = self.width = end

    def has_column(self, row: Row) -> bool:
        """Whether the event stands where no other of its process does."""
        return place(row) in self._columns

    def spot(self, row: Row) -> Spot:
        return Spot(self._x[place(row)], self.y[row.process])

    def stretch(self, width: float) -> None:
        """Use the room there is, if there is more than is needed."""
        factor = max(1.0, min(3.0, width / self.width)) if self.width else 1.0
        self._x = {where: x * factor for where, x in self._x.items()}
        self.width *= factor

    def _place(self, row: Row) -> None:
        before = self._last.get(row.process)
        self._last[row.process] = row
        # What is ringed stands by itself: a ring around a delivery would accuse the delivery.
        is_apart = place(row) == self._marked
        if before is not None and _in_one_breath(before, row) and not is_apart:
            self._x[place(row)] = self._x[place(before)]
            return
        x = self.width + GAP
        source = self._causality.source(row)
        if source is not None and place(source) in self._x:
            lanes_apart = abs(self.y[source.process] - self.y[row.process]) / LANE
            x = max(x, self._x[place(source)] + SLOPE + 8 * lanes_apart)
        if wide := self._label_width(row):
            x = max(x, self._label_end.get(row.process, -40.0) + wide / 2 + 8)
            self._label_end[row.process] = x + wide / 2
        self._columns.add(place(row))
        self._x[place(row)] = self.width = x


def _in_one_breath(before: Row, row: Row) -> bool:
    together = before.time_ns == row.time_ns and before.kind not in ("crash", "leave", "settle")
    return row.kind == "send" and together


class Box(NamedTuple):
    """A piece of the picture that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_crossed_by(self, start: Spot, end: Spot) -> bool:
        """Whether a straight line passes through it (looked at every few pixels)."""
        if max(start.x, end.x) < self.left or min(start.x, end.x) > self.right:
            return False
        steps = 24
        return any(
            self.left <= start.x + (end.x - start.x) * step / steps <= self.right
            and self.top <= start.y + (end.y - start.y) * step / steps <= self.bottom
            for step in range(steps + 1)
        )


def stub(start: Spot, lanes: Mapping[str, float], receiver: str) -> Spot:
    """Where a lost packet ends: on the way to its receiver's lane, and short of it."""
    target = lanes.get(receiver, start.y + LANE)
    away = target - start.y
    if not away:
        return Spot(start.x + STUB, start.y - LANE / 3)
    short = away - (LANE * 0.42 if away > 0 else -LANE * 0.42)
    return Spot(start.x + STUB + abs(away) / LANE * 6, start.y + short)
