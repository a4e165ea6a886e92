"""Random runs with every fault, judged, and counted for what they contained."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tidings.compare import Contender
from tidings.core import quorum
from tidings.protocols import Factory
from tidings.simulator import Plan, walk
from tidings.spec import Value, judge
from tidings.trace import Row, Run

TEXTS: tuple[tuple[bytes, ...], ...] = (
    (),
    (b"same",),
    (b"",),
    (b"\xff\xfe\x00", b"\x80"),
    (b"", b"same", b"\n", b"same"),
)


def plan_for(contender: Contender, seed: int) -> Plan:
    """Group size, load and faults, all from the seed."""
    dice = random.Random(seed)
    size = dice.randint(1, 7)
    return Plan(
        protocol=contender.protocol,
        options=contender.options,
        processes=size,
        broadcasts=dice.randint(1, 10),
        texts=dice.choice(TEXTS),
        gap_ms_mean=dice.choice([0.5, 5.0, 20.0]),  # some back to back, some far apart
        delay_ms_max=dice.choice([2.0, 20.0, 100.0]),
        crashes=dice.randint(0, quorum(size) - 1),
        duplicated=dice.choice([0.0, 0.2]),
        lost=dice.choice([0.0, 0.1]),
        partitions=dice.randint(0, 1) if size > 1 else 0,
    )


def harsh(size: int, **changes: Any) -> Plan:
    """As many crash as may, and links repeat, lose and part."""
    plan = Plan(
        processes=size,
        broadcasts=12,
        crashes=quorum(size) - 1,
        duplicated=0.2,
        lost=0.1,
        partitions=1 if size > 1 else 0,
    )
    return msgspec.structs.replace(plan, **changes)


def runs_that_hold(
    plan: Plan, seeds: Iterable[int], factory: Factory | None = None
) -> Iterator[Run]:
    """The run of each seed, once it has held all five guarantees."""
    for seed in seeds:
        run = walk(plan, seed, factory=factory)
        broken = [verdict for verdict in judge(run) if verdict.value is not Value.HOLDS]
        assert not broken, f"{plan}, seed {seed}: {broken[0]}"
        yield run


def hold_all_guarantees(contender: Contender, seeds: Iterable[int]) -> Counter[str]:
    """Every run must hold all five; what the runs contained is counted."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        (run,) = runs_that_hold(plan_for(contender, seed), [seed])
        happened += what_happened(run)
        happened["runs"] += 1
    return happened


def what_happened(run: Run) -> Counter[str]:
    happened: Counter[str] = Counter()
    size = len(run.manifest.views[0])
    for process, history in run.histories.items():
        heard: set[Row] = set()
        cause: Row | None = None
        for row in history:
            if row.kind == "receive":
                cause = row
                if row.peer == row.origin:
                    heard.add((row.origin, row.seq))
            elif row.kind == "deliver" and row.origin != process:
                happened["delivered without the origin's own copy"] += (
                    row.origin,
                    row.seq,
                ) not in heard
                # Delivered in the step that a packet about another message set off.
                in_step = cause is not None and cause.time_ns == row.time_ns and cause.origin
                if in_step and cause.message != row.message:
                    happened["held back for a cause"] += 1
        spoken = [row for row in history if row.kind == "broadcast"]
        if spoken and history[-1].kind == "crash":
            last = spoken[-1]
            copies = [
                row
                for row in history[last.index :]
                if row.kind == "send" and (row.origin, row.seq) == (last.origin, last.seq)
            ]
            happened["crashed in mid-broadcast"] += 0 < len(copies) < size - 1
    return happened
