"""The trace of a running member: what it does without a disk, what it keeps, what it notices."""

import asyncio
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

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
from tidings.core import DataError, EnvironmentMissing
from tidings.node.config import Config, read_config
from tidings.node.errors import Halted
from tidings.node.keeping import Keeper
from tidings.node.tracing import Standing, TracedFacts, Tracer, _refuse_an_older_log
from tidings.spec import Value, judge
from tidings.trace import HistoryCut, Row, read_runs
from tidings.trace.cutting import OutOfSequenceError, Past, summed
from tidings.trace.schema import DIGESTS
from tidings.trace.segments import (
    Block,
    Gap,
    Item,
    Mark,
    Messages,
    Owner,
    Reader,
    encoded,
    segments_of,
)


async def say(config: Config, *texts: bytes) -> None:
    """A life of p1, alone in its group."""
    async with joined(config) as groups:
        for text in texts:
            await (await groups["p1"].broadcast(text)).delivered()
        await take(groups["p1"], len(texts))


@pytest.fixture
def in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are as long as they may be: on a slow disk they grow until the last has its name."""
    begin = Keeper._begin

    def begin_and_wait(self: Keeper, *work: Any) -> None:
        begin(self, *work)
        self.ended.result()

    monkeypatch.setattr(Keeper, "_begin", begin_and_wait)


def changed(config: Config, folder: Path, before: str, after: str) -> Config:
    path = folder / "group.toml"
    path.write_text(path.read_text().replace(before, after))
    return read_config(path)


def history(config: Config, name: str = "p1") -> list[Row]:
    (run,) = read_runs(config.trace_folder)
    return list(run.histories[name])


def gaps(config: Config) -> list[Row]:
    return [row for row in history(config) if row.kind == "gap"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.split(": ")[1] for line in caplog.messages if "the trace" in line]


# --- on, off, and on again


def test_a_trace_can_be_switched_off_and_on_again(tmp_path: Path) -> None:
    on = group_file(tmp_path, 1, "trace.on = true")
    go(say(on, b"one"))
    off = changed(on, tmp_path, "trace.on = true", "trace.on = false")
    go(say(off, b"two"))
    go(say(changed(off, tmp_path, "trace.on = false", "trace.on = true"), b"three"))
    kinds = [(row.kind, row.seq) for row in history(on) if row.kind in ("broadcast", "gap")]
    (gap,) = gaps(on)
    assert kinds == [("broadcast", 1), ("gap", gap.seq), ("broadcast", 3)]
    assert gap.value == gap.index
    (recover,) = [row for row in history(on) if row.kind == "recover"]
    assert (recover.index, recover.vector, recover.seq) == (gap.index + 1, {"p1": 2}, 2)
    run = traced(on)
    assert {verdict.value for verdict in judge(run)} == {Value.UNKNOWN}
    assert judge(run)[0].reason == "a part of p1's history is missing"


def test_a_trace_can_be_switched_on_later(tmp_path: Path) -> None:
    off = group_file(tmp_path, 1, "trace.on = false")
    go(say(off, b"one"))
    on = changed(off, tmp_path, "trace.on = false", "trace.on = true")
    go(say(on, b"two"))
    assert [(row.kind, row.index) for row in history(on)[:2]] == [("gap", 0), ("recover", 1)]


def test_lives_that_are_all_traced_leave_no_gap(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)
    for text in (b"one", b"two", b"three"):
        go(say(config, text))
    assert not gaps(config)
    assert_all_hold(traced(config))


# --- restarts


def segments(config: Config) -> list[str]:
    return [path.name for path in segments_of(config.trace_folder, "p1")]


async def come_and_go(config: Config, times: int) -> None:
    for _ in range(times):
        async with joined(config):
            pass


def test_a_hundred_restarts_make_no_file(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        await say(config, b"one")
        await come_and_go(config, 100)
        await say(config, b"two")

    go(scenario())
    assert segments(config) == ["p1-1.segment"]
    assert [row.kind for row in history(config)].count("recover") == 101
    assert not gaps(config)
    assert_all_hold(traced(config))


def test_restarts_begin_a_new_segment_when_the_last_one_is_full(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "trace.segment_bytes = 500", "trace.retention_bytes = 4000")

    async def scenario() -> None:
        for number in range(8):
            await say(config, b"%d" % number)
            await come_and_go(config, 3)

    go(scenario())
    sizes = [(config.trace_folder / name).stat().st_size for name in segments(config)]
    assert len(sizes) >= 3
    assert all(500 < size < 1_000 for size in sizes[:-1])
    assert sum(sizes) < 6_000
    assert not gaps(config)
    for verdict in judge(traced(config)):
        assert verdict.value is Value.HOLDS, verdict


@pytest.mark.parametrize("written", [0, 1, 20, None])
def test_a_member_killed_while_it_goes_on_in_a_segment_leaves_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int | None
) -> None:
    """Before, in the middle of, or after its first words."""
    config = group_file(tmp_path, 1)
    go(say(config, b"one"))
    before = history(config)

    def killed(tracer: Tracer, data: bytes) -> None:
        os.write(tracer._file, data[:written])
        raise Halted("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "_append", killed)
        with pytest.raises(Halted):
            go(say(config))
    assert segments(config) == ["p1-1.segment.open"]
    assert history(config)[: len(before)] == before
    go(say(config, b"two"))
    assert segments(config) == ["p1-1.segment"]
    assert not gaps(config)
    assert_all_hold(traced(config))


def test_a_segment_of_the_version_before_is_not_gone_on_with(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)
    go(say(config, b"one"))
    path = config.trace_folder / "p1-1.segment"
    blocks = [Owner("chat", "p1"), *Reader(path).blocks()]
    path.write_bytes(b"tidings trace 1\n" + b"".join(map(encoded, blocks)))
    go(say(config, b"two"))
    assert segments(config) == ["p1-1.segment", "p1-2.segment"]
    assert_all_hold(traced(config))


# --- a trace that cannot be written


class Failing:
    """A disk that takes half of what it is given, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self._append = Tracer._append
        monkeypatch.setattr(Tracer, "_append", lambda tracer, data: self.append(tracer, data))

    def append(self, tracer: Tracer, data: bytes) -> None:
        if self.number:
            os.write(tracer._file, data[: len(data) // 2])
            raise OSError(self.number, os.strerror(self.number))
        self._append(tracer, data)

    @contextmanager
    def with_number(self, number: int) -> Iterator[None]:
        self.number = number
        yield
        self.number = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_trace_that_cannot_be_written_is_a_warning_and_a_gap(
    tmp_path: Path, disk: Failing, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    config = group_file(tmp_path, 1, "trace.retry_ms = 1")

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            await (await p1.broadcast(b"one")).delivered()
            with disk.with_number(number):
                for _ in range(5):
                    await (await p1.broadcast(b"missing")).delivered()
            while not gaps(config):
                await (await p1.broadcast(b"missing, perhaps")).delivered()
            await (await p1.broadcast(b"last")).delivered()

    go(scenario())
    assert warnings(caplog) == ["the trace cannot be written", "the trace is written again"]
    (gap,) = gaps(config)
    rows = history(config)
    assert rows[rows.index(gap) + 1].index == gap.end
    answer = [row.seq for row in rows if row.kind == "broadcast"]
    assert gap.vector == {"p1": answer[1] - 1}
    assert answer == [1, *range(answer[1], answer[-1] + 1)]
    assert answer[1] >= 7
    assert not list(tmp_path.glob("trace/*.open"))
    assert {verdict.value for verdict in judge(traced(config))} == {Value.UNKNOWN}


def test_nothing_of_it_disturbs_the_group(tmp_path: Path, disk: Failing) -> None:
    config = group_file(tmp_path, 3, "trace.retry_ms = 1")

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            with disk.with_number(errno.ENOSPC):
                for name in ("p1", "p2", "p3"):
                    await (await groups[name].broadcast(b"hello")).stable()
            for group in groups.values():
                assert len(await take(group, 3)) == 3

    go(scenario())


def test_a_trace_that_stays_broken_looks_like_that_of_a_killed_member(
    tmp_path: Path, disk: Failing
) -> None:
    """Nobody may say that it settled: what it did last is not in its trace."""
    config = group_file(tmp_path, 1, "trace.retry_ms = 1")

    async def scenario() -> None:
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"one")).delivered()
            disk.number = errno.ENOSPC
            await (await groups["p1"].broadcast(b"missing")).delivered()

    go(scenario())
    assert [path.name for path in segments_of(config.trace_folder, "p1")] == ["p1-1.segment.open"]
    disk.number = 0
    go(say(config, b"three"))
    answer = [
        (row.kind, row.seq) for row in history(config) if row.kind in ("broadcast", "deliver")
    ]
    assert answer == [(kind, seq) for seq in (1, 2, 3) for kind in ("broadcast", "deliver")]


@pytest.mark.parametrize("setting", ["", "trace.segment_bytes = 1"])
def test_so_it_does_if_there_was_no_segment_to_write_to(
    tmp_path: Path, disk: Failing, setting: str
) -> None:
    """None could be begun: at the start, or after one that was full."""
    config = group_file(tmp_path, 1, "trace.retry_ms = 1", setting)
    go(say(config, b"one"))
    before = segments_of(config.trace_folder, "p1")
    with disk.with_number(errno.ENOSPC):
        go(say(config, b"two"))
    *most, last = segments_of(config.trace_folder, "p1")
    assert (*most, last.with_suffix("")) == (*before,)
    assert last.suffix == ".open"
    go(say(config, b"three"))
    assert [row.seq for row in history(config) if row.kind == "broadcast"] == [1, 2, 3]
    assert not list(tmp_path.glob("trace/*.open"))


def test_a_member_starts_on_a_full_disk(
    tmp_path: Path, disk: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 1, "trace.retry_ms = 1")
    go(say(config, b"one"))

    async def scenario() -> None:
        disk.number = errno.ENOSPC
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"two")).delivered()
            disk.number = 0
            while not gaps(config):
                await (await groups["p1"].broadcast(b"another")).delivered()

    go(scenario())
    assert warnings(caplog) == ["the trace cannot be written", "the trace is written again"]
    (gap,) = gaps(config)
    assert gap.index == max(row.index for row in history(config) if row.incarnation == 0) + 1


