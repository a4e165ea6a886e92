"""What a worker does: simulate the runs of a task, and write them, and what became of each.

A run that fails is a result like any other. One that raises has no rows; of one that exceeds its
packets the rows up to there are kept, and it is judged as far as that goes; one that takes too many
seconds, or too much memory, is given up without rows, since how far it came depends on the machine.
"""

import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.campaign.cells import GridCell, Task
from tidings.campaign.plan import Budget
from tidings.core import DataError
from tidings.disk.files import whole_file
from tidings.simulator import World, walk
from tidings.simulator.choices import Choice
from tidings.trace import Row, Run, parquet
from tidings.trace.layout import MANIFEST

LONGEST_REASON = 300


class OverTimeError(Exception):
    """A run has taken all the seconds it has."""


class OverMemoryError(Exception):
    """A run has taken all the memory it has."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run."""

    cell: int
    seed: int
    run: str
    outcome: Literal["ran", "cut", "failed"]
    reason: str = ""
    rows: int = 0
    cpu_s: float = 0.0


def world_named(run: str, budget: Budget | None = None) -> type[World]:
    """Worlds that call their run so, and last only so long.

    By itself a run is named by a hash of its plan, which in a large campaign two might share.
    """
    begin_s, begin_bytes = time.monotonic(), resident_bytes()

    class Named(World):
        look_at_s = 0.0

        def __init__(self, **about: Any) -> None:
            super().__init__(**about | {"run": run})

        def apply(self, choice: Choice, time_ns: int | None = None) -> list[Row]:
            if budget is not None:
                self.check(budget)
            return super().apply(choice, time_ns)

        def check(self, budget: Budget) -> None:
            """A run that has taken too much is noticed before its next choice, not in the middle.

            (A limit of the system would be stricter, but what is written in C may not survive it.)
            """
            now_s = time.monotonic()
            if now_s > begin_s + budget.seconds:
                raise OverTimeError
            if now_s > self.look_at_s:
                self.look_at_s = now_s + LOOK_EVERY_S
                if resident_bytes() > begin_bytes + budget.memory_mb * 1_000_000:
                    raise OverMemoryError

    return Named


LOOK_EVERY_S = 0.05
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """What this process has in memory; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def simulated(cell: GridCell, seed: int, budget: Budget | None = None) -> Run:
    """A run of a cell, as often as one likes: it is decided by its seed."""
    return walk(cell.plan, cell.dice(seed), world=world_named(cell.run_name(seed), budget))


def perform(
    task: Task, folder: Path, budget: Budget, runs: Iterable[tuple[GridCell, int]] | None = None
) -> int:
    """Simulate a task and write its files, the outcomes last; how many runs that were.

    ``runs`` are those of the task, for somebody who counts them as they are done.
    """
    outcomes = []
    kept: list[Run] = []
    for cell, seed in task.runs if runs is None else runs:
        begin = time.process_time()
        outcome, run = _tried(cell, seed, budget)
        outcomes.append(msgspec.structs.replace(outcome, cpu_s=time.process_time() - begin))
        if run is not None:
            kept.append(run)
    if kept:
        _write(folder / "trace", task.name, kept)
    with whole_file(folder / "tasks" / f"{task.name}.jsonl") as draft:
        draft.write_bytes(msgspec.json.Encoder().encode_lines(outcomes))
    return len(outcomes)


def outcomes_of(task: Task, folder: Path) -> list[Outcome]:
    """What became of the runs of a task that is done, or DataError if it is not, or is damaged.

    The rows are counted, which takes the end of their file only; whoever reads them checks them.
    """
    file = folder / "tasks" / f"{task.name}.jsonl"
    way_out = "delete it, and its task is done again"
    try:
        outcomes = msgspec.json.Decoder(Outcome).decode_lines(file.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise DataError(f"{file}: {fault}; {way_out}") from None
    expected = [(cell.number, seed) for cell, seed in task.runs]
    if [(outcome.cell, outcome.seed) for outcome in outcomes] != expected:
        raise DataError(f"{file}: not the outcomes of its task; {way_out}")
    kept = [outcome.rows for outcome in outcomes if outcome.rows]
    if kept and not _are_stored(folder / "trace", task.name, len(kept), sum(kept)):
        raise DataError(f"{file}: the rows of these runs are damaged; {way_out}")
    return outcomes


def _are_stored(folder: Path, name: str, runs: int, rows: int) -> bool:
    try:
        manifests = (folder / f"{name}.{MANIFEST}").read_bytes().count(b"\n")
        return manifests >= runs and parquet.check_file(folder / f"{name}.parquet") == rows
    except (OSError, DataError):
        return False


def is_done(task: Task, folder: Path) -> bool:
    try:
        outcomes_of(task, folder)
    except DataError:
        return False
    return True


def _tried(cell: GridCell, seed: int, budget: Budget) -> tuple[Outcome, Run | None]:
    about: dict[str, Any] = {"cell": cell.number, "seed": seed, "run": cell.run_name(seed)}

    def cut(limit: str, rows: int = 0) -> Outcome:
        reason = f"it had not come to rest {limit}"
        return Outcome(**about, outcome="cut", reason=reason, rows=rows)

    try:
        run = simulated(cell, seed, budget)
    except OverTimeError:
        return cut(f"after {budget.seconds:g} seconds"), None
    except (OverMemoryError, MemoryError):
        return cut(f"with {budget.memory_mb:,} MB of memory"), None
    except Exception as fault:
        reason = " ".join(f"{type(fault).__name__}: {fault}".split())[:LONGEST_REASON]
        return Outcome(**about, outcome="failed", reason=reason), None
    rows = sum(map(len, run.histories.values()))
    # At rest, or with nobody left who could be.
    if any(row.kind == "settle" for row in run.rows) or "up" not in run.manifest.fates.values():
        return Outcome(**about, outcome="ran", rows=rows), run
    return cut(f"after {cell.plan.budget:,} packets or choices", rows), run


def _write(folder: Path, name: str, runs: list[Run]) -> None:
    """Whole runs, without their schedules, which would be as much again: the seed has it all."""
    manifests = {
        run.manifest.run: msgspec.structs.replace(run.manifest, schedule=msgspec.Raw(b"[]"))
        for run in runs
    }
    rows = (row for run in runs for row in run.rows)
    parquet.write_rows(folder / f"{name}.parquet", rows, manifests)
    with whole_file(folder / f"{name}.{MANIFEST}") as draft:
        draft.write_bytes(msgspec.json.Encoder().encode_lines(list(manifests.values())))
