"""Links: who is let in, what survives a broken connection, and who counts as crashed."""

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import tidings
from real_groups import (
    MEMORY,
    assert_all_hold,
    free_ports,
    go,
    group_file,
    hello_of,
    joined,
    linked,
    take,
    traced,
    until,
)
from tidings.core import Message, Packet
from tidings.node import calling
from tidings.node import transport as links
from tidings.node.config import Address, Config, parse_config
from tidings.node.group import Group
from tidings.node.membership import Membership
from tidings.node.transport import Transport
from tidings.node.wire import (
    GREETING,
    Came,
    Codec,
    FrameReader,
    Kind,
    Why,
    body_of,
    bye_frame,
    framed,
    hello_frame,
    knock_frame,
    read_bye,
)
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Commit, Known
from tidings.testkit.injector import Fate, Injector

OF_NOBODY = Commit((Known("p9", 1, 1),))


async def say(config: Config, data: bytes, to: str = "p1") -> str:
    """Call a member, say this, and return the words with which it hangs up."""
    reader, writer = await asyncio.open_connection(*config.addresses[to])
    writer.write(data)
    answer = await reader.read()
    writer.close()
    frames = list(FrameReader().feed(answer))
    return read_bye(frames[-1]).reason if frames and frames[-1].kind == Kind.BYE else ""


