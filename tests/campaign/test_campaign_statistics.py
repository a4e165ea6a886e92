"""What a campaign says of its numbers: intervals, and what is better or worse beyond noise."""

import random
import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from finished_campaign import PLAN
from tidings.campaign import numbers, statistics
from tidings.campaign.baseline import ALPHA, NOT_ENDED, apart, compare, regressions
from tidings.campaign.folder import Folder, begun, opened
from tidings.campaign.page import page_of
from tidings.campaign.plan import read_plan
from tidings.campaign.statistics import (
    COVERAGE,
    RUNS_FOR_P99,
    could_show,
    exact_interval,
    holm,
    shift,
    summary,
)
from tidings.campaign.tables import read_table, write_table
from tidings.core import DataError, UsageError
from tidings.report.page import render
from tidings.spec import Value

# --- intervals


def test_a_summary_is_what_one_computes_by_hand() -> None:
    found = summary([3.0, 1.0, 10.0, 2.0])
    assert (found.runs, found.mean.value, found.p50.value, found.p99.value) == (4, 4.0, 2.0, 10.0)
    low, high = found.mean[1:]
    assert low is not None
    assert high is not None
    assert 1.0 <= low < 4.0 < high <= 10.0
    assert summary([3.0, 1.0, 10.0, 2.0]) == found, "the resamples are always the same"
    assert summary([7.0] * 9).mean == (7.0, 7.0, 7.0)


def test_what_too_few_runs_cannot_tell_has_no_interval() -> None:
    assert summary([7.0]).mean == (7.0, None, None)
    values = [float(value) for value in range(RUNS_FOR_P99)]
    assert summary(values[1:]).p99 == (99.0, None, None)
    assert None not in summary(values).p99


def test_intervals_of_means_agree_with_those_of_scipy() -> None:
    sample = np.random.default_rng(3).exponential(5.0, 400)
    theirs = stats.bootstrap(
        (sample,), np.mean, method="percentile", n_resamples=9_999, rng=np.random.default_rng(0)
    ).confidence_interval
    ours = summary(list(sample)).mean
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * width)


DISTRIBUTIONS: dict[str, tuple[Callable[[np.random.Generator, int], Any], float]] = {
    "normal": (lambda dice, runs: dice.normal(10.0, 2.0, runs), 10.0),
    "lognormal": (lambda dice, runs: dice.lognormal(0.0, 1.0, runs), float(np.exp(0.5))),
    "one in ten": (lambda dice, runs: np.where(dice.random(runs) < 0.1, 1.0, 0.0), 0.1),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("runs", COVERAGE)
def test_intervals_of_means_contain_the_truth_as_often_as_the_page_says(
    runs: int, kind: str
) -> None:
    draw, mean = DISTRIBUTIONS[kind]
    dice = np.random.default_rng(8)
    hits = 0
    for _ in range(600):
        _, low, high = summary(list(draw(dice, runs))).mean
        assert low is not None
        assert high is not None
        hits += low <= mean <= high
    assert hits / 600 == pytest.approx(COVERAGE[runs][kind], abs=0.05)


def test_the_guide_has_the_same_table() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "campaign.md").read_text()
    for kind, words in zip(
        DISTRIBUTIONS, ("normal", "lognormal", "one run in ten differs"), strict=True
    ):
        shares = " | ".join(f"{COVERAGE[runs][kind]:.2f}" for runs in (5, 20))
        assert f"\n{words} | {shares}\n" in guide


