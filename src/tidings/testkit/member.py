"""One member as a program that another program drives.

    python -m tidings.testkit.member p1 group.toml

Commands come on standard input, reports go to standard output, a line of JSON each. Reports say
what is new since the last one, and are gathered for a moment: what a member is handed at full
speed is a few ranges of numbers, not a line for each message. At the end of its input the member
leaves. fleet.py is the other side.
"""

import argparse
import asyncio
import math
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import Any

import msgspec

from tidings.core import Message, TidingsError, UsageError
from tidings.node import running
from tidings.node.errors import ChangeDenied, LogFull, Removed
from tidings.node.group import Group, Replayed, join
from tidings.node.ledger import Receipt
from tidings.node.logs import configure
from tidings.node.wire import Came
from tidings.testkit.injector import Injector

WATCH_S = 0.05
"""How often to look for what nobody tells: links, refusals, what the injector has done."""
STOPPED_S = 0.25
"""Who wakes up so much too late was stopped, and does not make up for it."""
YIELD_AFTER = 64
"""So many broadcasts in a row, then everybody else has a turn."""

LINE_BYTES = 1 << 24
"""The longest command."""

FirstAndLast = tuple[int, int]
"""First and last, both included."""


# --- commands


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Broadcast this text so many times, as fast as possible."""

    times: int
    text: str


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """Offer texts at a steady rate, each with a number after the given words, so long that it has
    so many bytes; until there are ``count`` of them, or Hush comes."""

    per_s: float
    text: str
    bytes: int
    count: int | None = None


class Hush(msgspec.Struct, frozen=True, tag="hush"):
    """Publish no more."""


class HealInjector(msgspec.Struct, frozen=True, tag="heal"):
    """The injector lets everything pass."""


class Rest(msgspec.Struct, frozen=True, tag="rest"):
    """Read nothing more in this life; take part all the same."""


class Alter(msgspec.Struct, frozen=True, tag="alter"):
    """Ask the group to add one, remove one, or put one in the place of another."""

    add: str = ""
    address: str = ""
    remove: str = ""


Command = Say | Publish | Hush | HealInjector | Rest | Alter


# --- reports


class Report(msgspec.Struct, omit_defaults=True):
    """How the member is doing, and what has happened since the last report."""

    joined: bool = False
    linked: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    """Who may still say something that it has to know before it broadcasts."""
    offered: int = 0
    """How many texts ``broadcast`` has taken in this life."""
    accepted: int = 0
    """How many of these the process has taken; they stand in the trace, and have been sent."""
    assured: int = 0
    """Of how many the receipt has said delivered."""
    busy: int = 0
    """How many commands are being carried out."""
    delivered: dict[str, int] = {}
    """Of each origin the last message delivered; in a durable group, in all lives."""
    log_bytes: int = 0
    refusal: str = ""
    full: int = 0
    """How often a broadcast had to wait because the log was full."""
    injected: dict[str, int] = {}
    """How many packets have met each fate."""
    obeyed: int = 0
    """How many commands have been understood."""
    view: int = 0
    members: tuple[str, ...] = ()
    """Of the view that is installed."""
    wedged_s: float = 0.0
    altered: int = 0
    """How many changes of the group that it was told to ask for have come to pass."""
    denied: list[str] = []
    """Why the others have not."""
    void: int = 0
    """Of how many own messages the receipts said that they are void."""
    removed: bool = False
    """Whether the others have removed it from the group, and it has ended by that."""
    error: str = ""
    """Why the member ends, if it ends so."""

    sent: list[FirstAndLast] = []
    """News: own messages whose receipts said delivered."""
    got: dict[str, list[FirstAndLast]] = {}
    """News: what was handed over, by origin."""
    again: dict[str, list[FirstAndLast]] = {}
    """News: what was handed over again, after a restart."""
    latencies: dict[int, int] = {}
    """News: how many of ``sent`` took how long, by bucket."""


# --- how long it takes, in buckets that grow by 5 %

_GROWTH = math.log(1.05)


def bucket(seconds: float) -> int:
    return math.floor(math.log(max(seconds, 1e-6)) / _GROWTH)


def bucket_s(number: int) -> float:
    """The longest time that falls into this bucket."""
    return math.exp((number + 1) * _GROWTH)


# --- the member


class _Notes:
    """Numbers that come almost in order, as ranges."""

    def __init__(self) -> None:
        self.ranges: dict[str, list[list[int]]] = {}

    def add(self, origin: str, seq: int) -> None:
        ranges = self.ranges.setdefault(origin, [[seq, seq - 1]])
        if seq == ranges[-1][1] + 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])

    def take(self) -> dict[str, list[FirstAndLast]]:
        noted, self.ranges = self.ranges, {}
        return {
            origin: [(first, last) for first, last in ranges] for origin, ranges in noted.items()
        }


class MemberProgram:
    def __init__(self, group: Group, injector: Injector[Came] | None, report_s: float) -> None:
        self.group = group
        self.injector = injector
        self.report_s = report_s
        self.loop = asyncio.get_running_loop()
        self.state = Report(joined=True)
        """What is counted here; the rest is asked for when there is a report."""
        self.reading = asyncio.Event()
        self.reading.set()
        self.notes = {kind: _Notes() for kind in ("sent", "got", "again")}
        self.unreported: dict[str, Message] = {}
        """Of each origin the last message that was handed over since the last report."""
        self.latencies: dict[int, int] = {}
        self.receipts: asyncio.Queue[tuple[float, Receipt]] = asyncio.Queue()
        self.talking: dict[asyncio.Task[None], Command] = {}
        self.fault: asyncio.Future[None] = self.loop.create_future()
        """Why a command could not be carried out."""
        self.changed = asyncio.Event()
        self.last = Report()

    async def take_part(self) -> None:
        """Obey until the input ends, or something fails."""
        tasks = [
            asyncio.create_task(one)
            for one in (self._obey(), self._read(), self._wait_for_receipts(), self._tell_on())
        ]
        try:
            done, _ = await asyncio.wait((self.fault, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in (self.fault, *tasks, *self.talking):
                one.cancel()
            await asyncio.wait((*tasks, *self.talking))

    # --- obeying

    async def _obey(self) -> None:
        commands = asyncio.StreamReader(limit=LINE_BYTES)
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        decode = msgspec.json.Decoder(Command).decode
        async for line in commands:
            match decode(line):
                case Say() as wanted:
                    self._talk(wanted, self._say(wanted))
                case Publish() as wanted:
                    self._talk(wanted, self._publish(wanted))
                case Hush():
                    for task, command in self.talking.items():
                        if isinstance(command, Publish):
                            task.cancel()
                case HealInjector() if self.injector is not None:
                    self.injector.heal()
                case Rest():
                    self.reading.clear()
                case Alter() as wanted:
                    self._talk(wanted, self._alter(wanted))
            self.state.obeyed += 1
            self.changed.set()

    def _talk(self, command: Command, talk: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_until_removed(talk))
        self.talking[task] = command
        task.add_done_callback(self._has_talked)

    def _has_talked(self, task: asyncio.Task[None]) -> None:
        del self.talking[task]
        self.changed.set()
        if not task.cancelled() and (fault := task.exception()) and not self.fault.done():
            self.fault.set_exception(fault)

    async def _say(self, wanted: Say) -> None:
        for number in range(wanted.times):
            await self._offer(wanted.text.encode(), self.loop.time())
            if number % YIELD_AFTER == 0:
                await asyncio.sleep(0)

    async def _publish(self, wanted: Publish) -> None:
        begin_s = self.loop.time()
        for number in islice(count(1), wanted.count):
            due_s = begin_s + number / wanted.per_s
            if due_s > self.loop.time():
                await asyncio.sleep(due_s - self.loop.time())
                late_s = self.loop.time() - due_s
                if late_s > STOPPED_S:
                    begin_s, due_s = begin_s + late_s, due_s + late_s
            elif number % YIELD_AFTER == 0:
                await asyncio.sleep(0)
            await self._offer(f"{wanted.text} {number} ".ljust(wanted.bytes, ".").encode(), due_s)

    async def _alter(self, wanted: Alter) -> None:
        group, add, remove = self.group, wanted.add, wanted.remove
        try:
            if add and remove:
                await group.replace(remove, wanted.address)
            elif add:
                await group.add(add, wanted.address)
            else:
                await group.remove(remove)
            self.state.altered += 1
        except (ChangeDenied, Removed, UsageError) as error:
            # Whoever asks twice may be too late with the second: it is so already.
            self.state.denied = [*self.state.denied, str(error)]

    async def _offer(self, text: bytes, due_s: float) -> None:
        receipt = await self._broadcast(text)
        self.state.offered += 1
        self.receipts.put_nowait((due_s, receipt))
        self.changed.set()

    async def _broadcast(self, text: bytes) -> Receipt:
        """When the log is full, the text waits until it is not."""
        while True:
            try:
                return await self.group.broadcast(text)
            except LogFull:
                self.state.full += 1
                await asyncio.sleep(WATCH_S)

    # --- noting

    async def _read(self) -> None:
        async for message in self.group:
            self.notes["again" if isinstance(message, Replayed) else "got"].add(*message.id)
            self.unreported[message.id.origin] = message
            self.changed.set()
            await self.reading.wait()

    async def _wait_for_receipts(self) -> None:
        while True:
            due_s, receipt = await self.receipts.get()
            try:
                self.notes["sent"].add(*await receipt.delivered())
            except Removed:
                self.state.void += 1
                continue
            self.state.assured += 1
            number = bucket(self.loop.time() - due_s)
            self.latencies[number] = self.latencies.get(number, 0) + 1
            self.changed.set()

    # --- telling

    async def _tell_on(self) -> None:
        while True:
            self.tell()
            await asyncio.sleep(self.report_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self.changed.wait()

    def tell(self) -> None:
        """Say what is new, if anything is; what is reported is processed, and not before."""
        self.changed.clear()
        status = self.group.status()
        fates = self.injector.counts if self.injector is not None else {}
        state = msgspec.structs.replace(
            self.state,
            linked=status.linked,
            awaited=status.awaited,
            accepted=status.broadcast,
            busy=len(self.talking),
            delivered=status.delivered,
            log_bytes=status.log_bytes,
            refusal=status.refusal,
            view=status.view,
            members=status.members,
            wedged_s=status.wedged_s,
            injected={fate.value: count for fate, count in fates.items() if count},
        )
        news = {kind: notes.take() for kind, notes in self.notes.items()}
        latencies, self.latencies = self.latencies, {}
        if any(news.values()) or state != self.last:
            self.last = state
            sent = news.pop("sent").get(self.group.name, [])
            say(msgspec.structs.replace(state, sent=sent, latencies=latencies, **news))
        for message in self.unreported.values():
            self.group.processed(message)
        self.unreported.clear()


def say(report: Report) -> None:
    """In one piece, however little room the pipe has."""
    left = memoryview(msgspec.json.encode(report) + b"\n")
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]


async def _until_removed(talk: Coroutine[Any, Any, None]) -> None:
    """A member that was removed has nothing more to say."""
    with suppress(Removed):
        await talk


async def run(asked: argparse.Namespace) -> None:
    injector: Injector[Came] | None = Injector.parse(asked.injector) if asked.injector else None
    about: dict[str, Any] = {"acknowledge": "explicitly", "injector": injector}
    try:
        async with join(asked.name, asked.group, address=asked.address, **about) as group:
            member = MemberProgram(group, injector, asked.report_ms / 1e3)
            try:
                await member.take_part()
            finally:
                member.tell()
    except Removed:
        member.state.removed = True
    member.tell()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tidings.testkit.member", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("group", help="the group file")
    parser.add_argument("--address", default="", help="of a newcomer, at its first start")
    parser.add_argument("--injector", default="", help='such as "seed=7 lost=0.1 reordered=0.2"')
    parser.add_argument("--report-ms", type=float, default=20, help="how long to gather reports")
    parser.add_argument("--fast", action="store_true", help="on uvloop, if it is installed")
    asked = parser.parse_args(words)
    # Ctrl-C is meant for whoever drives us; when that ends, our input ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure("console")
    try:
        running.run(run(asked), fast=asked.fast)
    except TidingsError as error:
        say(Report(error=str(error)))
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
