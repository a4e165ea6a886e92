"""What a member makes of its disk: a folder that vanishes, starts that fail, a log that fills."""

import shutil
import socket
from pathlib import Path

import pytest
from real_groups import go, group_file, joined, take

from tidings.core import EnvironmentMissing, Exit


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
