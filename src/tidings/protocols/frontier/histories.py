"""The history of one origin in sixteen bytes, so that members can tell whether theirs is the same.

Two members that hold p1#1 to p1#9 hold the same nine messages, unless p1 came back with an older
copy of its disk and used numbers twice. A chain of BLAKE2b digests shows it: over the number, the
text and the causes of every message, in blocks of sixteen, so that it costs a fraction of a
microsecond for each message and does not depend on how the messages were batched. The digest at
any place within the last block, and at a few places before, is there when a peer names it; a
member that holds less than its peer compares when it has got as far.

Names stand nowhere in it: causes are counts, sorted. So a group with two names exchanged has the
same digests, which the explorer relies on.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import pack

import msgspec

BLOCK = 16
MOST_IN_BLOCK = 255
DIGEST_BYTES = 16
SHORT_BYTES = 1024
"""A longer text, or one with causes, stands in its block by a digest of its own: what waits for
its block to fill is bounded."""
TEXT, LONG_TEXT, TEXT_WITH_CAUSES = b"t", b"l", b"c"
"""What a part of a block is: no text can pass for the digest of another."""

Causes = tuple[int, ...]


class Chain(msgspec.Struct, frozen=True):
    """The digest of all full blocks, and what came since."""

    count: int = 0
    digest: bytes | None = b""
    """None if nobody knows any more: the log was begun before there were chains."""
    tail: tuple[bytes, ...] = ()

    def extended(self, texts: Sequence[bytes], causes: Causes = (), block: int = BLOCK) -> "Chain":
        """With these messages at the end; only the first of them may have causes."""
        count, digest = self.count + len(texts), self.digest
        if digest is None:
            return Chain(count, None)
        parts = [
            TEXT + text if len(text) <= SHORT_BYTES else LONG_TEXT + _hashed(text) for text in texts
        ]
        if causes:
            counts = pack(f"!{len(causes) + 1}Q", len(causes), *causes)
            parts[0] = TEXT_WITH_CAUSES + _hashed(counts + texts[0])
        tail = (*self.tail, *parts)
        full = len(tail) - len(tail) % block
        for start in range(0, full, block):
            digest = _block(digest, tail[start : start + block])
        return Chain(count, digest, tail[full:])

    def at(self, count: int) -> bytes:
        """The digest of the first so many messages; empty where it is not known any more."""
        missing = self.count - count
        if self.digest is None or not 0 <= missing <= len(self.tail):
            return b""
        tail = self.tail[: len(self.tail) - missing]
        return _block(self.digest, tail) if tail else self.digest

    @property
    def full(self) -> int:
        """How many messages are in full blocks."""
        return self.count - len(self.tail)


def _hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _block(before: bytes, parts: Sequence[bytes]) -> bytes:
    """It says how many parts there are and how long each is, so no two blocks look alike."""
    lengths = pack(f"!B{len(parts)}I", len(parts), *map(len, parts))
    return _hashed(b"".join((before, lengths, *parts)))


class HistoryMark(msgspec.Struct, frozen=True, array_like=True):
    """What is held of an origin up to here has this digest; empty if that is not known."""

    count: int
    digest: bytes


class OriginHistories(msgspec.Struct):
    """The chains of all origins, and digests that peers sent of theirs."""

    chains: dict[str, Chain]
    marks: dict[str, tuple[HistoryMark, ...]]
    """Ends of full blocks, in order: where a chain can be begun again after a restart."""
    strides: dict[str, int]
    """How far marks are apart, at least: twice as far whenever there are too many of them."""
    expected: dict[str, dict[str, HistoryMark]]
    """By origin and peer: the digest of a peer that holds more."""
    most_marks: int
    block: int

    @classmethod
    def of(cls, origins: Iterable[str], most_marks: int, block: int = BLOCK) -> "OriginHistories":
        names = tuple(origins)
        chains, marks = (
            dict.fromkeys(names, Chain()),
            dict.fromkeys(names, tuple[HistoryMark, ...]()),
        )
        return cls(chains, marks, dict.fromkeys(names, block), {}, most_marks, block)

    def begin(self, origin: str, mark: HistoryMark) -> None:
        """Go on from a mark of an earlier life; nothing is known from one without a digest."""
        is_known = mark.digest or not mark.count
        self.chains[origin] = Chain(mark.count, mark.digest if is_known else None)
        self.marks[origin] = (mark,) if mark.digest else ()

    def extend(self, origin: str, texts: Sequence[bytes], causes: Causes) -> dict[str, HistoryMark]:
        """These are held now, too; the peers that hold others instead, and our own digests."""
        chain = self.chains[origin]
        differing: dict[str, HistoryMark] = {}
        start, end = chain.count, chain.count + len(texts)
        for peer, theirs in self._reached(origin, end):
            passed = theirs.count - start
            if passed > chain.count - start:
                chain = chain.extended(texts[chain.count - start : passed], causes, self.block)
                causes = ()
            ours = chain.at(theirs.count)
            if ours and not ours.startswith(theirs.digest):
                differing[peer] = HistoryMark(theirs.count, ours)
        if end > chain.count:
            chain = chain.extended(texts[chain.count - start :], causes, self.block)
        self.chains[origin] = chain
        self._mark(origin, chain)
        return differing

    def _reached(self, origin: str, count: int) -> list[tuple[str, HistoryMark]]:
        """Digests that peers sent of as much as this, in order; they are done with now."""
        expected = self.expected.get(origin)
        if not expected:
            return []
        reached = [(peer, mark) for peer, mark in expected.items() if mark.count <= count]
        for peer, _ in reached:
            del expected[peer]
        if not expected:
            del self.expected[origin]
        return sorted(reached, key=lambda one: (one[1].count, one[0]))

    def _mark(self, origin: str, chain: Chain) -> None:
        marks = self.marks[origin]
        is_due = not marks or chain.full >= marks[-1].count + self.strides[origin]
        if chain.digest and is_due:
            marks = (*marks, HistoryMark(chain.full, chain.digest))
            if len(marks) > self.most_marks:
                marks = marks[::2]
                self.strides[origin] *= 2
            self.marks[origin] = marks

    def at(self, origin: str, count: int) -> bytes:
        """The digest of the first so many messages of an origin; empty where it is not known."""
        chain = self.chains[origin]
        if count >= chain.full:
            return chain.at(count)
        return next((mark.digest for mark in self.marks[origin] if mark.count == count), b"")

    def head(self, origin: str) -> HistoryMark:
        count = self.chains[origin].count
        return HistoryMark(count, self.at(origin, count))

    def differs(self, peer: str, origin: str, theirs: HistoryMark) -> HistoryMark | None:
        """Our own digest where the peer has another; what we do not hold yet is compared later."""
        if not theirs.count or not theirs.digest:
            return None
        if theirs.count > self.chains[origin].count:
            self.expected.setdefault(origin, {}).setdefault(peer, theirs)
            return None
        ours = self.at(origin, theirs.count)
        is_other = bool(ours) and not ours.startswith(theirs.digest)
        return HistoryMark(theirs.count, ours) if is_other else None

    def base(self, origin: str, upto: int) -> HistoryMark:
        """From where a chain can be begun again, if all messages after it are kept."""
        if self.chains[origin].digest is None:
            return HistoryMark(upto, b"")
        marks = [mark for mark in self.marks[origin] if mark.count <= upto]
        return marks[-1] if marks else HistoryMark(0, b"")

    def forget(self, origin: str, upto: int) -> None:
        """Messages up to there may be gone; the mark to begin from is kept, older ones are not."""
        base = self.base(origin, upto)
        marks = tuple(one for one in self.marks[origin] if one.count >= base.count)
        is_sparse = len(marks) <= max(1, self.most_marks // 4)
        if is_sparse and self.strides[origin] > self.block:
            self.strides[origin] //= 2
        self.marks[origin] = marks
