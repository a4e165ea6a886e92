"""How far a history can be cut off: what came before is then told by numbers alone.

Numbers tell it only if everything happened in sequence: the messages of each origin delivered from
1 on, each once, in their order, and one's own broadcast in the same way. Whatever shows that it was
not so is evidence, and stays. Of the texts a sum of their digests is left. Where rows are missing
nobody knows what happened; there one waits for the next ``gap`` or ``recover`` that tells how far
the process had come.
"""

from collections.abc import Iterable

from tidings.trace.manifest import HistoryCut
from tidings.trace.segments import DIGEST_BYTES, Block, Gap, Item, Mark, Messages

PRIME = 2**128 - 159
"""The largest prime of 128 bits."""


def summed(before: int, digests: bytes) -> int:
    """All digests of an origin up to here, one after the other, as one number modulo the prime.

    It does not depend on the pieces in which they are added: two members that have cut off equally
    many messages can compare what these were, however each of them came there.
    """
    return ((before << 8 * len(digests)) + int.from_bytes(digests)) % PRIME


class OutOfSequenceError(Exception):
    """What happened cannot be told by numbers: the text says what it was."""


class Past:
    """What a process has done since its beginning, as its blocks tell it in order."""

    def __init__(self, process: str, cut: HistoryCut | None) -> None:
        begin = cut or HistoryCut(index=0)
        self.process = process
        self.index = begin.index
        self.broadcast = begin.broadcast
        self.delivered = dict(begin.delivered)
        self._sums = {origin: int(digits, 16) for origin, digits in begin.digests.items()}
        """Of the origins of which all digests are known."""
        self.unsure = False
        """Whether rows were missing, and nothing has told since how far the process had come."""

    @property
    def cut(self) -> HistoryCut:
        assert not self.unsure, "nobody knows what happened before"
        return HistoryCut(
            index=self.index,
            broadcast=self.broadcast,
            delivered=dict(self.delivered),
            digests={origin: f"{total:032x}" for origin, total in self._sums.items()},
        )

    def read(self, blocks: Iterable[Block]) -> None:
        """Go on with these; what was read before is passed over."""
        for block in blocks:
            if block.end <= self.index:
                continue
            self.unsure |= block.index > self.index
            for item in block.items:
                self._take(item)
            self.index = block.end

    def _take(self, item: Item) -> None:
        match item:
            case Messages("deliver", origin, first, count, digests):
                self._check("delivered", origin, first, self.delivered.get(origin, 0))
                self._add_digests(origin, first, count, digests)
                self.delivered[origin] = first + count - 1
            case Messages("broadcast", origin, first, count):
                self._check("broadcast", origin, first, self.broadcast)
                self.broadcast = first + count - 1
            case Gap(_, _, delivered, broadcast):
                self._go_to(self.delivered | delivered)
                self.broadcast = max(self.broadcast, broadcast)
            case Mark("recover", _, delivered, broadcast) if delivered is not None:
                self._go_to(dict(delivered))
                self.broadcast = broadcast
                self.unsure = False

    def _add_digests(self, origin: str, first: int, count: int, digests: bytes) -> None:
        last = self.delivered.get(origin, 0)
        is_known = last == 0 or origin in self._sums
        if is_known and first == last + 1 and len(digests) == DIGEST_BYTES * count:
            self._sums[origin] = summed(self._sums.get(origin, 0), digests)
        else:
            self._sums.pop(origin, None)

    def _go_to(self, delivered: dict[str, int]) -> None:
        """So far it came, and nobody wrote down what it delivered on the way."""
        for origin, last in delivered.items():
            if last != self.delivered.get(origin, 0):
                self._sums.pop(origin, None)
        self.delivered = delivered

    def _check(self, verb: str, origin: str, first: int, last: int) -> None:
        if first <= last or (first > last + 1 and not self.unsure):
            raise OutOfSequenceError(
                f"{self.process} {verb} {origin}#{first} where {origin}#{last + 1} comes next"
            )
