"""What an audit costs, beside the least that Spark could do and beside others.

Makes valid traces, one long run or a campaign of many small ones, and has them judged by

- the floor: Spark scans the same columns, sums the digests, groups by process and origin;
- the audit, which reads Parquet inside its tasks;
- nobody: Spark's own reader brings the rows to Python, which is the least an audit would cost that
  does not read Parquet itself;
- the audit with Spark's own reader, which brings each run together (up to 10M events a run);
- the queries, its oracle (up to 1M events);
- the same arrays on one core, without Spark;
- DuckDB and Polars, by our own best queries (bench/rivals; ``pip install 'tidings[bench]'``).

Everybody starts warm: each has judged a small trace before. Of ``--repeat`` rounds, in which all
take turns, the best one of each counts. CPU seconds and peak memory are of all processes together,
Java and its Python workers included.

    python bench/audit.py --events 50e6
    python bench/audit.py --events 1e6,10e6,50e6,250e6,1000e6 --alone    how it grows
    python bench/audit.py --events 10e6 --processes 5,20,50 --json
    python bench/audit.py --runs 20000,200000
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivals import generate
from tidings import pipeline
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import plainly
from tidings.pipeline.arrays.plan import judge_by_arrays, plan_of
from tidings.pipeline.queries.ingest import fill
from tidings.pipeline.spark.grouped import judge_grouped
from tidings.pipeline.statement import verdicts_of
from tidings.spec import Value
from tidings.trace import layout, read_manifests
from tidings.trace.schema import JUDGED

TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    name: str
    wall_s: float
    cpu_s: float
    peak_mib: float


# --- what all processes together use


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it; Linux only."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                yield from family(child)
        except OSError:
            continue


def cpu_ticks() -> dict[int, int]:
    """What each process has used so far. One by one: a worker that ends takes its own with it."""
    ticks = {}
    for pid in family(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks[pid] = sum(map(int, fields[11:13]))
        except OSError:
            continue
    return ticks


def memory_mib() -> float:
    """Shared pages count for each process by its share of them."""
    total = 0
    for pid in family(os.getpid()):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1024


def measured(name: str, act: Callable[[], Any]) -> Cost:
    peak = memory_mib()
    before = cpu_ticks()
    latest = dict(before)
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.25):
            peak = max(peak, memory_mib())
            latest.update(cpu_ticks())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    try:
        act()
    finally:
        wall = time.perf_counter() - begin
        is_over.set()
        watcher.join()
    latest.update(cpu_ticks())
    used = sum(ticks - before.get(pid, 0) for pid, ticks in latest.items())
    return Cost(name, wall, used / TICK, peak)


# --- the contestants; each judges the trace in a folder


def floor(spark: SparkSession, folder: Path) -> None:
    rows = spark.read.parquet(*map(str, folder.glob("*.parquet")))
    (
        rows.groupBy("process", "origin")
        .agg(
            F.sum(F.col("digest").cast("double")),
            F.max("index"),
            F.max("seq"),
            F.max("view"),
            F.sum(F.when(F.col("kind") == "deliver", 1)),
            F.count("run"),
        )
        .collect()
    )


def audit(spark: SparkSession, folder: Path) -> None:
    _expect_good(pipeline.audit(spark, folder).verdicts)


def audit_by_spark(spark: SparkSession, folder: Path) -> None:
    """The rows come by Spark's reader, sorted by run, and not from files read in the task."""
    files = layout(folder)
    manifests = read_manifests(files.manifests)
    with TemporaryDirectory() as spool:
        plan = plan_of(fill(Path(spool), files, manifests), manifests, JudgingLimits())
        judged = judge_grouped(spark, plan, Path(spool), 3)
    _expect_good(verdicts_of(judged, manifests, plan.directory, 3))


