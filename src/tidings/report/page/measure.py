"""What some measured numbers look like: how they spread, and whether they grow."""

from collections.abc import Iterable, Sequence
from statistics import median

from tidings.core.ranks import percentile
from tidings.report.charts.model import Growth, Point, Spread

QUARTER_LEAST = 2
"""Samples in each quarter of a line, without which nothing is said about its growth."""
RISE = 1.1
"""The last quarter of a line that grows has a median so many times that of its second quarter."""
UPS_AND_DOWNS = 3.0
"""And it rises by so many times what its points usually are away from the median of a quarter."""


def spread(name: str, values: Iterable[float]) -> Spread:
    """The quantiles of some values, each one of them: by nearest rank."""
    ranked = sorted(values)
    assert ranked, f"nothing was measured for {name}"
    return Spread(
        name=name,
        count=len(ranked),
        least=ranked[0],
        p25=percentile(25, ranked),
        p50=percentile(50, ranked),
        p75=percentile(75, ranked),
        p95=percentile(95, ranked),
        p99=percentile(99, ranked),
        most=ranked[-1],
    )


def growth_of(points: Sequence[Point]) -> Growth:
    """Whether a line goes on rising, from its second quarter over the third to the last.

    The first does not count: everything grows when a run begins. A line that does not rise may
    still hide a slow leak: one line alone never shows that it is bounded.
    """
    size = len(points) // 4
    if size < QUARTER_LEAST:
        return Growth.UNCLEAR
    begin = len(points) - 3 * size
    heights = [point.y for point in points]
    quarters = [heights[begin + number * size : begin + (number + 1) * size] for number in range(3)]
    early, middle, late = map(median, quarters)
    trend = (late - early) / (2 * size)
    away = [
        abs(height - median(quarter) - trend * (place - (size - 1) / 2))
        for quarter in quarters
        for place, height in enumerate(quarter)
    ]
    rises = early < middle < late and late > RISE * early
    is_sure = late - early > UPS_AND_DOWNS * median(away)
    return Growth.GROWING if rises and is_sure else Growth.UNCLEAR
