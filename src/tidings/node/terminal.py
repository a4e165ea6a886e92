"""A member at a terminal: what is typed is broadcast, what is delivered is printed.

``tidings node`` and ``tidings chat`` are both this; they differ in how they print, and in what a
line may say beside text.
"""

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from tidings.core import Message
from tidings.node.group import Group, join

Show = Callable[[Message], None]
Obey = Callable[[Group, str], bool]
"""``obey(group, line)``: whether the line was a command, and was carried out."""

LEAVE = "/quit"


def run(name: str, path: str, show: Show, obey: Obey, *, stay: bool) -> None:
    """Take part until told to leave: by a signal, by /quit, or by the end of the input.

    With ``stay``, the end of the input only means that nothing more is broadcast.
    """
    # Messages live too short to be worth the collector's while; modules live forever.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    asyncio.run(_take_part(name, path, show, obey, stay))


async def _take_part(name: str, path: str, show: Show, obey: Obey, stay: bool) -> None:
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave.set)
    async with join(name, path) as group:
        reading = asyncio.create_task(_read(group, show))
        typing = asyncio.create_task(_type(group, obey))
        leaving = asyncio.create_task(leave.wait())
        ends = [reading, leaving] if stay else [reading, leaving, typing]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (reading, typing, leaving):
            task.cancel()
        await asyncio.wait((reading, typing, leaving))
        for task in (reading, typing):
            if not task.cancelled():
                task.result()


async def _read(group: Group, show: Show) -> None:
    async for message in group:
        show(message)


async def _type(group: Group, obey: Obey) -> None:
    async for line in Lines(sys.stdin):
        if line == LEAVE:
            return
        if not obey(group, line):
            await group.broadcast(line.encode())


class Lines:
    """The lines of a stream, read in a thread that nobody has to wait for in the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1_000)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            if not self._put(line.rstrip("\n")):
                return
        self._put(None)

    def _put(self, line: str | None) -> bool:
        try:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
        except RuntimeError:
            return False  # the loop is gone
        return True

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line
