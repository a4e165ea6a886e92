"""What is to be drawn, and where: everything that the parts of a diagram must agree on.

One lane per process, causes to the left. Time is order, not clock: every event has a column of its
own, so that nothing overlaps and the slowest packet does not make the picture endless. Packets that
a process sends in one breath leave from one column.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from tidings.report.causality import Causality
from tidings.report.deeds import Deeds
from tidings.report.diagram.style import LABEL, SMALL
from tidings.report.explain import however
from tidings.report.focus import Focus, marked
from tidings.report.svg import balanced, shortened, width_of
from tidings.report.words import many
from tidings.spec import Extra, Place, Violation
from tidings.spec.evidence import place
from tidings.trace import Row

NARROWEST = 700.0
"""Smaller pictures are stretched to this width."""
MARGIN = 20.0
_LONGEST_TEXT = 18
_LONGEST_NAME = 14
_LONGEST_LINE = 66
LANE = 86.0
"""From one lane to the next."""
GAP = 24.0
"""From one column to the next, at least."""
SLOPE = 30.0
"""How far right of its send a receive stands, at least, and again some for every lane between."""
STUBS = (50.0, 30.0, 70.0, 15.0)
"""How far a packet gets that is lost: the first at which it does not lie upon one that arrives."""
_APART = math.radians(6)
"""Between two lines from one spot, at least, so that each can be seen."""


class Spot(NamedTuple):
    x: float
    y: float


def _angle(start: Spot, end: Spot) -> float:
    return math.atan2(end.y - start.y, end.x - start.x)


class Lanes:
    """The spots of all events, from x = 0 on, and y = 0 for the first lane."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        processes = scene.causality.processes
        self.y = {process: LANE * number for number, process in enumerate(processes)}
        self._x: dict[Place, float] = {}
        self._columns: set[Place] = set()
        self._label_end: dict[str, float] = {}
        self._last: dict[str, Row] = {}
        self.width = 0.0
        for row in scene.rows:
            if row.kind != "settle":
                self._place(row)
        # All settle at once, when nothing is on its way any more.
        if settled := [place(row) for row in scene.rows if row.kind == "settle"]:
            self.width += 2 * GAP
            self._columns.update(settled)
            self._x.update(dict.fromkeys(settled, self.width))

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
        is_apart = place(row) == self._scene.marked
        if before is not None and _in_one_breath(before, row) and not is_apart:
            self._x[place(row)] = self._x[place(before)]
            return
        x = self.width + GAP
        source = self._scene.causality.source(row)
        if source is not None and place(source) in self._x:
            lanes_apart = abs(self.y[source.process] - self.y[row.process]) / LANE
            x = max(x, self._x[place(source)] + SLOPE + 8 * lanes_apart)
        if before is not None and place(before) in self._scene.downs:
            x = max(x, self._x[place(before)] + 2 * GAP)
        if wide := self._scene.label_width(row):
            x = max(x, self._label_end.get(row.process, self._scene.first_label) + wide / 2 + 8)
            self._label_end[row.process] = x + wide / 2
        self._columns.add(place(row))
        self._x[place(row)] = self.width = x


def _in_one_breath(before: Row, row: Row) -> bool:
    is_over = before.kind in ("crash", "leave", "settle")
    return row.kind == "send" and before.time_ns == row.time_ns and not is_over


