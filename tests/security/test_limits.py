"""Strangers cost little: before they have shaken hands, and before they have said who they are."""

import asyncio
import socket
from asyncio.base_events import BaseEventLoop
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from real_groups import MEMORY, go, group_file, hello_of, joined, linked, until
from strangers import shout
from tidings.node.config import Address, Config
from tidings.node.strangers import network_of
from tidings.node.wire import GREETING, Kind, framed, hello_frame

RECORD = b"\x16\x03\x01\x40\x00"
ENDLESS = RECORD + b"\x01\x01\x00\x00" + bytes(0x3FFC) + RECORD + bytes(0x2000)
"""A handshake that announces 64 KiB of greetings, and begins to send them."""


def called(address: Address, stack: ExitStack, source: str = "127.0.0.1") -> socket.socket:
    """A connection that says nothing."""
    made = socket.create_connection(address, 60, source_address=(source, 0))
    stack.enter_context(made)
    made.setblocking(False)
    return made


def is_open(line: socket.socket) -> bool:
    try:
        return line.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("tls", [True, False])
def test_who_opens_many_connections_sends_only_its_own_away(tmp_path: Path, tls: bool) -> None:
    lines = ("links.strangers_per_address = 4", "links.hello_ms = 60000")
    config = group_file(tmp_path, 2, *MEMORY, *lines, tls=tls)

    async def scenario() -> None:
        with ExitStack() as stack:
            async with joined(config) as groups:
                await linked(groups)
                transport = groups["p1"]._member.transport
                address = config.addresses["p1"]
                quiet = called(address, stack, "127.0.0.9")
                many = [called(address, stack) for _ in range(20)]
                await until(lambda: transport.refused["crowd"] == 16)
                await until(lambda: sum(map(is_open, many)) == 4)
                assert len(transport._strangers) == 5
                assert is_open(quiet)
                await (await groups["p1"].broadcast(b"not disturbed")).delivered()

    go(scenario())


def test_the_oldest_of_too_many_strangers_is_sent_away(tmp_path: Path) -> None:
    lines = ("links.strangers = 3", "links.hello_ms = 60000")
    config = group_file(tmp_path, 2, *MEMORY, *lines, tls=True)

    async def scenario() -> None:
        with ExitStack() as stack:
            async with joined(config, "p1") as groups:
                transport = groups["p1"]._member.transport
                lines = []
                for place in range(2, 8):
                    lines.append(called(config.addresses["p1"], stack, f"127.0.0.{place}"))
                    await until(lambda: sum(map(is_open, lines)) == min(3, len(lines)))
                assert [is_open(line) for line in lines] == [False] * 3 + [True] * 3
                assert transport.refused["crowd"] == 3
                assert len(transport._strangers) == 3

    go(scenario())


def test_of_one_address_only_so_many_calls_are_answered_in_a_second(tmp_path: Path) -> None:
    """Each second five of them, however many more strangers there may be."""
    room = ("links.strangers = 1000", "links.strangers_per_address = 1000")
    lines = ("links.calls_per_s = 5", "links.hello_ms = 60000")
    config = group_file(tmp_path, 2, *MEMORY, *room, *lines, tls=True)

    async def scenario() -> None:
        with ExitStack() as stack:
            async with joined(config, "p1") as groups:
                transport, address = groups["p1"]._member.transport, config.addresses["p1"]
                loop = asyncio.get_running_loop()
                begun = int(loop.time())
                many = [called(address, stack) for _ in range(40)]
                await until(lambda: transport.refused["crowd"] + len(transport._strangers) == 40)
                seconds = int(loop.time()) - begun + 1
                answered = len(transport._strangers)
                assert 5 <= answered <= 5 * seconds
                await until(lambda: sum(map(is_open, many)) == answered)
                quiet = called(address, stack, "127.0.0.9")
                await until(lambda: len(transport._strangers) == answered + 1)
                assert is_open(quiet)
                async with joined(config, "p2") as others:
                    await linked(groups | others)  # as soon as a second is over

    go(scenario())


