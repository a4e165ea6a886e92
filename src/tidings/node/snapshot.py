"""What a newcomer's program has to know of the time before it: a snapshot of another's state.

A newcomer is handed messages from the cut of its first view on. What all before them led to, the
program of another member can tell: it makes a snapshot at a moment when it has processed everything
up to that cut, and perhaps more. A vector says how much.

The newcomer asks one member at a time, and gets the snapshot in pieces over the link of the two, as
many at once as it has asked for: neither side keeps more of it in memory. Until its program has
taken all of it, and the member has delivered all that is in it, nothing is handed over; then what
is in the snapshot is left out. Whatever goes wrong on the way, it begins afresh, with somebody else
if there is one. A member that dies half-way through loses nothing of anybody else's.
"""

import asyncio
import random
import secrets
from asyncio import TaskGroup, timeout
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from hashlib import blake2b
from inspect import isasyncgenfunction
from typing import NamedTuple

from tidings.core import TidingsError, UsageError
from tidings.node.config import Config
from tidings.node.logs import get_logger
from tidings.node.reading import Reading
from tidings.node.transport import Transport
from tidings.node.wire import (
    SnapshotDenied,
    SnapshotEnd,
    SnapshotPiece,
    SnapshotWish,
    SnapshotWords,
)

Pieces = Iterable[bytes] | AsyncIterable[bytes]
PIECES_AHEAD = 4
"""How many pieces a newcomer asks for before it has taken the first of them."""
RETRY_S = 0.5
"""How long until everybody is asked again, when nobody had a snapshot to give."""


class Snapshot(NamedTuple):
    """How a program hands its state to a newcomer, and how it takes that of another.

    ``make`` is called between two messages, when the program asks for the next one. It returns the
    state as it is at that moment, in pieces of any length; they are fetched while the program reads
    on. ``take`` gets them, and returns when the state is safe: it replaces whatever was there. If
    the pieces end with an error, it must not count, and is called again.
    """

    make: Callable[[], Pieces]
    take: Callable[[AsyncIterator[bytes]], Awaitable[None]]

    def check(self) -> None:
        if isasyncgenfunction(self.make):
            raise UsageError(
                "make must return its pieces; an async generator would begin when the program has "
                "read on: copy the state first, then return a generator over the copy"
            )


class SnapshotBroken(TidingsError):  # noqa: N818 - reads as what happened
    """The pieces have ended before their end; the snapshot will come again, from its start."""


class Giving:
    """What this member gives to newcomers."""

    def __init__(
        self,
        snapshot: Snapshot | None,
        config: Config,
        reading: Reading,
        transport: Transport,
        tasks: TaskGroup,
    ) -> None:
        self._snapshot = snapshot
        self._limits = config.limits
        self._reading = reading
        self._transport = transport
        self._tasks = tasks
        self._logger = get_logger(member=reading.name)
        self._given: dict[str, _Gift] = {}
        """To whom, and how far; the last one of each newcomer, until its link is down."""

    def wished(self, peer: str, wish: SnapshotWish, cut: Mapping[str, int] | None) -> None:
        """A newcomer asks for pieces up to a number, or for none any more; ``cut`` is where it
        began, if it is one."""
        gift = self._given.get(peer)
        if gift is not None and gift.serial == wish.serial:
            if wish.upto:
                gift.allow(wish.upto)
            else:
                self.forget(peer)
            return
        if not wish.upto:
            return
        self.forget(peer)
        if self._snapshot is None or cut is None:
            self._say(peer, SnapshotDenied(wish.serial, "it makes no snapshots"))
        elif sum(not one.is_over for one in self._given.values()) >= self._limits.snapshots:
            self._say(peer, SnapshotDenied(wish.serial, "it makes snapshots for others"))
        else:
            gift = _Gift(wish.serial, wish.upto)
            self._given[peer] = gift
            gift.task = self._tasks.create_task(self._give(peer, gift, self._snapshot, cut))

    def forget(self, peer: str) -> None:
        """It has no link any more, or wants another one."""
        gift = self._given.pop(peer, None)
        if gift is not None and gift.task is not None:
            gift.task.cancel()

    def close(self) -> None:
        for peer in list(self._given):
            self.forget(peer)

    async def _give(
        self, peer: str, gift: "_Gift", snapshot: Snapshot, cut: Mapping[str, int]
    ) -> None:
        try:
            pieces, vector = await self._reading.at(cut, snapshot.make)
            whole, count = blake2b(digest_size=16), 0
            async for piece in _cut(pieces, self._limits.snapshot_piece_bytes):
                whole.update(piece)
                count += 1
                await gift.is_allowed(count)
                self._say(peer, SnapshotPiece(gift.serial, count, piece))
            await gift.is_allowed(count + 1)
            self._say(peer, SnapshotEnd(gift.serial, count, whole.digest(), dict(vector)))
        except Exception as fault:
            reason = f"{type(fault).__name__}: {fault}"
            self._logger.warning("no snapshot made", peer=peer, reason=reason)
            self._say(peer, SnapshotDenied(gift.serial, "its program could not make a snapshot"))
        gift.is_over = True

    def _say(self, peer: str, words: SnapshotWords) -> None:
        self._transport.say(peer, words)


