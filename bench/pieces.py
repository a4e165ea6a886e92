"""One long run over more and more tasks, on a standalone cluster: what each of them costs.

A master and two workers of one core each, on loopback; a session of its own for each number of
pieces, so that nobody's memory is somebody else's. Measured are

- the CPU seconds of all executors, Java and Python together;
- the CPU seconds of the longest task of each stage, in Python, from the moment the task has been
  read to the end of its last parcel;
- the bytes that were shuffled, as Spark counts them;
- the largest resident memory of a Python worker.

    python bench/pieces.py --events 50e6 --processes 5,20 --pieces 4,8,16

On two cores that others used a little (load 3 to 5), Python's share of the CPU in brackets:

    250 million events, 5 processes
    pieces   CPU s   Python   longest survey, scatter, slabs   shuffled MB   peak MiB
         4    78.0    (67.0)           6.02     5.96    5.56         515.4        581
         8    78.2    (62.0)           2.65     3.03    2.70         515.4        524
        16    83.1    (63.8)           1.71     1.59    1.41         515.5        491
    250 million events, 20 processes
         4    90.3    (81.4)           5.16     5.44   10.63         355.2        541
         8    85.0    (73.4)           2.83     3.02    4.44         355.2        601
        16   101.4    (86.1)           1.76     1.70    2.63         355.9        528
    25 million events, 50 processes: too short for Java to warm up
         4    17.5    (13.9)           0.81     0.72    2.32          37.7        393
         8    23.0    (15.4)           0.52     0.44    1.48          41.0        346
        16    23.8    (14.4)           0.35     0.27    0.65          40.8        361
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from rivals import generate
from tidings import pipeline
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import Exchange, Parcel, Perform, Stage
from tidings.pipeline.arrays.plan import judge_by_arrays, plan_of
from tidings.pipeline.spark.exchange import exchanging
from tidings.pipeline.spark.workers import performing
from tidings.pipeline.statement import verdicts_of
from tidings.spec import Value
from tidings.trace import layout, read_manifests

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

from spark_cluster import Cluster, standalone

TICK = os.sysconf("SC_CLK_TCK")
STAGES = ("survey", "scatter", "slabs", "border")


class Noted:
    """Work of a task, which notes after each part what the task has used so far."""

    def __init__(self, stage: str, work: Callable[..., Any], folder: Path) -> None:
        self.stage, self.work, self.folder = stage, work, str(folder)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A task begins when its worker has read what to do."""
        self.__dict__.update(state)
        self.began = time.process_time()

    def note(self) -> None:
        context = TaskContext.get()
        assert context is not None, "a worker of Spark"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        used = time.process_time() - self.began
        line = json.dumps([self.stage, context.partitionId(), used, peak])
        with Path(self.folder, str(os.getpid())).open("a") as notes:
            print(line, file=notes)


class NotedTask(Noted):
    def __call__(self, item: Any) -> Any:
        result = self.work(item)
        self.note()
        return result


class NotedWork(Noted):
    def __call__(self, *on: Any) -> Iterator[Parcel]:
        yield from self.work(*on)
        self.note()


