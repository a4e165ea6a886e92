"""One member that takes part in phases: the same program for every system with a Python client.

A system is a ``Port``: how to broadcast, and what calls ``Member.deliver`` with each text. All of
this is to take as little time as it can: it is not what is measured.
"""

import asyncio
import gc
import sys
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from time import monotonic_ns
from typing import Any, Protocol

from load.phases import NO_STAMPS, Phase
from load.texts import FIRST, Deliveries, text_of


class Port(Protocol):
    broadcast: Callable[[bytes], Coroutine[Any, Any, Any]]
    """Queue it; what it returns is its receipt."""

    def answered(self, receipt: Any) -> Awaitable[Any]:
        """Until the system answers for it."""
        ...

    def commits(self) -> int:
        """How often this member has waited for a disk of its own."""
        ...


class Member:
    def __init__(self, place: int, members: int) -> None:
        self.place = place
        self.deliveries = Deliveries(members)
        self._members = members
        self._letter = FIRST + place
        self._sent = self._back = 0
        """How many this member has broadcast, and how many of these it has back."""
        self._sent_ns: list[int] = []
        self._goal = -1
        """How many deliveries there will be, once that is known."""
        self._waiter: asyncio.Future[None] | None = None
        """For room in the window, and in the end for the last delivery."""

    def deliver(self, text: bytes) -> None:
        self.deliveries.add(text)
        is_own = text[0] == self._letter
        if is_own:
            self._back += 1
        if self._waiter is not None and (
            is_own if self._goal < 0 else self.deliveries.count == self._goal
        ):
            self._waiter.set_result(None)
            self._waiter = None

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _next_text(self) -> bytes:
        self._sent += 1
        return text_of(self.place, self._sent, self.deliveries.size)

    async def take_part(self, port: Port) -> None:
        """Answer the crew until it asks for nothing more."""
        say("ready")
        while (line := await hear()) != "":
            phase = Phase.of(line)
            self._prepare(phase)
            say("set")
            if await hear() != "go":
                return
            begin_ns, before = monotonic_ns(), self._sent
            await self._send(port, phase, begin_ns)
            say(f"sent {self._sent - before}")
            self._goal = int(await hear())
            if self.deliveries.count < self._goal:
                await self._wait()
            say(f"done {begin_ns} {self.deliveries.at_ns} {port.commits()}")
            if await hear() != "check":
                return
            self.deliveries.check()
            self._keep_stamps(phase)
            say("right")

    def _prepare(self, phase: Phase) -> None:
        self.deliveries.size = phase.size
        keeps = phase.stamps != NO_STAMPS
        self.deliveries.stamps = [[] for _ in range(self._members)] if keeps else None
        self._sent_ns = []
        self._goal = -1
        gc.collect()
        gc.freeze()

    async def _send(self, port: Port, phase: Phase, begin_ns: int) -> None:
        until_ns = begin_ns + int(phase.seconds * 1e9)
        last = self._sent + phase.most
        if phase.kind == "window":
            await self._fill_the_window(port, phase.window, until_ns, last)
        elif phase.kind == "paced":
            await self._keep_the_pace(port, phase.per_s, begin_ns, until_ns)
        elif self.place == 1:
            await self._await_each(port, until_ns, last)

    async def _fill_the_window(self, port: Port, window: int, until_ns: int, last: int) -> None:
        many = getattr(port, "broadcast_many", None)
        while self._sent < last and monotonic_ns() < until_ns:
            room = window - self._sent + self._back
            if room <= 0:
                await self._wait()
            elif many is None:
                await port.broadcast(self._next_text())
            else:
                await many([self._next_text() for _ in range(min(room, last - self._sent))])

    async def _keep_the_pace(self, port: Port, per_s: float, begin_ns: int, until_ns: int) -> None:
        """Members take turns: each begins its own share of the gap later than the one before.

        A system that cannot follow gets the same broadcasts, only later: the rate shows it.
        """
        gap_ns = 1e9 / per_s
        due_ns = begin_ns + gap_ns * self.place / self._members
        receipts = Receipts(port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(receipts.await_all())
            while due_ns < until_ns:
                while due_ns > (now_ns := monotonic_ns()):
                    await asyncio.sleep((due_ns - now_ns) / 1e9)
                self._sent_ns.append(now_ns)
                receipts.add(await port.broadcast(self._next_text()))
                due_ns += gap_ns
            receipts.end()

    async def _await_each(self, port: Port, until_ns: int, last: int) -> None:
        while self._sent < last and (now_ns := monotonic_ns()) < until_ns:
            self._sent_ns.append(now_ns)
            await port.answered(await port.broadcast(self._next_text()))

    def _keep_stamps(self, phase: Phase) -> None:
        if self.deliveries.stamps is None:
            return
        mine = Path(phase.stamps) / chr(FIRST + self.place)
        mine.with_suffix(".sent").write_bytes(array("q", self._sent_ns))
        for place, times_ns in enumerate(self.deliveries.stamps):
            mine.with_suffix(f".{chr(FIRST + place)}").write_bytes(array("q", times_ns))


class Receipts:
    """Every receipt is awaited, one after the other, by a task of its own."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._waiting: list[Any] = []
        self._news = asyncio.Event()
        self._is_over = False

    def add(self, receipt: Any) -> None:
        self._waiting.append(receipt)
        if not self._news.is_set():
            self._news.set()

    def end(self) -> None:
        """There will be no more."""
        self._is_over = True
        self._news.set()

    async def await_all(self) -> None:
        answered = self._port.answered
        while self._waiting or not self._is_over:
            await self._news.wait()
            self._news.clear()
            waiting, self._waiting = self._waiting, []
            for receipt in waiting:
                await answered(receipt)


def run(work: Coroutine[Any, Any, None], loop: str = "uvloop") -> None:
    """On the loop that is fastest, unless it is the other one that is asked for."""
    if loop == "uvloop":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


def say(words: str) -> None:
    print(words, flush=True)


async def hear() -> str:
    """The next line; nothing when the crew is gone."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return line.strip()
