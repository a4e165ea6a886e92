"""Network namespaces: what happens on a link that is down, and that nothing is left behind."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from subprocess import PIPE
from typing import Any

import pytest

import namespaces
from namespaces import DEADLINE_S, MOST_MEMBERS, Network, NoNetwork, unavailable
from requirements_met import require

ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 7001)) as server:
    print("ready", flush=True)
    talk, _ = server.accept()
    while data := talk.recv(100):
        talk.sendall(data)
"""
CALLER = """
import socket, sys
talk = socket.create_connection((sys.argv[1], 7001), 60)
for line in sys.stdin:
    word, patience_s = line.split()
    talk.settimeout(float(patience_s))
    try:
        if word != "-":
            talk.sendall(word.encode())
        print(talk.recv(100).decode(), flush=True)
    except TimeoutError:
        print("silence", flush=True)
    except ConnectionResetError:
        print("reset", flush=True)
"""


@pytest.fixture
def namespaces_can_be_made() -> None:
    reason = unavailable()
    require("namespaces", not reason, reason)


@pytest.fixture
def network(namespaces_can_be_made: None) -> Iterator[Network]:
    with Network("p1", "p2", "p3") as made:
        yield made


def run(network: Network, member: str, program: str, peer: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", program, network.address(peer)]
    return network.start(member, words, stdin=PIPE, stdout=PIPE, text=True, bufsize=1)


def spoken(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], DEADLINE_S)[0], "it says nothing"
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], word: str, patience_s: float) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{word} {patience_s}\n")
    return spoken(process)


def ours() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name.startswith(f"tidings-{os.getpid()}-")]


def test_a_link_that_is_down_carries_nothing_and_loses_nothing(network: Network) -> None:
    echo = run(network, "p2", ECHO, "p2")
    assert spoken(echo) == "ready"
    caller = run(network, "p1", CALLER, "p2")
    assert ask(caller, "hello", DEADLINE_S) == "hello"
    network.down("p2")
    assert ask(caller, "one", 0.3) == "silence"
    network.up("p2")
    heard = ask(caller, "two", DEADLINE_S)
    while heard != "onetwo":  # TCP sends again what was lost, at its own pace
        heard += ask(caller, "-", DEADLINE_S)
    network.down("p1")
    assert ask(caller, "three", 0.3) == "silence"


def test_the_connections_of_a_member_are_reset(network: Network) -> None:
    assert spoken(run(network, "p2", ECHO, "p2")) == "ready"
    caller = run(network, "p1", CALLER, "p2")
    assert ask(caller, "hello", DEADLINE_S) == "hello"
    assert network.reset("p3") == 0
    assert ask(caller, "still", DEADLINE_S) == "still"
    assert network.reset("p2") == 1
    assert ask(caller, "-", DEADLINE_S) == "reset"


def test_a_namespace_is_not_reached_from_outside(network: Network) -> None:
    assert spoken(run(network, "p2", ECHO, "p2")) == "ready"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((network.address("p2"), 7001), DEADLINE_S)


@pytest.mark.usefixtures("namespaces_can_be_made")
def test_nothing_is_left_behind_by_a_test_that_fails() -> None:
    processes: list[subprocess.Popen[str]] = []

    def fail() -> None:
        with Network("p1", "p2") as failing:
            processes.append(run(failing, "p1", ECHO, "p1"))
            assert spoken(processes[0]) == "ready"
            assert len(ours()) == 3
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert ours() == []
    assert processes[0].returncode == -signal.SIGKILL


@pytest.mark.usefixtures("namespaces_can_be_made")
def test_nothing_is_left_behind_when_only_half_of_it_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_before = namespaces._ip

    def failing(*words: str) -> str:
        if "flush" in words:
            assert len(ours()) == 2
            raise NoNetwork("no more")
        return as_before(*words)

    monkeypatch.setattr(namespaces, "_ip", failing)
    with pytest.raises(NoNetwork, match="no more"), Network("p1"):
        pass
    assert ours() == []


@pytest.mark.usefixtures("namespaces_can_be_made")
def test_what_a_killed_run_left_is_removed_by_the_next() -> None:
    dead = subprocess.Popen(["true"])
    dead.wait(DEADLINE_S)
    left = f"tidings-{dead.pid}-1-p1"
    subprocess.run(["ip", "netns", "add", left], check=True, timeout=DEADLINE_S)
    with Network("p1"), Network("p1"):
        assert left not in namespaces._existing()
        assert len(ours()) == 4


def test_there_may_not_be_too_many() -> None:
    with pytest.raises(ValueError, match="17 members, and 16 is the limit"):
        Network(*(f"p{number}" for number in range(MOST_MEMBERS + 1)))


# --- where there are none


def test_the_reason_is_stated_where_there_can_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: str) -> str:
        raise NoNetwork("ip netns add: Operation not permitted")

    reason = unavailable.__wrapped__
    monkeypatch.setattr(namespaces, "_ip", refuse)
    monkeypatch.setattr(shutil, "which", lambda name: "/sbin/ip")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert reason() == "root may not make them here: ip netns add: Operation not permitted"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert reason() == "only root may make them"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert reason() == "there is no ip command; make system-deps installs it"


@pytest.mark.parametrize(
    ("required", "available", "outcome"),
    [
        ("", True, None),
        ("namespaces", True, None),
        ("", False, pytest.skip.Exception),
        ("chromium", False, pytest.skip.Exception),
        ("chromium,namespaces", False, pytest.fail.Exception),
        ("namespace", True, AssertionError),
    ],
)
def test_what_is_required_may_not_be_skipped(
    monkeypatch: pytest.MonkeyPatch, required: str, available: bool, outcome: Any
) -> None:
    monkeypatch.setenv("TIDINGS_REQUIRE", required)
    if outcome is None:
        require("namespaces", available, "it rains")
    else:
        with pytest.raises(outcome, match=r"it rains|nothing is called 'namespace'"):
            require("namespaces", available, "it rains")