@pytest.mark.parametrize(
    ("spoken", "reason", "line"),
    [
        (b"", "late", "it does not say who it is"),
        (b"\x16\x03\x01", "late", "it does not say who it is"),
        (ENDLESS, "tls", "a handshake of more than 16,384 bytes (hello_bytes)"),
    ],
)
def test_a_handshake_that_does_not_end_is_ended(
    spoken: bytes, reason: str, line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ("links.hello_ms = 300", "links.hello_bytes = 16384")
    config = group_file(tmp_path, 2, *MEMORY, *lines, tls=True)

    async def scenario() -> None:
        async with joined(config, "p1") as groups:
            refused = groups["p1"]._member.transport.refused
            heard, _ = await shout(config, "p1", spoken, None)
            assert len(heard) < 100
            assert refused == {reason: 1}

    go(scenario())
    assert f"p1: no link: peer 127.0.0.1, reason {line}" in caplog.messages


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("?", "?", True),
    ],
)
def test_addresses_of_one_network_count_together(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) == is_same


def test_a_member_listens_on_another_address_than_it_is_reached_at(tmp_path: Path) -> None:
    """Names are looked up, and IPv6 is fine."""
    config = elsewhere(group_file(tmp_path, 3, *MEMORY, tls=True))

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            await (await groups["p3"].broadcast(b"from everywhere")).stable()

    go(scenario())


def elsewhere(config: Config) -> Config:
    reached = {name: address.port for name, address in config.addresses.items()}
    addresses = {
        "p1": Address("127.0.0.1", reached["p1"]),
        "p2": Address("localhost", reached["p2"]),
        "p3": Address("::1", reached["p3"]),
    }
    listen = {"p1": Address("0.0.0.0", reached["p1"])}
    return msgspec.structs.replace(config, addresses=addresses, listen=listen)


def test_a_name_is_looked_up_again_at_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of p2 gets another address, and p1 finds it there."""
    config = group_file(tmp_path, 2, *MEMORY, tls=True)
    here = config.addresses["p2"]
    named = config.addresses | {"p2": Address("p2.test", here.port)}
    config = msgspec.structs.replace(config, addresses=named, listen={"p2": here})
    places = iter(["127.0.0.250", "127.0.0.251"])  # where nobody listens
    looked_up: list[str] = []
    as_before = BaseEventLoop.getaddrinfo

    async def look_up(loop: BaseEventLoop, host: Any, port: Any, **how: Any) -> Any:
        if host == "p2.test":
            looked_up.append(host := next(places, here.host))
        return await as_before(loop, host, port, **how)

    monkeypatch.setattr(BaseEventLoop, "getaddrinfo", look_up)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)

    go(scenario())
    assert looked_up == ["127.0.0.250", "127.0.0.251", here.host]


def test_a_knock_that_nobody_answers_is_ended(tmp_path: Path) -> None:
    """The first member hangs: its kernel accepts, and it says nothing."""
    config = group_file(tmp_path, 2, *MEMORY, "links.hello_ms = 200", tls=True)

    async def scenario() -> None:
        with socket.create_server(config.addresses["p1"]) as hanging:
            async with joined(config, "p2"):
                line, _ = await asyncio.to_thread(hanging.accept)
                with line:
                    line.settimeout(60)
                    while await asyncio.to_thread(line.recv, 1 << 16):
                        pass  # its half of a handshake, and then the end

    go(scenario())


def test_a_refused_link_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.close_ms = 200")

    async def scenario() -> None:
        async with joined(config, "p1", founding=True, listen=False) as groups:
            p1 = groups["p1"]
            peer = p1._member.transport.peers["p2"]
            _, writer = await asyncio.open_connection(*config.addresses["p1"], limit=1)
            writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))
            await until(lambda: p1.status().linked == ("p2",))
            writer.transport.pause_reading()
            link = peer.link
            assert link is not None
            while not link.transport.get_write_buffer_size():
                await p1.broadcast(bytes(100_000))
            writer.write(framed(Kind.PACKETS, 1, b"junk"))
            await until(lambda: p1._member.transport.refused["frame"] == 1)
            assert link.transport.get_write_buffer_size()
            await link.lost
            writer.close()

    go(scenario())
