"""How many tasks of a session are done, for a ``Progress`` that follows it."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidings.pipeline.progress import Counts, Tasks
from tidings.pipeline.spark.session import is_remote


@contextmanager
def tasks_of(spark: SparkSession) -> Iterator[Tasks]:
    """The tasks of a session, of whatever kind it is."""
    if not is_remote(spark):
        yield partial(_tracked, spark.sparkContext.statusTracker(), {})
        return
    jobs: dict[Hashable, Counts] = {}

    def note(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        jobs[operation_id] = sum(done for done, _ in counts), sum(known for _, known in counts)

    handler: Any = note
    spark.registerProgressHandler(handler)
    try:
        yield jobs.copy
    finally:
        spark.removeProgressHandler(handler)


def _tracked(tracker: Any, over: dict[Hashable, Counts]) -> Mapping[Hashable, Counts]:
    """The jobs of a session that is not remote; nobody asks again for one that is over."""
    running: dict[Hashable, Counts] = {}
    # A Spark that is being stopped has nothing to say any more.
    with suppress(Py4JError, OSError):
        for job in tracker.getJobIdsForGroup(None):
            if job not in over:
                is_over, counts = _job(tracker, job)
                (over if is_over else running)[job] = counts
    return over | running


def _job(tracker: Any, job: int) -> tuple[bool, Counts]:
    about = tracker.getJobInfo(job)
    if about is None:
        return True, (0, 0)
    stages = [tracker.getStageInfo(stage) for stage in about.stageIds]
    # What has not begun may never do so: its results may be there from an earlier job.
    begun = [one for one in stages if one and (one.numActiveTasks or one.numCompletedTasks)]
    done = sum(one.numCompletedTasks for one in begun)
    if about.status != "RUNNING":
        return True, (done, done)
    return False, (done, sum(one.numTasks for one in begun))
