"""States as numbers: equal states, equal numbers, under any hash seed and, if wished, any naming.

A state of the group is a collection of facts: this process is in that state, this packet is on
its way, that message was delivered there. The number of a fact is a 64-bit hash of its
canonical bytes, and the number of a state the sum of its facts' numbers. Sums need no sorting
and are cheap to take.

For symmetry a fact has one such number for every way to exchange the names of the members, and
all of them stand side by side in one long integer, 96 bits each, so that one addition adds them
all without a carry from one into the next. The smallest of the sums is the state's number: it is
the same for all states that differ by an exchange of names alone.
"""

import struct
from collections.abc import Hashable, Sequence
from typing import Any

import xxhash

from tidings.core import Process
from tidings.core.renaming import Names, renamed, renamed_state
from tidings.core.state import fingerprint

_LANE_BITS = 96
_MASK = 2**64 - 1


class Signatures:
    def __init__(self, renamings: Sequence[Names]) -> None:
        """``renamings`` are the exchanges of names to be seen through, besides none at all."""
        self._renamings = renamings
        lanes = len(renamings) + 1
        self._bytes = lanes * _LANE_BITS // 8
        self._unpack = struct.Struct("<" + "Q4x" * lanes).unpack
        self._facts: dict[Hashable, int] = {}

    def number(self, total: int) -> int:
        """The number of the state whose facts add up to this; never 0."""
        if not self._renamings:
            return total & _MASK or 1
        return int(min(self._unpack(total.to_bytes(self._bytes, "little")))) or 1

    def lanes(self, number: int) -> tuple[int, ...]:
        """The hashes that stand side by side in the number of one fact, the first as named."""
        return self._unpack(number.to_bytes(self._bytes, "little"))

    def under_names(self, lane: int, value: Any) -> Any:
        """The value under the names of this lane."""
        return renamed(value, self._renamings[lane - 1]) if lane else value

    def of_fact(self, *fact: Hashable) -> int:
        known = self._facts.get(fact)
        if known is None:
            known = self._facts[fact] = self.of_value(list(fact))
        return known

    def of_value(self, value: Any) -> int:
        return self._sum(
            [fingerprint(value)] + [fingerprint(renamed(value, names)) for names in self._renamings]
        )

    def of_process(self, process: Process) -> int:
        state = process.state()
        return self._sum(
            [process.fingerprint()]
            + [fingerprint(renamed_state(state, names)) for names in self._renamings]
        )

    @staticmethod
    def _sum(lanes: Sequence[bytes]) -> int:
        return sum(
            xxhash.xxh3_64_intdigest(lane) << (_LANE_BITS * position)
            for position, lane in enumerate(lanes)
        )
