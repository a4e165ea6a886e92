"""``tidings node`` and ``tidings chat`` as programs, and the audit of what they traced."""

import asyncio
import logging
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from real_groups import free_ports, go, group_file, joined, linked, take, traced, until

from tidings.core import UsageError
from tidings.node import logs


@pytest.fixture(autouse=True)
def _logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command that runs in this process configures the logs for good."""
    logger = logging.getLogger("tidings.node")
    handlers, level = logger.handlers[:], logger.level
    monkeypatch.setattr(logs, "_style", "console")
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logger.propagate = True


class Program:
    """A command of ours under way: what it has said, and a way to type."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        self.reading = [
            asyncio.create_task(self._read(process.stdout, self.out)),
            asyncio.create_task(self._read(process.stderr, self.err)),
        ]

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            lines.append(line.decode().rstrip("\n"))

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def says(self, line: str) -> None:
        await until(lambda: line in self.out, every_s=0.01)

    async def ends(self) -> int:
        status = await self.process.wait()
        await asyncio.wait(self.reading)
        return status


@asynccontextmanager
async def program(folder: Path, *words: str) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("tidings"), *words),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    started = Program(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            process.kill()
        await started.ends()


def test_a_conversation_of_two_programs(tmp_path: Path, tidings: Any) -> None:
    """A node in a pipe and somebody who chats; then the audit says that all was well."""
    config = group_file(tmp_path, 2)

    async def scenario() -> None:
        async with program(tmp_path, "node", "p1", "--json") as p1:
            async with program(tmp_path, "chat", "p2") as p2:
                p2.type("hello, p1")
                await until(lambda: any("hello, p1" in line for line in p1.out), every_s=0.01)
                p1.type("hello yourself")
                await p2.says("p1: hello yourself")
                p2.type("/who")
                await p2.says("here: p1; away: nobody")
                p2.type("/why p1#1")
                await p2.says("p2 has delivered p1#1")
                p2.type("/nonsense")
                await until(lambda: p2.out[-1].startswith("/who says who"), every_s=0.01)
                p2.type("/quit")
                assert await p2.ends() == 0
            p1.process.send_signal(signal.SIGTERM)
            assert await p1.ends() == 0
            told = [msgspec.json.decode(line) for line in p1.out]
            assert told[0] == {"origin": "p2", "seq": 1, "text": "hello, p1", "again": False}
            assert "p1: farewell: peer p2, reason p2 leaves" in p1.err

    go(scenario(), seconds=60)
    traced(config)
    answer = tidings("audit", str(config.trace_folder))
    assert answer.status == 0, answer
    assert answer.out.count("✓ holds") == 5


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("node", "p9"), 64, "tidings: p9 is not in the group; its members: p1"),
        (("node", "p1", "--group", "nowhere.toml"), 64, "tidings: nowhere.toml: No such file"),
        (("chat", "p1", "--group", "bad.toml"), 65, "tidings: bad.toml:2: members.p1: 1.2.3.4:5"),
        (("node", "p1", "--level", "loud"), 64, "tidings: --level is one of debug, info, "),
        (("node", "p1", "--logs", "loud"), 64, "tidings: Invalid value for '--logs'"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    words: tuple[str, ...], status: int, line: str, tmp_path: Path, tidings: Any
) -> None:
    group_file(tmp_path, 1)
    (tmp_path / "bad.toml").write_text('name = "x"\nmembers.p1 = "1.2.3.4:5"\n')
    answer = tidings(*words)
    assert answer.status == status
    assert answer.err.splitlines()[0].startswith(line)
    assert len(answer.err.splitlines()) == 1


def test_a_second_node_of_the_same_member_ends_at_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config), program(tmp_path, "node", "p1") as second:
            assert await second.ends() == 69
            assert second.err[-1].startswith("tidings: ")
            assert "in use by process" in second.err[-1]

    go(scenario())


def test_prometheus_is_told_how_a_member_is_doing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = group_file(tmp_path, 2, f'metrics.p1 = "127.0.0.1:{port}"')

    def ask() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return str(answer.read(), "utf-8")

    async def scenario() -> str:
        async with joined(config) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"hello")).stable()
            await take(groups["p1"], 1)
            return await asyncio.to_thread(ask)

    lines = go(scenario()).splitlines()
    assert "tidings_broadcasts_total 1.0" in lines
    assert "tidings_delivery_seconds_count 1.0" in lines
    assert 'tidings_delivered{origin="p1"} 1.0' in lines
    assert 'tidings_link_up{peer="p2"} 1.0' in lines
    assert any(line.startswith('tidings_bytes_sent_total{peer="p2"}') for line in lines)


def test_logs_can_be_json(tmp_path: Path) -> None:
    group_file(tmp_path, 2)

    async def scenario() -> None:
        async with program(tmp_path, "node", "p1", "--logs", "json") as p1:
            await until(lambda: bool(p1.err), every_s=0.01)
            line = msgspec.json.decode(p1.err[0])
            assert (line["member"], line["event"], line["peer"]) == ("p1", "no link", "p2")
            assert line["reason"] == "cannot be reached: Connection refused"

    go(scenario(), seconds=30)


def test_a_group_file_that_does_not_exist_is_told_to_programs_too() -> None:
    import tidings

    with pytest.raises(UsageError, match="No such file"):
        tidings.join("p1")
