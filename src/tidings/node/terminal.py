"""A member at a terminal: what is typed is broadcast, what is delivered is printed.

``tidings node`` and ``tidings chat`` are both this; they differ in their ``Face``: how they print,
and what a line may say beside text.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

from tidings.core import Exit, Interrupted, Message, TidingsError, UsageError
from tidings.disk.files import OUTPUT, named
from tidings.node import running
from tidings.node.config import NO_LIMIT, Config
from tidings.node.errors import Closed, LogFull
from tidings.node.group import Group, Status, join

LOOK_S = 0.2
"""How often a face learns how the member is doing."""
RETRY_S = 0.5
"""How soon a line is tried again that found the log full."""
CHUNK_BYTES = 1 << 16
MOST_CHUNKS = 16
MOST_UNWRITTEN = 1 << 20
"""How many characters may wait to be written; beyond, no more messages are asked for."""


class Face(Protocol):
    """What somebody sees of a member."""

    def joined(self, group: Group) -> None:
        """The member takes part from now on."""

    def show(self, message: Message) -> str:
        """The line that is printed for it; once it is, the message counts as processed."""

    def obey(self, group: Group, line: bytes) -> bool:
        """Whether the line was a command, and was carried out; EOFError if it was to leave."""

    def look(self, status: Status) -> None:
        """Called several times a second."""

    def tell(self, what: str) -> None:
        """Something that whoever typed should know."""


class Unsaid(TidingsError):  # noqa: N818 - reads as what happened
    """The member has left, and could not broadcast everything that it was given."""

    status = Exit.ENVIRONMENT


class Output:
    """Standard output, written by a thread.

    Who does not read it holds up the messages on their way to it, and nothing else: neither what
    the member owes to the others, nor its leaving.
    """

    def __init__(self) -> None:
        self._lines: list[tuple[str, Message | None]] = []
        self._unwritten = 0
        self._news = asyncio.Event()
        self._moved = asyncio.Event()

    def say(self, line: str, message: Message | None = None) -> None:
        """Print this as soon as possible; it may show a message."""
        self._lines.append((line + "\n", message))
        self._unwritten += len(line) + 1
        self._news.set()

    async def wait(self, most: int = 0) -> None:
        """Return when no more than this is still to be written, or nothing will be any more."""
        while self._unwritten > most:
            self._moved.clear()
            await self._moved.wait()

    async def run(self, shown: Callable[[Message], None]) -> None:
        """Write until cancelled, and tell of each message that its line is out."""
        work, done = SimpleQueue[bytes](), asyncio.Queue[OSError | None]()
        # Nobody has to wait for it in the end: a pipe may take nothing for hours.
        about = (work, done, asyncio.get_running_loop())
        threading.Thread(target=_write, args=about, daemon=True).start()
        try:
            while await self._news.wait():
                self._news.clear()
                batch, self._lines = self._lines, []
                text = "".join([line for line, _ in batch])
                work.put(text.encode(sys.stdout.encoding, "replace"))
                if fault := await done.get():
                    raise fault
                for message in [message for _, message in batch if message is not None]:
                    shown(message)
                self._unwritten -= len(text)
                self._moved.set()
        except BrokenPipeError:
            raise BrokenPipeError from None  # one with a number Typer would make a status 1 of
        finally:
            self._unwritten = 0
            self._moved.set()


def _write(
    work: SimpleQueue[bytes],
    done: asyncio.Queue[OSError | None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Without the lock of ``sys.stdout``, which Python would wait for in the end."""
    with suppress(RuntimeError):  # the loop is gone, and so is who wanted to print
        while True:
            data = work.get()
            fault: OSError | None = None
            try:
                with named(OUTPUT):
                    while data:
                        data = data[os.write(sys.stdout.fileno(), data) :]
            except OSError as error:
                fault = error
            loop.call_soon_threadsafe(done.put_nowait, fault)


def run(
    name: str,
    config: Config,
    face: Face,
    output: Output,
    *,
    stay: bool,
    founding: bool = False,
    address: str = "",
    metrics: str = "",
) -> None:
    """Take part until told to leave: by a signal, by the face, or by the end of the input.

    With ``stay``, the end of the input only means that nothing more is broadcast. A second signal
    leaves at once.
    """
    if getattr(sys, "stdout", None) is None:
        raise UsageError("there is no standard output; who needs none writes > /dev/null")
    options: dict[str, Any] = {"founding": founding, "address": address, "metrics": metrics}
    group = join(name, config, acknowledge="explicitly", **options)
    try:
        running.run(_take_part(group, face, output, stay))
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


