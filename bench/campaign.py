"""What Spark adds to the simulations of a campaign.

The same tasks are done by two plain processes, which share nothing but a list, and by Spark with
two cores. What counts is wall time x cores of Spark's simulation stage, without the start of the
session, against the CPU time of the plain processes. The files that come of it are the same.

Wall time is that of an idle machine, or worth nothing. CPU seconds of all of Spark's processes, its
Java included, are told beside it: these hold on a busy one, too.

    python bench/campaign.py
    python bench/campaign.py --plan plan.toml --seeds 1 --jobs 4 --json
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tidings import pipeline
from tidings.campaign.cells import mixed
from tidings.campaign.conduct import simulate
from tidings.campaign.folder import Folder, begun
from tidings.campaign.plan import default_plan, read_plan
from tidings.campaign.runs import perform

MOST = 1.5
"""Times the CPU time of plain processes: more would mean that Spark does not pay."""


def plainly(folder: Folder, jobs: int) -> tuple[float, float]:
    """Wall and CPU seconds of so many plain processes."""
    begin = time.perf_counter()
    tasks = mixed(folder.tasks)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        works = [(task, folder.path, folder.campaign.budget) for task in tasks]
        cpu = sum(pool.imap_unordered(_timed, works))
    return time.perf_counter() - begin, cpu


def _timed(work: tuple[Any, Path, float]) -> float:
    begin = time.process_time()
    perform(*work)
    return time.process_time() - begin


class OnSpark(NamedTuple):
    start_s: float
    wall_s: float
    cpu_s: float


def on_spark(folder: Folder, jobs: int) -> OnSpark:
    """How long the session takes to start, and then the simulations."""
    begin = time.perf_counter()
    progress = pipeline.Progress(lambda words: print(f"... {words}", file=sys.stderr), every_s=10.0)
    with (
        pipeline.session(master=f"local[{jobs}]") as spark,
        progress.following(pipeline.tasks_of(spark)),
    ):
        spark.range(1).count()
        started, used = time.perf_counter(), _cpu_s()
        simulate(spark, folder, progress)
        # Workers that wait for another task are still there, and tell what they used.
        return OnSpark(started - begin, time.perf_counter() - started, _cpu_s() - used)


def _cpu_s() -> float:
    """Of this process and all that come from it."""
    return sum(_used(pid) for pid in [os.getpid(), *_descendants(os.getpid())])


def _used(pid: int) -> float:
    # After the name, which may have spaces, user and system time are the 12th and 13th.
    words = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> Iterator[int]:
    for children in Path("/proc", str(pid), "task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _descendants(child)


def same_files(one: Path, other: Path) -> bool:
    names = sorted(file.name for file in (one / "trace").iterdir())
    return names == sorted(file.name for file in (other / "trace").iterdir()) and all(
        (one / "trace" / name).read_bytes() == (other / "trace" / name).read_bytes()
        for name in names
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=default_plan())
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    campaign = read_plan(asked.plan, asked.seeds)
    with TemporaryDirectory() as place:
        plain = begun(Path(place, "plain"), campaign)
        sparkling = begun(Path(place, "spark"), campaign)
        wall_s, cpu_s = plainly(plain, asked.jobs)
        spark = on_spark(sparkling, asked.jobs)
        assert same_files(plain.path, sparkling.path), "Spark's files differ"
    figures = {
        "runs": len(plain.cells) * campaign.seeds,
        "tasks": len(plain.tasks),
        "jobs": asked.jobs,
        "plain_wall_s": wall_s,
        "plain_cpu_s": cpu_s,
        "session_start_s": spark.start_s,
        "spark_wall_s": spark.wall_s,
        "spark_cpu_s": spark.cpu_s,
        "ratio": spark.wall_s * asked.jobs / cpu_s,
        "cpu_ratio": spark.cpu_s / cpu_s,
    }
    if asked.json:
        print(json.dumps(figures))
        return
    print(f"{figures['runs']:,} runs in {figures['tasks']:,} tasks, {asked.jobs} cores")
    print(f"plain processes  {wall_s:7.1f} s wall  {cpu_s:7.1f} s CPU")
    print(
        f"Spark            {spark.wall_s:7.1f} s wall  {spark.cpu_s:7.1f} s CPU, "
        f"after {spark.start_s:.1f} s to start"
    )
    print(f"wall x cores / CPU of plain processes: {figures['ratio']:.2f} (at most {MOST})")
    print(f"CPU / CPU of plain processes:          {figures['cpu_ratio']:.2f}")


if __name__ == "__main__":
    main()