@pytest.mark.parametrize(
    ("spoken", "complaint"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it does not speak our language"),
        (GREETING[:-1] + b"\x09" + bytes(20), "it speaks format 9, this tidings speaks 3"),
        (GREETING + b"\xff\xff\xff\xff" + bytes(20), "a frame of 4,294,967,295 bytes"),
        (GREETING + framed(Kind.PACKETS, 1, b"\x90"), "a frame of kind 2 instead of a hello"),
        (GREETING + framed(Kind.HELLO, 1, b"\xc1\xc1"), "its hello makes no sense"),
    ],
)
def test_a_stranger_gets_one_line_and_nothing_else_happens(
    spoken: bytes, complaint: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            assert complaint in await say(config, spoken)
            await (await groups["p1"].broadcast(b"not disturbed")).stable()

    go(scenario())
    lines = [line for line in caplog.messages if "127.0.0.1" in line and complaint in line]
    assert len(lines) == 1
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"group": "talk"}, "p2 is in group 'talk', p1 in 'chat'"),
        ({"name": "p9"}, "p9 is no other member of 'chat'"),
        ({"members": ("p1", "p2", "p3")}, "the group of p2 is p1, p2, p3; that of p1 is p1, p2"),
        ({"options": {"mode": "all"}}, "p2 runs frontier mode=all, p1 frontier"),
    ],
)
def test_who_means_another_group_is_informed(
    change: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    hello = msgspec.structs.replace(hello_of(config, "p2", "p1"), **change)

    async def scenario() -> None:
        async with joined(config, "p1"):
            assert complaint in await say(config, GREETING + hello_frame(hello))

    go(scenario())


def test_two_members_that_mean_different_groups_both_say_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    other = msgspec.structs.replace(config, options={"mode": "origin"})

    async def scenario() -> None:
        async with joined(config, "p1"), joined(other, "p2") as two:
            await until(lambda: len(_about(caplog, "frontier mode=origin")) >= 2)
            # It is tried again and again, and not said again.
            met = two["p2"]._member.transport.meet
            calls = []
            two["p2"]._member.transport.meet = lambda caller: (calls.append(caller), met(caller))
            await until(lambda: len(calls) == 5)

    go(scenario())
    assert len(_about(caplog, "frontier mode=origin")) == 2


# --- group files that differ


@pytest.mark.parametrize(
    ("setting", "p1_has", "p2_has"),
    [
        ("durable", "false", "true"),
        ("limits.text_bytes", "1048576", "1000"),
        ("limits.frame_bytes", "2097152", "3000000"),
        ("limits.frame_packets", "10000", "5"),
        ("limits.packet_bytes", "524288", "600000"),
        ("limits.batch_messages", "4000", "5"),
        ("trace.digest", "nothing", '"blake2b-64"'),
    ],
)
def test_what_must_be_alike_and_is_not_is_reported_on_both_sides_once(
    setting: str, p1_has: str, p2_has: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    text = (tmp_path / "group.toml").read_text()
    text = text.replace("durable = false", "") if setting == "durable" else text
    other = parse_config(f"{setting} = {p2_has}\n{text}", tmp_path / "group.toml")

    async def scenario() -> None:
        async with joined(config, "p1") as one, joined(other, "p2") as two:
            calls = _calls_of(two["p2"])
            await until(lambda: len(_about(caplog, f"{setting} =")) >= 2)
            await until(lambda: len(calls) >= 3)  # it is tried again, and not said again
            assert one["p1"].status().linked == two["p2"].status().linked == ()

    go(scenario())
    words = f"p1 has {setting} = {p1_has}, p2 has {p2_has}"
    assert _about(caplog, f"{setting} =") == [
        f"p2: no link: peer 127.0.0.1, reason {words}",
        f"p1: no link: peer p2, reason refuses us: p2: {words}",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "limits.queue_bytes = 5000000",
        "limits.unread_messages = 7",
        "limits.window = 7",
        "limits.memory_bytes = 7777",
        "limits.log_bytes = 7777777",
        "limits.tick_ms = 7",
        "links.alive_ms = 77",
        "trace.folder = 'elsewhere'",
        "retention.messages = 7",
    ],
)
def test_what_is_each_member_s_own_may_differ(line: str, tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    text = (tmp_path / "group.toml").read_text()
    other = parse_config(f"{line}\n{text}", tmp_path / "group.toml")
    assert other != config

    async def scenario() -> None:
        async with joined(config, "p1") as one, joined(other, "p2") as two:
            await linked(one | two)

    go(scenario())


def _calls_of(group: Group) -> list[float]:
    """When this member is called, from now on."""
    met, calls = group._member.transport.meet, list[float]()

    def counted(caller: links.Connection) -> None:
        calls.append(caller.loop.time())
        met(caller)

    group._member.transport.meet = counted
    return calls


def test_who_is_refused_calls_less_and_less_often_until_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling.random, "uniform", lambda low, high: high)
    config = group_file(tmp_path, 2, *MEMORY, "links.refused_ms_max = 320")
    other = msgspec.structs.replace(config, options={"mode": "origin"})

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            async with joined(other, "p2") as two:
                calls = _calls_of(two["p2"])
                await until(lambda: len(calls) >= 9)
                gaps_ms = [(after - before) * 1e3 for before, after in pairwise(calls)]
                assert max(gaps_ms) >= 300  # 5, 10, 20, 40, 80, 160, 320, 320
                assert sum(gaps_ms[-2:]) >= 600
            async with joined(config, "p2") as two:
                await linked(one | two)
                calls = _calls_of(two["p2"])
                await _break_all(two)
                begin_s = asyncio.get_running_loop().time()
                await until(lambda: bool(calls))
                assert calls[0] - begin_s < 0.3, "as soon as ever"

    go(scenario())


def test_a_refused_member_is_called_as_soon_as_it_has_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calling.random, "uniform", lambda low, high: 1e9)  # a pause is for ever
    config = group_file(tmp_path, 2, *MEMORY)
    other = msgspec.structs.replace(config, options={"mode": "origin"})

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            for lines in (2, 3):  # p2 tells it in each of its lives, p1 once
                async with joined(other, "p2"):
                    await until(lambda: len(_about(caplog, "frontier mode=origin")) == lines)  # noqa: B023
            async with joined(config, "p2") as two:
                await linked(one | two)

    go(scenario())


def test_a_knock_of_nobody_is_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            assert await say(config, GREETING + knock_frame("p9")) == ""
            assert "its knock makes no sense" in await say(config, GREETING + framed(Kind.KNOCK, 0))
            assert one["p1"].status().linked == ()

    go(scenario())


OLD = GREETING[:-1] + b"\x01"


