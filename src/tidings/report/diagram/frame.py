"""What stands around the lanes: the header, the violation's callout, the legend."""

from collections.abc import Iterator

from tidings.report.diagram.arrows import arrow, dead_end, open_end
from tidings.report.diagram.lanes import Spot
from tidings.report.diagram.scene import MARGIN, Scene
from tidings.report.diagram.style import MEANINGS, SYMBOLS, WORDS
from tidings.report.explain import shows_at
from tidings.report.markup import Markup, element
from tidings.report.svg import path, width_of
from tidings.spec import Violation
from tidings.spec.evidence import place


def header(scene: Scene) -> Iterator[Markup]:
    first, *others = scene.header
    yield element(
        "text", first, class_="ink", x=MARGIN, y=MARGIN + 14, font_size=17, font_weight=650
    )
    for number, line in enumerate(others, start=1):
        yield element(
            "text", line, class_="soft", x=MARGIN, y=MARGIN + 14 + 20 * number, font_size=12
        )


# --- the violation


def accusation(scene: Scene) -> Iterator[Markup]:
    """Rings around the events that prove it, and words that cannot be overlooked."""
    if scene.violation is None:
        return
    spots = {place(row): scene.spot(row) for row in scene.rows}
    for where in scene.violation.witness:
        if where in spots:
            x, y = spots[where]
            yield element("circle", class_="ring witness", cx=x, cy=y, r=11)
    if scene.marked in spots:
        x, y = spots[scene.marked]
        if shows_at(scene.violation) is None:
            # Here a delivery should have been.
            yield element("circle", class_="ghost", cx=x, cy=y, r=7.5)
        yield element("circle", class_="ring", cx=x, cy=y, r=14, data_violation="yes")
        yield from _callout(scene.violation, Spot(x, y), scene)


def _callout(violation: Violation, ring: Spot, scene: Scene) -> Iterator[Markup]:
    head = f"{violation.guarantee.capitalize()} violated"
    wide = 28 + max(width_of(line, WORDS) for line in (*scene.callout, f"{head}  "))
    left = min(max(MARGIN, ring.x - wide / 2), scene.width - MARGIN - wide)
    if scene.callout_is_above:
        top = scene.under_header
        leader = path((ring.x, top + scene.callout_height), (ring.x, ring.y - 14))
    else:
        top = scene.under_lanes
        leader = path((ring.x, ring.y + 14), (ring.x, top))
    yield element("path", class_="ring leader", d=leader)
    yield element(
        "rect", class_="callout", x=left, y=top, width=wide, height=scene.callout_height, rx=6
    )
    yield element(
        "text", head, class_="wrong", x=left + 14, y=top + 22, font_size=WORDS, font_weight=650
    )
    for number, line in enumerate(scene.callout):
        yield element(
            "text", line, class_="ink", x=left + 14, y=top + 40 + 18 * number, font_size=WORDS
        )


# --- the legend


def entries(scene: Scene) -> Iterator[tuple[Markup, str]]:
    """The symbols in the picture, each around its own middle, and what they mean."""
    kinds = {row.kind for row in scene.rows}
    for kind, words in MEANINGS.items():
        if kind in kinds:
            yield SYMBOLS[kind], words
    if any(scene.source(row) for row in scene.rows):
        what = "packet" if scene.causality.has_packets else "message"
        yield element("path", class_="packet", d=arrow(Spot(-10, 4), Spot(10, -4))), what
    if any(scene.is_on_its_way(row) for row in scene.rows):
        yield open_end(Spot(-10, 0), Spot(7, 0)), "on its way"
    if any(scene.is_lost(row) for row in scene.rows):
        yield dead_end(Spot(-10, 0), Spot(6, 0), size=4), "lost packet"
    if scene.violation is not None:
        yield element("circle", class_="ring", r=8), "the violation"
        yield element("circle", class_="ring witness", r=8), "events that prove it"
        yield element("path", class_="past", d=path((-10, 0), (10, 0))), "what came before it"
