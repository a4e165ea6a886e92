"""Lanes, and the marks of events on them."""

from collections.abc import Iterator

from tidings.report.causality import is_in
from tidings.report.diagram.scene import MARGIN, NARROWEST, Scene
from tidings.report.diagram.style import SYMBOLS
from tidings.report.markup import Markup, element
from tidings.report.svg import moved, path
from tidings.spec import Extra
from tidings.spec.evidence import place


def lanes(scene: Scene) -> Iterator[Markup]:
    past = _ends_of_the_past(scene)
    for process, lane in scene.lanes.y.items():
        y = scene.top + lane
        name = scene.name(process)
        yield element(
            "text",
            name,
            class_="ink",
            x=MARGIN,
            y=y + 5,
            font_size=15,
            font_weight=650,
            data_process=process,
        )
        pieces = _lifetimes(process, scene)
        for begin, end in pieces:
            yield element("path", class_="lane", d=path((begin, y), (end, y)), data_process=process)
            if begin < (known := min(end, past.get(process, begin))):
                thick = path((begin, y), (known, y))
                yield element("path", class_="past", d=thick, data_process=process)
        for x in _where_names_are_repeated(pieces[-1][1], scene):
            yield element("text", name, class_="soft halo", x=x, y=y + 14, font_size=11)


def _lifetimes(process: str, scene: Scene) -> list[tuple[float, float]]:
    """The pieces of a lane: it ends at a crash, and goes on where the process comes back."""
    rows = [row for row in scene.rows if row.process == process]
    joins = bool(rows) and rows[0].kind == "join"
    begin: float | None = scene.spot(rows[0]).x if joins else scene.left - 8
    pieces = []
    for row in rows:
        if row.kind in ("crash", "leave", "settle") and begin is not None:
            pieces.append((begin, scene.spot(row).x))
            begin = None
        elif row.kind == "recover":
            begin = scene.spot(row).x
    if begin is not None:
        pieces.append((begin, scene.left + scene.lanes.width + MARGIN))
    return pieces


def _where_names_are_repeated(end: float, scene: Scene) -> Iterator[float]:
    """In a picture that must be scrolled, every lane says again whose it is."""
    if scene.width > 1.6 * NARROWEST:
        for x in range(800, int(end) - 100, 800):
            yield float(x)
        yield end + 12


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
