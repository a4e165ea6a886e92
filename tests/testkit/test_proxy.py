"""The link proxy: real sockets, and every fault shown by what the two sides see of it."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from real_groups import (
    DEADLINE_S,
    Members,
    assert_all_hold,
    everywhere_delivered,
    go,
    group_file,
    linked,
    traced,
    until,
)
from tidings import join
from tidings.core import DataError, UsageError
from tidings.node.config import Address, parse_config
from tidings.node.wire import Kind, framed
from tidings.testkit import faulty_links
from tidings.testkit.faulty_links import FaultyLink
from tidings.testkit.proxy import Proxy, in_background

NEVER_S = 1000
"""Longer than any test may take."""
KIB = 1024


def in_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        go(test(*arguments, **named))

    return run


class Talk:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.hear = reader.readexactly
        self.hear_all = reader.read
        self.say = writer.write
        self.end = writer.write_eof

    def die(self) -> None:
        self.writer.transport.abort()


class Group:
    """Members that only listen and call, with a proxy between them."""

    def __init__(self) -> None:
        self.links: Proxy
        self.stack: AsyncExitStack
        self.called: dict[str, asyncio.Queue[Talk]] = {}
        self.servers: dict[str, asyncio.Server] = {}

    async def start(self, name: str) -> None:
        calls = self.called[name] = asyncio.Queue()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            talk = Talk(reader, writer)
            calls.put_nowait(talk)
            self.stack.callback(talk.die)

        self.servers[name] = await asyncio.start_server(take, "127.0.0.1", 0)
        self.stack.callback(self.servers[name].close)

    async def dial(self, caller: str, called: str) -> Talk:
        address = self.links.addresses_for(caller)[called]
        talk = Talk(*await asyncio.open_connection(*address))
        self.stack.callback(talk.die)
        return talk

    async def call(self, caller: str, called: str) -> tuple[Talk, Talk]:
        return await self.dial(caller, called), await self.called[called].get()


@asynccontextmanager
async def group(*names: str, **options: Any) -> AsyncIterator[Group]:
    made = Group()
    async with AsyncExitStack() as made.stack:
        for name in names or ("p1", "p2"):
            await made.start(name)
        addresses = {
            name: Address(*server.sockets[0].getsockname()) for name, server in made.servers.items()
        }
        made.links = await made.stack.enter_async_context(Proxy(addresses, **options))
        yield made


@in_time
async def test_without_faults_both_sides_hear_what_the_other_says() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"question")
        assert await p2.hear(8) == b"question"
        p2.say(b"answer")
        assert await p1.hear(6) == b"answer"
        assert g.links["p1", "p2"].bytes_passed == 8
        assert g.links["p2", "p1"].bytes_passed == 6


@in_time
async def test_an_end_is_passed_on_and_leaves_the_other_direction() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"that is all")
        p1.end()
        assert await p2.hear_all() == b"that is all"
        p2.say(b"I see")
        p2.end()
        assert await p1.hear_all() == b"I see"
        await until(lambda: not g.links["p1", "p2"].pipes)


@in_time
async def test_much_comes_as_it_went() -> None:
    data = bytes(range(256)) * 16 * KIB
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        for talk in (p1, p2):
            talk.say(data)
            talk.end()
        assert await asyncio.gather(p1.hear_all(), p2.hear_all()) == [data, data]


@in_time
async def test_who_is_not_there_breaks_the_call_off() -> None:
    async with group() as g:
        g.servers["p2"].close()
        p1 = await g.dial("p1", "p2")
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)


@in_time
async def test_a_death_is_reported_to_the_other_side() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"never read")
        await until(lambda: g.links["p1", "p2"].bytes_passed == 10)
        await p2.hear(1)
        sock = p2.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, faulty_links.AT_ONCE)
        p2.die()
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)
        await until(lambda: not g.links["p1", "p2"].pipes)


# --- delay and jitter


@in_time
async def test_a_delay_is_one_way_and_also_for_the_call() -> None:
    clock = asyncio.get_running_loop().time
    async with group() as g:
        g.links["p1", "p2"].delay(50)
        start = clock()
        p1, p2 = await g.call("p1", "p2")
        assert clock() - start >= 0.049
        start = clock()
        p1.say(b"x")
        await p2.hear(1)
        assert clock() - start >= 0.049
        g.links["p1", "p2"].delay(1000 * NEVER_S)
        p2.say(b"y")
        assert await p1.hear(1) == b"y", "the other direction is fast"
        g.links["p1", "p2"].delay(0)
        p1.say(b"x")
        assert await p2.hear(1) == b"x", "and so is this one, from now on"


@in_time
async def test_jitter_leaves_the_order() -> None:
    async with group(seed=3) as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        link.delay(5, jitter_ms=20)
        most = 0
        for number in range(100):
            p1.say(bytes([number]))
            read = number + 1
            await until(lambda read=read: link.bytes_waiting + link.bytes_passed == read)
            most = max(most, link.bytes_waiting)
        assert most > 1, "they were under way together"
        assert await p2.hear(100) == bytes(range(100))


def test_jitter_is_between_its_bounds_and_decided_by_the_seed() -> None:
    def draws(sender: str, seed: int) -> list[float]:
        link = FaultyLink(sender, "p2", seed)
        link.delay(20, jitter_ms=10)
        return [link.latency_s() for _ in range(200)]

    drawn = draws("p1", 1)
    assert 0.020 <= min(drawn) < 0.021
    assert 0.029 < max(drawn) <= 0.030
    assert draws("p1", 1) == drawn
    assert draws("p1", 2) != drawn
    assert draws("p3", 1) != drawn


# --- throttling and back-pressure


@in_time
async def test_a_throttled_link_passes_no_more_than_it_may() -> None:
    clock = asyncio.get_running_loop().time
    async with group() as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        link.throttle(100_000)
        start = clock()
        p1.say(bytes(30_000))
        await p2.hear(30_000)
        assert 0.25 < clock() - start < 30
        link.throttle(30_000 / NEVER_S)
        p1.say(bytes(30_000))
        p2.say(bytes(30_000))
        await p1.hear(30_000)
        assert link.bytes_waiting > 0, "the other direction is fast"
        link.throttle(None)
        await p2.hear(30_000)


@in_time
async def test_two_connections_share_what_a_throttled_link_passes() -> None:
    clock = asyncio.get_running_loop().time
    async with group() as g:
        one, two = await g.call("p1", "p2"), await g.call("p2", "p1")
        g.links["p1", "p2"].throttle(100_000)
        start = clock()
        one[0].say(bytes(15_000))
        two[1].say(bytes(15_000))
        await asyncio.gather(one[1].hear(15_000), two[0].hear(15_000))
        assert clock() - start > 0.25


@in_time
async def test_a_receiver_that_stalls_stalls_its_sender() -> None:
    data = bytes(64 * KIB * KIB)
    async with group(buffer_bytes=64 * KIB) as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        p1.say(data)
        p1.end()
        await until(lambda: link.bytes_waiting >= 64 * KIB)
        for _ in range(200):  # all the time in the world: these words go to and fro
            p2.say(b"?")
            await p1.hear(1)
            assert link.bytes_waiting <= (64 + 256) * KIB
        assert p1.writer.transport.get_write_buffer_size() > 0, "it could not say everything"
        assert await p2.hear_all() == data


# --- cuts


@in_time
async def test_a_one_way_cut_lets_bytes_through_in_the_other_direction_only() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        link.cut()
        p1.say(b"held back")
        await until(lambda: link.bytes_waiting == 9)
        for _ in range(20):
            p2.say(b"hello?")
            assert await p1.hear(6) == b"hello?"
        assert (link.bytes_waiting, link.bytes_passed) == (9, 0)
        link.heal()
        assert await p2.hear(9) == b"held back"


@in_time
async def test_a_call_against_a_one_way_cut_is_heard_and_never_answered() -> None:
    async with group() as g:
        g.links["p2", "p1"].cut()
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"hello")
        assert await p2.hear(5) == b"hello"
        p2.say(b"hello to you")
        await until(lambda: g.links["p2", "p1"].bytes_waiting == 12)
        g.links.heal()
        assert await p1.hear(12) == b"hello to you"


@in_time
async def test_a_parted_group_is_whole_again_when_healed() -> None:
    async with group("p1", "p2", "p3") as g:
        p1, p2 = await g.call("p1", "p2")
        p1_far, p3 = await g.call("p1", "p3")
        p3_far, p2_far = await g.call("p3", "p2")
        g.links.part({"p1", "p2"}, {"p3"})
        for talk in (p1_far, p3, p3_far, p2_far):
            talk.say(b"over there!")
        parted = g.links.between({"p1", "p2"}, {"p3"})
        await until(lambda: [link.bytes_waiting for link in parted] == [11] * 4)
        p1.say(b"just us")
        assert await p2.hear(7) == b"just us"
        assert [link.bytes_passed for link in parted] == [0] * 4
        g.links.heal()
        for talk in (p1_far, p3, p3_far, p2_far):
            assert await talk.hear(11) == b"over there!"


@in_time
async def test_a_cut_does_not_tell_of_a_death() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        g.links["p2", "p1"].cut()
        p2.die()
        p1.say(b"still there?")
        await until(lambda: g.links["p1", "p2"].bytes_passed == 12)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(p1.hear(1), 0.05)
        g.links.heal()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await p1.hear(1)


@in_time
async def test_who_calls_across_a_cut_gets_through_when_it_is_healed() -> None:
    async with group() as g:
        g.links.part({"p1"}, {"p2"})
        p1 = await g.dial("p1", "p2")
        p1.say(b"patient")
        await until(lambda: g.links["p1", "p2"].bytes_waiting == 7)
        assert g.called["p2"].empty()
        g.links.heal()
        assert await (await g.called["p2"].get()).hear(7) == b"patient"


@in_time
async def test_who_gives_up_calling_across_a_cut_is_never_heard_of() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        link.cut()
        for _ in range(10):
            p1 = await g.dial("p1", "p2")
            p1.say(b"hello?")
            p1.die()
        await until(lambda: not link.pipes)
        g.links.heal()
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"I am new")
        assert await p2.hear(8) == b"I am new"
        assert g.called["p2"].empty()


# --- black holes


@in_time
async def test_a_hole_swallows_one_direction_and_leaves_no_gap_behind() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        p1.say(b"before ")
        assert await p2.hear(7) == b"before "
        link.hole()
        p1.say(b"into the void")
        await until(lambda: link.bytes_swallowed == 13)
        p2.say(b"still heard")
        assert await p1.hear(11) == b"still heard"
        link.heal()
        p1.say(b"after")
        with pytest.raises(ConnectionResetError):
            await p2.hear(1)
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)


@in_time
async def test_a_connection_that_lost_nothing_in_a_hole_goes_on() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        g.links["p1", "p2"].hole()
        g.links.heal()
        p1.say(b"as ever")
        assert await p2.hear(7) == b"as ever"


@in_time
async def test_a_hole_takes_calls_that_lead_nowhere() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        link.hole()
        p1 = await g.dial("p1", "p2")
        p1.say(bytes(10**7))
        await until(lambda: link.bytes_swallowed == 10**7)
        assert g.called["p2"].empty()
        g.links.heal()
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)
        await g.call("p1", "p2")


# --- refusals, resets, half-open connections


@in_time
async def test_refused_calls_find_nobody_until_healed() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        port = link.door.address.port
        for _ in range(3):
            link.refuse()
            assert link.is_refusing
            with pytest.raises(ConnectionRefusedError):
                await g.dial("p1", "p2")
            await g.call("p2", "p1")
            p1.say(b"as before")
            assert await p2.hear(9) == b"as before"
            link.heal()
            assert link.door.address.port == port
            await g.call("p1", "p2")


@in_time
async def test_nobody_gets_the_port_of_a_door_by_chance_while_it_refuses() -> None:
    async with group() as g:
        link = g.links["p1", "p2"]
        link.refuse()
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(link.door.address)


@in_time
async def test_a_reset_comes_in_the_middle_of_a_frame_and_to_both_sides() -> None:
    frame = framed(Kind.ALIVE, 7)
    async with group() as g:
        link = g.links["p1", "p2"]
        p1, p2 = await g.call("p1", "p2")
        link.reset(after=len(frame) + 5)
        p1.say(frame + frame)
        assert await p2.hear(len(frame) + 5) == frame + frame[:5]
        with pytest.raises(ConnectionResetError):
            await p2.hear(1)
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)
        assert link.resets == 1
        p1, p2 = await g.call("p1", "p2")
        p1.say(3 * frame)
        assert await p2.hear(3 * len(frame)) == 3 * frame, "once, and not again"


@in_time
async def test_a_reset_counts_the_bytes_of_its_direction_only() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        g.links["p2", "p1"].reset(after=3)
        p1.say(b"a long question")
        assert await p2.hear(15) == b"a long question"
        p2.say(b"an answer")
        assert await p1.hear(3) == b"an "
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)


@in_time
async def test_a_reset_without_a_number_is_now() -> None:
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        g.links["p2", "p1"].reset()
        for talk in (p1, p2):
            with pytest.raises(ConnectionResetError):
                await talk.hear(1)


@in_time
async def test_of_a_half_open_connection_only_one_side_knows() -> None:
    async with group() as g:
        link, back = g.links["p1", "p2"], g.links["p2", "p1"]
        p1, p2 = await g.call("p1", "p2")
        link.half_open()
        with pytest.raises(ConnectionResetError):
            await p1.hear(1)
        p2.say(bytes(10**7))
        await p2.writer.drain()
        await until(lambda: back.bytes_swallowed == 10**7)
        with pytest.raises(TimeoutError):  # this is how it notices, and not otherwise
            await asyncio.wait_for(p2.hear(1), 0.05)
        p1, again = await g.call("p1", "p2")
        p1.say(b"it is me")
        assert await again.hear(8) == b"it is me"
        p2.say(b"hello?")
        await until(lambda: back.bytes_swallowed == 10**7 + 6)
        assert len(link.door.connections) == 2
        p2.die()
        await until(lambda: len(link.door.connections) == 1)


@in_time
async def test_too_many_connections_are_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulty_links, "MOST_CONNECTIONS", 1)
    async with group() as g:
        p1, p2 = await g.call("p1", "p2")
        second = await g.dial("p1", "p2")
        assert await second.hear_all() == b""
        p1.say(b"fine")
        assert await p2.hear(4) == b"fine"


# --- the proxy as a whole


@in_time
async def test_at_the_end_every_connection_is_reset_and_every_port_free() -> None:
    async with group("p1", "p2", "p3") as g:
        p1, p2 = await g.call("p1", "p2")
        async with Proxy(g.links.addresses) as links:
            links["p1", "p2"].delay(1000)
            links["p1", "p3"].refuse()
            ports = [link.door.address.port for link in links]
            reader, writer = await asyncio.open_connection(*links["p1", "p2"].door.address)
            await until(lambda: bool(links["p1", "p2"].pipes))
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()
        for port in ports:
            socket.create_server(("127.0.0.1", port)).close()
        p1.say(b"another proxy")
        assert await p2.hear(13) == b"another proxy"


@in_time
async def test_a_fault_of_the_test_stays_what_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with group():
            raise KeyError("mine")


@in_time
async def test_names_that_are_no_members_are_informed() -> None:
    async with group() as g:
        with pytest.raises(UsageError, match="there is no 'p9'; there are: p1, p2"):
            g.links["p1", "p9"]
        with pytest.raises(UsageError, match="there is no link from p1 to itself"):
            g.links.part({"p1"}, {"p1", "p2"})
        with pytest.raises(UsageError, match="there is no 'p9'"):
            g.links.addresses_for("p9")
    with pytest.raises(UsageError, match="a link takes two members"):
        Proxy({"p1": Address("127.0.0.1", 7001)})


def test_faults_that_make_no_sense_are_refused() -> None:
    link = FaultyLink("p1", "p2", 0)
    with pytest.raises(UsageError, match="a delay is 0 ms or more, not -1 ms, jitter 0 ms"):
        link.delay(-1)
    with pytest.raises(UsageError, match="a delay is 0 ms or more, not 1 ms, jitter inf ms"):
        link.delay(1, jitter_ms=float("inf"))
    with pytest.raises(UsageError, match="1 byte per second or more, not 0"):
        link.throttle(0)
    with pytest.raises(UsageError, match="after 0 bytes or more, not -1"):
        link.reset(after=-1)


# --- addresses and group files

FILE = """\
name = "chat"  # "127.0.0.1:7001" is not to be touched here
tls.plain = true
durable = false

