"""Packets: arrows from the send to the receipt, or to where the packet was last."""

import math
from collections.abc import Iterator

from tidings.report.diagram.lanes import LANE, Spot
from tidings.report.diagram.scene import Scene
from tidings.report.markup import Markup, element, joined
from tidings.report.svg import path
from tidings.report.words import packet_of
from tidings.spec.evidence import place
from tidings.trace import Row


def arrows(scene: Scene) -> Iterator[Markup]:
    for row in scene.rows:
        if scene.never_arrives(row):
            yield _stub(row, scene)
        elif place(row) == scene.marked and row.kind == "send":
            yield from _guilty(row, scene)
        elif (source := scene.source(row)) is not None and place(source) != scene.marked:
            yield _arrow(source, row, scene)


def segments(scene: Scene) -> Iterator[tuple[Spot, Spot]]:
    """Where the arrows run."""
    for row in scene.rows:
        source = scene.source(row)
        if source is not None:
            yield scene.spot(source), scene.spot(row)
        elif scene.never_arrives(row):
            yield scene.spot(row), scene.stub(row)


def _arrow(sent: Row, arrived: Row, scene: Scene, kind: str = "packet") -> Markup:
    start, end = scene.spot(sent), scene.spot(arrived)
    what = packet_of(sent) if sent.kind == "send" else str(sent.message)
    faded = "" if "guilty" in kind else scene.fade_arrow(sent, arrived)
    return element(
        "path",
        element("title", f"{what} {place(sent)} → {place(arrived)}"),
        class_=f"{kind}{faded}",
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
    line = element("path", class_=f"packet{guilty}", d=path(start, _short_of(start, end, 4)))
    ring = element("circle", class_=f"packet open{guilty}", cx=end.x, cy=end.y, r=4)
    return joined(line, ring)


def dead_end(start: Spot, end: Spot, guilty: str = "", size: float = 5) -> Markup:
    line = element("path", class_=f"lost{guilty}", d=path(start, end))
    return joined(line, element("path", class_=f"lost cross{guilty}", d=cross(end, size)))


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


def cross(at: Spot, size: float) -> str:
    x, y = at
    falling = path((x - size, y - size), (x + size, y + size))
    return falling + path((x - size, y + size), (x + size, y - size))


def _head(start: Spot, end: Spot) -> str:
    angle = math.atan2(end.y - start.y, end.x - start.x)
    wings = [
        (end.x - 9 * math.cos(angle + turn), end.y - 9 * math.sin(angle + turn))
        for turn in (0.35, -0.35)
    ]
    return path(end, *wings) + "Z"
