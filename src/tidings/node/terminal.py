"""A member at a terminal: what is typed is broadcast, what is delivered is printed.

``tidings node`` and ``tidings chat`` are both this; they differ in their ``Face``: how they print,
and what a line may say beside text.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import BinaryIO, Protocol

from tidings.core import Exit, Message, TidingsError, UsageError
from tidings.node.config import Config
from tidings.node.group import Closed, Group, LogFull, Status, join

LOOK_S = 0.2
"""How often a face is told how the member is doing."""
RETRY_S = 0.5
"""How soon a line is tried again that found the log full."""
CHUNK_BYTES = 1 << 16
MOST_CHUNKS = 16


class Face(Protocol):
    """What somebody sees of a member."""

    def joined(self, group: Group) -> None:
        """The member takes part from now on."""

    def show(self, message: Message) -> None:
        """When this returns, the message counts as processed."""

    def obey(self, group: Group, line: bytes) -> bool:
        """Whether the line was a command, and was carried out; EOFError if it was to leave."""

    def look(self, status: Status) -> None:
        """Called several times a second."""

    def tell(self, what: str) -> None:
        """Something that whoever typed should know."""


class Unsaid(TidingsError):  # noqa: N818 - reads as what happened
    """The member has left, and could not broadcast everything that it was given."""

    status = Exit.ENVIRONMENT


class Interrupted(TidingsError):  # noqa: N818 - reads as what happened
    """Told to leave for the second time, the member did not wait."""

    status = Exit.INTERRUPTED


def run(name: str, config: Config, face: Face, *, stay: bool, founding: bool = False) -> None:
    """Take part until told to leave: by a signal, by the face, or by the end of the input.

    With ``stay``, the end of the input only means that nothing more is broadcast. A second signal
    leaves at once.
    """
    # Messages live too short to be worth the collector's while; modules live forever.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    group = join(name, config, founding=founding)
    try:
        asyncio.run(_take_part(group, face, stay))
    except asyncio.CancelledError:
        raise Interrupted("interrupted while leaving" + _unsaid(group)) from None
    if lost := _unsaid(group):
        raise Unsaid(f"{name} has left{lost}")


def _unsaid(group: Group) -> str:
    try:
        status = group.status()
    except Closed:
        return ""  # it was interrupted before it had joined
    if not status.queued:
        return ""
    count = f"{status.queued:,} line{'' if status.queued == 1 else 's'}"
    return f", and never broadcast {count}: {status.refusal}"


async def _take_part(group: Group, face: Face, stay: bool) -> None:
    leave = _signals()
    async with group:
        face.joined(group)
        reading = asyncio.create_task(_read(group, face))
        typing = asyncio.create_task(_type(group, face))
        looking = asyncio.create_task(_look(group, face))
        leaving = asyncio.create_task(leave.wait())
        tasks = (reading, typing, looking, leaving)
        ends = [reading, looking, leaving] if stay else tasks
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        if refusal := group.status().refusal:
            patience_s = group.config.links.close_ms / 1e3
            face.tell(f"leaving, in {patience_s:g} s at the latest: {refusal}")


def _signals() -> asyncio.Event:
    """Set by the first signal to leave; the second one breaks off whatever leaving waits for."""
    loop = asyncio.get_running_loop()
    us = asyncio.current_task()
    assert us is not None, "signals are for somebody who takes part"
    leave = asyncio.Event()

    def told() -> None:
        if leave.is_set():
            us.cancel()
        leave.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    return leave


async def _read(group: Group, face: Face) -> None:
    async for message in group:
        face.show(message)


async def _look(group: Group, face: Face) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        face.look(group.status())


async def _type(group: Group, face: Face) -> None:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        return  # there is no standard input at all
    with suppress(EOFError):
        async for line in lines(stream):
            if not face.obey(group, line):
                await _broadcast(group, line, face)


async def _broadcast(group: Group, line: bytes, face: Face) -> None:
    """One line, whatever it takes; only what can never be broadcast is skipped, and told."""
    told = ""
    while True:
        try:
            await group.broadcast(line)
            return
        except UsageError as error:
            face.tell(f"not broadcast: {error}")
            return
        except LogFull as full:
            if not told:
                face.tell(told := str(full))
            await asyncio.sleep(RETRY_S)


async def lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends, as they come.

    They are read in a thread that nobody has to wait for in the end, and with no lock that Python
    would wait for: a terminal or a pipe may have nothing to say for hours.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
    room = threading.Semaphore(MOST_CHUNKS)

    def put(chunk: list[bytes] | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    def read() -> None:
        rest = b""
        with suppress(RuntimeError):  # the loop is gone, and so is who wanted lines
            while data := os.read(stream.fileno(), CHUNK_BYTES):
                *whole, rest = (rest + data).split(b"\n")
                put(whole)
            put([rest] if rest else [])
            put(None)

    threading.Thread(target=read, daemon=True).start()
    while (chunk := await chunks.get()) is not None:
        room.release()
        for line in chunk:
            yield line