def test_a_member_starts_for_the_first_time_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 1, "trace.retry_ms = 1")
    mkdir = Path.mkdir

    def full(path: Path, *how: Any, **more: Any) -> None:
        if path == config.trace_folder:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mkdir(path, *how, **more)

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", full)
            member = joined(config)
            groups = await member.__aenter__()
            await (await groups["p1"].broadcast(b"one")).delivered()
        while not config.trace_folder.exists():
            await (await groups["p1"].broadcast(b"another")).delivered()
        await member.__aexit__(None, None, None)

    go(scenario())
    assert warnings(caplog) == ["the trace cannot be written", "the trace is written again"]
    gap, *rest = history(config)
    assert (gap.kind, gap.index) == ("gap", 0)
    assert rest[0].index == gap.end


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


@pytest.mark.parametrize("remove", [shutil.rmtree, move_away])
def test_a_trace_folder_that_is_removed_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, remove: Callable[[Path], None]
) -> None:
    config = group_file(tmp_path, 1, "trace.retry_ms = 1")

    async def scenario() -> None:
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"one")).delivered()
            remove(config.trace_folder)
            while not config.trace_folder.exists():
                await (await groups["p1"].broadcast(b"another")).delivered()
            await (await groups["p1"].broadcast(b"last")).delivered()

    go(scenario())
    assert warnings(caplog) == ["the trace cannot be written", "the trace is written again"]
    gap, *rest = history(config)
    assert (gap.kind, gap.index) == ("gap", 0)
    assert rest[0].index == gap.end


