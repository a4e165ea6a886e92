"""Long runs cut into slabs anywhere, and their parcels delivered in any order."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline_ways import Verdicts, by_arrays
from tidings.pipeline.arrays import long
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.cutting import Cutting
from tidings.pipeline.arrays.perform import Parcel, Stage
from tidings.trace import parquet
from traces import BREAKING, HIDING, Draft, correct_run, random_cut_runs, random_runs

LEAST_AND_MOST = {
    "task_rows": (1, 100),
    "least_tasks": (1, 4),
    "most_tasks": (4, 9),
    "slab_rows": (1, 60),
    "kept_rows": (0, 10_000),
    "marks_a_slab": (1, 8),
    "mark_window": (1, 8),
    "most_moments": (2, 60),
    "places_a_row": (0, 4),
    "more_places": (0, 60),
    "cells_at_once": (1, 600),
    "batch_bytes": (1, 10_000),
}
"""What is drawn of the limits of a long run; the others say what is long, or too long."""


def any_limits(rng: Random, **others: int) -> JudgingLimits:
    """Small ones, that are reached; every run counts as long."""
    drawn = {name: rng.randint(*between) for name, between in LEAST_AND_MOST.items()}
    return JudgingLimits(batch_rows=1, few_long_runs=1 << 20)._replace(**drawn | others)


def any_cutting(rng: np.random.Generator, width: int) -> Cutting:
    """Right by definition; good ones are among them."""
    cuts = int(rng.choice((1, 2, 2, 3, 5, 8))) - 1
    if rng.random() < 0.3:
        moments = np.sort(rng.random(cuts))[:, None] * 30
        seq = moments + rng.integers(-2, 3, (cuts, width))
        index = moments + rng.integers(-2, 3, (cuts, width))
    else:
        seq = rng.integers(0, int(rng.choice((8, 32))), (cuts, width))
        index = rng.integers(0, 40, (cuts, width))
    return Cutting(*(np.sort(limits, axis=0).astype(np.int64) for limits in (seq, index)))


class Shuffled:
    """An Exchange that copies every parcel, delivers them in any order, and remembers them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.seen: list[Any] = []

    def __call__(
        self,
        items: Sequence[Any],
        pack: Callable[[Any], Iterable[Parcel]],
        stages: Sequence[Stage],
    ) -> list[Parcel]:
        parcels = self._sent(parcel for item in items for parcel in pack(item))
        for stage in stages:
            arrived: dict[int, list[Any]] = {}
            for place, content in parcels:
                assert 0 <= place < stage.places
                arrived.setdefault(place, []).append(content)
            parcels = self._sent(
                parcel for place, some in arrived.items() for parcel in stage.work(place, some)
            )
        return parcels

    def _sent(self, parcels: Iterable[Parcel]) -> list[Parcel]:
        sent = [pickle.loads(pickle.dumps(parcel)) for parcel in parcels]
        self.rng.shuffle(sent)
        self.seen += [parcel.content for parcel in sent]
        return sent


def worse_run(run: str, seed: int) -> Draft:
    """Several faults of each kind in one run."""
    rng = Random(seed)
    draft = correct_run(run, rng)
    for fault in rng.choices(BREAKING, k=rng.randint(2, 8)):
        if draft.deliveries() and draft.broadcasts():
            fault(draft)
    if rng.random() < 0.5:
        rng.choice(HIDING)(draft)
    return draft


def worse_runs(count: int, seed: int = 0) -> list[Draft]:
    return [worse_run(f"worse-{number}", seed * 1_000_003 + number) for number in range(count)]


def renumber(drafts: Iterable[Draft], rng: Random) -> None:
    """Names of any size in some of the runs, and now and then in one event alone."""
    for draft in drafts:
        if not draft.cuts and rng.random() < 0.1:
            offset = rng.choice((2**40, 2**53, 2**63 - 100))
            for event in (event for events in draft.events.values() for event in events):
                if event.get("seq", 2**40) < 90 and rng.random() < 0.97:
                    event["seq"] += offset


def runs_of_all_kinds(count: int, seed: int) -> list[Draft]:
    """Half of them random, a quarter with histories cut off, a quarter with many faults."""
    drafts = [
        *random_runs(count // 2, seed),
        *random_cut_runs(count // 4, seed),
        *worse_runs(count // 4, seed),
    ]
    renumber(drafts, Random(seed))
    return drafts


def judged_anywhere(
    folder: Path, spool: Path, seed: int, most: int | None = None
) -> tuple[Verdicts | None, Shuffled]:
    """What slabs say of a trace that is cut at random, and what they sent to each other."""
    dice, exchange = np.random.default_rng(seed), Shuffled(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long, "cutting_for", lambda _, low, *__: any_cutting(dice, len(low)))
        limits = any_limits(Random(seed))
        return by_arrays(folder, spool, limits, "pieces", most, exchange), exchange


# --- a long trace in columns, with faults anywhere


def spoil_anywhere(good: Path, folder: Path, rng: np.random.Generator) -> None:
    """A copy in which histories have swaps, losses, repeats, altered texts and strays."""
    folder.mkdir()
    (folder / "manifest.jsonl").write_bytes((good / "manifest.jsonl").read_bytes())
    for path in sorted(good.glob("*.parquet")):
        table = _spoilt(pq.read_table(path), rng)
        size = int(rng.choice((7000, 20_000, 1 << 20)))
        pq.write_table(table, folder / path.name, row_group_size=size, **parquet.FORM)


def _spoilt(table: Any, rng: np.random.Generator) -> Any:
    is_delivery = pc.equal(table["kind"].cast("string"), "deliver").to_numpy()
    deliveries = np.flatnonzero(is_delivery)
    columns = {name: table[name].fill_null(0).to_numpy().copy() for name in ("digest", "seq")}
    for _ in range(rng.integers(1, 3)):
        columns["digest"][rng.choice(deliveries)] += 1
    for _ in range(rng.integers(0, 3)):
        columns["seq"][rng.choice(deliveries)] += int(rng.choice((1, 10**7, 10**12)))
    order = np.arange(len(table))
    for _ in range(rng.integers(0, 3)):
        one = int(rng.choice(deliveries))
        other = min(one + int(rng.integers(1, rng.choice((3, 100, 20_000)))), deliveries[-1])
        order[[one, other]] = order[[other, one]]
    # The last row says how the history ends, and stays.
    if rng.random() < 0.5:
        order = np.delete(order, rng.choice(deliveries))
    if rng.random() < 0.5:
        again = int(rng.choice(deliveries[: len(deliveries) // 2]))
        order = np.insert(order, int(rng.integers(again + 1, len(order) - 1)), again)
    is_null = table["seq"].is_null().to_numpy()
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, parquet.ARROW.field(name), pa.array(values, mask=is_null))
    index = pa.array(np.arange(len(order)))
    place = table.column_names.index("index")
    moved = table.take(pa.array(order)).set_column(place, parquet.ARROW.field("index"), index)
    return moved.cast(parquet.ARROW)
