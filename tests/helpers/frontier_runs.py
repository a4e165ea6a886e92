"""Random runs of frontier with everything that can go wrong, and what they contained."""

import random
from collections import Counter
from collections.abc import Iterable

from tidings.core import Event, quorum
from tidings.simulator import Plan, World, choices, schedule_of, walk
from tidings.spec import Value, judge
from tidings.trace import Row, Run


class CheckedWorld(World):
    """After every choice, whoever took part in it is asked whether what it believes is true.

    What the others believe has not changed, and what was held is held: it stays true.
    """

    def apply(self, choice: choices.Choice, time_ns: int | None = None) -> list[Row]:
        self.stepped: dict[str, None] = {}
        rows = super().apply(choice, time_ns)
        everybody = isinstance(choice, choices.Recover)
        for process in self.up if everybody else self.stepped:
            if process not in self.crashed:
                self.processes[process].check(self.processes)
        return rows

    def _step(self, process: str, event: Event) -> None:
        if hasattr(self, "stepped"):
            self.stepped[process] = None
        super()._step(process, event)


def adversarial_plan(seed: int) -> Plan:
    """Three to seven processes; everything else from the seed, too."""
    dice, more_dice = random.Random(seed), random.Random(-1 - seed)
    size = dice.randint(3, 7)
    take_ms = dice.choice([0.0, 30.0])
    return Plan(
        protocol="frontier",
        options={
            "mode": dice.choice(["all", "origin"]),
            "until_processed": take_ms > 0,
            "memory": dice.choice([0, 0, 2]),
            "early": dice.choice([10_000, 1]),
            "push_bytes": dice.choice([1 << 18, 1]),
            "batch_ms": more_dice.choice([-1, 0]),
            "stable_ms": more_dice.choice([0, 5, 50]),
            "ticks": more_dice.random() < 0.3,
        },
        processes=size,
        broadcasts=dice.randint(1, 8),
        gap_ms_mean=dice.choice([0.5, 5.0, 20.0]),
        delay_ms_max=dice.choice([2.0, 20.0, 100.0]),
        links=dice.choice(["lossy", "lossy", "retrying"]),
        lost=dice.choice([0.05, 0.1, 0.3]),
        duplicated=dice.choice([0.0, 0.2]),
        partitions=dice.randint(0, 1),
        crashes=dice.randint(0, quorum(size) - 1),
        restarts=dice.randint(0, 3),
        mid_broadcast=0.7,
        take_ms=take_ms,
    )


def hold_all_guarantees(seeds: Iterable[int], world: type[World] = World) -> Counter[str]:
    """Every run must settle and hold all five; what the runs contained is counted."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        run = walk(adversarial_plan(seed), seed, world=world)
        broken = [verdict for verdict in judge(run) if verdict.value is not Value.HOLDS]
        assert not broken, f"seed {seed}: {broken[0]}"
        happened += what_happened(run)
        happened["runs"] += 1
    return happened


def what_happened(run: Run) -> Counter[str]:
    happened: Counter[str] = Counter()
    for step in schedule_of(run.manifest):
        match step.choice:
            case choices.Drop():
                happened["packets lost"] += 1
            case choices.Duplicate():
                happened["packets duplicated"] += 1
            case choices.Cut():
                happened["partitions"] += 1
            case choices.Doom(writes=writes):
                happened["crashes at a write"] += writes > 0
    others = len(run.manifest.members) - 1
    for history in run.histories.values():
        copies: Counter[int] = Counter(
            row.seq for row in history if row.kind == "send" and row.packet_kind == "data"
        )
        spoken = 0
        for row, following in zip(history, [*history[1:], None], strict=True):
            happened[row.kind] += 1
            if row.kind == "broadcast":
                spoken = row.seq
            if row.kind == "crash" and spoken and 0 < copies[spoken] < others:
                happened["crashes in mid-broadcast"] += 1
                happened["restarts in mid-broadcast"] += following is not None
            if row.kind == "send":
                happened[f"{row.packet_kind} packets"] += 1
    return happened
