"""The folder of a campaign: who may go on in it, with what, and after which accidents."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidings.campaign import cells, conduct, counterexamples, numbers
from tidings.campaign import folder as module
from tidings.campaign.folder import Folder, begun, held, opened
from tidings.campaign.plan import Budget, read_plan
from tidings.campaign.runs import is_done, outcomes_of, perform
from tidings.campaign.tables import read_table, write_table
from tidings.core import DataError, EnvironmentMissing, UsageError
from tidings.disk.files import sync, whole_file
from tidings.pipeline import Progress
from tidings.pipeline.arrays.perform import plainly
from tidings.report.page.from_trace import MOST_ROWS_OF_A_WHOLE_RUN
from tidings.simulator import RunReplay
from tidings.spec import Value, judge
from tidings.trace import read_runs

HASTY = """
from tidings.core import Accept, Broadcast, Deliver, Message, MessageId, Packet, Process, Receive
from tidings.core import Send

class Word(Packet, frozen=True, tag="word"):
    id: MessageId
    text: bytes

class Hasty(Process):
    def __init__(self, me, members, choose):
        super().__init__(me, members, choose)
        self.seq = 0

    def step(self, event):
        match event:
            case Broadcast((text,)):
                self.seq += 1
                id = MessageId(self.me, self.seq)
                here = Deliver((Message(*id, text),))
                return [Accept((id,)), Send(self.others, Word(id, text)), here]
            case Receive(_, Word(id, text)):
                return [Deliver((Message(*id, text),))]
        return []
"""
PLAN = """\
seeds = 3
sizes = [3]
algorithms = ["majority-relay"]
flawed = ["{own}:Hasty"]

[workloads.steady]
broadcasts = 4

[faults.crashes]
crashes = "minority"
mid_broadcast = 1.0
"""


def plan_in(place: Path, text: str = PLAN) -> Path:
    """A plan with an algorithm of one's own, which is flawed."""
    (place / "own.py").write_text(HASTY)
    file = place / "plan.toml"
    file.write_text(text.format(own=place / "own.py"))
    return file


def new(place: Path) -> Folder:
    plan = plan_in(place)
    return begun(place / "out", read_plan(plan), plan.read_text())


def simulated(folder: Folder) -> Folder:
    for task in folder.tasks:
        perform(task, folder.path, Budget())
    return folder


def summed_up(folder: Folder) -> Folder:
    verdicts = {
        run.manifest.run: {one.guarantee.value: one.value.value for one in judge(run)}
        for run in read_runs(folder.trace)
    }
    numbers.write(folder, verdicts)
    return folder


def finished(place: Path) -> Folder:
    folder = summed_up(simulated(new(place)))
    counterexamples.find(folder, plainly, lambda words: None)
    return folder


# --- the beginning


def test_the_plan_is_kept_as_it_was_written(tmp_path: Path) -> None:
    folder = new(tmp_path)
    assert folder.plan_file.read_text() == (tmp_path / "plan.toml").read_text()
    assert read_plan(folder.plan_file) == folder.campaign


@pytest.mark.parametrize("lost", ["plan.toml", "cells.csv", "cells.parquet cells.csv"])
def test_a_campaign_killed_while_it_began_can_be_begun_again(tmp_path: Path, lost: str) -> None:
    folder = new(tmp_path)
    expected = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    for name in lost.split():
        (folder.path / name).unlink()
    begun(folder.path, folder.campaign)
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == expected


def test_a_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds = []

    def synced(file: int) -> None:
        deeds.append(("sync", Path(f"/proc/self/fd/{file}").readlink().name))

    def renamed(draft: Path, path: Path) -> None:
        deeds.append(("rename", path.name))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with whole_file(tmp_path / "file") as draft:
        draft.write_text("all of it")
    assert deeds == [("sync", "file.open"), ("rename", "file"), ("sync", tmp_path.name)]


