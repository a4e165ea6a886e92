"""The stages of a campaign: simulate, judge, measure, sum up, find counterexamples.

Each leaves its results in the folder, and none is done again whose results are there. So a
campaign that was interrupted, or killed, goes on where it was.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidings import pipeline
from tidings.campaign import counterexamples, numbers, runs
from tidings.campaign.cells import mixed
from tidings.campaign.folder import PLAN, Folder, opened, refuse_other_code
from tidings.core import EnvironmentMissing, UsageError
from tidings.disk.files import sync
from tidings.pipeline.progress import Progress, marked
from tidings.pipeline.spark.naming import naming_jobs
from tidings.pipeline.spark.workers import performing
from tidings.report.words import many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Done(NamedTuple):
    """How much had to be done, and how much was there already."""

    runs: int
    earlier: int


@naming_jobs
def conduct(spark: "SparkSession", folder: Folder, progress: Progress) -> Done:
    """All tables, and the counterexamples; what is there already is left as it is."""
    done = simulate(spark, folder, progress)
    if not folder.table("runs").exists():
        judged = judge(spark, folder, progress)
        measure(spark, folder, progress)
        progress("summing up the runs")
        numbers.write(folder, judged)
    counterexamples.find(folder, performing(spark), progress)
    return done


# --- simulating


def simulate(spark: "SparkSession", folder: Folder, progress: Progress) -> Done:
    """Run every task that is not done yet, and those whose files the power, or the disk, spoilt."""
    missing = [task for task in folder.tasks if not runs.is_done(task, folder.path)]
    spoilt = sum(folder.outcomes(task).exists() for task in missing)
    count = sum(1 for task in missing for _ in task.runs)
    earlier = len(folder.cells) * folder.campaign.seeds - count
    if missing:
        words = [f"{earlier:,} runs are done"] if earlier else []
        words += [f"{many(spoilt, 'task')} with damaged files again"] if spoilt else []
        progress(f"simulating ({', '.join(words)})" if words else "simulating")
        progress.expect(count, "runs")
        with _marks(folder, progress, count) as marks:
            work = partial(_work, path=folder.path, marks=marks)
            performing(spark)(work, [task.number for task in mixed(missing)])
    for task in [task for task in missing if not runs.is_done(task, folder.path)]:
        raise EnvironmentMissing(
            f"{folder.outcomes(task)} is not here, though a worker has written it; {_SHARED}"
        )
    # Nobody has edited an algorithm meanwhile.
    refuse_other_code(folder.path)
    return Done(count, earlier)


_SHARED = (
    "the folder has to be one that all workers share, under the same path (see docs/pipeline.md)"
)


@contextmanager
def _marks(folder: Folder, progress: Progress, count: int) -> Iterator[str]:
    """A folder in which each run that is done leaves a mark."""
    place = folder.path / "marks"
    shutil.rmtree(place, ignore_errors=True)
    try:
        progress.expect_marks(place, count)
        yield str(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _work(number: int, path: Path, marks: str) -> int:
    """A task, on whatever machine: the plan in the folder says what it is."""
    try:
        folder = _opened(path, (path / PLAN).read_bytes())
    except OSError as fault:
        raise EnvironmentMissing(
            f"a worker does not see {path}: {fault.filename}: {fault.strerror}; {_SHARED}"
        ) from None
    try:
        refuse_other_code(path)
    except UsageError as fault:
        raise EnvironmentMissing(f"the worker on {socket.gethostname()} says: {fault}") from None
    task = folder.tasks[number]
    try:
        return runs.perform(task, folder.path, folder.campaign.budget, marked(task.runs, marks))
    except OSError as fault:
        raise EnvironmentMissing(
            f"a worker cannot write {fault.filename or path}: {fault.strerror}"
        ) from None


@lru_cache(maxsize=1)
def _opened(path: Path, plan: bytes) -> Folder:
    """A worker has many tasks of the same campaign; and the same path may be another one later."""
    return opened(path)


# --- judging and measuring


def judge(spark: "SparkSession", folder: Folder, progress: Progress) -> dict[str, dict[str, str]]:
    """The value of each guarantee in every run that has rows."""
    if not has_rows(folder):
        return {}
    audited = pipeline.audit(spark, folder.trace, examples=0, progress=progress)
    return {
        run: {verdict.guarantee.value: verdict.value.value for verdict in verdicts}
        for run, verdicts in audited.verdicts.items()
    }


def measure(spark: "SparkSession", folder: Folder, progress: Progress) -> None:
    """Costs, latencies and state of every run, as tables."""
    if folder.measures.exists() or not has_rows(folder):
        return
    draft = folder.path / "measures.open"
    shutil.rmtree(draft, ignore_errors=True)
    pipeline.write_tables(spark, folder.trace, draft, progress=progress)
    # Spark leaves that to the system; and once they have their name, nobody measures again.
    for file in draft.rglob("*"):
        sync(file)
    draft.replace(folder.measures)


def has_rows(folder: Folder) -> bool:
    return any(folder.trace.glob("*.parquet"))
