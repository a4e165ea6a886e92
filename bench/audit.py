"""What an audit costs, beside the least that Spark could do and beside others.

Makes valid traces, one long run or a campaign of many small ones, and has them judged by

- ours: the audit on Spark, the same arrays in one process without Spark, and on Spark by queries,
  the oracle (up to 1M events);
- the floor: Spark scans the same columns and groups the rows, and judges nothing;
- DuckDB and Polars, by our own best programs (bench/rivals; ``pip install 'tidings[bench]'``).

The rivals are written for this trace alone. They assume one run with one list of members, a file
for each process, and messages numbered from 1, and they count breaches; the audit checks every row
and names witnesses.

Each is a fresh process (``contest``), warmed up on a trace of up to 3M events. In every round all
take turns; the table shows medians, and the least and the most CPU. CPU and peak memory are of all
processes together, Java and its Python workers included.

    python bench/audit.py --events 50e6
    python bench/audit.py --events 1e6,10e6,50e6,250e6,1000e6 --only floor,spark    how it grows
    python bench/audit.py --events 10e6 --processes 5,20,50 --json
    python bench/audit.py --runs 20000,200000
"""

import argparse
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import contestants
from contest import Contestant, Cost, measured


class Entry(NamedTuple):
    """Who may take part, and in what."""

    contestant: Contestant
    most_events: float = float("inf")
    """Of one long run."""
    judges_campaigns: bool = True
    needs: str = "tidings"


ENTRIES = {
    "spark": Entry(contestants.on_spark),
    "local": Entry(contestants.locally),
    "queries": Entry(contestants.by_queries, most_events=1e6, judges_campaigns=False),
    "floor": Entry(contestants.floor),
    "duckdb": Entry(contestants.in_duckdb, 1e8, judges_campaigns=False, needs="duckdb"),
    "polars": Entry(contestants.in_polars, 1e8, judges_campaigns=False, needs="polars"),
}


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
        from rivals import generate

        kind = "campaign" if self.is_campaign else "long"
        folder = root / f"{kind}-{self.size}-{self.processes}"
        if not folder.exists():
            say(f"making {folder.name}")
            make = generate.campaign if self.is_campaign else generate.long_run
            with TemporaryDirectory(prefix="making-", dir=root) as making:
                make(Path(making, folder.name), self.size, self.processes)
                Path(making, folder.name).rename(folder)
        return folder

    def entered(self, only: list[str]) -> dict[str, Contestant]:
        return {
            name: entry.contestant
            for name, entry in ENTRIES.items()
            if find_spec(entry.needs) and (not only or name in only)
            if (entry.judges_campaigns if self.is_campaign else self.size <= entry.most_events)
        }

    def __str__(self) -> str:
        runs = f"{self.size:,} runs" if self.is_campaign else "one run"
        return f"{self.processes} processes, {runs}"


class Result(NamedTuple):
    track: Track
    events: int
    load: float
    costs: dict[str, list[Cost]]
    """What each contestant used, round by round."""


def race(track: Track, root: Path, rounds: int, only: list[str]) -> Result:
    folder, small = track.trace(root), track.small.trace(root)
    entered = track.entered(only)
    costs: dict[str, list[Cost]] = {name: [] for name in entered}
    load = os.getloadavg()[0]
    for number in range(1, rounds + 1):
        for name, contestant in entered.items():
            cost = measured(contestant, small, folder)
            costs[name].append(cost)
            say(
                f"round {number}: {name} {cost.wall_s:.2f} s, {cost.cpu_s:.2f} s of CPU, "
                f"{cost.peak_mib:,.0f} MiB"
            )
    return Result(track, _events(folder), load, costs)


def _events(folder: Path) -> int:
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


# --- how it is shown


def shown(result: Result) -> str:
    ours = "spark" if "spark" in result.costs else next(iter(result.costs))
    base = _middle(result.costs[ours])
    lines = [
        f"{result.events:,} events, {result.track}; load {result.load:.1f}",
        f"{'':8} {'wall s':>8} {'CPU s':>8} {'least':>8} {'most':>8} {'peak MiB':>9} "
        f"{'ns/event':>9} {f'CPU / {ours}':>12}",
    ]
    for name, costs in result.costs.items():
        middle, cpu = _middle(costs), [cost.cpu_s for cost in costs]
        lines.append(
            f"{name:8} {middle.wall_s:8.2f} {middle.cpu_s:8.2f} {min(cpu):8.2f} {max(cpu):8.2f} "
            f"{middle.peak_mib:9,.0f} {middle.cpu_s / result.events * 1e9:9.1f} "
            f"{middle.cpu_s / max(base.cpu_s, 0.01):12.2f}"
        )
    return "\n".join(lines)


def _middle(costs: list[Cost]) -> Cost:
    """The median of each."""
    return Cost(*map(median, zip(*costs, strict=True)))


def growth(results: list[Result]) -> str:
    """How the CPU for one event changes from trace to trace."""
    names = list(dict.fromkeys(name for result in results for name in result.costs))
    lines = [f"{'ns of CPU for one event':34}" + "".join(f" {name:>8}" for name in names)]
    for result in results:
        spent = {name: _middle(costs).cpu_s for name, costs in result.costs.items()}
        columns = "".join(
            f" {f'{spent[name] / result.events * 1e9:.1f}' if name in spent else '-':>8}"
            for name in names
        )
        lines.append(f"{result.events:>15,}, {result.track!s:17}{columns}")
    return "\n".join(lines)


def as_json(result: Result) -> dict[str, Any]:
    track = result.track
    return {
        "events": result.events,
        "processes": track.processes,
        "runs": track.size if track.is_campaign else 1,
        "load": result.load,
        "costs": {name: [one._asdict() for one in costs] for name, costs in result.costs.items()},
    }


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(float(number)) for number in text.split(",") if number]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=numbers, help="one long run of so many; several: 1e6,1e7")
    parser.add_argument("--runs", type=numbers, help="a campaign of so many small runs")
    parser.add_argument("--processes", type=numbers, default=[5], help="in each run; several: 5,20")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help=f"some of {','.join(ENTRIES)}")
    parser.add_argument("--traces", type=Path, help="keep the traces in this folder")
    parser.add_argument("--json", action="store_true", help="a line for each trace")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    if unknown := set(only) - set(ENTRIES):
        parser.error(f"nobody is called {', '.join(sorted(unknown))}")
    events = options.events or ([] if options.runs else [1_000_000])
    tracks = [Track(size, n, False) for n in options.processes for size in events]
    tracks += [Track(size, n, True) for n in options.processes for size in options.runs or ()]
    results = []
    with TemporaryDirectory(prefix="tidings-bench-") as scratch:
        root = options.traces or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        for track in tracks:
            result = race(track, root, options.rounds, only)
            results.append(result)
            print(json.dumps(as_json(result)) if options.json else shown(result), flush=True)
    if len(results) > 1 and not options.json:
        print(growth(results))


if __name__ == "__main__":
    main()
