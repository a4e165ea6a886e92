"""Charts on a page: each with a legend, notes, and its numbers as a table."""

from collections.abc import Iterable, Sequence

from tidings.report.charts import figures
from tidings.report.charts.figures import Styles, with_unit
from tidings.report.charts.model import (
    Chart,
    Growth,
    LineChart,
    ParetoChart,
    Point,
    SpreadChart,
    StateChart,
)
from tidings.report.markup import Markup, element
from tidings.report.numbers import figure
from tidings.report.page.parts import Rows, note, table
from tidings.report.words import listed

_GROWTH = {Growth.BOUNDED: "→", Growth.GROWING: "↗", Growth.UNCLEAR: "?"}


def grid(shown: Sequence[Markup], legend: Markup | None = None) -> list[Markup]:
    if not shown:
        return []
    return [element("div", *shown, class_="grid"), *([legend] if legend else [])]


def legend(names: Iterable[str], styles: Styles, bounds: Styles) -> Markup:
    """Each name a button: resting on it brings its lines to the front, everywhere."""
    keys = [
        element(
            "button",
            _key(figures.key(styles[name])),
            element("span", name),
            type="button",
            class_="entry",
            data_series=styles[name],
            aria_pressed="false",
        )
        for name in dict.fromkeys(names)
    ]
    keys += [
        element("span", _key(figures.bound_key(number)), f"lower bound, {name}", class_="entry")
        for name, number in bounds.items()
    ]
    return element("ul", *(element("li", key) for key in keys), class_="legend-keys")


def _key(symbol: Markup) -> Markup:
    return element("svg", symbol, class_="legend-key", viewBox="-14 -8 28 16", aria_hidden="true")


def _figure(
    chart: Chart, drawing: Markup, what: str, head: Sequence[str], rows: Rows, *notes: str
) -> Markup:
    """With its data, for those who cannot see it, and for those who want to know exactly."""
    return element(
        "figure",
        element("figcaption", chart.title),
        drawing,
        note(*notes),
        element(
            "details",
            element("summary", "The numbers"),
            element("p", what, class_="small"),
            table(head, rows),
        ),
    )


def lines(chart: LineChart, styles: Styles, bounds: Styles) -> Markup:
    xs = sorted({point.x for line in chart.lines for point in line.points})
    named = [(line.name, line) for line in chart.lines]
    named += [(f"lower bound, {line.name}", line) for line in chart.bounds]
    values = [(name, {point.x: _value(point) for point in line.points}) for name, line in named]
    return _figure(
        chart,
        figures.lines(chart, styles, bounds),
        with_unit(chart.y),
        [chart.x.label, *map(figure, xs)],
        [[name, *(at.get(x, "–") for x in xs)] for name, at in values],
        *figures.notes(chart),
    )


def _value(point: Point) -> str:
    value = f"{'≥ ' if point.at_least else ''}{figure(point.y)}"
    if point.low is None or point.high is None:
        return value
    return f"{value} ({figure(point.low)} to {figure(point.high)})"


def spreads(chart: SpreadChart, styles: Styles) -> Markup:
    quantiles = ("least", "p25", "p50", "p75", "p95", "p99", "most")
    return _figure(
        chart,
        figures.spreads(chart, styles),
        with_unit(chart.x),
        ["", "measured", *quantiles],
        [
            [one.name, f"{one.count:,}", *(figure(getattr(one, name)) for name in quantiles)]
            for one in chart.spreads
        ],
        chart.note,
        "Hairline: least to most. Bar: the middle half. Tall notch: median. Short post: p99.",
    )


def states(chart: StateChart, styles: Styles) -> Markup:
    panels = [
        element(
            "div",
            element("p", line.name, class_="panel-name"),
            element(
                "p",
                _GROWTH[line.growth],
                " ",
                line.growth.value,
                class_=f"growth {line.growth.name.lower()}",
            ),
            figures.panel(line, styles[line.name], chart.x, chart.y),
            class_="panel",
        )
        for line in chart.lines
    ]
    rows = [
        [
            line.name,
            line.growth.value,
            figure(line.points[0].y),
            figure(max(point.y for point in line.points)),
            figure(line.points[-1].y),
        ]
        for line in chart.lines
    ]
    what = with_unit(chart.y)
    return _figure(
        chart,
        element("div", *panels, class_="panels"),
        what,
        ["", "growth", f"at first ({chart.y.unit})", "largest", "at the end"],
        rows,
        f"{what[:1].upper()}{what[1:]}, from 0, against {with_unit(chart.x)}.",
        "Each panel has a scale of its own: compare shapes, and read sizes at the upper line.",
        chart.note,
    )


def pareto(chart: ParetoChart, styles: Styles) -> Markup:
    best = figures.front(chart.dots)
    names = [dot.name for dot in best]
    return _figure(
        chart,
        figures.pareto(chart, styles),
        chart.title,
        ["", with_unit(chart.x), with_unit(chart.y), "best"],
        [
            [dot.name, figure(dot.x), figure(dot.y), "yes" if dot in best else "no"]
            for dot in chart.dots
        ],
        "Less of both is better.",
        f"Nobody beats those with a ring in both: {listed(names)}." if best else "",
        chart.note,
    )
