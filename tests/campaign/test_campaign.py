"""Campaigns without Spark: loads and faults, plans and their mistakes, cells, runs, statistics."""

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq
import pytest

from bad_processes import BAD
from guides import columns_in
from tidings import __version__
from tidings.campaign import counterexamples, numbers
from tidings.campaign.baseline import compare
from tidings.campaign.cells import TASK_COST, cells_of, mixed, tasks_of
from tidings.campaign.folder import Folder, begun, opened
from tidings.campaign.page import page_of, status_of
from tidings.campaign.plan import (
    Budget,
    Campaign,
    Faults,
    Load,
    default_plan,
    read_plan,
)
from tidings.campaign.runs import Outcome, perform, resident_bytes, simulated
from tidings.campaign.tables import read_table, write_table
from tidings.compare import CONTENDERS
from tidings.core import DataError, Exit, UsageError
from tidings.pipeline.arrays.perform import plainly
from tidings.report.page import render
from tidings.report.page.model import Fact
from tidings.simulator import Plan, RunReplay, walk
from tidings.spec import Extra, Guarantee, Value, broken, judge
from tidings.trace import Run, read_runs

DOCS = Path(__file__).parents[2] / "docs" / "campaign.md"
CALM = Plan(processes=5, broadcasts=40)


def spoken(run: Run) -> list[tuple[int, str]]:
    return sorted((row.time_ns, row.process) for row in run.rows if row.kind == "broadcast")


# --- loads and faults


def test_a_burst_is_many_broadcasts_at_one_moment() -> None:
    run = walk(msgspec.structs.replace(CALM, burst=8), 1)
    assert list(Counter(time for time, _ in spoken(run)).values()) == [8] * 5


def test_bursts_take_as_long_as_the_same_load_without_them() -> None:
    lasting = {}
    for burst in (1, 6):
        plan = Plan(processes=2, broadcasts=60, burst=burst)
        lasting[burst] = sum(spoken(walk(plan, seed))[-1][0] for seed in range(20))
    assert lasting[6] == pytest.approx(lasting[1], rel=0.25)


def test_an_answer_follows_a_delivery_at_the_one_who_gives_it() -> None:
    run = walk(msgspec.structs.replace(CALM, replies=0.75), 2)
    assert len(spoken(run)) == 40
    unasked = 0
    for history in run.histories.values():
        heard = False
        for row in history:
            heard |= row.kind == "deliver" and row.origin != row.process
            unasked += row.kind == "broadcast" and not heard
    assert unasked <= 10


