"""Campaigns on Spark: what is measured there, going on after an end, baselines, the command."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from bad_processes import BAD
from finished_campaign import PLAN, RUNS
from measured_by_hand import measured_by_hand
from tidings.campaign import conduct, numbers
from tidings.campaign.folder import begun, opened
from tidings.campaign.runs import simulated
from tidings.campaign.tables import read_table, write_table
from tidings.pipeline import Progress
from tidings.pipeline.arrays.perform import plainly


@pytest.fixture
def campaign(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, under the name of ``out``, to do something to."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


def by_run(path: Path) -> dict[str, dict[str, Any]]:
    return {row["run"]: row for row in read_table(path / "runs.parquet")}


def files_in(path: Path) -> dict[str, int]:
    files = (file for place in ("trace", "tasks") for file in (path / place).iterdir())
    return {file.name: file.stat().st_mtime_ns for file in files}


# --- what is measured


def test_spark_measures_what_the_rows_of_a_run_say(finished: Path) -> None:
    folder = opened(finished)
    for name, row in by_run(finished).items():
        cell, seed = folder.cell_of(name)
        run = simulated(cell, seed)
        tables = measured_by_hand([run])
        ((_, broadcasts, _, _, packets, size),) = tables["run_costs"]
        assert (row["packets"], row["bytes"]) == pytest.approx((packets, size))
        assert broadcasts == cell.plan.broadcasts
        last: dict[Any, int] = {}
        begun_at = {one.message: one.time_ns for one in run.rows if one.kind == "broadcast"}
        for one in run.rows:
            if one.kind == "deliver":
                last[one.message] = max(last.get(one.message, 0), one.time_ns)
        waits = sorted((last[one] - begun_at[one]) / 1e6 for one in begun_at)
        delay_ms = (cell.plan.delay_ms_min + cell.plan.delay_ms_max) / 2
        assert row["latency_ms"] == pytest.approx(fmean(waits))
        assert row["delays"] == pytest.approx(waits[(len(waits) - 1) // 2] / delay_ms)
        kept = {one[1]: one[-1] for one in tables["states"] if one[3] == "bytes"}
        assert row["state_bytes"] == pytest.approx(fmean(kept.values()))


def test_equal_delays_are_counted_as_theory_counts_them(finished: Path) -> None:
    delays = {
        row["algorithm"]: row["mean"]
        for row in read_table(finished / "statistics.parquet")
        if (row["workload"], row["faults"], row["measure"]) == ("one-shot", "none", "delays")
    }
    assert delays["two-phase"] == 4.0


def test_the_statistics_of_a_cell_are_those_of_its_runs(finished: Path) -> None:
    runs = by_run(finished).values()
    rows = read_table(finished / "statistics.parquet")
    assert len(rows) == len(opened(finished).cells) * len(numbers.MEASURES)
    for row in rows:
        values = [one[row["measure"]] for one in runs if one["cell"] == row["cell"]]
        assert row["mean"] == pytest.approx(fmean(values))
        assert (row["p50"], row["p99"]) == (sorted(values)[1], max(values))
        assert row["mean_low"] <= row["mean"] * (1 + 1e-9)
        assert row["mean"] <= row["mean_high"] * (1 + 1e-9)


def test_the_verdicts_find_the_flawed_one_and_nobody_else(finished: Path) -> None:
    violated = [row for row in read_table(finished / "verdicts.parquet") if row["violated"]]
    assert {(row["algorithm"], row["guarantee"]) for row in violated} == {
        ("flawed/careless", "causal order")
    }
    assert not [row for row in read_table(finished / "verdicts.parquet") if row["unknown"]]


# --- going on


class StoppedError(Exception):
    """What a worker never says."""


def stopping_after(tasks: int, how: type[BaseException]) -> Callable[[Any], Any]:
    """Workers of which the user, or the power, has had enough."""

    def performing(spark: Any) -> Any:
        def perform(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            plainly(task, items[:tasks])
            raise how

        return perform

    return performing


def cancelled_after(tasks: int) -> Callable[[Any], Any]:
    """As Spark does it: the interruption is lost in what it says about its jobs."""

    def performing(spark: Any) -> Any:
        def perform(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            try:
                stopping_after(tasks, KeyboardInterrupt)(spark)(task, items)
            finally:
                raise StoppedError("all jobs are cancelled")

        return perform

    return performing


def test_what_was_stopped_goes_on_and_nothing_is_done_twice(
    spark: SparkSession, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begun(tmp_path / "out", opened(finished).campaign)
    with monkeypatch.context() as patch:
        patch.setattr(conduct, "performing", stopping_after(3, StoppedError))
        with pytest.raises(StoppedError):
            conduct.simulate(spark, folder, Progress())
    done_before = files_in(tmp_path / "out")
    assert len(done_before) == 3 * 3
    # A task that was killed leaves files without outcomes, and drafts.
    unfinished = next(task for task in folder.tasks if not folder.outcomes(task).exists())
    (folder.trace / f"{unfinished.name}.parquet").write_bytes(b"PAR1 torn")
    (folder.trace / "task-00099.parquet.open").write_bytes(b"half")
    done = conduct.simulate(spark, folder, Progress())
    assert done.earlier == sum(
        len(list(task.runs)) for task in folder.tasks if f"{task.name}.jsonl" in done_before
    )
    assert done.runs + done.earlier == RUNS
    after = files_in(tmp_path / "out")
    assert {name: after[name] for name in done_before} == done_before
    for name in after:
        if name.endswith(".parquet"):
            ours, theirs = tmp_path / "out" / "trace" / name, finished / "trace" / name
            assert ours.read_bytes() == theirs.read_bytes()
    assert not (tmp_path / "out" / "marks").exists()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("interrupted", [stopping_after(2, KeyboardInterrupt), cancelled_after(2)])
def test_ctrl_c_ends_in_one_line_that_says_how_to_go_on(
    tidings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: Any
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.setattr(conduct, "performing", interrupted)
    answer = tidings("campaign", "plan.toml", "--out", "out")
    assert (answer.status, answer.out) == (130, "UNKNOWN: interrupted before the verdicts\n")
    assert answer.err.endswith(
        "tidings: interrupted; what is done is kept, go on with: tidings campaign --out out\n"
    )
    assert len(files_in(tmp_path / "out")) == 2 * 3
    (tmp_path / "plan.toml").write_text(PLAN.replace("seeds = 3", "seeds = 4"))
    answer = tidings("campaign", "plan.toml", "--out", "out")
    assert (answer.status, answer.err) == (
        64,
        "tidings: out holds a campaign with another plan; choose another folder\n",
    )


def test_the_way_to_go_on_has_all_that_was_asked_for(
    tidings: Any, tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.setattr(conduct, "performing", stopping_after(1, KeyboardInterrupt))
    options = ["--jobs", "2", "--baseline", str(finished)]
    answer = tidings("campaign", "plan.toml", "--out", "out", *options)
    assert answer.status == 130
    assert answer.err.endswith(f"go on with: tidings campaign --out out {' '.join(options)}\n")


def test_ctrl_c_while_it_is_reported_is_one_line_too(
    tidings: Any, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidings.cli.campaign.write_page", interrupted)
    answer = tidings("campaign", "--out", "out")
    assert (answer.status, answer.out) == (130, "UNKNOWN: interrupted before the verdicts\n")
    assert answer.err.endswith("go on with: tidings campaign --out out\n")


def test_a_complete_campaign_is_reported_again_without_being_run_again(
    tidings: Any, campaign: Path
) -> None:
    before = files_in(campaign)
    answer = tidings("campaign", "--out", "out")
    assert answer.status == 0
    assert answer.out.splitlines()[0] == f"runs   {RUNS} in 20 cells, {RUNS} of them done before"
    assert "flawed/careless" in answer.out
    assert files_in(campaign) == before
    assert "<!doctype html>" in (campaign / "report.html").read_text().lower()
    page = tidings("report", "out", "--out", "page.html")
    assert page.status == 0
    assert page.out.startswith("No violation was seen in 48 runs of 3 algorithms: of each ")


# --- baselines


def test_a_campaign_is_no_worse_than_itself_and_a_dearer_one_is(
    tidings: Any, campaign: Path, finished: Path
) -> None:
    answer = tidings("campaign", "--out", "out", "--baseline", str(finished))
    assert answer.status == 0
    assert "worse  than" in answer.out
    assert "pairs  by seed, correlation 1.00 (median); p is adjusted by Holm" in answer.out
    rows = [
        row | {"bytes": row["bytes"] * (1.5 if row["algorithm"] == "two-phase" else 1.0)}
        for row in by_run(campaign).values()
    ]
    write_table(campaign / "runs.parquet", rows, numbers.RUNS)
    answer = tidings("campaign", "--out", "out", "--baseline", str(finished), "--json")
    assert answer.status == 1
    changes = json.loads(answer.out)["changes"]
    assert {(row["algorithm"], row["measure"], row["verdict"]) for row in changes} == {
        ("two-phase", "bytes", "worse")
    }


def test_a_comparison_is_with_the_baseline_of_this_time(
    tidings: Any, campaign: Path, finished: Path
) -> None:
    tables = [campaign / "comparison.parquet", campaign / "comparison.csv"]
    page = campaign / "report.html"
    tidings("campaign", "--out", "out", "--baseline", str(finished))
    assert all(table.exists() for table in tables)
    assert "Nothing is better or worse beyond noise." in page.read_text()
    tidings("campaign", "--out", "out")
    assert not any(table.exists() for table in tables)
    assert "Since the baseline" not in page.read_text()


def test_cells_that_have_no_partner_are_counted(
    tidings: Any, campaign: Path, tmp_path: Path
) -> None:
    plan = msgspec.structs.replace(opened(campaign).campaign, sizes=(3,))
    write_table(begun(tmp_path / "small", plan).table("runs"), [], numbers.RUNS)
    answer = tidings("campaign", "--out", "out", "--baseline", "small")
    assert "not compared: 10 cells of out and 0 cells of small, which" in answer.out
    assert answer.status == 0
    plan = msgspec.structs.replace(plan, algorithms=("two-phase",), flawed=())
    write_table(begun(tmp_path / "other", plan).table("runs"), [], numbers.RUNS)
    answer = tidings("campaign", "--out", "out", "--baseline", "other")
    assert "could be compared: history-sets and frontier mode=origin" in answer.out
    assert answer.status == 2


def test_a_baseline_has_to_be_a_complete_campaign(tidings: Any, campaign: Path) -> None:
    (campaign / "runs.parquet").unlink()
    answer = tidings("campaign", "--out", "new", "--baseline", "out")
    assert (answer.status, answer.out) == (65, "")
    assert "out: the campaign is not complete; go on with it first" in answer.err
    answer = tidings("report", "out")
    assert answer.status == 65
    assert "the campaign is not complete" in answer.err


# --- runs that fail


@pytest.mark.usefixtures("spark")
def test_a_protocol_that_raises_makes_rows_and_can_be_had_again(
    tidings: Any, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "plan.toml").write_text(
        "seeds = 2\nsizes = [2]\n"
        f'algorithms = ["{tmp_path / "bad.py"}:Raising"]\n'
        "[workloads.one-shot]\nbroadcasts = 1\n[faults.none]\n"
    )
    answer = tidings("campaign", "plan.toml", "--out", "out")
    assert answer.status == 2
    bad = f"{tmp_path / 'bad.py'}:Raising"
    assert f"failed 2 runs of {bad}, first 00000-0:" in answer.out
    assert "ValueError: no idea" in answer.out
    assert "tidings campaign --out out --again 00000-0" in answer.out
    rows = by_run(tmp_path / "out")
    assert [(row["outcome"], row["validity"]) for row in rows.values()] == [
        ("failed", "unknown")
    ] * 2
    again = tidings("campaign", "--out", "out", "--again", "00000-0")
    assert again.status == 65
    assert "ValueError: no idea" in again.err
    assert "tidings replay out/again/00000-0" in again.err


def test_any_run_can_be_had_again_by_its_name(tidings: Any, campaign: Path) -> None:
    name = next(name for name, row in by_run(campaign).items() if row["causal_order"] == "violated")
    answer = tidings("campaign", "--out", "out", "--again", name)
    assert answer.status == 1
    assert "CAUSAL ORDER violated at" in answer.out
    replayed = tidings("replay", f"out/again/{name}")
    assert replayed.status == 1
    answer = tidings("campaign", "--out", "out", "--again", "99999-0")
    assert answer.status == 64
    assert "out has no run 99999-0; it has 00000-0 to 00019-2" in answer.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--jobs", "0"), "--jobs takes 1 or more"),
        (("--jobs", "2", "--master", "spark://a:1"), "--jobs or --master, not both"),
        (("--seeds", "0"), "--seeds takes 1 to 100,000"),
        (("missing.toml",), "missing.toml: No such file"),
    ],
)
def test_wrong_usage_is_stated_before_anything_begins(
    tidings: Any, tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    answer = tidings("campaign", *words)
    assert (answer.status, answer.out) == (64, "")
    assert complaint in answer.err
    assert not (tmp_path / "runs").exists()
