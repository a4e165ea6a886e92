"""What a judge of arrays found: counts for every run and guarantee, and violations in numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.spec import Guarantee

Array = Any
"""A numpy array; what its elements are is said where it is made."""

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
"""Violations in numbers; NOTHING where there is nothing to say."""


class Found(NamedTuple):
    """Violations of one guarantee, run by run in the order of the specification."""

    run: Array
    process: Array
    position: Array
    """The event at which it shows: the order within a process."""
    origin: Array
    seq: Array
    witness: Array
    """(violation, event, process and index)"""
    cause: Array
    """(violation, origin and seq)"""

    @classmethod
    def of(
        cls,
        process: Array,
        position: Array,
        origin: Array,
        seq: Array,
        witness: Sequence[tuple[Array, Array]],
        cause: tuple[Array, Array] = (NOTHING, NOTHING),
        run: Array = 0,
    ) -> "Found":
        count = len(position)
        events, causes = np.full((count, MOST_WITNESSES, 2), NOTHING), np.empty((count, 2), int)
        for place, event in enumerate(witness):
            events[:, place, 0], events[:, place, 1] = event
        causes[:, 0], causes[:, 1] = cause
        run, process = (np.broadcast_to(one, count) for one in (run, process))
        return cls(run, process, position, np.asarray(origin), np.asarray(seq), events, causes)

    def at(self, places: Array) -> "Found":
        return Found(*(column[places] for column in self))

    @classmethod
    def joined(cls, parts: Sequence["Found"]) -> "Found":
        """All of one run, in order of process and position."""
        none = np.zeros(0, np.int64)
        whole = cls(*joined([cls.of(none, none, none, none, ()), *parts]))
        return whole.at(np.lexsort((whole.position, whole.process)))

    def first(self, most: int | None) -> "Found":
        return self.at(slice(most))

    def table(self, guarantee: Guarantee, runs: Array) -> Any:
        """As Arrow, where ``runs`` has the trace's number of each run."""
        number = np.full(len(self.run), list(Guarantee).index(guarantee))
        whose, index = self.witness[:, :, 0].T, self.witness[:, :, 1].T
        numbers = (runs[self.run], number, self.process, self.origin, self.seq, *self.cause.T)
        columns = zip((*numbers, *whose, *index), TABLE.types, strict=True)
        return pa.table([pa.array(column, kind) for column, kind in columns], schema=TABLE)


class Judged(NamedTuple):
    """What was found out about some runs; all arrays are by run."""

    run: Array
    counts: Array
    """(run, guarantee, one of judged, not owed, violated)"""
    unreached: Array
    doubts: Sequence[tuple[str, str]]
    breaches: Any
    """Their violations, as a table of TABLE."""
    rows: int

    @classmethod
    def joined(cls, parts: Sequence["Judged"]) -> "Judged":
        run, counts, unreached, doubts, breaches, rows = zip(*parts, strict=True)
        return cls(
            np.concatenate(run),
            np.concatenate(counts),
            np.concatenate(unreached),
            [doubt for of_part in doubts for doubt in of_part],
            pa.concat_tables(breaches),
            sum(rows),
        )

    @property
    def is_whole(self) -> bool:
        """No run was met in two places."""
        return len(np.unique(self.run)) == len(self.run)


class Findings(NamedTuple):
    counts: Array
    """(run, guarantee, one of judged, not owed, violated)"""
    unreached: Array
    """(run, origin and seq): what was delivered first of all whose broadcast may still come."""
    breaches: Mapping[Guarantee, Found]

    @classmethod
    def of_nothing(cls, runs: int) -> "Findings":
        return cls(np.zeros((runs, len(Guarantee), 3), np.int64), np.full((runs, 2), NOTHING), {})

    def of_runs(self, runs: Array, doubts: Sequence[tuple[str, str]], rows: int) -> Judged:
        """The same with the trace's number of each run."""
        tables = [found.table(guarantee, runs) for guarantee, found in self.breaches.items()]
        breaches = pa.concat_tables([TABLE.empty_table(), *tables])
        return Judged(runs, self.counts, self.unreached, doubts, breaches, rows)


def joined(parts: Sequence[Sequence[Array]], columns: int = 0) -> tuple[Array, ...]:
    """Column by column, what all parts have; so many empty ones if there are no parts."""
    whole = map(np.concatenate, zip(*parts, strict=True))
    return tuple(whole) or (np.zeros(0, np.int64),) * columns


def first_of_each_run(run: Array, most: int | None) -> Array:
    """Which of the breaches are among the first ``most`` of their run; runs ascend."""
    if most is None:
        return np.ones(len(run), bool)
    place = np.arange(len(run))
    starts = np.maximum.accumulate(np.where(np.diff(run, prepend=-1) != 0, place, 0))
    return place - starts < most
