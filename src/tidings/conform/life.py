"""One life once more: every event that the process was handed, and what should have come of it.

A life begins with a new process, made as the member made it. After every step, what the process
wants done is looked for in the rows of that tick and among the records that it gave to its disk.
The first difference ends it: from there on the member and its process know different things.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import msgspec

from tidings.conform.divergence import Diverged, Divergence, StepTaken
from tidings.conform.handed import Handed
from tidings.conform.history import CannotTell, ExpectedLog, History, in_common, is_mark
from tidings.conform.meaning import (
    Fact,
    MessageRows,
    PacketRow,
    PacketToSend,
    Rows,
    ViewRow,
    Wanted,
    counts_after,
    wanted_by,
)
from tidings.conform.packets import Packets, base
from tidings.core import (
    Broadcast,
    Change,
    DataError,
    Event,
    LinkDown,
    LinkUp,
    MessageId,
    Process,
    Processed,
    Recalled,
    Receive,
    Start,
    Timeout,
)
from tidings.guests import factory
from tidings.node.log.segments import record_type
from tidings.node.wire import packet_types
from tidings.trace import Manifest
from tidings.trace.steps import (
    DIGEST_BYTES,
    ChangeAsked,
    End,
    Life,
    LinkIsDown,
    LinkIsUp,
    PacketCame,
    ProcessedUpTo,
    ReadBack,
    RecordedEvent,
    RecordedTick,
    Started,
    Step,
    StepsReader,
    Texts,
    TimerEnded,
    digest_of,
    digests_of,
)

STEPS_BEFORE = 3
"""How many steps of a story come before the one in question."""
PROGRESS_TICKS = 256
"""How often to say how far it is."""


class LifeReplay:
    """One life, from its start to its end."""

    def __init__(
        self,
        manifest: Manifest,
        reader: StepsReader,
        life: Life,
        history: History,
        log: ExpectedLog,
        packets: Packets,
    ) -> None:
        self.steps = self.records = 0
        self._manifest = manifest
        self._me = life.process
        self._reader = reader
        self._life = life
        self._history = history
        self._log = log
        self._packets = packets
        self._process = self._made()
        kind = type(self._process)
        types, record = packet_types(kind), record_type(kind)
        union = Union[types] if types else None  # noqa: UP007 - made of a tuple
        self._decode_packet = msgspec.msgpack.Decoder(union).decode
        self._decode_record = msgspec.msgpack.Decoder(record).decode
        self._decode_records = msgspec.msgpack.Decoder(tuple[record, ...]).decode  # type: ignore[valid-type]
        self._draws: deque[tuple[str, int]] = deque()
        self._handed = Handed(self._me)
        self._delivered = dict(history.delivered)
        self._view = history.view
        self._before: deque[StepTaken] = deque(maxlen=STEPS_BEFORE)
        self._tick = 0
        self._end = life.index
        self._untraced: int | None = None
        """The first tick whose rows are not in the trace: a kill came before they were."""
        self._finished = 0
        self._unfinished: deque[tuple[int, int]] = deque()
        """Ticks that may not be on disk yet, and how long the log is after each."""
        packets.resends = not kind.recovers
        packets.connect(self._me, self._me, life.life, is_lossy=False)

    def _made(self) -> Process:
        life, members = self._life, self._manifest.views[0]
        return factory(life.protocol, life.options)(self._me, members, self._choose)

    def run(self, progress: Callable[[], None]) -> None:
        self._check_recovered()
        for count, tick in enumerate(self._reader.ticks()):
            self._tick = tick.number
            self._note_finished(tick.finished)
            self._replay(tick)
            if count % PROGRESS_TICKS == 0:
                progress()
        self._check_the_end(self._reader.end)

    def _check_the_end(self, end: End | None) -> None:
        """Of a life that is over: what it had finished is in its trace."""
        if end is not None:
            self._note_finished(end.finished)
        if self._untraced is not None and self._untraced < self._finished:
            raise CannotTell(
                f"the trace of {self._me} lacks what it did in its life {self._life.life}, from "
                f"its row {self._history.rows} on"
            )
        if end is None:  # it may have had links of which its process never came to know
            for (sender, _, life), lane in self._packets.sent.items():
                if (sender, life) == (self._me, self._life.life):
                    lane.links.append(len(lane))

    def _note_finished(self, count: int) -> None:
        """So many ticks were on disk when this was recorded."""
        self._finished = max(self._finished, count)
        while self._unfinished and self._unfinished[0][0] < self._finished:
            self._log.least = self._unfinished.popleft()[1]

    def located(self, about: Divergence) -> Divergence:
        """With the story of what led there."""
        return msgspec.structs.replace(
            about, life=self._life.life, tick=self._tick, before=tuple(self._before)
        )

    # --- one tick

    def _replay(self, tick: RecordedTick) -> None:
        rows = self._rows(tick)
        sent: dict[str, dict[int, bytes]] = {}
        records, delivered = b"", dict(self._delivered)
        for step in tick.steps:
            wanted = self._step(step, delivered)
            records += wanted.records
            self._delivered = counts_after(self._delivered, wanted.facts)
            if rows is not None:
                self._compare(wanted, step, rows, sent)
        if rows is not None and rows.next is not None:
            raise _unlike(None, rows)
        self._number(sent)
        self._compare_records(records if self._life.durable else b"", tick)
        self._end = tick.end

    def _rows(self, tick: RecordedTick) -> Rows | None:
        """The rows of this tick; None if they never came to be in the trace."""
        if tick.end == self._end:
            return Rows(None) if self._untraced is None else None
        block = self._history.peek()
        is_ours = block is not None and block.incarnation == self._life.life and not is_mark(block)
        if not is_ours:
            self._untraced = tick.number if self._untraced is None else self._untraced
            return None
        assert block is not None
        if block.index != self._end or self._untraced is not None:
            raise CannotTell(f"rows of {self._me} are missing from its row {self._end} on")
        return Rows(self._history.take())

    def _step(self, step: Step, delivered: dict[str, int]) -> Wanted:
        self.steps += 1
        self._draws = deque(step.draws)
        events = tuple([self._event(event) for event in step.events])
        self._before.append(StepTaken(events, []))
        for event in events:
            self._handed.check(event, delivered)
            if isinstance(event, LinkUp):
                self._connect(event.peer)
        try:
            effects = self._process.steps(events)
        except Diverged:
            raise
        except Exception as fault:
            would = f"fail: {type(fault).__name__}: {fault}"
            raise Diverged("its process would not have gone on", would) from None
        self._before[-1] = StepTaken(events, effects)
        if self._draws:
            label, position = self._draws[0]
            raise Diverged("it drew what its process does not ask for", did=f"{label}: {position}")
        wanted = wanted_by(events, effects, self._manifest.digest, self._view)
        self._view = wanted.view
        self._handed.expect(wanted)
        return wanted

    def _choose(self, label: str, weights: Sequence[int]) -> int:
        if not self._draws:
            raise Diverged("its process draws, and it did not", would=f"draw {label}")
        drawn, position = self._draws.popleft()
        if drawn != label or not (0 <= position < len(weights) and weights[position] > 0):
            did = f"draw {drawn}: {position}"
            raise Diverged("it drew what was not to be had", f"draw {label}", did)
        return position

    # --- events

    def _event(self, recorded: RecordedEvent) -> Event:
        try:
            return self._decoded(recorded)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            place = f"{self._reader.path}: tick {self._tick}"
            raise DataError(f"{place}: not what {self._life.protocol} says: {fault}") from None

    def _decoded(self, recorded: RecordedEvent) -> Event:
        match recorded:
            case PacketCame(sender, packet):
                return Receive(sender, self._decode_packet(packet))
            case Texts(texts):
                return Broadcast(texts)
            case TimerEnded(name):
                return Timeout(name)
            case LinkIsUp(peer, incarnation):
                return LinkUp(peer, incarnation)
            case LinkIsDown(peer):
                return LinkDown(peer)
            case ProcessedUpTo(upto):
                return Processed(upto)
            case ChangeAsked(add, remove, address):
                return Change(add, remove, address)
            case ReadBack(peer, origin, first, last, records):
                return Recalled(peer, MessageId(origin, first), last, self._decode_records(records))
            case Started(incarnation, is_recovered, founding, joining, lossy):
                found: Any = _Found(self._reader, self._decode_record) if is_recovered else None
                return Start(incarnation, found, founding, joining, lossy)

    def _check_recovered(self) -> None:
        """What a life finds on its disk is what the lives before it wrote."""
        digests = b"".join([digest_of(memoryview(one)) for one in self._reader.recovered()])
        if not self._reader.has_recovered:
            return
        words = self._log.recover(digests)
        if words and not self._log.is_known:
            raise CannotTell(f"{self._me} did not record every life before {self._life.life}")
        if words:
            raise Diverged(f"it finds on its disk what it did not write: {words}")
        self._handed.add_persisted(digests)

    # --- what was done

    def _compare(
        self, wanted: Wanted, step: Step, rows: Rows, sent: dict[str, dict[int, bytes]]
    ) -> None:
        received = iter([one for one in step.events if isinstance(one, PacketCame)])
        for would in wanted.facts:
            index = rows.index
            if isinstance(would, MessageRows):
                missing = rows.take_messages(would)
                if missing is not None:
                    raise _unlike(missing, rows)
            elif isinstance(would, ViewRow):
                if not rows.take_view(would):
                    raise _unlike(would, rows)
            elif isinstance(would, PacketToSend):
                self._compare_sends(would, step, rows, sent)
            else:
                number = rows.take_packet(would)
                if number is None:
                    raise _unlike(would, rows)
                self._note_received(next(received), number, index)

    def _compare_sends(
        self, would: PacketToSend, step: Step, rows: Rows, sent: dict[str, dict[int, bytes]]
    ) -> None:
        """The packet to each of its peers, but for those for whom too much waited."""
        left = dict.fromkeys(would.to)
        for peers, digest in step.unsent:
            if digest == would.digest:
                left = {peer: None for peer in left if peer not in peers}
        while left:
            here = rows.next
            index = rows.index
            peer = (
                here.peer if isinstance(here, PacketRow) and here.peer in left else next(iter(left))
            )
            number = rows.take_packet(would.row(peer))
            if number is None:
                raise _unlike(would.row(peer), rows)
            if number in sent.setdefault(peer, {}):
                raise Diverged(f"two packets to {peer} have number {number}", index=index)
            sent[peer][number] = would.digest
            del left[peer]

    def _number(self, sent: dict[str, dict[int, bytes]]) -> None:
        """The packets of a tick have the next numbers on each link, in any order."""
        for peer, packets in sent.items():
            lane = self._packets.lane(self._me, peer, self._life.life)
            following = base(self._me, peer, self._life.life) + len(lane) + 1
            for number in sorted(packets):
                if number != following:
                    words = f"packet {number} to {peer} where packet {following} comes next"
                    raise Diverged(words)
                lane.digests += packets[number]
                following += 1

    def _connect(self, peer: str) -> None:
        life = self._life.life
        self._packets.connect(self._me, peer, life, self._handed.is_lossy)
        lane = self._packets.lane(self._me, peer, life)
        lane.links.append(len(lane))

    def _note_received(self, came: PacketCame, number: int, index: int) -> None:
        connection = self._packets.received[self._me, came.sender][-1]
        connection.numbers.append(number)
        connection.digests += digest_of(memoryview(came.packet))
        connection.indexes.append(index)

    def _compare_records(self, records: bytes, tick: RecordedTick) -> None:
        count, given = len(records) // DIGEST_BYTES, len(tick.records) // DIGEST_BYTES
        if records != tick.records:
            words = "the records that it gave to its disk are others"
            did = f"write {given}, the first {in_common(records, tick.records)} as expected"
            raise Diverged(words, f"write {count} records in this tick", did)
        self.records += count
        length = self._log.add(records, tick.checkpoint)
        self._unfinished.append((tick.number, length))
        if tick.end > self._end and self._untraced is None:
            self._note_finished(tick.number + 1)  # what is in the trace was on disk before
        if tick.checkpoint is not None:
            self._check_checkpoint(tick.checkpoint)
        self._handed.add_persisted(records)

    def _check_checkpoint(self, digests: bytes) -> None:
        checkpoint = self._process.checkpoint()
        if checkpoint is None or digests_of(checkpoint.records) != digests:
            raise Diverged("its log goes on with another state than that of its process")
        self._handed.add_persisted(digests)


class _Found:
    """What a life found on its disk; a process goes through it as if it were a tuple."""

    def __init__(self, reader: StepsReader, decode: Callable[[msgspec.Raw], Any]) -> None:
        self._reader = reader
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode, self._reader.recovered())


def _unlike(would: Fact | None, rows: Rows) -> Diverged:
    """The next row is not the one that should come, or one of the two is none."""
    expected, found = (str(one or "nothing more in this tick") for one in (would, rows.next))
    if found == expected:
        found += ", with another text"
    return Diverged("its rows tell something else", expected, found, rows.index)
