"""Newcomers come by the state of a program that was there before them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

import tidings
from changing import VIEWS, newcomer
from real_groups import MEMORY, free_ports, go, group_file, linked, until
from tidings.node.config import Config
from tidings.node.group import Group
from tidings.node.transport import Transport
from tidings.node.wire import SnapshotPiece, SnapshotWords

SMALL = "limits.snapshot_piece_bytes = 7"


class Tally:
    """A program that counts words, and whose counts are wrong if a message comes twice."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.snapshot = tidings.Snapshot(self.make, self.take)
        self.took = 0
        self.made = 0

    def make(self) -> Iterator[bytes]:
        self.made += 1
        return iter([msgspec.json.encode(dict(self.counts))])

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        whole = b"".join([piece async for piece in pieces])
        self.counts = Counter(msgspec.json.decode(whole, type=dict[str, int]))
        self.took += 1

    async def read(self, group: Group) -> None:
        async for message in group:
            self.counts[message.text.decode()] += 1


class Programs:
    """Members whose programs tally what they read."""

    def __init__(self, config: Config, stack: AsyncExitStack) -> None:
        self.config = config
        self.groups: dict[str, Group] = {}
        self.tallies: dict[str, Tally] = {}
        self._stack = stack

    async def start(self) -> None:
        for name in self.config.members:
            tally = Tally()
            group = tidings.join(name, self.config, snapshot=tally.snapshot)
            self._run(name, await self._stack.enter_async_context(group), tally)
        await linked(self.groups)

    async def come(self, name: str) -> str:
        tally = Tally()
        entered = newcomer(self.config, name, snapshot=tally.snapshot)
        group, address = await self._stack.enter_async_context(entered)
        self._run(name, group, tally)
        return address

    def _run(self, name: str, group: Group, tally: Tally) -> None:
        reading = asyncio.create_task(tally.read(group))
        self._stack.callback(reading.cancel)
        self.groups[name], self.tallies[name] = group, tally

    async def agree_on(self, counts: dict[str, int]) -> None:
        await until(lambda: all(one.counts == counts for one in self.tallies.values()))


@pytest.mark.parametrize("lines", [(), (SMALL,)])
def test_a_newcomer_has_the_state_of_the_others(lines: tuple[str, ...], tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, *lines)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            for number in range(30):
                await programs.groups[f"p{number % 3 + 1}"].broadcast(b"word %d" % (number % 10))
            address = await programs.come("p4")
            await programs.groups["p2"].add("p4", address)
            for group in programs.groups.values():
                await group.broadcast(b"after")
            counts = {f"word {number}": 3 for number in range(10)} | {"after": 4}
            await programs.agree_on(counts)
            assert programs.tallies["p4"].took == 1
            assert sum(one.made for one in programs.tallies.values()) == 1

    go(scenario())


def test_the_next_newcomer_waits_until_the_last_one_has_its_state(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, "links.hello_ms = 1000")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            fourth, fifth = await programs.come("p4"), await programs.come("p5")
            release = asyncio.Event()
            take = programs.tallies["p4"].take

            async def slowly(pieces: AsyncIterator[bytes]) -> None:
                await release.wait()
                await take(pieces)

            p4 = programs.groups["p4"]._member
            p4._snapshot = tidings.Snapshot(programs.tallies["p4"].make, slowly)
            await programs.groups["p1"].add("p4", fourth)
            await linked({name: programs.groups[name] for name in ("p1", "p2", "p3", "p4")})
            with pytest.raises(
                tidings.ChangeDenied, match="p4, which was added last, is not known"
            ):
                await programs.groups["p1"].add("p5", fifth)
            release.set()
            await until(lambda: programs.tallies["p4"].took == 1)
            await until(lambda: programs.groups["p4"]._member.joined().membership.has_state)
            view = await programs.groups["p1"].add("p5", fifth)
            assert view.members == ("p1", "p2", "p3", "p4", "p5")
            await until(lambda: programs.tallies["p5"].took == 1)

    go(scenario())


def test_if_the_source_is_lost_another_one_gives_the_snapshot_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, SMALL)
    cut: list[str] = []
    say = Transport.say

    def say_half(transport: Transport, name: str, words: SnapshotWords) -> None:
        """The first to give anything loses its link half-way."""
        if isinstance(words, SnapshotPiece) and words.number == 3 and not cut:
            cut.append(transport.me)
            transport.overflow(name, 0)
        else:
            say(transport, name, words)

    monkeypatch.setattr(Transport, "say", say_half)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            for number in range(10):
                await programs.groups["p1"].broadcast(b"word %d" % number)
            address = await programs.come("p4")
            await programs.groups["p1"].add("p4", address)
            await programs.agree_on({f"word {number}": 1 for number in range(10)})
            assert cut
            assert programs.tallies["p4"].took == 1

    go(scenario())


def test_a_snapshot_that_is_not_as_it_was_made_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)
    altered: list[str] = []
    say = Transport.say

    def say_wrong(transport: Transport, name: str, words: SnapshotWords) -> None:
        if isinstance(words, SnapshotPiece) and not altered:
            altered.append(transport.me)
            words = SnapshotPiece(words.serial, words.number, b'{"word": 17}')
        say(transport, name, words)

    monkeypatch.setattr(Transport, "say", say_wrong)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            await programs.groups["p1"].broadcast(b"word")
            await programs.agree_on({"word": 1})
            address = await programs.come("p4")
            await programs.groups["p1"].add("p4", address)
            await programs.agree_on({"word": 1})
            assert programs.tallies["p4"].took == 1

    go(scenario())
    assert any("it is not as it was made" in line for line in caplog.messages)


