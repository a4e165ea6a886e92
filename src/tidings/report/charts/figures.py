"""Charts as vector graphics: drawn for a narrow column, so that a phone need not shrink them.

Colours come from ``style``. No line is known by its colour alone: it has a mark of its own shape,
and a dash of its own where colours begin again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, zip_longest

from tidings.report.charts.model import (
    Axis,
    Dot,
    Line,
    LineChart,
    ParetoChart,
    Point,
    Spread,
    SpreadChart,
    StateLine,
)
from tidings.report.markup import Markup, element
from tidings.report.numbers import Scale, figure, rounded_up
from tidings.report.svg import drawing, moved, path, shortened, width_of
from tidings.report.words import listed

Styles = Mapping[str, int]
"""The number of each name, which decides how it looks."""
Spot = tuple[float, float]
Dash = tuple[str | None, float | None]
"""The dashes of a line, and where they begin."""


def numbered(names: Iterable[str]) -> Styles:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


WIDTH = 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 14.0, 26.0, 40.0
_PLOT = 210.0
HEIGHT = _TOP + _PLOT + _BOTTOM
COLOURS = 8
_DASHES = (None, "6 3", "2 3", "9 3 2 3")
_BOUND_DASHES = ("1 3", "5 4", "8 3 1 3", "2 2 6 2", "12 3", "1 3 1 7", "10 2 3 2")
_PERIOD = 60.0
"""In so many pixels every line of those that coincide appears once."""
_BESIDE, _WIDEST = 8.0, 44.0
"""From one mark to the next of those that coincide; and how wide all of them may be."""
_LONGEST_NAME = 40
_KEY = "M-14 0H14"
AT_LEAST = "M0 -8L5 0H1.5V6H-1.5V0H-5Z"
"""Instead of the mark of a point that would have been higher."""

_SHAPES = (
    "M0 -4.2A4.2 4.2 0 1 1 -0.01 -4.2Z",
    "M-3.8 -3.8H3.8V3.8H-3.8Z",
    "M0 -5L4.8 3.6H-4.8Z",
    "M0 -5.4L5.4 0L0 5.4L-5.4 0Z",
    "M0 5L4.8 -3.6H-4.8Z",
    "M-1.6 -5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5V-1.6H-1.6Z",
    "M0 -5L4.8 -1.5L3 4.2H-3L-4.8 -1.5Z",
    "M-4 -2.4L-2.4 -4L0 -1.6L2.4 -4L4 -2.4L1.6 0L4 2.4L2.4 4L0 1.6L-2.4 4L-4 2.4L-1.6 0Z",
)


def look(number: int) -> tuple[str, str, str | None]:
    """The class of its colour, the shape of its marks, the dash of its line."""
    again, colour = divmod(number, COLOURS)
    return f"s{colour}", _SHAPES[(number + again) % len(_SHAPES)], _DASHES[again % len(_DASHES)]


def key(number: int) -> Markup:
    """A piece of the line with its mark, around its own middle, for a legend."""
    colour, shape, dash = look(number)
    return element(
        "g",
        element("path", class_="line", d=_KEY, stroke_dasharray=dash),
        element("path", class_="mark", d=shape),
        class_=f"key {colour}",
    )


def bound_key(number: int) -> Markup:
    return element("path", class_="bound", d=_KEY, stroke_dasharray=_bound_dash(number))


def _bound_dash(number: int) -> str:
    return _BOUND_DASHES[number % len(_BOUND_DASHES)]


def with_unit(axis: Axis) -> str:
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def _label(axis: Axis) -> str:
    return f"{with_unit(axis)}{', logarithmic' if axis.logarithmic else ''}"


# --- lines


def notes(chart: LineChart) -> Iterator[str]:
    """Its note, and which lines lie on each other, so that nobody looks for them in vain."""
    yield chart.note
    bounds = {_course(line): f"the lower bound, {line.name}," for line in chart.bounds}
    for points in dict.fromkeys(line.points for line in chart.lines):
        alike = [line for line in chart.lines if line.points == points]
        names = [*(line.name for line in alike), *filter(None, [bounds.get(_course(alike[0]))])]
        if len(names) > 1:
            yield f"{listed(names)} coincide."


def _course(line: Line) -> tuple[Spot, ...]:
    return tuple((point.x, point.y) for point in line.points)


def lines(chart: LineChart, styles: Styles, bounds: Styles) -> Markup:
    """The lines, and the lower bounds, which are numbered by themselves."""
    every = [point for line in (*chart.lines, *chart.bounds) for point in line.points]
    xs = sorted({point.x for point in every if point.x > 0 or not chart.x.logarithmic})
    room = 6 + _crowd(chart.lines) / 2
    x = _scale(chart.x, xs, _LEFT + room, WIDTH - _RIGHT - room, from_zero=False)
    ends = [end for point in every for end in (point.y, point.low, point.high) if end is not None]
    y = _scale(chart.y, ends, _TOP + _PLOT, _TOP)
    wide = {value: width_of(f"{figure(value)} ", 10.5) for value in xs}
    shared = _Shared(
        {line.name: _spots(line, x, y) for line in chart.lines},
        {_bound_name(line): _spots(line, x, y) for line in chart.bounds},
    )
    has_room = all(x(b) - x(a) >= (wide[a] + wide[b]) / 2 for a, b in pairwise(xs))
    return _plot(
        chart,
        x,
        y,
        xs if has_room else x.ticks(),
        *(_bound(line, bounds[line.name], _spots(line, x, y), shared) for line in chart.bounds),
        *(_series(line, styles[line.name], x, y, chart, shared) for line in chart.lines),
    )


def _crowd(lines: Sequence[Line]) -> float:
    """How wide the marks are that stand beside each other, where most of them coincide."""
    at = Counter((point.x, point.y) for line in lines for point in line.points)
    return min(_WIDEST, _BESIDE * (max(at.values(), default=1) - 1))


class _Shared:
    """Who else is where a line is: those that coincide share the space, so that all are seen.

    A piece of line is drawn in dashes of each colour in turn, and marks stand beside each other.
    Bounds have no marks, and one colour: among themselves they keep their dashes.
    """

    def __init__(
        self, lines: Mapping[str, Sequence[Spot]], bounds: Mapping[str, Sequence[Spot]]
    ) -> None:
        self._bounds = bounds
        self._at: dict[object, list[str]] = {}
        for name, line in (*lines.items(), *bounds.items()):
            for where in (*(line if name in lines else ()), *pairwise(line)):
                self._at.setdefault(where, []).append(name)

    def pieces(self, name: str, line: Sequence[Spot]) -> Iterator[tuple[list[Spot], Dash]]:
        """The line in pieces, each shared with the same others, and how it is dashed."""
        for names, piece in groupby(pairwise(line), key=self._at.__getitem__):
            first, *others = piece
            spots = [*first, *(end for _, end in others)]
            if len(names) == 1 or self._bounds.keys() >= set(names):
                yield spots, (None, None)
            else:
                long = max(2.0, min(7.0, _PERIOD / len(names)))
                yield (
                    spots,
                    (f"{long:g} {long * (len(names) - 1):g}", -long * names.index(name)),
                )

    def beside(self, name: str, spot: Spot) -> Spot:
        """Where the mark of this line stands."""
        names = self._at[spot]
        step = min(_BESIDE, _WIDEST / (len(names) - 1)) if len(names) > 1 else 0.0
        return spot[0] + step * (names.index(name) - (len(names) - 1) / 2), spot[1]


def _plot(
    chart: LineChart | ParetoChart,
    x: Scale,
    y: Scale,
    x_ticks: Sequence[float],
    *inside: Markup | None,
) -> Markup:
    return drawing(
        *_frame(chart, x, y, x_ticks),
        *inside,
        class_="figure",
        width=WIDTH,
        height=HEIGHT,
        aria_label=f"{chart.title}: {with_unit(chart.y)} against {with_unit(chart.x)}",
    )


def _scale(
    axis: Axis, values: Sequence[float], begin: float, end: float, *, from_zero: bool = True
) -> Scale:
    """Linear axes of amounts begin at 0; logarithmic ones have none."""
    if axis.logarithmic:
        above = [value for value in values if value > 0] or [1.0]
        room = 1.15 if from_zero else 1.0
        return Scale(min(above) / room, max(above) * room, begin, end, logarithmic=True)
    if from_zero:
        return Scale(min(0.0, *values), rounded_up(max(values)), begin, end)
    return Scale(min(values), max(values), begin, end)


def _frame(
    chart: LineChart | ParetoChart, x: Scale, y: Scale, x_ticks: Sequence[float]
) -> Iterator[Markup]:
    """Grid, ticks and labels; the label of the upright axis lies on top of it, to be read."""
    floor = _TOP + _PLOT
    for tick in y.ticks():
        at = y(tick)
        yield element("path", class_="grid", d=path((_LEFT, at), (WIDTH - _RIGHT, at)))
        yield element(
            "text", figure(tick), class_="tick", x=_LEFT - 6, y=at + 3.5, text_anchor="end"
        )
    for tick in x_ticks:
        at = x(tick)
        yield element("path", class_="axis", d=path((at, floor), (at, floor + 4)))
        yield element("text", figure(tick), class_="tick", x=at, y=floor + 16, text_anchor="middle")
    yield element("path", class_="axis", d=path((_LEFT, floor), (WIDTH - _RIGHT, floor)))
    yield element("text", _label(chart.y), class_="label", x=2, y=11)
    yield element(
        "text",
        _label(chart.x),
        class_="label",
        x=(_LEFT + WIDTH - _RIGHT) / 2,
        y=floor + 34,
        text_anchor="middle",
    )


def _bound(line: Line, number: int, spots: Sequence[Spot], shared: _Shared) -> Markup | None:
    if not spots:
        return None
    return element(
        "g",
        element("title", _bound_name(line)),
        *(
            element(
                "path",
                class_="bound",
                d=path(*piece),
                stroke_dasharray=dashes or _bound_dash(number),
                stroke_dashoffset=offset,
            )
            for piece, (dashes, offset) in shared.pieces(_bound_name(line), spots)
        ),
    )


def _bound_name(line: Line) -> str:
    return f"lower bound, {line.name}"


def _fits(point: Point, x: Scale, y: Scale) -> bool:
    """Nothing at 0 can be drawn on a logarithmic axis."""
    return not ((x.logarithmic and point.x <= 0) or (y.logarithmic and point.y <= 0))


def _spots(line: Line, x: Scale, y: Scale) -> list[Spot]:
    """As exact as they are drawn: what is nearer than that coincides."""
    return [
        (round(x(point.x), 1), round(y(point.y), 1)) for point in line.points if _fits(point, x, y)
    ]


def _series(
    line: Line, number: int, x: Scale, y: Scale, chart: LineChart, shared: _Shared
) -> Markup:
    colour, shape, dash = look(number)
    points = [point for point in line.points if _fits(point, x, y)]
    spots = _spots(line, x, y)
    beside = [shared.beside(line.name, spot) for spot in spots]
    return element(
        "g",
        *(
            element(
                "path",
                class_="line",
                d=path(*piece),
                stroke_dasharray=dashes or dash,
                stroke_dashoffset=offset,
            )
            for piece, (dashes, offset) in shared.pieces(line.name, spots)
        ),
        *(_whisker(point, spot[0], y) for point, spot in zip(points, beside, strict=True)),
        *(
            element(
                "path",
                element(
                    "title",
                    f"{line.name}, {chart.x.label} {figure(point.x)}: "
                    f"{'at least ' if point.at_least else ''}{figure(point.y)}",
                ),
                class_="mark",
                d=AT_LEAST if point.at_least else shape,
                transform=moved(*spot),
            )
            for point, spot in zip(points, beside, strict=True)
        ),
        class_=f"series {colour}",
        data_series=number,
    )


def _whisker(point: Point, at: float, y: Scale) -> Markup | None:
    if point.low is None or point.high is None or (y.logarithmic and point.low <= 0):
        return None
    ends = [(at, y(end)) for end in (point.low, point.high)]
    return element("path", class_="whisker", d=path(*ends))


# --- distributions

_ROW = 40.0


def spreads(chart: SpreadChart, styles: Styles) -> Markup:
    ends = [end for spread in chart.spreads for end in (spread.least, spread.most)]
    x = _scale(chart.x, ends, 10, WIDTH - 14)
    floor = _ROW * len(chart.spreads) + 6
    centred = {"text_anchor": "middle"}
    ticks = [
        (
            element("path", class_="grid", d=path((at, 0), (at, floor))),
            element("text", figure(tick), class_="tick", x=at, y=floor + 15, **centred),
        )
        for tick in x.ticks()
        for at in [x(tick)]
    ]
    return drawing(
        *(part for tick in ticks for part in tick),
        element("path", class_="axis", d=path((10, floor), (WIDTH - 14, floor))),
        element("text", _label(chart.x), class_="label", x=WIDTH / 2, y=floor + 33, **centred),
        *(
            _strip(spread, styles[spread.name], x, _ROW * row, chart.x.unit)
            for row, spread in enumerate(chart.spreads)
        ),
        class_="figure",
        width=WIDTH,
        height=floor + 40,
        aria_label=f"{chart.title}: {with_unit(chart.x)}",
    )


def _strip(spread: Spread, number: int, x: Scale, top: float, unit: str) -> Markup:
    """Everything as a hairline, the middle half as a bar, the median as a notch, p99 as a post."""
    colour, *_ = look(number)
    y = top + 27

    def at(value: float) -> float:
        return x(max(value, x.least) if x.logarithmic else value)

    def post(value: float, half: float) -> str:
        return path((at(value), y - half), (at(value), y + half))

    words = (
        f"{spread.name}: median {figure(spread.p50)}, 95 % within {figure(spread.p95)}, "
        f"99 % within {figure(spread.p99)}, at most {figure(spread.most)} {unit}, "
        f"{spread.count:,} measured"
    )
    numbers = f"p50 {figure(spread.p50)} · p99 {figure(spread.p99)} {unit}".rstrip()
    return element(
        "g",
        element("title", words),
        element(
            "text", shortened(spread.name, _LONGEST_NAME), class_="name halo", x=10, y=top + 14
        ),
        element("text", numbers, class_="tick halo", x=WIDTH - 14, y=top + 14, text_anchor="end"),
        element("path", class_="hair", d=path((at(spread.least), y), (at(spread.most), y))),
        element("path", class_="bar", d=path((at(spread.p25), y), (at(spread.p75), y))),
        element("path", class_="notch", d=post(spread.p50, 7)),
        element("path", class_="post", d=post(spread.p99, 5)),
        class_=f"series {colour}",
        data_series=number,
    )


# --- state over time

_PANEL, _HIGH = 200.0, 96.0


def panel(line: StateLine, number: int, x_axis: Axis, y_axis: Axis) -> Markup:
    """A line over its own area, from 0, with its largest and its last value."""
    colour, _, _ = look(number)
    top = rounded_up(max(point.y for point in line.points))
    x = Scale(min(0.0, line.points[0].x), line.points[-1].x, 4, _PANEL - 8)
    y = Scale(0.0, top, _HIGH - 18, 16)
    spots = [(x(point.x), y(point.y)) for point in line.points]
    end = line.points[-1]
    area = path((spots[0][0], y(0)), *spots, (spots[-1][0], y(0)))
    words = (
        f"{line.name}: {with_unit(y_axis)} against {with_unit(x_axis)}, {line.growth}, "
        f"{figure(end.y)} at the end"
    )
    group = element(
        "g",
        element("title", words),
        element("path", class_="grid", d=path((4, y(top)), (_PANEL - 8, y(top)))),
        element("text", f"{figure(top)} {y_axis.unit}".rstrip(), class_="tick", x=4, y=11),
        element("path", class_="area", d=f"{area}Z"),
        element("path", class_="line", d=path(*spots)),
        element("path", class_="axis", d=path((4, y(0)), (_PANEL - 8, y(0)))),
        element("circle", class_="mark", cx=spots[-1][0], cy=spots[-1][1], r=3.5),
        element("text", figure(x.least), class_="tick", x=4, y=_HIGH - 4),
        element(
            "text",
            f"{figure(end.x)} {x_axis.unit}".rstrip(),
            class_="tick",
            x=_PANEL - 8,
            y=_HIGH - 4,
            text_anchor="end",
        ),
        class_=f"series {colour}",
        data_series=number,
    )
    return drawing(group, class_="figure", width=_PANEL, height=_HIGH, aria_label=words)


# --- two prices


def front(dots: Sequence[Dot]) -> list[Dot]:
    """Those whom nobody beats in both, from left to right; equals are there together."""
    best: list[Dot] = []
    for dot in sorted((dot for dot in dots if not dot.is_out), key=lambda dot: (dot.x, dot.y)):
        if not best or dot.y < best[-1].y or (dot.x, dot.y) == (best[-1].x, best[-1].y):
            best.append(dot)
    return best


def pareto(chart: ParetoChart, styles: Styles) -> Markup:
    x = _scale(chart.x, [dot.x for dot in chart.dots], _LEFT + 6, WIDTH - _RIGHT - 6)
    y = _scale(chart.y, [dot.y for dot in chart.dots], _TOP + _PLOT, _TOP)
    best = front(chart.dots)
    stairs: list[tuple[float, float]] = [(x(one.x), _TOP) for one in best[:1]]
    for before, after in zip_longest(best, best[1:]):
        right = WIDTH - _RIGHT if after is None else x(after.x)
        stairs += [(x(before.x), y(before.y)), (right, y(before.y))]
    title = element("title", "nobody is below and left of this line")
    return _plot(
        chart,
        x,
        y,
        x.ticks(),
        element("path", title, class_="front", d=path(*stairs)) if stairs else None,
        *(_dot(dot, styles[dot.name], x, y, dot in best, chart) for dot in chart.dots),
    )


def _dot(dot: Dot, number: int, x: Scale, y: Scale, is_best: bool, chart: ParetoChart) -> Markup:
    colour, shape, _ = look(number)
    words = f"{dot.name}: {figure(dot.x)} {chart.x.label}, {figure(dot.y)} {chart.y.label}"
    return element(
        "g",
        element("title", words),
        element("circle", class_="best", r=9) if is_best else None,
        element("path", class_="mark", d=shape),
        class_=f"series {colour}",
        transform=moved(x(dot.x), y(dot.y)),
        data_series=number,
    )
