"""Tidings beside JetStream, NATS, etcd and JGroups: the same load, the same counting, one machine.

    make bench-peers                              three passes, within 40 minutes
    make bench-peers ASKED="--quick"              one short pass, within 8
    make bench-peers ASKED="--before v0.1.0"      an older Tidings too

Within each pass the systems take turns, and the next pass begins with the next system. A system
that fails, or that lacks a tool, is left out with one line. Tables are Markdown on the standard
output; runs/peers.svg is a chart, runs/peers.json has every figure of every pass.
docs/performance.md defines what is measured.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from load.crew import (
    CrewError,
    NoDiskError,
    Sample,
    check_disk,
    file_system_of,
    sigterm_as_interrupt,
)
from load.phases import Phase
from load.tidings_group import ROOT, sources_of
from peers.results import Figure, Measure, Results, chart
from peers.systems import MEMBERS, System, rivals, tidings_systems
from tidings.core.ranks import percentile

WINDOWS = (1, 10, 2_000)
SIZES = {100: "100 B", 1_000: "1 KB", 10_000: "10 KB"}
SLOW_PER_S = 200.0
RATES = {size: Measure(f"Broadcasts per second, texts of {words}") for size, words in SIZES.items()}
CPU = {
    size: Measure(f"Processor time per broadcast in microseconds, texts of {words}")
    for size, words in SIZES.items()
}
LATENCY = Measure("Milliseconds until the slowest member has it, texts of 100 B", digits=2)
HALF = Measure("Broadcasts per second at half of the most, as reached")
ALONE = Measure("Broadcasts per second of one sender that awaits each receipt, texts of 100 B")


class Plan(argparse.Namespace):
    """How long everything takes."""

    passes: int
    seconds: float
    warm_s: float
    latency_s: float
    minutes: float


def columns() -> list[str]:
    return [f"window {window:,}" for window in WINDOWS]


def figures(system: System, folder: Path, plan: Plan) -> Iterator[Figure]:
    """One system, started once and led through all phases."""
    with system.started(folder) as crew:
        for window in (WINDOWS[-1], WINDOWS[0]):
            crew.run(Phase("window", 100, plan.warm_s, window=window))
        most_per_s = 0.0
        for size in SIZES:
            for window, column in zip(WINDOWS, columns(), strict=True):
                sample = crew.run(Phase("window", size, plan.seconds, window=window))
                yield Figure(system.name, RATES[size], column, sample.per_s)
                yield Figure(system.name, CPU[size], column, sample.cpu_us)
                if size == 100:
                    most_per_s = max(most_per_s, sample.per_s)
        for words, per_s in (("200 per s", SLOW_PER_S), ("half of the most", most_per_s / 2)):
            sample = crew.run(Phase("paced", 100, plan.latency_s, per_s=per_s / MEMBERS))
            yield from waits(system, words, sample)
            if per_s != SLOW_PER_S:
                yield Figure(system.name, HALF, "planned", per_s)
                yield Figure(system.name, HALF, "reached", sample.per_s)
        sample = crew.run(Phase("alone", 100, plan.seconds))
        yield from waits(system, "one sender", sample)
        yield Figure(system.name, ALONE, "per s", sample.per_s)


def waits(system: System, words: str, sample: Sample) -> Iterator[Figure]:
    for percent in (50, 99):
        wait_ms = percentile(percent, sample.latencies_ns) / 1e6
        yield Figure(system.name, LATENCY, f"p{percent}, {words}", wait_ms)


def measured(systems: Sequence[System], plan: Plan, disk: Path | None) -> Results:
    results = Results({system.name: system.durable for system in systems})
    until = time.monotonic() + 60 * plan.minutes
    longest_s = 0.0
    for number in range(plan.passes):
        turn = number % len(systems)
        for system in (*systems[turn:], *systems[:turn]):
            begin = time.monotonic()
            if begin + longest_s > until:
                note(f"pass {number + 1}: no time is left for {system.name}")
                continue
            note(f"pass {number + 1} of {plan.passes}: {system.name}")
            try:
                with tempfile.TemporaryDirectory(dir=disk) as folder:
                    check_disk(Path(folder))
                    found = list(figures(system, Path(folder), plan))
            except CrewError as error:
                note(f"{system.name} is left out of this pass: {error}")
                continue
            for figure in found:
                results.add(figure)
            longest_s = max(longest_s, time.monotonic() - begin)
    return results


def note(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def asked_for() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description="See the file.")
    parser.add_argument("--quick", action="store_true", help="one short pass, within 8 minutes")
    parser.add_argument("--only", nargs="+", help="only systems whose names contain one of these")
    parser.add_argument("--before", metavar="REV", help="another revision of Tidings as a rival")
    parser.add_argument("--passes", type=int, default=3, help="over all systems; 3 unless --quick")
    parser.add_argument("--disk", type=Path, help="where all logs go")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="for the chart and JSON")
    return parser.parse_args()


def chosen(asked: argparse.Namespace, folder: Path) -> list[System]:
    systems = tidings_systems("Tidings", ROOT / "src", "plain", "uvloop")
    systems += tidings_systems("Tidings, many at a time", ROOT / "src", "many", "uvloop")
    if asked.before:
        sources = sources_of(asked.before, folder)
        systems += tidings_systems(f"Tidings {asked.before}", sources, "plain", "asyncio")
    for rival in rivals():
        if missing := rival.missing():
            note(f"{rival.name} is left out: {missing}")
        else:
            systems.append(rival)
    wanted = asked.only or [""]
    return [one for one in systems if any(words in one.name for words in wanted)]


def described(systems: Sequence[System], results: Results, plan: Plan, disk: Path) -> str:
    """Everything as Markdown: the machine, the tables, the settings."""
    kind = file_system_of(disk.resolve(), Path("/proc/mounts").read_text())
    passes = "one pass" if plan.passes == 1 else f"{plan.passes} passes"
    head = (
        f"{MEMBERS} members on loopback, {os.cpu_count()} cores, {kind}, Python "
        f"{platform.python_version()}, {passes}, {plan.seconds:g} s for each figure.\n"
    )
    settings = [f"- {one.name}: {one.settings}" for one in systems]
    return "\n".join([head, *results.tables(), "**Settings**\n", *settings, ""])


def main() -> int:
    asked = asked_for()
    if asked.quick:
        plan = Plan(passes=1, seconds=1.0, warm_s=1.0, latency_s=2.0, minutes=7.5)
    else:
        plan = Plan(passes=asked.passes, seconds=2.5, warm_s=2.0, latency_s=4.0, minutes=39.0)
    try:
        with sigterm_as_interrupt(), tempfile.TemporaryDirectory() as folder:
            systems = chosen(asked, Path(folder))
            results = measured(systems, plan, asked.disk)
    except NoDiskError as error:
        note(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    print(described(systems, results, plan, asked.disk or Path(tempfile.gettempdir())))
    asked.out.mkdir(parents=True, exist_ok=True)
    picture = chart(results, RATES[100], WINDOWS, columns())
    (asked.out / "peers.svg").write_text(picture, encoding="utf-8")
    (asked.out / "peers.json").write_text(json.dumps(results.listed(), indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
