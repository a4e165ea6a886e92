"""What a sample of runs says, and how surely.

Runs are what is drawn at random: they, and not the messages in them, are resampled and counted.

- Intervals of a mean or a percentile: bootstrap, by percentiles of RESAMPLES resamples, drawn by a
  generator that always starts from SEED. Equal values make an interval of no width.
- Intervals of a share: Clopper and Pearson's, exact. Without any violation in n runs the upper end
  is 1 - 0.025**(1/n): about 3.7 / n, whatever was hoped for.
- Percentiles: by nearest rank, a value that occurred.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from tidings.core import EnvironmentMissing

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
ROUNDING = 1e-12
"""Numbers that differ by less, relatively, are the same, added up in another order."""
_TAILS = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)


class Interval(NamedTuple):
    value: float
    low: float
    high: float


class Summary(NamedTuple):
    """Of one measure over the runs of a cell."""

    runs: int
    mean: Interval
    p50: Interval
    p99: Interval


def summary(values: Sequence[float]) -> Summary:
    """Mean, median and 99th percentile, each with its interval."""
    sample = np.asarray(values, dtype=float)
    assert len(sample), "nothing was measured"
    if (sample == sample[0]).all():
        same = Interval(*[float(sample[0])] * 3)
        return Summary(len(sample), same, same, same)
    resampled = np.sort(sample[_draws(len(sample))], axis=1)
    ranked = np.sort(sample)
    middle, late = (_rank(share, len(sample)) for share in (0.5, 0.99))
    return Summary(
        len(sample),
        _interval(sample.mean(), resampled.mean(axis=1)),
        _interval(ranked[middle], resampled[:, middle]),
        _interval(ranked[late], resampled[:, late]),
    )


def _rank(share: float, count: int) -> int:
    return max(0, int(np.ceil(share * count)) - 1)


@cache
def _draws(count: int) -> Any:
    """Which values each resample takes: the same for all samples of this size."""
    return np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))


def _interval(value: Any, resampled: Any) -> Interval:
    low, high = np.percentile(resampled, _TAILS, method="inverted_cdf")
    return Interval(float(value), float(low), float(high))


def exact_interval(hits: int, runs: int, confidence: float = CONFIDENCE) -> Interval:
    """The share of hits, with every share under which so many hits are not too rare."""
    assert 0 <= hits <= runs, f"{hits} of {runs}"
    if not runs:
        return Interval(float("nan"), 0.0, 1.0)
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, hits, runs - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(1 - tail, hits + 1, runs - hits)) if hits < runs else 1.0
    return Interval(hits / runs, low, high)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Welch's t-test: how likely means differ so much by chance; of what never varies, never."""
    if len(ours) < 2 or len(theirs) < 2:
        return 1.0
    if _never_varies(ours) and _never_varies(theirs):
        return 1.0 if _never_varies([*ours, *theirs]) else 0.0
    return float(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)


def _never_varies(values: Sequence[float]) -> bool:
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def drift(log_ratios: Sequence[float]) -> float:
    """One-sample t-test: how likely the mean of these is that far from 0 by chance."""
    if len(log_ratios) < 2:
        return 1.0
    if _never_varies(log_ratios):
        return 0.0 if abs(log_ratios[0]) > ROUNDING else 1.0
    return float(stats.ttest_1samp(log_ratios, 0.0).pvalue)


def shares_differ(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """Fisher's exact test for (hits, runs) of two samples."""
    table = [[hits, runs - hits] for hits, runs in (ours, theirs)]
    return float(stats.fisher_exact(table).pvalue)


def holm(chances: Sequence[float]) -> list[float]:
    """The same p-values, made larger by Holm's method, so that all together may be believed."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted = [1.0] * len(chances)
    least = 0.0
    for place, number in enumerate(order):
        least = max(least, min(1.0, (len(chances) - place) * chances[number]))
        adjusted[number] = least
    return adjusted