@pytest.mark.parametrize(("hits", "runs"), [(0, 1), (0, 60), (60, 60), (3, 60), (59, 60)])
def test_exact_intervals_are_quantiles_of_beta_distributions(hits: int, runs: int) -> None:
    low = stats.beta.ppf(0.025, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.ppf(0.975, hits + 1, runs - hits) if hits < runs else 1.0
    assert exact_interval(hits, runs) == pytest.approx((hits / runs, low, high))


def test_nothing_in_n_runs_is_an_upper_bound_and_all_of_them_a_lower_one() -> None:
    assert exact_interval(0, 100) == pytest.approx((0.0, 0.0, 1 - 0.025 ** (1 / 100)))
    assert exact_interval(100, 100) == pytest.approx((1.0, 0.025 ** (1 / 100), 1.0))
    assert exact_interval(0, 0)[1:] == (0.0, 1.0)


# --- tests


def test_holms_method_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_tests_that_can_find_nothing_are_not_corrected_for() -> None:
    assert could_show([], 0.05) == []
    assert could_show([1.0] * 1_000 + [0.04], 0.05) == [1_000]
    assert could_show([0.02, 0.04, 0.01, 1.0], 0.05) == [0, 2], "0.04 is too much for one of three"
    assert could_show([0.001] * 20, 0.05) == list(range(20))


def beside(new: Sequence[float], old: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(new, old, strict=True))


def test_in_one_cell_a_shift_is_wilcoxons(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(1)
    old = dice.normal(5, 1, 20)
    new = old + dice.normal(-0.3, 1, 20)
    ours = shift([beside(new, old)])
    assert ours.p == pytest.approx(stats.wilcoxon(new, old, method="exact").pvalue)
    assert ours.direction < 0
    monkeypatch.setattr(statistics, "MOST_EXACT", 19)
    theirs = stats.wilcoxon(new, old, method="asymptotic").pvalue
    assert shift([beside(new, old)]).p == pytest.approx(theirs) != ours.p


def test_with_ties_and_over_cells_a_chance_is_the_share_of_all_signs() -> None:
    cells = [[(4.0, 2.0), (1.0, 3.0), (9.0, 5.0)], [(2.0, 2.0), (3.0, 2.0), (8.0, 7.0)]]
    # Twice the ranks of the differences 2, -2 and 4, and of 0, 1 and 1.
    ranks, seen = [3, 3, 6, 3, 3], 3 - 3 + 6 + 3 + 3
    sums = [
        sum(sign * rank for sign, rank in zip(signs, ranks, strict=True))
        for signs in product((-1, 1), repeat=5)
    ]
    assert shift(cells).direction == seen
    assert shift(cells).p == sum(abs(one) >= seen for one in sums) / 2**5


def test_of_shares_a_shift_is_that_of_mcnemar() -> None:
    pairs = [(1.0, 0.0)] * 9 + [(0.0, 1.0)] * 2 + [(0.0, 0.0)] * 30
    assert shift([pairs]).p == pytest.approx(stats.binomtest(9, 11).pvalue)


def test_few_pairs_or_equal_ones_are_never_sure_but_many_cells_are() -> None:
    assert shift([beside([6.0] * 4, [6.0] * 4)]) == (0.0, 1.0, 1.0, None)
    assert shift([]).p == shift([[]]).p == 1.0
    assert shift([[(1 / 3, 0.1 + 0.2 + 1 / 3 - 0.3)]]).p == 1.0, "rounding is no shift"
    apart_once = beside([7.0] * 4, [6.0] * 4)
    assert shift([apart_once]).p == shift([apart_once]).least == 2 / 2**4
    assert shift([apart_once] * 10).p < 1e-9
    assert shift([apart_once, beside([6.0] * 4, [7.0] * 4)]).p == 1.0


def test_a_correlation_is_that_within_cells() -> None:
    dice = np.random.default_rng(2)
    old = dice.normal(10, 1, 50)
    new = old + dice.normal(0, 1, 50)
    alone = shift([beside(new, old)]).correlation
    assert alone == pytest.approx(stats.pearsonr(new, old).statistic)
    # Another size of group is another mean, which correlates, but not by luck.
    high = beside(100 * new, 100 * old)
    assert shift([beside(new, old), high]).correlation == pytest.approx(alone)
    assert shift([beside([0.1] * 3, [1.0, 2.0, 3.0])]).correlation is None


@pytest.mark.parametrize("draw", ["two values", "exponential"])
@pytest.mark.parametrize("likeness", [0.0, 0.9])
def test_where_nothing_shifts_p_is_as_small_as_it_says(draw: str, likeness: float) -> None:
    """For pairs of any correlation, with luck that both share, of whatever distribution."""
    dice = np.random.default_rng(6)

    def values(count: int) -> Any:
        if draw == "two values":
            return dice.choice([20.0, 22.0], count)
        return dice.exponential(3.0, count)

    def pairs() -> list[tuple[float, float]]:
        shared = likeness * values(5)
        return beside(shared + (1 - likeness) * values(5), shared + (1 - likeness) * values(5))

    chances = [shift([pairs() for _ in range(12)]).p for _ in range(1_000)]
    most = stats.binom.ppf(0.999, 1_000, 0.05)
    assert 0.025 * 1_000 < sum(chance < 0.05 for chance in chances) <= most
    assert sum(chance < 0.001 for chance in chances) <= 5


def test_pairs_show_what_luck_hides() -> None:
    dice = np.random.default_rng(7)
    old = dice.lognormal(3.0, 1.0, 20)
    new = 1.05 * old * dice.lognormal(0.0, 0.02, 20)
    assert shift([beside(new, old)]).p < 1e-4
    assert shift([beside(new, old[::-1])]).p > 0.1


# --- baselines

Row = dict[str, Any]


class Campaigns:
    """The same campaign twice; what ours found can be changed."""

    def __init__(self, ours: Folder, theirs: Folder) -> None:
        self.ours, self.theirs = ours, theirs

    def compared(self, change: Callable[[Row], Row] = lambda row: row) -> list[Row]:
        rows = [change(row) for row in read_table(self.theirs.table("runs"))]
        write_table(self.ours.table("runs"), rows, numbers.RUNS)
        return compare(self.ours, self.theirs)

    def changed(self, change: Callable[[Row], Row]) -> set[tuple[str, str, str]]:
        """Where, what and how, as far as it is not the same."""
        return {
            (row["where"], row["measure"], row["verdict"])
            for row in self.compared(change)
            if row["verdict"] != "same"
        }


@pytest.fixture
def campaigns(finished: Path, tmp_path: Path) -> Campaigns:
    for name in ("ours", "theirs"):
        shutil.copytree(finished, tmp_path / name)
    return Campaigns(opened(tmp_path / "ours"), opened(tmp_path / "theirs"))


def dearer(by: float, measure: str = "bytes", **where: Any) -> Callable[[Row], Row]:
    """Everything costs ``by`` times as much there."""

    def change(row: Row) -> Row:
        is_there = all(row[name] == value for name, value in where.items())
        return row | {measure: row[measure] * by} if is_there else row

    return change


def test_a_campaign_is_not_worse_than_itself(campaigns: Campaigns) -> None:
    rows = campaigns.compared()
    assert {row["verdict"] for row in rows} == {"same"}
    assert not regressions(rows)
    assert len(read_table(campaigns.ours.table("comparison"))) == len(rows) > 100
    assert apart(campaigns.ours, campaigns.theirs) == (0, 0, ())


@pytest.mark.parametrize(("factor", "verdict"), [(1.6, "worse"), (0.6, "better")])
def test_what_costs_more_everywhere_is_worse(
    campaigns: Campaigns, factor: float, verdict: str
) -> None:
    rows = campaigns.compared(dearer(factor, algorithm="two-phase"))
    changed = [row for row in rows if row["verdict"] != "same"]
    assert {(row["where"], row["measure"], row["verdict"]) for row in changed} == {
        ("two-phase, everywhere", "bytes", verdict)
    }
    assert changed[0]["change"] == pytest.approx(factor - 1)
    assert bool(regressions(rows)) == (verdict == "worse")


def test_the_page_tells_what_changed_since_the_baseline(campaigns: Campaigns) -> None:
    campaigns.compared(dearer(1.6, algorithm="two-phase"))
    comparison = page_of(campaigns.ours).comparison
    assert comparison is not None
    assert comparison.baseline == str(campaigns.theirs.shown)
    (change,) = comparison.changes
    assert (change.where, change.measure) == ("two-phase, everywhere", "bytes")
    assert change.is_worse
    assert change.pairs == 12
    assert change.after == pytest.approx(1.6 * change.before)
    assert "The two runs of a pair correlate by 1.00" in comparison.note
    page = page_of(campaigns.ours)
    assert page.value is Value.VIOLATED, "as the command ends"
    assert page.answer.endswith(f"; worse than {campaigns.theirs.shown} in 1 comparison.")
    assert "↗ worse: bytes" in render(page)
    campaigns.compared()
    assert page_of(campaigns.ours).value is Value.HOLDS
    assert "Nothing is better or worse beyond noise." in render(page_of(campaigns.ours))


def test_what_is_worse_under_one_fault_plan_is_seen_there(campaigns: Campaigns) -> None:
    where = {"algorithm": "frontier mode=origin", "faults": "loss"}
    # What is lost makes a broadcast up to 3.6 times as dear, but in both runs of a pair.
    found = campaigns.changed(dearer(1.05, **where))
    assert ("frontier mode=origin, faults: loss", "bytes", "worse") in found
    assert all(place.startswith("frontier") for place, _, _ in found)


def test_one_cell_with_enough_runs_is_seen_and_with_few_it_is_not(campaigns: Campaigns) -> None:
    change = dearer(2.0, "latency_ms", cell=5)
    assert campaigns.changed(change) == set()
    many = [
        row
        | {"latency_ms": row["latency_ms"] * (1 + number / 100), "seed": 10 * row["seed"] + number}
        for row in read_table(campaigns.theirs.table("runs"))
        for number in range(10)
    ]
    write_table(campaigns.theirs.table("runs"), many, numbers.RUNS)
    found = campaigns.changed(change)
    key = campaigns.ours.cells[5].key
    assert (key, "latency_ms", "worse") in found
    algorithm = campaigns.ours.cells[5].algorithm
    assert all(place.startswith(algorithm) for place, _, _ in found)
    assert not {place for place, _, _ in found} & {
        cell.key for cell in campaigns.ours.cells if cell.number != 5
    }


def test_a_trifle_is_no_change_however_sure(campaigns: Campaigns) -> None:
    rows = campaigns.compared(lambda row: row | {"bytes": row["bytes"] * 1.005})
    assert min(row["p_adjusted"] for row in rows) < ALPHA
    assert {row["verdict"] for row in rows} == {"same"}


def test_luck_is_no_change(campaigns: Campaigns) -> None:
    """Few values of two kinds, so that whole cells are constant by chance."""
    dice = random.Random(4)
    alarms = 0
    theirs = read_table(campaigns.theirs.table("runs"))
    for _ in range(60):
        for folder in (campaigns.ours, campaigns.theirs):
            rows = [row | {"packets": dice.choice([20.0, 22.0])} for row in theirs]
            write_table(folder.table("runs"), rows, numbers.RUNS)
        compared = compare(campaigns.ours, campaigns.theirs)
        alarms += any(row["verdict"] != "same" for row in compared)
    assert alarms <= stats.binom.ppf(0.999, 60, ALPHA)


@pytest.mark.parametrize(("algorithm", "count"), [("two-phase", 1), ("flawed/careless", 0)])
def test_more_violations_are_worse_and_those_of_flawed_ones_do_not_count(
    campaigns: Campaigns, algorithm: str, count: int
) -> None:
    def spoilt(row: Row) -> Row:
        return row | {"validity": "violated"} if row["algorithm"] == algorithm else row

    rows = campaigns.compared(spoilt)
    worse = [(row["where"], row["measure"]) for row in rows if row["verdict"] == "worse"]
    assert worse == [(f"{algorithm}, everywhere", "validity violated")]
    assert len(regressions(rows)) == count


def test_what_was_nothing_and_what_does_not_end_any_more_is_worse_too(campaigns: Campaigns) -> None:
    unmeasured = dict.fromkeys(numbers.MEASURES)

    def fails(row: Row) -> Row:
        is_it = row["algorithm"] == "two-phase"
        return row | {"outcome": "failed", **unmeasured} if is_it else row

    assert campaigns.changed(fails) == {("two-phase, everywhere", NOT_ENDED, "worse")}
    rows = [row | {"state_bytes": 0.0} for row in read_table(campaigns.theirs.table("runs"))]
    write_table(campaigns.theirs.table("runs"), rows, numbers.RUNS)
    compared = campaigns.compared(
        lambda row: row | ({"state_bytes": 9e6} if row["algorithm"] == "history-sets" else {})
    )
    (worse,) = (row for row in compared if row["verdict"] == "worse")
    assert worse["where"] == "history-sets, everywhere"
    assert (worse["before"], worse["after"], worse["change"]) == (0.0, 9e6, None)


def test_cells_without_a_partner_are_counted_and_none_in_common_is_refused(
    campaigns: Campaigns, tmp_path: Path
) -> None:
    def other(name: str, text: str) -> Folder:
        (tmp_path / f"{name}.toml").write_text(text)
        folder = begun(tmp_path / name, read_plan(tmp_path / f"{name}.toml"))
        write_table(folder.table("runs"), [], numbers.RUNS)
        return folder

    fewer = other("fewer", PLAN.replace('"history-sets", ', ""))
    assert apart(campaigns.ours, fewer) == (4, 0, ("history-sets",))
    assert apart(fewer, campaigns.ours) == (0, 4, ())
    patient = other("patient", f"{PLAN}\n[budget]\npackets = 5000\n")
    assert apart(campaigns.ours, patient) == (0, 0, ()), "more patience is no other condition"
    longer = PLAN.replace("broadcasts = 40", "broadcasts = 41")
    assert apart(campaigns.ours, other("longer", longer)) == (10, 10, ())
    strange = longer.replace("broadcasts = 1\n", "broadcasts = 2\n")
    with pytest.raises(UsageError, match="no cell in common"):
        compare(campaigns.ours, other("strange", strange))


def test_a_baseline_of_another_version_gets_one_line(campaigns: Campaigns) -> None:
    rows = [
        {name: value for name, value in row.items() if name != "state_bytes"}
        for row in read_table(campaigns.theirs.table("runs"))
    ]
    write_table(campaigns.theirs.table("runs"), rows)
    with pytest.raises(DataError, match=r"no column state_bytes: it was written by another"):
        compare(campaigns.ours, campaigns.theirs)
