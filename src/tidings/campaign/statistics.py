"""What a sample of runs says, and how surely.

Runs are what is drawn at random: they, and not the messages in them, are resampled and counted.

- Intervals of a mean or a median: bootstrap, by percentiles of RESAMPLES resamples, drawn by a
  generator that always starts from SEED. Few values make such an interval too narrow, so the
  percentiles are moved outwards as far as Student's t is wider than the normal distribution. Still
  no interval is wider than the sample, so that few runs promise more than they keep: COVERAGE is
  what was simulated. Equal values make an interval of no width.
- Of the 99th percentile only with so many runs that one in a hundred is among them.
- Intervals of a share: Clopper and Pearson's, exact. Without any violation in n runs the upper end
  is 1 - 0.025**(1/n): about 3.7 / n, whatever was hoped for.
- Percentiles: by nearest rank, a value that occurred.
- Whether values have shifted: by their ranks within each cell (van Elteren's test), so that no
  distribution is assumed, and few values, or equal ones, can never be sure.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from tidings.core import EnvironmentMissing
from tidings.core.ranks import percentile, rank

try:
    import numpy as np
    from scipy import stats
except ImportError as missing:  # pragma: no cover - exercised in an environment without it
    raise EnvironmentMissing(
        "the statistics of a campaign need scipy; install it with: pip install 'tidings[spark]'"
    ) from missing

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 1
DIGITS = 12
"""Numbers that agree in so many digits are the same, added up in another order."""
RUNS_FOR_P99 = 100
_TAIL = (1 - CONFIDENCE) / 2


COVERAGE = {
    5: {"normal": 0.93, "lognormal": 0.84, "one in ten": 0.40},
    20: {"normal": 0.95, "lognormal": 0.88, "one in ten": 0.86},
}
"""How often the interval of a mean contains it, by the number of runs: for values of a normal
distribution, for skewed ones, and where one run in ten costs more and all others the same."""


class Interval(NamedTuple):
    value: float
    low: float | None
    high: float | None


class Summary(NamedTuple):
    """Of one measure over the runs of a cell."""

    runs: int
    mean: Interval
    p50: Interval
    p99: Interval
    """Without an interval where the runs are too few for it."""


def summary(values: Sequence[float]) -> Summary:
    """Mean, median and 99th percentile, each with its interval; of one run there is none."""
    sample = np.sort(np.asarray(values, dtype=float))
    runs = len(sample)
    assert runs, "nothing was measured"
    middle, late = (rank(percent, runs) - 1 for percent in (50, 99))
    figures = {"mean": sample.mean(), "p50": sample[middle], "p99": sample[late]}
    if sample[0] == sample[-1]:
        figures["mean"] = sample[0]
        ends = dict.fromkeys(figures, (sample[0], sample[0]))
    else:
        resampled = np.sort(sample[_draws(runs)], axis=1)
        ends = {
            "mean": _ends(resampled.mean(axis=1), runs),
            "p50": _ends(resampled[:, middle], runs),
            "p99": _ends(resampled[:, late], runs),
        }
    return Summary(
        runs=runs,
        mean=_interval(figures["mean"], ends["mean"], runs >= 2),
        p50=_interval(figures["p50"], ends["p50"], runs >= 2),
        p99=_interval(figures["p99"], ends["p99"], runs >= RUNS_FOR_P99),
    )


def _interval(value: Any, ends: Any, is_enough: bool) -> Interval:
    low, high = map(float, ends)
    return Interval(float(value), low, high) if is_enough else Interval(float(value), None, None)


@cache
def _draws(count: int) -> Any:
    """Which values each resample takes: the same for all samples of this size."""
    return np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))


def _ends(resampled: Any, runs: int) -> Any:
    tail = 100 * _tail(runs)
    ascending: Any = np.sort(resampled)
    return percentile(tail, ascending), percentile(100 - tail, ascending)


@cache
def _tail(runs: int) -> float:
    """What is left out on each side: less than the nominal tail, the fewer runs there are."""
    wide = stats.t.ppf(1 - _TAIL, runs - 1) * np.sqrt(runs / (runs - 1))
    return float(stats.norm.sf(wide))


def exact_interval(hits: int, runs: int, confidence: float = CONFIDENCE) -> Interval:
    """The share of hits, with every share under which so many hits are not too rare."""
    if not runs:
        return Interval(float("nan"), 0.0, 1.0)
    ends = stats.binomtest(hits, runs).proportion_ci(confidence, method="exact")
    return Interval(hits / runs, float(ends.low), float(ends.high))


def difference(new: Sequence[float], old: Sequence[float]) -> Interval:
    """Of the means of two independent samples, by Welch's t; of fewer than two values no interval.

    Two constant samples differ by exactly what they differ by.
    """
    if not new or not old:
        return Interval(float("nan"), None, None)
    ours, theirs = (np.asarray(values, dtype=float) for values in (new, old))
    value = float(ours.mean() - theirs.mean())
    if min(len(ours), len(theirs)) < 2:
        return Interval(value, None, None)
    parts = [sample.var(ddof=1) / len(sample) for sample in (ours, theirs)]
    if not sum(parts):
        return Interval(value, value, value)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (ours, theirs), strict=True)
    )
    away = float(stats.t.ppf(1 - _TAIL, freedom) * np.sqrt(sum(parts)))
    return Interval(value, value - away, value + away)


class Shift(NamedTuple):
    """Which way values have moved (above 0: up), and how likely so far by chance alone."""

    direction: float
    p: float


Sample = Sequence[float]


def shift(cells: Sequence[tuple[Sample, Sample]]) -> Shift:
    """Of the new values against the old ones, over cells whose runs are independent.

    In each cell the ranks of the new values among all are added up. If it did not matter which
    values are the new ones, mean and variance of that sum would be known, ties included; what is
    more than the mean is weighted as van Elteren does, and compared with the normal distribution.
    """
    excess = variance = 0.0
    for new, old in cells:
        values = np.array([float(f"{value:.{DIGITS}g}") for value in (*new, *old)])
        ranks = stats.rankdata(values)
        weight = 1 / (len(values) + 1)
        excess += weight * float(ranks[: len(new)].sum() - len(new) * ranks.mean())
        if len(values) > 1:
            pairs = len(new) * len(old) / len(values)
            variance += weight**2 * pairs * float(ranks.var(ddof=1))
    if not variance:
        return Shift(0.0, 1.0)
    z = excess / variance**0.5
    return Shift(z, float(2 * stats.norm.sf(abs(z))))


def shares_differ(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """Fisher's exact test for (hits, runs) of two samples."""
    table = [[hits, runs - hits] for hits, runs in (ours, theirs)]
    return float(stats.fisher_exact(table).pvalue)


def holm(chances: Sequence[float]) -> list[float]:
    """The same p-values, made larger by Holm's method, so that all together may be believed."""
    order = np.argsort(chances, kind="stable")
    larger = np.arange(len(chances), 0, -1) * np.asarray(chances)[order]
    adjusted = np.empty(len(chances))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, larger))
    return [float(chance) for chance in adjusted]
