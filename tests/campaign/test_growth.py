"""A protocol that leaks is never called bounded, one that does not is, with enough runs."""

from functools import cache
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from tidings.campaign.growth import LEAST_LEAK_BYTES, growth
from tidings.campaign.statistics import difference
from tidings.compare import contender_of
from tidings.core import Effect, Event, Process
from tidings.protocols.majority_relay import MajorityRelay
from tidings.report.charts.model import Growth, Point
from tidings.report.page.measure import growth_of
from tidings.simulator import Plan, walk
from tidings.trace import Run


class Leaking(MajorityRelay):
    """It keeps the number of every fortieth event for ever."""

    def __init__(self, *about: object) -> None:
        super().__init__(*about)  # type: ignore[arg-type]
        self.events = 0
        self.leak: list[int] = []

    def step(self, event: Event) -> list[Effect]:
        self.events += 1
        if self.events % 40 == 0:
            self.leak.append(self.events)
        return super().step(event)


SHORT, LONG = 16, 150
RUNS = 4


def kept(run: Run) -> dict[int, list[float]]:
    """How many bytes each process keeps, by the time of the sample."""
    samples: dict[int, list[float]] = {}
    for row in run.rows:
        if row.kind == "state" and row.name == "bytes":
            samples.setdefault(row.time_ns, []).append(float(row.value))
    return samples


@cache
def judged(protocol: type[Process]) -> Growth:
    """As a campaign judges it, from the runs of a long load and of a short one."""
    at_rest: dict[int, list[float]] = {}
    under_way: dict[int, list[float]] = {}
    for broadcasts in (SHORT, LONG):
        plan = Plan(broadcasts=broadcasts, sample_ms=25.0)
        for seed in range(RUNS):
            samples = kept(walk(plan, 100 * broadcasts + seed, factory=protocol))
            at_rest.setdefault(broadcasts, []).append(fmean(samples.pop(max(samples))))
            if broadcasts == LONG:
                for time_ns, values in samples.items():
                    under_way.setdefault(time_ns, []).extend(values)
    points = [Point(time_ns, fmean(under_way[time_ns])) for time_ns in sorted(under_way)]
    return growth(points[:30], at_rest[LONG], at_rest[SHORT])


def test_a_slow_leak_is_never_called_bounded() -> None:
    assert judged(Leaking) is not Growth.BOUNDED


def test_what_does_not_leak_is_called_bounded() -> None:
    assert judged(MajorityRelay) is Growth.BOUNDED


def line(name: str, broadcasts: int, runs: int) -> list[Point]:
    """What a process keeps while the load lasts, on average over processes and runs."""
    contender = contender_of(name)
    plan = Plan(
        protocol=contender.protocol,
        options=contender.options,
        processes=3,
        broadcasts=broadcasts,
        sample_ms=broadcasts / 8,
    )
    samples: dict[int, list[float]] = {}
    for seed in range(runs):
        for time_ns, values in kept(walk(plan, seed)).items():
            samples.setdefault(time_ns, []).extend(values)
    last_ns = broadcasts * plan.gap_ms_mean * 1e6
    return [Point(at, fmean(samples[at])) for at in sorted(samples) if at <= last_ns]


def test_histories_grow_and_neither_vectors_nor_frontiers_do() -> None:
    names = ("two-phase", "history-sets", "frontier mode=origin")
    growing = {name for name in names if growth_of(line(name, 200, 3)) is Growth.GROWING}
    assert growing == {"history-sets"}


def test_a_short_load_ends_before_frontier_has_ceased_to_rise() -> None:
    assert growth_of(line("frontier mode=origin", 40, 20)) is Growth.GROWING


FLAT = [Point(float(at), 300.0) for at in range(40)]


@pytest.mark.parametrize("runs", [3, 5, 20, 100])
def test_a_leak_that_hides_in_noise_is_excluded_as_rarely_as_it_says(runs: int) -> None:
    dice = np.random.default_rng(7)
    leaks = [LEAST_LEAK_BYTES, 2 * LEAST_LEAK_BYTES, 8.0]
    for noise in (0.5, 2.0, 20.0):
        for leak in leaks:
            bounded = sum(
                growth(
                    FLAT,
                    list(dice.normal(300.0 + leak, noise, runs)),
                    list(dice.normal(300.0, noise, runs)),
                )
                is Growth.BOUNDED
                for _ in range(400)
            )
            assert bounded <= 0.045 * 400, (noise, leak)


def test_enough_runs_tell_that_noise_is_flat_and_few_do_not() -> None:
    dice = np.random.default_rng(7)

    def verdicts(runs: int) -> list[Growth]:
        return [
            growth(FLAT, list(dice.normal(300, 4, runs)), list(dice.normal(300, 4, runs)))
            for _ in range(100)
        ]

    assert verdicts(5).count(Growth.BOUNDED) <= 10
    assert verdicts(500).count(Growth.BOUNDED) >= 80


def test_what_rises_is_growing_and_what_was_not_compared_is_unclear() -> None:
    rising = [Point(float(at), 100.0 + at) for at in range(40)]
    assert growth(rising, [5.0, 5.0], [5.0, 5.0]) is Growth.GROWING
    assert growth(FLAT, [5.0], [5.0]) is Growth.UNCLEAR
    assert growth(FLAT, [5.0, 5.0], []) is Growth.UNCLEAR


def test_a_difference_is_that_of_welch() -> None:
    ours, theirs = [1.0, 2.0, 6.0], [1.0, 1.0, 2.0, 0.0]
    ends = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert difference(ours, theirs)[1:] == pytest.approx((ends.low, ends.high))
    assert difference([3.0, 3.0], [1.0, 1.0]) == (2.0, 2.0, 2.0)
