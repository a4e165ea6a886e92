"""Groups on loopback, all members in this process: what a program sees of them."""

import asyncio
import os
import socket
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest

import tidings
from real_groups import (
    assert_all_hold,
    everywhere_delivered,
    free_ports,
    go,
    group_file,
    joined,
    linked,
    take,
    traced,
    until,
)
from tidings.core import EnvironmentMissing, Message, MessageId, UsageError, each_message
from tidings.node.config import Address, Config, network_words
from tidings.node.errors import Closed, Halted, LogFull
from tidings.node.group import Group, Replayed

SETTINGS = {
    "durable": "durable = true",
    "memory": "durable = false",
    "origin": 'options.mode = "origin"',
    "relay": 'durable = false\nprotocol = "majority-relay"',
    "two-phase": 'durable = false\nprotocol = "two-phase"',
}


async def talk(groups: dict[str, Group], rounds: int) -> dict[str, list[Message]]:
    """Everybody says something, and answers what it hears; what each was handed."""
    heard: dict[str, list[Message]] = {name: [] for name in groups}

    async def listen(group: Group) -> None:
        answers = 0
        while len(heard[group.name]) < 2 * rounds * len(groups):
            message = await anext(group)
            heard[group.name].append(message)
            if answers < rounds:
                answers += 1
                await group.broadcast(b"%s answers %s" % (group.name.encode(), message.text))

    async with asyncio.TaskGroup() as tasks:
        for group in groups.values():
            tasks.create_task(listen(group))
            for number in range(rounds):
                await group.broadcast(b"%s says %d" % (group.name.encode(), number))
    return heard


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_everybody_is_handed_everything_once_and_answers_after_questions(
    settings: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 3, settings)

    async def scenario() -> None:
        async with joined(config) as groups:
            heard = await talk(groups, rounds=20)
        for name, messages in heard.items():
            assert len({message.id for message in messages}) == len(messages) == 120, name
            texts = [message.text for message in messages]
            for text in texts:
                _, is_answer, question = text.partition(b" answers ")
                if is_answer:
                    assert texts.index(question) < texts.index(text)

    go(scenario())
    assert_all_hold(traced(config))