def test_a_member_of_another_format_is_called_less_and_less_often_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling.random, "uniform", lambda low, high: high)
    config = group_file(tmp_path, 2, *MEMORY, "links.refused_ms_max = 320")
    calls: list[float] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As the version before does: its own greeting, and why it hangs up."""
        calls.append(asyncio.get_running_loop().time())
        assert await reader.readexactly(len(GREETING)) == GREETING
        why = msgspec.msgpack.encode("p2: it speaks format 2, this tidings speaks 1")
        writer.write(OLD + framed(Kind.BYE, 0, why))
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(refuse, *config.addresses["p2"])
        async with server, joined(config, "p1"):
            await until(lambda: len(calls) >= 8)

    go(scenario())
    assert calls[-1] - calls[-2] >= 0.3
    shown = _about(caplog, "format")
    assert shown == ["p1: no link: peer p2, reason it speaks format 1, this tidings speaks 3"]


def test_a_caller_of_another_format_learns_ours_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with joined(config, "p2"):
            for _ in range(3):
                reader, writer = await asyncio.open_connection(*config.addresses["p2"])
                writer.write(OLD + bytes(100))
                assert (await reader.read()).startswith(GREETING)
                writer.close()

    go(scenario())
    assert len(_about(caplog, "it speaks format 1, this tidings speaks 3")) == 1


def _about(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [line for line in caplog.messages if words in line]


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (framed(Kind.PACKETS, 1, b"\xc1"), "a frame that makes no sense"),
        (framed(Kind.PACKETS, 1, body_of([])), "a frame without packets"),
        (framed(Kind.PACKETS, 1, body_of([b"\x91\xa1x"])), "a packet that makes no sense"),
        (framed(Kind.HELLO, 1, b""), "a frame of kind 1"),
        (
            framed(
                Kind.PACKETS, 1, body_of([msgspec.msgpack.encode(Commit((Known("p9", 1, 1),)))])
            ),
            "a commit that is not meant for this group",
        ),
        (b"\x7f\xff\xff\xff" + bytes(20), "a frame of 2,147,483,647 bytes"),
    ],
)
def test_a_member_that_talks_nonsense_is_hung_up_on(
    frame: bytes, complaint: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    hello = GREETING + hello_frame(hello_of(config, "p2", "p1"))

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            assert complaint in await say(config, hello + frame)
            assert one["p1"].status().linked == ()

    go(scenario())


def test_who_does_not_say_who_it_is_is_not_waited_for(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.hello_ms = 50")

    async def scenario() -> None:
        async with joined(config, "p1"):
            assert "it does not say who it is" in await say(config, b"")

    go(scenario())


def test_of_too_many_strangers_the_oldest_is_hung_up_on(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.strangers = 3")

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            strangers = []
            for count in range(3):
                strangers.append(await asyncio.open_connection(*config.addresses["p1"]))
                await until(lambda: len(one["p1"]._member.transport._strangers) > count)  # noqa: B023
            caller, writer = await asyncio.open_connection(*config.addresses["p1"])
            assert await strangers[0][0].read() == b""
            # Whoever says who it is gets through, however many are silent.
            writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))
            await until(lambda: one["p1"].status().linked == ("p2",))
            assert (await caller.read(len(GREETING))) == GREETING
            writer.close()
            for _, stranger in strangers:
                stranger.close()

    go(scenario())


# --- broken connections


async def _break_all(groups: dict[str, Group]) -> None:
    """Reset every connection, whatever is on the way."""
    for group in groups.values():
        for peer in group._member.transport.peers.values():
            if peer.link is not None:
                peer.link.transport.abort()


@pytest.mark.parametrize("protocol", ["frontier", "majority-relay", "history-sets"])
def test_broken_connections_lose_nothing(protocol: str, tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, f'protocol = "{protocol}"', "limits.window = 50")

    async def publish(group: Group) -> None:
        for number in range(200):
            await group.broadcast(b"%d" % number)

    async def read(group: Group) -> list[Message]:
        return await take(group, 600)

    async def scenario() -> None:
        async with joined(config) as groups:
            readers = [asyncio.create_task(read(group)) for group in groups.values()]
            async with asyncio.TaskGroup() as tasks:
                for group in groups.values():
                    tasks.create_task(publish(group))
                for _ in range(5):
                    await linked(groups)
                    await _break_all(groups)
            for reader in readers:
                messages = await reader
                assert len({message.id for message in messages}) == 600
                for name in groups:
                    own = [message.text for message in messages if message.id.origin == name]
                    assert own == [b"%d" % number for number in range(200)]

    go(scenario())


def test_a_member_that_missed_too_much_counts_as_crashed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (*MEMORY, 'protocol = "majority-relay"', "links.resend_bytes = 5000")
    config = group_file(tmp_path, 3, *lines)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as two:
            for _ in range(100):
                await (await two["p1"].broadcast(bytes(100))).delivered()
            await until(lambda: bool(two["p1"]._member.transport.peers["p3"].crashed))
            assert two["p1"]._member.transport.peers["p3"].kept_bytes == 0

    go(scenario())
    assert any("counts as crashed: peer p3" in line for line in caplog.messages)


def test_a_silent_link_is_dropped_and_made_again(tmp_path: Path) -> None:
    """A member that is stopped says nothing, though its kernel goes on listening."""
    impatient = ("links.alive_ms = 20", "links.silence_ms = 100", "links.close_ms = 50")
    config = group_file(tmp_path, 2, *MEMORY, *impatient)
    (port,) = free_ports(1)
    silent = socket.create_server(("127.0.0.1", port))

    async def greet_and_fall_silent(reader: object, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))

    async def scenario() -> None:
        server = await asyncio.start_server(greet_and_fall_silent, *config.addresses["p2"])
        async with server, joined(config, "p1") as one:
            await until(lambda: bool(one["p1"].status().linked))
            await until(lambda: not one["p1"].status().linked)
            await until(lambda: bool(one["p1"].status().linked))

    go(scenario())
    silent.close()


def test_who_cannot_keep_up_loses_the_connection_and_catches_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    small = ("limits.text_bytes = 1000", "limits.frame_bytes = 4000000")
    patient = ("limits.queue_bytes = 4000000", "links.silence_ms = 1_000_000")
    config = group_file(tmp_path, 3, *MEMORY, *small, *patient)

    async def scenario() -> None:
        async with joined(config) as groups:
            p1, p2, p3 = groups.values()
            await linked(groups)
            # As if its process were stopped: nothing is read, and the kernel's buffers fill up.
            for peer in p3._member.transport.peers.values():
                assert peer.link is not None
                peer.link.transport.pause_reading()
            reading = [asyncio.create_task(take(group, 20_000)) for group in (p1, p2, p3)]
            for _ in range(20_000):
                await p1.broadcast(bytes(1_000))
            for messages in await asyncio.gather(*reading):
                assert [message.id.seq for message in messages] == list(range(1, 20_001))

    go(scenario())
    assert any("link down: peer p3" in line and "bytes wait" in line for line in caplog.messages)


def test_who_leaves_while_a_connection_breaks_takes_leave_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel knows of a reset before asyncio does, and has no end to write any more."""
    caplog.set_level("INFO")
    config = group_file(tmp_path, 3, *MEMORY, "links.close_ms = 200")
    write_eof = asyncio.selector_events._SelectorSocketTransport.write_eof

    async def scenario() -> None:
        async with joined(config, "p2", "p3") as others:
            async with joined(config, "p1") as one:
                await linked(one | others)
                links = [peer.link for peer in one["p1"]._member.transport.peers.values()]

                def not_connected(transport: asyncio.Transport) -> None:
                    if transport is links[0].transport:
                        raise OSError(errno.ENOTCONN, "not connected")
                    write_eof(transport)

                monkeypatch.setattr(type(links[0].transport), "write_eof", not_connected)
            assert all(link.transport.is_closing() for link in links)
            await until(lambda: not any("p1" in one.status().linked for one in others.values()))

    go(scenario())
    for other in ("p2", "p3"):
        assert f"{other}: farewell: peer p1, reason p1 leaves" in caplog.messages