@pytest.mark.parametrize("start", [False, True])
def test_a_group_may_ask_to_stop_without_a_trace(
    tmp_path: Path, disk: Failing, start: bool
) -> None:
    config = group_file(tmp_path, 1, 'trace.on_failure = "stop"')

    async def scenario() -> None:
        disk.number = errno.ENOSPC if start else 0
        async with joined(config) as groups:
            disk.number = errno.ENOSPC
            await (await groups["p1"].broadcast(b"one")).delivered()

    with pytest.raises(EnvironmentMissing, match=r"p1-1\.segment: No space left on device"):
        go(scenario())


def _sync_of_segments(monkeypatch: pytest.MonkeyPatch, synced: Callable[[str], None]) -> None:
    sync = os.fsync

    def answer(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        if ".segment" in name:
            synced(name)
        sync(file)

    monkeypatch.setattr(os, "fsync", answer)


@pytest.mark.usefixtures("in_step")
def test_a_segment_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 1, "trace.segment_bytes = 400")
    seen: list[tuple[str, list[str]]] = []
    _sync_of_segments(monkeypatch, lambda name: seen.append((name, segments(config))))
    go(say(config, *[b"text"] * 50))
    names = segments(config)
    assert len(names) > 3
    assert [name for name, _ in seen] == [f"{name}.open" for name in names]
    for name, there in seen:
        assert name in there


