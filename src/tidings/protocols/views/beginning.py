"""How a Frontier begins in a view that is not the first: as if its log ended at the cut.

Everybody in the view holds and has delivered what is below, or is about to before it says a word
in the view, or need not have it: a newcomer. So it counts as stable, and is not kept.
"""

from collections.abc import Iterable, Mapping

from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.histories import HistoryMark
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.records import Delivered, Forgotten, Pinned, Record, cursors_in

BEGINNING = b"a view begins"
"""Stands for the digests of what came before: those in the view compare what is new in it."""


def reread(frontier: Frontier, records: Iterable[Record]) -> None:
    """Have what an earlier life stored, and conclude nothing from it.

    A member that is wedged has stored what it never acknowledged, and must not count it.
    """
    cursors = cursors_in(records, frontier.members)
    frontier.peers.pinned |= cursors.pinned
    frontier.gate.admitted |= cursors.admitted
    frontier.log.restore(records, cursors)
    frontier.knowledge.come_back()


def begin(frontier: Frontier, cut: Mapping[str, int], before: Peers) -> tuple[Record, ...]:
    """Have it begin there; the records from which it would begin there again."""
    members = frontier.members
    counts = tuple(cut.get(origin, 0) for origin in members)
    marks = tuple(HistoryMark(count, BEGINNING if count else b"") for count in counts)
    records: tuple[Record, ...] = (Forgotten(counts, marks), Delivered(counts))
    reread(frontier, records)
    frontier.acknowledgements.announce(frontier.others)
    frontier.mode.come_back()
    frontier.broadcasting.stamped = {one: frontier.log.delivered[one] for one in frontier.others}
    frontier.peers.down = {one for one in members if one in before.down}
    known = {one: last for one, last in before.pinned.items() if one in frontier.others}
    frontier.peers.pinned |= known
    return (*records, *(Pinned(*one) for one in known.items() if one[1]))