def test_a_receipt_tells_what_becomes_of_a_broadcast(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(group_file(tmp_path)) as groups:
            receipt = await groups["p1"].broadcast(b"hello")
            assert await receipt.delivered() == MessageId("p1", 1)
            assert await receipt.stable() == MessageId("p1", 1)
            assert receipt.id == MessageId("p1", 1)
            assert groups["p1"].why("p1#1") == "p1 has delivered p1#1"
            status = groups["p1"].status()
            assert (status.linked, status.broadcast, status.waiting) == (("p2", "p3"), 1, 0)
            assert status.delivered == status.stable == {"p1": 1}

    go(scenario())


def test_a_receipt_shows_its_message(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            receipt = await groups["p1"].broadcast(b"hello")
            assert repr(receipt) == "<Receipt of a text that p1 has yet to take>"
            await receipt.delivered()
            assert repr(receipt) == "<Receipt of p1#1>"

    go(scenario())


def test_half_of_the_members_are_enough_and_stability_waits_for_the_last(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3") as one:
                await linked(two | one)
                # Everybody has met everybody.
                await (await two["p1"].broadcast(b"first")).stable()
            receipt = await two["p1"].broadcast(b"second")
            await receipt.delivered()
            stable = asyncio.create_task(receipt.stable())
            await asyncio.wait([stable], timeout=0.05)
            assert not stable.done()
            async with joined(config, "p3") as one:
                await stable
                texts = [message.text for message in await take(one["p3"], 2)]
                assert texts == [b"first", b"second"]

    go(scenario())


def test_a_member_that_comes_back_goes_on_where_it_stopped(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3") as one:
                await (await one["p3"].broadcast(b"from the first life")).stable()
                assert [type(message) for message in await take(one["p3"], 1)] == [Message]
            await (await two["p1"].broadcast(b"while it was away")).delivered()
            async with joined(config, "p3") as one:
                # It asked for nothing after the first message, so that one may not be processed.
                first, second = await take(one["p3"], 2)
                assert first == Replayed("p3", 1, b"from the first life")
                assert (type(second), second.text) == (Message, b"while it was away")
                receipt = await one["p3"].broadcast(b"from the second life")
                assert await receipt.stable() == MessageId("p3", 2)
                (third,) = await take(one["p3"], 1)
                assert third.id == MessageId("p3", 2)

    go(scenario())
    assert_all_hold(traced(config))


def test_what_was_processed_is_not_handed_over_again(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3", acknowledge="explicitly") as one:
                for number in range(5):
                    await (await two["p1"].broadcast(b"%d" % number)).stable()
                messages = await take(one["p3"], 5)
                one["p3"].processed(messages[2])
            async with joined(config, "p3", acknowledge="explicitly") as one:
                again = await take(one["p3"], 2)
                assert again == [Replayed(*message.id, message.text) for message in messages[3:]]
                one["p3"].processed(again[-1])
            async with joined(config, "p3") as one:
                await linked(two | one)
                await two["p1"].broadcast(b"new")
                assert [message.text for message in await take(one["p3"], 1)] == [b"new"]

    go(scenario())


def test_a_whole_group_that_stopped_comes_back(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        for life in range(3):
            async with joined(config) as groups:
                for group in groups.values():
                    receipt = await group.broadcast(b"life %d" % life)
                    assert await receipt.delivered() == MessageId(group.name, life + 1)
                if life == 2:
                    await everywhere_delivered(groups, dict.fromkeys(groups, 3))

    go(scenario())
    assert_all_hold(traced(config))


def test_what_is_kept_can_be_read_again_and_what_is_not_is_reported(tmp_path: Path) -> None:
    lines = ("limits.segment_bytes = 3000", "retention.messages = 30", "limits.window = 5")
    config = group_file(tmp_path, 2, *lines)

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            for number in range(1, 101):
                await (await groups["p1"].broadcast(b"%d" % number)).stable()
            await until(lambda: _complaint_of(groups["p2"]) != "")
        async with joined(config) as groups:
            messages = [message async for message in groups["p2"].history("p1#71")]
            assert [message.text for message in messages] == [b"%d" % n for n in range(71, 101)]
            assert [message async for message in groups["p2"].history("p1#101")] == []
            with pytest.raises(
                UsageError, match=r"p1#1 is no longer kept by p2: of p1 it keeps p1"
            ):
                await anext(groups["p2"].history("p1#1"))

    def _complaint_of(group: Group) -> str:
        disk = group._member.joined().disk
        assert disk is not None
        return "forgotten" if (disk.log.first_kept("p1") or 0) > 1 else ""

    go(scenario())
    memory = group_file(tmp_path, 1, "durable = false", "trace.on = false")

    async def in_memory() -> None:
        async with joined(memory) as groups:
            with pytest.raises(UsageError, match="p1 keeps no history: the group is not durable"):
                await anext(groups["p1"].history("p1#1"))

    go(in_memory())


def test_who_only_broadcasts_is_handed_nothing(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, "limits.unread_messages = 5")

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            receipts = [await groups["p1"].broadcast(b"%d" % number) for number in range(100)]
            await receipts[-1].stable()
            assert groups["p2"].status().unread == 0
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"new")).delivered()
            assert [message.text for message in await take(groups["p1"], 1)] == [b"new"]

    go(scenario())


def test_broadcast_waits_while_too_many_are_under_way_and_can_be_cancelled(
    tmp_path: Path,
) -> None:
    config = group_file(tmp_path, 3, "limits.window = 10", "durable = false")

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            receipts = [await one["p1"].broadcast(b"%d" % number) for number in range(10)]
            waiting = [asyncio.create_task(one["p1"].broadcast(b"late")) for _ in range(3)]
            await asyncio.wait(waiting, timeout=0.05)
            assert not any(task.done() for task in waiting)
            assert one["p1"].status().refusal.startswith("p1 starts with nothing and has yet to")
            waiting[0].cancel()
            async with joined(config, "p2", "p3") as two:
                await asyncio.gather(*(receipt.delivered() for receipt in receipts))
                for task in waiting[1:]:
                    await (await task).delivered()
                assert waiting[0].cancelled()
                texts = [message.text for message in await take(two["p2"], 12)]
                assert texts == [b"%d" % number for number in range(10)] + [b"late"] * 2

    go(scenario())


def test_a_reader_that_answers_does_not_wait_for_itself(tmp_path: Path) -> None:
    """Nobody reads while it waits for room: what makes room must come all the same."""
    lines = ("limits.window = 10", "limits.unread_messages = 20", "durable = false")
    config = group_file(tmp_path, 3, *lines)

    async def flood(group: Group) -> None:
        for number in range(500):
            await group.broadcast(b"%d" % number)

    async def answer(group: Group) -> None:
        for _ in range(1_000):
            await anext(group)
            await group.broadcast(b"answer")

    async def drain(group: Group) -> None:
        await take(group, 2_000)

    async def scenario() -> None:
        async with joined(config) as groups, asyncio.TaskGroup() as tasks:
            tasks.create_task(flood(groups["p1"]))
            tasks.create_task(flood(groups["p2"]))
            tasks.create_task(answer(groups["p3"]))
            tasks.create_task(drain(groups["p1"]))
            tasks.create_task(drain(groups["p2"]))

    go(scenario())


def test_broadcast_waits_while_too_many_bytes_are_under_way(tmp_path: Path) -> None:
    """However many texts that are; one alone may be longer."""
    config = group_file(tmp_path, 2, "limits.window_bytes = 1000", "durable = false")

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            p1 = one["p1"]
            for _ in range(3):
                await p1.broadcast(b"." * 400)
            waiting = [asyncio.create_task(p1.broadcast(b"." * 2_000)) for _ in range(2)]
            await asyncio.wait(waiting, timeout=0.05)
            assert not any(task.done() for task in waiting)
            async with joined(config, "p2"):
                for task in waiting:
                    await (await task).delivered()
                await (await p1.broadcast(b"and so on")).delivered()

    go(scenario())


@pytest.mark.parametrize("durable", [True, False])
def test_what_waits_unread_in_memory_is_limited_in_bytes(durable: bool, tmp_path: Path) -> None:
    lines = ("limits.unread_bytes = 10_000", "limits.window = 1")
    config = group_file(tmp_path, 2, *lines, f"durable = {str(durable).lower()}")

    async def scenario() -> None:
        async with joined(config) as groups:
            p1, p2 = groups.values()
            own = asyncio.create_task(take(p1, 100))
            saying = asyncio.create_task(_say_all(p1))
            await until(lambda: p2.status().unread == 100 or p2._reading.is_full)
            assert (
                sum(len(message.text) for message in each_message(p2._reading.unread.ready))
                <= 11_000
            )
            texts = [message.text for message in await take(p2, 100)]
            assert texts == [b"%d" % number * 500 for number in range(100)]
            await asyncio.gather(own, saying)

    async def _say_all(group: Group) -> None:
        for number in range(100):
            await group.broadcast(b"%d" % number * 500)

    go(scenario())


def test_a_tick_takes_texts_no_longer_than_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 1, "durable = false", "limits.batch_messages = 10")
    clock = count(step=3600.0)

    async def scenario() -> None:
        async with joined(config) as one:
            p1 = one["p1"]
            await (await p1.broadcast(b"")).delivered()
            for one in ("monotonic", "thread_time"):
                monkeypatch.setattr(f"tidings.node.tick.{one}", lambda: next(clock))
            before = p1._member.joined().ticks
            receipts = [await p1.broadcast(b"") for _ in range(100)]
            await receipts[-1].delivered()
            assert p1._member.joined().ticks - before >= 10

    go(scenario())


def test_more_texts_than_one_tick_takes_are_all_broadcast_in_order(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "limits.batch_bytes = 100", "limits.tick_bytes = 300")

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            before = p1._member.joined().ticks
            receipts = [await p1.broadcast(b"%099d" % number) for number in range(20)]
            await receipts[-1].stable()
            assert p1._member.joined().ticks - before >= 5, "at most four texts in each"
            texts = [message.text for message in await take(p1, 20)]
            assert texts == [b"%099d" % number for number in range(20)]

    go(scenario())


@pytest.mark.parametrize("durable", [True, False])
def test_a_reader_may_wait_for_what_becomes_of_its_answer(durable: bool, tmp_path: Path) -> None:
    """However much waits for it meanwhile: the acknowledgement comes behind all that."""
    lines = ("limits.unread_messages = 20", f"durable = {str(durable).lower()}")
    config = group_file(tmp_path, 3, *lines)

    async def flood(group: Group) -> None:
        for number in range(300):
            await group.broadcast(b"%d" % number)

    async def answer(group: Group) -> None:
        for _ in range(400):
            message = await anext(group)
            if message.id.origin == "p1" and message.id.seq <= 100:
                await (await group.broadcast(b"answer")).delivered()

    async def drain(group: Group) -> None:
        await take(group, 400)

    async def scenario() -> None:
        async with joined(config) as groups, asyncio.TaskGroup() as tasks:
            p1, p2, p3 = groups.values()
            await linked(groups)
            tasks.create_task(flood(p1))
            tasks.create_task(drain(p1))
            tasks.create_task(drain(p2))
            tasks.create_task(answer(p3))

    go(scenario())


def test_who_never_reads_can_broadcast_and_is_handed_everything_later(tmp_path: Path) -> None:
    """In memory wait only a few; the others are on disk, and keep their order."""
    lines = ("limits.unread_messages = 20", "limits.window = 10")
    config = group_file(tmp_path, 3, *lines)

    async def say(group: Group, rounds: int) -> None:
        for number in range(rounds):
            await (await group.broadcast(b"%s says %d" % (group.name.encode(), number))).delivered()

    async def scenario() -> None:
        async with joined(config) as groups:
            await asyncio.gather(*(say(group, 200) for group in groups.values()))
            await everywhere_delivered(groups, dict.fromkeys(groups, 200))
            p1, p2, p3 = groups.values()
            assert p1.status().unread == 600
            assert all(
                sum(map(len, group._reading.unread.ready)) <= 20 for group in groups.values()
            )
            for group in (p1, p2):
                messages = await take(group, 600)
                assert {type(message) for message in messages} == {Message}
                _assert_each_in_order(messages, 200)
                assert group.status().unread == 0
            await take(p3, 300)  # of which the last is not processed
        async with joined(config, "p3") as groups:
            messages = await take(groups["p3"], 301)
            assert {type(message) for message in messages} == {Replayed}
            assert sum(map(len, groups["p3"]._reading.unread.ready)) <= 20

    go(scenario())
    assert_all_hold(traced(config))


def _assert_each_in_order(messages: list[Message], count: int) -> None:
    for origin in ("p1", "p2", "p3"):
        texts = [message.text for message in messages if message.id.origin == origin]
        assert texts == [b"%s says %d" % (origin.encode(), number) for number in range(count)]


def test_what_is_processed_before_its_turn_is_not_handed_over(tmp_path: Path) -> None:
    """A program that keeps its own cursor may say so at once; what it names may be gone by then."""
    lines = ("limits.unread_messages = 5", "limits.segment_bytes = 500", "limits.window = 5")
    config = group_file(tmp_path, 1, *lines)

    async def scenario() -> None:
        async with joined(config, acknowledge="explicitly") as groups:
            p1 = groups["p1"]
            for number in range(1, 101):
                await (await p1.broadcast(b"%d" % number)).stable()
            p1.processed(Message("p1", 50, b""))
            log = p1._member.joined().disk.log  # type: ignore[union-attr]
            while (log.first_kept("p1") or 0) < 30:
                await (await p1.broadcast(b"more")).stable()
            messages = await take(p1, 55)
            numbers = [message.id.seq for message in messages]
            assert numbers == [1, 2, 3, 4, 5, *range(51, 101)]

    go(scenario())


def test_in_memory_who_does_not_read_stops_listening_and_is_informed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.node.condition.PATIENCE_S", 0.02)
    lines = ("limits.unread_messages = 20", "durable = false")
    config = group_file(tmp_path, 3, *lines)

    async def say(group: Group, rounds: int) -> None:
        for _ in range(rounds):
            await (await group.broadcast(b"hello")).delivered()

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            saying = asyncio.create_task(say(p1, 100))
            await until(lambda: "wait for the program" in p1.status().stuck)
            words = f"{p1.status().unread} messages wait for the program of p1 to read them"
            assert p1.why() == f"{words}: until then it hears nothing from the others"
            assert p1.status().stuck == p1.why()
            drained = [asyncio.create_task(take(group, 100)) for group in groups.values()]
            await asyncio.gather(saying, *drained)
            assert p1.why() == ""

    go(scenario())


def test_a_log_that_is_full_of_what_the_program_does_not_read_says_so(tmp_path: Path) -> None:
    lines = ("limits.unread_messages = 5", "limits.log_bytes = 5000", "limits.window = 5")
    config = group_file(tmp_path, 1, *lines, "limits.segment_bytes = 1000")

    async def say_for_ever(group: Group) -> None:
        while True:
            await (await group.broadcast(b"." * 100)).stable()

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            with pytest.raises(LogFull, match=r"until its program reads on; \d+ messages wait for"):
                await say_for_ever(p1)
            await take(p1, p1.status().unread)
            reading = asyncio.create_task(take(p1, 1))
            await until(lambda: p1._member.joined().disk.log.size < 5000)  # type: ignore[union-attr]
            await p1.broadcast(b"now there is room")
            assert [message.text for message in await reading] == [b"now there is room"]

    go(scenario())


@pytest.mark.parametrize("durable", [True, False])
def test_who_does_not_read_loses_nothing(durable: bool, tmp_path: Path) -> None:
    lines = ("limits.unread_messages = 50", "limits.window = 20")
    config = group_file(tmp_path, 3, *lines, f"durable = {str(durable).lower()}")

    async def scenario() -> None:
        async with joined(config) as groups:
            p1, p2, p3 = groups.values()
            reading = asyncio.create_task(take(p2, 2_000))
            own = asyncio.create_task(take(p1, 2_000))
            for number in range(2_000):
                await p1.broadcast(b"%d" % number)
            await reading
            assert sum(map(len, p3._reading.unread.ready)) < 1_000
            texts = [message.text for message in await take(p3, 2_000)]
            assert texts == [b"%d" % number for number in range(2_000)]
            await own

    go(scenario())


def test_leaving_leaves_nothing_unsent(tmp_path: Path) -> None:
    """Not even what is too much for the buffers of the kernel."""
    config = group_file(tmp_path, 3, "durable = false")
    spoken = [(b"%d " % number).ljust(10_000, b".") for number in range(1_000)]

    async def scenario() -> None:
        async with joined(config, "p2", "p3") as two:
            async with joined(config, "p1") as one:
                await linked(two | one)
                for text in spoken:
                    await one["p1"].broadcast(text)
            for group in two.values():
                assert [message.text for message in await take(group, len(spoken))] == spoken

    go(scenario())


def test_after_leaving_nothing_works_and_reading_ends(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        group = tidings.join("p1", config)
        with pytest.raises(Closed, match="has not joined"):
            await group.broadcast(b"too early")
        async with group:
            receipt = await group.broadcast(b"hello")
            await receipt.stable()
            reading = asyncio.create_task(_all_of(group))
        assert [message.text for message in await reading] == [b"hello"]
        with pytest.raises(Closed, match="p1 has left the group"):
            await group.broadcast(b"too late")
        with pytest.raises(Closed, match="p1 has left the group"):
            await anext(group.history("p1#1"))
        with pytest.raises(UsageError, match="joined already"):
            await group.__aenter__()

    go(scenario())


async def _all_of(group: Group) -> list[Message]:
    return [message async for message in group]


def test_a_text_is_bytes_and_not_too_long(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "limits.text_bytes = 10")

    async def scenario() -> None:
        async with joined(config) as groups:
            with pytest.raises(UsageError, match="a text is bytes, not str"):
                await groups["p1"].broadcast("hello")  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="a text of 11 bytes; 10 is the limit"):
                await groups["p1"].broadcast(b"hello world")

    go(scenario())


def test_who_is_no_member_has_no_messages(tmp_path: Path) -> None:
    """A slip of the program is told to it, and does not stop the member."""
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            with pytest.raises(UsageError, match="zed is not in the group; its members: p1"):
                p1.processed(Message("zed", 3, b""))
            with pytest.raises(UsageError, match="zed is not in the group; its members: p1"):
                await anext(p1.history("zed#1"))
            with pytest.raises(UsageError, match="zed is not in the group; its members: p1"):
                p1.why("zed#1")
            await (await p1.broadcast(b"hello")).stable()

    go(scenario())


def test_a_message_that_cannot_be_meant_is_reported(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            await (await p1.broadcast(b"hello")).stable()
            message = await anext(p1)
            with pytest.raises(UsageError, match="p1#2 is not delivered at p1 yet"):
                p1.processed(Message("p1", 2, b"not yet said"))
            with pytest.raises(UsageError, match="takes a message of this group, not MessageId"):
                p1.processed(message.id)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="3 is not the name of a message; write it as"):
                p1.why(3)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="there is no p1#0: the first message of p1 is"):
                await anext(p1.history("p1#0"))
            p1.processed(message)

    go(scenario())


def test_a_message_counts_as_processed_in_one_of_two_ways(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)
    with pytest.raises(UsageError, match="acknowledge is 'next' or 'explicitly', not 'never'"):
        tidings.join("p1", config, acknowledge="never")  # type: ignore[arg-type]


def test_there_is_one_reader_at_a_time(tmp_path: Path) -> None:
    """And when it has stopped, another may go on."""
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            p1 = groups["p1"]
            first = asyncio.create_task(_all_of(p1))
            await until(lambda: p1._reading.is_awaited)
            with pytest.raises(UsageError, match="somebody else reads the messages of p1 already"):
                async for _ in p1:
                    pass
            first.cancel()
            await asyncio.wait([first])
            await p1.broadcast(b"hello")
            assert (await anext(p1)).text == b"hello"

    go(scenario())


def test_relays_do_not_tell_stability(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "durable = false", 'protocol = "majority-relay"')

    async def scenario() -> None:
        async with joined(config) as groups:
            receipt = await groups["p1"].broadcast(b"hello")
            await receipt.delivered()
            with pytest.raises(UsageError, match="majority-relay does not tell when"):
                await receipt.stable()

    go(scenario())


# --- what goes wrong


@pytest.mark.parametrize("protocol", ["frontier", "majority-relay"])
def test_a_member_that_kept_nothing_cannot_return(protocol: str, tmp_path: Path) -> None:
    lines = ("durable = false", f'protocol = "{protocol}"', "trace.on = false")
    config = group_file(tmp_path, 3, *lines)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3") as one:
                await linked(two | one)
                await (await one["p3"].broadcast(b"hello")).delivered()
            with pytest.raises(Halted, match=r"p3 .*; its name cannot return to this group"):
                async with joined(config, "p3") as one:
                    await anext(one["p3"])
            # The others do not mind.
            await (await two["p1"].broadcast(b"still here")).delivered()

    go(scenario())


def test_a_trace_of_an_earlier_life_in_memory_is_not_continued(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "durable = false")

    async def scenario() -> None:
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"hello")).delivered()
        manifest = config.trace_folder / "p1.manifest.jsonl"
        before = manifest.read_bytes()
        other = group_file(tmp_path, 1, "durable = false", 'trace.digest = "blake2b-64"')
        with pytest.raises(UsageError, match="trace of an earlier p1, which kept nothing else"):
            async with joined(other):
                pass
        assert manifest.read_bytes() == before

    go(scenario())