@pytest.mark.parametrize("on_failure", ["warn", "stop"])
def test_a_segment_that_may_not_be_on_disk_has_no_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    on_failure: str,
) -> None:
    config = group_file(tmp_path, 1, f'trace.on_failure = "{on_failure}"')

    def broken(name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        _sync_of_segments(patch, broken)
        stopped = pytest.raises(EnvironmentMissing, match=r"p1-1\.segment: Input/output error")
        with stopped if on_failure == "stop" else nullcontext():
            go(say(config, b"one"))
    assert segments(config) == ["p1-1.segment.open"]
    assert warnings(caplog) == ["the trace cannot be written"] * (on_failure == "warn")
    go(say(config, b"two"))
    assert segments(config) == ["p1-1.segment"]
    assert_all_hold(traced(config))


@pytest.mark.parametrize(
    ("where", "fault"),
    [("_go_on", errno.EACCES), ("_append", errno.EACCES), ("_append", errno.ENOSPC)],
)
def test_a_start_that_fails_over_its_trace_leaves_no_segment_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, fault: int
) -> None:
    config = group_file(tmp_path, 1, 'trace.on_failure = "stop"')
    go(say(config, b"one"))
    done = getattr(Tracer, where)

    def failing(tracer: Tracer, *what: Any) -> None:
        done(tracer, *what)
        raise OSError(fault, os.strerror(fault))

    with monkeypatch.context() as patch:
        patch.setattr(Tracer, where, failing)
        with pytest.raises(EnvironmentMissing, match=os.strerror(fault)):
            go(say(config))
    (segment,) = segments_of(config.trace_folder, "p1")
    with segment.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


DAMAGES = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[:-5],
    "zeros at the end": lambda data: data[:-50] + bytes(50),
    "changed": lambda data: data[:-10] + b"\1" * 10,
    "a hole": lambda data: data[:60] + bytes(100) + data[160:],
    "no first line": lambda data: b"\1" + data[1:],
}


