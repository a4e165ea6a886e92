"""The doors for many messages at once, and another loop than asyncio's own."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from real_groups import DEADLINE_S, go, group_file, joined, take
from tidings.core import Message, UsageError
from tidings.node.group import Group
from tidings.node.unread import Replayed


@pytest.mark.parametrize("durable", [True, False])
def test_many_texts_are_broadcast_in_their_order(durable: bool, tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, f"durable = {str(durable).lower()}")
    texts = [b"%d" % number for number in range(5_000)]

    async def scenario() -> None:
        async with joined(config) as groups:
            p1, p2, _ = groups.values()
            receipt = await p1.broadcast_many(texts)
            assert str(await receipt.delivered()) == "p1#5000"
            assert [one.text for one in await take(p2, 5_000)] == texts

    go(scenario())


def test_as_many_as_a_window_and_no_more_are_broadcast_at_once(tmp_path: Path) -> None:
    lines = ("limits.window = 3", "limits.window_bytes = 10", "limits.text_bytes = 8")
    config = group_file(tmp_path, 1, *lines)

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            for wrong, words in (
                ([], "0 texts"),
                ([b""] * 4, "4 texts of 0 bytes at once; possible are 1 to 3 texts"),
                ([b"12345678"] * 2, "2 texts of 16 bytes at once"),
                ([b"", "word"], "a text is bytes, not str"),
                ([b"", b"123456789"], "a text of 9 bytes; 8 is the limit"),
            ):
                with pytest.raises(UsageError, match=words):
                    await p1.broadcast_many(wrong)
            receipts = [await p1.broadcast_many([b"1", b"2", b"3"]) for _ in range(4)]
            assert [str(await one.delivered()) for one in receipts][-1] == "p1#12"
            assert p1.status().own == 12, "of what was refused nothing was broadcast"

    go(scenario())


def test_many_texts_that_nobody_waits_for_any_more_are_not_broadcast(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, "limits.window = 2")

    async def scenario() -> None:
        async with joined(config, "p1", founding=True) as one:
            p1 = one["p1"]
            await p1.broadcast_many([b"1", b"2"])
            waiting = asyncio.create_task(p1.broadcast_many([b"3", b"4"]))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            async with joined(config, "p2", founding=True):
                await (await p1.broadcast(b"5")).stable()
                assert [one.text for one in await take(p1, 3)] == [b"1", b"2", b"5"]

    go(scenario())


def test_a_batch_is_processed_when_the_next_is_asked_for(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "limits.batch_messages = 3")

    async def scenario() -> list[Message]:
        async with joined(config) as groups:
            p1 = groups["p1"]
            await (await p1.broadcast_many([b"%d" % number for number in range(9)])).delivered()
            batches = p1.batches()
            seen = [message for _ in range(2) for message in await anext(batches)]
            assert [one.text for one in seen] == [b"%d" % number for number in range(len(seen))]
            rest = len(await anext(batches))
            assert rest == 3
        async with joined(config) as groups:
            return await take(groups["p1"], 3)

    again = go(scenario())
    assert [one.text for one in again] == [b"6", b"7", b"8"], "the last batch was not processed"
    assert {type(one) for one in again} == {Replayed}


def test_whoever_reads_in_between_takes_the_next_one(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> list[bytes]:
        async with joined(config) as groups:
            p1 = groups["p1"]
            await (await p1.broadcast_many([b"%d" % number for number in range(6)])).delivered()
            texts = []
            async for message in p1:
                texts += [message.text, (await anext(p1)).text]
                if len(texts) == 6:
                    return texts
        raise AssertionError

    assert go(scenario()) == [b"%d" % number for number in range(6)]


def test_a_group_lives_on_another_loop(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3)

    async def say(group: Group, text: bytes) -> None:
        for _ in range(100):
            await (await group.broadcast(text)).delivered()

    async def scenario() -> None:
        for life in (b"1", b"2"):
            async with joined(config) as groups:
                await asyncio.gather(*(say(group, life) for group in groups.values()))
                for group in groups.values():
                    new = [one for one in await take(group, 300) if type(one) is Message]
                    assert {one.text for one in new} == {life}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario(), DEADLINE_S))
