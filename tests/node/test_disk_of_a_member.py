"""What a member makes of its disk: a folder that vanishes, starts that fail, a log that fills."""

import asyncio
import os
import re
import shutil
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from real_groups import go, group_file, joined, linked, take, until
from tidings.core import EnvironmentMissing, Exit, Start, take_first
from tidings.node.config import Config
from tidings.node.disk import Disk
from tidings.node.group import Group, join
from tidings.node.log import About, Records, open_log
from tidings.node.tick import Tick
from tidings.protocols.frontier.packets import Counts, Holding
from tidings.protocols.frontier.records import Forgotten


def test_a_member_stops_when_its_folder_is_deleted_under_it(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def lose_the_folder() -> None:
        async with joined(config, "p3") as one:
            await (await one["p3"].broadcast(b"before")).stable()
            shutil.rmtree(tmp_path / "data" / "p3")
            await (await one["p3"].broadcast(b"into the void")).delivered()

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            with pytest.raises(EnvironmentMissing, match="deleted or replaced while it") as fault:
                await lose_the_folder()
            assert fault.value.status == Exit.ENVIRONMENT
            await (await two["p1"].broadcast(b"still here")).delivered()
            assert two["p1"].status().delivered.get("p3") == 1, "what was not kept has not left"

    go(scenario())


def files_in(folder: Path) -> dict[str, bytes]:
    """All files of a group, but the locks, which name the last process."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("lock", "group.toml")
    }


def test_a_start_that_fails_leaves_no_segment_of_log_or_trace(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def enter() -> None:
        async with joined(config) as one:
            await (await one["p1"].broadcast(b"text")).delivered()

    def fail() -> None:
        with socket.create_server(config.addresses["p1"]):
            for _ in range(3):
                with pytest.raises(EnvironmentMissing, match="p1 cannot listen on"):
                    go(enter())

    fail()
    assert files_in(tmp_path) == {}
    go(enter())
    before = files_in(tmp_path)
    assert {"data/p1/00000001.log", "trace/p1-1.segment"} < before.keys()
    fail()
    assert files_in(tmp_path) == before
    go(enter())


def test_restarts_do_not_add_files_to_the_log(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "trace.on = false")

    async def enter(text: bytes) -> list[bytes]:
        async with joined(config) as one:
            await (await one["p1"].broadcast(text)).delivered()
            return [message.text for message in await take(one["p1"], 1)]

    texts = [b"%d" % life for life in range(5)]
    for text in texts:
        go(enter(text))
    assert list(files_in(tmp_path)) == ["data/p1/00000001.log"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("p1: the log fills up")]


def test_a_log_that_fills_up_is_reported_at_three_levels_with_the_member_it_is_kept_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ("limits.log_bytes = 40_000", "limits.segment_bytes = 4_000", "trace.on = false")
    config = group_file(tmp_path, 3, *lines)

    async def fill(group: Group, percent: int) -> None:
        while not any(f"percent {percent}, bytes" in line for line in warnings(caplog)):
            await (await group.broadcast(bytes(400))).delivered()
            group._member.condition.watch_the_log()

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as two:
            p1 = two["p1"]
            async with joined(config, "p3", listen=False) as three:
                await linked(two | three)
                await (await p1.broadcast(b"all are here")).stable()
            await fill(p1, 95)
            answer = warnings(caplog)
            assert all(line.endswith("limit 40000, kept_for p3") for line in answer)
            assert [re.findall(r"percent (\d+)", line) for line in answer] == [
                ["50"],
                ["80"],
                ["95"],
            ]
            async with joined(config, "p3", listen=False) as three:
                await linked(two | three)
                while p1.status().log_bytes > 15_000:
                    await (await p1.broadcast(bytes(400))).stable()
                    p1._member.condition.watch_the_log()
            caplog.clear()
            await fill(p1, 50)

    go(scenario())


@pytest.mark.parametrize("size", range(300, 400, 10))
def test_a_log_that_nobody_needs_is_not_full(size: int, tmp_path: Path) -> None:
    """Also if it became too long with the last thing that happened: the next makes it shorter."""
    lines = ("limits.log_bytes = 20_000", "limits.segment_bytes = 4_000", "trace.on = false")
    config = group_file(tmp_path, 3, *lines)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True, listen=False) as two:
            p1 = two["p1"]
            while p1.status().log_bytes < 19_000:
                await (await p1.broadcast(bytes(size))).delivered()
            async with joined(config, "p3", founding=True, listen=False) as three:
                await linked(two | three)
                while p1.status().log_bytes > 12_000:
                    await (await p1.broadcast(bytes(size))).stable()

    go(scenario())


def test_a_log_that_fills_up_is_reported_with_the_program_that_does_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.node.condition.PATIENCE_S", 0.01)
    lines = ("limits.log_bytes = 40_000", "limits.segment_bytes = 4_000", "trace.on = false")
    config = group_file(tmp_path, 1, *lines)

    async def scenario() -> None:
        async with joined(config) as one:
            while not warnings(caplog):
                await (await one["p1"].broadcast(bytes(400))).delivered()

    go(scenario())
    reason = r"kept_for the program: \d+ messages wait for the program of p1 to read them"
    assert re.search(reason, warnings(caplog)[0])


class SlowDisk:
    """A disk that finishes no sync before it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        sync = os.fdatasync

        def slow(file: int) -> None:
            self.is_asked.set()
            self.may_go_on.wait(30)
            sync(file)

        monkeypatch.setattr(os, "fdatasync", slow)

    def stop(self) -> None:
        self.may_go_on.clear()
        self.is_asked.clear()

    async def member_that_writes(self, config: Config) -> Group:
        """p1, which waits for this disk with its second text."""
        p1 = join("p1", config, founding=True)
        await p1.__aenter__()
        await (await p1.broadcast(b"one")).delivered()
        self.stop()
        await p1.broadcast(b"two")
        await until(self.is_asked.is_set)
        return p1


def test_what_is_delivered_and_not_on_disk_yet_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 1, "trace.on = false")
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        async with joined(config) as one:
            p1 = one["p1"]
            await (await p1.broadcast(b"one")).delivered()
            disk.stop()
            receipt = await p1.broadcast(b"two")
            try:
                await until(disk.is_asked.is_set)
                assert p1.why("p1#2") == "p1#2 waits at p1 for its disk, which has yet to write it"
                monkeypatch.setattr("tidings.node.disk.SLOW_S", 0.0)
                assert p1.why() == "p1 waits for its disk, which takes longer than 0.5 s to write"
            finally:
                disk.may_go_on.set()
            await receipt.delivered()
            assert p1.why("p1#2") == "p1 has delivered p1#2"

    go(scenario())