def rows_by_spark(spark: SparkSession, folder: Path) -> None:
    """The same rows come by Spark's reader to Python, where nobody looks at them."""

    def swallow(batches: Iterator[Any]) -> Iterator[Any]:
        rows = sum(len(batch) for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    rows = spark.read.parquet(*map(str, folder.glob("*.parquet"))).select(*JUDGED)
    rows.mapInArrow(swallow, "rows bigint").collect()


def queries(spark: SparkSession, folder: Path) -> None:
    _expect_good(pipeline.audit(spark, folder, checker="sql").verdicts)


def one_core(spark: SparkSession, folder: Path) -> None:
    manifests = read_manifests(layout(folder).manifests)
    plan = plan_of(sorted(folder.glob("*.parquet")), manifests, JudgingLimits())
    judged = judge_by_arrays(plan, plainly, 3)
    assert judged is not None, "the runs of a campaign are whole"
    _expect_good(verdicts_of(judged, manifests, plan.directory, 3))


def in_duckdb(spark: SparkSession, folder: Path) -> None:
    from rivals import duckdb_rival

    _expect_nothing(duckdb_rival.judge(_histories(folder), len(_histories(folder))))


def in_polars(spark: SparkSession, folder: Path) -> None:
    from rivals import polars_rival

    _expect_nothing(polars_rival.judge(_histories(folder), len(_histories(folder))))


def _histories(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"), key=lambda file: int(file.stem[1:]))


def _expect_good(verdicts: Any) -> None:
    values = {verdict.value for five in verdicts.values() for verdict in five}
    assert values == {Value.HOLDS}, f"a valid trace was judged {values}"


def _expect_nothing(breaches: dict[str, int]) -> None:
    assert not any(breaches.values()), f"a valid trace was judged {breaches}"


# --- the race


class Track(NamedTuple):
    """One trace to be judged."""

    size: int
    """Events, or runs of a campaign."""
    processes: int
    is_campaign: bool

    @property
    def small(self) -> "Track":
        """To warm up with."""
        return self._replace(size=min(self.size, 10_000 if self.is_campaign else 3_000_000))

    def trace(self, root: Path) -> Path:
        kind = "campaign" if self.is_campaign else "long"
        folder = root / f"{kind}-{self.size}-{self.processes}"
        if not folder.exists():
            say(f"making {folder.name}")
            make = generate.campaign if self.is_campaign else generate.long_run
            with TemporaryDirectory(prefix="making-", dir=root) as making:
                make(Path(making, folder.name), self.size, self.processes)
                Path(making, folder.name).rename(folder)
        return folder

    def __str__(self) -> str:
        runs = f"{self.size:,} runs" if self.is_campaign else "one run"
        return f"{self.processes} processes, {runs}"


class Result(NamedTuple):
    track: Track
    events: int
    load: float
    costs: list[Cost]

    def per_event_ns(self, name: str) -> float | None:
        return next(
            (cost.wall_s / self.events * 1e9 for cost in self.costs if cost.name == name), None
        )


def contestants(
    track: Track, options: argparse.Namespace
) -> dict[str, Callable[[SparkSession, Path], None]]:
    chosen = {"floor": floor, "audit": audit}
    if options.alone:
        return chosen
    chosen["Spark's reader"] = rows_by_spark
    if track.is_campaign or track.size <= options.by_spark:
        chosen["audit, Spark's reader"] = audit_by_spark
    if not track.is_campaign and track.size <= options.sql:
        chosen["queries"] = queries
    chosen["one core"] = one_core
    for name, rival in (("duckdb", in_duckdb), ("polars", in_polars)):
        if not track.is_campaign and track.size <= options.rivals and find_spec(name):
            chosen[name] = rival
    return chosen


def race(spark: SparkSession, track: Track, root: Path, options: argparse.Namespace) -> Result:
    folder, small = track.trace(root), track.small.trace(root)
    events = plan_of(
        sorted(folder.glob("*.parquet")), read_manifests(layout(folder).manifests), JudgingLimits()
    ).rows
    chosen = contestants(track, options)
    best: dict[str, Cost] = {}
    for name, act in chosen.items():
        say(f"warming up: {name}")
        act(spark, small)
    for number in range(options.repeat):
        for name, act in chosen.items():
            if number and name == "queries":
                continue
            cost = measured(name, lambda act=act: act(spark, folder))  # type: ignore[misc]
            say(f"round {number + 1}: {name} {cost.wall_s:.2f} s, {cost.cpu_s:.2f} s of CPU")
            best[name] = min(best.get(name, cost), cost, key=lambda one: one.wall_s)
    return Result(track, events, os.getloadavg()[0], list(best.values()))


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def shown(result: Result) -> str:
    lowest = next(cost for cost in result.costs if cost.name == "floor")
    lines = [
        f"{result.events:,} events, {result.track}; load {result.load:.1f}",
        f"{'':24} {'wall s':>8} {'CPU s':>8} {'peak MiB':>9} {'events/s':>12} "
        f"{'x floor':>8} {'x, CPU':>8}",
    ]
    lines += [
        f"{cost.name:24} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_mib:9,.0f} "
        f"{result.events / cost.wall_s:12,.0f} {cost.wall_s / lowest.wall_s:8.2f} "
        f"{cost.cpu_s / max(lowest.cpu_s, 0.01):8.2f}"
        for cost in result.costs
    ]
    return "\n".join(lines)


def growth(results: list[Result]) -> str:
    """How the time for one event changes from trace to trace."""
    names = list(dict.fromkeys(cost.name for result in results for cost in result.costs))
    lines = [f"{'ns for one event':34}" + "".join(f" {name:>22}" for name in names)]
    for result in results:
        times = [result.per_event_ns(name) for name in names]
        columns = "".join(f" {'-' if time is None else f'{time:.1f}':>22}" for time in times)
        lines.append(f"{result.events:>15,}, {result.track!s:17}{columns}")
    return "\n".join(lines)


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(float(number)) for number in text.split(",") if number]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=numbers, help="one long run of so many; several: 1e6,1e7")
    parser.add_argument("--runs", type=numbers, help="a campaign of so many small runs")
    parser.add_argument("--processes", type=numbers, default=[5], help="in each run; several: 5,20")
    parser.add_argument("--repeat", type=int, default=2)
    for name, most in (("sql", 1e6), ("by-spark", 1e7), ("rivals", 1e8)):
        what = f"up to so many events, {name} take part as well"
        parser.add_argument(f"--{name}", type=float, default=most, help=what)
    parser.add_argument("--alone", action="store_true", help="the floor and the audit only")
    parser.add_argument("--traces", type=Path, help="keep the traces in this folder")
    parser.add_argument("--json", action="store_true", help="a line for each trace")
    options = parser.parse_args()
    events = options.events or ([] if options.runs else [1_000_000])
    tracks = [Track(size, n, False) for n in options.processes for size in events]
    tracks += [Track(size, n, True) for n in options.processes for size in options.runs or ()]
    results = []
    with TemporaryDirectory(prefix="tidings-bench-") as scratch, pipeline.session() as spark:
        root = options.traces or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        for track in tracks:
            result = race(spark, track, root, options)
            results.append(result)
            print(json.dumps(as_json(result)) if options.json else shown(result), flush=True)
    if len(results) > 1 and not options.json:
        print(growth(results))


def as_json(result: Result) -> dict[str, Any]:
    track = result.track
    return {
        "events": result.events,
        "processes": track.processes,
        "runs": track.size if track.is_campaign else 1,
        "load": result.load,
        "costs": [cost._asdict() for cost in result.costs],
    }


if __name__ == "__main__":
    main()
