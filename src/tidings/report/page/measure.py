"""What some measured numbers look like: how they spread, and whether they grow."""

from collections.abc import Iterable, Sequence
from statistics import correlation, median

from tidings.core.ranks import percentile
from tidings.report.charts.model import Growth, Point, Spread

EIGHTHS = 6
"""So many eighths of a line count. The first two do not: everything grows when a run begins."""
RISE = 1.1
"""The last eighth of a line that grows has a median so many times that of its third one."""
STRAIGHT = 0.96
"""And the medians of the eighths are correlated so closely with their places."""


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
    """Whether a line goes on rising, evenly, over its last six eighths.

    Of noisy lines that are flat at most one in forty is called growing, also if each sample
    resembles the one before (correlation 0.8). A line that does not rise may still hide a slow
    leak: one line alone never shows that it is bounded.
    """
    size = len(points) // 8
    if not size:
        return Growth.UNCLEAR
    heights = [point.y for point in points[-EIGHTHS * size :]]
    medians = [median(heights[begin : begin + size]) for begin in range(0, len(heights), size)]
    rises = medians[-1] > max(0, RISE * medians[0])
    if rises and correlation(medians, range(EIGHTHS)) >= STRAIGHT:
        return Growth.GROWING
    return Growth.UNCLEAR
