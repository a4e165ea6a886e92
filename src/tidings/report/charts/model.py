"""What a chart shows: plain data.

A name (of an algorithm, mostly) has the same colour, shape and dash wherever it appears.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Axis(msgspec.Struct, frozen=True):
    label: str
    unit: str = ""
    logarithmic: bool = False


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float
    low: float | None = None
    """The confidence interval of ``y``, if it has one."""
    high: float | None = None
    at_least: bool = False
    """Whether the run was cut, and there would have been more."""


class Line(msgspec.Struct, frozen=True):
    name: str
    points: tuple[Point, ...]


def lines_of(points: Iterable[tuple[str, Point]]) -> tuple[Line, ...]:
    """One line for each name, in the order in which they come."""
    of_name: dict[str, list[Point]] = {}
    for name, point in points:
        of_name.setdefault(name, []).append(point)
    return tuple(Line(name, tuple(its_own)) for name, its_own in of_name.items())


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What every figure and table may say beside its numbers."""

    note: str = ""
    how: str = ""
    """The command that makes its numbers again."""


class Chart(Shown, frozen=True, kw_only=True):
    title: str


class LineChart(Chart, frozen=True, kw_only=True):
    """Lines over a number, with what nobody can go below as ``bounds``."""

    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bounds: tuple[Line, ...] = ()


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution, by some of its quantiles."""

    name: str
    count: int
    least: float
    p25: float
    p50: float
    p75: float
    p95: float
    p99: float
    most: float


class SpreadChart(Chart, frozen=True, kw_only=True):
    """Distributions under each other, on one axis."""

    x: Axis
    spreads: tuple[Spread, ...]


class Growth(StrEnum):
    BOUNDED = "bounded"
    GROWING = "growing"
    UNCLEAR = "unclear"


class StateLine(Line, frozen=True):
    growth: Growth


class StateChart(Chart, frozen=True, kw_only=True):
    """One small panel per line, each with a scale of its own, from 0: their shapes are compared."""

    x: Axis
    y: Axis
    lines: tuple[StateLine, ...]


class Dot(msgspec.Struct, frozen=True):
    name: str
    x: float
    y: float
    is_out: bool = False
    """Whether it is shown only, and beats nobody."""


class ParetoChart(Chart, frozen=True, kw_only=True):
    """Two prices, less of both being better; whom nobody beats in both is marked."""

    x: Axis
    y: Axis
    dots: tuple[Dot, ...]
