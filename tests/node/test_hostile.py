"""Whoever can connect may say anything: a member answers with one line, and goes on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from real_groups import MEMORY, go, group_file, hello_of, joined, linked, until
from test_transport import say
from tidings.core import MessageId, Packet, Span
from tidings.node.config import Config
from tidings.node.wire import GREETING, Kind, Why, body_of, bye_frame, framed, hello_frame
from tidings.protocols.frontier.packets import (
    Batch,
    Commit,
    Counts,
    Data,
    Holding,
    Known,
    Pull,
    Refusal,
    State,
)

FIRED = bye_frame("you are fired", Why.FORGETFUL, 77)
NOTHING_NEW = Holding(Counts())
ONE = Batch(MessageId("p2", 1), (b"x",))


@pytest.mark.parametrize("protocol", ["frontier", "majority-relay"])
def test_a_stranger_cannot_cast_a_member_out(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY, f'protocol = "{protocol}"')

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            answer = await say(config, GREETING + FIRED)
            assert "it hangs up before it says who it is" in answer
            await (await groups["p1"].broadcast(b"not disturbed")).delivered()

    go(scenario())
    assert not any("fired" in line for line in caplog.messages)


def test_where_members_decide_by_themselves_who_goes_on_nobody_can_cast_them_out(
    tmp_path: Path,
) -> None:
    """Who recovers is refused by the protocol, and never by a connection."""
    config = group_file(tmp_path, 2, *MEMORY, "links.close_ms = 50")
    hello = GREETING + hello_frame(hello_of(config, "p2", "p1"))

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            assert await say(config, hello + FIRED) == ""
            await one["p1"].broadcast(b"still here")

    go(scenario())


def test_strangers_who_make_reasons_up_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY, "links.complaints_per_minute = 4")

    async def strange(number: int) -> None:
        hello = msgspec.structs.replace(hello_of(config, "p2", "p1"), group=f"g{number}")
        assert f"p2 is in group 'g{number}'" in await say(config, GREETING + hello_frame(hello))

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            for number in range(9):
                await strange(number)
            shown = [line for line in caplog.messages if "no link: peer 127.0.0.1" in line]
            assert len(shown) == 4
            assert shown[-1].endswith("; what else is wrong is not told for a minute")
            caplog.clear()
            groups["p1"]._member.transport._complaints.minute_ends_s = 0  # a minute later
            await strange(9)
            assert len(caplog.messages) == 1

    go(scenario())


# --- after a hello


@pytest.mark.parametrize(
    ("number", "packet", "complaint"),
    [
        (2**64 - 1, NOTHING_NEW, "packet 18446744073709551615, and nobody counts that far"),
        (2**63 + 5, NOTHING_NEW, "and nobody counts that far"),
        (1, Data(Batch(MessageId("p2", 2**63), (b"x",))), "a data that is not meant for"),
        (1, Data(Batch(MessageId("p2", 2**64 - 1), (b"x", b"y"))), "a data that is not meant for"),
        (1, Data(Batch(MessageId("p2", -5), (b"x",))), "a data that is not meant for"),
        (1, Data(Batch(MessageId("p2", 0), (b"x", b"y"))), "a data that is not meant for"),
        (1, Data(Batch(MessageId("p1", 1), (b"forged",))), "a data of p1, and it is p2"),
        (1, Data(Batch(MessageId("p3", 1), (b"forged",))), "a data of p3, and it is p2"),
        (1, Data(ONE, commit=(Known("p2", 5, -1),)), "a data that is not meant for"),
        (1, Data(ONE, commit=(Known("p9", 5, 1),)), "a data that is not meant for"),
        (1, Data(ONE, commit=(Known("p2", 5, 1),) * 2), "a packet that makes no sense"),
        (1, Data(ONE, commit=(Known("p2", 5, 1, 5, ("p9",)),)), "a data that is not meant for"),
        (1, State((), (), (), ()), "a state that is not meant for"),
        (1, State((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, -1, 0)), "a state that is not meant for"),
        (1, Holding(Counts(all=(1, 2**63, 1))), "a holding that is not meant for"),
        (1, Holding(Counts(some=(MessageId("p3", 2**64 - 1),))), "a holding that is not meant for"),
        (1, Commit((Known("p3", 2**63, 0),)), "a commit that is not meant for"),
        (1, Pull((Span("p2", -5, 2**62),)), "a pull that is not meant for"),
        (1, Pull((Span("p1", 1, 9),) * 4), "a pull that is not meant for"),
        (1, Refusal("p9", 1, "lost disk"), "a refusal that is not meant for"),
    ],
)
def test_what_cannot_be_counted_with_is_refused_and_leaves_no_trace(
    number: int, packet: Packet, complaint: str, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 3)
    hello = GREETING + hello_frame(hello_of(config, "p2", "p1"))
    frame = framed(Kind.PACKETS, number, body_of([msgspec.msgpack.encode(packet)] * 2))

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            assert complaint in await say(config, hello + frame)
            assert one["p1"].status().linked == ()
        async with joined(config, "p1") as one:
            assert one["p1"].status().delivered == {}

    go(scenario())


# --- asking for too much

SMALL = ("limits.text_bytes = 1000", "limits.frame_bytes = 3000000", "limits.queue_bytes = 3000000")
EVERYTHING = Pull((Span("p1", 1, 300),))


def asking(config: Config, times: int) -> bytes:
    body = body_of([msgspec.msgpack.encode(EVERYTHING)] * times)
    return GREETING + hello_frame(hello_of(config, "p2", "p1")) + framed(Kind.PACKETS, 1, body)


def test_who_asks_for_the_same_again_and_again_loses_its_link_before_it_costs_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = group_file(tmp_path, 2, *MEMORY, *SMALL)
    made: list[int] = []

    async def scenario() -> None:
        async with joined(config, "p1", founding=True, listen=False) as one:
            p1 = one["p1"]
            send = p1._member.transport.send

            def counted(to: Sequence[tuple[str, int]], body: bytes, count: int) -> None:
                made.append(len(body))
                send(to, body, count)

            for _ in range(300):
                await p1.broadcast(bytes(1_000))
            await until(lambda: p1.status().broadcast == 300)
            p1._member.transport.send = counted
            await say(config, asking(config, times=100))
            await until(lambda: not p1._member.joined().outgoing.under_way.total())

    go(scenario())
    assert 1_000_000 < sum(made) < 2 * config.limits.queue_bytes  # and not 100 times 256 KiB
    assert any("link down: peer p2" in line and "bytes wait" in line for line in caplog.messages)


def test_for_who_asks_again_and_again_the_disk_is_read_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *SMALL, "limits.memory_messages = 10")
    reads: list[int] = []

    async def scenario() -> None:
        async with joined(config, "p1", founding=True, listen=False) as one:
            p1 = one["p1"]
            for _ in range(300):
                await (await p1.broadcast(bytes(1_000))).delivered()
            disk = p1._member.joined().disk
            recall = disk.recall

            async def counted(*wanted: Any) -> Any:
                reads.append(len(p1._member.joined()._wanted))
                return await recall(*wanted)

            disk.recall = counted
            _, writer = await asyncio.open_connection(*config.addresses["p1"])
            writer.write(asking(config, times=100))
            await until(lambda: bool(reads) and not p1._member.joined()._wanted)
            sent = p1._member.transport.peers["p2"]
            # It is answered all the same.
            await until(lambda: sent.bytes_sent > 200_000 or len(reads) > 1)
            writer.close()

    go(scenario())
    assert reads == [1]