class _Gift:
    def __init__(self, serial: int, upto: int) -> None:
        self.serial = serial
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._upto = upto
        self._more = asyncio.Event()

    def allow(self, upto: int) -> None:
        self._upto = max(self._upto, upto)
        self._more.set()

    async def is_allowed(self, count: int) -> None:
        while count > self._upto:
            self._more.clear()
            await self._more.wait()


async def _cut(pieces: Pieces, most: int) -> AsyncIterator[bytes]:
    """The same in pieces that fit into a frame."""
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            for begin in range(0, len(piece), most):
                yield bytes(piece[begin : begin + most])
        return
    for piece in pieces:
        for begin in range(0, len(piece), most):
            yield bytes(piece[begin : begin + most])
        await asyncio.sleep(0)


class Taking:
    """How a newcomer comes by its state."""

    def __init__(
        self, snapshot: Snapshot, config: Config, reading: Reading, transport: Transport
    ) -> None:
        self._take = snapshot.take
        self._wait_s = config.limits.snapshot_wait_ms / 1e3
        self._reading = reading
        self._transport = transport
        self._logger = get_logger(member=reading.name)
        self._source = ""
        self._serial = 0
        self._came: asyncio.Queue[SnapshotWords] = asyncio.Queue()
        self._reason = ""

    async def run(self) -> Mapping[str, int]:
        """Take a snapshot, from whoever has one; the vector of what is in it."""
        while True:
            sources = self._transport.hearing()
            random.shuffle(sources)
            for peer in sources:
                self._source, self._serial = peer, secrets.randbits(62)
                self._came = asyncio.Queue()
                vector = await self._from(peer)
                if vector is not None:
                    return vector
                if self._reason:
                    self._logger.warning("no snapshot taken", peer=peer, reason=self._reason)
            await asyncio.sleep(RETRY_S)

    async def _from(self, peer: str) -> Mapping[str, int] | None:
        end: list[SnapshotEnd] = []
        pieces = self._pieces(peer, end)
        self._reason = ""
        try:
            first = await anext(pieces, None)
            if not self._reason:
                await self._take(_again(first, pieces))
        except SnapshotBroken as broken:
            self._reason = str(broken)
        except Exception:
            if not self._reason:
                raise  # it is the program's
        finally:
            await pieces.aclose()
        if self._reason:
            # Otherwise it would keep what it has made for us as long as there is a link.
            self._transport.say(peer, SnapshotWish(self._serial, 0))
            return None
        if not end:
            raise UsageError("take has returned before it had all pieces of the snapshot")
        self._logger.info("snapshot taken", peer=peer, pieces=end[0].pieces)
        return end[0].vector

    async def _pieces(self, peer: str, end: list[SnapshotEnd]) -> AsyncGenerator[bytes, None]:
        whole, count = blake2b(digest_size=16), 0
        while True:
            self._transport.say(peer, SnapshotWish(self._serial, count + PIECES_AHEAD))
            words = await self._next()
            match words:
                case SnapshotPiece(_, number, piece):
                    if number != count + 1:
                        raise self._broken(f"piece {number} where piece {count + 1} comes next")
                    count += 1
                    whole.update(piece)
                    yield piece
                case SnapshotEnd(_, pieces, digest, _):
                    if pieces != count or digest != whole.digest():
                        raise self._broken("it is not as it was made")
                    end.append(words)
                    return
                case SnapshotDenied(_, reason):
                    raise self._broken(reason)

    async def _next(self) -> SnapshotWords:
        try:
            async with timeout(self._wait_s):
                return await self._came.get()
        except TimeoutError:
            raise self._broken(f"nothing has come for {self._wait_s:g} s") from None

    def _broken(self, reason: str) -> SnapshotBroken:
        self._reason = reason
        return SnapshotBroken(f"the snapshot of {self._source} is broken: {reason}")

    def came(self, peer: str, words: SnapshotWords) -> None:
        is_ours = peer == self._source and words.serial == self._serial
        if is_ours and self._came.qsize() <= PIECES_AHEAD:
            self._came.put_nowait(words)

    def link_down(self, peer: str) -> None:
        if peer == self._source:
            self._came.put_nowait(SnapshotDenied(self._serial, "its link is down"))


async def _again(first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first is not None:
        yield first
        async for piece in rest:
            yield piece
