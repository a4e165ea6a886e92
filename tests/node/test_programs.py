"""``tidings node`` and ``tidings chat`` as programs, and the audit of what they traced."""

import ast
import asyncio
import gc
import importlib
import os
import re
import signal
import socket
import sys
import threading
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from programs import TIDINGS, WITH_SIGINT_IGNORED, running
from real_groups import (
    assert_all_hold,
    free_ports,
    go,
    group_file,
    joined,
    linked,
    take,
    traced,
    until,
)
from tidings.cli import node as commands
from tidings.core import UsageError
from tidings.node import running as running_process
from tidings.node.config import new_group_file, parse_config, read_config
from tidings.node.group import Status, join
from tidings.node.monitor import Monitor
from tidings.node.terminal import CHUNK_BYTES, lines


@pytest.mark.usefixtures("spark")
def test_a_conversation_of_two_programs(tmp_path: Path, tidings: Any) -> None:
    """A node in a pipe and somebody who chats; then the audit says that all was well."""
    config = group_file(tmp_path, 2)

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "node", "p1", "--json") as p1:
            async with running(tmp_path, TIDINGS, "chat", "p2") as p2:
                p2.type("hello, p1")
                await until(lambda: any("hello, p1" in line for line in p1.out), every_s=0.01)
                p1.type("hello yourself")
                await p2.says("p1: hello yourself")
                assert p2.out[0].startswith("you are p2; /who says who is there, ")
                p2.type("/who")
                await p2.says("here: p1; away: nobody")
                p2.type("/why")
                await p2.says("everything you said was delivered")
                p2.type("/why p1#1")
                await p2.says("p2 has delivered p1#1")
                p2.type("/why not")
                await until(lambda: any("'not'" in line for line in p2.out), every_s=0.01)
                p2.type("/nonsense")
                await until(
                    lambda: any(line.startswith("/who says who") for line in p2.out), every_s=0.01
                )
                p2.type("/quit")
                assert await p2.ends() == 0
            p1.process.send_signal(signal.SIGTERM)
            assert await p1.ends() == 0
            printed = [msgspec.json.decode(line) for line in p1.out]
            assert printed[0] == {"origin": "p2", "seq": 1, "text": "hello, p1", "again": False}
            assert "p1: farewell: peer p2, reason p2 leaves" in p1.err

    go(scenario())
    traced(config)
    answer = tidings("audit", str(config.trace_folder))
    assert answer.status == 0, answer
    assert answer.out.count("✓ holds") == 5


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("node", "p9"), 64, "tidings: p9 is not in the group; its members: p1"),
        (("node", "p1", "--group", "no.toml"), 64, "tidings: no.toml: No such file or directory; "),
        (("chat", "p1", "--group", "no.toml"), 64, "tidings: no.toml: No such file or directory; "),
        (("chat", "p9"), 64, "tidings: p9 is not in the group; its members: p1"),
        (("chat", "p1", "--group", "bad.toml"), 65, "tidings: bad.toml:3: members.p1: 1.2.3.4:5"),
        (("node", "p1", "--level", "loud"), 64, "tidings: --level is one of debug, info, "),
        (("node", "p1", "--logs", "loud"), 64, "tidings: Invalid value for '--logs'"),
    ],
)
def test_what_cannot_be_gets_one_line(
    words: tuple[str, ...], status: int, line: str, tmp_path: Path, tidings: Any
) -> None:
    group_file(tmp_path, 1)
    (tmp_path / "bad.toml").write_text('name = "x"\ntls.plain = true\nmembers.p1 = "1.2.3.4:5"\n')
    answer = tidings(*words)
    assert answer.status == status
    assert answer.err.splitlines()[0].startswith(line)
    assert len(answer.err.splitlines()) == 1
    assert answer.out == "", "it greeted before it looked"


def test_a_stranger_learns_how_to_come_as_a_newcomer(tmp_path: Path, tidings: Any) -> None:
    group_file(tmp_path, 2, 'protocol = "views"')
    answer = tidings("chat", "dave")
    assert (answer.status, answer.err) == (
        64,
        "tidings: dave is not in the group file, which has p1, p2; a newcomer has to say where it "
        "is reached: address='HOST:PORT', or --address HOST:PORT\n",
    )


@pytest.mark.parametrize("name", ["p11", "p9", "p1", "p2"])
def test_whoever_is_refused_before_it_begins_leaves_nothing_behind(
    name: str, tmp_path: Path, tidings: Any
) -> None:
    """A name that nobody has, an address that somebody has, metrics where somebody has theirs."""
    config = group_file(tmp_path, 2, 'protocol = "views"')
    address = config.addresses["p1"]
    with socket.create_server(address):
        answer = tidings("node", name, "--metrics", str(address.port) if name == "p2" else "")
    assert answer.status == (69 if name in config.members else 64), answer
    assert [path.name for path in tmp_path.iterdir()] == ["group.toml"]


