"""The folders of groups from before there were views: such a group goes on, and may change.

The line ``protocol`` is all that an operator alters, for all members while they are down.
"""

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tidings
from changing import VIEWS, newcomer
from real_groups import (
    Members,
    assert_all_hold,
    go,
    group_file,
    joined,
    linked,
    take,
    traced,
    until,
)
from tidings.core import Message
from tidings.node.group import Replayed

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAID = {"p1#1": b"one", "p1#2": b"three", "p2#1": b"two"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data", "trace"):
        shutil.copytree(FIXTURES / "before_views" / name, tmp_path / name)
    return tmp_path


def texts_of(messages: list[Message]) -> dict[str, bytes]:
    return {str(one.id): one.text for one in messages}


async def handed_over_again(groups: Members) -> None:
    """What the programs had not processed, of the three messages that there are."""
    first = await take(groups["p1"], 3)
    assert texts_of(first) == SAID
    assert all(isinstance(one, Replayed) for one in first)
    assert texts_of(await take(groups["p3"], 2)).items() < SAID.items()


def test_it_goes_on_as_it_was(folder: Path) -> None:
    config = group_file(folder, 3)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            await handed_over_again(groups)
            assert str(await (await groups["p1"].broadcast(b"four")).stable()) == "p1#3"
            with pytest.raises(tidings.UsageError, match="protocol = 'frontier' cannot change"):
                await groups["p1"].remove("p2")

    go(scenario())
    assert_all_hold(traced(config))


def test_with_views_it_goes_on_and_changes_and_its_whole_trace_holds(folder: Path) -> None:
    config = group_file(folder, 3, VIEWS)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = await stack.enter_async_context(joined(config))
            await linked(groups)
            await handed_over_again(groups)
            assert str(await (await groups["p1"].broadcast(b"four")).stable()) == "p1#3"
            p4, address = await stack.enter_async_context(newcomer(config, "p4"))
            view = await groups["p2"].add("p4", address)
            await until(lambda: all(one.view == view for one in (*groups.values(), p4)))
            await (await p4.broadcast(b"five")).stable()

    go(scenario())
    run = traced(config, up=("p1", "p2", "p3", "p4"))
    assert run.manifest.views == (("p1", "p2", "p3"), ("p1", "p2", "p3", "p4"))
    assert_all_hold(run)


def test_it_does_not_go_on_by_halves(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Members that differ refuse each other in one line, and nothing is lost by that."""
    before = group_file(folder, 3)
    later = tidings.node.config.parse_config(
        f"{VIEWS}\n{(folder / 'group.toml').read_text()}", folder / "group.toml"
    )

    async def scenario() -> None:
        async with joined(before, "p1"), joined(later, "p2"):
            await until(lambda: "p1 runs frontier, p2 views" in caplog.text)

    go(scenario())


@pytest.mark.parametrize(
    ("old", "size", "messages"), [("log_1", 3, 4), ("node_2/data", 2, 5)], ids=["log_1", "node_2"]
)
def test_a_still_older_log_goes_on_with_views(
    old: str, size: int, messages: int, tmp_path: Path
) -> None:
    shutil.copytree(FIXTURES / old / "p1", tmp_path / "data" / "p1")
    config = group_file(tmp_path, size, VIEWS, "trace.on = false")

    async def scenario() -> None:
        for _ in range(2):
            async with joined(config, "p1", acknowledge="explicitly") as one:
                again = await take(one["p1"], messages)
                assert all(isinstance(message, Replayed) for message in again)
                assert one["p1"].view.members == config.members

    go(scenario())


def test_there_is_no_way_back(folder: Path) -> None:
    async def start(protocol: str) -> None:
        async with joined(group_file(folder, 3, f'protocol = "{protocol}"'), "p1"):
            pass

    go(start("views"))
    with pytest.raises(tidings.DataError, match=r'the log has protocol = "views", the group file'):
        go(start("frontier"))
