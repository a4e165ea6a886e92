"""``tidings settle``: how a group ended, as whoever ran it says."""

import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import tidings as library
from changing import VIEWS, newcomer
from programs import TIDINGS, running
from real_groups import (
    assert_all_hold,
    everywhere_delivered,
    go,
    group_file,
    joined,
    linked,
    take,
    until,
)
from tidings.spec import Guarantee, Value, judge
from tidings.trace import Run, read_runs
from tidings.trace.segments import Block, Messages, Owner, Reader, segments_of, whole_segment


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Of a group of three that has talked and left in good order."""
    config = group_file(tmp_path, 3, 'trace.digest = "blake2b-64"')

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            for group in groups.values():
                await group.broadcast(b"hello")
            await everywhere_delivered(groups, {"p1": 1, "p2": 1, "p3": 1})

    go(scenario())
    return config.trace_folder


def the_run(trace: Path) -> Run:
    (run,) = read_runs(trace)
    return run


def test_all_is_judged_once_it_is_stated_how_it_ended(trace: Path, tidings: Any) -> None:
    assert Value.UNKNOWN in {verdict.value for verdict in judge(the_run(trace))}
    answer = tidings("settle", "trace")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == (
        "settled  p1, p2 and p3 of chat, up to the end\nnext     tidings audit trace\n"
    )
    assert_all_hold(the_run(trace))
    assert the_run(trace).manifest.fates == {"p1": "up", "p2": "up", "p3": "up"}


def test_who_crashed_is_owed_nothing(trace: Path, tidings: Any) -> None:
    (trace / "runner.manifest.jsonl").write_text('{"schema": 1, "run": "chat", "seed": 7}\n')
    answer = tidings("settle", "trace", "--crashed", "p3")
    assert answer.status == 0, answer.err
    assert "crashed  p3\n" in answer.out
    manifest = the_run(trace).manifest
    assert manifest.fates == {"p1": "up", "p2": "up", "p3": "crashed"}
    assert manifest.seed == 7, "what the runner had told is gone"
    assert_all_hold(the_run(trace))


def test_it_is_stated_once(trace: Path, tidings: Any) -> None:
    assert tidings("settle", "trace").status == 0
    before = sorted(trace.iterdir())
    answer = tidings("settle", "trace")
    assert answer.status == 64
    assert answer.err.startswith("tidings: trace is settled already")
    assert sorted(trace.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (["trace", "--crashed", "zed"], 64, "zed is not in run chat; its members: p1, p2, p3"),
        (["trace", "--up", "p4"], 64, "p4 is not in run chat; its members: p1, p2, p3"),
        (["trace", "--up", "p1", "--crashed", "p1"], 64, "p1 cannot be --crashed and --up"),
        (["nowhere"], 64, "nowhere: no such file or folder"),
        (["trace/p1-1.segment"], 64, "not the trace folder of a group on a real network"),
        (["data"], 65, "data: no trace here"),
        (
            ["trace", "--crashed", "p1", "--crashed", "p2", "--crashed", "p3"],
            64,
            "somebody has to be up at the end",
        ),
    ],
)
def test_what_cannot_be_settled_is_reported(
    words: list[str], status: int, complaint: str, trace: Path, tidings: Any
) -> None:
    before = sorted(trace.iterdir())
    answer = tidings("settle", *words)
    assert answer.status == status
    assert complaint in answer.err
    assert sorted(trace.iterdir()) == before


def test_who_never_came_was_not_up(trace: Path, tidings: Any) -> None:
    (trace / "p3-1.segment").unlink()
    answer = tidings("settle", "trace")
    assert answer.status == 64
    assert answer.err == (
        "tidings: p3 has no trace here: if it ran on another machine, copy it here; if it has "
        "never come, say --crashed p3\n"
    )


def test_who_still_runs_has_not_ended_and_who_was_killed_was_not_up(
    tmp_path: Path, tidings: Any
) -> None:
    group_file(tmp_path, 1)

    async def scenario() -> None:
        async with running(tmp_path, TIDINGS, "node", "p1") as p1:
            p1.type("hello")
            await p1.says("p1#1 hello")
            answer = tidings("settle", "trace")
            assert answer.status == 64
            assert answer.err.startswith("tidings: p1 is still running")
            p1.process.kill()
            await p1.ends()
        answer = tidings("settle", "trace")
        assert answer.status == 64
        assert answer.err.startswith("tidings: p1 never closed p1-1.segment.open: it was killed")
        async with running(tmp_path, TIDINGS, "node", "p1") as p1:
            await until(lambda: any("joined" in line for line in p1.err), every_s=0.01)
            p1.process.send_signal(signal.SIGTERM)
            assert await p1.ends() == 0
        assert tidings("settle", "trace").status == 0

    go(scenario())
    assert_all_hold(the_run(tmp_path / "trace"))


@pytest.fixture
def cut_short(trace: Path) -> Path:
    """As if p1 had left before anything was delivered there, and p2 before the last message."""
    for name, place in (("p1", 0), ("p2", -1)):
        (file,) = segments_of(trace, name)
        blocks = list(Reader(file).blocks())
        end = [number for number, one in enumerate(blocks) if _delivers(one)][place]
        file.write_bytes(whole_segment(Owner("chat", name), *blocks[:end]))
    return trace


def _delivers(block: Block) -> bool:
    return any(isinstance(one, Messages) and one.kind == "deliver" for one in block.items)


def test_who_ends_without_a_message_is_asked_about(cut_short: Path, tidings: Any) -> None:
    before = sorted(cut_short.iterdir())
    answer = tidings("settle", "trace")
    assert answer.status == 64
    assert re.match(r"tidings: p1 ends without p\d#1: start the members once more", answer.err)
    answer = tidings("settle", "trace", "--up", "p1")
    assert answer.status == 64
    assert answer.err.startswith("tidings: p2 ends without ")
    assert sorted(cut_short.iterdir()) == before
    assert tidings("settle", "trace", "--crashed", "p1", "--up", "p2").status == 0
    verdicts = {one.guarantee: one.value for one in judge(the_run(cut_short))}
    assert verdicts[Guarantee.UNIFORM_AGREEMENT] is Value.VIOLATED


@pytest.mark.parametrize("hears", [True, False], ids=["hears of it", "had left before"])
def test_whoever_was_removed_need_not_be_named(hears: bool, tmp_path: Path, tidings: Any) -> None:
    config = group_file(tmp_path, 3, VIEWS, 'trace.digest = "blake2b-64"')

    async def scenario() -> None:
        p3 = await library.join("p3", config)
        async with joined(config, "p1", "p2") as groups:
            await linked(groups | {"p3": p3})
            await (await p3.broadcast(b"hello")).stable()
            if not hears:
                await p3.close()
            await groups["p1"].remove("p3")
            if hears:
                with pytest.raises(library.Removed):
                    await take(p3, 2)
                with pytest.raises(library.Halted):
                    await p3.close()
            await (await groups["p1"].broadcast(b"without p3")).stable()

    go(scenario())
    answer = tidings("settle", "trace")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("settled  p1 and p2 of chat, up to the end\nremoved  p3\n")
    answer = tidings("audit", "--local", "trace")
    assert answer.status == 0, answer.out


def test_what_was_on_a_lost_disk_is_unknown_and_not_denied(tmp_path: Path, tidings: Any) -> None:
    """p2 is started once more without its disk, turned away, and replaced."""
    config = group_file(tmp_path, 3, VIEWS, 'trace.digest = "blake2b-64"')

    async def scenario() -> None:
        p2 = await library.join("p2", config)
        async with joined(config, "p1", "p3") as groups:
            await linked(groups | {"p2": p2})
            await (await p2.broadcast(b"hello")).stable()
            await p2.close()
            shutil.rmtree(config.data / "p2")
            for file in config.trace_folder.glob("p2*"):
                file.unlink()
            again = await library.join("p2", config)
            with pytest.raises(library.Halted, match="p2 lost its disk"):
                await again.ready()
            with pytest.raises(library.Halted):
                await again.close()
            async with newcomer(config, "p2+1") as (_, address):
                await groups["p1"].replace("p2", address)

    go(scenario())
    answer = tidings("settle", "trace")
    assert answer.status == 0
    assert "\nlost     what p2 did: no broadcast and no delivery is in its trace." in answer.out
    answer = tidings("audit", "--local", "trace")
    assert answer.status == 2, answer.out
    assert "violated" not in answer.out


@pytest.mark.usefixtures("spark")
def test_the_audit_names_the_way_to_say_it(trace: Path, tidings: Any) -> None:
    answer = tidings("audit", "trace")
    assert answer.status == 2
    assert answer.out.endswith("To say how it ended: tidings settle trace --help\n")
    assert tidings("settle", "trace").status == 0
    answer = tidings("audit", "trace")
    assert answer.status == 0
    assert "tidings settle" not in answer.out
