"""The member at work: it opens its disk and its links, hears its engine, and leaves.

A program does not see it; ``Group`` (group.py) is what it sees. The parts are each explained where
they are: ``engine`` holds the process, ``ledger`` knows what becomes of our own broadcasts,
``reading`` what the program has yet to read, ``condition`` how all of it is doing.
"""

import asyncio
import secrets
from asyncio import timeout
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from tidings.core import (
    Approve,
    Change,
    Deny,
    Found,
    MessageId,
    Processed,
    Replay,
    Span,
    Stable,
    Start,
    TextSpan,
    UsageError,
)
from tidings.core.likeness import did_you_mean
from tidings.node.changing import Changes, Progress
from tidings.node.condition import Condition, Status
from tidings.node.config import Config
from tidings.node.disk import SLOW_S
from tidings.node.engine import Engine
from tidings.node.errors import Closed, NotReady, Removed
from tidings.node.ledger import Ledger, Receipt
from tidings.node.log import Recovered
from tidings.node.logs import get_logger
from tidings.node.membership import GroupView, Role
from tidings.node.opening import (
    begun_trace,
    choose,
    has_a_view,
    last_of,
    links_of,
    opened_log,
)
from tidings.node.reading import Reading
from tidings.node.recording import Recorder
from tidings.node.snapshot import Giving, Snapshot, Taking
from tidings.node.tasks import Tasks
from tidings.node.transport import Injecting, Transport
from tidings.node.wire import SnapshotWish, SnapshotWords

if TYPE_CHECKING:
    from tidings.node.control.door import Control
    from tidings.node.monitor import Monitor


