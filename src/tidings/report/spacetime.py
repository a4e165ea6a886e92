"""A run as a picture: one lane per process, packets as arrows, the violation ringed in red.

The picture is one self-contained SVG: no script, no font to fetch, light or dark as the reader
prefers. What led to the violation is drawn strongly and the rest faded. Every mark and arrow says
in ``data-`` attributes which event it is, so that a page around it can light up others.
"""

from collections.abc import Mapping

from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.diagram.document import document
from tidings.report.diagram.scene import Scene
from tidings.report.focus import focus
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
    return document(Scene(causality, violation, known, focus(causality, violation, most_events)))
