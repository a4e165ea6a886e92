"""The rows of one member, tick by tick, and what its log must hold by then."""

from collections.abc import Iterator
from pathlib import Path

from tidings.core import DataError
from tidings.trace import Manifest
from tidings.trace.segments import Block, Gap, Mark, Messages, Owner, Reader, segments_of
from tidings.trace.steps import DIGEST_BYTES

_MARKS = ("recover", "settle", "leave")


class CannotTell(Exception):  # noqa: N818 - reads as what it says
    """Something is missing without which nobody knows; the text says what."""


class History:
    """The blocks of one member in their order, the next one to be looked at first."""

    def __init__(self, folder: Path, manifest: Manifest, member: str) -> None:
        self.rows = 0
        self.delivered: dict[str, int] = {}
        self.broadcast = 0
        self.view = 0
        """Which view is installed."""
        self._member = member
        self._blocks = self._read(folder, Owner(manifest.run, member))
        self._next: Block | None = None
        self._is_at_the_end = False
        if member in manifest.cuts:
            raise CannotTell(f"the beginning of the trace of {member} was deleted")

    def peek(self) -> Block | None:
        if self._next is None and not self._is_at_the_end:
            self._next = next(self._blocks, None)
            self._is_at_the_end = self._next is None
        return self._next

    def take(self) -> Block:
        block = self.peek()
        assert block is not None, "there is no block left"
        self._next = None
        self.rows += block.end - block.index
        for item in block.items:
            match item:
                case Messages("deliver", origin, first, count):
                    self.delivered[origin] = first + count - 1
                case Messages("broadcast", _, first, count):
                    self.broadcast = first + count - 1
                case Mark("view" | "join", view, delivered):
                    self.view = view or 0
                    self.delivered |= delivered or {}
        return block

    def _read(self, folder: Path, owner: Owner) -> Iterator[Block]:
        end = 0
        for path in segments_of(folder, owner.process):
            reader = Reader(path)
            for block in reader.blocks():
                if reader.owner != owner:
                    raise DataError(f"{path}: not of {owner.process} in run {owner.run}")
                if block.index < end:
                    raise DataError(f"{path}: index {block.index} where {end} comes next")
                if block.index > end or any(isinstance(item, Gap) for item in block.items):
                    raise CannotTell(f"rows of {owner.process} are missing from its row {end} on")
                yield block
                end = block.end


def is_mark(block: Block) -> bool:
    """Whether no step led to it: a life began or ended, or the run is over."""
    return all(isinstance(item, Mark) and item.kind in _MARKS for item in block.items)


class ExpectedLog:
    """What was persisted, as digests; what a later life finds must be a piece of it.

    A new segment begins with records that stand for all before them, and the oldest segments may be
    gone; so what is found begins where some segment does. It ends after some tick.
    """

    def __init__(self) -> None:
        self.is_known = True
        """Whether every life so far was recorded; one that never got to its start wrote nothing."""
        self._digests = bytearray()
        self._starts = [0]
        self._ends = {0}
        self.least = 0
        """How long it is at least on disk."""

    def add(self, records: bytes, checkpoint: bytes | None) -> int:
        """What one tick persists, and the records with which a segment begins after it.

        Returns how long the log is after the tick.
        """
        self._digests += records
        length = len(self._digests)
        self._ends.add(length)
        if checkpoint is not None:
            self._starts.append(len(self._digests))
            self._digests += checkpoint
            self._ends.add(len(self._digests))
        return length

    def recover(self, found: bytes) -> str:
        """Go on with what a life found; what is wrong with that, if anything."""
        ends = [(start, start + len(found)) for start in self._starts]
        fits = [
            (start, end)
            for start, end in ends
            if end in self._ends and self._digests[start:end] == found
        ]
        if not fits:
            return self._how_it_differs(found)
        _, end = fits[-1]
        if end < self.least:
            lost = (self.least - end) // DIGEST_BYTES
            return f"the last {lost} records that had been written are not there"
        del self._digests[end:]
        self._starts = [start for start in self._starts if start <= end]
        self._ends = {one for one in self._ends if one <= end}
        return ""

    def _how_it_differs(self, found: bytes) -> str:
        count = len(found) // DIGEST_BYTES
        agree = max(in_common(self._digests[start:], found) for start in self._starts)
        return f"of {count} records the first {agree} are as they were written"


def in_common(ours: bytes | bytearray, theirs: bytes) -> int:
    """How many digests are the same from the beginning on."""
    most = min(len(ours), len(theirs)) // DIGEST_BYTES
    differ = (
        at
        for at in range(most)
        if ours[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)]
        != theirs[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)]
    )
    return next(differ, most)