class Member:
    def __init__(
        self,
        name: str,
        config: Config,
        *,
        acknowledges_next: bool,
        listens: bool,
        founding: bool,
        snapshot: Snapshot | None,
        injector: Injecting | None,
    ) -> None:
        self.name = name
        self.config = config
        self.transport: Transport
        self.condition: Condition
        self._founding = founding
        self._injector = injector
        self._snapshot = snapshot
        self._taking: Taking | None = None
        """How the program comes by its state, while it has none."""
        self._engine: Engine | None = None
        self.error: BaseException | None = Closed(f"{name} has not joined; write: async with")
        """Why the program can broadcast nothing, if so."""
        self._logger = get_logger(member=name)
        self.reading = Reading(
            name, config, self._recall, acknowledges_next=acknowledges_next, listens=listens
        )
        self.reading.end = self.error
        self.own = Ledger(name, config.limits.window, config.limits.window_bytes)
        self.own.on_waiting = self.reading.wait
        self._monitor: Monitor | None = None
        self._control: Control | None = None
        self._jobs: list[asyncio.Task[None]] = []
        self._is_leaving = False
        self._has_left = asyncio.Event()

    # --- joining

    async def join(self) -> None:
        if self._engine is not None:
            raise UsageError(f"{self.name} has joined already")
        self._tasks = Tasks(self._fail)
        try:
            await self._tasks.open()
            await self._start()
        except BaseException as error:
            await self._give_up(error)
            raise

    def _fail(self, error: BaseException) -> None:
        if self._engine is not None:
            self._engine.fail(error)

    async def _give_up(self, error: BaseException) -> None:
        """Nobody will leave what was not entered: close whatever is open."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()
            self.transport.fall_silent()
            self._stop_jobs()
        self._tasks.cancel()
        try:
            await self._tasks.close()
        finally:
            if engine is not None:
                await self._close(engine)
                self.error = Closed(f"{self.name} has not joined: {str(error) or 'cancelled'}")

    async def _start(self) -> None:
        process = self.config.process(self.name, choose)
        # Who starts with nothing is somebody new; who finds a log goes by what that says.
        incarnation, life = secrets.randbits(62) + 1, 0
        log, recovered = opened_log(self.config, self.name, type(process), incarnation)
        try:
            if self.name not in self.config.addresses:
                known = recovered.address if recovered is not None else ""
                self.config = self.config.with_newcomer(self.name, known)
            self._check_that_we_are_reached()
            if log is not None:
                incarnation, life = log.identity.incarnation, log.identity.life
            if log is not None and recovered is not None:
                self.reading.come_back(recovered.delivered)
                last = last_of(self.name, process, log, recovered)
                self.own.come_back(last, recovered.delivered.get(self.name, 0))
            engine = Engine(process, self.config, self, self._tasks.group, log=log)
            self.transport = links_of(engine, incarnation, life, self._injector)
            engine.link(self.transport)
            self.condition = Condition(
                self.config, engine, self.own, self.reading, lambda: self.error
            )
            self._changes = Changes(self.config, engine.membership, self.transport, engine.post)
            about = (self.config, self.reading, self.transport)
            self._giving = Giving(self._snapshot, *about, self._tasks.group)
        except BaseException:
            if log is not None:
                log.close()
            raise
        if not process.recovers:
            unknown = f"{self.config.protocol} does not tell when a message is stable"
            self.own.never_stable = unknown
        self._engine, self.error = engine, None
        self.reading.engine, self.reading.end = engine, None
        # Whatever may be taken already is tried before anything is written.
        self._open_to_monitoring()
        begin = partial(self._begin_life, engine, recovered, incarnation)
        await self.transport.start(self._tasks.group, begin)
        await self._open_control(engine)

    def _check_that_we_are_reached(self) -> None:
        if self.name not in self.config.addresses:
            members = ", ".join(self.config.members)
            meant = did_you_mean(self.name, self.config.members)
            raise UsageError(
                f"{self.name} is not in the group file, which has {members}{meant}; a newcomer has "
                "to say where it is reached: address='HOST:PORT', or --address HOST:PORT"
            )

    def _begin_life(self, engine: Engine, recovered: Recovered | None, incarnation: int) -> None:
        """Nothing can fail any more but the disk: until here, nothing is written of this life.

        Before anybody hears of it, it is on disk: no life may send under the numbers of another.
        """
        index = recovered.index if recovered is not None else 0
        log = engine.disk.log if engine.disk is not None else None
        if self.config.trace.on:
            about = (self.config, engine.process, log, recovered, self.own.last)
            tracer = begun_trace(*about)
            engine.trace(tracer)
            index = tracer.index
        if log is not None:
            log.begin_life(index)
        if self.config.trace.conform:
            life = log.identity.life if log is not None else 0
            engine.record(Recorder(self.config, engine.process, life, index))
        self._jobs.append(self._tasks.group.create_task(self.condition.watch()))
        records = recovered.records if recovered is not None else None
        is_lossy = self._injector is not None
        engine.post(
            Start(
                incarnation,
                records,
                founding=self._founding,
                joining=self.name not in self.config.members and not has_a_view(records),
                lossy=is_lossy,
            )
        )

    def _open_to_monitoring(self) -> None:
        """If the group file says where."""
        if self.name in self.config.metrics:
            from tidings.node.monitor import Monitor

            self._monitor = Monitor(self)
            self._monitor.listen(self.config.metrics[self.name])
            self.own.on_delivery = self._monitor.metrics.delivery.observe

    async def _open_control(self, engine: Engine) -> None:
        """For operators. A member does its work without them, so a place for it need not be."""
        from tidings.node.control.door import Control

        control = Control(self, engine)
        try:
            await control.open(self._tasks.group)
        except OSError as fault:
            self._logger.warning("no control socket", reason=str(fault))
        else:
            self._control = control

    def _stop_jobs(self) -> None:
        if self._control is not None:
            self._control.close()
        self._giving.close()
        for job in self._jobs:
            job.cancel()

    async def _close(self, engine: Engine) -> None:
        """Wait for a disk that hangs, unless this was cancelled: then nobody waits any longer."""
        try:
            await engine.close(SLOW_S if _is_cancelled() else None)
        finally:
            if self._monitor is not None:
                self._monitor.close()

    # --- leaving

    async def leave(self, fault: BaseException | None = None) -> None:
        """The first who asks leaves, anybody after it waits until that is over.

        It raises what stopped the member, unless the program ends with another fault.
        """
        engine = self._engine
        if engine is None:
            return
        if self._is_leaving:
            await self._has_left.wait()
            return
        self._is_leaving = True
        try:
            await self._say_good_bye(engine)
        finally:
            self._stop_jobs()
            if _is_cancelled():
                self._tasks.cancel()
            async with AsyncExitStack() as rest:
                rest.callback(self._has_left.set)
                rest.callback(self.failed, Closed(f"{self.name} has left the group"))
                rest.push_async_callback(self._close, engine)
                await self._tasks.close()
        if fault is None and engine.error is not None:
            raise engine.error

    async def _say_good_bye(self, engine: Engine) -> None:
        """Take nothing more in, let everything out, and deliver of our own what can be delivered.

        What the others deliver and we do not, our history would be missing for ever.
        """
        self.error = self.error or Closed(f"{self.name} is leaving the group")
        own, in_time = self.own, True
        try:
            try:
                async with timeout(self.config.links.close_ms / 1e3):
                    await engine.drain()
                    while own.under_way and engine.error is None and self.condition.may_deliver():
                        await engine.moved()
            except TimeoutError:
                in_time = False
            if own.under_way or not in_time:
                lost = own.count - own.accepted
                numbers = {"never_broadcast": lost, "not_delivered": own.under_way - lost}
                reason = engine.refusal or self.condition.why_we_wait()
                self._logger.warning("left in haste", **numbers, reason=reason)
            engine.stop()
            await self.transport.close()
            if self._monitor is not None:
                await asyncio.to_thread(self._monitor.close)
        except asyncio.CancelledError:
            # Nobody waits any longer: whatever still runs must not be waited for either.
            engine.stop()
            self.transport.fall_silent()
            raise

    # --- for the program

    def joined(self) -> Engine:
        if self._engine is None:
            raise Closed(f"{self.name} has not joined; write: async with")
        return self._engine

    def open_engine(self) -> Engine:
        """The engine, if it takes broadcasts."""
        engine = self._engine
        if self.error is not None or engine is None:
            raise self.error or Closed(f"{self.name} has not joined")
        if engine.disk is not None and engine.disk.is_full(engine.process):
            raise self.condition.full_log(engine.disk.log)
        return engine

    async def _recall(
        self, first: MessageId, last: int, most_bytes: int, after: Mapping[str, int]
    ) -> Iterator[Found]:
        return await self.joined().recall(first, last, most_bytes, after)

    async def ready(self, timeout_s: float | None) -> None:
        engine = self.joined()
        try:
            async with timeout(timeout_s):
                while self.condition.obstacle():
                    if self.error is not None:
                        raise self.error
                    await engine.moved()
        except TimeoutError:
            if reason := self.condition.obstacle():
                missing = self.condition.status().missing
                words = f"{self.name} is not ready after {timeout_s:g} s: {reason}"
                raise NotReady(words, missing) from None

    def receipt(self, message: MessageId | str | int) -> Receipt:
        self.joined()
        name = MessageId(self.name, message) if isinstance(message, int) else self.named(message)
        if name.origin != self.name:
            raise UsageError(f"{name} is not of {self.name}: only its origin has a receipt")
        return self.own.receipt(self.named(name).seq)

    def why(self, message: MessageId | str | None = None) -> str:
        """What a message waits for here, in words; or, if none is named, the oldest of our own."""
        self.joined()
        if message is None:
            return self.condition.why_we_wait()
        return self.condition.why(self.named(message))

    def named(self, message: MessageId | str) -> MessageId:
        """Which message is meant, if there can be such a one."""
        if not isinstance(message, MessageId | str):
            raise UsageError(f"{message!r} is not the name of a message; write it as 'p1#4'")
        name = MessageId.parse(message) if isinstance(message, str) else message
        self.check_origin(name.origin)
        if name.seq < 1:
            raise UsageError(f"there is no {name}: the first message of {name.origin} is number 1")
        return name

    def check_origin(self, name: str) -> None:
        membership = self.joined().membership
        if membership.role_of(name) is Role.NEWCOMER:
            members = ", ".join(membership.members)
            raise UsageError(f"{name} is not in the group; its members: {members}")

    def status(self) -> Status:
        self.joined()
        return self.condition.status()

    def view(self) -> GroupView:
        return self.joined().membership.view()

    async def change(self, change: Change, progress: Progress) -> GroupView:
        self.joined()
        if self.error is not None:
            raise self.error
        return await self._changes.make(change, progress)

    # --- what the engine tells

    @property
    def is_full(self) -> bool:
        return self.reading.is_full

    def started(self) -> None:
        """What the log could forget before, every member held."""
        checkpoint = self.joined().process.checkpoint()
        if checkpoint is not None:
            self.own.stabilise_up_to(checkpoint.forgotten.get(self.name, 0))

    def accepted(self, spans: Sequence[Span]) -> None:
        self.own.accept(spans)

    def delivered(self, spans: Sequence[TextSpan]) -> None:
        for one in spans:
            if one.origin == self.name:
                self.own.deliver(one)
        self.reading.add(spans)

    def replayed(self, replay: Replay) -> None:
        self.reading.replay(replay)

    def approved(self, effect: Approve) -> None:
        self._changes.approved(effect)

    def denied(self, effect: Deny) -> None:
        self._changes.denied(effect)

    def installed(self, number: int, cut: Mapping[str, int], is_first: bool) -> None:
        view = self.joined().membership.view(number)
        self._logger.info("view installed", number=view.number, members=" ".join(view.members))
        if is_first:
            self.reading.begin_at(cut)
            self.needs_state()
        self._changes.installed(view)

    def needs_state(self) -> None:
        """A newcomer: without snapshots, its program begins at the cut, and has all it needs."""
        engine = self.joined()
        if self._snapshot is None:
            engine.post(Processed(engine.membership.delivered_before(self.name) or {}))
        elif self._taking is None:
            self.reading.hold_back()
            self._taking = Taking(self._snapshot, self.config, self.reading, self.transport)
            self._jobs.append(self._tasks.group.create_task(self._take_state(engine, self._taking)))

    async def _take_state(self, engine: Engine, taking: Taking) -> None:
        try:
            vector = await taking.run()
            # The next life must not be handed what is in the state, so all of it has to be here.
            await self.reading.has_delivered(vector)
            engine.post(Processed(vector))
            self.reading.go_on_after(vector)
        except Exception as error:
            engine.fail(error)
        self._taking = None

    def heard(self, peer: str, words: SnapshotWords) -> None:
        if isinstance(words, SnapshotWish):
            self._giving.wished(peer, words, self.joined().membership.delivered_before(peer))
        elif self._taking is not None:
            self._taking.came(peer, words)

    def link_down(self, peer: str) -> None:
        self._giving.forget(peer)
        if self._taking is not None:
            self._taking.link_down(peer)

    def removed(self, reason: str) -> None:
        """What of our own is not in the cut is void; what is delivered can still be read."""
        membership = self.joined().membership
        view = membership.view(membership.removed_in)
        self._logger.warning("removed", reason=reason)
        self.error = Removed(f"{reason}; what was not delivered of its messages is void")
        self.own.end_with(dict(membership.chain[view.number].cut).get(self.name, 0), self.error)
        self._changes.installed(view)
        self._changes.fail(self.error)

    def stable(self, effect: Stable) -> None:
        self.condition.stable.update(effect.upto)
        if self.name in effect.upto:
            self.own.stabilise_up_to(effect.upto[self.name])

    def newly_processed(self) -> Mapping[str, int] | None:
        return self.reading.newly_processed()

    def failed(self, error: BaseException) -> None:
        if self.error is None or isinstance(self.error, Closed):
            self.error = error
        self.own.fail(self.error)  # what stopped the member, not that the program left later
        if self._engine is not None:
            self._changes.fail(self.error)
        self.reading.end = self.error
        self.reading.tell()


def _is_cancelled() -> bool:
    """Whether nobody waits any longer for what we do here."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
