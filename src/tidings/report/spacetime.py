"""A run as a picture: one lane per process, packets as arrows, the violation ringed in red.

The picture is one self-contained SVG: no script, no font to fetch, light or dark as the reader
prefers. What led to the violation is drawn strongly and the rest faded. Every mark and arrow says
in ``data-`` attributes which event it is, so that a page around it can light up others.
"""

from collections.abc import Mapping
from xml.sax.saxutils import escape

from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.diagram.arrows import arrows
from tidings.report.diagram.events import lanes, marks
from tidings.report.diagram.frame import accusation, header, legend
from tidings.report.diagram.labels import Labels
from tidings.report.diagram.scene import Scene
from tidings.report.diagram.style import stylesheet
from tidings.report.diagram.svg import element
from tidings.report.explain import however
from tidings.report.focus import focus
from tidings.report.words import listed, printable
from tidings.spec import Violation
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
    known = schedule.texts(run.manifest) if texts is None else texts
    scene = Scene(causality, violation, known, focus(causality, violation, most_events))
    labels = Labels(scene)
    symbols, height = legend(scene)
    layers = [
        element("title", escape(printable(scene.header[0])), id="spacetime-title"),
        element("desc", escape(printable(_description(scene))), id="spacetime-desc"),
        element("style", stylesheet()),
        element("rect", class_="paper", width=scene.width, height=height),
        element("g", *header(scene), class_="header"),
        element("g", *lanes(scene), class_="lanes"),
        element("g", *arrows(scene), class_="packets"),
        element("g", *labels.of_packets, class_="packet-labels"),
        element("g", *marks(scene), class_="events"),
        element("g", *labels.of_messages, class_="labels"),
        element("g", *accusation(scene), class_="violation"),
        symbols,
    ]
    document = element(
        "svg",
        *(f"\n{layer}" for layer in layers),
        "\n",
        xmlns="http://www.w3.org/2000/svg",
        class_="spacetime",
        viewBox=f"0 0 {scene.width:.0f} {height:.0f}",
        width=f"{scene.width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_labelledby="spacetime-title spacetime-desc",
        data_run=run.manifest.run,
    )
    return f"{document}\n"


def _description(scene: Scene) -> str:
    told = f"A space-time diagram of {listed(scene.causality.processes)}, one lane each."
    return f"{told} {however(scene.violation)}" if scene.violation else told