@pytest.mark.parametrize("suffix", ["", ".open"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_end_of_the_trace_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, suffix: str
) -> None:
    config = group_file(tmp_path, 1)
    go(say(config, b"one"))
    path = config.trace_folder / "p1-1.segment"
    data = DAMAGES[damage](path.read_bytes())
    path.unlink()
    path.with_name(path.name + suffix).write_bytes(data)
    is_torn = suffix == ".open" and damage in ("empty", "cut off")
    for text in (b"two", b"three"):
        go(say(config, text))
    aside = path.with_name("p1-1.segment.damaged")
    assert aside.exists() == (not is_torn)
    assert is_torn or aside.read_bytes() == data
    assert warnings(caplog) == ["the trace is damaged"] * (not is_torn)
    answer = [
        (row.kind, row.seq) for row in history(config) if row.kind in ("broadcast", "deliver")
    ]
    assert answer == [(kind, seq) for seq in (1, 2, 3) for kind in ("broadcast", "deliver")]
    assert all(verdict.value is not Value.VIOLATED for verdict in judge(traced(config)))


def test_what_the_log_no_longer_has_of_a_damaged_segment_is_missing(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "limits.segment_bytes = 300")
    for _ in range(2):
        go(say(config, *[b"text"] * 30))
    assert not (config.data / "p1" / "00000001.log").exists()
    path = config.trace_folder / "p1-1.segment"
    data = path.read_bytes()
    path.write_bytes(data[:300] + bytes([data[300] ^ 255]) + data[301:])
    before = list(_whole(path))
    go(say(config, b"after"))
    assert list(Reader(path).blocks())[: len(before)] == before != []
    gap, *_ = gaps(config)
    assert gap.index == before[-1].end
    assert {verdict.value for verdict in judge(traced(config))} == {Value.UNKNOWN}


@pytest.mark.usefixtures("in_step")
def test_a_damaged_segment_before_others_leaves_a_hole_between_them(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "trace.segment_bytes = 300")
    go(say(config, *[b"text"] * 30))
    *_, before, last, _ = segments_of(config.trace_folder, "p1")
    os.truncate(before, before.stat().st_size - 1)
    go(say(config, b"after"))
    assert before.with_name(before.name + ".damaged").exists()
    assert last.exists()
    run = traced(config)
    assert run.holed == {"p1"}
    assert {verdict.value for verdict in judge(run)} == {Value.UNKNOWN}


def _whole(path: Path) -> Iterator[Block]:
    with suppress(DataError):
        yield from Reader(path).blocks()


def test_a_second_damaged_segment_does_not_replace_the_first(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)
    for data in (b"first", b"second", b"third"):
        go(say(config, b"text"))
        (config.trace_folder / "p1-1.segment").write_bytes(data)
    go(say(config, b"text"))
    found = {path.read_bytes() for path in config.trace_folder.glob("*.damaged*")}
    assert found == {b"first", b"second", b"third"}


def test_what_stands_before_the_damage_shows_that_a_log_is_older(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)
    go(say(config, b"one"))
    shutil.copytree(config.data, tmp_path / "copy")
    go(say(config, b"two"))
    shutil.rmtree(config.data)
    (tmp_path / "copy").rename(config.data)
    path = config.trace_folder / "p1-1.segment"
    path.write_bytes(path.read_bytes() + b"\1" * 20)
    with pytest.raises(DataError, match="the log is older than its trace: p1 has broadcast p1#2"):
        go(say(config, b"three"))
    assert path.exists()


def test_a_group_may_ask_to_stop_over_a_damaged_trace(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, 'trace.on_failure = "stop"')
    go(say(config, b"one"))
    path = config.trace_folder / "p1-1.segment"
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"the log is sound. Rename it to p1-1\.segment\.damaged"):
        go(say(config, b"two"))
    path.rename(path.with_name("p1-1.segment.damaged"))
    go(say(config, b"two"))


@pytest.mark.parametrize(
    ("protocol", "way_out"),
    [("frontier", "the others go on without it"), ("views", "tidings members replace p1 helps")],
)
def test_a_damaged_trace_without_a_log_is_one_of_somebody_who_was_here(
    protocol: str, way_out: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 1, f'protocol = "{protocol}"')
    go(say(config, b"one"))
    shutil.rmtree(config.data)
    (config.trace_folder / "p1-1.segment").write_bytes(b"")
    with pytest.raises(Halted, match=f"p1 has been here before: .*{way_out}"):
        go(say(config, b"two"))


