"""Leaving while messages are under way: what the others deliver, whoever leaves delivers, too."""

import asyncio
from pathlib import Path

import pytest

import tidings
from changing import VIEWS
from real_groups import assert_all_hold, go, group_file, joined, linked, traced, until

SETTINGS = {
    "durable": "durable = true",
    "memory": "durable = false",
    "origin": 'options.mode = "origin"',
    "views": VIEWS,
    "relay": 'durable = false\nprotocol = "majority-relay"',
}
COUNT = 50


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_whoever_leaves_delivers_its_own_first(setting: str, tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, setting)

    async def scenario() -> None:
        async with joined(config, "p2", "p3", listen=False) as others:
            async with tidings.join("p1", config, listen=False) as p1:
                await linked({"p1": p1, **others})
                receipts = [await p1.broadcast(b"good-bye") for _ in range(COUNT)]
                assert p1.status().waiting
            for receipt in receipts:
                await receipt.delivered()
            for one in others.values():
                await until(lambda one=one: one.status().delivered["p1"] == COUNT)

    go(scenario())
    assert_all_hold(traced(config))


def test_all_that_leave_at_once_deliver_their_own(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3)

    async def scenario() -> list[tidings.Receipt]:
        groups = [await tidings.join(name, config, listen=False) for name in config.members]
        await linked({group.name: group for group in groups})
        receipts = [await group.broadcast(b"good-bye") for group in groups for _ in range(COUNT)]
        async with asyncio.TaskGroup() as tasks:
            for group in groups[:2]:  # these two are enough for each other
                tasks.create_task(group.close())
        await groups[2].close()
        return receipts

    async def delivered() -> None:
        for receipt in (await scenario())[: 2 * COUNT]:
            await receipt.delivered()

    go(delivered())


def test_who_cannot_deliver_leaves_at_once_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 3, "links.close_ms = 600_000")

    async def scenario() -> None:
        async with tidings.join("p1", config, founding=True) as p1:
            await p1.broadcast(b"is anybody there?")
            await until(lambda: p1.status().broadcast == 1)

    go(scenario())
    (line,) = (one for one in caplog.messages if "left in haste" in one)
    assert "never_broadcast 0, not_delivered 1, reason p1#1 waits at p1 for" in line
