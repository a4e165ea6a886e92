"""Any bytes at all: nobody crashes by them, and nothing changes by what is not a member's."""

from pathlib import Path

import pytest

from fuzzed_members import endure
from real_groups import everywhere_delivered, go, group_file, joined, linked, until
from strangers import Papers, tapped


def test_whatever_is_sent_a_member_goes_on(tmp_path: Path) -> None:
    done = endure(Papers(tmp_path / "papers"), tmp_path, count=5_000, seed=1)
    assert done.total() >= 5_000
    kinds = ("before the handshake", "instead of a hello", "after a hello")
    assert all(done[kind] > 1_000 for kind in kinds), done


def test_what_is_altered_on_the_wire_cuts_the_link_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = group_file(tmp_path, 2, tls=True)
    alters: list[bool] = []

    def flip(data: bytes) -> bytes:
        if not alters:
            return data
        alters.clear()
        return data[:-1] + bytes([data[-1] ^ 1])

    async def scenario() -> None:
        async with (
            tapped(config, "p2", flip) as seen,
            joined(config, "p2", listen=False) as second,
            joined(seen, "p1", listen=False) as first,
        ):
            both = {**first, **second}
            await linked(both)
            for _ in range(5):
                alters.append(True)
                for _ in range(20):
                    await first["p1"].broadcast(b"x")
                await until(lambda: not alters)
            await everywhere_delivered(both, {"p1": 100})

    go(scenario())
    assert any("link down: peer p1" in one and "bad record mac" in one for one in caplog.messages)