def test_who_leaves_does_not_answer_what_still_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be written after the end, not even what is wrong with the rest."""
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with AsyncExitStack() as member:
            await member.enter_async_context(joined(config, "p1"))
            reader, writer = await asyncio.open_connection(*config.addresses["p1"])
            writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))
            assert await reader.readexactly(len(GREETING)) == GREETING
            leaving = asyncio.create_task(member.aclose())
            await reader.read()  # to the end
            writer.write(b"\xff" * 100)
            writer.close()
            await leaving

    go(scenario())
    assert not any(record.exc_info or record.name == "asyncio" for record in caplog.records)


@pytest.mark.parametrize("durable", ["true", "false"])
def test_frontier_bears_loss_repetition_and_another_order(durable: str, tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, f"durable = {durable}")
    worse = {"lost": 0.2, "duplicated": 0.2, "reordered": 0.2}
    injectors = {name: Injector[Came](seed, **worse) for seed, name in enumerate(config.members)}
    for injector in injectors.values():
        # Members that start with nothing must meet first, and do not repeat how they do.
        injector.order(Fate.PASSED, 2, kind="state")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = {}
            for name, injector in injectors.items():
                member = tidings.join(name, config, injector=injector)
                groups[name] = await stack.enter_async_context(member)
            await linked(groups)
            for number in range(30):
                for group in groups.values():
                    await group.broadcast(b"%d" % number)
                    await asyncio.sleep(0.002)  # so that they are many packets, and not one
            for group in groups.values():
                messages = await take(group, 90)
                assert len({message.id for message in messages}) == 90

    go(scenario())
    counts = [count for one in injectors.values() for count in one.counts.values()]
    assert all(counts), "every fault happens at everybody"
    assert_all_hold(traced(config))


# --- the transport alone


class Ear:
    """A holder that only listens."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Packet]] = []
        self.links: list[str] = []
        self.farewell = ""

    def link_up(self, peer: str, incarnation: int) -> None:
        self.links.append(f"up {incarnation}")

    def link_down(self, peer: str) -> None:
        self.links.append("down")

    def received(self, peer: str, packets: Iterator[Came]) -> None:
        self.heard += [(number, packet) for number, packet, _ in packets]

    def cast_out(self, reason: str) -> None:
        self.farewell = reason

    def forget(self, peer: str) -> None:
        raise AssertionError(f"{peer} is a member")