[members]
p1 = "127.0.0.1:7001"
p2 = '[::1]:7002'      # the second
p10 = "localhost:700"

[metrics]
p1 = "127.0.0.1:9001"
"""
PATH = Path("some/group.toml")


@in_time
async def test_each_member_has_its_own_view_of_the_others() -> None:
    config = parse_config(FILE, PATH)
    async with Proxy(config.addresses) as links:
        seen = {name: links.addresses_for(name) for name in links.members}
        for name in links.members:
            assert seen[name][name] == config.addresses[name], "it listens where it always did"
        doors = [seen[one][other] for one in seen for other in seen if one != other]
        assert len(set(doors)) == 6
        assert all(door.host == "127.0.0.1" for door in doors)
        text = links.group_file_for("p2", FILE, PATH)
        of_p2 = parse_config(text, PATH)
        assert of_p2.addresses == seen["p2"]
        assert (of_p2.metrics, of_p2.data) == (config.metrics, config.data)
        changed = [
            old for old, new in zip(FILE.splitlines(), text.splitlines(), strict=True) if old != new
        ]
        assert [line.split()[0] for line in changed] == ["p1", "p2", "p10"]


@in_time
async def test_a_group_file_on_one_line_is_rewritten_too() -> None:
    text = 'name = "g"\ntls.plain = true\nmembers = {p1 = "127.0.0.1:700", p2 = "127.0.0.1:7001"}\n'
    async with Proxy(parse_config(text, PATH).addresses) as links:
        seen = links.group_file_for("p1", text, PATH)
        assert parse_config(seen, PATH).addresses == links.addresses_for("p1")


@in_time
async def test_a_group_file_that_cannot_be_rewritten_is_informed() -> None:
    members = '[members]\np1 = "127.0.0.1:07001"\np2 = """127.0.0.1:7002"""\n'
    text = 'name = "g"\ntls.plain = true\n' + members
    async with Proxy(parse_config(text, PATH).addresses) as links:
        with pytest.raises(
            DataError, match=r"some/group\.toml: cannot be rewritten; write members"
        ):
            links.group_file_for("p2", text, PATH)


# --- real members


def everywhere(act: Callable[[FaultyLink], None]) -> Callable[[Proxy], None]:
    return lambda links: [act(link) for link in links] and None


def refuse_and_reset(links: Proxy) -> None:
    links["p1", "p3"].refuse()
    links["p1", "p3"].reset()


FAULTS: dict[str, tuple[Callable[[Proxy], None], tuple[str, str] | None]] = {
    "delay": (everywhere(lambda link: link.delay(5, jitter_ms=10)), None),
    "throttle": (lambda links: links["p1", "p3"].throttle(20_000), None),
    "reset in mid-frame": (everywhere(lambda link: link.reset(after=70)), None),
    "half-open": (lambda links: links["p1", "p2"].half_open(), None),
    "half-open for who called": (lambda links: links["p3", "p1"].half_open(), ("p1", "p3")),
    "one-way cut": (lambda links: links["p3", "p1"].cut(), ("p1", "p3")),
    "hole": (lambda links: links["p1", "p2"].hole(), ("p2", "p1")),
    "part": (lambda links: links.part({"p1", "p2"}, {"p3"}), ("p3", "p2")),
    "refuse": (refuse_and_reset, ("p1", "p3")),
}
"""What happens, and who notices that it has lost whom, if anybody does."""


@pytest.mark.parametrize("fault", FAULTS)
def test_members_lose_nothing_by_it(fault: str, tmp_path: Path) -> None:
    """Everybody broadcasts before the fault, during it, and when it is healed."""
    impatient = ("links.alive_ms = 20", "links.silence_ms = 200", "links.hello_ms = 200")
    config = group_file(tmp_path, 3, "durable = false", *impatient)
    happen, noticed = FAULTS[fault]

    def has_noticed(groups: Members) -> bool:
        return noticed is None or noticed[1] not in groups[noticed[0]].status().linked

    async def scenario() -> None:
        async with Proxy(config.addresses, seed=1) as links, AsyncExitStack() as stack:
            groups = {
                name: await stack.enter_async_context(join(name, links.config_for(name, config)))
                for name in config.members
            }
            await linked(groups)
            assert sum(link.bytes_passed for link in links) > 0, "they call through the proxy"
            for act in (None, happen, Proxy.heal):
                if act is not None:
                    act(links)
                receipts = [
                    await group.broadcast(f"{number} of {name}".encode())
                    for number in range(10)
                    for name, group in groups.items()
                ]
                if act is happen:
                    await receipts[0].delivered()  # p1 is always with somebody
                    await until(lambda: has_noticed(groups))
            await everywhere_delivered(groups, dict.fromkeys(config.members, 30))

    go(scenario())
    assert_all_hold(traced(config))


# --- without a loop


def test_a_program_without_a_loop_has_its_proxy_in_the_background() -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        p2 = Address(*server.getsockname())
        proxy = Proxy({"p1": Address("127.0.0.1", 1), "p2": p2})
        with in_background(proxy) as do:
            caller = socket.create_connection(proxy.addresses_for("p1")["p2"], DEADLINE_S)
            called, _ = server.accept()
            called.settimeout(DEADLINE_S)
            with caller, called:
                do(proxy["p1", "p2"].cut)
                caller.sendall(b"hello")
                while do(lambda: proxy["p1", "p2"].bytes_waiting) < 5:
                    pass
                do(proxy.heal)
                assert called.recv(5, socket.MSG_WAITALL) == b"hello"
                with pytest.raises(UsageError, match="there is no 'p3'"):
                    do(lambda: proxy["p1", "p3"])
                do(lambda: proxy["p1", "p2"].reset())
                with pytest.raises(ConnectionResetError):
                    called.recv(1)
    assert threading.active_count() == before


def test_a_program_that_fails_leaves_no_proxy_behind() -> None:
    before = threading.active_count()
    addresses = {"p1": Address("127.0.0.1", 1), "p2": Address("127.0.0.1", 2)}
    with pytest.raises(KeyError, match="mine"), in_background(Proxy(addresses)):
        raise KeyError("mine")
    assert threading.active_count() == before
