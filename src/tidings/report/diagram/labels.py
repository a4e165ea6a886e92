"""Labels: messages at their events, packets along their arrows, where there is room for them."""

import math
from collections.abc import Iterator

from tidings.report.diagram.arrows import segments
from tidings.report.diagram.lanes import LANE, Box, Spot
from tidings.report.diagram.scene import Scene
from tidings.report.diagram.style import LABEL, SMALL
from tidings.report.markup import Markup, element
from tidings.report.svg import moved, width_of
from tidings.report.words import packet_of
from tidings.spec import Place
from tidings.spec.evidence import place
from tidings.trace import Row

Line = tuple[Spot, Spot]


class Labels:
    """Puts each label where it hides least; those of packets give way."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._occupied: list[Box] = []
        self._arrows = list(segments(scene))
        self._leader = list(_leader(scene))
        self.of_messages = [self._message(row) for row in scene.rows if scene.label_width(row)]
        self.of_packets = list(self._packets())

    # --- messages

    def _message(self, row: Row) -> Markup:
        """Its name and its text, above or below the mark."""
        scene = self.scene
        x, _ = scene.spot(row)
        says = scene.short_text_of(row)
        room = self._room(row, 28.0 if says else 14.0)
        self._occupied.append(room)
        name = element(
            "text",
            str(row.message),
            class_=f"{row.kind} halo",
            x=x,
            y=room.top + 11,
            font_size=LABEL,
            font_weight=650,
        )
        return element(
            "g",
            name,
            element("text", says, class_="ink halo", x=x, y=room.top + 24, font_size=SMALL)
            if says
            else None,
            class_=f"label{scene.fade(row)}",
            text_anchor="middle",
            data_process=row.process,
            data_index=row.index,
        )

    def _room(self, row: Row, tall: float) -> Box:
        x, y = self.scene.spot(row)
        half = self.scene.label_width(row) / 2
        away = self._radius(place(row))
        above = Box(x - half, y - away - tall, x + half, y - away)
        below = Box(x - half, y + away, x + half, y + away + tall)
        return min((above, below), key=self._hidden_by)

    def _hidden_by(self, box: Box) -> int:
        """How many arrows cross it; what hides it altogether counts ten times as much."""
        crossed = sum(box.is_crossed_by(*line) for line in self._arrows)
        overlaps = sum(box.overlaps(other) for other in self._occupied)
        struck_out = sum(box.is_crossed_by(*line) for line in self._leader)
        return crossed + 10 * (overlaps + struck_out)

    def _radius(self, where: Place) -> float:
        """How much room the mark of an event takes, with the rings around it."""
        violation = self.scene.violation
        if where == self.scene.marked:
            return 18.0
        return 14.0 if violation is not None and where in violation.witness else 11.0

    # --- packets

    def _packets(self) -> Iterator[Markup]:
        """Only of those that led to the violation: the others would drown them."""
        scene = self.scene
        for row in scene.rows:
            source = scene.source(row)
            if scene.never_arrives(row) and not scene.fade(row):
                yield from self._packet(row, scene.spot(row), scene.stub(row))
            elif source is not None and not scene.fade_arrow(source, row):
                yield from self._packet(source, scene.spot(source), scene.spot(row))

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


def _leader(scene: Scene) -> Iterator[Line]:
    """The line from the ring to the callout."""
    away = -LANE if scene.callout_is_above else LANE
    for row in scene.rows:
        if place(row) == scene.marked:
            x, y = scene.spot(row)
            yield Spot(x, y), Spot(x, y + away)


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
