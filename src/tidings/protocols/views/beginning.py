"""How a Frontier begins in a view, what is left of it once it is wedged, and when it is over.

It begins as if its log ended at the cut. Everybody in the view holds and has delivered what is
below, or is about to before it says a word in the view, or need not have it: a newcomer. So it
counts as stable, and is not kept.
"""

from collections.abc import Iterable, Mapping

from tidings.core import Span
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.comparison import HistoryComparison
from tidings.protocols.frontier.histories import HistoryMark, OriginHistories
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.records import (
    Delivered,
    Forgotten,
    Pinned,
    ProcessedRecord,
    Record,
    cursors_in,
)

BEGINNING = b"a view begins"
"""Stands for the digests of what came before: those in the view compare what is new in it."""


def begin(
    frontier: Frontier, cut: Mapping[str, int], before: Peers, met: Mapping[str, int]
) -> tuple[Record, ...]:
    """Have it begin there; the records from which it would begin there again.

    Peers are who they were in the view before; whoever was not in it, who it was when it was met.
    """
    members = frontier.members
    counts = tuple(cut.get(origin, 0) for origin in members)
    marks = tuple(HistoryMark(count, BEGINNING if count else b"") for count in counts)
    records: tuple[Record, ...] = (Forgotten(counts, marks), Delivered(counts))
    reread(frontier, records)
    frontier.acknowledgements.announce(frontier.others)
    frontier.mode.come_back()
    frontier.broadcasting.stamped = {one: frontier.log.delivered[one] for one in frontier.others}
    peers = frontier.peers
    peers.down = {one for one in before.down if one in members}
    peers.refused = {one: why for one, why in before.refused.items() if one in members}
    pinned = {**met, **before.pinned}
    known = {one: last for one, last in pinned.items() if one in frontier.others}
    peers.pinned |= known
    return (*records, *(Pinned(*one) for one in known.items() if one[1]))


def reread(frontier: Frontier, records: Iterable[Record]) -> None:
    """Have what an earlier life stored, and conclude nothing from it."""
    cursors = cursors_in(records, frontier.members)
    frontier.peers.pinned |= cursors.pinned
    frontier.gate.admitted |= cursors.admitted
    frontier.log.restore(records, cursors)
    frontier.knowledge.come_back()


_OF_THE_PART = ("me", "members", "comparison", "limits", "until_processed")


def wedged(frontier: Frontier, fresh: Frontier) -> Frontier:
    """What is left when it takes no part in its view any more: what it holds, and its peers.

    What it knew of the others counts for nothing from here on, nor does what it will store.
    """
    for name in frontier.log.__struct_fields__:
        if name not in _OF_THE_PART:
            setattr(fresh.log, name, getattr(frontier.log, name))
    for origin, held in fresh.log.held.items():
        fresh.comparison.histories.begin(origin, HistoryMark(held, b""))
    peers = frontier.peers
    fresh.peers.incarnation, fresh.peers.pinned = peers.incarnation, peers.pinned
    fresh.peers.refused, fresh.peers.down = peers.refused, peers.down
    fresh.gate.admitted = frontier.gate.admitted
    return fresh


def ended(log: Log, cut: Mapping[str, int]) -> Log:
    """What is left of a log when its view is over: what others may ask for, up to the cut."""
    nobody = OriginHistories.of((), 2)
    rest = Log.of(
        log.me,
        log.members,
        HistoryComparison(log.me, log.members, nobody),
        log.limits,
        log.until_processed,
    )
    rest.held, rest.delivered = dict(cut), dict(cut)
    rest.forgotten, rest.processed = dict(log.forgotten), dict(log.processed)
    rest.spilled = dict(log.spilled)
    for origin, last in cut.items():
        rest.texts[origin] = log.texts[origin][: last + 1 - log.first_in_memory(origin)]
        rest.causes[origin] = {one: of for one, of in log.causes[origin].items() if one <= last}
        rest.text_bytes += sum(map(len, rest.texts[origin]))
    if log.limits.memory or log.limits.memory_bytes:
        rest.spill(dict(cut))  # there is a disk
    return rest


def cursors_of(log: Log) -> tuple[Record, ...]:
    """From where it can be read again, of a log that has ended."""
    marks = tuple(HistoryMark(log.forgotten[origin], b"") for origin in log.members)
    records = (Forgotten(log.vector(log.forgotten), marks), Delivered(log.vector(log.delivered)))
    if not log.until_processed:
        return records
    return (*records, ProcessedRecord(log.vector(log.processed)))


def beyond(log: Log, cut: int) -> Iterable[tuple[bytes, ...]]:
    """The texts of this process's messages above the cut, as many at once as fit into a packet."""
    first, last = cut + 1, log.held[log.me]
    while first <= last:
        texts = [text for batch in log.kept(Span(log.me, first, last)) for text in batch.texts]
        yield tuple(texts)
        first += len(texts)
