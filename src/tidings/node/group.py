"""What a program sees of its group.

    async with tidings.join("p1", group="group.toml") as group:
        receipt = await group.broadcast(b"hello")
        await receipt.delivered()   # half of the members hold it: it survives any minority
        await receipt.stable()      # every member holds it
        async for message in group:
            ...

``broadcast`` returns as soon as the text is queued, and waits only while too many of its own
messages are under way. docs/node.md says exactly what a durable member is handed again after a
restart.
"""

import asyncio
import random
import secrets
from asyncio import TaskGroup, timeout
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, get_args

import msgspec

from tidings.core import (
    Approve,
    Change,
    Deny,
    Found,
    Members,
    Message,
    MessageId,
    Process,
    Processed,
    Replay,
    Span,
    Stable,
    Start,
    TextSpan,
    UsageError,
    is_name,
)
from tidings.node import tracing
from tidings.node.changing import Changes, Progress
from tidings.node.config import NO_LIMIT, Config, read_config
from tidings.node.disk import SLOW_S
from tidings.node.engine import Engine
from tidings.node.errors import Closed, LogFull, Removed
from tidings.node.ledger import Ledger, Receipt
from tidings.node.log import About, DurableLog, Recovered, open_log
from tidings.node.logs import get_logger
from tidings.node.membership import GroupView, Role
from tidings.node.reading import Reading
from tidings.node.recording import Recorder
from tidings.node.snapshot import Giving, Snapshot, Taking
from tidings.node.tracing import Standing, Tracer
from tidings.node.transport import Injecting, Transport
from tidings.node.unread import Replayed as Replayed
from tidings.node.wire import Codec, Hello, SnapshotWish, SnapshotWords
from tidings.protocols.views.records import Installed

if TYPE_CHECKING:
    from tidings.node.control.door import Control
    from tidings.node.metrics import Metrics

Acknowledge = Literal["next", "explicitly"]
"""When a message counts as processed: when the next one is asked for, or when the program says."""

PATIENCE_S = 1.0
"""How long a broadcast of its own may get nowhere before the reason is logged."""


class Status(msgspec.Struct, frozen=True):
    """How a member is doing."""

    member: str
    members: Members
    linked: Members
    """Whose links are up."""
    broadcast: int
    """How many of its own messages were accepted in this life."""
    own: int
    """The number of its own last message; in a durable group, in all lives."""
    queued: int
    """How many were broadcast and are not accepted yet: who leaves now has not said them."""
    waiting: int
    """How many are not yet known to be held by half of the members."""
    delivered: dict[str, int]
    """Of each origin the last message delivered; in a durable group, in all lives."""
    stable: dict[str, int]
    """Of each origin the last message that all members are known to hold, in this life."""
    unread: int
    """How many wait for the program."""
    log_bytes: int
    refusal: str
    """Why no broadcast is taken at the moment, if so."""
    stuck: str
    """Why nothing of its own was delivered for a second or longer, if so."""
    awaited: Members = ()
    """After a start: members of which some must answer before anything is broadcast."""
    view: int = 0
    """How often the group has changed; -1 for a newcomer that is in no view yet."""
    wedged_s: float = 0.0
    """For how long the group has been about to change: broadcasts wait meanwhile."""
    missing: Members = ()
    """Members whose links are down."""


def _silently(reached: str) -> None:
    pass


