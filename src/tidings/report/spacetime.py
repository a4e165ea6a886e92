"""A run as a picture: one lane per process, packets as arrows, the violation ringed in red.

The picture is one self-contained SVG: no script, no font to fetch, light or dark as the reader
prefers. What led to the violation is drawn strongly and the rest faded. Every mark and arrow says
in ``data-`` attributes which event it is, so that a page around it can light up others.
"""

from collections.abc import Iterator, Mapping

from tidings.report.causality import Causality
from tidings.report.diagram.labels import Labels
from tidings.report.diagram.marks import (
    arrow,
    arrows,
    dead_end,
    lane_names,
    lanes,
    marks,
    open_end,
)
from tidings.report.diagram.scene import MARGIN, NARROWEST, Scene, Spot
from tidings.report.diagram.style import MEANINGS, STYLESHEET, SYMBOLS, WORDS
from tidings.report.explain import however, shows_at
from tidings.report.focus import focus
from tidings.report.markup import Markup, element
from tidings.report.svg import drawing, legend, path, width_of
from tidings.report.words import listed
from tidings.spec import Violation
from tidings.spec.evidence import place
from tidings.trace import Run

MOST_EVENTS = 400
"""Runs with more are drawn in part."""


def spacetime(
    run: Run,
    violation: Violation | None = None,
    *,
    texts: Mapping[str, bytes] | None = None,
    most_events: int = MOST_EVENTS,
) -> str:
    """The diagram of a run as one SVG document.

    ``texts`` are the messages by their digests; without them those of the schedule are used.
    """
    causality = Causality(run)
    scene = Scene(causality, violation, texts, focus(causality, violation, most_events))
    signs, height = legend(
        entries(scene), MARGIN + 10, scene.under_callout + 28, NARROWEST - MARGIN
    )
    drawn = drawing(
        element("title", scene.header[0], id="spacetime-title"),
        element("desc", description(scene), id="spacetime-desc"),
        element("style", Markup(STYLESHEET)),
        element("rect", class_="paper", width=scene.width, height=height),
        element("g", *header(scene), class_="header"),
        *_layers(scene),
        signs,
        class_="spacetime",
        width=scene.width,
        height=height,
        aria_labelledby="spacetime-title spacetime-desc",
        data_run=scene.manifest.run,
    )
    return f"{drawn}\n"


def figure(scene: Scene) -> Markup:
    """The same inside a page, which brings the stylesheet, the words and the legend.

    It has no title element: a browser would show that wherever the pointer rests.
    """
    return drawing(
        *_layers(scene),
        class_="spacetime",
        width=scene.width,
        height=scene.under_callout + MARGIN / 2,
        aria_label=description(scene),
        data_run=scene.manifest.run,
    )


def names(scene: Scene) -> Markup:
    """The names of the lanes alone, to stay in view where the figure is scrolled."""
    height, width = scene.under_callout + MARGIN / 2, scene.left - 10
    return drawing(
        element("rect", class_="paper", width=width, height=height),
        *lane_names(scene),
        class_="spacetime names",
        width=width,
        height=height,
        aria_hidden="true",
    )


def symbols(scene: Scene) -> list[tuple[Markup, str]]:
    """The legend of such a figure: each symbol as a drawing of its own, and its meaning."""
    return [
        (
            element("svg", symbol, class_="spacetime", viewBox="-14 -12 28 24", aria_hidden="true"),
            words,
        )
        for symbol, words in entries(scene)
    ]


def _layers(scene: Scene) -> Iterator[Markup]:
    labels = Labels(scene)
    yield element("g", *lanes(scene), class_="lanes")
    yield element("g", *arrows(scene), class_="packets")
    yield element("g", *labels.of_packets, class_="packet-labels")
    yield element("g", *marks(scene), class_="events")
    yield element("g", *labels.of_messages, class_="labels")
    yield element("g", *accusation(scene), class_="violation")


def description(scene: Scene) -> str:
    words = f"A space-time diagram of {listed(scene.causality.processes)}, one lane each."
    return f"{words} {however(scene.violation)}" if scene.violation else words


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
    if scene.downs:
        kinds.add("crash")
    for kind, words in MEANINGS.items():
        if kind in kinds:
            yield SYMBOLS[kind], words
    if any(scene.source(row) for row in scene.rows):
        what = "packet" if scene.causality.has_packets else "message"
        yield element("path", class_="packet", d=arrow(Spot(-10, 4), Spot(10, -4))), what
    if any(scene.is_on_its_way(row) for row in scene.rows):
        yield open_end(Spot(-10, 0), Spot(7, 0)), "on its way"
    if any(scene.never_arrives(row) and not scene.is_on_its_way(row) for row in scene.rows):
        yield dead_end(Spot(-10, 0), Spot(6, 0), size=4), "lost packet"
    if scene.violation is not None:
        yield element("circle", class_="ring", r=8), "the violation"
        yield element("circle", class_="ring witness", r=8), "events that prove it"
        yield element("path", class_="past", d=path((-10, 0), (10, 0))), "what came before it"