def test_who_cannot_close_its_trace_says_so_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = group_file(
        tmp_path,
        2,
        'trace.on_failure = "stop"',
        "trace.retention_bytes = 4000",
        "links.close_ms = 50",
        f'metrics.p1 = "127.0.0.1:{port}"',
    )
    gone = r"p1-1\.segment: No such file or directory"

    async def scenario() -> None:
        async with AsyncExitStack() as member:
            p1 = (await member.enter_async_context(joined(config, "p1")))["p1"]
            receipt = await p1.broadcast(b"waits for p2")
            waiting = [asyncio.create_task(one) for one in (receipt.delivered(), take(p1, 1))]
            await until(lambda: p1.status().refusal != "" and p1._reading.is_awaited)
            shutil.rmtree(config.trace_folder)
            with pytest.raises(EnvironmentMissing, match=gone):
                await member.aclose()
            for one in waiting:
                with pytest.raises(EnvironmentMissing, match=gone):
                    await one
            with pytest.raises(EnvironmentMissing, match=gone):
                await receipt.stable()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    go(scenario())


def test_an_error_of_the_program_is_not_hidden_by_that_of_its_trace(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, 'trace.on_failure = "stop"')

    async def scenario() -> None:
        async with joined(config):
            shutil.rmtree(config.trace_folder)
            raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program"):
        go(scenario())


# --- what is kept


def keep(folder: Path, *lines: str) -> Config:
    return group_file(folder, 1, "trace.segment_bytes = 400", *lines)


@pytest.mark.parametrize("is_behind", [False, True])
def test_the_oldest_segments_are_deleted_and_the_rest_is_judged_from_the_cut_on(
    tmp_path: Path, request: pytest.FixtureRequest, is_behind: bool
) -> None:
    if not is_behind:
        request.getfixturevalue("in_step")
    config = keep(tmp_path, "trace.retention_bytes = 4000")
    for life in range(3):
        go(say(config, *[b"text %d" % number for number in range(100 * life, 100 * life + 100)]))
        sizes = [path.stat().st_size for path in segments_of(config.trace_folder, "p1")]
        assert sum(sizes[:-2]) <= 4000
        assert is_behind or (sum(sizes) < 4600 and max(sizes) < 600)
    run = traced(config)
    cut = run.manifest.cuts["p1"]
    assert cut.broadcast > 100
    assert cut.delivered == {"p1": pytest.approx(cut.broadcast, abs=1)}
    assert history(config)[0].index == cut.index > 0
    assert_all_hold(run)
    assert {verdict.note for verdict in judge(run)} == {
        f"judged from the cut on (p1 from {cut.index:,})"
    }


@pytest.mark.usefixtures("in_step")
def test_a_segment_that_gets_its_name_while_it_is_looked_at_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 1, "trace.segment_bytes = 1", "trace.retention_bytes = 0")
    go(say(config, b"one", b"two", b"three"))
    config = changed(config, tmp_path, "retention_bytes = 0", "retention_bytes = 1")

    def seen_earlier(folder: Path, process: str) -> list[Path]:
        *paths, last = segments_of(folder, process)
        return [*paths, last.with_name(last.name + ".open")]

    monkeypatch.setattr("tidings.node.keeping.segments_of", seen_earlier)
    keeper = Keeper(config, "p1")
    keeper.sweep()
    keeper.ended.result()
    assert keeper.begin > 0
    assert not warnings(caplog)


@pytest.mark.usefixtures("in_step")
def test_what_is_too_old_is_deleted_at_the_start(tmp_path: Path) -> None:
    config = keep(tmp_path, "trace.retention_age_s = 3600")
    go(say(config, *[b"text"] * 50))
    old, *_, recent = before = segments_of(config.trace_folder, "p1")
    assert len(before) > 3
    for path in before[:2]:
        os.utime(path, (0, time.time() - 4000))
    go(say(config, b"text"))
    assert segments_of(config.trace_folder, "p1")[0] == before[2]
    assert recent.exists()
    assert not old.exists()
    assert_all_hold(traced(config))


@pytest.mark.usefixtures("in_step")
def test_a_cut_sums_up_the_digests_that_the_group_has_chosen(tmp_path: Path) -> None:
    config = keep(tmp_path, "trace.retention_age_s = 3600", 'trace.digest = "blake2b-64"')
    go(say(config, *[b"text %d" % number for number in range(50)]))
    for path in segments_of(config.trace_folder, "p1"):
        os.utime(path, (0, time.time() - 4000))
    go(say(config, b"text"))
    run = traced(config)
    assert_all_hold(run)
    cut = run.manifest.cuts["p1"]
    texts = [b"text %d" % number for number in range(cut.delivered["p1"])]
    assert cut.digests == {"p1": f"{summed(0, DIGESTS['blake2b-64'](texts)):032x}"}