async def _take_part(group: Group, face: Face, output: Output, stay: bool) -> None:
    leaving = asyncio.create_task(_signals().wait())
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if group.config.certificates is not None and not has_terminal:
        # Of somebody's terminal it says that this is gone, and ends us as it ends everybody.
        hang_up = partial(_reload, group, face)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
    writing = asyncio.create_task(output.run(group.processed))
    try:
        async with group:
            face.joined(group)
            await _go_on(group, face, output, stay, until=(leaving, writing))
            patience_s = group.config.links.close_ms / 1e3
            if refusal := group.status().refusal:
                face.tell(f"leaving, in {patience_s:g} s at the latest: {refusal}")
            await _see_it_written(output, patience_s)
            if writing.done():
                writing.result()
    finally:
        leaving.cancel()
        writing.cancel()


async def _go_on(
    group: Group, face: Face, output: Output, stay: bool, until: tuple[asyncio.Task[Any], ...]
) -> None:
    """Read, type and look, until one of these is done or one of us cannot go on."""
    jobs = (_read(group, face, output), _type(group, face), _look(group, face))
    tasks = reading, _, looking = [asyncio.create_task(job) for job in jobs]
    ends = [reading, looking] if stay else tasks
    await asyncio.wait([*ends, *until], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in (*tasks, *until):
        if task.done() and not task.cancelled():
            task.result()


async def _see_it_written(output: Output, patience_s: float) -> None:
    """What was read is processed if it is, and comes again in the next life if not."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await output.wait()
    except asyncio.CancelledError:
        us = asyncio.current_task()
        assert us is not None, "somebody who takes part"
        us.cancel()  # leaving waits for nothing either
        raise


def _signals() -> asyncio.Event:
    """Set by the first signal to leave; the second one breaks off whatever leaving waits for.

    Who started us with Ctrl-C ignored, as a script does with what runs in its background, means it
    to be ignored; SIGTERM is meant for us alone.
    """
    loop = asyncio.get_running_loop()
    us = asyncio.current_task()
    assert us is not None, "signals are for somebody who takes part"
    leave = asyncio.Event()

    def leave_or_cancel() -> None:
        if leave.is_set():
            us.cancel()
        leave.set()

    loop.add_signal_handler(signal.SIGTERM, leave_or_cancel)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, leave_or_cancel)
    return leave


def _reload(group: Group, face: Face) -> None:
    """Read the certificates again; if they are no good, those that we have stay."""
    try:
        group.reload()
    except TidingsError as fault:
        face.tell(f"certificates not reloaded: {fault}")


async def _read(group: Group, face: Face, output: Output) -> None:
    async for message in group:
        await output.wait(MOST_UNWRITTEN)
        output.say(face.show(message), message)


async def _look(group: Group, face: Face) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        face.look(group.status())


async def _type(group: Group, face: Face) -> None:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        return  # there is no standard input at all
    longest = group.config.limits.text_bytes
    with suppress(EOFError):
        async for line in lines(stream, longest):
            if len(line) > longest:
                face.tell(f"not broadcast: a line of more than {longest:,} bytes (text_bytes)")
            elif not face.obey(group, line):
                await _broadcast(group, line, face)


async def _broadcast(group: Group, line: bytes, face: Face) -> None:
    """One line, whatever it takes."""
    complaint = ""
    while True:
        try:
            await group.broadcast(line)
            return
        except LogFull as full:
            if not complaint:
                face.tell(complaint := str(full))
            await asyncio.sleep(RETRY_S)


async def lines(stream: BinaryIO, longest: int = NO_LIMIT) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends, as they come; too long ones may be cut, but are
    too long still.

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
                rest = rest[: longest + 1]
                put(whole)
            put([rest] if rest else [])
            put(None)

    threading.Thread(target=read, daemon=True).start()
    while (chunk := await chunks.get()) is not None:
        room.release()
        for line in chunk:
            yield line