def test_everything_sent_to_or_by_a_slow_member_takes_longer() -> None:
    plan = msgspec.structs.replace(CALM, slow=1, delay_ms_min=1.0, delay_ms_max=1.0)
    run = walk(plan, 3)
    sent = {(r.process, r.peer, r.packet): r.time_ns for r in run.rows if r.kind == "send"}
    delays: dict[str, set[float]] = {}
    for row in run.rows:
        if row.kind == "receive":
            delay = (row.time_ns - sent[row.peer, row.process, row.packet]) / 1e6
            for end in (row.process, row.peer):
                delays.setdefault(end, set()).add(delay)
    assert sorted(map(sorted, delays.values())) == [[1.0, 10.0]] * 4 + [[10.0]]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"burst": 0}, "a burst has at least one"),
        ({"replies": 1.0}, "share of answers"),
        ({"slow": 6}, "6 of 5 processes cannot be slow"),
        ({"slow_factor": 0.0}, "factor"),
    ],
)
def test_impossible_loads_are_refused(change: dict[str, float], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        walk(msgspec.structs.replace(CALM, **change), 1)


# --- plans


PLAN = """\
seeds = 3
sizes = [3, 5]
algorithms = [
    "majority-relay",
    "frontier mode=origin",
]
flawed = ["flawed/hasty"]

[workloads.one-shot]
broadcasts = 1

[workloads.steady]
broadcasts = 6
sample_ms = 5.0

[faults.none]

[faults.crashes]
crashes = "minority"
mid_broadcast = 1.0

[faults.restarts]
only = ["frontier"]
restarts = 1

[budget]
seconds = 30.0
"""


def plan_in(folder: Path, text: str = PLAN) -> Path:
    file = folder / "plan.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("seeds = 3", "seeds = 0", ":1: seeds: 1 to"),
        ("seeds = 3", "seeds = ", ":1: "),
        ("seeds = 3", "sedes = 3", ":1: sedes: there is no such setting"),
        ("[3, 5]", "[3, 3]", ":2: sizes: 3 is there twice"),
        ("[3, 5]", "[]", ":2: sizes: at least one"),
        ("[3, 5]", "[3, 5000]", ":2: sizes: a group has 1 to 1,000 processes"),
        ("[3, 5]", "[7]", ":2: sizes: flawed ones need a size of at most 5"),
        ('"majority-relay"', '"majority-realy"', ":4: algorithms: unknown protocol"),
        ("mode=origin", "mode=sideways", ":5: algorithms: mode is auto or all or origin"),
        ('"majority-relay"', '"flawed/careless"', ":4: algorithms: flawed/careless belongs under"),
        ('"flawed/hasty"', '"two-phase"', ":7: flawed: two-phase belongs under algorithms"),
        ('"flawed/hasty"', '"my.py:Mine"', "my.py: no such file"),
        ("broadcasts = 1\n", "broadcast = 1\n", ":10: workloads.one-shot.broadcast: there is no"),
        ("broadcasts = 1\n", "", ":9: workloads.one-shot: missing: broadcasts"),
        ("broadcasts = 6", 'broadcasts = "six"', ":13: workloads.steady.broadcasts: expected int"),
        ("broadcasts = 6", "broadcasts = -1", ":12: workloads.steady: a run has 0 to"),
        ("sample_ms = 5.0", "sizes = [4]", ":14: workloads.steady.sizes: 4 is none of the plan's"),
        ("sample_ms = 5.0", 'faults = ["x"]', ":14: workloads.steady.faults: there are no faults"),
        ('"minority"', '"most"', ":19: faults.crashes.crashes: there is no"),
        ('"minority"', "2", ":18: faults.crashes: only a minority may crash"),
        ("mid_broadcast = 1.0", "mid_broadcast = 2.0", ":18: faults.crashes: the share of crashes"),
        ('only = ["frontier"]', 'only = ["fontier"]', ":23: faults.restarts.only: there is no"),
        ('only = ["frontier"]\n', "", ":23: faults.restarts.restarts: flawed/hasty cannot bear"),
        ("restarts = 1", "joiners = 1", ":24: faults.restarts.joiners: frontier has a fixed"),
        ("restarts = 1", "changes = 1", ":24: faults.restarts.changes: frontier has a fixed"),
        ("seconds = 30.0", "seconds = 0.0", ":26: budget: a run needs some"),
        ("seconds = 30.0", "seconds = inf", "budget.seconds: inf is no number that can be used"),
        ("sample_ms = 5.0", "gap_ms_mean = nan", ":14: workloads.steady.gap_ms_mean: nan is no"),
        ("sample_ms = 5.0", "gap_ms_mean = 1e300", ":14: workloads.steady.gap_ms_mean: 1e+300 is"),
        ("[faults.restarts]", "[fautls.restarts]", ":22: fautls: there is no such setting"),
    ],
)
def test_a_mistake_in_a_plan_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    assert old in PLAN
    file = plan_in(tmp_path, PLAN.replace(old, new))
    with pytest.raises(DataError) as refusal:
        read_plan(file)
    assert str(refusal.value).startswith(f"{file}:")
    assert complaint in str(refusal.value)


def test_the_grid_has_every_algorithm_under_everything_it_can_bear(tmp_path: Path) -> None:
    cells = cells_of(read_plan(plan_in(tmp_path)))
    assert len(cells) == len({cell.key for cell in cells}) == 2 * 2 * (2 + 3 + 2)
    assert {cell.algorithm for cell in cells if cell.faults == "restarts"} == {
        "frontier mode=origin"
    }
    assert {(cell.processes, cell.plan.crashes) for cell in cells if cell.faults == "crashes"} == {
        (3, 1),
        (5, 2),
    }
    assert [cell.number for cell in cells] == list(range(len(cells)))


