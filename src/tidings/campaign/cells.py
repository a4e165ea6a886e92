"""The grid that a plan stands for, as a table of cells, and how its runs are dealt out.

A cell is one algorithm in groups of one size under one load and one fault plan; it has a run for
every seed. A task is some seeds of some cells, about as much work as any other task, and writes one
file. Which task has which runs is decided by the plan alone: who goes on with a campaign, on
whatever machine, finds the same tasks.
"""

import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any, NamedTuple

import msgspec

from tidings.campaign.plan import LARGEST_FLAWED, MOST_CELLS, MOST_RUNS, Campaign
from tidings.core import UsageError
from tidings.simulator import Plan

TASK_COST = 60_000.0
"""About two seconds of work: long beside what Spark takes for a task, and soon done again."""
LEAST_TASKS = 16
"""Of a small campaign, so that several workers have something to do."""


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    algorithm: str
    """With its options, as on the command line."""
    flawed: bool
    processes: int
    workload: str
    faults: str
    plan: Plan

    @property
    def expected_cost(self) -> float:
        """Of one run, in packets or so: what it costs a process to exist is some packets, too."""
        size = self.processes + self.plan.joiners + self.plan.changes
        packets = self.plan.broadcasts * size * (size + 5)
        tells_all_to_all = "form=news" in self.algorithm or self.plan.protocol == "flawed/storm"
        return 50 + packets * (size / 2 if tells_all_to_all else 1.0)

    @property
    def key(self) -> str:
        """What it is found by in another campaign; to be compared, ``conditions`` are the same."""
        return ", ".join([self.algorithm, f"n={self.processes}", self.workload, self.faults])

    @property
    def conditions(self) -> Plan:
        """What its runs meet: neither who they are, nor when one is given up, which changes no run
        that comes to rest.
        """
        usual = Plan()
        return msgspec.structs.replace(
            self.plan, protocol=usual.protocol, options=usual.options, budget=usual.budget
        )

    def run_name(self, seed: int) -> str:
        return f"{self.number:05}-{seed}"

    def dice(self, seed: int) -> int:
        """The seed of the simulator: all algorithms meet the same luck, but only where size, load
        and faults are the same; elsewhere it is another, so that the runs of an algorithm are
        independent of each other.
        """
        words = f"{self.processes} {self.workload} {self.faults} {seed}"
        return int.from_bytes(blake2b(words.encode(), digest_size=6).digest())


def cells_of(campaign: Campaign) -> list[GridCell]:
    """All cells, in the order of the plan."""
    found: list[GridCell] = []
    for (contender, flawed), size, workload, name in product(
        campaign.entries, campaign.sizes, campaign.workloads, campaign.faults
    ):
        is_small = not flawed or size <= LARGEST_FLAWED
        if is_small and campaign.is_wanted(contender, size, workload, name):
            found.append(
                GridCell(
                    number=len(found),
                    algorithm=str(contender),
                    flawed=flawed,
                    processes=size,
                    workload=workload,
                    faults=name,
                    plan=campaign.plan_for(contender, size, workload, name),
                )
            )
        if len(found) > MOST_CELLS:
            raise UsageError(f"a campaign has up to {MOST_CELLS:,} cells, and not more")
    if not found:
        raise UsageError("no algorithm meets any size, load and faults: the plan has no cell")
    if len(found) * campaign.seeds > MOST_RUNS:
        raise UsageError(
            f"a campaign has up to {MOST_RUNS:,} runs, and not {len(found):,} cells with "
            f"{campaign.seeds:,} seeds each"
        )
    return found


def table_of(cells: Sequence[GridCell], seeds: int) -> list[dict[str, Any]]:
    """The cells as rows; the plan of a run as it would stand in its manifest."""
    return [
        {
            "cell": cell.number,
            "algorithm": cell.algorithm,
            "flawed": cell.flawed,
            "processes": cell.processes,
            "workload": cell.workload,
            "faults": cell.faults,
            "seeds": seeds,
            "expected_cost": cell.expected_cost,
            "plan": msgspec.json.encode(cell.plan).decode(),
        }
        for cell in cells
    ]


class SeedBatch(NamedTuple):
    """Some seeds of a cell."""

    cell: GridCell
    seeds: range


class Task(NamedTuple):
    """What one worker does at once, and writes into one file."""

    number: int
    batches: tuple[SeedBatch, ...]

    @property
    def name(self) -> str:
        return f"task-{self.number:05}"

    @property
    def runs(self) -> Iterator[tuple[GridCell, int]]:
        return ((batch.cell, seed) for batch in self.batches for seed in batch.seeds)


def tasks_of(cells: Sequence[GridCell], seeds: int, task_cost: float | None = None) -> list[Task]:
    """All runs, in the order of the cells, cut where about enough have come together."""
    if task_cost is None:
        task_cost = min(TASK_COST, seeds * sum(one.expected_cost for one in cells) / LEAST_TASKS)
    tasks: list[Task] = []
    batches: list[SeedBatch] = []
    cost = 0.0
    for cell in cells:
        begin = 0
        for seed in range(seeds):
            cost += cell.expected_cost
            if cost >= task_cost:
                batches.append(SeedBatch(cell, range(begin, seed + 1)))
                tasks.append(Task(len(tasks), tuple(batches)))
                begin, batches, cost = seed + 1, [], 0.0
        if begin < seeds:
            batches.append(SeedBatch(cell, range(begin, seeds)))
    if batches:
        tasks.append(Task(len(tasks), tuple(batches)))
    return tasks


def mixed(tasks: Sequence[Task]) -> list[Task]:
    """In another order, always the same: small and large groups in turn, so that the pace so far
    says something about the time that is left.
    """
    return random.Random(0).sample(tasks, len(tasks))