class Scene:
    def __init__(
        self,
        causality: Causality,
        violation: Violation | None,
        texts: Mapping[str, bytes] | None,
        focus: Focus,
        *,
        is_titled: bool = True,
    ) -> None:
        self.causality = causality
        self.manifest = causality.run.manifest
        self.violation = violation
        self.marked = marked(violation, causality) if violation else None
        self.bright = focus.bright
        self.shown = {place(row) for row in focus.rows}
        self.rows = focus.rows
        self.downs = self._downs()
        """Of each life that ended without a last word, the last event in the picture."""
        self.deeds = Deeds(causality, texts)
        # In a file a label may stand above the name of its lane. On a page names cover what is
        # scrolled below them, so labels begin right of them.
        self.first_label = -40.0 if is_titled else -14.0
        self.lanes = Lanes(self)
        names = [self.name(process) for process in causality.processes]
        self.left = 2 * MARGIN + max(width_of(name, 15) for name in names)
        right = 3 * MARGIN + max(width_of(name, 11) for name in names)
        self.lanes.stretch(NARROWEST - self.left - right)
        self.width = max(NARROWEST, self.left + self.lanes.width + right)
        self.header = self._header(focus.left_out) if is_titled else []
        self.callout = balanced(however(violation), _LONGEST_LINE) if violation else []

    def _downs(self) -> set[Place]:
        position = self.causality.position
        latest = max((position[place(row)] for row in self.rows), default=-1)
        ends = {
            (row.process, row.incarnation)
            for row in self.causality.kills
            if position[place(row)] <= latest
        }
        lasts = {(row.process, row.incarnation): place(row) for row in self.rows}
        return {where for life, where in lasts.items() if life in ends}

    # --- from top to bottom

    @property
    def under_header(self) -> float:
        return MARGIN + 20 * len(self.header) + 10

    @property
    def top(self) -> float:
        """Where the first lane runs."""
        above = self.callout_height + 10 if self.callout_is_above else 0.0
        return self.under_header + 42 + above

    @property
    def under_lanes(self) -> float:
        return self.top + LANE * (len(self.lanes.y) - 1) + 44

    @property
    def under_callout(self) -> float:
        is_below = self.violation is not None and not self.callout_is_above
        return self.under_lanes + (self.callout_height + 10 if is_below else 0.0)

    @property
    def callout_height(self) -> float:
        return 18.0 * (len(self.callout) + 1) + 16

    @property
    def callout_is_above(self) -> bool:
        """On the side of the lane that it points to."""
        if self.violation is None:
            return False
        return self.lanes.y[self.violation.process] < LANE * (len(self.lanes.y) - 1) / 2

    # --- where things are

    def down(self, row: Row) -> Spot:
        """Where the lane ends of a process that went down silently after this event."""
        x, y = self.spot(row)
        return Spot(x + GAP * 0.7, y)

    def spot(self, row: Row) -> Spot:
        x, y = self.lanes.spot(row)
        return Spot(self.left + x, self.top + y)

    def stub(self, sent: Row) -> Spot:
        """Where a packet ends that never arrives: on its way, short of the receiver's lane."""
        return self._stub(sent, self._stubs.get(self.spot(sent), STUBS[0]))

    @cached_property
    def _stubs(self) -> dict[Spot, float]:
        """For each spot from which packets never arrive, how far those get."""
        arriving: dict[Spot, list[float]] = {}
        lost: dict[Spot, list[Row]] = {}
        for row in self.rows:
            if self.never_arrives(row):
                lost.setdefault(self.spot(row), []).append(row)
            elif (source := self.source(row)) is not None:
                start = self.spot(source)
                arriving.setdefault(start, []).append(_angle(start, self.spot(row)))

        def apart(spot: Spot, far: float) -> float:
            ways = [_angle(spot, self._stub(row, far)) for row in lost[spot]]
            return min(
                (abs(way - other) for way in ways for other in arriving.get(spot, [])),
                default=math.pi,
            )

        return {
            spot: next(
                (far for far in STUBS if apart(spot, far) >= _APART),
                max(STUBS, key=lambda far: apart(spot, far)),
            )
            for spot in lost
        }

    def _stub(self, sent: Row, far: float) -> Spot:
        x, y = self.spot(sent)
        lane = self.lanes.y.get(str(sent.peer))
        away = LANE if lane is None else self.top + lane - y
        if not away:
            return Spot(x + far, y - LANE / 3)
        short = away - (LANE * 0.42 if away > 0 else -LANE * 0.42)
        return Spot(x + far + abs(away) / LANE * 6, y + short)

    def never_arrives(self, row: Row) -> bool:
        return row.kind == "send" and not self.causality.arrivals[place(row)]

    def is_on_its_way(self, row: Row) -> bool:
        return row.kind == "send" and self.causality.is_on_its_way(row)

    def source(self, row: Row) -> Row | None:
        """Where the arrow that ends at this event comes from, if it is in the picture."""
        source = self.causality.source(row)
        return source if source is not None and place(source) in self.shown else None

    def fade(self, row: Row) -> str:
        return "" if place(row) in self.bright else " faded"

    def fade_arrow(self, sent: Row, arrived: Row) -> str:
        """An arrow is as strong as its weaker end; but what is paid for is paid on sending."""
        if self.violation is not None and self.violation.guarantee is Extra.COST:
            return self.fade(sent)
        return self.fade(sent) or self.fade(arrived)

    # --- what things say

    def name(self, process: str) -> str:
        return shortened(process, _LONGEST_NAME)

    def short_text_of(self, row: Row) -> str:
        """What the message says there, as far as a label has room for it."""
        return shortened(self.deeds.text_of(row), _LONGEST_TEXT)

    def label_width(self, row: Row) -> float:
        """How wide the label of an event is; 0 for those that have none."""
        if row.kind not in ("broadcast", "deliver"):
            return 0.0
        return max(width_of(str(row.message), LABEL), width_of(self.short_text_of(row), SMALL))

    def _header(self, left_out: str) -> list[str]:
        kinds = [row.kind for row in self.causality.run.rows]
        counts = [
            many(len(self.causality.processes), "process"),
            many(kinds.count("broadcast"), "broadcast"),
            *([many(kinds.count("send"), "packet")] if self.causality.has_packets else []),
            many(crashes, "crash") if (crashes := len(self.causality.ends)) else "no crash",
        ]
        manifest, violation = self.manifest, self.violation
        facts = [
            *([manifest.protocol] if manifest.protocol is not None else []),
            f"run {manifest.run}",
            *([f"seed {manifest.seed}"] if manifest.seed is not None else []),
        ]
        lines = [", ".join(facts), ", ".join(counts)]
        if violation is not None:
            wrong = f"{violation.guarantee.capitalize()} violated at {violation.process}"
            lines = [wrong, ": ".join(lines)]
        return [*lines, left_out] if left_out else lines