def test_a_load_can_be_for_some_sizes_and_faults_only(tmp_path: Path) -> None:
    text = PLAN.replace("sample_ms = 5.0", 'sizes = [5]\nfaults = ["none", "restarts"]')
    cells = cells_of(read_plan(plan_in(tmp_path, text)))
    steady = {(cell.processes, cell.faults) for cell in cells if cell.workload == "steady"}
    assert steady == {(5, "none"), (5, "restarts")}
    assert sum(cell.workload == "one-shot" for cell in cells) == 2 * (2 + 3 + 2)


def test_the_default_plan_has_everything_that_was_promised() -> None:
    campaign = read_plan(default_plan())
    cells = cells_of(campaign)
    assert len(cells) * campaign.seeds >= 5_000
    assert max(campaign.sizes) == 20
    assert {str(contender) for contender in CONTENDERS} == set(campaign.algorithms)
    assert {cell.faults for cell in cells} == set(campaign.faults)
    assert max(cell.processes for cell in cells if cell.flawed) == 5
    fault_of = {cell.faults: cell.plan for cell in cells if cell.processes == 5}
    assert fault_of["crash-mid-broadcast"].mid_broadcast == 1.0
    assert fault_of["loss"].links == "lossy"
    load_of = {cell.workload: cell.plan for cell in cells}
    assert load_of["one-shot"].broadcasts == 1
    assert load_of["bursty"].burst > 1
    assert load_of["chat"].replies > 0.5


@pytest.mark.parametrize("task_cost", [None, 1.0, 5_000.0, 1e12])
def test_every_run_is_in_exactly_one_task_however_they_are_cut(
    tmp_path: Path, task_cost: float | None
) -> None:
    cells = cells_of(read_plan(plan_in(tmp_path)))
    tasks = tasks_of(cells, 3, task_cost)
    runs = [cell.run_name(seed) for task in tasks for cell, seed in task.runs]
    assert runs == [cell.run_name(seed) for cell in cells for seed in range(3)]
    assert [task.number for task in tasks] == list(range(len(tasks)))
    assert sorted(task.number for task in mixed(tasks)) == list(range(len(tasks)))


def test_tasks_of_the_default_plan_cost_about_the_same() -> None:
    cells = cells_of(read_plan(default_plan()))
    dearest = max(cell.expected_cost for cell in cells)
    costs = [
        sum(cell.expected_cost for cell, _ in task.runs) for task in tasks_of(cells, seeds=5)[:-1]
    ]
    assert max(costs) < TASK_COST + dearest
    assert min(costs) >= TASK_COST


# --- runs


def performed(folder: Path, campaign: Campaign, task_cost: float | None = None) -> list[Outcome]:
    tasks = tasks_of(cells_of(campaign), campaign.seeds, task_cost)
    for task in tasks:
        perform(task, folder, campaign.budget)
    return [
        one
        for task in tasks
        for one in msgspec.json.Decoder(Outcome).decode_lines(
            (folder / "tasks" / f"{task.name}.jsonl").read_bytes()
        )
    ]


def test_the_same_plan_gives_the_same_rows_however_it_is_dealt_out(tmp_path: Path) -> None:
    campaign = read_plan(plan_in(tmp_path))
    found = []
    for name, task_cost in (("few", 1e12), ("many", 500.0)):
        outcomes = performed(tmp_path / name, campaign, task_cost)
        runs = {run.manifest.run: run for run in read_runs(tmp_path / name / "trace")}
        printed = [msgspec.structs.replace(outcome, cpu_s=0.0) for outcome in outcomes]
        rows = {run: list(runs[run].rows) for run in sorted(runs)}
        found.append((printed, rows))
    few, many = (
        len(list((tmp_path / name / "trace").glob("*.parquet"))) for name in ("few", "many")
    )
    assert (few, many > 8) == (1, True)
    assert found[0] == found[1]


