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
- Whether values have shifted: by pairs, of runs that had the same luck. If it did not matter which
  of the two is the new one, each difference would be as likely up as down, whatever its size; so
  their sizes are ranked within each cell, and the ranks of those that went up added up (Wilcoxon's
  test, by cells). Its distribution is counted, or normal beyond MOST_EXACT pairs, where the tails
  of the normal are the longer ones. Few pairs, or equal values, can never be sure. Of values that
  are 0 or 1 this is McNemar's exact test.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from math import sqrt
from typing import Any, NamedTuple

from tidings.core import EnvironmentMissing, with_extra
from tidings.core.ranks import percentile, rank

try:
    import numpy as np
    from scipy import stats
except ImportError as missing:  # pragma: no cover - exercised in an environment without it
    words = f"the statistics of a campaign need scipy; {with_extra('spark')}"
    raise EnvironmentMissing(words) from missing

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 1
DIGITS = 12
"""Numbers that agree in so many digits are the same, added up in another order."""
RUNS_FOR_P99 = 100
MOST_EXACT = 1_000
"""Pairs in one test: a second to count, if all are of one cell."""
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
    least: float
    """The smallest p that so many differences could have had."""
    correlation: float | None
    """Of the two values of a pair, within cells; None where either does not vary."""


Pairs = Sequence[tuple[float, float]]
"""A new and an old value, of the same luck."""


def shift(cells: Sequence[Pairs]) -> Shift:
    """Of the new values against the old ones, over cells whose runs are independent."""
    excess = 0
    ranks: list[int] = []
    for pairs in cells:
        differences = [_rounded(new) - _rounded(old) for new, old in pairs]
        moved = [one for one in differences if one]
        doubled = _doubled_ranks([abs(one) for one in moved])
        excess += sum(one if up > 0 else -one for one, up in zip(doubled, moved, strict=True))
        ranks += doubled
    chance = _chance_of(tuple(sorted(ranks)), abs(excess))
    return Shift(float(excess), chance, min(1.0, 2.0 ** (1 - len(ranks))), correlation(cells))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _doubled_ranks(sizes: Sequence[float]) -> list[int]:
    """Twice their ranks, which are whole numbers, ties or not."""
    ascending = sorted(sizes)
    return [bisect_left(ascending, one) + bisect_right(ascending, one) + 1 for one in sizes]


def _chance_of(ranks: tuple[int, ...], excess: int) -> float:
    """That ranks with signs by chance add up to so much, either way."""
    if not excess:
        return 1.0
    if len(ranks) > MOST_EXACT:
        z = excess / float(np.sqrt(np.sum(np.square(ranks, dtype=float))))
        return float(2 * stats.norm.sf(z))
    upwards = (sum(ranks) + excess) // 2
    return min(1.0, 2 * float(_sums_of(ranks)[upwards:].sum()))


@lru_cache(maxsize=64)
def _sums_of(ranks: tuple[int, ...]) -> Any:
    """How likely each sum is, if each rank counts or not as a coin falls."""
    likely = np.zeros(sum(ranks) + 1)
    likely[0] = 1.0
    for rank_ in ranks:
        likely[rank_:] += likely[:-rank_].copy()
        likely /= 2
    return likely


def correlation(cells: Sequence[Pairs]) -> float | None:
    """Pearson's, of what is above or below the mean of a cell, in parts of it; None if new or old
    values never are.
    """
    apart = [pair for pairs in cells if pairs for pair in _around_the_mean(pairs)]
    together = sum(new * old for new, old in apart)
    spread = sqrt(sum(new * new for new, _ in apart) * sum(old * old for _, old in apart))
    return together / spread if spread else None


def _around_the_mean(pairs: Pairs) -> Iterator[tuple[float, float]]:
    # From the first, so that values that are all equal differ by nothing, not by a rounding.
    away = [(new - pairs[0][0], old - pairs[0][1]) for new, old in pairs]
    new_mean, old_mean = (sum(side) / len(away) for side in zip(*away, strict=True))
    scale = sum(new + old for new, old in pairs) / (2 * len(pairs)) or 1.0
    yield from (((new - new_mean) / scale, (old - old_mean) / scale) for new, old in away)


def could_show(least: Sequence[float], alpha: float) -> list[int]:
    """Which of several tests could find anything, all together, at ``alpha`` (after Tarone).

    The others need no correction: that they find nothing is certain from the sizes of differences,
    which say nothing about their signs.
    """
    ascending = sorted(least)
    for count in range(1, len(least) + 1):
        if bisect_right(ascending, alpha / count) <= count:
            return [place for place, chance in enumerate(least) if chance <= alpha / count]
    return []


def holm(chances: Sequence[float]) -> list[float]:
    """The same p-values, made larger by Holm's method, so that all together may be believed."""
    order = np.argsort(chances, kind="stable")
    larger = np.arange(len(chances), 0, -1) * np.asarray(chances)[order]
    adjusted = np.empty(len(chances))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, larger))
    return [float(chance) for chance in adjusted]