def test_who_left_a_trace_and_no_log_has_lost_its_disk(tmp_path: Path) -> None:
    """And moving the trace away would not help it."""
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            await (await groups["p1"].broadcast(b"hello")).delivered()
        for file in (tmp_path / "data" / "p1").iterdir():
            file.unlink()
        with pytest.raises(Halted, match="/data/p1 is gone, and p1 has been here") as no:
            async with joined(config):
                pass
        assert "move" not in str(no.value)

    go(scenario())


@pytest.mark.parametrize("setting", ["data", "trace.folder"])
def test_a_folder_that_cannot_be_written_is_named_with_its_setting(
    setting: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 1, f'{setting} = "file"')
    (tmp_path / "file").touch()

    async def scenario() -> None:
        async with joined(config):
            pass

    words = f"needs a folder to write to: see {setting} in the group file"
    with pytest.raises(EnvironmentMissing, match=words) as refused:
        go(scenario())
    assert "is lost" not in str(refused.value)


def test_a_member_that_lost_its_disk_is_refused_on_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 3, "trace.on = false")

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3") as one:
                await (await one["p3"].broadcast(b"hello")).stable()
            for file in (tmp_path / "data" / "p3").iterdir():
                file.unlink()
            with pytest.raises(Halted, match="p3 lost its disk; its name cannot return"):
                async with joined(config, "p3") as one:
                    await anext(one["p3"])
            await (await two["p2"].broadcast(b"still here")).delivered()

    go(scenario())
    # Whoever meets it first says so; it may be gone before the other has.
    rejected = "rejected: peer p3, reason p3 lost its disk; its name cannot return to this group"
    assert any(line.endswith(rejected) for line in caplog.messages)