def test_a_run_of_a_campaign_is_the_walk_of_its_cell_under_another_name(tmp_path: Path) -> None:
    cell = cells_of(read_plan(plan_in(tmp_path)))[3]
    run, alone = simulated(cell, 2), walk(cell.plan, cell.dice(2))
    assert run.manifest.run == "00003-2"
    assert run.manifest.schedule == alone.manifest.schedule
    renamed = [msgspec.structs.replace(row, run="00003-2") for row in alone.rows]
    assert list(run.rows) == renamed


def test_algorithms_share_their_luck_and_nobody_else_does(tmp_path: Path) -> None:
    cells = cells_of(read_plan(plan_in(tmp_path)))
    by_luck: dict[int, set[tuple[int, str, str]]] = {}
    for cell in cells:
        for seed in range(5):
            by_luck.setdefault(cell.dice(seed), set()).add(
                (cell.processes, cell.workload, f"{cell.faults} {seed}")
            )
    assert all(len(conditions) == 1 for conditions in by_luck.values())
    assert len(by_luck) < 5 * len(cells), "some algorithms meet in the same conditions"


BAD_PLAN = """
seeds = 2
sizes = [3]
algorithms = ["majority-relay", "{file}:Raising", "{file}:Endless"]

[workloads.one-shot]
broadcasts = 1

[faults.none]

[budget]
packets = 500
seconds = {seconds}
"""


def bad_plan(folder: Path, seconds: float = 30.0) -> Campaign:
    (folder / "bad.py").write_text(BAD)
    text = BAD_PLAN.format(file=folder / "bad.py", seconds=seconds)
    return read_plan(plan_in(folder, text))


def test_what_raises_and_what_never_ends_become_rows_with_reasons(tmp_path: Path) -> None:
    outcomes = performed(tmp_path / "out", bad_plan(tmp_path))
    assert [outcome.outcome for outcome in outcomes] == ["ran"] * 2 + ["failed"] * 2 + ["cut"] * 2
    failed, cut = outcomes[2], outcomes[4]
    assert "ValueError: no idea" in failed.reason
    assert cut.reason == "it had not come to rest after 500 packets or choices"
    stored = {run.manifest.run for run in read_runs(tmp_path / "out" / "trace")}
    assert stored == {outcome.run for outcome in outcomes if outcome.outcome != "failed"}


def test_a_file_of_ones_own_is_named_from_the_plan_and_called_so_everywhere(
    tmp_path: Path,
) -> None:
    cells = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bad.py").write_text(BAD)
        text = BAD_PLAN.format(file="bad.py", seconds=30.0)
        campaign = read_plan(plan_in(tmp_path / name, text))
        assert campaign.own_files == [str(tmp_path / name / "bad.py")]
        cells.append(cells_of(campaign))
        assert performed(tmp_path / name / "out", campaign)[2].outcome == "failed"
    for one, other in zip(*cells, strict=True):
        assert (one.key, one.conditions) == (other.key, other.conditions)
    assert cells[0][1].algorithm == "bad.py:Raising"
    assert cells[0][1].plan.protocol == f"{tmp_path / 'here' / 'bad.py'}:Raising"


def test_a_run_that_takes_too_many_seconds_is_given_up(tmp_path: Path) -> None:
    campaign = bad_plan(tmp_path, seconds=1e-9)
    outcomes = performed(tmp_path / "out", campaign)
    assert {(one.outcome, one.rows) for one in outcomes} == {("cut", 0)}
    assert outcomes[0].reason == "it had not come to rest after 1e-09 seconds"


