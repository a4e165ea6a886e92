"""Labels: messages at their events, packets along their arrows, where there is room for them."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from tidings.report.diagram.marks import Segment, segments
from tidings.report.diagram.scene import LANE, Scene, Spot
from tidings.report.diagram.style import LABEL, SMALL
from tidings.report.markup import Markup, element
from tidings.report.svg import moved, width_of
from tidings.report.words import packet_of
from tidings.spec.evidence import place
from tidings.trace import Row


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


def _around(spot: Spot) -> Box:
    """What stands there, or the head of an arrow that ends there."""
    return Box(spot.x - 8, spot.y - 8, spot.x + 8, spot.y + 8)


class Labels:
    """Puts each label where it hides least; those of packets give way."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._occupied: list[Box] = []
        self._arrows = list(segments(scene))
        ends = [spot for arrow in self._arrows for spot in (arrow.start, arrow.end)]
        marks = [scene.spot(row) for row in scene.rows if scene.lanes.has_column(row)]
        self._marks = {spot: _around(spot) for spot in (*ends, *marks)}
        # The line from the ring to the callout.
        away = -LANE if scene.callout_is_above else LANE
        rings = [scene.spot(row) for row in scene.rows if place(row) == scene.marked]
        self._leader = [(ring, Spot(ring.x, ring.y + away)) for ring in rings]
        self.of_messages = [self._message(row) for row in scene.rows if scene.label_width(row)]
        # Only of those that led to the violation: the others would drown them.
        strong = [arrow for arrow in self._arrows if not arrow.is_faded]
        self.of_packets = [label for arrow in strong for label in self._packet(arrow)]

    # --- messages

    def _message(self, row: Row) -> Markup:
        """Its name and its text, above or below the mark."""
        x, _ = self.scene.spot(row)
        says = self.scene.short_text_of(row)
        room = self._room(row, 28.0 if says else 14.0)
        self._occupied.append(room)
        return element(
            "g",
            element(
                "text",
                str(row.message),
                class_=f"{row.kind} halo",
                x=x,
                y=room.top + 11,
                font_size=LABEL,
                font_weight=650,
            ),
            element("text", says, class_="ink halo", x=x, y=room.top + 24, font_size=SMALL)
            if says
            else None,
            class_=f"label{self.scene.fade(row)}",
            text_anchor="middle",
            data_process=row.process,
            data_index=row.index,
        )

    def _room(self, row: Row, tall: float) -> Box:
        x, y = self.scene.spot(row)
        half = self.scene.label_width(row) / 2
        # How much room the mark of the event takes, with the rings around it.
        is_witness = self.scene.violation and place(row) in self.scene.violation.witness
        away = 18.0 if place(row) == self.scene.marked else 14.0 if is_witness else 11.0
        above = Box(x - half, y - away - tall, x + half, y - away)
        below = Box(x - half, y + away, x + half, y + away + tall)
        return min((above, below), key=self._hidden_by)

    def _hidden_by(self, box: Box) -> int:
        """How many arrows cross it; what hides it altogether counts ten times as much."""
        crossed = sum(box.is_crossed_by(arrow.start, arrow.end) for arrow in self._arrows)
        overlaps = sum(box.overlaps(other) for other in self._occupied)
        return crossed + 10 * (overlaps + sum(box.is_crossed_by(*line) for line in self._leader))

    # --- packets

    def _packet(self, arrow: Segment) -> Iterator[Markup]:
        sent, arrived, start, end, _ = arrow
        words = packet_of(sent) if sent.kind == "send" else str(sent.message)
        wide = width_of(words, SMALL)
        angle = math.atan2(end.y - start.y, end.x - start.x)
        free = [
            slanted
            for share in (0.5, 0.4, 0.6, 0.3, 0.7)
            if wide / 2 + 10 <= math.dist(start, end) * min(share, 1 - share)
            if self._is_free(slanted := Slanted(_between(start, end, share), angle, wide), arrow)
        ]
        if not free:
            return
        chosen = min(free, key=lambda slanted: self._crossings(slanted, arrow))
        self._occupied += chosen.pieces
        yield element(
            "text",
            words,
            class_="soft halo",
            font_size=SMALL,
            text_anchor="middle",
            transform=f"{moved(*chosen.spot)} rotate({math.degrees(angle):.1f})",
            dy=-4,
            data_process=sent.process,
            data_index=sent.index,
            data_to=arrived.process if arrived else None,
            data_to_index=arrived.index if arrived else None,
        )

    def _is_free(self, slanted: "Slanted", arrow: Segment) -> bool:
        """Whether it hides no other label, and nothing but the ends of its own arrow."""
        marks = [box for spot, box in self._marks.items() if spot not in (arrow.start, arrow.end)]
        return not any(
            piece.overlaps(box) for piece in slanted.pieces for box in (*self._occupied, *marks)
        )

    def _crossings(self, slanted: "Slanted", arrow: Segment) -> int:
        return sum(
            _cross(slanted.begin, slanted.end, other.start, other.end)
            for other in self._arrows
            if other is not arrow
        )


class Slanted:
    """A label along an arrow, on its left as one goes, around this spot."""

    def __init__(self, spot: Spot, angle: float, wide: float) -> None:
        self.spot = spot
        self._angle = angle
        self.begin, self.end = self._at(-wide / 2), self._at(wide / 2)
        count = max(2, round(wide / 9))
        middles = [self._at(wide * ((number + 0.5) / count - 0.5)) for number in range(count)]
        self.pieces = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in middles]
        """It as a row of small boxes, by which overlaps are found."""

    def _at(self, along: float) -> Spot:
        """A spot of the line through the middle of its letters."""
        cos, sin = math.cos(self._angle), math.sin(self._angle)
        return Spot(self.spot.x + along * cos + 7 * sin, self.spot.y + along * sin - 7 * cos)


def _between(start: Spot, end: Spot, share: float) -> Spot:
    return Spot(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)


def _cross(one: Spot, two: Spot, three: Spot, four: Spot) -> bool:
    """Whether the line from one to two crosses that from three to four."""

    def side(start: Spot, end: Spot, spot: Spot) -> bool:
        """On which side of a line a spot lies."""
        across = (end.x - start.x) * (spot.y - start.y)
        return across > (end.y - start.y) * (spot.x - start.x)

    is_between = side(one, two, three) != side(one, two, four)
    return is_between and side(three, four, one) != side(three, four, two)
