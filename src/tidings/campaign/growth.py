"""Whether what a process keeps is bounded, as far as runs can tell.

While a load lasts, what is under way hides a slow leak: with five runs of 150 broadcasts the mean
rises or falls by a third by chance alone. At rest nothing is under way, and what a process still
keeps after more broadcasts than after fewer has leaked. So a line that rises is growing; it is
bounded only if at rest, after the long load, processes keep less than LEAST_LEAK_BYTES more on
average than after the short one, at the confidence of all intervals. All else is unclear.

What remains possible is said beside it: a leak in a part of the runs so small that none of ours was
one of them.
"""

from collections.abc import Sequence

from tidings.campaign import statistics
from tidings.report.charts.model import Growth, Point
from tidings.report.page.measure import growth_of

LEAST_LEAK_BYTES = 1.0
"""A process that keeps one more number keeps eight more; one process in eight does, at most."""


def growth(points: Sequence[Point], longer: Sequence[float], shorter: Sequence[float]) -> Growth:
    """Of a line while the load lasts, and of what runs keep at rest after two loads."""
    if growth_of(points) is Growth.GROWING:
        return Growth.GROWING
    _, low, high = statistics.difference(longer, shorter)
    is_excluded = low is not None and high is not None and low <= 0 and high < LEAST_LEAK_BYTES
    return Growth.BOUNDED if is_excluded else Growth.UNCLEAR
