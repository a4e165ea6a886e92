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
from tidings.campaign.folder import lines
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
    patience = None if budget is None else _Patience(budget)

    class Named(World):
        def __init__(self, **about: Any) -> None:
            super().__init__(**about | {"run": run})

        def apply(self, choice: Choice, time_ns: int | None = None) -> list[Row]:
            if patience is not None:
                patience.check()
            return super().apply(choice, time_ns)

    return Named


class _Patience:
    """A run that has taken too much is noticed before its next choice, not in the middle of one.

    (A limit of the system would be stricter, but what is written in C may not survive it.)
    """

    def __init__(self, budget: Budget) -> None:
        self._end = time.monotonic() + budget.seconds
        self._most = resident_bytes() + budget.memory_mb * 1_000_000
        self._look_at = 0.0

    def check(self) -> None:
        now = time.monotonic()
        if now > self._end:
            raise OverTimeError
        if now > self._look_at:
            self._look_at = now + LOOK_EVERY_S
            if resident_bytes() > self._most:
                raise OverMemoryError


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
        outcomes: list[Outcome] = lines(file, Outcome)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise DataError(f"{file}: {fault}; {way_out}") from None
    found = [(outcome.cell, outcome.seed) for outcome in outcomes]
    if found != [(cell.number, seed) for cell, seed in task.runs]:
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
    outcome: dict[str, Any] = {"cell": cell.number, "seed": seed, "run": cell.run_name(seed)}
    try:
        run = simulated(cell, seed, budget)
    except OverTimeError:
        reason = f"it had not come to rest after {budget.seconds:g} seconds"
        return Outcome(**outcome, outcome="cut", reason=reason), None
    except (OverMemoryError, MemoryError):
        reason = f"it had not come to rest with {budget.memory_mb:,} MB of memory"
        return Outcome(**outcome, outcome="cut", reason=reason), None
    except Exception as fault:
        reason = " ".join(f"{type(fault).__name__}: {fault}".split())[:LONGEST_REASON]
        return Outcome(**outcome, outcome="failed", reason=reason), None
    rows = sum(map(len, run.histories.values()))
    # At rest, or with nobody left who could be.
    is_over = any(row.kind == "settle" for row in run.rows) or not _up(run)
    if is_over:
        return Outcome(**outcome, outcome="ran", rows=rows), run
    reason = f"it had not come to rest after {cell.plan.budget:,} packets or choices"
    return Outcome(**outcome, outcome="cut", reason=reason, rows=rows), run


def _up(run: Run) -> bool:
    return "up" in run.manifest.fates.values()


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
