"""What waits for the program, whatever it does: nothing lost, nothing twice, little in memory."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from backlog import restart, write_unread
from real_groups import go, group_file, joined, until
from tidings.core import Causes, Found, Message, MessageId, each_message, text_spans_of
from tidings.node.config import MIB, Limits
from tidings.node.disk import Disk
from tidings.node.tick import Tick
from tidings.node.unread import Replayed, Unread

MEMBERS = ("p1", "p2", "p3")


class Program:
    """Delivers, reads, gives up waiting and processes as the dice like; the disk is a list."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.disk: list[Found] = []
        self.limits = Limits(
            unread_messages=dice.choice([1, 3, 10]),
            unread_bytes=dice.choice([1, 20, 10_000]),
            recall_bytes=dice.choice([1, 2_000, 100_000]),
        )
        self.last = dict.fromkeys(MEMBERS, 0)
        self.unread = self.begun(self.last)
        self.processed: dict[str, int] = {}
        self.got: list[Message] = []

    def begun(self, delivered: dict[str, int]) -> Unread:
        unread = Unread(MEMBERS, self.limits, self.recall)
        unread.begin(delivered)
        return unread

    async def recall(
        self, first: MessageId, last: int, most_bytes: int, after: Any
    ) -> Iterable[Found]:
        """Some of what stands around it, not at once; what it asks for is kept until then."""
        assert first.seq > self.processed.get(first.origin, 0), f"{first} may be gone"
        for _ in range(self.dice.randint(0, 2)):
            await asyncio.sleep(0)
        places = {one.id: place for place, (one, _) in enumerate(self.disk)}
        place = places[first]
        return iter(self.disk[max(0, place - 2) : place + self.dice.randint(1, 5)])

    def deliver(self, count: int) -> None:
        messages: list[Message] = []
        for _ in range(count):
            origin = self.dice.choice(MEMBERS)
            causes = tuple(MessageId(*one) for one in self.last.items() if one[1])
            self.last[origin] += 1
            messages.append(Message(origin, self.last[origin], b"text"))
            self.disk.append((messages[-1], causes))
        self.unread.add(text_spans_of(messages))

    async def read(self) -> None:
        """As ``async for`` does; it may be cancelled wherever it waits."""
        while not self.unread.is_ready and self.unread.has_later:
            await self.unread.read_back(self.processed)
        if self.unread.is_ready:
            if self.unread.next == len(self.unread.hand):
                self.unread.turn()
            self.got.append(self.unread.pop())

    async def give_up_reading(self) -> None:
        reading = asyncio.create_task(self.read())
        for _ in range(self.dice.randint(0, 3)):
            await asyncio.sleep(0)
            if self.dice.random() < 0.3:
                self.deliver(1)
        reading.cancel()
        await asyncio.wait([reading])

    def restart(self) -> None:
        """What was got is processed, the rest is replayed."""
        done = dict.fromkeys(MEMBERS, 0) | self.handed()
        self.unread = self.begun(self.last)
        self.unread.replay(done, dict(self.last))

    def handed(self) -> dict[str, int]:
        return {one.id.origin: one.id.seq for one in self.got}

    async def run(self) -> None:
        for _ in range(120):
            match self.dice.choice(["deliver", "read", "read", "read", "give up"]):
                case "deliver":
                    self.deliver(self.dice.choice([1, 2, 8]))
                case "read":
                    await self.read()
                case "give up":
                    await self.give_up_reading()
            share = self.unread._rereading.share
            assert self.unread._rereading.in_memory <= len(MEMBERS) * (2 + share // 200)
            assert len(self.unread) + len(self.got) == len(self.disk)
            if self.dice.random() < 0.02:
                self.restart()
        while len(self.unread):
            await self.read()


@pytest.mark.parametrize("seed", range(60))
def test_each_comes_once_and_causes_first_whoever_gives_up_waiting(seed: int) -> None:
    program = Program(seed)
    go(program.run())
    causes: dict[MessageId, Causes] = {one.id: causes for one, causes in program.disk}
    handed = dict.fromkeys(MEMBERS, 0)
    for message in program.got:
        assert message.id.seq == handed[message.id.origin] + 1
        assert all(handed[origin] >= seq for origin, seq in causes[message.id])
        handed[message.id.origin] += 1
    assert handed == program.last


def test_what_is_replayed_comes_before_anything_new() -> None:
    program = Program(seed=1)
    program.deliver(20)
    program.restart()
    new = Message("p1", program.last["p1"] + 1, b"new")
    program.disk.append((new, ()))
    program.unread.add(text_spans_of([new]))

    async def read_all() -> None:
        while len(program.unread):
            await program.read()

    go(read_all())
    assert [type(one) for one in program.got] == [Replayed] * 20 + [Message]
    assert program.got[-1] == new


def test_what_is_processed_while_the_disk_is_read_is_not_asked_for_again() -> None:
    program = Program(seed=2)
    program.deliver(60)

    async def scenario() -> None:
        while len(program.unread):
            reading = asyncio.create_task(program.read())
            await asyncio.sleep(0)
            origin = program.dice.choice(MEMBERS)
            upto = min(program.last[origin], program.unread._handed[origin] + 3)
            program.processed[origin] = max(upto, program.processed.get(origin, 0))
            await reading

    go(scenario())
    numbers = [one.id for one in program.got]
    assert len(numbers) == len(set(numbers)) < 60, "some were left out"


def test_who_comes_back_and_does_not_listen_has_processed_everything(tmp_path) -> None:
    config = group_file(tmp_path, 1, "limits.unread_messages = 5")

    async def scenario() -> list[int]:
        async with joined(config) as groups:
            for _ in range(20):
                await (await groups["p1"].broadcast(b"text")).stable()
        unread = []
        for listen in (True, False, True):
            async with joined(config, listen=listen) as groups:
                engine = groups["p1"]._member.joined()
                await until(lambda engine=engine: engine.ticks > 0 and not engine.is_busy)
                unread.append(groups["p1"].status().unread)
        return unread

    assert go(scenario()) == [20, 0, 0]


def test_without_a_disk_everything_waits_in_memory() -> None:
    unread = Unread(MEMBERS, Limits(unread_messages=2), None)
    messages = [Message("p1", seq, b"") for seq in (1, 2, 3)]
    unread.add(text_spans_of(messages))
    assert list(each_message(unread.ready)) == messages
    assert (unread.has_later, unread.is_too_much) == (False, True)


def test_many_ticks_share_a_commit_and_very_many_share_several(tmp_path) -> None:
    """An entry is read back whole, so it must not be as long as all that waited for the disk."""
    config = group_file(tmp_path, 1, "limits.commit_bytes = 1_000")
    entries: list[tuple[Any, ...]] = []

    class CountedLog:
        about = type("", (), {"member": "p1"})
        commit = staticmethod(lambda records, *_: entries.append(records))

    async def scenario() -> None:
        disk = Disk(CountedLog(), config, lambda ticks: None, pytest.fail)  # type: ignore[arg-type]
        ticks = [Tick() for _ in range(10)]
        for number, tick in enumerate(ticks):
            tick.records, tick.bytes = [number], 400
        disk._commit(ticks)

    go(scenario())
    assert entries == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)]


def test_a_restart_with_a_long_backlog_takes_no_more_memory_than_it_may(tmp_path) -> None:
    """In a process of its own, whose peak is measured; it checks the order, too."""
    lines = [f"limits.{name}_bytes = {MIB}" for name in ("memory", "unread", "segment")]
    config = group_file(tmp_path, 3, *lines, "trace.on = false")
    write_unread(config, count=30, size=MIB // 2)
    again = restart(tmp_path / "group.toml", timeout_s=60)
    assert again.messages == 60
    assert again.read_bytes - again.base_bytes < 15 * MIB, "the backlog is 30 MiB long"
