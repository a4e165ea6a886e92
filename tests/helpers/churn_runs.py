"""Random runs of groups that change while they crash, restart and part, and what they contained.

The seed draws the plan of a run (``Plan.changes``), and the walk all that happens in it. What a run
contained is read from its trace alone.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from tidings.core import MessageId, quorum
from tidings.simulator import Plan, walk
from tidings.spec import Guarantee, Value, Verdict
from tidings.trace import Row, Run, parquet

LIVENESS = (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT)


def plan_for(seed: int) -> Plan:
    dice = random.Random(seed)
    size = dice.randint(1, 6)
    return Plan(
        protocol="views",
        options={"mode": dice.choice(["all", "origin"]), "batch_ms": dice.choice([-1, 0, 0])},
        processes=size,
        broadcasts=dice.randint(4, 16),
        gap_ms_mean=dice.choice([20.0, 60.0, 150.0]),
        delay_ms_max=dice.choice([5.0, 20.0, 100.0]),
        changes=dice.randint(1, 6),
        rivals=dice.choice([0.0, 0.5, 1.0]),
        crashes=dice.randint(0, quorum(size) - 1),
        mid_broadcast=dice.choice([0.3, 0.9]),
        restarts=dice.randint(0, 3),
        restart_ms=dice.choice([100.0, 3000.0]),
        duplicated=dice.choice([0.0, 0.2]),
        partitions=dice.randint(0, 1) if size > 1 else 0,
        partition_ms=dice.choice([40.0, 1000.0]),
    )


def churned(seed: int) -> Run:
    return walk(plan_for(seed), seed)


def write_chunk(folder: Path, seeds: range) -> Counter[str]:
    """The runs of these seeds as a part of a trace, and what they contained."""
    runs = [churned(seed) for seed in seeds]
    manifests = {run.manifest.run: run.manifest for run in runs}
    assert len(manifests) == len(runs)
    lines = msgspec.json.Encoder().encode_lines(manifests.values())
    (folder / f"{seeds.start}-manifest.jsonl").write_bytes(lines)
    rows = (row for run in runs for row in run.rows)
    parquet.write_rows(folder / f"{seeds.start}.parquet", rows, manifests)
    return sum(map(what_happened, runs), Counter())


def sound(verdicts: Mapping[str, Iterable[Verdict]]) -> Counter[str]:
    """Nothing is violated, or unknown but for want of anything owed; what was judged is counted."""
    owed: Counter[str] = Counter()
    for run, of_run in verdicts.items():
        for one in of_run:
            is_sound = one.value is Value.HOLDS or (one.value is Value.UNKNOWN and one.not_owed)
            assert is_sound, f"run {run}: {one}"
        debts = [one for one in of_run if one.guarantee in LIVENESS]
        owed["runs with something owed in the end"] += any(one.judged for one in debts)
        owed["runs with something not owed"] += any(one.not_owed for one in debts)
    return owed


def what_happened(run: Run) -> Counter[str]:
    happened: Counter[str] = Counter(runs=1)
    happened["views"] += len(run.manifest.views) - 1
    proposers: dict[int, set[str]] = {}
    decided: dict[int, int] = {}
    """When each view was first installed."""
    for row in run.rows:
        if row.kind in ("view", "join") and isinstance(row.value, int):
            decided[row.value] = min(decided.get(row.value, row.time_ns), row.time_ns)
    for process, rows in run.histories.items():
        happened += _of_one(rows, decided, proposers)
        happened["newcomers"] += any(row.kind == "join" for row in rows)
        happened["left"] += rows[-1].kind == "leave"
        happened["replacements"] += "+" in process and any(row.kind == "join" for row in rows)
    happened["rival proposals"] += sum(len(some) > 1 for some in proposers.values())
    happened["void messages"] += len(_void(run))
    return happened


def _of_one(
    rows: Iterable[Row], decided: Mapping[int, int], proposers: dict[int, set[str]]
) -> Counter[str]:
    happened: Counter[str] = Counter()
    number, proposes, down_ns = 0, False, 0
    for row in rows:
        match row.kind:
            case "view" | "join" if isinstance(row.value, int):
                number, proposes = row.value, False
            case "send" if row.packet_kind == "prepare":
                proposes = True
                proposers.setdefault(number + 1, set()).add(row.process)
            case "rebind":
                happened["rebound messages"] += 1
            case "crash":
                happened["dead proposers"] += proposes
                down_ns = row.time_ns
            case "recover":
                missed = [one for one in decided.values() if down_ns < one <= row.time_ns]
                happened["sleepers through two views"] += len(missed) > 1
    return happened


def _void(run: Run) -> set[MessageId]:
    """Messages of processes that were removed, which nobody delivers."""
    left = [name for name, rows in run.histories.items() if rows[-1].kind == "leave"]
    sent = {row.message for row in run.rows if row.kind == "broadcast" and row.process in left}
    return sent - {row.message for row in run.rows if row.kind == "deliver"}
