"""The parts of the comparison with other systems that need no server."""

import asyncio
from pathlib import Path

import pytest

from peers import systems
from peers.milestone import Milestone
from peers.nats_link import NatsError, NatsLink
from peers.results import Figure, Measure, Results, chart

RATE = Measure("Broadcasts per second")
ON_DISK = {"ours": False, "ours on disk": True, "theirs": False, "theirs on disk": True}


def results_of(**values: list[float]) -> Results:
    results = Results(ON_DISK)
    for name, passes in values.items():
        for value in passes:
            results.add(Figure(name.replace("_", " "), RATE, "window 1", value))
    return results


def test_a_cell_has_the_median_the_ratio_and_the_range() -> None:
    results = results_of(ours=[900.0, 1_000.0, 1_400.0], theirs=[3_000.0, 1_500.0, 2_000.0])
    assert results.cell("ours", RATE, "window 1") == "1,000 (900 to 1,400)"
    assert results.cell("theirs", RATE, "window 1") == "2,000 ×2 (1,500 to 3,000)"


def test_a_system_on_disk_is_compared_with_tidings_on_disk() -> None:
    results = results_of(ours=[1_000.0], ours_on_disk=[100.0], theirs_on_disk=[50.0])
    assert results.cell("theirs on disk", RATE, "window 1") == "50 ×0.5"


def test_what_was_not_measured_is_a_dash_and_no_ratio() -> None:
    results = results_of(theirs=[50.0])
    assert results.cell("theirs", RATE, "window 1") == "50"
    assert results.cell("ours", RATE, "window 1") == "-"
    assert results.systems() == ["theirs"]


def test_a_table_has_one_line_for_each_system() -> None:
    title, lines, *_ = "\n".join(results_of(ours=[1_000.0], theirs=[250.0]).tables()).split("\n\n")
    assert title == "**Broadcasts per second**"
    assert lines.splitlines() == [
        "system | window 1",
        "---|---:",
        "ours | 1,000",
        "theirs | 250 ×0.25",
    ]


def test_the_chart_shows_every_system_that_was_measured() -> None:
    results = results_of(ours=[1_000.0], theirs_on_disk=[250.0], ours_on_disk=[300.0])
    picture = chart(results, RATE, [1], ["window 1"])
    assert picture.startswith("<svg")
    assert "theirs on disk" in picture


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(systems, "TOOLS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {system.name: system.missing() for system in systems.rivals()}
    assert missing["etcd, disk"] == "no go"
    assert missing["JGroups SEQUENCER, memory"] == "no java and no javac and no mvn"
    for tool in ("go", "java", "javac", "mvn"):
        (tmp_path / tool).write_text("#!/bin/sh\necho 'version \"17\"' >&2\n")
        (tmp_path / tool).chmod(0o755)
    assert {one.missing() for one in systems.rivals()} == {"not installed: make bench-peers"}


def test_receipts_come_in_order() -> None:
    async def wait() -> list[int]:
        milestone, came = Milestone(), list[int]()

        async def reach(number: int) -> None:
            await milestone.reach(number)
            came.append(number)

        async with asyncio.TaskGroup() as tasks:
            for number in (1, 2, 4):
                tasks.create_task(reach(number))
            await asyncio.sleep(0)
            milestone.advance(2)
            await asyncio.sleep(0)
            assert came == [1, 2]
            milestone.advance(2)
        await milestone.reach(3)
        return came

    assert asyncio.run(wait()) == [1, 2, 4]


STREAM = (
    b'INFO {"server_id":"x"}\r\nMSG t 1 5\r\na\r\nbc\r\nMSG t 1 reply 0\r\n\r\n'
    b"HMSG t 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPONG\r\n"
)


@pytest.mark.parametrize("piece", [1, 7, len(STREAM)])
def test_the_lean_client_reads_messages_however_they_are_cut(piece: int) -> None:
    async def read() -> list[bytes]:
        link, came = NatsLink(), list[bytes]()
        link._out.append(b"")  # nothing is written: there is no transport
        link.subscribe(b"t", came.append)
        for place in range(0, len(STREAM), piece):
            link.data_received(STREAM[place : place + piece])
        assert not link.ended.done()
        return came

    assert asyncio.run(read()) == [b"a\r\nbc", b"", b"hi"]


def test_the_lean_client_ends_with_what_the_server_refuses() -> None:
    async def refuse() -> None:
        link = NatsLink()
        link.data_received(b"-ERR 'Slow Consumer'\r\n")
        await link.ended

    with pytest.raises(NatsError, match="Slow Consumer"):
        asyncio.run(refuse())
