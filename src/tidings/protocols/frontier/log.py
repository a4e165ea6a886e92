"""The log of a frontier process: what it holds of everybody's messages, and what it may forget.

Of every origin it holds a prefix, 1 to ``held``, without gaps; only that is ever acknowledged.
What overtook its predecessor waits in ``early``. Below ``forgotten`` nothing is kept: every member
holds it, it is delivered here, and the application is done with it. What only others may still
need is on disk; when there is too much of it, everything below ``spilled`` is there alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from tidings.core import (
    Checkpoint,
    Choose,
    Found,
    IntervalSet,
    Members,
    Message,
    MessageId,
    Process,
    Span,
    take_first,
)
from tidings.protocols.frontier.histories import BLOCK, Histories, Mark
from tidings.protocols.frontier.packets import NOTHING, Batch, Counts, Twins
from tidings.protocols.frontier.records import (
    Admitted,
    Delivered,
    Forgotten,
    Pinned,
    Record,
    Stored,
    Taken,
)

T = TypeVar("T")
TEXT_BYTES, CAUSE_BYTES = 8, 24
"""What a text, and each of its causes, take beside their contents, at most."""


def batched(
    span: Span, texts: dict[int, bytes], causes: dict[int, Counts], room: int
) -> Iterator[Batch]:
    """These messages as they were broadcast, a new batch wherever one has causes.

    Ends with the message that uses up the room, in bytes.
    """
    origin, begin, gathered = span.origin, span.first, list[bytes]()
    for seq in range(span.first, span.last + 1):
        if seq not in texts or room <= 0:
            break
        if seq in causes and gathered:
            yield Batch(MessageId(origin, begin), tuple(gathered), causes.get(begin, NOTHING))
            begin, gathered = seq, []
        gathered.append(texts[seq])
        room -= len(texts[seq]) + TEXT_BYTES
        if seq in causes:
            room -= _size_of_causes(causes[seq])
    if gathered:
        yield Batch(MessageId(origin, begin), tuple(gathered), causes.get(begin, NOTHING))


def size_of(batch: Batch) -> int:
    """How long it is in a packet, at most."""
    texts = sum(map(len, batch.texts)) + TEXT_BYTES * len(batch.texts)
    return texts + _size_of_causes(batch.causes)


def _size_of_causes(causes: Counts) -> int:
    return CAUSE_BYTES * (2 + len(causes.some) + len(causes.all))


class Log(Process):
    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        confirmed: bool = False,
        most_marks: int = 64,
        block: int = BLOCK,
    ) -> None:
        super().__init__(me, members, choose)
        self.confirmed = confirmed
        self.memory = self.memory_bytes = 0
        """How many texts may be in memory, and how long they may be together; 0 for any number."""
        self.most_early = self.most_early_bytes = 0
        """How many texts of one origin may wait for a predecessor, and how long all of those may
        be together. What is beyond is fetched later."""
        self.push = self.push_bytes = 0
        """How many messages answer one request, and about how many bytes."""
        self.held = dict.fromkeys(members, 0)
        self.delivered = dict.fromkeys(members, 0)
        self.taken = dict.fromkeys(members, 0) if confirmed else {}
        """What the application has taken to heart, if it says so."""
        self.forgotten = dict.fromkeys(members, 0)
        self.spilled: dict[str, int] = {}
        self.texts: dict[str, dict[int, bytes]] = {member: {} for member in members}
        self.text_bytes = 0
        """How long all texts are together."""
        self.early: dict[str, dict[int, bytes]] = {member: {} for member in members}
        self.early_bytes = 0
        """How long the texts in ``early`` are together."""
        self.causes: dict[str, dict[int, Counts]] = {member: {} for member in members}
        self.histories = Histories.of(members, most_marks, block)
        """What is held of each origin, in digests, to be compared with the others'."""
        self.twins: dict[str, Twins] = {}
        """Of which origins members hold different messages under one name."""
        self.incarnation = 0
        """Who this is: it changes only with the disk."""
        self.pinned: dict[str, int] = {}
        """Who the others are."""
        self.admitted = False
        """Whether it is certain that nobody remembers this process from before its disk."""

    def _done(self) -> dict[str, int]:
        """Up to where this process itself needs nothing any more."""
        return self.taken if self.confirmed else self.delivered

    def _vector(self, counts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(counts[member] for member in self.members)

    def _by_member(self, vector: Sequence[T]) -> Iterable[tuple[str, T]]:
        return zip(self.members, vector, strict=True)

    def _counts(self, vector: Sequence[int]) -> dict[str, int]:
        return dict(self._by_member(vector))

    # --- holding

    def _store(self, batch: Batch, *, is_limited: bool = True) -> list[Batch]:
        """Keep what is new in the batch, and say what that is.

        What an earlier life has stored is stored without limit: others may count on it.
        """
        origin, held = batch.id.origin, self.held[batch.id.origin]
        if batch.last <= held:
            return []
        batch = batch.since(held + 1)
        early = self.early[origin]
        if batch.id.seq == held + 1 and not early:
            if batch.causes:
                self.causes[origin][held + 1] = batch.causes
            self.texts[origin].update(enumerate(batch.texts, held + 1))
            self.text_bytes += sum(map(len, batch.texts))
            self.held[origin] = batch.last
            self._chain(origin, batch.texts, batch.causes)
            return [batch]
        is_early = batch.id.seq > held + 1
        singles: list[Batch] = []
        for one, text in zip(batch.ids(), batch.texts, strict=True):
            if one.seq in early:
                continue
            if is_early and is_limited and not self._has_room_for_early(origin, text):
                break
            early[one.seq] = text
            self.early_bytes += len(text)
            causes = batch.causes if one == batch.id else NOTHING
            if causes:
                self.causes[origin][one.seq] = causes
            singles.append(Batch(one, (text,), causes))
        self._close_the_gap(origin)
        return singles

    def _has_room_for_early(self, origin: str, text: bytes) -> bool:
        is_many = len(self.early[origin]) >= self.most_early
        return not is_many and self.early_bytes + len(text) <= self.most_early_bytes

    def _close_the_gap(self, origin: str) -> None:
        early, texts, held = self.early[origin], self.texts[origin], self.held[origin]
        while held + 1 in early:
            held += 1
            texts[held] = text = early.pop(held)
            self.early_bytes -= len(text)
            self.text_bytes += len(text)
            self._chain(origin, (text,), self.causes[origin].get(held, NOTHING))
        self.held[origin] = held

    def _chain(self, origin: str, texts: Sequence[bytes], causes: Counts) -> None:
        """These are held now: make their digests, and compare them where others said theirs."""
        counts = tuple(sorted(count for _, count in causes.of(self.members))) if causes else ()
        for peer, mark in self.histories.extend(origin, texts, counts).items():
            self._differ(origin, peer, mark)

    def _differ(self, origin: str, peer: str, ours: Mark) -> None:
        """The peer holds other messages of this origin than we do."""
        holders = tuple(sorted((self.me, peer)))
        self.twins.setdefault(origin, Twins(origin, holders, ours.count))

    def _gap(self, origin: str) -> int:
        """The last message that is missing before the first early one, if there is one."""
        return min(self.early[origin], default=0) - 1

    # --- handing out

    def _kept(self, origin: str, first: int, last: int) -> list[Batch]:
        """These messages, or the first of them if they are many."""
        texts, causes = self.texts[origin], self.causes[origin]
        last = min(last, first + self.push - 1)
        return list(batched(Span(origin, first, last), texts, causes, self.push_bytes))

    def _recalled(self, first: MessageId, last: int, records: Iterable[Record]) -> list[Batch]:
        """The same from what is on disk."""
        origin, begin = first
        last = min(last, begin + self.push - 1)
        texts: dict[int, bytes] = {}
        causes: dict[int, Counts] = {}
        for record in records:
            if isinstance(record, Stored) and record.batch.id.origin == origin:
                texts |= enumerate(record.batch.texts, record.batch.id.seq)
                if record.batch.causes:
                    causes[record.batch.id.seq] = record.batch.causes
        return list(batched(Span(origin, begin, last), texts, causes, self.push_bytes))

    # --- delivering

    def _deliver_up_to(self, limit: dict[str, int]) -> list[Message]:
        """What is safe and not waiting for a cause; each delivery may free another."""
        ready: list[Message] = []
        progress = True
        while progress:
            progress = False
            for origin in self.members:
                before = self.delivered[origin]
                if before < limit[origin]:
                    upto = self._causes_are_delivered(origin, min(limit[origin], self.held[origin]))
                    ready += self._messages(origin, before + 1, upto)
                    self.delivered[origin] = upto
                    progress |= upto > before
        return ready

    def _causes_are_delivered(self, origin: str, last: int) -> int:
        """Up to which message of the origin, and at most the last, nothing waits for a cause."""
        causes = self.causes[origin]
        for seq in range(self.delivered[origin] + 1, last + 1):
            if seq in causes and self._missing_causes(causes[seq]):
                return seq - 1
        return last

    def _missing_causes(self, causes: Counts) -> list[MessageId]:
        return [
            MessageId(origin, count)
            for origin, count in causes.of(self.members)
            if self.delivered[origin] < count
        ]

    def _messages(self, origin: str, first: int, last: int) -> list[Message]:
        texts = self.texts[origin]
        return [Message(MessageId(origin, seq), texts[seq]) for seq in range(first, last + 1)]

    # --- forgetting

    def _forget_up_to(self, limit: dict[str, int]) -> bool:
        """Drop what nobody needs any more; True if there was any."""
        needless = {one: upto for one, upto in limit.items() if upto > self.forgotten[one]}
        for origin, upto in needless.items():
            self._drop(origin, upto)
            self.forgotten[origin] = upto
            self.histories.forget(origin, upto)
        return bool(needless)

    def _is_crowded(self) -> bool:
        too_many = 0 < self.memory < sum(map(len, self.texts.values()))
        return too_many or 0 < self.memory_bytes < self.text_bytes

    def _spill_up_to(self, limit: dict[str, int]) -> None:
        """Keep in memory only what is above: the rest is on disk, should anybody ask for it."""
        for origin, upto in limit.items():
            self._drop(origin, upto)
            self.spilled[origin] = max(self.spilled.get(origin, 0), upto)

    def _first_in_memory(self, origin: str) -> int:
        return max(self.forgotten[origin], self.spilled.get(origin, 0)) + 1

    def _drop(self, origin: str, upto: int) -> None:
        for seq in range(self._first_in_memory(origin), upto + 1):
            self.text_bytes -= len(self.texts[origin].pop(seq))
            self.causes[origin].pop(seq, None)

    # --- coming back

    def compacted(self, records: Sequence[Any]) -> tuple[Record, ...]:
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
                        begun = {one: mark.count for one, mark in self._by_member(marks)}
                case _:
                    cursors[type(record).__name__, ""] = record
        kept = [one for one in sorted(stored) if one.seq > begun.get(one.origin, 0)]
        return (*(cursors[key] for key in sorted(cursors)), *(stored[one] for one in kept))

    def checkpoint(self) -> Checkpoint:
        marks = {one: self.histories.base(one, upto) for one, upto in self.forgotten.items()}
        cursors: list[Record] = [
            Forgotten(self._vector(self.forgotten), tuple(marks[one] for one in self.members)),
            Delivered(self._vector(self.delivered)),
        ]
        if self.confirmed:
            cursors.append(Taken(self._vector(self.taken)))
        if self.admitted:
            cursors.append(Admitted())
        pins = (Pinned(member, incarnation) for member, incarnation in self.pinned.items())
        begun = {one: mark.count for one, mark in marks.items()}
        return Checkpoint((*cursors, *pins), begun)

    def messages_in(
        self, records: Iterable[Any], after: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Found]:
        for record in records:
            if not isinstance(record, Stored):
                continue
            done = after.get(record.batch.id.origin, 0)
            if record.batch.last > done:
                batch = record.batch.since(done + 1)
                causes = tuple(MessageId(*one) for one in batch.causes.of(self.members))
                for one, text in zip(batch.ids(), batch.texts, strict=True):
                    yield Message(one, text), causes
                    causes = ()

    def _restore(self, records: Iterable[Record]) -> None:
        """What earlier lives wrote down; gone through twice, since it may be too much to keep."""
        marks: dict[str, Mark] = {}
        stored = {member: IntervalSet() for member in self.members}
        for record in records:
            match record:
                case Stored(batch):
                    stored[batch.id.origin].add_range(batch.id.seq, batch.last)
                case Delivered(upto):
                    self.delivered = self._counts(upto)
                case Taken(upto) if self.confirmed:
                    self.taken = self._counts(upto)
                case Forgotten(upto, marked):
                    self.forgotten = self._counts(upto)
                    marks |= self._by_member(marked) if marked else ()
                case Pinned(member, incarnation):
                    self.pinned[member] = incarnation
                case Admitted():
                    self.admitted = True
        forgotten, self.forgotten = self.forgotten, {}
        for origin, last in forgotten.items():
            if self.confirmed:
                self.taken[origin] = max(self.taken[origin], last)
            # A log that was begun before there were marks may have lost its first messages.
            is_whole = not last or IntervalSet([(1, last)]) <= stored[origin]
            mark = marks.get(origin) or (Mark(0, b"") if is_whole else Mark(last, b""))
            self.histories.begin(origin, mark)
            self.held[origin] = self.forgotten[origin] = mark.count
        for record in records:
            if isinstance(record, Stored):
                self._store(record.batch, is_limited=False)
                if self._is_crowded():
                    self._spill_up_to(self._held_and_delivered())
        self._forget_up_to(forgotten)
        lost = [one for one, last in self.delivered.items() if last > self.held[one]]
        assert not lost, f"{self.me} delivered {self.delivered}, and holds {self.held}"

    def _held_and_delivered(self) -> dict[str, int]:
        return {one: min(last, self.held[one]) for one, last in self.delivered.items()}