@pytest.mark.skipif(not resident_bytes(), reason="the system does not tell what a process takes")
def test_a_run_that_takes_too_much_memory_is_given_up_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the system is slow to hand out memory, no other limit may come first.
    monkeypatch.setenv("TIDINGS_STEP_SECONDS", "600")
    (tmp_path / "bad.py").write_text(BAD)
    text = BAD_PLAN.format(file=tmp_path / "bad.py", seconds=600.0).replace("Endless", "Hungry")
    campaign = read_plan(plan_in(tmp_path, f"{text}memory_mb = 100\n".replace("= 500", "= 5_000")))
    outcomes = performed(tmp_path / "out", campaign)
    hungry = [outcome for outcome in outcomes if outcome.cell == 2]
    assert [(one.outcome, one.rows) for one in hungry] == [("cut", 0)] * 2
    assert hungry[0].reason == "it had not come to rest with 100 MB of memory"
    assert performed(tmp_path / "again", campaign)[0].outcome == "ran"


def test_a_folder_goes_on_with_its_own_plan_only(tmp_path: Path) -> None:
    campaign = read_plan(plan_in(tmp_path))
    begun(tmp_path / "out", campaign)
    assert begun(tmp_path / "out", campaign).cells == opened(tmp_path / "out").cells
    with pytest.raises(UsageError, match="holds a campaign with another plan; choose another"):
        begun(tmp_path / "out", msgspec.structs.replace(campaign, seeds=4))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        begun(tmp_path / "full", campaign)
    with pytest.raises(UsageError, match="is no campaign"):
        opened(tmp_path)


# --- tables


class Conducted(NamedTuple):
    folder: Folder
    runs: list[dict[str, Any]]

    def table(self, name: str) -> list[dict[str, Any]]:
        return read_table(self.folder.table(name))


def verdicts_in(folder: Folder) -> dict[str, dict[str, str]]:
    return {
        run.manifest.run: {one.guarantee.value: one.value.value for one in judge(run)}
        for run in read_runs(folder.trace)
    }


@pytest.fixture(scope="module")
def conducted(tmp_path_factory: pytest.TempPathFactory) -> Conducted:
    """A campaign simulated and judged in plain Python; what Spark would measure is left out."""
    place = tmp_path_factory.mktemp("campaign")
    campaign = msgspec.structs.replace(read_plan(plan_in(place)), seeds=4)
    folder = begun(place / "out", campaign)
    for task in folder.tasks:
        perform(task, folder.path, Budget())
    numbers.write(folder, verdicts_in(folder))
    counterexamples.find(folder, plainly, lambda words: None)
    return Conducted(folder, read_table(folder.table("runs")))


def test_every_run_has_a_row_with_its_verdicts_and_the_way_to_have_it_again(
    conducted: Conducted,
) -> None:
    folder = conducted.folder
    assert len(conducted.runs) == len(folder.cells) * 4
    for row in conducted.runs[::17]:
        run = simulated(*folder.cell_of(row["run"]))
        values = [verdict.value.value for verdict in judge(run)]
        assert [row[numbers.column_of(guarantee)] for guarantee in Guarantee] == values
        assert row["replay"].endswith(f"--again {row['run']}")


def test_shares_count_the_runs_of_a_cell_and_verdicts_those_of_an_algorithm(
    conducted: Conducted,
) -> None:
    broken = [row for row in conducted.runs if row["uniform_agreement"] == "violated"]
    assert broken
    assert {row["algorithm"] for row in broken} == {"flawed/hasty"}
    (pooled,) = (row for row in conducted.table("verdicts") if row["violated"])
    assert (pooled["algorithm"], pooled["guarantee"]) == ("flawed/hasty", "uniform agreement")
    assert (pooled["violated"], pooled["runs"]) == (len(broken), 2 * 2 * 2 * 4)
    assert pooled["share"] == len(broken) / pooled["runs"]
    assert pooled["first_violated"] == broken[0]["run"]
    by_cell = Counter(row["cell"] for row in broken)
    shares = [row for row in conducted.table("shares") if row["guarantee"] == "uniform agreement"]
    assert {row["cell"]: row["violated"] for row in shares if row["violated"]} == by_cell
    for row in shares:
        assert row["share_low"] <= row["share"] <= row["share_high"]
        assert row["runs"] == 4