def test_nothing_is_deleted_unless_it_is_asked_for(tmp_path: Path) -> None:
    config = keep(tmp_path)
    go(say(config, *[b"text"] * 50))
    go(say(config, b"text"))
    assert history(config)[0].index == 0
    assert not read_runs(config.trace_folder)[0].manifest.cuts


@pytest.mark.usefixtures("in_step")
def test_the_cut_is_on_disk_before_anything_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = keep(tmp_path)
    go(say(config, *[b"text"] * 50))
    before = history(config)
    asked = changed(config, tmp_path, "segment_bytes = 400", "retention_bytes = 1")

    def killed(path: Path) -> Any:
        raise OSError(errno.EIO, "killed")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        keeper = Keeper(asked, "p1")
        keeper.sweep()
        keeper.ended.result()
    cut = keeper.cut
    assert cut is not None
    assert history(config) == before[cut.index :]
    assert segments_of(config.trace_folder, "p1")[0].name == "p1-1.segment"
    keeper = Keeper(asked, "p1")
    keeper.sweep()
    keeper.ended.result()
    kept = segments_of(config.trace_folder, "p1")
    assert len(kept) == 2
    assert keeper.cut is not None
    assert history(config) == before[keeper.cut.index :]


DIGEST = bytes(8)


def blocks(*items: Item) -> list[Block]:
    found, index = [], 0
    for item in items:
        found.append(Block(index, 0, 0, (item,)))
        index = found[-1].end
    return found


def delivered(origin: str, first: int, count: int = 1) -> Messages:
    return Messages("deliver", origin, first, count, DIGEST * count)


def test_numbers_tell_what_happened_in_sequence() -> None:
    past = Past("p1", HistoryCut(index=0))
    past.read(
        blocks(
            Messages("broadcast", "p1", 1, 3, DIGEST * 3, 0),
            delivered("p2", 1, 2),
            delivered("p1", 1, 3),
            Gap("gap", 10, {"p2": 9}, 4),
            delivered("p2", 10),
            Messages("broadcast", "p1", 5, 1, DIGEST, 0),
        )
    )
    digests = {"p1": "0" * 32}  # of p2 some are missing
    assert past.cut == HistoryCut(
        index=20, broadcast=5, delivered={"p1": 3, "p2": 10}, digests=digests
    )


def texts_delivered(first: int, texts: bytes) -> Messages:
    """Texts of one byte each."""
    found = DIGESTS["xxh64-42"]([bytes([one]) for one in texts])
    return Messages("deliver", "p2", first, len(texts), found)


def reported_by(*blocks: Block, cut: HistoryCut | None = None) -> HistoryCut:
    past = Past("p1", cut)
    past.read(blocks)
    return past.cut


def test_the_digests_of_a_cut_do_not_depend_on_how_it_was_reached() -> None:
    whole = reported_by(Block(0, 0, 0, (texts_delivered(1, b"abcde"),)))
    first = reported_by(Block(0, 0, 0, (texts_delivered(1, b"ab"),)))
    more = (texts_delivered(3, b"c"), texts_delivered(4, b"de"))
    second = reported_by(Block(2, 0, 0, more), cut=first)
    assert whole == second
    for other in (b"abced", b"abcdd", b"xbcde"):
        assert reported_by(Block(0, 0, 0, (texts_delivered(1, other),))).digests != whole.digests


