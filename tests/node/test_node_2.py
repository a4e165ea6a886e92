"""The folders of a node from before its trace was written in the log's frames: still read."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from real_groups import go, group_file, joined, take
from tidings.node.group import Replayed
from tidings.spec import Value, judge
from tidings.trace import digest, read_runs
from tidings.trace.segments import segments_of

OLD = Path(__file__).parents[1] / "fixtures" / "node_2"
TEXTS = {"p1#1": b"one", "p1#2": bytes(1_500), "p1#3": b"three", "p1#4": b"four"}
ANSWER = {"p2#1": b"an answer"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data", "trace"):
        shutil.copytree(OLD / name, tmp_path / name)
    return tmp_path


def test_its_trace_is_read(folder: Path) -> None:
    (run,) = read_runs(folder / "trace")
    kinds = Counter((row.process, row.kind) for row in run.rows)
    assert (kinds["p1", "broadcast"], kinds["p1", "deliver"], kinds["p1", "recover"]) == (4, 5, 1)
    assert not run.holed
    broadcasts = {str(row.message): row.digest for row in run.rows if row.kind == "broadcast"}
    assert broadcasts == {name: digest(text) for name, text in (TEXTS | ANSWER).items()}


def test_a_member_comes_back_from_its_log_and_goes_on_with_its_trace(folder: Path) -> None:
    config = group_file(folder, 2)
    before = {path: path.read_bytes() for path in segments_of(folder / "trace", "p1")[:-1]}

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            again = await take(one["p1"], 5)
            assert all(isinstance(message, Replayed) for message in again)
            assert {str(message.id): message.text for message in again} == TEXTS | ANSWER

    go(scenario())
    assert {path: path.read_bytes() for path in before} == before
    (run,) = read_runs(folder / "trace")
    assert not run.holed
    assert [row.seq for row in run.histories["p1"] if row.kind == "broadcast"] == [1, 2, 3, 4]
    assert [row.kind for row in run.histories["p1"]].count("recover") == 2
    assert all(verdict.value is not Value.VIOLATED for verdict in judge(run))
