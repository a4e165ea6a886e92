"""A member that lies is named, where the others can know."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from real_groups import MEMORY, everywhere_delivered, go, group_file, joined, linked, until
from tidings.node.errors import Halted
from tidings.node.wire import Kind, body_of, framed
from tidings.protocols.frontier.packets import Counts, Holding


def test_two_texts_under_one_id_are_found_and_their_origin_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """p2 says one thing to p1 and another to p3; these two compare when they are linked again."""
    config = group_file(tmp_path, 3, *MEMORY, tls=True)

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            transport = groups["p2"]._member.transport
            honest = transport.send

            def lie(to: Sequence[tuple[str, int]], body: bytes, count: int) -> None:
                for name, number in to:
                    spoken = body.replace(b"the truth", b"something") if name == "p3" else body
                    honest([(name, number)], spoken, count)

            transport.send = lie
            await groups["p2"].broadcast(b"the truth")
            rest = {name: groups[name] for name in ("p1", "p3")}
            await everywhere_delivered(rest, {"p2": 1})
            between = groups["p1"]._member.transport
            between._take_down(between.peers["p3"], "cut")
            await until(
                lambda: {line[:2] for line in caplog.messages if named in line} >= {"p1", "p3"}
            )

    named = "rejected: peer p2, reason p2 used numbers twice"
    with pytest.raises(Halted, match="p2 used numbers twice"):
        go(scenario())
    (line, *_) = (line for line in caplog.messages if named in line)
    assert "p1 and p3 hold different ones up to p2#1" in line


def test_a_member_whose_numbers_go_back_is_named_and_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Within one connection, what was sent before comes once: nobody replays its own packets."""
    config = group_file(tmp_path, 2, *MEMORY, tls=True)
    nothing = body_of([msgspec.msgpack.encode(Holding(Counts()))])

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await (await groups["p2"].broadcast(b"as usual")).stable()
            link = groups["p2"]._member.transport.peers["p1"].link
            link.write(framed(Kind.PACKETS, 1, nothing))
            await until(lambda: groups["p1"]._member.transport.refused["numbers"] == 1)

    go(scenario())
    assert any(
        "p1: no link: peer p2, reason packet 1 after" in line and "go back" in line
        for line in caplog.messages
    )