def test_a_cut_has_no_digests_of_what_was_not_written_down() -> None:
    before = Block(0, 0, 0, (texts_delivered(1, b"ab"),))
    after = Block(9, 0, 0, (texts_delivered(5, b"e"),))
    assert not reported_by(before, Block(2, 0, 0, (Gap("gap", 7, {"p2": 4}),)), after).digests
    recover = Mark("recover", None, {"p2": 4}, 0)
    assert not reported_by(before, Block(8, 0, 1, (recover,)), after).digests
    assert not reported_by(Block(0, 0, 0, (Messages("deliver", "p2", 1, 2),))).digests
    same = Block(8, 0, 1, (Mark("recover", None, {"p2": 2}, 0),))
    assert reported_by(before, same).digests == reported_by(before).digests


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ((delivered("p2", 1), delivered("p2", 1)), "p1 delivered p2#1 where p2#2 comes next"),
        ((delivered("p2", 2),), "p1 delivered p2#2 where p2#1 comes next"),
        ((Messages("broadcast", "p1", 2, 1, DIGEST, 0),), "broadcast p1#2 where p1#1 comes next"),
        ((Gap("gap", 1, {"p2": 5}), delivered("p2", 5)), "p2#5 where p2#6 comes next"),
    ],
)
def test_what_did_not_happen_in_sequence_is_kept(items: tuple[Item, ...], complaint: str) -> None:
    with pytest.raises(OutOfSequenceError, match=complaint):
        Past("p1", None).read(blocks(*items))


def test_after_a_missing_file_one_waits_until_it_learns_how_far_it_came() -> None:
    past = Past("p1", None)
    _, *rest = blocks(delivered("p2", 1, 7), delivered("p2", 8), Mark("recover", None, {"p2": 9}))
    past.read(rest[:1])
    assert past.unsure
    past.read(rest)
    assert past.cut == HistoryCut(index=9, delivered={"p2": 9})


@pytest.mark.usefixtures("in_step")
def test_evidence_is_not_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = keep(tmp_path)
    go(say(config, *[b"text"] * 20))
    asked = changed(config, tmp_path, "segment_bytes = 400", "retention_bytes = 1")
    first = segments_of(config.trace_folder, "p1")[0]
    whole = list(Reader(first).blocks())
    keeper = Keeper(asked, "p1")
    keeper.cut = HistoryCut(index=0, broadcast=1)
    keeper.sweep()
    keeper.sweep()
    keeper.ended.result()
    assert list(Reader(first).blocks()) == whole
    (line,) = [line for line in caplog.messages if "not shortened" in line]
    assert "p1 broadcast p1#1 where p1#2 comes next: that is evidence, which is kept" in line


# --- a log that is older than its trace


@pytest.mark.parametrize("what", ["broadcast", "delivered"])
def test_a_log_that_is_older_than_its_trace_is_refused(tmp_path: Path, what: str) -> None:
    config = group_file(tmp_path, 2)
    old, other = ("p1", "p2") if what == "broadcast" else ("p2", "p1")
    data, copy = config.data / old, tmp_path / "copy"

    async def life(text: bytes) -> None:
        async with joined(config) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(text)).stable()
            for group in groups.values():
                await take(group, 1)

    go(life(b"one"))
    shutil.copytree(data, copy)
    go(life(b"two"))
    shutil.rmtree(data)
    shutil.copytree(copy, data)

    async def start() -> None:
        async with joined(config, old):
            pass

    words = f"{data}: the log is older than its trace: {old} has {what} p1#2, of which"
    with pytest.raises(DataError, match=words):
        go(start())
    with pytest.raises(DataError, match=words):
        go(start())
    go(_alone(config, other))


async def _alone(config: Config, name: str) -> None:
    async with joined(config, name):
        pass


@pytest.mark.parametrize(
    ("delivered", "holds", "is_refused"), [(3, False, True), (3, True, False), (5, False, False)]
)
def test_a_log_has_what_was_held_unless_it_was_delivered_since(
    tmp_path: Path, delivered: int, holds: bool, is_refused: bool
) -> None:
    facts = TracedFacts()
    facts.note(Block(0, 0, 0, (Messages("held", "p2", 1, 5),)))
    standing = Standing({"p2": delivered}, 0, lambda message: holds)
    refused = pytest.raises(DataError, match="p1 has held p2#5") if is_refused else nullcontext()
    with refused:
        _refuse_an_older_log(group_file(tmp_path, 2), "p1", facts, standing)
