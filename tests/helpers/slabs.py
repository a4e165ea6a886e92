"""Long runs cut into slabs anywhere, and their parcels delivered in any order."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.long.cutting import Cutting
from tidings.pipeline.arrays.perform import Parcel, Stage
from traces import BREAKING, HIDING, Draft, correct_run

LEAST_AND_MOST = {
    "task_rows": (1, 100),
    "least_tasks": (1, 4),
    "most_tasks": (4, 9),
    "slab_rows": (1, 60),
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
