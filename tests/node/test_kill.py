"""Members as processes of the operating system, killed with SIGKILL at any moment and restarted."""

import asyncio
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from real_groups import assert_all_hold, go, group_file, traced
from real_groups import until as until_every

from tidings.core import MessageId
from tidings.node.config import Config

PROGRAM = Path(__file__).with_name("member.py")


async def until(is_so: Callable[[], bool]) -> None:
    """Not too often: the members need the processor more."""
    await until_every(is_so, every_s=0.02)


class Member:
    """One member over all its lives, and everything it has ever said."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.config = config
        self.lines: list[str] = []
        self.process: asyncio.subprocess.Process | None = None
        self.reading: asyncio.Task[None] | None = None

    async def start(self, *wrapper: str) -> None:
        group = self.config.data.parent / "group.toml"
        self.process = await asyncio.create_subprocess_exec(
            *wrapper,
            *(sys.executable, str(PROGRAM), self.name, str(group)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.reading = asyncio.create_task(self._read(self.process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.endswith(b"\n"):
                self.lines.append(line.decode().rstrip("\n"))

    def say(self, count: int, text: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"say {count} {text}\n".encode())

    async def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.ended()

    async def ended(self) -> int:
        """Wait for the end; everything it has said is known by then."""
        assert self.process is not None
        assert self.reading is not None
        status = await self.process.wait()
        await self.reading
        return status

    async def leave(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert await self.ended() == 0

    def ids(self, *words: str) -> list[MessageId]:
        found = [line.split() for line in self.lines]
        return [MessageId.parse(line[1]) for line in found if line[0] in words]


@asynccontextmanager
async def members(config: Config) -> AsyncIterator[dict[str, Member]]:
    """All members, started; whoever is still alive in the end is killed."""
    started = {name: Member(name, config) for name in config.members}
    try:
        for member in started.values():
            await member.start()
        await until(lambda: all("ready" in member.lines for member in started.values()))
        yield started
    finally:
        for member in started.values():
            if member.process is not None and member.process.returncode is None:
                member.process.kill()
                await member.process.wait()


def have_all_of(group: dict[str, Member]) -> Callable[[], bool]:
    """Whether every member was handed everything that any was, or that was reported sent."""

    def have() -> bool:
        known = {one for member in group.values() for one in member.ids("sent", "got", "again")}
        return all(known <= set(member.ids("got", "again")) for member in group.values())

    return have


def assert_no_second_delivery(group: dict[str, Member]) -> None:
    """An application is handed a message again only after a restart, and marked."""
    for name, member in group.items():
        got = member.ids("got")
        assert len(set(got)) == len(got), f"{name} was handed something twice"


def test_everybody_killed_at_once_and_restarted_has_all_that_was_delivered(
    tmp_path: Path,
) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with members(config) as group:
            for life in range(3):
                for member in group.values():
                    member.say(500, f"life{life}")
                await until(
                    lambda life=life: all(
                        any(line.endswith(f"life{life}") for line in one.lines)
                        for one in group.values()
                    )
                )
                await asyncio.gather(*(member.kill() for member in group.values()))
                for member in group.values():
                    await member.start()
            await until(have_all_of(group))
            for member in group.values():
                member.say(1, "the end")
            await until(lambda: all("the end" in str(one.lines[-20:]) for one in group.values()))
            await until(have_all_of(group))
            for member in group.values():
                await member.leave()
            assert_no_second_delivery(group)

    go(scenario(), seconds=60)
    assert_all_hold(traced(config))


def test_random_minorities_killed_and_restarted_lose_and_repeat_nothing(tmp_path: Path) -> None:
    config = group_file(tmp_path, 5, "limits.segment_bytes = 20000", "trace.segment_bytes = 20000")
    dice = random.Random(5)

    async def scenario() -> None:
        async with members(config) as group:
            for member in group.values():
                member.say(1, "begin")
            await until(lambda: all(len(one.ids("got")) >= 5 for one in group.values()))
            for turn in range(4):
                victims = dice.sample(list(group.values()), 2)
                for member in group.values():
                    member.say(200, f"turn{turn}")
                rest = [one for one in group.values() if one not in victims]
                before = len(rest[0].ids("got"))
                await until(lambda before=before, rest=rest: len(rest[0].ids("got")) > before + 50)
                for victim in victims:
                    await victim.kill()
                # The others go on without them.
                sent = len(rest[0].ids("sent"))
                rest[0].say(10, "meanwhile")
                await until(lambda sent=sent, rest=rest: len(rest[0].ids("sent")) >= sent + 10)
                for victim in victims:
                    await victim.start()
            for member in group.values():
                member.say(1, "end")
            await until(lambda: all(_ends(one) == 5 for one in group.values()))
            await until(have_all_of(group))
            for member in group.values():
                await member.leave()
            assert_no_second_delivery(group)

    go(scenario(), seconds=90)
    assert_all_hold(traced(config))


needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None
    or subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode != 0,
    reason="needs strace, and the right to use it",
)


@needs_strace
@pytest.mark.parametrize("call", [3, 8, 15, 24, 39, 60])
def test_killed_at_a_given_system_call_it_comes_back(call: int, tmp_path: Path) -> None:
    """Deaths on purpose: when it syncs its log, sends or renames for the so many-th time."""
    config = group_file(tmp_path, 3, "limits.segment_bytes = 2000", "trace.segment_bytes = 2000")
    deadly = f"inject=fdatasync,sendto,rename:signal=KILL:when={call}"

    async def scenario() -> None:
        async with members(config) as group:
            p1, p2, p3 = group.values()
            for member in group.values():
                member.say(1, "begin")
            await until(have_all_of(group))
            await p3.leave()
            await p3.start("strace", "-f", "-qq", "-o", "/dev/null", "-e", deadly)
            dying = asyncio.create_task(p3.ended())
            while not dying.done():
                for member in (p1, p2):
                    member.say(1, "hello")
                await asyncio.wait([dying], timeout=0.01)
            await p3.start()
            for member in group.values():
                member.say(1, "end")
            await until(lambda: all(_ends(one) == 3 for one in group.values()))
            await until(have_all_of(group))
            for member in group.values():
                await member.leave()
            assert_no_second_delivery(group)

    go(scenario(), seconds=60)
    assert_all_hold(traced(config))


def _ends(member: Member) -> int:
    return sum(line.endswith(" end") for line in member.lines)


@needs_strace
def test_what_is_acknowledged_is_on_disk_first(tmp_path: Path) -> None:
    """The recorded order of system calls: data came, the disk has answered, the ack leaves."""
    config = group_file(tmp_path)
    record = tmp_path / "calls"
    calls = "trace=fdatasync,sendto,recvfrom"

    async def scenario() -> None:
        async with members(config) as group:
            for member in group.values():
                member.say(1, "begin")
            await until(have_all_of(group))
            await group["p3"].leave()
            await group["p3"].start(
                *("strace", "-f", "-qq", "-s", "4096", "-o", str(record), "-e", calls)
            )
            for number in range(20):
                group["p1"].say(1, f"number{number}")
                await until(lambda word=f"number{number}": word in str(group["p3"].lines[-9:]))
            for member in group.values():
                await member.leave()

    go(scenario(), seconds=60)
    assert _acknowledgements(record.read_text()) >= 20


def _acknowledgements(record: str) -> int:
    """How many left after data had come; each of them must find that data on disk."""
    unsafe, syncing, count = False, False, 0
    for line in record.splitlines():
        if "recvfrom" in line and "number" in line:
            unsafe = True
        elif "fdatasync(" in line:
            syncing = unsafe  # begun after the data came
        if "fdatasync" in line and line.endswith("= 0") and syncing:
            unsafe = syncing = False
        elif "sendto(" in line and "holding" in line:
            assert not unsafe, f"acknowledged before it was on disk: {line[:200]}"
            count += 1
    return count