class Group:
    """One member's view of its group; made by ``join``."""

    def __init__(
        self,
        name: str,
        config: Config,
        acknowledge: Acknowledge,
        listen: bool,
        founding: bool,
        snapshot: Snapshot | None,
        injector: Injecting | None,
    ) -> None:
        self.name = name
        self.config = config
        self._text_bytes = config.limits.text_bytes
        self._founding = founding
        self._injector = injector
        self._snapshot = snapshot
        self._taking: Taking | None = None
        """How the program comes by its state, while it has none."""
        self._engine: Engine | None = None
        self._error: BaseException | None = Closed(f"{name} has not joined; write: async with")
        self._logger = get_logger(member=name)
        self._reading = Reading(
            name, config, self._recall, acknowledges_next=acknowledge == "next", listens=listen
        )
        self._reading.end = self._error
        self._own = Ledger(name, config.limits.window, config.limits.window_bytes)
        self._own.on_waiting = self._reading.wait
        self._metrics: Metrics | None = None
        self._control: Control | None = None
        self._stable_upto: dict[str, int] = {}
        self._stuck = ""
        self._wedged_s: float | None = None
        """Since when the group is about to change and has not yet, as far as anybody looked."""
        self._jobs: list[asyncio.Task[None]] = []

    # --- joining and leaving

    async def __aenter__(self) -> Self:
        if self._engine is not None:
            raise UsageError(f"{self.name} has joined already")
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskGroup()
        await self._tasks.__aenter__()
        try:
            await self._start()
        except BaseException as error:
            await self._give_up(error)
            raise
        return self

    async def _give_up(self, error: BaseException) -> None:
        """Nobody will leave what was not entered: close whatever is open."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()
            self._transport.fall_silent()
            self._stop_jobs()
        try:
            with suppress(BaseExceptionGroup, asyncio.CancelledError):
                await self._tasks.__aexit__(type(error), error, error.__traceback__)
        finally:
            if engine is not None:
                await self._close(engine)
                self._error = Closed(f"{self.name} has not joined: {str(error) or 'cancelled'}")

    async def _start(self) -> None:
        process = self.config.process(self.name, _choose)
        # Who starts with nothing is somebody new; who finds a log goes by what that says.
        incarnation, life = secrets.randbits(62) + 1, 0
        log, recovered = _opened_log(self.config, self.name, type(process), incarnation)
        try:
            if self.name not in self.config.addresses:
                known = recovered.address if recovered is not None else ""
                self.config = self.config.with_newcomer(self.name, known)
            self._check_that_we_are_reached()
            if log is not None:
                incarnation, life = log.identity.incarnation, log.identity.life
            if log is not None and recovered is not None:
                self._reading.come_back(recovered.delivered)
                self._own.last = _last_of(self.name, process, log, recovered)
            engine = Engine(process, self.config, self, self._tasks, log=log)
            engine.transport = self._transport = self._made_transport(engine, incarnation, life)
            self._changes = Changes(self.config, engine.membership, self._transport, engine.post)
            about = (self.config, self._reading, self._transport)
            self._giving = Giving(self._snapshot, *about, self._tasks)
        except BaseException:
            if log is not None:
                log.close()
            raise
        if not process.recovers:
            unknown = f"{self.config.protocol} does not tell when a message is stable"
            self._own.never_stable = unknown
        self._engine, self._error = engine, None
        self._reading.engine, self._reading.end = engine, None
        # Whatever may be taken already is tried before anything is written.
        self._tell_metrics()
        begin = partial(self._begin_life, engine, recovered, incarnation)
        await self._transport.start(self._tasks, begin)
        await self._open_control(engine)

    def _check_that_we_are_reached(self) -> None:
        if self.name not in self.config.addresses:
            members = ", ".join(self.config.members)
            raise UsageError(
                f"{self.name} is not in the group file, which has {members}; a newcomer says where "
                "it is reached: address, or tidings node --address HOST:PORT"
            )

    def _begin_life(self, engine: Engine, recovered: Recovered | None, incarnation: int) -> None:
        """Nothing can fail any more but the disk: until here, nothing is written of this life.

        Before anybody hears of it, it is on disk: no life may send under the numbers of another.
        """
        index = recovered.index if recovered is not None else 0
        log = engine.disk.log if engine.disk is not None else None
        if self.config.trace.on:
            engine.tracer = _begun_trace(
                self.config, engine.process, log, recovered, self._own.last
            )
            index = engine.tracer.index
        if log is not None:
            log.begin_life(index)
        if self.config.trace.conform:
            life = log.identity.life if log is not None else 0
            engine.recorder = Recorder(self.config, engine.process, life, index)
        self._jobs.append(self._tasks.create_task(self._watch()))
        records = recovered.records if recovered is not None else None
        is_lossy = self._injector is not None
        engine.post(
            Start(
                incarnation,
                records,
                founding=self._founding,
                joining=self.name not in self.config.members and not _has_a_view(records),
                lossy=is_lossy,
            )
        )

    def _made_transport(self, engine: Engine, incarnation: int, life: int) -> Transport:
        hello = Hello(
            name=self.name,
            to=self.name,
            group=self.config.name,
            members=self.config.members,
            protocol=self.config.protocol,
            options=self.config.options,
            settings=self.config.alike(),
            incarnation=incarnation,
            session=secrets.randbits(62),
        )
        membership = engine.membership
        members = None if membership.changes else self.config.members
        kind, limits = type(engine.process), self.config.limits
        return Transport(
            hello,
            life,
            self.config,
            Codec(kind, members, limits, membership.members_of),
            engine,
            membership,
            resends=not engine.process.recovers,
            injector=self._injector,
        )

    def _tell_metrics(self) -> None:
        """To Prometheus, if the group file says where."""
        if self.name in self.config.metrics:
            from tidings.node.metrics import Metrics

            self._metrics = Metrics(self)
            self._metrics.listen(self.config.metrics[self.name])
            self._own.on_delivery = self._metrics.delivery.observe

    async def _open_control(self, engine: Engine) -> None:
        """For operators. A member does its work without them, so a place for it need not be."""
        from tidings.node.control.door import Control

        control = Control(self, engine)
        try:
            await control.open(self._tasks)
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
        task = asyncio.current_task()
        is_cancelled = task is not None and task.cancelling() > 0
        try:
            await engine.close(SLOW_S if is_cancelled else None)
        finally:
            if self._metrics is not None:
                self._metrics.close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        engine = self._engine
        assert engine is not None, "left without having entered"
        try:
            await self._leave(engine)
        finally:
            self._stop_jobs()
            async with AsyncExitStack() as rest:
                rest.callback(self.failed, Closed(f"{self.name} has left the group"))
                rest.push_async_callback(self._close, engine)
                # An error of the body is the caller's, and not one of our tasks'.
                is_ours = isinstance(error, asyncio.CancelledError)
                await self._tasks.__aexit__(*((kind, error, trace) if is_ours else (None,) * 3))
        if error is None and engine.error is not None:
            raise engine.error

    async def _leave(self, engine: Engine) -> None:
        """Take nothing more in, and let everything out."""
        self._error = self._error or Closed(f"{self.name} is leaving the group")
        try:
            try:
                async with timeout(self.config.links.close_ms / 1e3):
                    await engine.drain()
            except TimeoutError:
                lost = self._own.count - self._own.accepted
                self._logger.warning("left in haste", never_broadcast=lost, reason=engine.refusal)
            engine.stop()
            await self._transport.close()
            if self._metrics is not None:
                await asyncio.to_thread(self._metrics.close)
        except asyncio.CancelledError:
            # Nobody waits any longer: whatever still runs must not be waited for either.
            engine.stop()
            self._transport.fall_silent()
            raise

    # --- broadcasting

    async def broadcast(self, text: bytes) -> Receipt:
        """Queue a text for everybody; waits while too many of our own are under way.

        Cancelled, it has not broadcast; returned, it has.
        """
        own = self._own
        while own.is_full and self._error is None:
            await own.wait_for_room()
        engine = self._open_engine()
        if type(text) is not bytes or len(text) > self._text_bytes:
            raise self._bad_text(text)
        engine.texts.append(text)
        engine.wake()
        return own.add(len(text))

    async def broadcast_many(self, texts: Iterable[bytes]) -> Receipt:
        """Queue texts for everybody, in this order; the receipt is that of the last.

        Waits as ``broadcast`` does, for all of them at once; ``limits.window`` and
        ``limits.window_bytes`` are the most. Cancelled, it has broadcast none; returned, all.
        """
        batch, own = list(texts), self._own
        for text in batch:
            if type(text) is not bytes or len(text) > self._text_bytes:
                raise self._bad_text(text)
        size = sum(map(len, batch))
        if not 0 < len(batch) <= own.window or size > own.window_bytes:
            raise UsageError(
                f"{len(batch):,} texts of {size:,} bytes at once; possible are 1 to "
                f"{own.window:,} texts (limits.window) of at most {own.window_bytes:,} bytes "
                "(limits.window_bytes)"
            )
        while own.is_full and self._error is None:
            await own.wait_for_room()
        engine = self._open_engine()
        engine.texts += batch
        engine.wake()
        return own.add(size, len(batch))

    def _open_engine(self) -> Engine:
        """The engine, if it takes broadcasts."""
        engine = self._engine
        if self._error is not None or engine is None:
            raise self._error or Closed(f"{self.name} has not joined")
        if engine.disk is not None and engine.disk.is_full(engine.process):
            raise self._full_log(engine.disk.log)
        return engine

    def _bad_text(self, text: object) -> UsageError:
        if not isinstance(text, bytes):
            return UsageError(f"a text is bytes, not {type(text).__name__}")
        limit = self.config.limits.text_bytes
        return UsageError(f"a text of {len(text):,} bytes; {limit:,} is the limit (text_bytes)")

    def _full_log(self, log: DurableLog) -> LogFull:
        if self._reading.unread.has_later:
            reason = f"its program reads on; {self._reading.words()}"
        else:
            silent = [name for name, peer in self._transport.peers.items() if peer.link is None]
            reason = (
                f"{', '.join(silent) or 'the slowest member'} has them too; if that cannot be, "
                "raise limits.log_bytes, or begin a new group"
            )
        return LogFull(
            f"the log of {self.name} is full: {log.size:,} bytes are kept until {reason}"
        )

    # --- reading

    def __aiter__(self) -> AsyncIterator[Message]:
        self._reading.begin()
        return self._reading.messages()

    async def __anext__(self) -> Message:
        """The next message; asking for it says that the one before is processed.

        Cancelled, it has taken nothing.
        """
        if not await self._reading.something_in_hand():
            raise StopAsyncIteration
        return self._reading.unread.pop()

    def batches(self) -> AsyncIterator[TextSpan]:
        """Instead of messages, spans of them as they come: consecutive ones of one origin.

        Asking for the next says that all of the one before are processed.
        """
        return self._reading.batches()

    async def _recall(
        self, first: MessageId, last: int, most_bytes: int, after: Mapping[str, int]
    ) -> Iterator[Found]:
        return await self._joined().recall(first, last, most_bytes, after)

    def processed(self, message: Message) -> None:
        """This message, and every one of its origin before it, need not be handed over again."""
        if isinstance(message, Message):
            self._check_origin(message.origin)
        self._reading.processed(message)

    async def history(self, first: MessageId | str) -> AsyncIterator[Message]:
        """What a durable member still keeps of one origin: from this message to the last delivered.

        How much is kept of what every member has, ``[retention]`` in the group file says.
        """
        origin, seq = self._named(first)
        engine = self._joined()
        if engine.disk is None:
            raise UsageError(f"{self.name} keeps no history: the group is not durable")
        last = self._reading.delivered.get(origin, 0)
        while seq <= last:
            if self._error is not None:
                raise self._error
            wanted, most = MessageId(origin, seq), self.config.limits.recall_bytes
            read = await engine.recall(wanted, last, most, {origin: seq - 1})
            found = {one.id.seq: one for one, _ in read if one.id.origin == origin}
            if seq not in found:
                raise self._not_kept(wanted, engine.disk.log)
            while seq in found and seq <= last:
                yield found[seq]
                seq += 1

    def _not_kept(self, message: MessageId, log: DurableLog) -> UsageError:
        first = log.first_kept(message.origin)
        kept = f"{MessageId(message.origin, first)} on" if first is not None else "nothing"
        return UsageError(
            f"{message} is no longer kept by {self.name}: of {message.origin} it keeps {kept} "
            "(see [retention] in the group file)"
        )

    # --- asking

    def why(self, message: MessageId | str | None = None) -> str:
        """What a message waits for here, in words; or, if none is named, the oldest of our own.

        Empty if none of our own waits for anything.
        """
        engine = self._joined()
        if message is None:
            return self._why_we_wait(engine)
        return self._why(engine, self._named(message))

    def _why(self, engine: Engine, message: MessageId) -> str:
        if engine.disk is not None and engine.disk.will_deliver(message):
            return f"{message} waits at {self.name} for its disk, which has yet to write it"
        return engine.process.why(message)

    def _named(self, message: MessageId | str) -> MessageId:
        """Which message is meant, if there can be such a one."""
        if not isinstance(message, MessageId | str):
            raise UsageError(f"{message!r} is not the name of a message; write it as 'p1#4'")
        name = MessageId.parse(message) if isinstance(message, str) else message
        self._check_origin(name.origin)
        if name.seq < 1:
            raise UsageError(f"there is no {name}: the first message of {name.origin} is number 1")
        return name

    def _check_origin(self, name: str) -> None:
        membership = self._joined().membership
        if membership.role_of(name) is Role.NEWCOMER:
            members = ", ".join(membership.members)
            raise UsageError(f"{name} is not in the group; its members: {members}")

    def _why_we_wait(self, engine: Engine) -> str:
        if not self._own.under_way:
            return ""
        if self.is_full:
            return f"{self._reading.words()}: until then it hears nothing from the others"
        if engine.disk is not None and engine.disk.is_slow:
            return f"{self.name} waits for its disk, which takes longer than {SLOW_S:g} s to write"
        oldest = self._own.name_of(self._own.delivered.reached + 1)
        if oldest is None:
            return engine.refusal or f"{self.name} has not written it to its disk yet"
        return self._why(engine, oldest)

    async def _watch(self) -> None:
        """Tell, once for each reason, when our own broadcasts get nowhere, and when the log fills.

        A program that awaits a receipt would otherwise sit there and never learn what is missing.
        """
        own = self._own
        while True:
            count, reached = own.count, own.delivered.reached
            await asyncio.sleep(PATIENCE_S)
            is_stuck = count > reached == own.delivered.reached and self._error is None
            before, self._stuck = self._stuck, self.why() if is_stuck else ""
            if self._stuck and self._stuck != before:
                self._logger.warning("broadcasts are stuck", reason=self._stuck)
            elif before and not self._stuck:
                self._logger.info("broadcasts go on")
            self._watch_the_log()
            self._joined().flush()

    def _watch_the_log(self) -> None:
        engine = self._joined()
        if engine.disk is not None and (percent := engine.disk.newly_full(engine.process)):
            # Kept for a member that lacks what is in the log, or for a program that does not read.
            kept_for = engine.process.kept_for()
            if kept_for not in engine.membership.members and len(self._reading.unread):
                kept_for = f"the program: {self._reading.words()}"
            self._logger.warning(
                "the log fills up",
                percent=percent,
                bytes=engine.disk.log.size,
                limit=self.config.limits.log_bytes,
                kept_for=kept_for,
            )

    def _joined(self) -> Engine:
        if self._engine is None:
            raise Closed(f"{self.name} has not joined; write: async with")
        return self._engine

    def reload(self) -> bool:
        """Read the certificates again, after a renewal or a revocation: whether anything is new.

        If they are no good, that is raised, and those that were read before stay.
        """
        self._joined()
        return self._transport.reload()

    # --- changing the group

    @property
    def view(self) -> GroupView:
        """The members, where they are reached, and how often the group has changed."""
        return self._joined().membership.view()

    async def add(self, name: str, address: str, *, progress: Progress = _silently) -> GroupView:
        """Make somebody a member that runs at this address; the view in which it is one."""
        return await self._change(Change(name, "", address), progress)

    async def remove(self, name: str, *, progress: Progress = _silently) -> GroupView:
        """The members go on without this one, whose name is never used again."""
        return await self._change(Change("", name), progress)

    async def replace(
        self, name: str, address: str = "", *, progress: Progress = _silently
    ) -> GroupView:
        """Put a new member in the place of one that is lost: p2+1 after p2, at this address or,
        if none is given, at that of p2."""
        newcomer = self._joined().membership.replacement_of(name)
        where = address or self.view.addresses[name]
        return await self._change(Change(newcomer, name, where), progress)

    async def _change(self, change: Change, progress: Progress) -> GroupView:
        self._joined()
        if self._error is not None:
            raise self._error
        return await self._changes.make(change, progress)

    # --- asking how it is

    def status(self) -> Status:
        engine = self._joined()
        membership, peers = engine.membership, self._transport.peers
        members = membership.members
        linked = tuple(one for one in members if one in peers and peers[one].link)
        return Status(
            member=self.name,
            members=members,
            linked=linked,
            broadcast=self._own.accepted,
            own=self._own.last,
            queued=self._own.count - self._own.accepted,
            waiting=self._own.under_way,
            delivered=dict(self._reading.delivered),
            stable=dict(self._stable_upto),
            unread=len(self._reading.unread),
            log_bytes=engine.disk.log.size if engine.disk is not None else 0,
            refusal=engine.refusal,
            stuck=self._stuck,
            awaited=engine.process.awaited(),
            view=membership.view().number,
            wedged_s=self._wedged_for_s(engine),
            missing=tuple(one for one in members if one not in (self.name, *linked)),
        )

    def _wedged_for_s(self, engine: Engine) -> float:
        """How long the group has been about to change, to the second: that is how often we look."""
        if not engine.membership.is_wedged or engine.membership.has_left:
            self._wedged_s = None
            return 0.0
        now_s = self._loop.time()
        self._wedged_s = now_s if self._wedged_s is None else self._wedged_s
        return now_s - self._wedged_s

    # --- what the engine tells

    @property
    def is_full(self) -> bool:
        return self._reading.is_full

    def accepted(self, spans: Sequence[Span]) -> None:
        self._own.accept(spans)

    def delivered(self, spans: Sequence[TextSpan]) -> None:
        for one in spans:
            if one.origin == self.name:
                self._own.deliver(one)
        self._reading.add(spans)

    def replayed(self, replay: Replay) -> None:
        self._reading.replay(replay)

    def approved(self, effect: Approve) -> None:
        self._changes.approved(effect)

    def denied(self, effect: Deny) -> None:
        self._changes.denied(effect)

    def installed(self, number: int, cut: Mapping[str, int], is_first: bool) -> None:
        view = self._joined().membership.view(number)
        self._logger.info("view installed", number=view.number, members=" ".join(view.members))
        if is_first:
            self._reading.begin_at(cut)
            self.needs_state()
        self._changes.installed(view)

    def needs_state(self) -> None:
        """A newcomer: without snapshots, its program begins at the cut, and has all it needs."""
        engine = self._joined()
        if self._snapshot is None:
            engine.post(Processed(engine.membership.delivered_before(self.name) or {}))
        elif self._taking is None:
            self._reading.hold_back()
            self._taking = Taking(self._snapshot, self.config, self._reading, self._transport)
            self._jobs.append(self._tasks.create_task(self._take_state(engine, self._taking)))

    async def _take_state(self, engine: Engine, taking: Taking) -> None:
        try:
            vector = await taking.run()
            # The next life must not be handed what is in the state, so all of it has to be here.
            await self._reading.has_delivered(vector)
            engine.post(Processed(vector))
            self._reading.go_on_after(vector)
        except Exception as error:
            engine.fail(error)
        self._taking = None

    def heard(self, peer: str, words: SnapshotWords) -> None:
        if isinstance(words, SnapshotWish):
            self._giving.wished(peer, words, self._joined().membership.delivered_before(peer))
        elif self._taking is not None:
            self._taking.came(peer, words)

    def link_down(self, peer: str) -> None:
        self._giving.forget(peer)
        if self._taking is not None:
            self._taking.link_down(peer)

    def removed(self, reason: str) -> None:
        """What of our own is not in the cut is void; what is delivered can still be read."""
        membership = self._joined().membership
        view = membership.view(membership.removed_in)
        self._logger.warning("removed", reason=reason)
        self._error = Removed(f"{reason}; what was not delivered of its messages is void")
        self._own.end_with(dict(membership.chain[view.number].cut).get(self.name, 0), self._error)
        self._changes.installed(view)
        self._changes.fail(self._error)

    def stable(self, effect: Stable) -> None:
        self._stable_upto.update(effect.upto)
        if self.name in effect.upto:
            self._own.stabilise_up_to(effect.upto[self.name])

    def newly_processed(self) -> Mapping[str, int] | None:
        return self._reading.newly_processed()

    def failed(self, error: BaseException) -> None:
        if self._error is None or isinstance(self._error, Closed):
            self._error = error
        self._own.fail(self._error)  # what stopped the member, not that the program left later
        if self._engine is not None:
            self._changes.fail(self._error)
        self._reading.end = self._error
        self._reading.tell()


def join(
    name: str,
    group: str | Path | Config = "group.toml",
    *,
    acknowledge: Acknowledge = "next",
    listen: bool = True,
    founding: bool = False,
    address: str = "",
    snapshot: Snapshot | None = None,
    injector: Injecting | None = None,
) -> Group:
    """Take part in a group as this member: ``async with tidings.join("p1") as group``.

    ``acknowledge``: in a durable group a message counts as processed when the next one is asked
    for, or only when ``group.processed`` says so. ``listen=False`` is for programs that only
    broadcast: nothing is handed over, and everything counts as processed. ``founding`` says that
    the group is new, so that nobody can remember an earlier life of this member: it may broadcast
    before it has met everybody. Say so only if it is true. ``address`` is where a newcomer is
    reached that is not in the group file: it waits until a member adds it, and need not say so
    again after a restart, nor at all if it replaces a member of the file at its address.
    ``snapshot`` is how newcomers come by what they have missed. ``injector`` is for tests: it
    loses, repeats and reorders what comes over the links.
    """
    if acknowledge not in get_args(Acknowledge):
        choices = " or ".join(map(repr, get_args(Acknowledge)))
        raise UsageError(f"acknowledge is {choices}, not {acknowledge!r}")
    config = group if isinstance(group, Config) else read_config(Path(group), name)
    if name not in config.members:
        _check_newcomer(name, config)
        config = config.with_newcomer(name, address) if address else config
    elif address:
        raise UsageError(f"{name} is in the group file, which says where it is reached")
    if snapshot is not None:
        snapshot.check()
    return Group(name, config, acknowledge, listen, founding, snapshot, injector)


def _check_newcomer(name: str, config: Config) -> None:
    """It can be added only to a group that can change."""
    config.process(name, _choose)
    if not is_name(name):
        config.check_member(name)


def _choose(label: str, weights: Sequence[int]) -> int:
    return random.choices(range(len(weights)), weights)[0]


def _opened_log(
    config: Config, name: str, kind: type, incarnation: int
) -> tuple[DurableLog | None, Recovered | None]:
    if not config.durable:
        return None, None
    trace = config.trace
    is_founding = name in config.members
    members = config.members if is_founding else ()
    address = "" if is_founding else str(config.addresses.get(name, ""))
    about = (config.name, name, members, config.protocol, trace.on, trace.digest, address)
    return open_log(config.data / name, About(*about), kind, incarnation, config.limits)


def _has_a_view(records: Iterable[object] | None) -> bool:
    """Whether an earlier life was in a group; a newcomer's may have ended before."""
    return any(isinstance(record, Installed) for record in records or ())


def _last_of(name: str, process: Process, log: DurableLog, recovered: Recovered) -> int:
    """The number of the last message that this member has broadcast in its earlier lives.

    What of it was not delivered yet is few, and is looked up in the log.
    """
    last = recovered.delivered.get(name, 0)
    while True:
        found = process.messages_in(log.recall(name, last + 1, NO_LIMIT))
        own = [one.id.seq for one, _ in found if one.id.origin == name and one.id.seq > last]
        if not own:
            return last
        last = max(own)


def _begun_trace(
    config: Config, process: Process, log: DurableLog | None, recovered: Recovered | None, own: int
) -> Tracer:
    """What is on disk already comes first."""
    if recovered is None or log is None:
        return tracing.begin(config, process.me)

    def holds(message: MessageId) -> bool:
        found = process.messages_in(log.recall(message.origin, message.seq, message.seq))
        return any(one.id == message for one, _ in found)

    standing, life = Standing(recovered.delivered, own, holds), log.identity.life
    return tracing.resume(config, process.me, life, recovered.index, recovered.records, standing)
