"""What stands on the lanes and between them: the marks of events, and packets as arrows.

An arrow leads from the send to the receipt, or to where the packet was last.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from tidings.report.causality import is_in
from tidings.report.diagram.scene import LANE, MARGIN, NARROWEST, Scene, Spot
from tidings.report.diagram.style import SYMBOLS
from tidings.report.markup import Markup, element, joined
from tidings.report.svg import moved, path
from tidings.report.words import packet_of
from tidings.spec import Extra
from tidings.spec.evidence import place
from tidings.trace import Row


def lane_names(scene: Scene) -> Iterator[Markup]:
    for process, lane in scene.lanes.y.items():
        yield element(
            "text",
            scene.name(process),
            class_="ink",
            x=MARGIN,
            y=scene.top + lane + 5,
            font_size=15,
            font_weight=650,
            data_process=process,
        )


def lanes(scene: Scene) -> Iterator[Markup]:
    yield from lane_names(scene)
    past = _ends_of_the_past(scene)
    for process, lane in scene.lanes.y.items():
        y = scene.top + lane
        name = scene.name(process)
        pieces = _lifetimes(process, scene)
        for begin, end in pieces:
            yield element("path", class_="lane", d=path((begin, y), (end, y)), data_process=process)
            if begin < (known := min(end, past.get(process, begin))):
                thick = path((begin, y), (known, y))
                yield element("path", class_="past", d=thick, data_process=process)
        if pieces and scene.width > 1.6 * NARROWEST:
            # In a picture that must be scrolled, every lane says again whose it is.
            end = pieces[-1][1]
            for x in (*range(800, int(end) - 100, 800), end + 12):
                yield element("text", name, class_="soft halo whose", x=x, y=y + 14, font_size=11)


def _lifetimes(process: str, scene: Scene) -> list[tuple[float, float]]:
    """The pieces of a lane: it ends at a crash, and goes on where the process comes back."""
    rows = [row for row in scene.rows if row.process == process]
    joins = bool(rows) and rows[0].kind == "join"
    begin: float | None = scene.spot(rows[0]).x if joins else scene.left - 8
    causality = scene.causality
    if scene.rows and causality.is_down(process, causality.position[place(scene.rows[0])]):
        begin = None
    pieces = []
    for row in rows:
        if place(row) in scene.downs and begin is not None:
            pieces.append((begin, scene.down(row).x))
            begin = None
        elif row.kind in ("crash", "leave", "settle") and begin is not None:
            pieces.append((begin, scene.spot(row).x))
            begin = None
        elif row.kind == "recover":
            begin = scene.spot(row).x
    if begin is not None:
        pieces.append((begin, scene.left + scene.lanes.width + MARGIN))
    return pieces


def _ends_of_the_past(scene: Scene) -> dict[str, float]:
    """How far each lane belongs to the past of the violation."""
    if scene.violation is None:
        return {}
    past = scene.causality.past(scene.violation.witness)
    is_cost = scene.violation.guarantee is Extra.COST
    return {
        row.process: scene.spot(row).x
        for row in scene.rows
        if is_in(row, past) or (is_cost and place(row) in scene.bright)
    }


def marks(scene: Scene) -> Iterator[Markup]:
    for row in scene.rows:
        if scene.lanes.has_column(row):
            x, y = scene.spot(row)
            yield element(
                "g",
                element("title", f"{place(row)} {scene.deeds.deed(row)}"),
                SYMBOLS[row.kind],
                class_=f"event{scene.fade(row)}",
                transform=moved(x, y),
                data_kind=row.kind,
                data_process=row.process,
                data_index=row.index,
                data_message=str(row.message) if row.origin else None,
            )
        if place(row) in scene.downs:
            yield element(
                "g",
                element("title", f"{row.process} goes down, without a last word"),
                SYMBOLS["crash"],
                class_=f"down{scene.fade(row)}",
                transform=moved(*scene.down(row)),
                data_process=row.process,
                data_index=row.index,
            )


# --- packets


def arrows(scene: Scene) -> Iterator[Markup]:
    for row in scene.rows:
        if scene.never_arrives(row):
            yield _stub(row, scene)
        elif place(row) == scene.marked and row.kind == "send":
            yield from _guilty(row, scene)
        elif (source := scene.source(row)) is not None and place(source) != scene.marked:
            yield _arrow(source, row, scene)


class Segment(NamedTuple):
    """Where the arrow of a packet runs."""

    sent: Row
    arrived: Row | None
    start: Spot
    end: Spot
    is_faded: bool


def segments(scene: Scene) -> Iterator[Segment]:
    for row in scene.rows:
        source = scene.source(row)
        if source is not None:
            is_faded = bool(scene.fade_arrow(source, row))
            yield Segment(source, row, scene.spot(source), scene.spot(row), is_faded)
        elif scene.never_arrives(row):
            yield Segment(row, None, scene.spot(row), scene.stub(row), bool(scene.fade(row)))


def _arrow(sent: Row, arrived: Row, scene: Scene, kind: str = "packet") -> Markup:
    start, end = scene.spot(sent), scene.spot(arrived)
    what = packet_of(sent) if sent.kind == "send" else str(sent.message)
    return element(
        "path",
        element("title", f"{what} {place(sent)} → {place(arrived)}"),
        class_=kind if "guilty" in kind else f"{kind}{scene.fade_arrow(sent, arrived)}",
        d=arrow(start, _short_of(start, end, 9 if arrived.kind == "deliver" else 4)),
        data_process=sent.process,
        data_index=sent.index,
        data_to=arrived.process,
        data_to_index=arrived.index,
        data_message=str(sent.message) if sent.origin else None,
    )


def _guilty(sent: Row, scene: Scene) -> Iterator[Markup]:
    """The one packet too many: strong, even where its arrival is left out of the picture."""
    arrivals = [row for row in scene.causality.arrivals[place(sent)] if place(row) in scene.shown]
    for arrived in arrivals:
        yield _arrow(sent, arrived, scene, "packet guilty")
    if not arrivals:
        yield element(
            "path",
            element("title", f"{packet_of(sent)} {place(sent)} → {sent.peer}"),
            class_="packet guilty",
            d=arrow(scene.spot(sent), scene.stub(sent)),
            data_process=sent.process,
            data_index=sent.index,
            data_to=sent.peer,
        )


def _stub(sent: Row, scene: Scene) -> Markup:
    """A packet that never arrives: lost, or on its way when the run was cut short."""
    start, end = scene.spot(sent), scene.stub(sent)
    guilty = " guilty" if place(sent) == scene.marked else ""
    is_on_its_way = scene.is_on_its_way(sent)
    return element(
        "g",
        element(
            "title", f"{packet_of(sent)} {place(sent)} → {sent.peer}: {scene.causality.loss(sent)}"
        ),
        open_end(start, end, guilty) if is_on_its_way else dead_end(start, end, guilty),
        class_=f"{'on-its-way' if is_on_its_way else 'loss'}{scene.fade(sent)}",
        data_process=sent.process,
        data_index=sent.index,
        data_to=sent.peer,
        data_message=str(sent.message) if sent.origin else None,
    )


def open_end(start: Spot, end: Spot, guilty: str = "") -> Markup:
    """A line that stops at an open ring: it may yet go on."""
    return joined(
        element("path", class_=f"packet{guilty}", d=path(start, _short_of(start, end, 4))),
        element("circle", class_=f"packet open{guilty}", cx=end.x, cy=end.y, r=4),
    )


def dead_end(start: Spot, end: Spot, guilty: str = "", size: float = 5) -> Markup:
    x, y = end
    falling = path((x - size, y - size), (x + size, y + size))
    rising = path((x - size, y + size), (x + size, y - size))
    return joined(
        element("path", class_=f"lost{guilty}", d=path(start, end)),
        element("path", class_=f"lost cross{guilty}", d=falling + rising),
    )


def _short_of(start: Spot, end: Spot, distance: float) -> Spot:
    share = max(0.0, 1 - distance / (math.dist(start, end) or 1.0))
    return Spot(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)


def arrow(start: Spot, end: Spot) -> str:
    """A line with a head; to oneself, a small bow above the lane."""
    if start.y == end.y:
        middle = Spot((start.x + end.x) / 2, start.y - LANE / 4)
        # There and back: a path that encloses nothing is not filled.
        return path(start, middle, end, middle) + _head(middle, end)
    return path(start, end) + _head(start, end)


def _head(start: Spot, end: Spot) -> str:
    angle = math.atan2(end.y - start.y, end.x - start.x)
    wings = [
        (end.x - 9 * math.cos(angle + turn), end.y - 9 * math.sin(angle + turn))
        for turn in (0.35, -0.35)
    ]
    return path(end, *wings) + "Z"
