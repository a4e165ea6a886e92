"""What a judge of arrays found: counts for every run and guarantee, and the breaches as columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.spec import Guarantee

Array = Any

NOTHING = -1
"""Stands for no event, no process, no cause."""

MOST_WITNESSES = 3

TABLE = pa.schema(
    {
        "run": pa.int32(),
        "guarantee": pa.int8(),
        "process": pa.int16(),
        "origin": pa.int16(),
        "seq": pa.int64(),
        "cause_origin": pa.int16(),
        "cause_seq": pa.int64(),
        **{f"witness_process_{place}": pa.int16() for place in range(MOST_WITNESSES)},
        **{f"witness_index_{place}": pa.int64() for place in range(MOST_WITNESSES)},
    }
)
"""Breaches in numbers; NOTHING where there is nothing to say."""


class Breaches(NamedTuple):
    """Violations in the order in which the specification tells them, run by run."""

    guarantee: Array
    run: Array
    process: Array
    origin: Array
    seq: Array
    cause_origin: Array
    cause_seq: Array
    witness_process: Array
    """(breach, place in the witness)"""
    witness_index: Array

    @classmethod
    def of(cls, guarantee: Guarantee, **columns: Array) -> "Breaches":
        number = list(Guarantee).index(guarantee)
        for column in ("witness_process", "witness_index"):
            missing = MOST_WITNESSES - columns[column].shape[1]
            columns[column] = np.pad(
                columns[column], ((0, 0), (0, missing)), constant_values=NOTHING
            )
        return cls(np.full(len(columns["run"]), number), **columns)

    @classmethod
    def joined(cls, parts: Sequence["Breaches"]) -> "Breaches":
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def table(self, runs: Array) -> Any:
        """As Arrow, where ``runs`` has the trace's number of each run."""
        columns = self._asdict() | {"run": runs[self.run]}
        for column in ("witness_process", "witness_index"):
            for place in range(MOST_WITNESSES):
                columns[f"{column}_{place}"] = columns[column][:, place]
        return pa.table({name: pa.array(columns[name], kind) for name, kind in _FIELDS})


_FIELDS = [(field.name, field.type) for field in TABLE]


class Findings(NamedTuple):
    counts: Array
    """(run, guarantee, one of judged, not owed, violated)"""
    unreached: Array
    """(run, origin and seq): what was delivered first of all whose broadcast may still come."""
    breaches: Breaches

    @classmethod
    def of_nothing(cls, runs: int) -> "Findings":
        none = np.zeros(0, np.int64)
        places = np.zeros((0, MOST_WITNESSES), np.int64)
        return cls(
            np.zeros((runs, len(Guarantee), 3), np.int64),
            np.full((runs, 2), NOTHING),
            Breaches(none, none, none, none, none, none, none, places, places),
        )


def first_of_each_run(run: Array, most: int | None) -> Array:
    """Which of the breaches are among the first ``most`` of their run; runs ascend."""
    if most is None:
        return np.ones(len(run), bool)
    place = np.arange(len(run))
    starts = np.maximum.accumulate(np.where(np.diff(run, prepend=-1) != 0, place, 0))
    return place - starts < most
