"""The edges of the API: joining without ``async with``, being ready, receipts of earlier lives."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tidings
from real_groups import MEMORY, free_ports, go, group_file, joined, linked, take, until
from tidings.node.config import parse_config

# --- joining and leaving


def test_a_group_can_be_awaited_and_closed_by_another_task(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *MEMORY)

    async def scenario() -> None:
        group = await tidings.join("p1", config)
        await (await group.broadcast(b"once")).delivered()
        assert (await anext(group)).text == b"once"
        reader = asyncio.create_task(take(group, 1))
        await until(lambda: group._reading.is_awaited)
        await asyncio.gather(*(asyncio.create_task(group.close()) for _ in range(3)))
        with pytest.raises(StopAsyncIteration):
            await reader
        await group.close()
        with pytest.raises(tidings.Closed, match="p1 has left the group"):
            await group.broadcast(b"twice")
        with pytest.raises(tidings.UsageError, match="p1 has joined already"):
            await group
        async with tidings.join("p1", config):
            pass  # the address is free again

    go(scenario())


def test_closing_what_was_never_joined_does_nothing(tmp_path: Path) -> None:
    group = tidings.join("p1", group_file(tmp_path, 1, *MEMORY))
    go(group.close())
    with pytest.raises(tidings.Closed, match="p1 has not joined"):
        go(group.ready())


def test_closing_tells_once_what_stopped_the_member(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *MEMORY)

    async def scenario() -> None:
        group = await tidings.join("p1", config)
        group._member.joined().fail(tidings.Halted("no more"))
        with pytest.raises(tidings.Halted, match="no more"):
            await group.broadcast(b"text")
        with pytest.raises(tidings.Halted, match="no more"):
            await group.close()
        await group.close()

    go(scenario())


def test_a_task_that_is_cancelled_can_still_close(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)
    closed = asyncio.Event()

    async def program() -> None:
        group = await tidings.join("p1", config)
        try:
            await anext(group)
        finally:
            await group.close()
            closed.set()

    async def scenario() -> None:
        async with joined(config, "p2") as two:
            running = asyncio.create_task(program())
            await until(lambda: two["p2"].status().linked == ("p1",))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert closed.is_set()

    go(scenario())


def test_a_fault_in_a_task_of_the_member_stops_it_and_cancels_nobody(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *MEMORY)

    async def broken() -> None:
        raise ZeroDivisionError("a bug")

    async def scenario() -> None:
        group = await tidings.join("p1", config)
        group._member._tasks.group.create_task(broken())
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await anext(group)
        current = asyncio.current_task()
        assert current is not None
        assert not current.cancelling()
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await group.close()

    go(scenario())


# --- being ready


def test_who_waits_to_be_ready_learns_who_is_missing(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY)

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            p1 = one["p1"]
            with pytest.raises(tidings.NotReady) as fault:
                await p1.ready(timeout=0.01)
            assert str(fault.value) == (
                "p1 is not ready after 0.01 s: 2 of 3 members must be up to deliver anything; "
                "p1 has no link to p2, p3"
            )
            assert fault.value.missing == ("p2", "p3")
            waiting = asyncio.create_task(p1.ready())
            async with joined(config, "p2", "p3"):
                await waiting
                await asyncio.wait_for((await p1.broadcast(b"now")).delivered(), 60)

    go(scenario())


def test_who_waits_to_be_ready_hears_that_the_group_is_left(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY)

    async def scenario() -> None:
        group = await tidings.join("p1", config)
        waiting = asyncio.create_task(group.ready())
        await asyncio.sleep(0)
        await group.close()
        with pytest.raises(tidings.Closed, match="p1 is leaving the group"):
            await waiting

    go(scenario())


# --- receipts of an earlier life


@pytest.mark.parametrize("protocol", ["frontier", "views"])
def test_a_killed_member_asks_what_became_of_its_messages(protocol: str, tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, f'protocol = "{protocol}"', "trace.on = false")
    names: list[Any] = []

    async def first_life() -> None:
        async with joined(config) as groups:
            await linked(groups)
            for group in groups.values():
                await (await group.broadcast(b"hello")).stable()
        async with joined(config, "p2", "p3"):
            p1 = await tidings.join("p1", config, acknowledge="explicitly")
            await (await p1.broadcast(b"second")).delivered()
        await until(lambda: not p1.status().linked)
        receipt = await p1.broadcast(b"third")
        await until(lambda: receipt.id is not None)
        names.append(receipt.id)
        p1._member.joined().fail(tidings.Halted("killed"))
        with pytest.raises(tidings.Halted, match="killed"):
            await receipt.delivered()
        with pytest.raises(tidings.Halted, match="killed"):
            await p1.close()

    async def second_life() -> None:
        async with joined(config, "p1") as one:
            p1 = one["p1"]
            assert await p1.receipt("p1#2").delivered() == tidings.MessageId("p1", 2)
            for unknown, words in UNKNOWN.items():
                with pytest.raises(tidings.UsageError, match=words):
                    p1.receipt(unknown)
            waiting = asyncio.create_task(p1.receipt(names[0]).delivered())
            await asyncio.sleep(0)
            assert not waiting.done(), "nobody else holds it"
            async with joined(config, "p2", "p3"):
                assert await waiting == names[0]
                for number in (1, 2, 3):
                    assert (await p1.receipt(number).stable()).seq == number
                later = await p1.broadcast(b"fourth")
                await later.stable()
                assert await p1.receipt(4).stable() == later.id

    go(first_life())
    go(second_life())


UNKNOWN: dict[str | int, str] = {
    "p1#4": "p1 has broadcast no p1#4: its last message is number 3",
    0: "there is no p1#0: the first message of p1 is number 1",
    "p2#1": "p2#1 is not of p1: only its origin has a receipt",
    "p9#1": "p9 is not in the group",
}


# --- a Config made by a program

TLS = tidings.Tls(plain=True)
ADDRESSES = {"p1": "127.0.0.1:7001", "p2": "127.0.0.1:7002"}
FILE = """\
name = "chat"
tls.plain = true
members.p1 = "127.0.0.1:7001"
members.p2 = "127.0.0.1:7002"
"""


@pytest.mark.parametrize(
    ("lines", "given"),
    [
        ("", {}),
        ("durable = false", {"durable": False}),
        ('data = "/var/chat"', {"data": Path("/var/chat")}),
        ('protocol = "views"', {"protocol": "views"}),
        ('options.mode = "origin"', {"options": {"mode": "origin"}}),
        ('listen.p1 = "127.0.0.1:1"', {"listen": {"p1": "127.0.0.1:1"}}),
        ('metrics.p1 = "127.0.0.1:1"', {"metrics": {"p1": "127.0.0.1:1"}}),
        ("limits.window = 5", {"limits": tidings.Limits(window=5)}),
        ("retention.messages = 5", {"retention": tidings.Retention(messages=5)}),
        ("links.alive_ms = 5", {"links": tidings.Links(alive_ms=5)}),
        ('trace.folder = "seen"', {"trace": tidings.Tracing(folder="seen")}),
        ("control.health_ms = 5", {"control": tidings.Control(health_ms=5)}),
    ],
    ids=str,
)
def test_a_config_made_in_code_is_what_the_file_gives(lines: str, given: dict[str, Any]) -> None:
    made = tidings.Config.of(name="chat", members=ADDRESSES, tls=TLS, folder="/etc/chat", **given)
    assert made == parse_config(FILE + lines, Path("/etc/chat/group.toml"))
    assert made.trace_folder.parent == Path("/etc/chat")


@pytest.mark.parametrize(
    ("lines", "given"),
    [
        ('members.p3 = "nowhere"', {"members": ADDRESSES | {"p3": "nowhere"}}),
        ('members.p3 = "10.0.0.1:1"', {"members": ADDRESSES | {"p3": "10.0.0.1:1"}}),
        ('metrics.p4 = "127.0.0.1:1"', {"metrics": {"p4": "127.0.0.1:1"}}),
        ("limits.window = 0", {"limits": tidings.Limits(window=0)}),
        ('limits.window = "5"', {"limits": tidings.Limits(window="5")}),  # type: ignore[arg-type]
        ("limits.frame_bytes = 1", {"limits": tidings.Limits(frame_bytes=1)}),
        ('protocol = "urb"', {"protocol": "urb"}),
        ("options.window = 1", {"options": {"window": 1}}),
        ('protocol = "two-phase"', {"protocol": "two-phase"}),
    ],
    ids=str,
)
def test_a_mistake_in_code_is_reported_as_in_a_file(lines: str, given: dict[str, Any]) -> None:
    with pytest.raises(tidings.DataError) as in_file:
        parse_config(FILE + lines, Path("group.toml"))
    with pytest.raises(tidings.DataError) as in_code:
        tidings.Config.of(**{"name": "chat", "members": ADDRESSES, "tls": TLS} | given)
    assert str(in_file.value).partition(": ")[2] == str(in_code.value)


def test_a_config_without_a_word_about_tls_is_refused() -> None:
    with pytest.raises(tidings.DataError, match="nothing says how members prove who they are"):
        tidings.Config.of(name="chat", members=ADDRESSES)


def test_every_setting_of_a_file_can_be_given_in_code() -> None:
    from tidings.node.config import GroupFile

    settings = {field.name for field in msgspec.structs.fields(GroupFile)}
    arguments = set(tidings.Config.of.__kwdefaults__) | {"name", "members"}
    assert arguments - {"folder"} == settings


def test_a_member_joins_with_a_config_made_in_code(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    config = tidings.Config.of(
        name="chat", members={"p1": f"127.0.0.1:{port}"}, tls=TLS, folder=tmp_path
    )

    async def scenario() -> None:
        async with tidings.join("p1", config) as group:
            await (await group.broadcast(b"hello")).stable()
        assert (tmp_path / "data" / "p1").is_dir()

    go(scenario())
