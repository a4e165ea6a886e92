"""What a program sees of its group.

    async with tidings.join("p1", group="group.toml") as group:
        receipt = await group.broadcast(b"hello")
        await receipt.delivered()   # half of the members hold it: it survives any minority
        await receipt.stable()      # every member holds it
        async for message in group:
            ...

``broadcast`` returns as soon as the text is queued, and waits only while too many of its own
messages are under way. docs/node.md says exactly what a durable member is handed again after a
restart. What happens behind it is the work of ``Member`` (member.py).
"""

from collections.abc import AsyncIterator, Generator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

from tidings.core import Change, Message, MessageId, TextSpan, UsageError, is_name
from tidings.node.changing import Progress
from tidings.node.condition import Status as Status
from tidings.node.config import Config, read_config
from tidings.node.ledger import Receipt
from tidings.node.log import DurableLog
from tidings.node.member import Member
from tidings.node.membership import GroupView
from tidings.node.opening import choose
from tidings.node.snapshot import Snapshot
from tidings.node.transport import Injecting
from tidings.node.unread import Replayed as Replayed

Acknowledge = Literal["next", "explicitly"]
"""When a message counts as processed: when the next one is asked for, or when the program says."""


def _silently(reached: str) -> None:
    pass


class Group:
    """One member's view of its group; made by ``join``."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._text_bytes = member.config.limits.text_bytes
        # A broadcast and a message take no way around: these are called for each of them.
        self._own = member.own
        self._reading = member.reading
        self._open_engine = member.open_engine

    @property
    def name(self) -> str:
        return self._member.name

    @property
    def config(self) -> Config:
        return self._member.config

    # --- joining and leaving

    def __await__(self) -> Generator[Any, None, Self]:
        """``group = await tidings.join("p1")``; whoever joins so has to ``close``."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._member.join()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._member.leave(error)

    async def close(self) -> None:
        """Leave the group, as the end of ``async with`` does; it can be called again, by any task.

        The first time it raises what stopped the member, if something did. All is closed then, too.
        """
        await self._member.leave()

    async def ready(self, timeout: float | None = None) -> None:
        """Return when something broadcast now would be delivered.

        Then this member is in a view, linked to so many members that with it they are half of
        them, has heard what it must hear after a start, its log has room, and the group is not
        about to change. NotReady after so many seconds, if not: it says who is missing.
        """
        await self._member.ready(timeout)

    # --- broadcasting

    async def broadcast(self, text: bytes) -> Receipt:
        """Queue a text for everybody; waits while too many of our own are under way.

        Cancelled, it has not broadcast; returned, it has.
        """
        own = self._own
        while own.is_full and self._member.error is None:
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
        while own.is_full and self._member.error is None:
            await own.wait_for_room()
        engine = self._open_engine()
        engine.texts += batch
        engine.wake()
        return own.add(size, len(batch))

    def _bad_text(self, text: object) -> UsageError:
        if not isinstance(text, bytes):
            return UsageError(f"a text is bytes, not {type(text).__name__}")
        limit = self._text_bytes
        return UsageError(f"a text of {len(text):,} bytes; {limit:,} is the limit (text_bytes)")

    def receipt(self, message: MessageId | str | int) -> Receipt:
        """What becomes of an own message that has a number, of this life or an earlier one.

        A durable member that was killed can ask so for what it had broadcast: ``'p1#7'``, or 7.
        """
        return self._member.receipt(message)

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

    def processed(self, message: Message) -> None:
        """This message, and every one of its origin before it, need not be handed over again."""
        if isinstance(message, Message):
            self._member.check_origin(message.origin)
        self._reading.processed(message)

    async def history(self, first: MessageId | str) -> AsyncIterator[Message]:
        """What a durable member still keeps of one origin: from this message to the last delivered.

        How much is kept of what every member has, ``[retention]`` in the group file says.
        """
        origin, seq = self._member.named(first)
        engine = self._member.joined()
        if engine.disk is None:
            raise UsageError(f"{self.name} keeps no history: the group is not durable")
        last = self._reading.delivered.get(origin, 0)
        while seq <= last:
            if self._member.error is not None:
                raise self._member.error
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

    # --- asking how it is

    def why(self, message: MessageId | str | None = None) -> str:
        """What a message waits for here, in words; or, if none is named, the oldest of our own.

        Empty if none of our own waits for anything.
        """
        return self._member.why(message)

    def status(self) -> Status:
        return self._member.status()

    def reload(self) -> bool:
        """Read the certificates again, after a renewal or a revocation: whether anything is new.

        If they are no good, that is raised, and those that were read before stay.
        """
        self._member.joined()
        return self._member.transport.reload()

    # --- changing the group

    @property
    def view(self) -> GroupView:
        """The members, where they are reached, and how often the group has changed."""
        return self._member.view()

    async def add(self, name: str, address: str, *, progress: Progress = _silently) -> GroupView:
        """Make somebody a member that runs at this address; the view in which it is one."""
        return await self._member.change(Change(name, "", address), progress)

    async def remove(self, name: str, *, progress: Progress = _silently) -> GroupView:
        """The members go on without this one, whose name is never used again."""
        return await self._member.change(Change("", name), progress)

    async def replace(
        self, name: str, address: str = "", *, progress: Progress = _silently
    ) -> GroupView:
        """Put a new member in the place of one that is lost: p2+1 after p2, at this address or,
        if none is given, at that of p2."""
        newcomer = self._member.joined().membership.replacement_of(name)
        where = address or self.view.addresses[name]
        return await self._member.change(Change(newcomer, name, where), progress)


def join(
    name: str,
    group: str | Path | Config = "group.toml",
    *,
    acknowledge: Acknowledge = "next",
    listen: bool = True,
    founding: bool = False,
    address: str = "",
    metrics: str | int = "",
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
    ``metrics`` is where this member tells how it is, a port on loopback or an address there, in
    place of what the group file says.
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
    elif address and address != (known := str(config.addresses[name])):
        raise UsageError(f"{name} is reached at {known}, the group file says, not at {address}")
    if metrics:
        config = config.with_metrics(name, str(metrics))
    if snapshot is not None:
        snapshot.check()
        if not listen:
            raise UsageError("a program with listen=False has no state: it needs no snapshot")
    return Group(
        Member(
            name,
            config,
            acknowledges_next=acknowledge == "next",
            listens=listen,
            founding=founding,
            snapshot=snapshot,
            injector=injector,
        )
    )


def _check_newcomer(name: str, config: Config) -> None:
    """It can be added only to a group that can change."""
    config.process(name, choose)
    if not is_name(name):
        config.check_member(name)
