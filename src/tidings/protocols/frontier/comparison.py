"""Whether all members hold the same messages under the same names.

They do, unless an origin came back with an older copy of its disk and used numbers twice. Members
send each other digests of what they hold. Where two differ, their origin has *twins*: all members
hear of it, and refuse the origin.
"""

from collections.abc import Iterable, Sequence

from tidings.core import Part
from tidings.core.renaming import NamedDigests
from tidings.protocols.frontier.histories import HistoryMark, OriginHistories
from tidings.protocols.frontier.packets import Counts, Twins
from tidings.protocols.frontier.turn import Turn

SHORT_DIGEST = 8
"""How many bytes of a digest go with an acknowledgement; a STATE has all of them."""


class HistoryComparison(Part):
    histories: OriginHistories
    """What is held of each origin, in digests."""
    twins: dict[str, Twins] = {}
    """Origins of which members hold different messages under one name."""
    reported: dict[str, set[str]] = {}
    """Of each origin in ``twins``: the peers that know, by the links that there are now."""

    def extend(self, origin: str, texts: Sequence[bytes], causes: Counts) -> None:
        """These are held now: make their digests, and compare those that peers have sent."""
        counts = tuple(sorted(count for _, count in causes.of(self.members))) if causes else ()
        for peer, ours in self.histories.extend(origin, texts, counts).items():
            self._differ(origin, peer, ours)

    def compare(self, peer: str, origin: str, theirs: HistoryMark) -> None:
        """Whether the peer holds other messages under the same names."""
        ours = self.histories.differs(peer, origin, theirs)
        if ours is not None:
            self._differ(origin, peer, ours)

    def compare_all(self, peer: str, held: Counts, digests: NamedDigests) -> None:
        if digests:
            counts = dict(held.of(self.members))
            for origin, digest in digests:
                self.compare(peer, origin, HistoryMark(counts.get(origin, 0), digest))

    def _differ(self, origin: str, peer: str, ours: HistoryMark) -> None:
        holders = tuple(sorted((self.me, peer)))
        self.twins.setdefault(origin, Twins(origin, holders, ours.count))

    def digests(self, origins: Iterable[str]) -> NamedDigests:
        heads = ((origin, self.histories.head(origin).digest) for origin in origins)
        return tuple(sorted((origin, head[:SHORT_DIGEST]) for origin, head in heads if head))

    # --- reporting twins

    def hear(self, sender: str, twins: Twins) -> None:
        self.twins.setdefault(twins.origin, twins)
        self.reported.setdefault(twins.origin, set()).add(sender)

    def report(self, twins: Twins, turn: Turn) -> None:
        """Every member is to know, and to refuse the origin."""
        origin = twins.origin
        known = self.reported.setdefault(origin, set())
        rest = tuple(peer for peer in self.others if peer not in (*known, origin))
        turn.send(rest, twins)
        known.update(rest)

    def link_up(self, peer: str) -> None:
        """What was on its way to the peer may be lost."""
        for known in self.reported.values():
            known.discard(peer)
