"""Charts: what they show, how they are drawn, and charts as a file."""

from tidings.report.charts.document import document
from tidings.report.charts.model import Axis, LineChart, Point, lines_of

__all__ = ["Axis", "LineChart", "Point", "document", "lines_of"]