CHURN = """
seeds = 4
sizes = [3]
algorithms = ["views", "frontier"]
flawed = ["wrong.py:WrongCut"]

[workloads.steady]
broadcasts = 6
gap_ms_mean = 60.0

[faults.none]

[faults.churn]
only = ["views", "wrong.py:WrongCut"]
changes = 3
crashes = 1
"""


WRONG_CUT = """
import msgspec
from tidings.core import Install
from tidings.protocols.views import Views

class WrongCut(Views):
    def step(self, event):
        return [self._wrong(effect) for effect in super().step(event)]

    def _wrong(self, effect):
        if not isinstance(effect, Install):
            return effect
        more = {self.me: effect.delivered.get(self.me, 0) + 1}
        return msgspec.structs.replace(effect, delivered={**effect.delivered, **more})
"""


def test_churn_is_a_fault_plan_and_views_are_a_column(tmp_path: Path) -> None:
    """And a violation of views is shrunk and drawn like any other."""
    (tmp_path / "wrong.py").write_text(WRONG_CUT)
    (tmp_path / "plan.toml").write_text(CHURN)
    folder = begun(tmp_path / "out", read_plan(tmp_path / "plan.toml"))
    for task in folder.tasks:
        perform(task, folder.path, Budget())
    numbers.write(folder, verdicts_in(folder))
    runs = read_table(folder.table("runs"))
    values = Counter((row["algorithm"], row["faults"], row["views"]) for row in runs)
    assert values["views", "churn", "holds"] >= 3
    assert values["frontier", "none", None] == values["views", "none", None] == 4
    assert values["wrong.py:WrongCut", "churn", "violated"] >= 3
    verdicts = [row for row in read_table(folder.table("verdicts")) if row["guarantee"] == "views"]
    assert {row["algorithm"] for row in verdicts} == {"views", "wrong.py:WrongCut"}
    counterexamples.find(folder, plainly, lambda words: None)
    shown = {row["guarantee"]: run for row, run in counterexamples.stored(folder)}
    assert broken(shown["views"], Extra.VIEWS) is not None
    assert len(list(shown["views"].rows)) < 200


def test_tables_are_csv_too(conducted: Conducted) -> None:
    for name in ("cells", "runs", "statistics", "shares", "verdicts", "counterexamples"):
        header = (conducted.folder.path / f"{name}.csv").read_text().splitlines()[0]
        columns = pq.read_schema(conducted.folder.table(name)).names
        assert header == ",".join(f'"{column}"' for column in columns)


def test_each_violation_has_a_small_run_that_shows_it_and_can_be_replayed(
    conducted: Conducted,
) -> None:
    ((row, run),) = counterexamples.stored(conducted.folder)
    assert (row["algorithm"], row["shrunk"]) == ("flawed/hasty", True)
    assert row["note"] == f"Shrunk from run {row['run']}."
    assert len(list(run.rows)) < 30
    assert [one.guarantee for one in judge(run) if one.value is Value.VIOLATED] == [
        Guarantee.UNIFORM_AGREEMENT
    ]
    assert list(RunReplay(run)), "a replay compares every row"
    assert (conducted.folder.path / row["folder"] / "story.md").exists()


def test_a_run_that_cannot_be_shrunk_in_time_is_shown_as_it_was(
    conducted: Conducted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counterexamples, "SHRINK_S", 0.0)
    shutil.copytree(conducted.folder.path, tmp_path / "copy")
    (tmp_path / "copy" / "counterexamples.parquet").unlink()
    copy = opened(tmp_path / "copy")
    counterexamples.find(copy, plainly, lambda words: None)
    ((row, run),) = counterexamples.stored(copy)
    assert (row["shrunk"], row["note"]) == (False, "Not shrunk: 0 seconds were not enough.")
    assert run.manifest.run == row["run"]