@asynccontextmanager
async def transport(
    config: Config, name: str, incarnation: int, *, resends: bool = True
) -> AsyncIterator[tuple[Transport, Ear]]:
    hello = msgspec.structs.replace(hello_of(config, name, name), incarnation=incarnation)
    ear = Ear()
    hello = msgspec.structs.replace(hello, session=incarnation)
    codec = Codec(Frontier, config.members, config.limits)
    membership = Membership(Frontier(name, config.members), config)
    made = Transport(hello, 0, config, codec, ear, membership, resends=resends)
    async with asyncio.TaskGroup() as tasks:
        await made.start(tasks)
        try:
            yield made, ear
        finally:
            await made.close()


def packet(number: int) -> Commit:
    return Commit((Known("p1", number, 0),))


def send(sender: Transport, to: str, number: int) -> None:
    first = sender.number(to, 1)
    sender.send([(to, first)], body_of([msgspec.msgpack.encode(packet(number))]), 1)


def test_what_was_sent_before_the_link_came_up_is_sent_when_it_does(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with transport(config, "p1", 1) as (p1, _):
            for number in (1, 2):
                send(p1, "p2", number)
            async with transport(config, "p2", 2) as (_, heard):
                await until(lambda: len(heard.heard) == 2)
                assert heard.heard == [(1, packet(1)), (2, packet(2))]
                assert heard.links == ["up 1"]

    go(scenario())


def test_what_was_sent_again_is_heard_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    def frame(number: int) -> bytes:
        return framed(Kind.PACKETS, number, body_of([msgspec.msgpack.encode(packet(number))]))

    async def scenario() -> None:
        async with transport(config, "p1", 1) as (_, ear):
            _, writer = await asyncio.open_connection(*config.addresses["p1"])
            hello = GREETING + hello_frame(hello_of(config, "p2", "p1"))
            writer.write(hello + frame(1) + frame(2) + frame(1) + frame(2) + frame(3))
            await until(lambda: (3, packet(3)) in ear.heard)
            assert ear.heard == [(number, packet(number)) for number in (1, 2, 3)]
            writer.close()

    go(scenario())


def test_what_was_acknowledged_is_not_kept(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.alive_ms = 10")

    async def scenario() -> None:
        async with transport(config, "p1", 1) as (p1, _), transport(config, "p2", 2):
            send(p1, "p2", 1)
            assert p1.peers["p2"].kept_bytes > 0
            await until(lambda: p1.peers["p2"].kept_bytes == 0)

    go(scenario())


def test_who_comes_back_as_somebody_else_is_cast_out(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with transport(config, "p1", 1) as (_, ear):
            async with transport(config, "p2", 2):
                await until(lambda: "up 2" in ear.links)
            async with transport(config, "p2", 3) as (_, other):
                await until(lambda: bool(other.farewell))
                assert other.farewell.startswith("p2 counts as crashed: it kept nothing")
            assert ear.links == ["up 2", "down"]
            async with transport(config, "p2", 2):  # the one that it is may return
                await until(lambda: ear.links == ["up 2", "down", "up 2"])

    go(scenario())


@pytest.mark.parametrize("kept", [0, 50_000])
def test_who_counts_as_crashed_is_reported_by_whoever_calls(kept: int, tmp_path: Path) -> None:
    """Even if it has much to say itself as soon as the link is up."""
    config = group_file(tmp_path, 2, *MEMORY)
    links = msgspec.structs.replace(config.links, resend_bytes=1_000)
    strict = msgspec.structs.replace(config, links=links)

    async def scenario() -> None:
        async with transport(config, "p2", 2) as (p2, ear):
            for number in range(kept):
                send(p2, "p1", number)
            async with transport(strict, "p1", 1) as (p1, _):
                for number in range(100):
                    send(p1, "p2", number)
                assert p1.peers["p2"].crashed
                await until(lambda: bool(ear.farewell))
                assert ear.farewell.startswith("p2 counts as crashed: it has missed more than")

    go(scenario())


def test_a_farewell_that_stops_a_member_is_meant_for_it_and_has_our_words(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    hello = GREETING + hello_frame(hello_of(config, "p1", "p2"))

    async def scenario() -> None:
        async with transport(config, "p2", 2) as (_, ear):
            for number in (3, 2):
                assert not ear.farewell
                bye = bye_frame("you are fired", Why.FORGETFUL, number)
                assert await say(config, hello + bye, to="p2") == ""
            await until(lambda: bool(ear.farewell))
        assert ear.farewell.startswith("p2 counts as crashed: it kept nothing of its earlier life")
        assert "fired" not in ear.farewell

    go(scenario())


def test_a_twin_does_not_make_a_member_count_as_crashed(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    (port,) = free_ports(1)
    elsewhere = {**config.addresses, "p1": Address("127.0.0.1", port)}
    twins = msgspec.structs.replace(config, addresses=elsewhere)

    async def scenario() -> None:
        async with (
            transport(config, "p2", 2) as (p2, ear),
            transport(config, "p1", 1) as (_, heard),
        ):
            await until(lambda: ear.links == ["up 1"])
            async with transport(twins, "p1", 9) as (_, twin):
                await until(lambda: bool(twin.farewell))
            assert ear.links == ["up 1"]
            send(p2, "p1", 1)
            await until(lambda: bool(heard.heard))

    go(scenario())


def test_another_process_does_not_take_the_link_of_one_that_lives(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.alive_ms = 20", "links.silence_ms = 200")
    hellos = {
        name: GREETING + hello_frame(msgspec.structs.replace(hello_of(config, "p1", "p2"), **who))
        for name, who in {
            "first": {"incarnation": 1, "session": 1},
            "a copy of its folder": {"incarnation": 1, "session": 2},
            "somebody new": {"incarnation": 3, "session": 3},
        }.items()
    }

    async def scenario() -> None:
        async with transport(config, "p2", 2, resends=False) as (p2, ear):
            _, writer = await asyncio.open_connection(*config.addresses["p2"])
            writer.write(hellos["first"])
            await until(lambda: ear.links == ["up 1"])
            for name in ("a copy of its folder", "somebody new"):
                assert "another process is linked as p1" in await say(config, hellos[name], "p2")
            assert ear.links == ["up 1"]
            # The same process may call again, before we see that its first call is over.
            _, again = await asyncio.open_connection(*config.addresses["p2"])
            again.write(hellos["first"])
            await until(lambda: ear.links == ["up 1", "down", "up 1"])
            # It falls silent, as if its machine had died: whoever comes then is let in.
            _, later = await asyncio.open_connection(*config.addresses["p2"])
            await until(lambda: p2.peers["p1"].link is None)
            later.write(hellos["somebody new"])
            await until(lambda: ear.links[-1] == "up 3")
            # The process refuses that one: the one that it waits for need not wait.
            p2.reject("p1", 1)
            assert not p2.peers["p1"].link.is_rejected
            p2.reject("p1", 3)
            _, back = await asyncio.open_connection(*config.addresses["p2"])
            back.write(hellos["a copy of its folder"])
            await until(lambda: ear.links[-1] == "up 1")
            for one in (writer, again, later, back):
                one.close()

    go(scenario())


TWINS = ("links.alive_ms = 20", "links.silence_ms = 200")


def _twin_hellos(config: Config) -> tuple[bytes, bytes]:
    """Of p1, and of another process under its name."""
    hello = msgspec.structs.replace(hello_of(config, "p1", "p2"), session=1)
    twin = msgspec.structs.replace(hello, session=2)
    return GREETING + hello_frame(hello), GREETING + hello_frame(twin)


def test_while_we_do_not_read_from_a_link_no_other_process_takes_it(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, *TWINS)
    first, twin = _twin_hellos(config)

    async def scenario() -> None:
        async with transport(config, "p2", 2, resends=False) as (p2, ear):
            reader, writer = await asyncio.open_connection(*config.addresses["p2"])
            writer.write(first)
            await until(lambda: ear.links == ["up 77"])
            p2.read(False)
            answers, heard = FrameReader(), list[Kind]()
            while heard.count(Kind.ALIVE) < 30:  # one in 10 ms: longer than silence_ms
                heard += [frame.kind for frame in answers.feed(await reader.read(1_000))]
            assert "another process is linked as p1" in await say(config, twin, "p2")
            assert ear.links == ["up 77"]
            # It is killed: that is noticed although nothing is read.
            writer.transport.abort()
            await until(lambda: ear.links == ["up 77", "down"])
            _, later = await asyncio.open_connection(*config.addresses["p2"])
            later.write(twin)
            await until(lambda: ear.links == ["up 77", "down", "up 77"])
            later.close()

    go(scenario())


def test_a_member_that_was_stopped_listens_before_it_takes_somebody_for_dead(
    tmp_path: Path,
) -> None:
    config = group_file(tmp_path, 2, *MEMORY, *TWINS)
    first, twin = _twin_hellos(config)

    async def scenario() -> None:
        async with transport(config, "p2", 2, resends=False) as (p2, ear):
            _, writer = await asyncio.open_connection(*config.addresses["p2"])
            writer.write(first)
            await until(lambda: ear.links == ["up 77"])
            reader, caller = await asyncio.open_connection(*config.addresses["p2"])
            await until(lambda: len(p2._strangers) == 1)
            caller.write(twin)
            time.sleep(0.3)  # nothing of p2 runs, as after SIGSTOP
            answer = list(FrameReader().feed(await reader.read()))
            assert "another process is linked as p1" in read_bye(answer[-1]).reason
            caller.close()
            writer.close()

    go(scenario())


def test_without_resending_what_is_sent_to_nobody_is_gone(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        async with transport(config, "p1", 1, resends=False) as (p1, ear):
            send(p1, "p2", 1)
            async with transport(config, "p2", 2, resends=False) as (_, heard):
                await until(lambda: "up 2" in ear.links)
                send(p1, "p2", 2)
                await until(lambda: bool(heard.heard))
                assert heard.heard == [(2, packet(2))]
            async with transport(config, "p2", 3, resends=False):
                # Who is who, the protocol decides.
                await until(lambda: "up 3" in ear.links)

    go(scenario())


def test_who_is_out_of_reach_is_reported_once_if_it_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    caplog.set_level("DEBUG", logger="tidings.node")
    monkeypatch.setattr(calling, "QUIET_S", 1_000.0)

    def shown(level: str) -> int:
        missed = "p1: no link: peer p2, reason cannot be reached: Connection refused"
        found = [one for one in caplog.records if one.getMessage() == missed]
        return sum(one.levelname == level for one in found)

    async def scenario() -> None:
        async with joined(config, "p1"):
            await until(lambda: shown("DEBUG") >= 3)
            assert shown("WARNING") == 0
            monkeypatch.setattr(calling, "QUIET_S", 0.0)
            await until(lambda: shown("WARNING") == 1)
            async with joined(config, "p2") as one:
                await until(lambda: one["p2"].status().linked == ("p1",))
            caplog.clear()
            # It has said good-bye: nobody misses it.
            await until(lambda: shown("DEBUG") >= 3)
            assert shown("WARNING") == 0

    go(scenario())
