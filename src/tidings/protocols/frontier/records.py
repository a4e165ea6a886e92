"""What a frontier process writes to its disk, and what can be read from it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from tidings.core import Found, IntervalSet, Members, Message, MessageId
from tidings.core.renaming import PER_MEMBER, Vector
from tidings.protocols.frontier.histories import HistoryMark
from tidings.protocols.frontier.packets import NOTHING, Batch

T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True, array_like=True, tag="stored"):
    batch: Batch

    def __str__(self) -> str:
        return str(self.batch)


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag="delivered"):
    """The protocol's cursor: what stands here counts as delivered, whatever happens next."""

    upto: Vector

    def __str__(self) -> str:
        return f"delivered {self.upto}"


class ProcessedRecord(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The application's cursor: what it need not be handed again."""

    upto: Vector

    def __str__(self) -> str:
        return f"processed {self.upto}"


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    """Nobody will ask for these again; what was stored of them may be thrown away.

    In a checkpoint it also says from where the digests of each origin can be made again, with the
    messages after that.
    """

    upto: Vector
    marks: Annotated[tuple[HistoryMark, ...], PER_MEMBER] = ()

    def __str__(self) -> str:
        return f"forgotten {self.upto}"


class Pinned(msgspec.Struct, frozen=True, array_like=True, tag="pinned"):
    """This is who the member is; under another incarnation it is somebody else."""

    member: str
    incarnation: int

    def __str__(self) -> str:
        return f"pinned {self.member} incarnation {self.incarnation}"


class Admitted(msgspec.Struct, frozen=True, array_like=True, tag="admitted"):
    """Nobody remembers an earlier life of this process, so it may broadcast."""

    def __str__(self) -> str:
        return "admitted"


Record = Stored | Delivered | ProcessedRecord | Forgotten | Pinned | Admitted
"""Everything a process of frontier ever persists."""


class Cursors(msgspec.Struct):
    """What the latest cursors of a log say, origin by origin."""

    delivered: dict[str, int]
    processed: dict[str, int]
    forgotten: dict[str, int]
    marks: dict[str, HistoryMark]
    """From where the digests can be made again."""
    pinned: dict[str, int]
    admitted: bool


def cursors_in(records: Iterable[Record], members: Members) -> Cursors:
    nothing = dict.fromkeys(members, 0)
    found = Cursors(dict(nothing), dict(nothing), dict(nothing), {}, {}, admitted=False)
    stored = {member: IntervalSet() for member in members}
    marks: dict[str, HistoryMark] = {}
    for record in records:
        match record:
            case Stored(batch):
                stored[batch.id.origin].add_range(batch.id.seq, batch.last)
            case Delivered(upto):
                found.delivered = dict(_by_member(members, upto))
            case ProcessedRecord(upto):
                found.processed = dict(_by_member(members, upto))
            case Forgotten(upto, marked):
                found.forgotten = dict(_by_member(members, upto))
                marks |= _by_member(members, marked) if marked else ()
            case Pinned(member, incarnation):
                found.pinned[member] = incarnation
            case Admitted():
                found.admitted = True
    for origin, last in found.forgotten.items():
        # A log that was begun before there were marks may have lost its first messages.
        is_whole = not last or IntervalSet([(1, last)]) <= stored[origin]
        found.marks[origin] = marks.get(origin) or HistoryMark(0 if is_whole else last, b"")
    return found


def messages_in(
    records: Iterable[Record], members: Members, after: Mapping[str, int]
) -> Iterator[Found]:
    """The messages that are stored in these records, each with its causes."""
    for record in records:
        if not isinstance(record, Stored):
            continue
        done = after.get(record.batch.id.origin, 0)
        if record.batch.last > done:
            batch = record.batch.since(done + 1)
            causes = tuple(MessageId(*one) for one in batch.causes.of(members))
            for one, text in zip(batch.ids(), batch.texts, strict=True):
                yield Message(*one, text), causes
                causes = ()


def compacted(records: Sequence[Any], members: Members) -> tuple[Record, ...]:
    """The latest of each cursor, and the messages after the latest marks, one by one."""
    cursors: dict[tuple[str, str], Record] = {}
    stored: dict[MessageId, Record] = {}
    begun: dict[str, int] = {}
    for record in records:
        match record:
            case Stored(batch):
                for one, text in zip(batch.ids(), batch.texts, strict=True):
                    causes = batch.causes if one == batch.id else NOTHING
                    stored.setdefault(one, Stored(Batch(one, (text,), causes)))
            case Pinned(member):
                cursors["pinned", member] = record
            case Forgotten(_, marks):
                cursors["marked" if marks else "forgotten", ""] = record
                if marks:
                    begun = {one: mark.count for one, mark in _by_member(members, marks)}
            case _:
                cursors[type(record).__name__, ""] = record
    kept = [one for one in sorted(stored) if one.seq > begun.get(one.origin, 0)]
    return (*(cursors[key] for key in sorted(cursors)), *(stored[one] for one in kept))


def _by_member(members: Members, vector: Sequence[T]) -> Iterable[tuple[str, T]]:
    return zip(members, vector, strict=True)