def test_a_first_group_file_is_written_once_and_says_what_to_do(
    tmp_path: Path, tidings: Any
) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        answer = tidings("group", "ada", "bob.2", "--group", "some.toml", "--port", str(port))
    assert answer.status == 0, answer
    config = read_config(tmp_path / "some.toml")
    assert (config.name, config.members) == ("some", ("ada", "bob.2"))
    ports = [address.port for address in config.addresses.values()]
    assert port < ports[0] < ports[1], "the port that was taken is left out"
    text = (tmp_path / "some.toml").read_text()
    again = tidings("group", "ada", "--group", "some.toml")
    assert again.status == 64
    assert again.err == "tidings: some.toml is there already; it stays as it is\n"
    assert (tmp_path / "some.toml").read_text() == text


def test_every_setting_that_a_first_group_file_suggests_exists() -> None:
    text = new_group_file("some", {"p1": "127.0.0.1:7001"})
    settings = [line.removeprefix("# ") for line in text.splitlines()]
    config = parse_config("\n".join(settings), Path("group.toml"))
    assert (config.durable, config.trace.on, config.retention.messages) == (False, False, 1_000_000)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("p1", "p 2"), "tidings: 'p 2' is not a name: a letter, then letters, digits, _ . or -\n"),
        (("p1", "p1"), "tidings: p1 is there twice\n"),
        (("p1", "p2", "--port", "65535"), "tidings: there are not 2 free ports from there on\n"),
    ],
)
def test_a_group_that_cannot_be_is_not_written(
    words: tuple[str, ...], line: str, tmp_path: Path, tidings: Any
) -> None:
    answer = tidings("group", *words)
    assert (answer.status, answer.err) == (64, line)
    assert not (tmp_path / "group.toml").exists()


def test_a_chat_shows_who_is_there_and_why_nothing_happens(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "chat", "p1") as chat:
            await chat.says("here: nobody; away: p2, p3")
            chat.type("anybody?")
            await chat.says("waiting: p1 starts with nothing and has yet to meet p2, p3")
            async with joined(config, "p2", "p3") as others:
                await chat.says("p1: anybody?")
                await chat.says("p2 is here")
                await chat.says("p3 is here")
                # Killed or gone, it is the same to who is left.
                assert [message.text for message in await take(others["p2"], 1)] == [b"anybody?"]
            await chat.says("p2 is away")
            await chat.says("p3 is away")
            chat.type("still there?")
            missing = "1 more of p2, p3 to be known to hold it"
            await chat.says(f"waiting: p1#2 waits at p1 for {missing}")
            async with joined(config, "p3"):
                await chat.says("p3 is here", times=2)
                await chat.says("p1: still there?")
            chat.close_input()
            assert await chat.ends() == 0
            assert chat.err == []

    go(scenario())


def test_who_leaves_with_something_unsaid_is_informed_and_need_not_wait(tmp_path: Path) -> None:
    group_file(tmp_path, 2, "links.close_ms = 1_000_000")
    reason = "p1 starts with nothing and has yet to meet p2"

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "chat", "p1") as chat:
            chat.type("anybody?")
            await chat.says(f"waiting: {reason}")
            chat.process.send_signal(signal.SIGINT)
            await chat.says(f"leaving, in 1000 s at the latest: {reason}")
            chat.process.send_signal(signal.SIGINT)
            assert await chat.ends() == 130
            lost = f"never broadcast 1 line: {reason}"
            assert chat.err == [f"tidings: interrupted while leaving, and {lost}"]
        group_file(tmp_path, 2, "links.close_ms = 10")
        async with running(tmp_path, TIDINGS, "chat", "p1") as chat:
            chat.type("anybody?")
            await chat.says(f"waiting: {reason}")
            chat.close_input()
            assert await chat.ends() == 69
            assert chat.err == [f"tidings: p1 has left, and {lost}"]

    go(scenario())


def test_founders_begin_while_somebody_is_still_away(tmp_path: Path) -> None:
    group_file(tmp_path, 3)

    async def scenario() -> None:
        async with (
            running(tmp_path, TIDINGS, "node", "p1", "--founding", "--level", "error") as p1,
            running(tmp_path, TIDINGS, "node", "p2", "--founding", "--level", "error") as p2,
        ):
            p1.type("let us begin")
            await p2.says("p1#1 let us begin")

    go(scenario())