def noting(perform: Perform, exchange: Exchange, folder: Path) -> tuple[Perform, Exchange]:
    """The same, noting what every task uses."""

    def performed(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return perform(NotedTask("survey", task, folder), items)

    def exchanged(
        items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
    ) -> list[Parcel]:
        noted = [
            stage._replace(work=NotedWork(name, stage.work, folder))
            for name, stage in zip(STAGES[2:], stages, strict=True)
        ]
        return exchange(items, NotedWork("scatter", pack, folder), noted)

    return performed, exchanged


class Cost(NamedTuple):
    pieces: int
    wall_s: float
    cpu_s: float
    """Of all executors."""
    tasks_s: dict[str, float]
    """Of all tasks of a stage, in Python."""
    longest_s: dict[str, float]
    shuffled_mb: float
    peak_mib: float


def measured(spark: SparkSession, cluster: Cluster, trace: Path, pieces: int, root: Path) -> Cost:
    notes = root / f"notes-{pieces}-{trace.name}"
    notes.mkdir()
    manifests = read_manifests(layout(trace).manifests)
    limits = JudgingLimits(least_tasks=pieces, most_tasks=pieces)
    plan = plan_of(sorted(trace.glob("*.parquet")), manifests, limits)
    perform, exchange = noting(performing(spark), exchanging(spark, limits.batch_bytes), notes)
    before, begin = cpu_s(cluster), time.perf_counter()
    judged = judge_by_arrays(plan, perform, 3, exchange=exchange)
    wall, used = time.perf_counter() - begin, cpu_s(cluster) - before
    assert judged is not None, "one long run"
    (five,) = verdicts_of(judged, manifests, plan.directory, 3).values()
    assert {one.value for one in five} == {Value.HOLDS}, "a valid trace"
    lines = [json.loads(line) for file in notes.iterdir() for line in file.open()]
    tasks: dict[tuple[str, int], float] = {}
    for stage, task, task_s, _ in lines:
        tasks[stage, task] = max(task_s, tasks.get((stage, task), 0.0))
    of_stage = {
        name: [task_s for (stage, _), task_s in tasks.items() if stage == name] for name in STAGES
    }
    return Cost(
        pieces,
        wall,
        used,
        {stage: sum(each) for stage, each in of_stage.items()},
        {stage: max(each) for stage, each in of_stage.items()},
        shuffled_bytes(spark) / 1e6,
        max(peak for *_, peak in lines),
    )


def cpu_s(cluster: Cluster) -> float:
    """What all executors and their Python workers have used; none of them ends before us."""
    return sum(map(_ticks, cluster.executors())) / TICK


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = " ".join(one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/children"))
    # Of children that ended, too.
    return sum(map(int, fields[11:15])) + sum(map(_ticks, map(int, children.split())))


def shuffled_bytes(spark: SparkSession) -> int:
    """What all stages of the session wrote for others."""
    store, stage, total = spark.sparkContext._jsc.sc().statusStore(), 0, 0  # type: ignore[attr-defined]
    while True:
        try:
            total += store.lastStageAttempt(stage).shuffleWriteBytes()
        except Py4JJavaError:  # there is no such stage
            return total
        stage += 1


def shown(costs: Sequence[Cost]) -> str:
    stages = "".join(f" {stage + ' max':>12}" for stage in STAGES)
    lines = [
        f"{'pieces':>6} {'wall s':>7} {'CPU s':>7} {'Python s':>9}{stages} "
        f"{'shuffled MB':>12} {'peak MiB':>9}"
    ]
    for cost in costs:
        longest = "".join(f" {cost.longest_s[stage]:12.2f}" for stage in STAGES)
        lines.append(
            f"{cost.pieces:6} {cost.wall_s:7.1f} {cost.cpu_s:7.1f} "
            f"{sum(cost.tasks_s.values()):9.1f}{longest} {cost.shuffled_mb:12.1f} "
            f"{cost.peak_mib:9.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(float(number)) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=float, default=5e6)
    parser.add_argument("--processes", type=numbers, default=[5], help="several: 5,20")
    parser.add_argument("--pieces", type=numbers, default=[4, 8, 16])
    parser.add_argument("--traces", type=Path, help="keep the traces in this folder")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with TemporaryDirectory(prefix="tidings-pieces-") as scratch:
        root = Path(scratch)
        for processes in options.processes:
            trace = (options.traces or root) / f"long-{options.events:.0f}-{processes}"
            if not trace.exists():
                generate.long_run(trace, int(options.events), processes)
            small = root / f"small-{processes}"
            generate.long_run(small, 3_000_000, processes)
            costs = []
            for pieces in options.pieces:
                folder = root / f"cluster-{processes}-{pieces}"
                folder.mkdir()
                with standalone(folder) as cluster, pipeline.session(cluster.master) as spark:
                    measured(spark, cluster, small, pieces, root)
                    warm = shuffled_bytes(spark)
                    cost = measured(spark, cluster, trace, pieces, root)
                    costs.append(cost._replace(shuffled_mb=cost.shuffled_mb - warm / 1e6))
            load = f"load {os.getloadavg()[0]:.1f}"
            print(f"{options.events:,.0f} events, {processes} processes; {load}")
            print(shown(costs), flush=True)


if __name__ == "__main__":
    main()
