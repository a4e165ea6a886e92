"""The events of a frontier process, and what follows from each, in order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from tidings.core import (
    Broadcast,
    Checkpoint,
    Choose,
    Effect,
    Event,
    Found,
    LinkDown,
    LinkUp,
    Members,
    MessageId,
    Packet,
    Process,
    Processed,
    Recalled,
    Receive,
    Refuse,
    Replay,
    Start,
    Ticks,
    Timeout,
    UsageError,
    take_first,
)
from tidings.protocols.frontier import explaining, invariants
from tidings.protocols.frontier.acknowledgements import Acknowledgements
from tidings.protocols.frontier.broadcasting import Broadcasting
from tidings.protocols.frontier.comparison import HistoryComparison
from tidings.protocols.frontier.exchange import Exchange
from tidings.protocols.frontier.fetching import Fetching
from tidings.protocols.frontier.gate import Gate
from tidings.protocols.frontier.histories import BLOCK, MOST_IN_BLOCK, OriginHistories
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log, LogLimits
from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.mode_all import FEW, AllMode, OriginsFirst
from tidings.protocols.frontier.mode_origin import OriginMode
from tidings.protocols.frontier.packets import (
    Asking,
    Commit,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    Refusal,
    State,
    Twins,
    Why,
)
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.records import (
    Admitted,
    Delivered,
    Forgotten,
    Pinned,
    ProcessedRecord,
    Record,
    compacted,
    cursors_in,
    messages_in,
)
from tidings.protocols.frontier.timers import Timers
from tidings.protocols.frontier.turn import Turn

LARGEST_ALL = 7
"""Up to this size the mode is ``all`` unless set: it has one delay less."""
MIB = 1024 * 1024


class Frontier(Process):
    recovers = True

    log_kind: ClassVar[type[Log]] = Log
    knowledge_kind: ClassVar[type[Knowledge]] = Knowledge
    fetching_kind: ClassVar[type[Fetching]] = Fetching
    exchange_kind: ClassVar[type[Exchange]] = Exchange
    origin_mode_kind: ClassVar[type[OriginMode]] = OriginMode

    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        mode: Literal["auto", "all", "origin"] = "auto",
        batch_ms: int = -1,
        stable_ms: int = 0,
        window: int = 10_000,
        log_limit: int = 10_000_000,
        memory: int = 0,
        memory_bytes: int = 0,
        early: int = 10_000,
        early_bytes: int = 64 * MIB,
        push: int = 10_000,
        push_bytes: int = 256 * 1024,
        marks: int = 64,
        block: int = BLOCK,
        strict: bool = False,
        until_processed: bool = False,
        ticks: bool = False,
    ) -> None:
        if min(window, log_limit, early, early_bytes) < 1 or min(memory, memory_bytes) < 0:
            raise UsageError(
                "window, log_limit, early and early_bytes are 1 or more, memory limits 0 or more"
            )
        if push < 1 or not 1 <= push_bytes <= MIB // 4:
            raise UsageError(f"push is 1 or more, push_bytes 1 to {MIB // 4:,}")
        if marks < 2 or not 1 <= block <= MOST_IN_BLOCK:
            raise UsageError(f"marks is 2 or more, block 1 to {MOST_IN_BLOCK}")
        super().__init__(me, members, choose)
        self.ticks = Ticks(me, members, ticks)
        size = len(members)
        limits = LogLimits(memory, memory_bytes, early, early_bytes, push, push_bytes)
        histories = OriginHistories.of(members, marks, block)
        timers = self.timers = Timers(me, members)
        peers = self.peers = Peers(me, members)
        comparison = self.comparison = HistoryComparison(me, members, histories)
        log = self.log = self.log_kind.of(me, members, comparison, limits, until_processed)
        knowledge = self.knowledge = self.knowledge_kind.of(me, members, log)
        gate = self.gate = Gate(me, members, knowledge, strict)
        self.broadcasting = Broadcasting.of(me, members, log, knowledge, gate, window, log_limit)
        acknowledgements = Acknowledgements.of(me, members, log, comparison)
        self.acknowledgements = acknowledgements
        about_held = (log, knowledge, acknowledgements, peers, timers)
        self.fetching = self.fetching_kind(me, members, *about_held)
        self.mode: Mode
        about_sent = (*about_held, Known(me, 0, 0))
        if mode == "all" or (mode == "auto" and size <= LARGEST_ALL):
            gathering_ms = batch_ms if batch_ms >= 0 else size
            if stable_ms > 0 and size in FEW:
                self.mode = OriginsFirst(me, members, *about_sent, gathering_ms, stable_ms)
            else:
                self.mode = AllMode(me, members, *about_sent, gathering_ms)
        else:
            self.mode = self.origin_mode_kind(me, members, *about_sent, dict.fromkeys(members, 0))
        self.exchange = self.exchange_kind(
            me, members, *about_held, comparison, gate, self.fetching, self.mode
        )

    # --- events

    def step(self, event: Event) -> list[Effect]:
        timer, events = self.ticks.gather(event)
        return [*timer, *self.steps(events)] if events else timer

    def steps(self, events: Iterable[Event]) -> list[Effect]:
        turn = Turn()
        for event in events:
            self._take(event, turn)
        for twins in self.comparison.twins.values():
            self.comparison.report(twins, turn)
            self.peers.refuse_twins(twins, turn)
        if turn.lost_disk:
            return self._leave("lost disk", turn)
        if self.me in self.comparison.twins:
            return self._leave("two histories", turn)
        self._conclude(turn)
        return turn.effects()

    def _leave(self, why: Why, turn: Turn) -> list[Effect]:
        """Nothing of this turn happens; a broadcast in it is not taken."""
        refused = [Refuse(f"{self.me} leaves the group: {why}")] if turn.answer else []
        return [*refused, *self.peers.leave(why)]

    def broadcast_again(self, texts: tuple[bytes, ...]) -> list[Effect]:
        """What was accepted before, whatever the limits are now."""
        turn = Turn()
        self.broadcasting.accept(texts, turn)
        self._conclude(turn)
        return turn.effects()

    def _take(self, event: Event, turn: Turn) -> None:
        match event:
            case Receive(sender, packet):
                self._receive(sender, packet, turn)
            case Broadcast(texts):
                self.broadcasting.broadcast(texts, turn)
            case Timeout(name):
                self._time_out(name, turn)
            case LinkUp(peer, incarnation):
                self.exchange.link_up(peer, incarnation, turn)
            case LinkDown(peer):
                self.peers.down.add(peer)
            case Processed(upto):
                self._process(upto, turn)
            case Recalled():
                self.fetching.push_recalled(event, turn)
            case Start():
                self._start(event, turn)

    def _conclude(self, turn: Turn) -> None:
        """What follows from what was learnt: count, deliver, forget, speak, fetch."""
        if turn.touched:
            self.knowledge.count(turn)
            self._deliver(turn)
            self._forget(turn)
        self.acknowledgements.end_restart(self.knowledge.stable[self.me])
        self.mode.speak(turn)
        self.fetching.fetch(turn)
        if self.exchange.lossy:
            self.exchange.watch(turn)

    def _deliver(self, turn: Turn) -> None:
        turn.delivered += self.log.deliver(self.knowledge.safe)
        if turn.delivered:
            turn.records.append(Delivered(self.log.vector(self.log.delivered)))

    def _forget(self, turn: Turn) -> None:
        log = self.log
        moved = {**turn.touched, **{one.origin: None for one in turn.delivered}}
        if log.forget({origin: self.knowledge.needless(origin) for origin in moved}):
            turn.late_records.append(Forgotten(log.vector(log.forgotten)))
        if log.is_crowded():
            log.spill(log.delivered)

    def _process(self, upto: Mapping[str, int], turn: Turn) -> None:
        moved = self.log.process(upto)
        if moved:
            turn.touched |= dict.fromkeys(moved)
            turn.late_records.append(ProcessedRecord(self.log.vector(self.log.processed)))

    def _receive(self, sender: str, packet: Packet, turn: Turn) -> None:
        if not packet.may_come_from(sender):
            return
        if sender in self.peers.refused:
            if isinstance(packet, State) and packet.asks:
                self.peers.refuse(sender, turn)  # once more: it has not heard
            return
        match packet:
            case Data(batch, held, commit, digests, restarted):
                if restarted:
                    self.acknowledgements.hear_of_restart(sender, batch.last, turn)
                self.log.hold(batch, turn)
                self.knowledge.know(sender, sender, batch.last, turn)
                self.knowledge.know_all(sender, held, turn)
                self.comparison.compare_all(sender, held, digests)
                for known in commit:
                    self.mode.learn(sender, known, turn)
            case Holding(held, digests):
                self.knowledge.know_all(sender, held, turn)
                self.comparison.compare_all(sender, held, digests)
            case Asking(held, digests):
                self.knowledge.know_all(sender, held, turn)
                self.comparison.compare_all(sender, held, digests)
                self.mode.answer(sender, held, turn)
            case Commit(all_known):
                for known in all_known:
                    self.mode.learn(sender, known, turn)
            case Pull(wanted):
                self.fetching.push(sender, wanted, turn)
            case Push():
                self.fetching.take_push(sender, packet, turn)
            case State():
                self.exchange.take_state(sender, packet, turn)
            case Twins():
                self.comparison.hear(sender, packet)
            case Refusal():
                self.peers.take_refusal(sender, packet, turn)

    def _time_out(self, name: str, turn: Turn) -> None:
        self.timers.running.discard(name)
        match name:
            case "pull":
                self.fetching.pull(self.choose, turn)
            case "repeat":
                self.exchange.repeat(turn)
            case _:
                self.mode.time_out(name, turn)

    # --- starting and coming back

    def _start(self, start: Start, turn: Turn) -> None:
        self.peers.start(start.incarnation)
        self.exchange.lossy = start.lossy
        if start.recovered is not None:
            self._come_back(start.recovered, turn)
        self.gate.start(start, turn)

    def _come_back(self, recovered: Iterable[Record], turn: Turn) -> None:
        """What earlier lives wrote down; read twice, since it may be too much to keep."""
        cursors = cursors_in(recovered, self.members)
        self.peers.pinned |= cursors.pinned
        self.gate.admitted |= cursors.admitted
        self.log.restore(recovered, cursors)
        self.knowledge.come_back()
        self.acknowledgements.come_back()
        self.mode.come_back()
        if self.log.done() != self.log.delivered:
            turn.replay = Replay(dict(self.log.done()), dict(self.log.delivered))
        turn.touched |= dict.fromkeys(self.members)

    def checkpoint(self) -> Checkpoint:
        log, histories = self.log, self.comparison.histories
        marks = {origin: histories.base(origin, last) for origin, last in log.forgotten.items()}
        cursors: list[Record] = [
            Forgotten(log.vector(log.forgotten), tuple(marks[one] for one in self.members)),
            Delivered(log.vector(log.delivered)),
        ]
        if log.until_processed:
            cursors.append(ProcessedRecord(log.vector(log.processed)))
        if self.gate.admitted:
            cursors.append(Admitted())
        pins = (Pinned(member, incarnation) for member, incarnation in self.peers.pinned.items())
        return Checkpoint((*cursors, *pins), {one: mark.count for one, mark in marks.items()})

    def messages_in(
        self, records: Iterable[Any], after: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Found]:
        return messages_in(records, self.members, after)

    def compacted(self, records: Sequence[Any]) -> tuple[Record, ...]:
        return compacted(records, self.members)

    # --- explaining

    @property
    def indifferent(self) -> bool:
        return not self.ticks.ticks

    def awaited(self) -> Members:
        return self.gate.awaited()

    def why(self, message: MessageId) -> str:
        return explaining.why(message, self.log, self.knowledge, self.peers)

    def why_not(self, count: int = 1) -> str:
        """Why so many messages cannot be broadcast now; empty if they can."""
        return self.broadcasting.why_not(count)

    def kept_for(self) -> str:
        return self.broadcasting.kept_for()

    def behind(self) -> dict[str, int]:
        return self.knowledge.behind()

    def held_back(self) -> dict[str, int]:
        log = self.log
        return {
            origin: held - log.delivered[origin] + len(log.early[origin])
            for origin, held in log.held.items()
        }

    def describe(self) -> dict[str, Any]:
        """The state, and what the next message of each origin waits for."""
        log = self.log
        following = [MessageId(origin, count + 1) for origin, count in log.delivered.items()]
        waiting = [one for one in following if one.seq <= log.held[one.origin]]
        return super().describe() | {"waiting": [self.why(one) for one in waiting]}

    def check(self, group: Mapping[str, Process]) -> None:
        # A member that lost its disk, or came back with an older one, holds less than was known.
        pinned, refused = self.peers.pinned, self.peers.refused
        held = {
            name: one.log.held
            for name, one in group.items()
            if isinstance(one, Frontier)
            and name not in refused
            and pinned.get(name, one.peers.incarnation) == one.peers.incarnation
        }
        invariants.check(self.log, self.knowledge, held)