def test_a_node_broadcasts_any_line_and_skips_only_what_is_too_long(tmp_path: Path) -> None:
    group_file(tmp_path, 1, "limits.text_bytes = 10")

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "node", "p1", "--level", "warning") as p1:
            for line in ("one", "much too long", b"\xff", "\x1b[2J", "/quit", "", "tab\tüñ"):
                p1.type(line)
            p1.close_input()
            await p1.says("p1#6 tab\tüñ")
            shown = ["one", r"\xff", r"\x1b[2J", "/quit", "", "tab\tüñ"]
            assert p1.out == [f"p1#{number} {text}" for number, text in enumerate(shown, 1)]
            printed = "not broadcast: a line of more than 10 bytes (text_bytes)"
            assert p1.err == [f"p1: {printed}"]
            p1.process.send_signal(signal.SIGINT)
            assert await p1.ends() == 0

    go(scenario())


def test_a_line_that_finds_the_log_full_waits_until_there_is_room(tmp_path: Path) -> None:
    lines = ("limits.log_bytes = 8000", "limits.segment_bytes = 2000", "limits.window = 10")
    config = group_file(tmp_path, 2, *lines)

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "node", "p1", "--level", "warning") as p1:
            async with joined(config, "p2"):
                p1.type("first")
                await p1.says("p1#1 first")
            for number in range(2, 101):
                p1.type(f"{number} ".ljust(100, "."))
            await until(lambda: any("the log of p1 is full" in line for line in p1.err), 0.01)
            assert len(p1.out) < 100
            async with joined(config, "p2"):
                await until(lambda: p1.out[-1].startswith("p1#100 100 "), every_s=0.01)
            assert len(p1.out) == 100

    go(scenario())


@asynccontextmanager
async def _with_a_full_pipe(folder: Path, *lines: str) -> AsyncIterator[Process]:
    """p2 of a group of two, whose output nobody reads, and which has more to say than fits."""
    config = group_file(folder, 2, *lines)
    command = (TIDINGS, "node", "p2", "--level", "error")
    reader, writer = os.pipe()
    p2 = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=PIPE, stdout=writer)
    os.close(writer)
    try:
        async with joined(config, "p1") as one:
            for _ in range(30):
                receipt = await one["p1"].broadcast(b"." * 10_000)
                await receipt.delivered()
            # It acknowledges, whether anybody reads its output or not.
            await receipt.stable()
            yield p2
    finally:
        os.close(reader)
        if p2.returncode is None:
            p2.kill()
            await p2.wait()


def test_a_node_whose_output_nobody_reads_takes_part_and_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _with_a_full_pipe(tmp_path, "links.close_ms = 50") as p2:
            p2.send_signal(signal.SIGTERM)
            assert await p2.wait() == 0
        # What did not leave the pipe's end is not lost: it is there again in the next life.
        async with running(tmp_path, TIDINGS, "node", "p2", "--level", "error") as p2_again:
            await until(lambda: len(p2_again.out) > 0 and "p1#30 " in p2_again.out[-1], 0.01)
            first, last = p2_again.out[0], p2_again.out[-1]
            assert int(first[3:].partition(" ")[0]) <= 10
            assert last == "p1#30 (again) " + "." * 10_000

    go(scenario())


