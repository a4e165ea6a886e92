"""Charts as a file: one SVG that needs nothing else, light or dark as the reader prefers."""

from collections.abc import Sequence

from tidings.report.charts import figures
from tidings.report.charts.model import LineChart
from tidings.report.charts.style import STYLESHEET
from tidings.report.markup import Markup, element
from tidings.report.svg import balanced, drawing, legend, moved

_MARGIN, _GAP, _TOP = 20.0, 36.0, 84.0
_WIDTH = 2 * (_MARGIN + figures.WIDTH) + _GAP
_ROW = figures.HEIGHT + 46


def document(title: str, charts: Sequence[LineChart]) -> str:
    """Charts in two columns, and one legend for all of them."""
    names = figures.numbered(line.name for chart in charts for line in chart.lines)
    bounds = figures.numbered(line.name for chart in charts for line in chart.bounds)
    entries = [(figures.key(number), name) for name, number in names.items()]
    entries += [
        (figures.bound_key(number), f"lower bound, {name}") for name, number in bounds.items()
    ]
    if any(point.at_least for chart in charts for line in chart.lines for point in line.points):
        entries.append((element("path", class_="soft", d=figures.AT_LEAST), "at least: cut short"))
    panels = [
        element(
            "g",
            element("text", chart.title, class_="ink", y=-12, font_size=13, font_weight=650),
            figures.lines(chart, names, bounds),
            transform=moved(
                _MARGIN + number % 2 * (figures.WIDTH + _GAP), _TOP + number // 2 * _ROW
            ),
        )
        for number, chart in enumerate(charts)
    ]
    under = _TOP + (len(charts) + 1) // 2 * _ROW - 24
    keys, under = legend(entries, _MARGIN + 14, under, _WIDTH - _MARGIN)
    lines = [
        line
        for chart in charts
        if (words := " ".join(filter(None, figures.notes(chart))))
        for line in balanced(f"{chart.title}. {words}", 130)
    ]
    notes = [
        element("text", line, class_="soft", x=_MARGIN, y=under + 18 * number + 6, font_size=11.5)
        for number, line in enumerate(lines)
    ]
    height = under + 18 * len(lines) + 6
    drawn = drawing(
        element("style", Markup(STYLESHEET)),
        element("rect", class_="paper", width=_WIDTH, height=height),
        element("text", title, class_="ink", x=_MARGIN, y=34, font_size=17, font_weight=650),
        *panels,
        keys,
        *notes,
        class_="chart",
        width=_WIDTH,
        height=height,
        aria_label=title,
    )
    return f"{drawn}\n"
