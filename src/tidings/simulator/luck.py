"""What a seed decides, each draw by a key of its own.

Numbers from one stream depend on how many were drawn before: one packet more, and all that follows
is other luck. Here the delay of the third packet from p1 to p2 is a hash of the seed and of
``("delay", "p1", "p2", 3)``, whatever else happens. So two protocols, or one before and after a
change, meet the same load and the same faults, and the n-th packet of a link takes as long in both.

The hash is BLAKE2b: as good as random, and the same in every Python and under any hash seed.
"""

import math
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
Key = str | int


class Luck:
    def __init__(self, seed: int) -> None:
        self._seeded = blake2b(b"%d" % seed, digest_size=8)
        self._drawn: Counter[tuple[Key, ...]] = Counter()

    def share(self, *key: Key) -> float:
        """From 0 to less than 1."""
        drawn = self._seeded.copy()
        drawn.update(repr(key).encode())
        return (int.from_bytes(drawn.digest()) >> 11) * 2.0**-53

    def next_share(self, *key: Key) -> float:
        """Of what is drawn again and again: the first, the second, and so on under this key."""
        self._drawn[key] += 1
        return self.share(*key, self._drawn[key])

    def between(self, low: int, high: int, *key: Key) -> int:
        """Any of these whole numbers, both ends included."""
        return low + int(self.share(*key) * (high - low + 1))

    def one_of(self, some: Sequence[T], *key: Key) -> T:
        return some[int(self.share(*key) * len(some))]

    def some_of(self, names: Sequence[str], count: int, *key: Key) -> list[str]:
        """So many of them: each has a number, and the smallest win."""
        return sorted(names, key=lambda name: self.share(*key, name))[:count]

    def gap(self, mean: float, *key: Key) -> float:
        """Exponentially distributed."""
        return -mean * math.log1p(-self.share(*key))

    def tail(self, exponent: float, *key: Key) -> float:
        """A factor of at least 1, with Pareto's distribution."""
        return float((1 - self.share(*key)) ** (-1 / exponent))

    def retries(self, lost: float, *key: Key) -> int:
        """How often a packet is lost before it is not, if each time with this probability."""
        return int(math.log1p(-self.share(*key)) / math.log(lost))

    def weighted(self, weights: Sequence[int], *key: Key) -> int:
        """A position, the next one under this key."""
        upto = list(accumulate(weights))
        return bisect(upto, self.next_share(*key) * upto[-1])
