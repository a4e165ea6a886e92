"""Violations in numbers, as those who look at a part of a long run find them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.findings import NOTHING

Array = Any


class FoundViolations(NamedTuple):
    """Violations found by one slice, in numbers, each list in the specification's order."""

    process: Array
    position: Array
    """The index of the event of this process at which it shows: the order within a process."""
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
        cause: tuple[Array, Array] | None = None,
    ) -> "FoundViolations":
        events = np.full((len(position), 3, 2), NOTHING)
        for place, (whose, index) in enumerate(witness):
            events[:, place, 0] = whose
            events[:, place, 1] = index
        causes = np.full((len(position), 2), NOTHING)
        if cause is not None:
            causes[:, 0], causes[:, 1] = cause
        process = np.broadcast_to(process, len(position))
        return cls(process, position, np.asarray(origin), np.asarray(seq), events, causes)

    def at(self, places: Array) -> "FoundViolations":
        return FoundViolations(*(column[places] for column in self))

    @classmethod
    def joined(cls, parts: Sequence["FoundViolations"]) -> "FoundViolations":
        """All in order of process and position."""
        nothing = np.zeros(0, np.int64)
        parts = [cls.of(nothing, nothing, nothing, nothing, ()), *parts]
        whole = cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        return whole.at(np.lexsort((whole.position, whole.process)))

    def followed_by(self, other: "FoundViolations") -> "FoundViolations":
        return FoundViolations(
            *(np.concatenate(column) for column in zip(self, other, strict=True))
        )

    def first(self, most: int | None) -> "FoundViolations":
        return self if most is None else self.at(np.arange(min(most, len(self.position))))
