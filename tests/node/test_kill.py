"""Members as processes of the operating system, killed with SIGKILL at any moment and restarted."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Union

import msgspec
import pytest

from real_groups import (
    DEADLINE_S,
    assert_all_hold,
    go,
    group_file,
    joined,
    linked,
    take,
    until,
)
from requirements_met import require
from tidings.core import Packet
from tidings.node.group import Group
from tidings.node.log import DurableLog
from tidings.node.tracing import Tracer
from tidings.node.transport import Transport
from tidings.node.wire import packet_types
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Data, Holding, State
from tidings.testkit.fleet import Fleet, Member
from tidings.trace import read_runs
from tidings.trace.segments import Packets, blocks_in


def fleet_of(folder: Path) -> Fleet:
    """Everything is reported at once: what a receipt said is known even if a kill comes next."""
    return Fleet(folder / "group.toml", report_ms=0)


def have_all(fleet: Fleet) -> bool:
    """Whether every member was handed everything that any was, or that was reported sent."""
    for origin in fleet:
        known = origin.sent.copy()
        for member in fleet:
            known.update(member.handed(origin.name))
        if not all(known <= member.handed(origin.name) for member in fleet):
            return False
    return True


def handed(member: Member) -> int:
    return sum(map(len, member.got.values()))


def say_and_wait(fleet: Fleet, word: str) -> None:
    """Everybody has something to say, and everybody hears it and all that came before."""
    for member in fleet:
        member.say(1, word)
    fleet.wait_for(fleet.are_equal, f"all to hear {word!r}")
    fleet.wait_for(lambda: have_all(fleet), "all to have everything")


def assert_nothing_lost_or_repeated(fleet: Fleet) -> None:
    """As the members saw it, and as the specification judges their traces."""
    for member in fleet:
        assert not member.repeated, f"{member.name} was handed something twice, unmarked"
        for origin in fleet:
            assert len(member.handed(origin.name).ranges) <= 1, f"{member.name} has gaps"
    (run,) = read_runs(fleet.config.trace_folder)
    assert_all_hold(run)


def test_everybody_killed_at_once_and_restarted_has_all_that_was_delivered(
    tmp_path: Path,
) -> None:
    group_file(tmp_path)
    with fleet_of(tmp_path) as fleet:
        for _ in range(3):
            before = {member.name: handed(member) for member in fleet}
            for member in fleet:
                member.say(500, "hello")
            fleet.wait_for(
                lambda before=before: all(handed(one) > before[one.name] for one in fleet),
                "all to hear something",
            )
            fleet.kill()
            for member in fleet:
                member.start(report_ms=0)
            fleet.wait_for(lambda: have_all(fleet), "all to have everything")
        say_and_wait(fleet, "the end")
        fleet.settle()
    assert_nothing_lost_or_repeated(fleet)


def test_random_minorities_killed_and_restarted_lose_and_repeat_nothing(tmp_path: Path) -> None:
    group_file(tmp_path, 5, "limits.segment_bytes = 20000", "trace.segment_bytes = 20000")
    dice = random.Random(5)
    with fleet_of(tmp_path) as fleet:
        say_and_wait(fleet, "begin")
        for _ in range(4):
            victims = dice.sample(list(fleet), 2)
            witness = next(one for one in fleet if one not in victims)
            before = handed(witness)
            for member in fleet:
                member.say(200, "hello")
            fleet.wait_for(lambda w=witness, b=before: handed(w) > b + 50, "some of it")
            fleet.kill(*(victim.name for victim in victims))
            # The others go on without them.
            sent = len(witness.sent)
            witness.say(10, "meanwhile")
            fleet.wait_for(lambda w=witness, s=sent: len(w.sent) >= s + 10, "the others to go on")
            for victim in victims:
                victim.start(report_ms=0)
        say_and_wait(fleet, "end")
        fleet.settle()
    assert_nothing_lost_or_repeated(fleet)


@pytest.fixture(scope="module")
def strace() -> None:
    """For tests that watch system calls, or die at one."""
    try:
        subprocess.run(["strace", "-o", "/dev/null", "true"], check=True, capture_output=True)
        reason = ""
    except (FileNotFoundError, subprocess.CalledProcessError) as fault:
        reason = f"strace cannot be used: {fault}"
    require("strace", not reason, reason)


needs_strace = pytest.mark.usefixtures("strace")


@needs_strace
@pytest.mark.parametrize("call", [3, 8, 15, 24, 39, 60])
def test_killed_at_a_given_system_call_it_comes_back(call: int, tmp_path: Path) -> None:
    """Deaths on purpose: when it syncs its log, sends or renames for the so many-th time."""
    group_file(tmp_path, 3, "limits.segment_bytes = 2000", "trace.segment_bytes = 2000")
    deadly = f"inject=fdatasync,sendto,rename:signal=KILL:when={call}"
    with fleet_of(tmp_path) as fleet:
        p1, p2, p3 = fleet
        say_and_wait(fleet, "begin")
        p3.leave()
        p3.start("strace", "-f", "-qq", "-o", "/dev/null", "-e", deadly, wait=False)
        while not fleet.comes_true(lambda: not p3.is_up, timeout_s=0.01):
            p1.say(1, "hello")
            p2.say(1, "hello")
        assert p3.fate == "crashed"
        p3.start(report_ms=0)
        say_and_wait(fleet, "end")
        fleet.settle()
    assert_nothing_lost_or_repeated(fleet)


@needs_strace
def test_killed_again_and_again_while_it_starts_for_the_first_time_it_starts_at_last(
    tmp_path: Path,
) -> None:
    """A little later each time: its manifest, its trace, and its log, which makes it somebody."""
    group_file(tmp_path)
    first_start = (sys.executable, "-m", "tidings.testkit.member", "p1", tmp_path / "group.toml")
    for call, when in (("write", 1), ("write", 2), ("write", 3), ("write", 4), ("fsync", 1)):
        deadly = f"inject={call}:signal=KILL:when={when}"
        strace = ("strace", "-f", "-qq", "-o", tmp_path / "calls", "-e", deadly)
        subprocess.run([*strace, *first_start], check=False, timeout=DEADLINE_S)
        assert "killed by SIGKILL" in (tmp_path / "calls").read_text()
        assert (tmp_path / "trace").exists()
    with fleet_of(tmp_path) as fleet:
        say_and_wait(fleet, "hello")
        fleet.settle()
    assert_nothing_lost_or_repeated(fleet)


@needs_strace
def test_what_is_acknowledged_is_on_disk_first(tmp_path: Path) -> None:
    """The recorded order of system calls: data came, the disk has answered, the ack leaves."""
    # An acknowledgement for every message, to everybody.
    group_file(tmp_path, 3, "options.batch_ms = 0", "options.stable_ms = 0")
    record = tmp_path / "calls"
    calls = "trace=fdatasync,sendto,recvfrom"
    strace = ("strace", "-f", "-qq", "-s", "4096", "-o", str(record), "-e", calls)
    with fleet_of(tmp_path) as fleet:
        p1, _, p3 = fleet
        say_and_wait(fleet, "begin")
        p3.leave()
        p3.start(*strace)
        for number in range(2, 22):
            p1.say(1, f"number{number}")
            fleet.wait_for(lambda number=number: number in p3.handed("p1"), "p3 to hear it")
        fleet.settle()
    assert _acknowledgements(record.read_text()) >= 20


class Order:
    """What each member has on disk and in its trace, and what leaves before it is there."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.on_disk: dict[str, dict[str, int]] = {}
        self.traced: dict[str, set[tuple[str, int]]] = {}
        self.too_early: list[str] = []
        self.data = self.acks = self.riding = 0
        commit, write, send = DurableLog.commit, Tracer.write, Transport.send

        def committing(log: DurableLog, *what: Any) -> None:
            commit(log, *what)
            on_disk = self.on_disk.setdefault(log.about.member, {})
            for origin, (_, last) in what[2].items():
                on_disk[origin] = max(last, on_disk.get(origin, 0))

        def tracing(tracer: Tracer, blocks: bytes) -> None:
            write(tracer, blocks)
            if not blocks.startswith(b"tidings"):
                self._trace(tracer._owner.process, blocks)

        def sending(transport: Transport, to: Any, body: bytes, count: int) -> None:
            self._check(transport.me, to, body, count)
            send(transport, to, body, count)

        patch.setattr(DurableLog, "commit", committing)
        patch.setattr(Tracer, "write", tracing)
        patch.setattr(Transport, "send", sending)

    def _trace(self, member: str, blocks: bytes) -> None:
        for block in blocks_in(blocks):
            for item in block.items:
                if isinstance(item, Packets) and item.kind == "send":
                    self.traced.setdefault(member, set()).update(item.peers)

    def _check(self, me: str, to: list[tuple[str, int]], body: bytes, count: int) -> None:
        traced, on_disk = self.traced.get(me, set()), self.on_disk.get(me, {})
        for peer, first in to:
            if not {(peer, first + place) for place in range(count)} <= traced:
                self.too_early.append(f"{me} to {peer}: {first} is not in the trace")
        for encoded in msgspec.msgpack.decode(body, type=list[bytes]):
            packet = msgspec.msgpack.decode(encoded, type=Union[packet_types(Frontier)])  # noqa: UP007
            if any(count > on_disk.get(one, 0) for one, count in self._claims(me, packet)):
                self.too_early.append(f"{me}: {packet}, and on disk is {on_disk}")

    def _claims(self, me: str, packet: Packet) -> list[tuple[str, int]]:
        """What its sender says that it holds."""
        names = ("p1", "p2", "p3")
        if not isinstance(packet, Data | Holding | State):
            return []
        if isinstance(packet, State):
            return list(zip(names, packet.held, strict=True))
        acks = list(packet.held.of(names))
        self.acks += bool(acks)
        if isinstance(packet, Data):
            self.data += 1
            self.riding += bool(acks)
            acks.append((me, packet.batch.last))
        return acks


def test_data_and_acknowledgements_leave_when_they_are_on_disk_and_in_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first acknowledgement of each goes alone, and every later one with its next message."""
    order = Order(monkeypatch)
    for_ever = "options.batch_ms = 1_000_000"

    async def main() -> None:
        async with joined(group_file(tmp_path, 3, for_ever)) as groups:
            await linked(groups)
            for number in range(1, 21):
                for name, group in groups.items():
                    await group.broadcast(b"hello")
                    others = [one for one in groups.values() if one is not group]
                    await until(lambda: all(_has(one, name, number) for one in others))  # noqa: B023
                await take(groups["p1"], 3)

    def _has(group: Group, origin: str, number: int) -> bool:
        return group.status().delivered.get(origin) == number

    go(main())
    assert not order.too_early
    assert order.data >= 3
    assert order.acks > order.riding > 0


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
