"""One member once more: every event that its process was handed, and what should have come of it.

Each life begins with a new process, made as the member made it. After every step, what the process
wants done is looked for in the rows of that tick and among the records that it gave to its disk.
The first difference ends it: from there on the member and its process know different things.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

import msgspec

from tidings.conform.history import CannotTell, ExpectedLog, History, is_mark
from tidings.conform.meaning import (
    Fact,
    MessageRows,
    PacketRow,
    PacketToSend,
    Rows,
    Wanted,
    counts_after,
    wanted_by,
)
from tidings.conform.packets import Packets, base
from tidings.core import (
    Broadcast,
    DataError,
    Effect,
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
from tidings.trace.segments import Block, Mark
from tidings.trace.steps import (
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
    steps_of,
)

STEPS_BEFORE = 3
"""How many steps of a story come before the one in question."""


class MemberSteps(NamedTuple):
    """How much of one member was stepped through."""

    lives: int = 0
    steps: int = 0
    rows: int = 0
    records: int = 0


class StepTaken(NamedTuple):
    """One step: what was handed over, and what the process makes of it."""

    events: tuple[Event, ...]
    effects: list[Effect]


class Divergence(msgspec.Struct, frozen=True):
    """Where a member did what its protocol would not have done."""

    member: str
    life: int
    words: str
    tick: int | None = None
    index: int | None = None
    """The row in question, if there is one."""
    would: str = ""
    did: str = ""
    before: tuple[StepTaken, ...] = ()
    """The steps that led there, and the one in question last."""


class Diverged(Exception):  # noqa: N818 - reads as what happened
    """What a member did differs from what its process would have done, here."""

    def __init__(
        self, words: str, would: str = "", did: str = "", index: int | None = None
    ) -> None:
        super().__init__(words)
        self.would = would
        self.did = did
        self.index = index


class MemberReplay:
    """All lives of one member."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        member: str,
        packets: Packets,
        progress: Callable[[str, int], None],
    ) -> None:
        self.member = member
        self.manifest = manifest
        self.packets = packets
        self.progress = progress
        self.steps = self.records = 0
        self.divergence: Divergence | None = None
        self.history = History(folder, manifest, member)
        self.log = ExpectedLog()
        self._folder = folder
        self._replay: LifeReplay | None = None
        self._ends: dict[int, str] = {}
        """Of each life that was recorded, why rows may follow that no step explains, if so."""

    def run(self) -> None:
        """Step through everything; CannotTell or DataError end it early."""
        try:
            for path in steps_of(self._folder, self.member):
                self._run_life(StepsReader(path))
            if not self._ends:
                raise CannotTell(
                    f"{self.member} recorded no steps; trace.conform = true in the group file "
                    "asks for them"
                )
            self._skip_to(None)
        except Diverged as found:
            self.divergence = self._located(found)

    @property
    def so_far(self) -> MemberSteps:
        return MemberSteps(len(self._ends), self.steps, self.history.rows, self.records)

    def _run_life(self, reader: StepsReader) -> None:
        life = reader.life
        if life is None:
            return
        self._check_header(reader.path, life)
        self._skip_to(life.index)
        self.log.is_known &= life.life == len(self._ends)
        self._replay = LifeReplay(self, reader, life)
        self._replay.run()
        self._ends[life.life] = _why_it_ends(self.member, life.life, reader.end)
        self._replay.check_the_end(reader.end)
        self._replay = None

    def _located(self, found: "Diverged") -> Divergence:
        block = self.history.peek()
        life = block.incarnation if block is not None else 0
        about = Divergence(self.member, life, str(found), None, found.index, found.would, found.did)
        return self._replay.located(about) if self._replay is not None else about

    def _check_header(self, path: Path, life: Life) -> None:
        manifest = self.manifest
        if (life.run, life.process) != (manifest.run, self.member):
            raise DataError(f"{path}: not of {self.member} in run {manifest.run}")
        is_named = manifest.options.items() <= life.options.items()
        if life.protocol != manifest.protocol or not is_named:
            raise DataError(f"{path}: recorded with another protocol than the manifest names")

    def _skip_to(self, index: int | None) -> None:
        """Pass the rows between two lives: that one began, or that the run is settled."""
        while (block := self.history.peek()) is not None:
            if index is not None and block.index >= index:
                return
            if not is_mark(block):
                raise self._unexplained(block)
            self._check_recover(block)
            self.history.take()

    def _unexplained(self, block: Block) -> Exception:
        not_recorded = f"what {self.member} did from its row {block.index} on was not recorded"
        if reason := self._ends.get(block.incarnation, not_recorded):
            return CannotTell(reason)
        did = str(Rows(block).next)
        return Diverged("it did what no step explains", did=did, index=block.index)

    def _check_recover(self, block: Block) -> None:
        """A life knows by its disk how far the member had come."""
        for item in block.items:
            if isinstance(item, Mark) and item.kind == "recover":
                ours = _standing(self.history.delivered, self.history.broadcast)
                theirs = _standing(item.delivered or {}, item.broadcast)
                if ours != theirs:
                    words = "it comes back, and does not know how far it had come"
                    raise Diverged(words, ours, theirs, block.index)


