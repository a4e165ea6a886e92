"""A diagram put together: as a file of its own, or as a figure of a page around it."""

from collections.abc import Iterator

from tidings.report.diagram.arrows import arrows
from tidings.report.diagram.events import lanes, marks
from tidings.report.diagram.frame import accusation, entries, header
from tidings.report.diagram.labels import Labels
from tidings.report.diagram.scene import MARGIN, NARROWEST, Scene
from tidings.report.diagram.style import stylesheet
from tidings.report.explain import however
from tidings.report.markup import Markup, element
from tidings.report.svg import drawing, legend
from tidings.report.words import listed


def document(scene: Scene) -> str:
    """One self-contained SVG document."""
    symbols, height = legend(
        entries(scene), MARGIN + 10, scene.under_callout + 28, NARROWEST - MARGIN
    )
    drawn = drawing(
        element("title", scene.header[0], id="spacetime-title"),
        element("desc", description(scene), id="spacetime-desc"),
        element("style", Markup(stylesheet())),
        element("rect", class_="paper", width=scene.width, height=height),
        element("g", *header(scene), class_="header"),
        *_layers(scene),
        symbols,
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