def test_an_older_disk_than_was_acknowledged_is_refused(tmp_path: Path) -> None:
    """A log that is whole and too short: only the others can tell."""
    config = group_file(tmp_path, 3, "trace.on = false")
    folder = tmp_path / "data" / "p3"

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            async with joined(config, "p3") as one:
                await (await one["p3"].broadcast(b"one")).stable()
            backup = {file.name: file.read_bytes() for file in folder.glob("*.log")}
            async with joined(config, "p3") as one:
                await (await one["p3"].broadcast(b"two")).stable()
            for file in folder.glob("*.log"):
                file.unlink()
            for name, data in backup.items():
                (folder / name).write_bytes(data)
            with pytest.raises(Halted, match="p3 lost its disk; its name cannot return"):
                async with joined(config, "p3") as one:
                    await _all_of(one["p3"])
            await (await two["p1"].broadcast(b"still here")).delivered()

    go(scenario())


def test_a_full_disk_stops_the_member_and_loses_nothing(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def fill_the_disk() -> None:
        async with joined(config, "p3") as one:
            await (await one["p3"].broadcast(b"before")).stable()
            disk = one["p3"]._member.joined().disk
            assert disk is not None
            assert disk.log._file is not None
            disk.log._file.close()
            disk.log._file.number = os.open("/dev/full", os.O_WRONLY)
            receipt = await one["p3"].broadcast(b"into the void")
            await receipt.delivered()

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            with pytest.raises(EnvironmentMissing, match="No space left on device; nothing that"):
                await fill_the_disk()
            await (await two["p1"].broadcast(b"meanwhile")).delivered()
            async with joined(config, "p3") as one:
                receipt = await one["p3"].broadcast(b"after")
                assert await receipt.stable() == MessageId("p3", 2)
                for group in (two | one).values():
                    texts = [message.text for message in await take(group, 3)]
                    assert texts[0] == b"before"
                    assert sorted(texts[1:]) == [b"after", b"meanwhile"]

    go(scenario())
    assert_all_hold(traced(config))


def test_a_full_log_refuses_and_names_the_silent_member(tmp_path: Path) -> None:
    # The last sixteen messages of each origin are kept in any case, for its digests.
    lines = ("limits.log_bytes = 24000", "limits.segment_bytes = 2000", "limits.window = 10")
    config = group_file(tmp_path, 3, *lines)

    async def fill(group: Group, until_all_have_it: bool) -> None:
        for _ in range(100):
            receipt = await group.broadcast(bytes(100))
            await (receipt.stable() if until_all_have_it else receipt.delivered())

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as two:
            async with joined(config, "p3", listen=False) as one:
                # As long as everybody is there, the log is forgotten as it grows.
                await fill(two["p1"], until_all_have_it=True)
                await linked(two | one)
            full = (
                "the log of p1 is full: .* bytes are kept until p3 has them too; if .* raise limits"
            )
            with pytest.raises(LogFull, match=full):
                await fill(two["p1"], until_all_have_it=False)
            async with joined(config, "p3", listen=False):
                await until(lambda: two["p1"].status().log_bytes <= 24000)
                await (await two["p1"].broadcast(bytes(100))).stable()

    go(scenario())


def test_an_address_in_use_is_reported(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, "durable = false", "trace.on = false")

    async def scenario() -> None:
        async with joined(config):
            with pytest.raises(EnvironmentMissing, match=r"p1 cannot listen on 127\.0\.0\.1:"):
                async with joined(config):
                    pass

    go(scenario())


def test_a_host_that_is_not_there_is_called_so() -> None:
    """Who looks up names has numbers of its own for what went wrong."""
    assert network_words(socket.gaierror(-2, "Name or service not known")) == (
        "Name or service not known"
    )
    long = OSError(98, "error while attempting to bind on address ('127.0.0.1', 7001)")
    assert network_words(long) == "Address already in use"


def test_one_member_runs_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            with pytest.raises(EnvironmentMissing, match=f"lock is held by process {os.getpid()}"):
                async with joined(config):
                    pass
            await (await groups["p1"].broadcast(b"not disturbed")).stable()

    go(scenario())


def test_a_stranger_is_not_a_member(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2)
    with pytest.raises(UsageError, match="p9 is not in the group; its members: p1, p2"):
        tidings.join("p9", config)


def test_a_body_that_raises_is_not_hidden_by_leaving(tmp_path: Path) -> None:
    async def scenario(config: Config) -> None:
        async with joined(config) as groups:
            await groups["p1"].broadcast(b"hello")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(scenario(group_file(tmp_path, 2, "links.close_ms = 50")))


def test_reading_that_is_cancelled_takes_nothing(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1)

    async def scenario() -> None:
        async with joined(config) as groups:
            group = groups["p1"]
            reading = asyncio.create_task(take(group, 1))
            await until(lambda: group._reading.is_awaited)
            reading.cancel()
            await asyncio.wait([reading])
            await group.broadcast(b"hello")
            assert [message.text for message in await take(group, 1)] == [b"hello"]

    go(scenario())


# --- a join that does not get there


def open_files() -> set[str]:
    """Every file and socket of this process, by what it is; the loop's own are among them."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself, which was open while we looked
            found.add(str(link.readlink()))
    return found


@pytest.mark.parametrize("durable", ["true", "false"])
def test_a_join_that_is_cancelled_leaves_nothing_open_wherever_it_was(
    durable: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    metrics = f'metrics.p1 = "127.0.0.1:{port}"'
    config = group_file(tmp_path, 2, f"durable = {durable}", metrics)

    async def cancelled_after(steps: int) -> bool:
        """Whether it had not joined by then."""
        entering = asyncio.create_task(tidings.join("p1", config).__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        if entering.done():
            await entering.result().__aexit__(None, None, None)
            return False
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        return True

    async def scenario() -> int:
        before, tasks, steps = open_files(), asyncio.all_tasks(), 0
        while await cancelled_after(steps):
            assert asyncio.all_tasks() == tasks, steps
            await until(lambda: open_files() <= before)
            steps += 1
        return steps

    assert go(scenario()) >= 2, "it was cancelled at several places"


@pytest.mark.parametrize("what", ["members", "metrics"])
def test_a_join_that_fails_leaves_nothing_open(what: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = group_file(tmp_path, 2, f'metrics.p1 = "127.0.0.1:{port}"')
    received = config.addresses["p1"] if what == "members" else config.metrics["p1"]

    async def scenario() -> None:
        group = tidings.join("p1", config)
        with socket.create_server(received):
            before, tasks = open_files(), asyncio.all_tasks()
            with pytest.raises(EnvironmentMissing):
                await group.__aenter__()
            await until(lambda: open_files() <= before)
            assert asyncio.all_tasks() == tasks
            with pytest.raises(Closed, match=f"p1 has not joined: .*{received}"):
                await group.broadcast(b"nobody is there")
        async with group:  # the same one, now that it can
            assert group.status().linked == ()

    go(scenario())


# --- a second process under the name of a member


def test_a_twin_that_is_started_again_and_again_halts_nobody_and_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the name of p1, and a folder of its own that is empty at every start."""
    caplog.set_level("INFO")
    config = group_file(tmp_path, 3, "links.close_ms = 200")
    (port,) = free_ports(1)
    elsewhere = {**config.addresses, "p1": Address("127.0.0.1", port)}

    def twins(number: int) -> Config:
        folder = tmp_path / f"twin{number}"
        return msgspec.structs.replace(
            config, addresses=elsewhere, data=folder / "data", trace_folder=folder / "trace"
        )

    async def start_a_twin(number: int) -> None:
        """Until both others have turned it away, or have refused it."""
        before = len(turned_away(caplog))
        with suppress(Halted):
            async with joined(twins(number), "p1") as twin:
                await until(
                    lambda: (
                        len(turned_away(caplog)) >= before + 2
                        or twin["p1"]._member.error is not None
                    )
                )

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            for number in range(3):
                caplog.clear()
                await start_a_twin(number)
                assert not [line for line in caplog.messages if "link down: peer p1" in line]
                await (await groups["p1"].broadcast(b"not disturbed")).stable()
            # While the links of the real one are down, the twin may get in first.
            for number in range(3, 6):
                for peer in groups["p1"]._member.transport.peers.values():
                    peer.link.transport.abort()
                await start_a_twin(number)
                await linked(groups)
                await (await groups["p1"].broadcast(b"back again")).stable()
            assert groups["p1"]._member.error is None

    go(scenario())


def turned_away(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "refuses us" in line and "another process" in line]
