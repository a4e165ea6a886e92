"""What a judge of arrays found: counts for every run and guarantee, and violations in numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.spec import JUDGED, Extra, Guarantee
from tidings.spec.verdict import FAULTS, Fault

Array = Any
"""A numpy array; what its elements are is said where it is made."""

NOTHING = -1
"""Stands for no event, no process, no cause."""

MOST_WITNESSES = 3

FAULT = np.array([list(Fault).index(FAULTS[guarantee]) for guarantee in Guarantee])
"""The fault that a violation of each guarantee shows, as a number."""

TABLE = pa.schema(
    {
        "run": pa.int32(),
        "guarantee": pa.int8(),
        "process": pa.int16(),
        "origin": pa.int16(),
        "seq": pa.int64(),
        "cause_origin": pa.int16(),
        "cause_seq": pa.int64(),
        "root_origin": pa.int16(),
        "root_seq": pa.int64(),
        **{f"witness_process_{place}": pa.int16() for place in range(MOST_WITNESSES)},
        **{f"witness_index_{place}": pa.int64() for place in range(MOST_WITNESSES)},
        "note": pa.int8(),
    }
)
"""Violations in numbers; NOTHING where there is nothing to say. A note is a rule about views."""

CAUSES = pa.schema(
    {
        "run": pa.int32(),
        "process": pa.int16(),
        "origin": pa.int16(),
        "seq": pa.int64(),
        **{f"violated_{number}": pa.int64() for number in range(len(Guarantee))},
    }
)
"""Causes in numbers, the largest of each run first, and what follows from each of them."""


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
    root: Array
    """(violation, origin and seq)"""
    note: Array

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
        root: tuple[Array, Array] = (NOTHING, NOTHING),
        note: Array = NOTHING,
    ) -> "Found":
        count = len(position)
        events = np.full((count, MOST_WITNESSES, 2), NOTHING)
        for place, event in enumerate(witness):
            events[:, place, 0], events[:, place, 1] = event
        messages = np.empty((2, count, 2), int)
        for place, (origins, seqs) in enumerate((cause, root)):
            messages[place, :, 0], messages[place, :, 1] = origins, seqs
        run, process, note = (np.broadcast_to(one, count) for one in (run, process, note))
        origin, seq = np.asarray(origin), np.asarray(seq)
        return cls(run, process, position, origin, seq, events, messages[0], messages[1], note)

    def at(self, places: Array) -> "Found":
        return Found(*(column[places] for column in self))

    @classmethod
    def joined(cls, parts: Sequence["Found"]) -> "Found":
        """All of one run, in order of process and position."""
        none = np.zeros(0, np.int64)
        whole = cls(*joined([cls.of(none, none, none, none, ()), *parts]))
        return whole.at(np.lexsort((whole.position, whole.process)))

    def rooted(self) -> "Found":
        """Those without a root follow from nothing but the message they are about."""
        own = np.stack([self.origin, self.seq], axis=1)
        return self._replace(root=np.where(self.root[:, :1] == NOTHING, own, self.root))

    def first(self, most: int | None) -> "Found":
        return self.at(slice(most))

    def table(self, guarantee: Guarantee | Extra, runs: Array) -> Any:
        """As Arrow, where ``runs`` has the trace's number of each run."""
        number = np.full(len(self.run), JUDGED.index(guarantee))
        whose, index = self.witness[:, :, 0].T, self.witness[:, :, 1].T
        numbers = (runs[self.run], number, self.process, self.origin, self.seq)
        names = (*self.cause.T, *self.root.T)
        columns = zip((*numbers, *names, *whose, *index, self.note), TABLE.types, strict=True)
        return pa.table([pa.array(column, kind) for column, kind in columns], schema=TABLE)


class Causes(NamedTuple):
    """What the violations of some runs follow from, run by run, the largest first."""

    run: Array
    process: Array
    origin: Array
    seq: Array
    violated: Array
    """(cause, guarantee): how many violations follow from it"""

    @classmethod
    def of(cls, run: Array, process: Array, origin: Array, seq: Array, violated: Array) -> "Causes":
        fault = FAULT[(violated > 0).argmax(axis=1)]
        order = np.lexsort((fault, seq, origin, process, -violated.sum(axis=1), run))
        return cls(*(one[order] for one in (run, process, origin, seq, violated)))

    @classmethod
    def of_nothing(cls) -> "Causes":
        none = np.zeros(0, np.int64)
        return cls(none, none, none, none, np.zeros((0, len(Guarantee)), np.int64))

    def counts(self, runs: int) -> Array:
        """(run, guarantee): how many causes there are"""
        return np.stack(
            [np.bincount(self.run[one > 0], minlength=runs) for one in self.violated.T], axis=1
        )

    def largest(self, most: int) -> "Causes":
        """Those that are among the largest of some guarantee."""
        is_named = np.zeros(len(self.run), bool)
        for one in self.violated.T:
            some = np.flatnonzero(one)
            is_named[some[first_of_each_run(self.run[some], most)]] = True
        return Causes(*(column[is_named] for column in self))

    def table(self, runs: Array) -> Any:
        """As Arrow, where ``runs`` has the trace's number of each run."""
        numbers = (runs[self.run], self.process, self.origin, self.seq, *self.violated.T)
        columns = zip(numbers, CAUSES.types, strict=True)
        return pa.table([pa.array(column, kind) for column, kind in columns], schema=CAUSES)


class Judged(NamedTuple):
    """What was found out about some runs; all arrays are by run."""

    run: Array
    counts: Array
    """(run, guarantee, one of judged, not owed, violated, causes)"""
    unreached: Array
    doubts: Sequence[tuple[str, str]]
    breaches: Any
    """Their violations, as a table of TABLE."""
    causes: Any
    """The largest causes of these, as a table of CAUSES."""
    rows: int

    @classmethod
    def joined(cls, parts: Sequence["Judged"]) -> "Judged":
        run, counts, unreached, doubts, breaches, causes, rows = zip(*parts, strict=True)
        return cls(
            np.concatenate(run),
            np.concatenate(counts),
            np.concatenate(unreached),
            [doubt for of_part in doubts for doubt in of_part],
            pa.concat_tables(breaches),
            pa.concat_tables(causes),
            sum(rows),
        )

    @property
    def is_whole(self) -> bool:
        """No run was met in two places."""
        return len(np.unique(self.run)) == len(self.run)


class Findings(NamedTuple):
    counts: Array
    """(run, guarantee, one of judged, not owed, violated, causes)"""
    unreached: Array
    """(run, origin and seq): what was delivered first of all whose broadcast may still come."""
    breaches: Mapping[Guarantee | Extra, Found]
    causes: Causes
    """The largest."""

    @classmethod
    def of_nothing(cls, runs: int) -> "Findings":
        counts = np.zeros((runs, len(JUDGED), 4), np.int64)
        return cls(counts, np.full((runs, 2), NOTHING), {}, Causes.of_nothing())

    def of_runs(self, runs: Array, doubts: Sequence[tuple[str, str]], rows: int) -> Judged:
        """The same with the trace's number of each run."""
        tables = [found.table(guarantee, runs) for guarantee, found in self.breaches.items()]
        breaches = pa.concat_tables([TABLE.empty_table(), *tables])
        causes = self.causes.table(runs)
        return Judged(runs, self.counts, self.unreached, doubts, breaches, causes, rows)


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