def test_who_was_killed_before_the_plan_was_there_can_begin_again(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lock").write_text("4711")
    (tmp_path / "out" / "campaign.json.open").write_text('{"tidi')
    with held(tmp_path / "out"):
        assert new(tmp_path).cells == opened(tmp_path / "out").cells


def test_a_folder_of_somebody_else_is_not_even_locked(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.toml").write_text("mine")
    with pytest.raises(UsageError, match="not an empty folder"), held(tmp_path / "out"):
        pass
    with pytest.raises(UsageError, match="not an empty folder"):
        new(tmp_path)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["plan.toml"]


def test_there_is_one_campaign_at_a_time_in_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with (
        held(place),
        pytest.raises(EnvironmentMissing, match=f"lock: in use by process {os.getpid()}"),
        held(place),
    ):
        pass
    with held(place):
        """Whoever had it has let it go."""


# --- with which code


def test_an_algorithm_that_was_edited_meanwhile_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = new(tmp_path)
    begun(folder.path, folder.campaign)
    (tmp_path / "own.py").write_text(HASTY + "# mended\n")
    with pytest.raises(UsageError, match=r"own\.py has changed since .*out was begun; choose"):
        begun(folder.path, folder.campaign)
    with pytest.raises(EnvironmentMissing, match=r"the worker on .* says: .*own\.py has changed"):
        conduct._work(0, folder.path, str(tmp_path))
    (tmp_path / "own.py").unlink()
    with pytest.raises(UsageError, match=r"own\.py: No such file"):
        begun(folder.path, folder.campaign)


def test_another_tidings_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new(tmp_path)
    monkeypatch.setattr(module, "_sources", lambda: "edited")
    with pytest.raises(UsageError, match="out was begun with another tidings, and not with this"):
        begun(folder.path, folder.campaign)
    with pytest.raises(EnvironmentMissing, match=r"worker on .* was begun with another tidings"):
        conduct._work(0, folder.path, str(tmp_path))
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.raises(UsageError, match=r"out was begun with tidings \d.* this one \(9\.9"):
        begun(folder.path, folder.campaign)


def test_every_source_of_tidings_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tidings"
    (package / "core").mkdir(parents=True)
    monkeypatch.setattr(module, "_PACKAGE", package)
    found = set()
    for name, text in (("a.py", ""), ("core/b.py", ""), ("core/b.py", "x = 1"), ("c.txt", "x")):
        (package / name).write_text(text)
        found.add(module._sources.__wrapped__())
    assert len(found) == 3, "all but the last change something"


def test_a_worker_does_not_take_a_new_campaign_for_an_old_one_under_the_same_path(
    tmp_path: Path,
) -> None:
    conduct._work(0, new(tmp_path).path, str(tmp_path))
    shutil.rmtree(tmp_path / "out")
    plan = plan_in(tmp_path, PLAN.replace("seeds = 3", "seeds = 1"))
    folder = begun(tmp_path / "out", read_plan(plan))
    for task in folder.tasks:
        conduct._work(task.number, folder.path, str(tmp_path))
        assert is_done(task, folder.path)


def test_a_campaign_can_be_pointed_to_where_its_algorithms_are_not(
    tidings: Any, tmp_path: Path
) -> None:
    finished(tmp_path)
    (tmp_path / "own.py").unlink()
    answer = tidings("report", "out", "--out", "page.html")
    assert (answer.status, answer.err) == (0, "")
    assert "A good run: steady" in (tmp_path / "page.html").read_text()


# --- the command


def edited(place: Path) -> None:
    (place / "own.py").write_text(HASTY + "# mended\n")


def test_a_complete_campaign_is_not_reported_again_as_if_it_were_of_the_new_code(
    tidings: Any, tmp_path: Path
) -> None:
    summed_up(simulated(new(tmp_path)))
    edited(tmp_path)
    answer = tidings("campaign", "--out", "out")
    assert (answer.status, answer.out) == (64, "")
    file = tmp_path / "own.py"
    assert answer.err == (
        f"tidings: {file} has changed since out was begun; choose another folder with --out\n"
    )


def test_a_run_had_again_with_other_code_is_called_another_one(
    tidings: Any, tmp_path: Path
) -> None:
    new(tmp_path)
    assert tidings("campaign", "--out", "out", "--again", "00000-1").err == ""
    edited(tmp_path)
    answer = tidings("campaign", "--out", "out", "--again", "00000-1")
    assert answer.status == 0
    assert answer.err.endswith("own.py has changed since out was begun: this may be another run\n")


def test_the_second_campaign_in_a_folder_learns_at_once_who_is_there(
    tidings: Any, tmp_path: Path
) -> None:
    with held(new(tmp_path).path):
        answer = tidings("campaign", "--out", "out")
    assert (answer.status, answer.out) == (69, "")
    assert answer.err == f"tidings: out/lock: in use by process {os.getpid()}\n"


def test_a_baseline_that_cannot_be_one_is_refused_before_anything_is_made(
    tidings: Any, tmp_path: Path
) -> None:
    baseline = new(tmp_path)

    def refused(plan: str) -> tuple[int, str]:
        answer = tidings("campaign", plan, "--out", "new", "--baseline", "out")
        assert answer.out == ""
        assert not (tmp_path / "new").exists()
        return answer.status, answer.err

    assert refused("plan.toml") == (
        65,
        "tidings: out: the campaign is not complete; go on with it first\n",
    )
    emptied(baseline.table("runs"))
    status, complaint = refused("plan.toml")
    assert (status, complaint.startswith("tidings: ")) == (65, True)
    assert "runs.parquet: " in complaint
    write_table(baseline.table("runs"), [], numbers.RUNS)
    text = (tmp_path / "plan.toml").read_text().replace("broadcasts = 4", "broadcasts = 5")
    (tmp_path / "other.toml").write_text(text)
    assert refused("other.toml") == (
        64,
        "tidings: out has no cell in common with what is to be run\n",
    )


# --- files that were damaged


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damaged", [torn, emptied, Path.unlink])
@pytest.mark.parametrize(
    "name", ["tasks/{}.jsonl", "trace/{}.parquet", "trace/{}.manifest.jsonl"], ids=lambda n: n[9:]
)
def test_a_task_with_a_damaged_file_is_not_done(
    tmp_path: Path, name: str, damaged: Callable[[Path], None]
) -> None:
    folder = simulated(new(tmp_path))
    assert all(is_done(task, folder.path) for task in folder.tasks)
    task = folder.tasks[2]
    damaged(folder.path / name.format(task.name))
    assert [is_done(one, folder.path) for one in folder.tasks] == [
        one is not task for one in folder.tasks
    ]
    with pytest.raises(DataError, match=rf"{task.name}\.jsonl: .*delete it, and its task is done"):
        numbers.write(folder, {})
    assert not folder.table("runs").exists()


def test_the_outcomes_of_another_task_are_not_those_of_this_one(tmp_path: Path) -> None:
    folder = simulated(new(tmp_path))
    shutil.copy(folder.outcomes(folder.tasks[1]), folder.outcomes(folder.tasks[2]))
    with pytest.raises(DataError, match="not the outcomes of its task"):
        outcomes_of(folder.tasks[2], folder.path)


def test_a_damaged_task_is_done_again_and_stated_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = simulated(new(tmp_path))
    expected = [len(outcomes_of(task, folder.path)) for task in folder.tasks]
    emptied(folder.outcomes(folder.tasks[0]))
    torn(folder.trace / f"{folder.tasks[1].name}.parquet")
    monkeypatch.setattr(conduct, "performing", lambda spark: plainly)
    spoken: list[str] = []
    spark: Any = None
    done = conduct.simulate(spark, folder, Progress(spoken.append))
    again = sum(expected[:2])
    assert done == (again, sum(expected) - again)
    assert spoken == [
        f"simulating ({done.earlier} runs are done, 2 tasks with damaged files again)"
    ]
    assert [len(outcomes_of(task, folder.path)) for task in folder.tasks] == expected


def test_a_file_system_that_cannot_sync_folders_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refused)
    sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"), whole_file(tmp_path / "file") as draft:
        draft.touch()
    assert list(tmp_path.iterdir()) == []


def test_what_spark_measured_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = simulated(new(tmp_path))
    synced = []

    def written(spark: Any, trace: Path, place: Path, **_: Any) -> None:
        (place / "run_costs").mkdir(parents=True)
        (place / "run_costs" / "part-0.parquet").touch()

    def noted(file: Path) -> None:
        assert not folder.measures.exists()
        synced.append(file.name)

    monkeypatch.setattr(conduct.pipeline, "write_tables", written)
    monkeypatch.setattr(conduct, "sync", noted)
    spark: Any = None
    conduct.measure(spark, folder, Progress())
    assert sorted(synced) == ["part-0.parquet", "run_costs"]
    assert (folder.measures / "run_costs" / "part-0.parquet").exists()


def test_what_the_disk_refuses_to_a_worker_gets_one_line(tmp_path: Path) -> None:
    folder = new(tmp_path)
    (folder.path / "tasks").write_text("in the way")
    with pytest.raises(EnvironmentMissing, match=r"a worker cannot write .*/tasks: File exists"):
        conduct._work(0, folder.path, str(tmp_path))


# --- cells


def test_when_a_run_is_given_up_is_none_of_its_conditions(tmp_path: Path) -> None:
    campaign = read_plan(plan_in(tmp_path))
    for change in ({"packets": 7}, {"seconds": 7.0}):
        budget = msgspec.structs.replace(campaign.budget, **change)
        other = msgspec.structs.replace(campaign, budget=budget)
        ours, theirs = (Folder(tmp_path / "out", one).cells[0] for one in (campaign, other))
        assert ours.conditions == theirs.conditions
    assert Folder(tmp_path, campaign).cells[0].conditions.crashes == 1


# --- plans that are too large, or have something twice


@pytest.mark.parametrize(
    ("algorithms", "flawed", "complaint"),
    [
        (
            '"majority-relay notice=yes pull=yes", "majority-relay  pull=yes notice=yes"',
            "",
            ":3: algorithms: majority-relay pull=yes notice=yes is there twice",
        ),
        ('"two-phase", "two-phase"', "", ":3: algorithms: two-phase is there twice"),
        ('"{own}:Hasty"', '"{own}:Hasty"', ":4: flawed: {own}:Hasty is there twice"),
    ],
)
def test_the_same_algorithm_twice_is_found_however_it_is_written(
    tmp_path: Path, algorithms: str, flawed: str, complaint: str
) -> None:
    text = PLAN.replace('"majority-relay"', algorithms).replace('"{own}:Hasty"]', f"{flawed}]")
    file = plan_in(tmp_path, text)
    with pytest.raises(DataError) as refusal:
        read_plan(file)
    assert str(refusal.value) == f"{file}{complaint.format(own=tmp_path / 'own.py')}"


def test_a_plan_that_is_too_large_is_refused_before_it_is_dealt_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setattr(cells, "GridCell", lambda **about: built.append(about))
    monkeypatch.setattr(cells, "MOST_CELLS", 30)
    campaign = read_plan(plan_in(tmp_path))
    larger = msgspec.structs.replace(campaign, sizes=tuple(range(1, 21)))
    with pytest.raises(UsageError, match="up to 30 cells"):
        Folder(tmp_path, msgspec.structs.replace(larger, algorithms=("two-phase",) * 9))
    assert len(built) == 31
    with pytest.raises(UsageError, match="up to 10,000,000 runs, and not 25 cells with 1,000,000"):
        Folder(tmp_path, msgspec.structs.replace(larger, seeds=1_000_000))


def test_seeds_are_refused_before_anything_is_made_of_them(
    tidings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new(tmp_path)
    monkeypatch.setattr(module, "tasks_of", lambda *_: pytest.fail("they are dealt out"))
    for seeds, complaint in (
        (5_000_000, "--seeds takes 1 to 100,000"),
        (100_000, "out holds a campaign with another plan; choose another folder"),
    ):
        answer = tidings("campaign", "--out", "out", "--seeds", str(seeds))
        assert (answer.status, answer.err) == (64, f"tidings: {complaint}\n")
    names = ["plan.toml", "--out", "new", "--seeds", "100000"]
    monkeypatch.setattr(cells, "MOST_RUNS", 1_000)
    answer = tidings("campaign", *names)
    assert (answer.status, answer.out) == (64, "")
    assert "a campaign has up to 1,000 runs, and not 2 cells with 100,000 seeds" in answer.err
    assert not (tmp_path / "new").exists()
    assert folder.cells


def test_what_was_measured_is_looked_up_for_each_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once names of all runs of the cell were made for every one of them."""
    folder = simulated(new(tmp_path))
    costs = {"packets_per_broadcast": 6.0, "bytes_per_broadcast": 600.0}
    stored = {
        "run_costs": [{"run": "00000-1", **costs}],
        "latencies": [{"run": "00000-1", "last_ns": ms * 10**6} for ms in (21, 42, 84)],
        "states_by_run": [{"run": "00000-1", "last": 7.0}],
    }
    folder.measures.mkdir()
    monkeypatch.setattr(numbers, "read_table", lambda path, *_, **__: stored[path.name])
    measured = numbers._measured(folder)
    monkeypatch.setattr(cells.GridCell, "run_name", lambda *_: pytest.fail("no names are made"))
    assert measured(folder.cells[0], "00000-1") == {
        "packets": 6.0,
        "bytes": 600.0,
        "delays": 4.0,
        "latency_ms": 49.0,
        "state_bytes": 7.0,
    }
    assert set(measured(folder.cells[0], "00000-2").values()) == {None}


# --- runs that are kept


def test_a_good_run_is_kept_so_that_telling_of_it_needs_no_algorithm(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    found = counterexamples.good_run(opened(folder.path))
    assert found is not None
    row, run = found
    assert row["algorithm"] == "majority-relay"
    assert row["run"] == run.manifest.run
    assert row["rows"] == len(list(run.rows)) <= MOST_ROWS_OF_A_WHOLE_RUN
    assert {verdict.value for verdict in judge(run)} == {Value.HOLDS}
    assert list(RunReplay(run)), "a replay compares every row"
    longer = [
        other
        for other in read_table(folder.table("runs"))
        if not other["flawed"] and row["rows"] < other["rows"] <= MOST_ROWS_OF_A_WHOLE_RUN
    ]
    assert not longer


def test_where_no_run_is_good_none_is_kept(tmp_path: Path) -> None:
    folder = summed_up(simulated(new(tmp_path)))
    rows = [row | {"validity": "violated"} for row in read_table(folder.table("runs"))]
    write_table(folder.table("runs"), rows, numbers.RUNS)
    counterexamples._store_a_good_run(folder)
    assert counterexamples.good_run(folder) is None


@pytest.mark.parametrize(
    "change",
    [
        ("return [Accept((id,)),", "return [Accept((id,))] or ["),
        ("return [Accept", "return [accept"),
    ],
    ids=["it violates nothing", "it raises"],
)
def test_a_run_that_is_not_what_it_was_gets_one_line(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    folder = finished(tmp_path)
    row, _ = next(counterexamples.stored(folder))
    folder.table("counterexamples").unlink()
    (tmp_path / "own.py").write_text(HASTY.replace(*change))
    with pytest.raises(EnvironmentMissing, match=f"run {row['run']} of .* is not what it was"):
        counterexamples.find(folder, plainly, lambda words: None)


def test_a_good_run_that_is_not_what_it_was_gets_one_line(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    folder.table("counterexamples").unlink()
    rows = [row | {"validity": "unknown"} for row in read_table(folder.table("runs"))]
    write_table(folder.table("runs"), rows, numbers.RUNS)
    shutil.rmtree(folder.good)
    with pytest.raises(EnvironmentMissing, match="of majority-relay is not what it was"):
        counterexamples.find(folder, plainly, lambda words: None)
