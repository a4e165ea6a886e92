"""Charts: what they show, how they are drawn, and charts as a file."""

from tidings.report.charts.document import document
from tidings.report.charts.model import Axis, Line, LineChart, Point, lines_of

__all__ = ["Axis", "Line", "LineChart", "Point", "document", "lines_of"]