def test_a_node_whose_output_nobody_reads_leaves_at_once_when_asked_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _with_a_full_pipe(tmp_path, "links.close_ms = 1_000_000") as p2:
            p2.send_signal(signal.SIGTERM)
            await until(lambda: not _is_pending(p2.pid, signal.SIGTERM))
            p2.send_signal(signal.SIGTERM)
            assert await p2.wait() == 130

    go(scenario())


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether the signal has yet to be taken: a second one would be the same one."""
    status = Path(f"/proc/{pid}/status").read_text()
    (pending,) = re.findall(r"^ShdPnd:\s*(\w+)$", status, re.MULTILINE)
    return bool(int(pending, 16) & 1 << number - 1)


def test_a_node_without_any_output_is_refused(tmp_path: Path) -> None:
    group_file(tmp_path, 1)

    async def scenario() -> None:
        async with running(tmp_path, "bash", "-c", f"exec {TIDINGS} node p1 >&-") as p1:
            assert await p1.ends() == 64
            printed = "there is no standard output; who needs none writes > /dev/null"
            assert p1.err == [f"tidings: {printed}"]

    go(scenario())


def test_a_node_whose_output_is_full_says_so(tmp_path: Path) -> None:
    group_file(tmp_path, 1)

    async def scenario() -> None:
        command = f"exec {TIDINGS} node p1 > /dev/full"
        async with running(tmp_path, "bash", "-c", command) as p1:
            p1.type("text")
            assert await p1.ends() == 69
            assert p1.err[-1] == "tidings: standard output: No space left on device"

    go(scenario())


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    async def scenario() -> list[bytes]:
        with os.fdopen(reader, "rb") as stream:
            return [line async for line in lines(stream, longest=10)]

    def write() -> None:
        with os.fdopen(writer, "wb") as stream:
            stream.write(b"short\n" + b"." * 1_000_000 + b"\nend")

    writing = threading.Thread(target=write)
    writing.start()
    first, second, third = go(scenario())
    writing.join()
    assert (first, third) == (b"short", b"end")
    assert 10 < len(second) <= 10 + 1 + CHUNK_BYTES


def test_a_node_whose_reader_goes_away_ends_like_any_program(tmp_path: Path) -> None:
    group_file(tmp_path, 1)
    command = f"{TIDINGS} node p1 --level error"

    async def scenario() -> None:
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"),
            cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert shell.stderr is not None
        shell.stdin.write(b"one\n")
        assert await shell.stdout.readline() == b"p1#1 one\n"
        ending = asyncio.create_task(shell.wait())
        while not ending.done():  # head ends after its line, sooner or later
            shell.stdin.write(b"more\n")
            await asyncio.wait([ending], timeout=0.02)
        assert await shell.stderr.read() == b""
        assert ending.result() == 141

    go(scenario())


def test_a_second_node_of_the_same_member_ends_at_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config), running(tmp_path, TIDINGS, "node", "p1") as second:
            assert await second.ends() == 69
            assert second.err[-1].startswith("tidings: ")
            assert re.search("p1 runs already: .*data/p1/lock is held by process", second.err[-1])

    go(scenario())


def test_prometheus_learns_how_a_member_is_doing(tmp_path: Path) -> None:
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


def test_the_end_of_the_metrics_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    config = group_file(tmp_path, 1, f'metrics.p1 = "127.0.0.1:{port}"')
    closing, may_close = threading.Event(), threading.Event()
    close = Monitor.close

    def close_slowly(monitor: Monitor) -> None:
        closing.set()
        assert may_close.wait(5), "nothing else could happen meanwhile"
        close(monitor)

    async def scenario() -> None:
        async def go_on_meanwhile() -> None:
            await until(closing.is_set)
            may_close.set()

        async with asyncio.TaskGroup() as tasks, joined(config):
            tasks.create_task(go_on_meanwhile())
        async with joined(config):
            pass  # the address is free again

    monkeypatch.setattr(Monitor, "close", close_slowly)
    go(scenario())


def test_what_stops_a_member_is_reported_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, "durable = false", "trace.on = false")

    async def scenario() -> None:
        async with joined(config, "p2") as one:
            async with running(tmp_path, TIDINGS, "node", "p1") as p1:
                await until(lambda: one["p2"].status().linked == ("p1",))
                p1.process.kill()
                await p1.ends()
            async with running(tmp_path, TIDINGS, "node", "p1") as p1:
                assert await p1.ends() == 65, "a service does not start it again"
                printed = [line for line in p1.err if "cannot return to this group" in line]
                assert len(printed) == 1, p1.err
                assert p1.err[-1].startswith("tidings: p1 ")

    go(scenario())


def test_an_interrupt_before_a_program_begins_leaves_no_coroutine_behind(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        raise AssertionError("it has begun")

    monkeypatch.setattr(running_process.gc, "collect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        running_process.run(main())
    monkeypatch.undo()
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.parametrize("command", ["node", "chat"])
def test_what_was_started_to_ignore_ctrl_c_does_so_and_leaves_when_terminated(
    command: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 1)
    shown = {"node": "p1#{} {}", "chat": "p1: {1}"}[command]

    async def scenario() -> None:
        async with running(tmp_path, *WITH_SIGINT_IGNORED, TIDINGS, command, "p1") as p1:
            p1.type("one")
            await p1.says(shown.format(1, "one"))
            p1.process.send_signal(signal.SIGINT)
            p1.type("two")
            await p1.says(shown.format(2, "two"))
            p1.process.send_signal(signal.SIGTERM)
            assert await p1.ends() == 0, p1.err
        async with joined(config) as groups:
            await groups["p1"].broadcast(b"three")
            (next_life,) = await take(groups["p1"], 1)
            assert (next_life.id.seq, next_life.text) == (3, b"three"), "what was shown comes again"

    go(scenario())
    assert_all_hold(traced(config))


TOLD_WHILE_IT_JOINS = """
import os, signal, sys
from tidings.node.member import Member
from tidings.__main__ import run