def test_leaving_waits_for_a_disk_that_hangs_without_holding_up_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 1, "links.close_ms = 50")
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        p1 = await disk.member_that_writes(config)
        leaving = asyncio.create_task(p1.__aexit__(None, None, None))
        engine = p1._member.joined()
        await until(lambda: engine._is_stopped)
        assert engine.disk is not None
        assert not leaving.done()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not disk.may_go_on.is_set()
        with pytest.raises(EnvironmentMissing, match="is held by process"):
            await join("p1", config).__aenter__()
        disk.may_go_on.set()
        await until(engine.disk.ended.done)
        async with joined(config) as one:
            await until(lambda: one["p1"].status().own == 2)

    go(scenario())


@pytest.mark.parametrize("has_a_frame", [False, True])
def test_a_record_that_nothing_waits_for_holds_up_no_frame(
    tmp_path: Path, has_a_frame: bool
) -> None:
    config = group_file(tmp_path, 3, "trace.on = false")

    async def scenario() -> None:
        async with joined(config) as groups:
            engine = groups["p1"]._member.joined()
            assert engine.disk is not None
            await engine.drain()
            tick, packet = Tick(), Holding(Counts(all=(0, 0, 0)))
            tick.records = [Forgotten((0, 0, 0))]
            if has_a_frame:
                tick.packets = {("p2",): [(packet, engine._encode(packet), 0)]}
            engine._seal(tick)
            assert engine.disk.is_idle is not has_a_frame

    go(scenario())


def test_what_still_waits_for_the_disk_when_its_member_is_gone_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 1, "links.close_ms = 50")
    disk = SlowDisk(monkeypatch)
    faults: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: faults.append(about))
        p1 = await disk.member_that_writes(config)
        await p1.broadcast(b"three")
        engine = p1._member.joined()
        assert engine.disk is not None
        await until(lambda: engine.disk.waiting)
        leaving = asyncio.create_task(p1.__aexit__(None, None, None))
        await until(lambda: engine._is_stopped)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        disk.may_go_on.set()
        await until(engine.disk.ended.done)
        async with joined(config) as one:
            await until(lambda: one["p1"].status().own == 2)

    go(scenario())
    assert not faults


def test_what_the_trace_has_yet_to_say_stays_in_the_log(tmp_path: Path) -> None:
    """Also when its commit begins a new segment, and nobody needs the messages of the old one."""
    config = group_file(tmp_path, 1, "limits.segment_bytes = 1")
    process = config.process("p1", take_first)
    process.step(Start(1, None, founding=True))
    about = About(config.name, "p1", config.members, config.protocol, traced=True)
    folder = tmp_path / "data"
    kept: list[list[bytes]] = []

    async def scenario() -> None:
        log, _ = open_log(folder, about, type(process), incarnation=1)
        log.begin_life(0)

        def finish(ticks: Sequence[Tick]) -> bool:
            kept.append(list(Records([*log.thrown, *log._segments], log._decode).blocks(0)))
            return len(kept) != 2

        disk = Disk(log, config, finish, pytest.fail)
        for number in range(3):
            tick = Tick()
            tick.block, tick.index = b"what happened %d" % number, number + 1
            disk.add(tick, process)
            disk.flush()
            await until(lambda: len(kept) > number)  # noqa: B023
            if number != 1:  # otherwise it was stopped, and its next life has to say it
                await until(lambda: len(list(folder.glob("*.log"))) == 1)
        disk.close()
        disk.ended.result()

    go(scenario())
    first, second, third = (b"what happened %d" % number for number in range(3))
    assert kept == [[first], [second], [second, third]]
