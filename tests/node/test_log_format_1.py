"""A data folder of the version before: read as it is, gone on with in the format of today."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from real_groups import go, group_file, joined, take
from tidings.core import MessageId
from tidings.node.config import Retention
from tidings.node.group import Replayed
from tidings.node.log import About, DurableLog, Recovered, open_log
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch
from tidings.protocols.frontier.records import Stored

OLD = Path(__file__).parents[1] / "fixtures" / "log_1" / "p1"
ABOUT = About("chat", "p1", ("p1", "p2", "p3"), "frontier", traced=False)
TEXTS = {
    "p1#1": b"one",
    "p1#2": b"two",
    "p1#3": bytes(1_500),
    "p1#4": b"four",
    "p2#1": b"an answer",
    "p1#5": b"five",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "data" / "p1")


def opened(folder: Path) -> tuple[DurableLog, Recovered]:
    log, found = open_log(folder, ABOUT, Frontier, incarnation=1)
    assert found is not None
    return log, found


def texts_in(records: Iterable[Any]) -> dict[str, bytes]:
    batches = [record.batch for record in records if isinstance(record, Stored)]
    return {
        str(one): text
        for batch in batches
        for one, text in zip(batch.ids(), batch.texts, strict=True)
    }


def formats(folder: Path) -> list[bytes]:
    return [path.read_bytes()[:14] for path in sorted(folder.glob("*.log"))]


def test_it_is_read_and_gone_on_with_in_the_new_format(folder: Path) -> None:
    assert formats(folder) == [b"tidings log 1\n"] * 3
    log, found = opened(folder)
    assert texts_in(found.records) == TEXTS
    assert (found.delivered, found.identity.life) == ({"p1": 5, "p2": 1}, 1)
    log.begin_life(index=0)
    log.commit((Stored(Batch(MessageId("p1", 6), (b"six",))),), b"", {"p1": (6, 6)}, messages=1)
    assert formats(folder) == [b"tidings log 1\n"] * 3 + [b"tidings log 2\n"]
    assert {"p1#3", "p1#4", "p1#5", "p1#6"} <= texts_in(log.recall("p1", 3, 6)).keys()
    log.close()
    log, found = opened(folder)
    assert texts_in(found.records) == TEXTS | {"p1#6": b"six"}
    needless = log.needless({"p1": 5, "p2": 1}, Retention(), 2**53)
    log.begin_segment((), 0, needless)
    log.throw_away()
    log.close()
    assert set(formats(folder)) == {b"tidings log 2\n"}


def test_its_torn_end_is_cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # the disk is not what is tried here
    last = max(folder.glob("*.log"))
    data = last.read_bytes()
    kept: list[int] = []
    for end in range(len(data), 14, -5):
        last.write_bytes(data[:end])
        log, found = opened(folder)
        log.close()
        kept.append(len(texts_in(found.records)))
    assert kept == sorted(kept, reverse=True)
    assert set(kept) == {6, 5}
    assert not last.exists()


def test_a_member_comes_back_from_it(folder: Path) -> None:
    config = group_file(folder.parents[1], 3, "trace.on = false")

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            again = await take(one["p1"], 4)
            assert all(isinstance(message, Replayed) for message in again)
            assert {str(message.id) for message in again} == {"p1#3", "p1#4", "p1#5", "p2#1"}
            assert all(message.text == TEXTS[str(message.id)] for message in again)
            assert one["p1"].status().own == 5

    go(scenario())
