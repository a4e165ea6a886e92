"""Labels: messages at their events, packets along their arrows, where there is room for them."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from tidings.report.diagram.marks import segments
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


class Labels:
    """Puts each label where it hides least; those of packets give way."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._occupied: list[Box] = []
        self._arrows = list(segments(scene))
        # The line from the ring to the callout.
        away = -LANE if scene.callout_is_above else LANE
        rings = [scene.spot(row) for row in scene.rows if place(row) == scene.marked]
        self._leader = [(ring, Spot(ring.x, ring.y + away)) for ring in rings]
        self.of_messages = [self._message(row) for row in scene.rows if scene.label_width(row)]
        # Only of those that led to the violation: the others would drown them.
        strong = [(sent, start, end) for sent, start, end, faded in self._arrows if not faded]
        self.of_packets = [label for packet in strong for label in self._packet(*packet)]

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
        crossed = sum(box.is_crossed_by(start, end) for _, start, end, _ in self._arrows)
        overlaps = sum(box.overlaps(other) for other in self._occupied)
        return crossed + 10 * (overlaps + sum(box.is_crossed_by(*line) for line in self._leader))

    # --- packets

    def _packet(self, sent: Row, start: Spot, end: Spot) -> Iterator[Markup]:
        words = packet_of(sent) if sent.kind == "send" else str(sent.message)
        wide = width_of(words, SMALL)
        angle = math.atan2(end.y - start.y, end.x - start.x)
        for share in (0.5, 0.4, 0.6, 0.3, 0.7):
            if wide / 2 + 10 > math.dist(start, end) * min(share, 1 - share):
                continue
            x = start.x + (end.x - start.x) * share
            y = start.y + (end.y - start.y) * share
            pieces = _pieces(x, y, angle, wide)
            if any(piece.overlaps(box) for piece in pieces for box in self._occupied):
                continue
            self._occupied += pieces
            yield element(
                "text",
                words,
                class_="soft halo",
                font_size=SMALL,
                text_anchor="middle",
                transform=f"{moved(x, y)} rotate({math.degrees(angle):.1f})",
                dy=-4,
                data_process=sent.process,
                data_index=sent.index,
            )
            return


def _pieces(x: float, y: float, angle: float, wide: float) -> list[Box]:
    """A slanted label as a row of small boxes, by which overlaps are found."""
    count = max(2, round(wide / 9))
    pieces = []
    for number in range(count):
        along = wide * ((number + 0.5) / count - 0.5)
        px = x + along * math.cos(angle) + 7 * math.sin(angle)
        py = y + along * math.sin(angle) - 7 * math.cos(angle)
        pieces.append(Box(px - 5, py - 5, px + 5, py + 5))
    return pieces