start = Member._start

async def told_to_end(member):
    os.kill(os.getpid(), signal.SIGTERM)
    await start(member)

Member._start = told_to_end
sys.argv = ["tidings", "node", "p1", "--level", "warning"]
run()
"""
TOLD_WHILE_IT_LOADS = """
import os, signal, sys
from tidings.__main__ import run

class Told:
    def find_spec(self, name, path, target=None):
        if name == "tidings.cli":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Told())
sys.argv = ["tidings", "node", "p1"]
run()
"""


@pytest.mark.parametrize(
    ("program", "status"), [(TOLD_WHILE_IT_JOINS, 0), (TOLD_WHILE_IT_LOADS, -signal.SIGTERM)]
)
def test_a_member_that_must_end_while_it_starts_does_so_quietly(
    program: str, status: int, tmp_path: Path
) -> None:
    group_file(tmp_path, 2)

    async def scenario() -> None:
        async with running(tmp_path, sys.executable, "-c", program) as p1:
            assert await p1.ends() == status, p1.err
            assert (p1.out, p1.err) == ([], [])

    go(scenario())
    assert not list(tmp_path.glob("trace/*.open"))


STATUS = Status(
    member="p1",
    members=("p1", "p2", "p3"),
    linked=(),
    broadcast=0,
    own=0,
    queued=0,
    waiting=0,
    delivered={},
    stable={},
    unread=0,
    log_bytes=0,
    refusal="",
    stuck="",
)


def test_a_chat_gives_the_others_a_moment_before_it_says_who_is_there() -> None:
    spoken: list[str] = []
    alone = commands._Chat(spoken.append)
    for _ in range(commands.LOOKS - 1):
        alone.look(STATUS)
    assert spoken == []
    alone.look(STATUS)
    assert spoken == ["here: nobody; away: p2, p3"]
    spoken.clear()
    in_company = commands._Chat(spoken.append)
    in_company.look(msgspec.structs.replace(STATUS, linked=("p2",)))
    assert spoken == []
    in_company.look(msgspec.structs.replace(STATUS, linked=("p2", "p3")))
    in_company.look(msgspec.structs.replace(STATUS, linked=("p2",)))
    assert spoken == ["here: p2, p3; away: nobody", "p3 is away"]


def test_a_chat_broadcasts_no_empty_lines(tmp_path: Path) -> None:
    group = join("p1", group_file(tmp_path, 1))
    face = commands._Chat(lambda line: None)
    assert face.obey(group, b"")
    assert face.obey(group, b" \t ")
    assert not face.obey(group, b" hello ")


def test_logs_can_be_json(tmp_path: Path) -> None:
    group_file(tmp_path, 2)

    async def scenario() -> None:
        words = ("--logs", "json", "--level", "debug")
        async with running(tmp_path, TIDINGS, "node", "p1", *words) as p1:
            await until(lambda: len(p1.err) >= 2, every_s=0.01)
            first, second = (msgspec.json.decode(line) for line in p1.err[:2])
            assert (first["member"], first["event"], first["group"]) == ("p1", "joined", "chat")
            assert (second["event"], second["peer"]) == ("no link", "p2")
            assert second["reason"] == "cannot be reached: Connection refused"

    go(scenario())


def test_a_group_file_that_does_not_exist_is_reported_to_programs_too() -> None:
    import tidings

    with pytest.raises(UsageError, match="No such file"):
        tidings.join("p1")


def test_what_a_program_needs_is_at_the_top_for_python_and_for_type_checkers() -> None:
    """Type checkers are shown imports and no __getattr__, with which any misspelling would pass."""
    import tidings

    tree = ast.parse(Path(tidings.__file__).read_text())
    (shown,) = (one for one in tree.body if isinstance(one, ast.If))
    imports = [one for one in shown.body if isinstance(one, ast.ImportFrom)]
    seen = {alias.name: one.module for one in imports for alias in one.names}
    assert {"join", "LogFull", "Closed", "Halted", "Replayed", "TidingsError"} <= set(seen)
    assert seen == {name: module for module, names in tidings._PLACES.items() for name in names}
    for name, module in seen.items():
        assert getattr(tidings, name) is getattr(importlib.import_module(str(module)), name)
    assert set(tidings.__all__) == set(seen)
    assert set(seen) <= set(dir(tidings))
    assert not any(getattr(one, "name", "") == "__getattr__" for one in tree.body)
    with pytest.raises(AttributeError, match="module 'tidings' has no attribute 'LogFul'"):
        _ = tidings.LogFul
