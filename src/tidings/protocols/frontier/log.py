"""The log of a frontier process: what it holds of everybody's messages, and what it may forget.

Of every origin it holds a prefix, 1 to ``held``, without gaps; only that is ever acknowledged.
What overtook its predecessor waits in ``early``. Below ``forgotten`` nothing is kept: every member
holds it, it is delivered here, and the application is done with it. What only others may still
need is on disk; when there is too much of it, everything below ``spilled`` is there alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from tidings.core import Members, MessageId, Part, Span, TextSpan, UsageError
from tidings.protocols.frontier.comparison import HistoryComparison
from tidings.protocols.frontier.packets import NOTHING, Batch, Counts
from tidings.protocols.frontier.records import Cursors, Record, Stored
from tidings.protocols.frontier.turn import Turn

TEXT_BYTES, CAUSE_BYTES = 8, 24
"""What a text, and each of its causes, take beside their contents, at most."""


class LogLimits(msgspec.Struct, frozen=True):
    memory: int
    memory_bytes: int
    """How many texts may be in memory, and how long they may be together; 0 for any number."""
    early: int
    early_bytes: int
    """How many texts of one origin may wait for a predecessor, and how long all of those may be
    together. What is beyond is fetched later."""
    push: int
    push_bytes: int
    """How many messages answer one request, and about how many bytes."""


class Log(Part):
    comparison: HistoryComparison
    limits: LogLimits
    until_processed: bool
    """Whether messages are kept until the application has processed them."""
    held: dict[str, int]
    delivered: dict[str, int]
    processed: dict[str, int]
    """Empty unless the application says what it has processed."""
    forgotten: dict[str, int]
    texts: dict[str, list[bytes]]
    """Of each origin those from ``first_in_memory`` to ``held``."""
    early: dict[str, dict[int, bytes]]
    causes: dict[str, dict[int, Counts]]
    spilled: dict[str, int] = {}
    text_bytes: int = 0
    """How long all texts are together."""
    early_bytes: int = 0
    """How long the texts in ``early`` are together."""

    @classmethod
    def of(
        cls,
        me: str,
        members: Members,
        comparison: HistoryComparison,
        limits: LogLimits,
        until_processed: bool,
    ) -> "Log":
        return cls(
            me,
            members,
            comparison,
            limits,
            until_processed,
            held=dict.fromkeys(members, 0),
            delivered=dict.fromkeys(members, 0),
            processed=dict.fromkeys(members, 0) if until_processed else {},
            forgotten=dict.fromkeys(members, 0),
            texts={member: [] for member in members},
            early={member: {} for member in members},
            causes={member: {} for member in members},
        )

    def done(self) -> dict[str, int]:
        """Up to where this process itself needs nothing any more."""
        return self.processed if self.until_processed else self.delivered

    def vector(self, counts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(counts[member] for member in self.members)

    # --- holding

    def hold(self, batch: Batch, turn: Turn) -> None:
        origin, before = batch.id.origin, self.held[batch.id.origin]
        for new in self.store(batch):
            turn.records.append(Stored(new))
            turn.held.append(Span(*new.id, new.last))
        if self.held[origin] > before:
            turn.grown[origin] = turn.touched[origin] = None

    def store(self, batch: Batch, *, is_limited: bool = True) -> list[Batch]:
        """Keep what is new in the batch, and return that.

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
            self.texts[origin] += batch.texts
            self.text_bytes += sum(map(len, batch.texts))
            self.held[origin] = batch.last
            self.comparison.extend(origin, batch.texts, batch.causes)
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
        is_many = len(self.early[origin]) >= self.limits.early
        return not is_many and self.early_bytes + len(text) <= self.limits.early_bytes

    def _close_the_gap(self, origin: str) -> None:
        early, texts, held = self.early[origin], self.texts[origin], self.held[origin]
        while held + 1 in early:
            held += 1
            text = early.pop(held)
            texts.append(text)
            self.early_bytes -= len(text)
            self.text_bytes += len(text)
            self.comparison.extend(origin, (text,), self.causes[origin].get(held, NOTHING))
        self.held[origin] = held

    def gap(self, origin: str) -> int:
        """The last message that is missing before the first early one, if there is one."""
        return min(self.early[origin], default=0) - 1

    # --- handing out

    def kept(self, span: Span) -> list[Batch]:
        """These messages, or the first of them if they are many."""
        origin, begin = span.origin, self.first_in_memory(span.origin)
        if not begin <= span.first <= span.last:
            return []
        texts = self.texts[origin][span.first - begin : span.last + 1 - begin]
        return self._batches(MessageId(origin, span.first), texts, self.causes[origin])

    def answers(self, wanted: Iterable[Span]) -> Iterator[list[Batch] | Span]:
        """What is kept of these, for one packet each; of what is on disk alone, which it is."""
        batches: list[Batch] = []
        for one in wanted:
            origin = one.origin
            first = max(one.first, self.forgotten[origin] + 1)
            last = min(one.last, self.held[origin])
            spilled = self.spilled.get(origin, 0)
            if first <= min(last, spilled):
                # The asker will ask for the rest when it has got this.
                yield Span(origin, first, min(last, spilled))
            else:
                kept = self.kept(Span(origin, first, last))
                if batches and self._is_too_much([*batches, *kept]):
                    yield batches
                    batches = []
                batches += kept
        if batches:
            yield batches

    def _is_too_much(self, batches: list[Batch]) -> bool:
        """For one packet: its receiver has to deal with all of it in one step."""
        limits, count = self.limits, sum([len(batch.texts) for batch in batches])
        return count > limits.push or sum(map(size_of, batches)) > limits.push_bytes

    def recalled(self, span: Span, records: Iterable[Record]) -> list[Batch]:
        """The same from what is on disk."""
        texts: dict[int, bytes] = {}
        causes: dict[int, Counts] = {}
        for record in records:
            if isinstance(record, Stored) and record.batch.id.origin == span.origin:
                texts |= enumerate(record.batch.texts, record.batch.id.seq)
                if record.batch.causes:
                    causes[record.batch.id.seq] = record.batch.causes
        following = takewhile(texts.__contains__, range(span.first, span.last + 1))
        first = MessageId(span.origin, span.first)
        return self._batches(first, [texts[seq] for seq in following], causes)

    def _batches(
        self, first: MessageId, texts: Sequence[bytes], causes: dict[int, Counts]
    ) -> list[Batch]:
        limits = self.limits
        return list(_batched(first, texts[: limits.push], causes, limits.push_bytes))

    # --- delivering

    def deliver(self, limit: dict[str, int]) -> list[TextSpan]:
        """What is safe and not waiting for a cause; each delivery may free another."""
        ready: list[TextSpan] = []
        progress = True
        while progress:
            progress = False
            for origin in self.members:
                before = self.delivered[origin]
                if before < limit[origin]:
                    last = self._causes_are_delivered(origin, min(limit[origin], self.held[origin]))
                    if last > before:
                        ready.append(self._text_span(origin, before + 1, last))
                        self.delivered[origin] = last
                        progress = True
        return ready

    def _causes_are_delivered(self, origin: str, last: int) -> int:
        """Up to which message of the origin, and at most the last, nothing waits for a cause."""
        causes = self.causes[origin]
        for seq in _among(causes, self.delivered[origin] + 1, last):
            if self.missing_causes(causes[seq]):
                return seq - 1
        return last

    def missing_causes(self, causes: Counts) -> list[MessageId]:
        return [
            MessageId(origin, count)
            for origin, count in causes.of(self.members)
            if self.delivered[origin] < count
        ]

    def _text_span(self, origin: str, first: int, last: int) -> TextSpan:
        begin = self.first_in_memory(origin)
        return TextSpan(origin, first, tuple(self.texts[origin][first - begin : last + 1 - begin]))

    def process(self, upto: Mapping[str, int]) -> list[str]:
        """The application is done with these; the origins of which that is new."""
        if not self.until_processed:
            return []
        moved = []
        for origin, count in upto.items():
            if origin not in self.processed:
                raise UsageError(f"{origin} is not a member")
            if self.processed[origin] < min(count, self.delivered[origin]):
                self.processed[origin] = min(count, self.delivered[origin])
                moved.append(origin)
        return moved

    # --- forgetting

    def forget(self, limit: dict[str, int]) -> bool:
        """Drop what nobody needs any more; True if there was any."""
        needless = {one: upto for one, upto in limit.items() if upto > self.forgotten[one]}
        for origin, upto in needless.items():
            self._drop(origin, upto)
            self.forgotten[origin] = upto
            self.comparison.histories.forget(origin, upto)
        return bool(needless)

    def is_crowded(self) -> bool:
        too_many = 0 < self.limits.memory < sum(map(len, self.texts.values()))
        return too_many or 0 < self.limits.memory_bytes < self.text_bytes

    def spill(self, limit: dict[str, int]) -> None:
        """Keep in memory only what is above: the rest is on disk, should anybody ask for it."""
        for origin, upto in limit.items():
            self._drop(origin, upto)
            self.spilled[origin] = max(self.spilled.get(origin, 0), upto)

    def first_in_memory(self, origin: str) -> int:
        return max(self.forgotten[origin], self.spilled.get(origin, 0)) + 1

    def _drop(self, origin: str, upto: int) -> None:
        first, texts, causes = self.first_in_memory(origin), self.texts[origin], self.causes[origin]
        if upto >= first:
            count = upto + 1 - first
            self.text_bytes -= sum(map(len, texts[:count]))
            del texts[:count]
            for seq in _among(causes, first, upto):
                del causes[seq]

    # --- coming back

    def restore(self, records: Iterable[Record], cursors: Cursors) -> None:
        """What earlier lives stored, up to where their cursors say."""
        self.delivered = cursors.delivered
        if self.until_processed:
            forgotten = cursors.forgotten.items()
            self.processed = {one: max(cursors.processed[one], last) for one, last in forgotten}
        for origin, mark in cursors.marks.items():
            self.comparison.histories.begin(origin, mark)
            self.held[origin] = self.forgotten[origin] = mark.count
        for record in records:
            if isinstance(record, Stored):
                self.store(record.batch, is_limited=False)
                if self.is_crowded():
                    self.spill({one: min(n, self.held[one]) for one, n in self.delivered.items()})
        self.forget(cursors.forgotten)
        lost = [one for one, last in self.delivered.items() if last > self.held[one]]
        assert not lost, f"{self.me} delivered {self.delivered}, and holds {self.held}"


def _among(causes: dict[int, Counts], first: int, last: int) -> list[int]:
    """Which of these messages have causes, in order; of a long batch only the first one has."""
    if last - first < len(causes):
        return [seq for seq in range(first, last + 1) if seq in causes]
    return sorted(seq for seq in causes if first <= seq <= last)


def _batched(
    first: MessageId, texts: Sequence[bytes], causes: dict[int, Counts], room: int
) -> Iterator[Batch]:
    """Messages from this one on as they were broadcast, a new batch wherever one has causes.

    Ends with the message that uses up the room, in bytes.
    """
    (origin, begin), gathered = first, list[bytes]()
    for seq, text in enumerate(texts, first.seq):
        if room <= 0:
            break
        if seq in causes and gathered:
            yield Batch(MessageId(origin, begin), tuple(gathered), causes.get(begin, NOTHING))
            begin, gathered = seq, []
        gathered.append(text)
        room -= len(text) + TEXT_BYTES
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