def test_a_member_that_is_asked_no_longer_keeps_nothing_of_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS, "limits.snapshot_wait_ms = 200")
    monkeypatch.setattr("tidings.node.snapshot.random.shuffle", list.sort)

    async def unending() -> AsyncIterator[bytes]:
        yield b"the first of many"
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            giving = programs.groups["p1"]._member._giving
            giving._snapshot = tidings.Snapshot(lambda: unending(), programs.tallies["p1"].take)
            await programs.groups["p1"].broadcast(b"word")
            address = await programs.come("p3")
            await programs.groups["p1"].add("p3", address)
            await until(lambda: "p3" in giving._given)
            await programs.agree_on({"word": 1})
            await until(lambda: "p3" not in giving._given)
            assert "p3" in programs.groups["p1"].status().linked

    go(scenario())


def test_who_does_not_know_the_newcomer_yet_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p3 has yet to install the view; without a word of it, p4 would wait for a piece in vain."""
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, "limits.snapshot_wait_ms = 300_000")
    monkeypatch.setattr("tidings.node.snapshot.random.shuffle", lambda one: one.sort(reverse=True))

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            await programs.groups["p1"].broadcast(b"word")
            await programs.agree_on({"word": 1})
            address = await programs.come("p4")
            hearing = programs.groups["p4"]._member.transport.hearing
            await until(lambda: hearing() == ["p1", "p2", "p3"])
            slow = programs.groups["p3"]._member.joined()
            with monkeypatch.context() as stopped:
                stopped.setattr(slow, "_tick", lambda: None)
                await programs.groups["p1"].add("p4", address)
                await until(lambda: programs.tallies["p4"].took == 1)
                assert len(programs.groups["p3"].view.members) == 3
            slow._tick()
            await programs.agree_on({"word": 1})

    go(scenario())


def test_nobody_but_members_is_asked_for_a_snapshot(tmp_path: Path) -> None:
    """p3 was removed and is still needed, since p2 does not take part: a guest of whoever comes."""
    config = group_file(tmp_path, 4, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            address = await programs.come("p5")
            transport = programs.groups["p5"]._member.transport
            await until(lambda: transport.hearing() == ["p1", "p2", "p3", "p4"])
            asleep = programs.groups["p2"]._member
            asleep.joined().stop()
            asleep.transport.fall_silent()
            await until(lambda: programs.groups["p1"].status().missing == ("p2",))
            await programs.groups["p1"].remove("p3")
            view = await programs.groups["p1"].add("p5", address)
            await until(lambda: programs.groups["p5"].view == view)
            assert transport.peers["p3"].link is not None
            assert {*transport.hearing()} <= {"p1", "p4"}
            await until(lambda: programs.tallies["p5"].took == 1)

    go(scenario())


@pytest.mark.parametrize("lines", [(), ("limits.unread_messages = 1",)])
def test_a_newcomer_that_is_removed_before_it_has_its_state_stops(
    lines: tuple[str, ...], tmp_path: Path
) -> None:
    config = group_file(tmp_path, 2, VIEWS, *lines)

    async def never(pieces: AsyncIterator[bytes]) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            (port,) = free_ports(1)
            address = f"127.0.0.1:{port}"
            snapshot = tidings.Snapshot(Tally().make, never)
            p3 = tidings.join("p3", config, address=address, snapshot=snapshot)
            await p3.__aenter__()
            await programs.groups["p1"].add("p3", address)
            for _ in range(3):
                await (await programs.groups["p1"].broadcast(b"word")).stable()
            await programs.groups["p1"].remove("p3")
            with pytest.raises(tidings.Removed, match="p3 was removed in view 2"):
                await anext(p3)
            with pytest.raises(tidings.Halted, match="p3 was removed in view 2"):
                await p3.__aexit__(None, None, None)

    go(scenario())


def test_what_waits_in_memory_for_a_newcomer_without_state_is_bounded(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS, "limits.unread_messages = 5")

    async def never(pieces: AsyncIterator[bytes]) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            programs = Programs(config, stack)
            await programs.start()
            (port,) = free_ports(1)
            address = f"127.0.0.1:{port}"
            snapshot = tidings.Snapshot(Tally().make, never)
            p3 = tidings.join("p3", config, address=address, snapshot=snapshot)
            await p3.__aenter__()
            await programs.groups["p1"].add("p3", address)
            for _ in range(4):
                await (await programs.groups["p1"].broadcast(b"word")).stable()
            assert p3._member.error is None
            await programs.groups["p1"].broadcast(b"one too many")
            with pytest.raises(tidings.EnvironmentMissing, match="5 messages wait"):
                await anext(p3)
            with pytest.raises(tidings.EnvironmentMissing):
                await p3.__aexit__(None, None, None)
            await programs.agree_on({"word": 4, "one too many": 1})

    go(scenario())


def test_a_program_that_does_not_listen_has_no_state(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS)
    with pytest.raises(tidings.UsageError, match="listen=False has no state"):
        tidings.join("p1", config, listen=False, snapshot=Tally().snapshot)


def test_pieces_that_would_be_made_too_late_are_refused() -> None:
    async def make() -> AsyncIterator[bytes]:
        yield b""

    async def take(pieces: AsyncIterator[bytes]) -> None:
        pass

    with pytest.raises(tidings.UsageError, match="make must return its pieces"):
        tidings.Snapshot(make, take).check()
