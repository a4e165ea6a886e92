"""``tidings proxy`` as its users meet it: what it prints, what it obeys, what it refuses."""

import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from tidings.cli.proxy import VERBS
from tidings.node.config import read_config

COMMAND = Path(sys.executable).with_name("tidings")
DEADLINE_S = 60
TWO = ("--member", "p1=127.0.0.1:7001", "--member", "p2=127.0.0.1:7002")
FILE = """\
name = "chat"
tls.plain = true

[members]
p1 = "127.0.0.1:7001"
p2 = "127.0.0.1:7002"
p3 = "127.0.0.1:7003"
"""


class Running:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def spoken(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], DEADLINE_S)[0], "it says nothing"
        return self.process.stdout.readline().decode().rstrip()

    def do(self, line: str) -> str:
        """Write a command about one link, and read the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        return self.spoken()


@contextmanager
def running(*words: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [COMMAND, "proxy", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.communicate()


def test_links_suffer_what_is_written_line_by_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        p2 = f"127.0.0.1:{server.getsockname()[1]}"
        with running("--member", "p1=127.0.0.1:7001", "--member", f"p2={p2}") as proxy:
            assert proxy.spoken() == "seed   0"
            door = re.fullmatch(r"p1 calls p2 at 127\.0\.0\.1:(\d+)", proxy.spoken())
            assert door is not None
            assert proxy.spoken().startswith("p2 calls p1 at ")
            assert proxy.spoken() == "ready"
            with (
                socket.create_connection(("127.0.0.1", int(door[1])), DEADLINE_S) as caller,
                server.accept()[0] as called,
            ):
                called.settimeout(DEADLINE_S)
                assert proxy.do("cut p1->p2").startswith("p1->p2  cut; 1 connection, 0 bytes")
                caller.sendall(b"hello")
                while "0 bytes passed, 5 waiting" not in proxy.do("show p1->p2"):
                    pass
                proxy.do("heal p1->p2")
                assert called.recv(5, socket.MSG_WAITALL) == b"hello"
                assert "reset after 3 bytes" in proxy.do("reset p2->p1 after 3 bytes")
                called.sendall(b"hello")
                assert caller.recv(3, socket.MSG_WAITALL) == b"hel"
                with pytest.raises(ConnectionResetError):
                    caller.recv(1)
            assert "refuses calls" in proxy.do("refuse p1->p2")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(door[1])), DEADLINE_S)
            _, answer = proxy.process.communicate(timeout=DEADLINE_S)
            assert (proxy.process.returncode, answer) == (0, b""), "the end of its input is its end"


def test_an_interrupted_proxy_ends_like_any_command() -> None:
    with running(*TWO) as proxy:
        while proxy.spoken() != "ready":
            pass
        proxy.process.send_signal(signal.SIGINT)
        _, answer = proxy.process.communicate(timeout=DEADLINE_S)
        assert (proxy.process.returncode, answer) == (130, b"tidings: interrupted\n")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch):
    """What will be written to the standard input."""

    def write(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", StringIO("\n".join(lines) + "\n"))

    return write


def answers(out: str) -> list[str]:
    """What is said once it is ready, without the counts."""
    return [line.partition(";")[0] for line in out.partition("ready\n")[2].splitlines()]


def test_every_command_answers_with_the_links_that_it_is_about(tidings, commands) -> None:
    commands(
        "# a comment, and an empty line",
        "",
        "delay p1->p2 20ms",
        "delay p1->p2 p2->p1 1.5s jitter 10ms",
        "throttle p1->p2 64kB/s",
        "throttle p1->p2 off",
        "delay all 0ms",
        "cut p1 | p2",
        "heal",
        "hole p2->p1",
        "heal p2->p1",
        "refuse p1->p2",
        "half-open p1->p2",
        "reset p1->p2",
        "reset p1->p2 after 1 byte",
        "heal p1->p2",
        "at 1ms show p2->p1",
    )
    answer = tidings("proxy", *TWO)
    assert (answer.status, answer.err) == (0, "")
    assert answers(answer.out) == [
        "p1->p2  delay 20ms",
        "p1->p2  delay 1500ms, jitter 10ms",
        "p2->p1  delay 1500ms, jitter 10ms",
        "p1->p2  delay 1500ms, jitter 10ms, throttle 64000B/s",
        "p1->p2  delay 1500ms, jitter 10ms",
        "p1->p2  open",
        "p2->p1  open",
        "p1->p2  cut",
        "p2->p1  cut",
        "p1->p2  open",
        "p2->p1  open",
        "p2->p1  hole",
        "p2->p1  open",
        "p1->p2  refuses calls",
        "p1->p2  refuses calls",
        "p1->p2  refuses calls",
        "p1->p2  refuses calls, reset after 1 byte",
        "p1->p2  open",
        "p2->p1  open",
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("shout", "unknown command 'shout'; known: delay, throttle, cut, hole, refuse, reset"),
        ("cut", "write: cut p1->p2, or: cut p1 p2 | p3"),
        ("cut p1", "'p1' is not a link; write it as p1->p2, or p1 p2 | p3, or all"),
        ("cut p1->p9", "there is no 'p9'; there are: p1, p2"),
        ("cut p1->p1", "there is no link from p1 to itself"),
        ("cut p1 |", "name somebody on both sides: p1 p2 | p3"),
        ("delay p1->p2", "write: delay p1->p2 20ms, or: delay p1->p2 20ms jitter 10ms"),
        ("delay p1->p2 20", "'20' is not a time; write it as 20ms or 2s"),
        ("delay p1->p2 20ms jitter much", "'much' is not a time; write it as 20ms or 2s"),
        ("delay p1->p2 99999999999s", "99999999999s is longer than a day"),
        ("throttle p1->p2 64", "'64' is no speed; write it as 64kB/s, or off"),
        ("throttle p1->p2 0B/s", "a link passes 1 byte per second or more, not 0"),
        ("reset p1->p2 after some bytes", "'after' is not a link"),
        ("at 5ms", "write: at 500ms COMMAND"),
        ("at once cut p1->p2", "'once' is not a time; write it as 20ms or 2s"),
        ("at 1ms at 1ms shout", "unknown command 'shout'"),
    ],
)
def test_64_and_one_line_for_each_mistake_and_it_goes_on(
    tidings, commands, line: str, complaint: str
) -> None:
    commands("show", line, "hole p1->p2")
    answer = tidings("proxy", *TWO)
    assert answer.status == 64
    assert answer.err.startswith(f"tidings: line 2: {complaint}")
    assert answer.err.count("\n") == 1
    assert answers(answer.out) == ["p1->p2  open", "p2->p1  open", "p1->p2  hole"]


def test_what_is_no_text_is_no_command(tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"cut \xff\n"), encoding="utf-8"))
    answer = tidings("proxy", *TWO)
    assert answer.status == 64
    assert "line 1: '\ufffd' is not a link" in answer.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name a group file, or each member as --member p1=127.0.0.1:7001"),
        (["--member", "p1"], "write --member p1=127.0.0.1:7001, not 'p1'"),
        ([*TWO, "--member", "p1=127.0.0.1:7003"], "--member: p1 stands twice in the group"),
        ([*TWO, "--member", "3=127.0.0.1:7003"], "--member: members.3: not a name"),
        (["--member", "p1=somewhere"], "'somewhere' is not an address like 127.0.0.1:7001"),
        ([*TWO, "--member", "p3=10.0.0.3:7003"], "10.0.0.3:7003 is not on loopback"),
        ([*TWO, "--member", "p3=127.0.0.1:7001"], "127.0.0.1:7001 is the address of p1 already"),
        (["--member", "p1=127.0.0.1:7001"], "a link takes two members"),
        (["absent.toml"], "absent.toml: No such file or directory"),
        (["group.toml", *TWO], "the group file says who is in the group; leave --member out"),
    ],
)
def test_64_when_nobody_can_be_stood_between(tidings, words, complaint) -> None:
    answer = tidings("proxy", *words)
    assert answer.status == 64
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


# --- group files


def test_each_member_is_given_a_group_file_of_its_own(tidings, commands) -> None:
    Path("group.toml").write_text(FILE)
    for _ in range(2):  # the second time over those of the first
        commands("show")
        answer = tidings("proxy", "group.toml", "--seed", "7")
        assert answer.status == 0, answer.err
        assert answer.out.startswith("seed   7\n")
        for name in ("p1", "p2", "p3"):
            assert f"{name} reads group-{name}.toml\n" in answer.out
            for peer, address in read_config(Path(f"group-{name}.toml")).addresses.items():
                if peer == name:
                    assert address == read_config(Path("group.toml")).addresses[name]
                else:
                    assert f"{name} calls {peer} at {address}\n" in answer.out


def test_a_file_that_somebody_else_made_is_left_alone(tidings) -> None:
    Path("group.toml").write_text(FILE)
    Path("group-p2.toml").write_text("precious")
    answer = tidings("proxy", "group.toml")
    assert answer.status == 64
    assert "group-p2.toml is there already, and not made by tidings proxy" in answer.err
    assert Path("group-p2.toml").read_text() == "precious"


def test_65_when_the_group_file_is_wrong(tidings) -> None:
    Path("group.toml").write_text(FILE.replace("127.0.0.1:7002", "10.0.0.2:7002"))
    answer = tidings("proxy", "group.toml")
    assert answer.status == 65
    assert "group.toml:6: members.p2: 10.0.0.2:7002 is not on loopback" in answer.err


# --- the guide

GUIDE = (Path(__file__).parents[2] / "docs" / "network-faults.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return found


def test_the_commands_of_the_guide_are_obeyed(tidings, commands) -> None:
    Path("group.toml").write_text(FILE)
    commands(*block("text").splitlines())
    answer = tidings("proxy", "group.toml")
    assert (answer.status, answer.err) == (0, "")
    assert set(VERBS) <= set(block("text").split())


def test_the_program_of_the_guide_runs(tidings) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    text = FILE
    for number, one in enumerate(sockets, start=1):
        text = text.replace(f"127.0.0.1:700{number}", f"127.0.0.1:{one.getsockname()[1]}")
        one.close()
    Path("group.toml").write_text(text)
    exec(compile(block("python"), "network-faults.md", "exec"), {"__name__": "guide"})
