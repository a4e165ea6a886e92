"""What is to be drawn, and where: everything that the parts of a diagram must agree on."""

from collections.abc import Mapping

from tidings.report.causality import Causality
from tidings.report.deeds import Deeds
from tidings.report.diagram.lanes import LANE, Lanes, Spot, stub
from tidings.report.diagram.style import LABEL, SMALL
from tidings.report.explain import however
from tidings.report.focus import Focus, marked
from tidings.report.svg import balanced, shortened, width_of
from tidings.report.words import many
from tidings.spec import Extra, Violation
from tidings.spec.evidence import place
from tidings.trace import Row

NARROWEST = 700.0
"""Smaller pictures are stretched to this width."""
MARGIN = 20.0
_LONGEST_TEXT = 18
_LONGEST_NAME = 14
_LONGEST_LINE = 66


class Scene:
    def __init__(
        self,
        causality: Causality,
        violation: Violation | None,
        texts: Mapping[str, bytes],
        focus: Focus,
        *,
        is_titled: bool = True,
    ) -> None:
        self.causality = causality
        self.manifest = causality.run.manifest
        self.violation = violation
        self.marked = marked(violation, causality) if violation else None
        self.bright = focus.bright
        self.shown = {place(row) for row in focus.rows}
        self.rows = [row for row in focus.rows if self._leads_somewhere(row)]
        self.deeds = Deeds(causality, texts)
        self.lanes = Lanes(causality.processes, self.rows, causality, self.label_width, self.marked)
        names = [self.name(process) for process in causality.processes]
        self.left = 2 * MARGIN + max(width_of(name, 15) for name in names)
        right = 3 * MARGIN + max(width_of(name, 11) for name in names)
        self.lanes.stretch(NARROWEST - self.left - right)
        self.width = max(NARROWEST, self.left + self.lanes.width + right)
        self.header = self._header(focus.left_out) if is_titled else []
        self.callout = balanced(however(violation), _LONGEST_LINE) if violation else []

    def _leads_somewhere(self, row: Row) -> bool:
        """Not a packet whose arrival is left out, unless it is what all this is about."""
        if row.kind != "send" or place(row) == self.marked:
            return True
        arrivals = self.causality.arrivals[place(row)]
        return not arrivals or any(place(one) in self.shown for one in arrivals)

    # --- from top to bottom

    @property
    def under_header(self) -> float:
        return MARGIN + 20 * len(self.header) + 10

    @property
    def top(self) -> float:
        """Where the first lane runs."""
        above = self.callout_height + 10 if self.callout_is_above else 0.0
        return self.under_header + 42 + above

    @property
    def under_lanes(self) -> float:
        return self.top + LANE * (len(self.lanes.y) - 1) + 44

    @property
    def under_callout(self) -> float:
        is_below = self.violation is not None and not self.callout_is_above
        return self.under_lanes + (self.callout_height + 10 if is_below else 0.0)

    @property
    def callout_height(self) -> float:
        return 18.0 * (len(self.callout) + 1) + 16

    @property
    def callout_is_above(self) -> bool:
        """On the side of the lane that it points to."""
        if self.violation is None:
            return False
        return self.lanes.y[self.violation.process] < LANE * (len(self.lanes.y) - 1) / 2

    # --- where things are

    def spot(self, row: Row) -> Spot:
        x, y = self.lanes.spot(row)
        return Spot(self.left + x, self.top + y)

    def stub(self, sent: Row) -> Spot:
        """Where the arrow of a packet ends that never arrives."""
        lanes = {process: self.top + y for process, y in self.lanes.y.items()}
        return stub(self.spot(sent), lanes, str(sent.peer))

    def never_arrives(self, row: Row) -> bool:
        return row.kind == "send" and not self.causality.arrivals[place(row)]

    def is_on_its_way(self, row: Row) -> bool:
        return row.kind == "send" and self.causality.is_on_its_way(row)

    def is_lost(self, row: Row) -> bool:
        return self.never_arrives(row) and not self.is_on_its_way(row)

    def source(self, row: Row) -> Row | None:
        """Where the arrow that ends at this event comes from, if it is in the picture."""
        source = self.causality.source(row)
        return source if source is not None and place(source) in self.shown else None

    def fade(self, row: Row) -> str:
        return "" if place(row) in self.bright else " faded"

    def fade_arrow(self, sent: Row, arrived: Row) -> str:
        """An arrow is as strong as its weaker end; but what is paid for is paid on sending."""
        if self.violation is not None and self.violation.guarantee is Extra.COST:
            return self.fade(sent)
        return self.fade(sent) or self.fade(arrived)

    # --- what things say

    def name(self, process: str) -> str:
        return shortened(process, _LONGEST_NAME)

    def short_text_of(self, row: Row) -> str:
        """What the message says there, as far as a label has room for it."""
        return shortened(self.deeds.text_of(row), _LONGEST_TEXT)

    def label_width(self, row: Row) -> float:
        """How wide the label of an event is; 0 for those that have none."""
        if row.kind not in ("broadcast", "deliver"):
            return 0.0
        return max(width_of(str(row.message), LABEL), width_of(self.short_text_of(row), SMALL))

    def _header(self, left_out: str) -> list[str]:
        kinds = [row.kind for row in self.causality.run.rows]
        counts = [
            many(len(self.causality.processes), "process"),
            many(kinds.count("broadcast"), "broadcast"),
            *([many(kinds.count("send"), "packet")] if self.causality.has_packets else []),
            many(kinds.count("crash"), "crash") if "crash" in kinds else "no crash",
        ]
        facts = f"run {self.manifest.run}"
        if self.manifest.seed is not None:
            facts += f", seed {self.manifest.seed}"
        if self.manifest.protocol is not None:
            facts = f"{self.manifest.protocol}, {facts}"
        lines = [facts, ", ".join(counts)]
        if self.violation is not None:
            wrong = f"{self.violation.guarantee.capitalize()} violated at {self.violation.process}"
            lines = [wrong, f"{facts}: {', '.join(counts)}"]
        return [*lines, left_out] if left_out else lines