def test_the_page_leads_from_a_violated_cell_to_its_counterexample(conducted: Conducted) -> None:
    page = page_of(conducted.folder, "tidings report out")
    assert page.value is Value.HOLDS, "flawed ones are meant to fail"
    assert page.answer == (
        "No violation was seen in 80 runs of 2 algorithms: of each guarantee, in at most 11% of "
        "the runs of each; caught: 1 of 1 flawed form."
    )
    assert page.matrix is not None
    entries = {entry.name: entry for entry in page.matrix.entries}
    cell = entries["flawed/hasty"].cells[Guarantee.UNIFORM_AGREEMENT]
    picture = next(picture for picture in page.pictures if picture.key == cell.picture)
    assert picture.is_violation
    assert picture.replay.startswith(f"tidings replay {conducted.folder.shown}/counterexamples/")
    held = entries["majority-relay"].cells[Guarantee.VALIDITY]
    assert (held.value, held.low, held.picture) == (Value.HOLDS, 0.0, None)
    assert held.high == pytest.approx(1 - 0.025 ** (1 / held.runs))
    assert Fact("tidings", __version__) in page.facts
    folder = conducted.folder.shown
    repeated = f"tidings campaign {folder}/plan.toml --seeds 4 --out again"
    assert Fact("the numbers again", repeated) in page.reproduce
    assert page.pictures[-1].key == "good"
    assert not page.pictures[-1].is_violation
    assert "good" in render(page)


def test_only_those_that_are_not_meant_to_fail_decide_the_status(
    conducted: Conducted, tmp_path: Path
) -> None:
    assert status_of(conducted.folder) is Exit.HOLDS
    shutil.copytree(conducted.folder.path, tmp_path / "copy")
    copy = opened(tmp_path / "copy")
    for value, status in (("unknown", Exit.UNKNOWN), ("violated", Exit.VIOLATED)):
        rows = [dict(row) for row in conducted.table("verdicts")]
        rows[0][value] = 1
        write_table(copy.table("verdicts"), rows, numbers.VERDICTS)
        assert status_of(copy) is status
    runs = [dict(row) for row in conducted.runs]
    runs[0]["validity"] = runs[0]["causal_order"] = "violated"
    write_table(copy.table("runs"), runs, numbers.RUNS)
    page = page_of(copy)
    assert page.value is Value.VIOLATED
    count = sum(row["algorithm"] == runs[0]["algorithm"] for row in runs)
    assert page.answer.startswith(
        f"Violated: a guarantee by {runs[0]['algorithm']} in 1 of {count} runs; caught"
    )
    assert f"{runs[0]['algorithm']} violated a guarantee" in page.costs[0].note


# --- documents


def test_the_documented_columns_are_those_that_are_written(finished: Path, tmp_path: Path) -> None:
    after = opened(Path(shutil.copytree(finished, tmp_path / "copy")))
    compare(after, opened(finished))
    of_a_cell, *sections = DOCS.read_text().split("\n### ")[1:]
    with_cells = re.findall(r"`(\w+)`", of_a_cell.partition("begin with these")[0])
    documented = {}
    for section in sections:
        name = section.split("`")[1]
        documented[name] = columns_in(section)
        if name in with_cells:
            documented[name] |= columns_in(of_a_cell)
    stored = {
        name: {field.name: str(field.type) for field in pq.read_schema(after.table(name))}
        for name in documented
    }
    assert documented == stored
    assert sorted(stored) == sorted(path.stem for path in after.path.glob("*.parquet"))


def test_the_documented_plan_is_one_and_knows_every_field(tmp_path: Path) -> None:
    text = re.search(r"```toml\n(.+?)```", DOCS.read_text(), re.DOTALL)
    assert text is not None
    campaign = read_plan(plan_in(tmp_path, text[1].replace(', "mine.py:Mine"', "")), seeds=2)
    assert len(cells_of(campaign)) == 2 * 3 * 2 * 2 + 3 * 2 + 2 * 2 * 2
    fields = set(re.findall(r"`(\w+)`", DOCS.read_text()))
    for table in (Campaign, Load, Faults, Budget):
        assert set(table.__struct_fields__) <= fields | {"workloads", "faults", "budget", "source"}
