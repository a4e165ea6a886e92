"""Holds one process: hands it events, performs its effects, in order and never too early.

A tick takes what has come in since the last one, hands it to the process, and gathers the
effects. It ends after ``limits.tick_ms`` if there is more, so that the loop sees to everything
else in between. What must survive is committed first, in a thread, while the next ticks go on;
only then does anything of the tick leave: its trace to the kernel, its packets to the network,
its messages to the application, in this order. All ticks that wait while the disk is busy share
the next commit.

What came from the others waits in ``incoming``, what goes to them is packed in ``outgoing``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from tidings.core import (
    Accept,
    Approve,
    Broadcast,
    CancelTimer,
    Deliver,
    Deny,
    EnvironmentMissing,
    Event,
    Found,
    Halt,
    Held,
    Install,
    Leave,
    LinkDown,
    LinkUp,
    MessageId,
    Packet,
    Persist,
    Process,
    Processed,
    Rebind,
    Recall,
    Recalled,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    SetTimer,
    Stable,
    Start,
    Timeout,
    spans_of,
    text_spans_of,
)
from tidings.node.config import FRAME_ROOM, Config
from tidings.node.disk import Disk
from tidings.node.errors import Halted, ProcessFailed, replacing_helps
from tidings.node.incoming import Incoming
from tidings.node.log import DurableLog, merge
from tidings.node.logs import get_logger
from tidings.node.membership import Membership
from tidings.node.outgoing import Outgoing
from tidings.node.recording import Recorder
from tidings.node.tick import Tick, TickTime
from tidings.node.tracing import Tracer
from tidings.node.transport import Transport
from tidings.node.wire import PACKET_OVERHEAD, Came, SnapshotWords
from tidings.trace.segments import Mark, Messages, Packets

if TYPE_CHECKING:
    from tidings.node.member import Member


SOON_S = 0.005
"""How long what the program has processed waits for a tick that comes anyway."""
UNSEEN = frozenset({Persist, Held, Stable, Refuse, SetTimer, CancelTimer})
"""Effects that need not wait until something is on disk."""


class Engine:
    def __init__(
        self,
        process: Process,
        config: Config,
        application: "Member",
        tasks: asyncio.TaskGroup,
        *,
        log: DurableLog | None,
    ) -> None:
        self.process = process
        self.me = process.me
        self.config = config
        self.application = application
        self.tasks = tasks
        self.membership = Membership(process, config)
        self._changes = self.membership.changes
        self.disk = Disk(log, config, self._finish, self.fail) if log is not None else None
        self.tracer: Tracer | None = None
        self.recorder: Recorder | None = None
        self.transport: Transport  # these two are set by ``link``, before the first event
        self.outgoing: Outgoing
        self.incoming = Incoming()
        self.logger = get_logger(member=self.me)
        self.texts: list[bytes] = []
        """What the application has broadcast and the process has not been handed yet."""
        self.refusal = ""
        """Why the process takes no broadcast at the moment, if so."""
        self._last_refusal = ""
        self.error: BaseException | None = None
        self.ticks = 0
        self._loop = asyncio.get_running_loop()
        self._encode = msgspec.msgpack.Encoder().encode
        self._inbox: list[Any] = []
        """What has happened here: timers, answers of the disk."""
        self._tick_s = config.limits.tick_ms / 1e3
        self._is_scheduled = False
        self._alarm: asyncio.TimerHandle | None = None
        """For a tick that need not be at once."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._to_self = 0
        self._accepting: Iterator[bytes] = iter(())
        """What is left of the Broadcast in hand: a process may take its texts one by one."""
        self._event: Event | None = None
        """What the process was handed last."""
        self._view = 0
        """Which view is installed."""
        self._removed_in: int | None = None
        """Which view is the first without this member, if there is one."""
        self._traced = 0
        """Which place in the history of this member comes next after what its trace has."""
        self._is_stopped = False
        self._moved = asyncio.Event()
        self._wanted: dict[str, dict[str, Recall]] = {}
        """Who is being read to from the log: of each origin, what it asked for last."""
        self._readings: set[asyncio.Task[None]] = set()
        self._perform: dict[type, Callable[[Any, Tick], None]] = {
            Persist: self._persist,
            Recall: partial(self._afterwards, self._want),
            Send: self._send,
            Deliver: self._deliver,
            Replay: partial(self._afterwards, application.replayed),
            Held: self._held,
            Accept: self._accept,
            Refuse: self._refuse,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Stable: partial(self._afterwards, application.stable),
            Reject: self._reject,
            Halt: partial(self._afterwards, self._halt),
            Install: self._install,
            Rebind: self._rebind,
            Approve: partial(self._afterwards, application.approved),
            Deny: partial(self._afterwards, application.denied),
            Leave: self._leave,
        }

    def link(self, transport: Transport) -> None:
        """So it talks to the others."""
        self.transport = transport
        self.outgoing = Outgoing(transport, self.config.limits, self._changes)

    def trace(self, tracer: Tracer) -> None:
        """So it tells what happens from here on."""
        self.tracer = tracer
        self.incoming.is_traced = self.outgoing.is_traced = True

    def record(self, recorder: Recorder) -> None:
        """And so, what it was handed and what came of it."""
        self.recorder = self.outgoing.recorder = recorder

    # --- what comes in

    def post(self, event: Any) -> None:
        """Something has happened; the next tick takes it."""
        self._inbox.append(event)
        self.wake()

    def wake(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._tick)

    def wake_soon(self) -> None:
        """For what may well wait until the next tick, if there is one before long."""
        if self._alarm is None and not self._is_scheduled:
            self._alarm = self._loop.call_later(SOON_S, self._wake_now)

    def _wake_now(self) -> None:
        self._alarm = None
        self.wake()

    def link_up(self, peer: str, incarnation: int) -> None:
        self._post_of(peer, LinkUp(peer, incarnation))

    def link_down(self, peer: str) -> None:
        self._post_of(peer, LinkDown(peer))
        self.application.link_down(peer)

    def received(self, peer: str, packets: Iterator[Came]) -> None:
        self._post_of(peer, packets)

    def _post_of(self, peer: str, event: LinkUp | LinkDown | Iterator[Came]) -> None:
        self.incoming.add(peer, event)
        self.wake()

    def cast_out(self, reason: str) -> None:
        self.fail(Halted(reason))

    def forget(self, peer: str) -> None:
        """It is no peer any more; what it said and nobody took yet is still taken."""
        self.outgoing.forget(peer)
        self.incoming.incarnations.pop(peer, None)

    def heard(self, peer: str, words: SnapshotWords) -> None:
        self.application.heard(peer, words)

    def _ring(self, name: str) -> None:
        self.post(_Alarm(name, self._timers[name]))

    # --- one tick

    def _tick(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        self.ticks += 1
        inbox, self._inbox = self._inbox, []
        if inbox or self.incoming:
            self.refusal = ""  # it stands until something happens
        time = TickTime(self._tick_s)
        tick = Tick()
        try:
            for event in inbox:
                if type(event) is not _Alarm:
                    self._step((event,), tick)
                elif self._timers.get(event.name) is event.handle:
                    del self._timers[event.name]
                    self._step((Timeout(event.name),), tick)
            processed = self.application.newly_processed()
            if self.incoming or processed or self._has_texts:
                self._step(self._together(processed, time, tick), tick)
            if self.texts:
                self._take_texts(time, tick)
            self._seal(tick)
        except Exception as error:
            self.fail(error)
        if self.incoming:
            self.wake()
        self._moved.set()

    def _together(
        self, processed: Mapping[str, int] | None, time: TickTime, tick: Tick
    ) -> Iterator[Event]:
        """What the process may draw its conclusions from at once; a Broadcast comes last."""
        yield from self.incoming.take(time, tick)
        if processed:
            yield Processed(processed)
        if self._has_texts:
            yield self._next_broadcast(tick)

    @property
    def _has_texts(self) -> bool:
        """Whether the application has broadcast something that the process may take."""
        return bool(self.texts) and not self.refusal

    def _take_texts(self, time: TickTime, tick: Tick) -> None:
        """Hand over what else the application broadcasts, as much as fits into a tick."""
        room = self.config.limits.tick_bytes
        # Short texts take longer than their bytes tell.
        while self._has_texts and tick.bytes < room and not time.is_up():
            self._step((self._next_broadcast(tick),), tick)
        if self._has_texts:
            self.wake()

    def _next_broadcast(self, tick: Tick) -> Broadcast:
        """As many texts as fit into one packet, and at least one."""
        limits = self.config.limits
        most = min(limits.batch_bytes, limits.frame_bytes - FRAME_ROOM // 2)
        batch = self.texts[: limits.batch_messages]
        size = sum(map(len, batch)) + PACKET_OVERHEAD * len(batch)
        while size > most and len(batch) > 1:
            size -= len(batch.pop()) + PACKET_OVERHEAD
        del self.texts[: len(batch)]
        tick.bytes += size
        self._accepting = iter(batch)
        return Broadcast(tuple(batch))

    def _step(self, events: Iterable[Event], tick: Tick) -> None:
        if self.recorder is not None:
            events = self.recorder.step(events)
        try:
            effects = self.process.steps(self._noted(events))
        except Exception as fault:
            event = self._event
            over = type(event).__name__
            if isinstance(event, Receive):
                over = f"a {event.packet.kind} of {event.sender}"
            words = f"the process failed over {over}: {type(fault).__name__}: {fault}"
            raise ProcessFailed(words) from fault
        is_behind = self.disk is not None and self.disk.is_busy
        for effect in effects:
            kind = type(effect)
            tick.is_due |= kind not in UNSEEN and (is_behind or bool(tick.records))
            self._perform[kind](effect, tick)
        if type(self._event) is Start:
            self._know_views()
            self.application.started()

    def _noted(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            self._event = event
            yield event

    # --- effects

    def _persist(self, effect: Persist, tick: Tick) -> None:
        if self.disk is not None:
            tick.records += effect.records

    def _afterwards(self, perform: Callable[[Any], None], effect: Any, tick: Tick) -> None:
        tick.after.append(partial(perform, effect))

    def _want(self, wanted: Recall) -> None:
        """One at a time for each peer: the thread that reads has to write, too."""
        is_reading = wanted.peer in self._wanted
        self._wanted.setdefault(wanted.peer, {})[wanted.first.origin] = wanted
        if not is_reading:
            task = self.tasks.create_task(self._read_back(wanted.peer))
            self._readings.add(task)
            task.add_done_callback(self._readings.discard)

    async def _read_back(self, peer: str) -> None:
        assert self.disk is not None, "there is no disk to read from"
        wanted = self._wanted[peer]
        try:
            while wanted:
                one = wanted.pop(next(iter(wanted)))
                limits = self.config.limits
                records = await self.disk.recall(*one.first, one.last, limits.recall_bytes)
                self.post(Recalled(peer, one.first, one.last, records))
        except Exception as error:
            self.fail(error)
        finally:
            del self._wanted[peer]

    async def recall(
        self, first: MessageId, last: int, most_bytes: int, after: Mapping[str, int]
    ) -> Iterator[Found]:
        """Messages of one origin from the log, or the first if they are many; others among them.

        Of each origin only those after so many.
        """
        assert self.disk is not None, "there is no disk to read from"
        return self.process.messages_in(await self.disk.recall(*first, last, most_bytes), after)

    def _send(self, effect: Send, tick: Tick) -> None:
        to, packet = effect.to, effect.packet
        encoded = self._encode(packet)
        if self.me in to:
            self._send_to_self(packet, len(encoded), tick)
            to = tuple(peer for peer in to if peer != self.me)
        self.outgoing.add(packet, encoded, to, tick)

    def _send_to_self(self, packet: Packet, size: int, tick: Tick) -> None:
        self._to_self += 1
        if self.tracer is not None:
            to = ((self.me, self._to_self),)
            tick.items.append(Packets("send", to, packet.kind, size, *(packet.about or ())))
        self.received(self.me, iter((Came(self._to_self, packet, size),)))

    def _deliver(self, effect: Deliver, tick: Tick) -> None:
        found = text_spans_of(effect.messages)
        for origin, first, texts in map(_parts_of, found):
            if self.tracer is not None:
                digests = self.tracer.digests(texts)
                tick.items.append(Messages("deliver", origin, first, len(texts), digests))
            if self.disk is not None:
                tick.delivered[origin] = first + len(texts) - 1
        tick.after.append(partial(self.application.delivered, found))

    def _held(self, effect: Held, tick: Tick) -> None:
        for span in spans_of(effect.ids):
            if self.tracer is not None:
                tick.items.append(Messages("held", span.origin, span.first, len(span)))
            if self.disk is not None:
                merge(tick.held, {span.origin: (span.first, span.last)})
                tick.messages += len(span)

    def _accept(self, effect: Accept, tick: Tick) -> None:
        assert isinstance(self._event, Broadcast), f"{self.me} accepts what nobody broadcast"
        those = spans_of(effect.ids)
        if self.tracer is not None:
            for span in those:
                digests = self.tracer.digests(islice(self._accepting, len(span)))
                about = span.origin, span.first, len(span), digests, self._view
                tick.items.append(Messages("broadcast", *about))
        if those:
            tick.after.append(partial(self.application.accepted, those))

    def _refuse(self, effect: Refuse, tick: Tick) -> None:
        assert isinstance(self._event, Broadcast), f"{self.me} refuses what nobody broadcast"
        self.texts[:0] = self._event.texts
        self.refusal = effect.reason
        if effect.reason != self._last_refusal:
            self._last_refusal = effect.reason
            self.logger.info("broadcasts wait", reason=effect.reason)

    def _set_timer(self, effect: SetTimer, tick: Tick) -> None:
        self._cancel_timer(effect, tick)
        name, delay_s = effect.name, effect.delay_ms / 1e3
        self._timers[name] = self._loop.call_later(delay_s, self._ring, name)

    def _cancel_timer(self, effect: SetTimer | CancelTimer, tick: Tick) -> None:
        handle = self._timers.pop(effect.name, None)
        if handle is not None:
            handle.cancel()

    def _reject(self, effect: Reject, tick: Tick) -> None:
        self.logger.warning("rejected", peer=effect.peer, reason=effect.reason)
        if effect.peer in self.incoming.incarnations:
            self.transport.reject(effect.peer, self.incoming.incarnations[effect.peer])

    def _halt(self, effect: Halt) -> None:
        membership, way_out = self.membership, ""
        if membership.changes and not membership.has_left:
            way_out = replacing_helps(self.me)
        self.fail(Halted(f"{effect.reason}{way_out}"))

    # --- the group changes

    def _know_views(self) -> None:
        """The disk may know of views that the group file does not."""
        membership = self.membership
        self._view = max(0, membership.number or 0)
        self._removed_in = membership.removed_in if membership.has_left else None
        if self.tracer is not None:
            self._traced = self.tracer.index
            if membership.changes:
                self.tracer.know(membership.chain)
        self.transport.follow()
        if membership.has_left:
            self.application.removed(membership.farewell)
        elif not membership.has_state:
            self.application.needs_state()

    def _install(self, effect: Install, tick: Tick) -> None:
        """Whoever is new is called at once: what follows may be for it."""
        assert effect.number is not None, "only members that agree on a view install it"
        self._view = effect.number
        self.transport.follow()
        view = self.membership.chain[effect.number]
        is_first = view.added == self.me
        cut = {origin: last for origin, last in effect.delivered.items() if last}
        if self.tracer is not None:
            self.tracer.know(self.membership.chain)
            kind: Literal["join", "view"] = "join" if is_first else "view"
            tick.items.append(Mark(kind, effect.number, cut, 0, effect.number))
        if is_first and self.disk is not None:
            tick.delivered |= cut
        tick.after.append(partial(self.application.installed, effect.number, cut, is_first))

    def _rebind(self, effect: Rebind, tick: Tick) -> None:
        if self.tracer is not None:
            for span in spans_of(effect.ids):
                about = span.origin, span.first, len(span), b"", self._view
                tick.items.append(Messages("rebind", *about))

    def _leave(self, effect: Leave, tick: Tick) -> None:
        self.transport.follow()
        tick.after.append(partial(self._has_left, effect))

    def _has_left(self, effect: Leave) -> None:
        self._removed_in = effect.number
        self.application.removed(effect.reason)

    # --- the end of a tick

    def _seal(self, tick: Tick) -> None:
        self.outgoing.pack(tick)
        if self.tracer is not None and tick.items:
            tick.block = self.tracer.block(tick.items)
        tick.index = self.tracer.index if self.tracer is not None else 0
        disk = self.disk if self.disk and (tick.records or self.disk.is_busy) else None
        tick.is_due |= bool(tick.frames)  # a record that nothing waits for must not hold them up
        if disk is not None:
            disk.add(tick, self.process)
        if self.recorder is not None:
            self.recorder.seal(tick)
        if disk is None:
            self._finish([tick])
            return
        if disk.is_idle:
            # Nothing waits for the disk, and nobody need wait for what happened here.
            self._perform_after(tick)
        disk.write()

    def _finish(self, ticks: Sequence[Tick]) -> bool:
        """What the ticks rely on is on disk: trace, send, hand over. Whether that was done."""
        if self._is_stopped and self._removed_in is None:
            return False  # what is on disk and not in the trace, the next life will add
        if self.tracer is not None and (blocks := b"".join([tick.block for tick in ticks])):
            self.tracer.write(blocks)
            self._traced = ticks[-1].index
        if self._is_stopped:
            return False
        if self.recorder is not None:
            self.recorder.finished(ticks)
        for tick in ticks:
            self.outgoing.send(tick)
        for tick in ticks:
            self._perform_after(tick)
        if self.disk is not None and self.disk.is_idle:
            # What came meanwhile, and nothing waits for it, is written with whatever comes next.
            for tick in self.disk.waiting:
                self._perform_after(tick)
        self.balance()
        self._moved.set()
        return True

    def _perform_after(self, tick: Tick) -> None:
        after, tick.after = tick.after, []
        for perform in after:
            perform()

    def balance(self) -> None:
        """Read from the network only as fast as the disk and the application can follow."""
        limits, disk = self.config.limits, self.disk
        disk_is_slow = disk is not None and len(disk.waiting) > limits.commit_ticks
        self.transport.read(not (disk_is_slow or self.application.is_full))

    # --- the end

    def fail(self, error: BaseException) -> None:
        """Nothing more happens here: what is not on disk and not sent will never be."""
        if self.error is None:
            self.error = error
            self.logger.error("stopped", reason=str(error))
            self.stop()
            self.transport.fall_silent()
            self.application.failed(error)

    @property
    def is_busy(self) -> bool:
        """Whether something that was taken in has not yet gone out."""
        disk_is_busy = self.disk is not None and self.disk.is_busy
        return disk_is_busy or any((self.texts, self._inbox, self.incoming, self._is_scheduled))

    async def drain(self) -> None:
        """Return when everything that was taken in has gone out, or nothing can any more."""
        self.wake()  # the process does not know yet what was processed last
        while self.is_busy and self.error is None:
            self.flush()
            await self.moved()

    async def moved(self) -> None:
        """Return after the next tick or commit, or when there will be none."""
        self._moved.clear()
        await self._moved.wait()

    def flush(self) -> None:
        """Write what nothing waits for, too."""
        if self.disk is not None:
            self.disk.flush()

    def stop(self) -> None:
        """Take no more notice of anything."""
        self._is_stopped = True
        self._moved.set()
        for handle in (*self._timers.values(), *([self._alarm] if self._alarm else [])):
            handle.cancel()
        for task in self._readings:
            task.cancel()

    async def close(self, patience_s: float | None = None) -> None:
        """Every part, whatever becomes of another; what goes wrong stops the member, as ever.

        A disk that hangs keeps its thread, and the lock, until it is done. We wait for that, or
        only for so long: the loop goes on in any case.
        """
        self.stop()
        parts = [part for part in (self.disk, self.tracer) if part is not None]
        if self.disk is not None:
            self.disk.close()
        if self.tracer is not None:
            if self._removed_in is not None:
                await self._trace_the_end(self._removed_in, self.tracer, patience_s)
            self.tracer.close()
        if self.recorder is not None:
            self.recorder.close()
        if parts:
            ends = [asyncio.wrap_future(part.ended) for part in parts]
            await asyncio.wait(ends, timeout=patience_s)
        if self.tracer is not None:
            try:
                self.tracer.check_names()
            except EnvironmentMissing as error:
                self.fail(error)

    async def _trace_the_end(
        self, removed_in: int, tracer: Tracer, patience_s: float | None
    ) -> None:
        """Whatever ended a member that was removed, it had left before; there is no next life.

        So what is on its disk has to be in its trace first, and what never got there has no place.
        """
        if self.disk is not None:
            await asyncio.wait([asyncio.wrap_future(self.disk.ended)], timeout=patience_s)
        tracer.index = self._traced
        tracer.write(tracer.block([Mark("leave", None, None, 0, removed_in)]))


_parts_of = attrgetter("origin", "first", "texts")


class _Alarm(NamedTuple):
    """A timer ran out; unless it was set again or cancelled since."""

    name: str
    handle: asyncio.TimerHandle