def _standing(delivered: dict[str, int], broadcast: int) -> str:
    counts = ", ".join(f"{origin}<={count}" for origin, count in sorted(delivered.items()))
    return f"broadcast {broadcast}, delivered {counts or 'nothing'}"


def _why_it_ends(member: str, life: int, end: End | None) -> str:
    if end is None:
        return f"the steps of {member} in its life {life} are cut off before its trace ends"
    return f"{member} stopped recording in its life {life}: {end.reason}" if end.reason else ""


class LifeReplay:
    """One life, from its start to its end."""

    def __init__(self, member: MemberReplay, reader: StepsReader, life: Life) -> None:
        self._of = member
        self._me = member.member
        self._reader = reader
        self._life = life
        self._process = self._made()
        kind = type(self._process)
        types = packet_types(kind)
        union = Union[types] if types else None  # noqa: UP007 - made of a tuple
        self._packet = msgspec.msgpack.Decoder(union).decode
        self._record = msgspec.msgpack.Decoder(record_type(kind)).decode
        self._recorded = msgspec.msgpack.Decoder(tuple[record_type(kind), ...]).decode  # type: ignore[misc]
        self._draws: deque[tuple[str, int]] = deque()
        self._timers: set[str] = set()
        self._asked = Counter[tuple[str, MessageId, int]]()
        self._linked: set[str] = {self._me}
        self._persisted: set[bytes] = set()
        self._delivered = dict(member.history.delivered)
        self._is_lossy = False
        self._before: deque[StepTaken] = deque(maxlen=STEPS_BEFORE)
        self._tick = 0
        self._end = life.index
        self._untraced: int | None = None
        """The first tick whose rows are not in the trace: a kill came before they were."""
        self._finished = 0
        self._unfinished: deque[tuple[int, int]] = deque()
        """Ticks that may not be on disk yet, and how long the log is after each."""
        self._has_started = False
        member.packets.resends = not kind.recovers
        member.packets.connect(self._me, self._me, life.life, is_lossy=False)

    def _made(self) -> Process:
        life, members = self._life, self._of.manifest.views[0]
        return factory(life.protocol, life.options)(self._me, members, self._choose)

    def run(self) -> None:
        self._check_recovered()
        for tick in self._reader.ticks():
            self._tick = tick.number
            self._note_finished(tick.finished)
            self._replay(tick)
            self._of.progress(self._me, self._of.steps)

    def check_the_end(self, end: End | None) -> None:
        """Of a life that is over: what it had finished is in its trace."""
        if end is not None:
            self._note_finished(end.finished)
        if self._untraced is not None and self._untraced < self._finished:
            raise CannotTell(
                f"the trace of {self._me} lacks what it did in its life {self._life.life}, from "
                f"its row {self._of.history.rows} on"
            )
        if end is None:  # it may have had links of which its process never came to know
            for (sender, _, life), lane in self._of.packets.sent.items():
                if (sender, life) == (self._me, self._life.life):
                    lane.links.append(len(lane))

    def _note_finished(self, count: int) -> None:
        """So many ticks were on disk when this was recorded."""
        self._finished = max(self._finished, count)
        while self._unfinished and self._unfinished[0][0] < self._finished:
            self._of.log.least = self._unfinished.popleft()[1]

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
        block = self._of.history.peek()
        is_ours = block is not None and block.incarnation == self._life.life and not is_mark(block)
        if not is_ours:
            self._untraced = tick.number if self._untraced is None else self._untraced
            return None
        assert block is not None
        if block.index != self._end or self._untraced is not None:
            raise CannotTell(f"rows of {self._me} are missing from its row {self._end} on")
        return Rows(self._of.history.take())

    def _step(self, step: Step, delivered: dict[str, int]) -> Wanted:
        self._of.steps += 1
        self._draws = deque(step.draws)
        events = tuple([self._event(event) for event in step.events])
        self._before.append(StepTaken(events, []))
        for event in events:
            self._check_event(event, delivered)
        try:
            effects = self._stepped(events)
        except Diverged:
            raise
        except Exception as fault:
            would = f"fail: {type(fault).__name__}: {fault}"
            raise Diverged("its process would not have gone on", would) from None
        self._before[-1] = StepTaken(events, effects)
        if self._draws:
            label, position = self._draws[0]
            raise Diverged("it drew what its process does not ask for", did=f"{label}: {position}")
        wanted = wanted_by(events, effects, self._of.manifest.digest)
        for name, is_running in wanted.timers.items():
            (self._timers.add if is_running else self._timers.discard)(name)
        for one in wanted.recalls:
            self._asked[one.peer, one.first, one.last] += 1
        return wanted

    def _stepped(self, events: tuple[Event, ...]) -> list[Effect]:
        """As the member does: one event by itself, several at once."""
        if len(events) == 1:
            return self._process.step(events[0])
        return self._process.steps(events)  # type: ignore[attr-defined, no-any-return]

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
                return Receive(sender, self._packet(packet))
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
            case ReadBack(peer, origin, first, last, records):
                return Recalled(peer, MessageId(origin, first), last, self._recorded(records))
            case Started(incarnation, is_recovered, founding, joining, lossy):
                found: Any = _Found(self._reader, self._record) if is_recovered else None
                return Start(incarnation, found, founding, joining, lossy)

    def _check_event(self, event: Event, delivered: dict[str, int]) -> None:
        """Whether it can be handed over now, after all that was before."""
        life, packets = self._life.life, self._of.packets
        if isinstance(event, Start) is self._has_started:
            raise Diverged("a life begins with its start, and there is one start in a life")
        match event:
            case Start(_, _, _, _, lossy):
                self._has_started, self._is_lossy = True, lossy
            case LinkUp(peer):
                self._linked.add(peer)
                packets.connect(self._me, peer, life, self._is_lossy)
                lane = packets.lane(self._me, peer, life)
                lane.links.append(len(lane))
            case LinkDown(peer):
                self._linked.discard(peer)
            case Receive(sender) if sender not in self._linked:
                raise Diverged(f"a packet of {sender}, to whom there is no link")
            case Timeout(name) if name not in self._timers:
                raise Diverged(f"timer {name} ran out, and is not set")
            case Timeout(name):
                self._timers.discard(name)
            case Recalled(peer, first, last, records):
                self._check_recalled((peer, first, last), records)
            case Processed(upto):
                for origin, count in upto.items():
                    if count > delivered.get(origin, 0):
                        words = f"{origin}#{count} is processed, and was not delivered"
                        raise Diverged(words)

    def _check_recovered(self) -> None:
        """What a life finds on its disk is what the lives before it wrote."""
        digests = b"".join([digest_of(memoryview(one)) for one in self._reader.recovered()])
        if self._reader.has_recovered:
            if words := self._of.log.recover(digests):
                raise Diverged(f"it finds on its disk what it did not write: {words}")
            self._remember(digests)

    def _check_recalled(self, asked: tuple[str, MessageId, int], records: Sequence[Any]) -> None:
        if not self._asked[asked]:
            raise Diverged(f"{asked[1]} was read back for {asked[0]}, and nobody asked for it")
        self._asked[asked] -= 1
        digests = digests_of(records)
        if not _cut(digests) <= self._persisted:
            raise Diverged("it read back what it did not write")

    def _remember(self, digests: bytes) -> None:
        self._persisted |= _cut(digests)

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
            elif isinstance(would, PacketToSend):
                self._compare_sends(would, step, rows, sent)
            else:
                number = rows.take(would)
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
            number = rows.take(would.row(peer))
            if number is None:
                raise _unlike(would.row(peer), rows)
            if number in sent.setdefault(peer, {}):
                raise Diverged(f"two packets to {peer} have number {number}", index=index)
            sent[peer][number] = would.digest
            del left[peer]

    def _number(self, sent: dict[str, dict[int, bytes]]) -> None:
        """The packets of a tick have the next numbers on each link, in any order."""
        for peer, packets in sent.items():
            lane = self._of.packets.lane(self._me, peer, self._life.life)
            following = base(self._me, peer, self._life.life) + len(lane) + 1
            for number in sorted(packets):
                if number != following:
                    words = f"packet {number} to {peer} where packet {following} comes next"
                    raise Diverged(words)
                lane.digests += packets[number]
                following += 1

    def _note_received(self, came: PacketCame, number: int, index: int) -> None:
        connection = self._of.packets.received[self._me, came.sender][-1]
        connection.numbers.append(number)
        connection.digests += digest_of(memoryview(came.packet))
        connection.indexes.append(index)

    def _compare_records(self, records: bytes, tick: RecordedTick) -> None:
        if records != tick.records:
            would, did = len(records) // 8, len(tick.records) // 8
            raise Diverged(
                "the records that it gave to its disk are others",
                f"write {would} records",
                f"write {did}",
            )
        self._of.records += len(records) // 8
        length = self._of.log.add(records, tick.checkpoint)
        self._unfinished.append((tick.number, length))
        if tick.end > self._end and self._untraced is None:
            self._note_finished(tick.number + 1)  # what is in the trace was on disk before
        if tick.checkpoint is not None:
            self._check_checkpoint(tick.checkpoint)
        self._remember(records)

    def _check_checkpoint(self, digests: bytes) -> None:
        checkpoint = self._process.checkpoint()
        if checkpoint is None or digests_of(checkpoint.records) != digests:
            raise Diverged("its log goes on with another state than that of its process")
        self._remember(digests)


class _Found:
    """What a life found on its disk; a process goes through it as if it were a tuple."""

    def __init__(self, reader: StepsReader, decode: Callable[[msgspec.Raw], Any]) -> None:
        self._reader = reader
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode, self._reader.recovered())


def _cut(digests: bytes) -> set[bytes]:
    return {digests[at : at + 8] for at in range(0, len(digests), 8)}


def _unlike(would: Fact | None, rows: Rows) -> Diverged:
    """The next row is not the one that should come, or one of the two is none."""
    expected, found = (str(one or "nothing more in this tick") for one in (would, rows.next))
    if found == expected:
        found += ", with another text"
    return Diverged("its rows tell something else", expected, found, rows.index)
