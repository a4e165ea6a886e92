"""What a program learns when its broadcasts get nowhere, and where it goes on after a kill."""

import asyncio
from pathlib import Path

import pytest

import tidings
from real_groups import go, group_file, joined, linked, take, until
from tidings.core import MessageId, Span, TextSpan
from tidings.node.ledger import Ledger, Milestones


def test_why_without_a_name_is_about_the_oldest_of_our_own(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            p1 = one["p1"]
            assert p1.why() == ""
            receipt = await p1.broadcast(b"is anybody there?")
            await until(lambda: p1.status().refusal != "")
            assert p1.why() == "p1 starts with nothing and has yet to meet p2, p3"
            assert (p1.status().queued, p1.status().own) == (1, 0)
            async with joined(config, "p2", "p3"):
                await receipt.stable()
                assert p1.why() == ""
                assert (p1.status().queued, p1.status().own) == (0, 1)
            await until(lambda: not p1.status().linked)
            await p1.broadcast(b"and now?")
            await until(lambda: p1.status().own == 2)
            assert p1.why() == p1.why("p1#2")
            assert p1.why() == "p1#2 waits at p1 for 1 more of p2, p3 to be known to hold it"

    go(scenario())


def test_a_broadcast_that_gets_nowhere_is_reported_once_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.node.condition.PATIENCE_S", 0.02)
    config = group_file(tmp_path)

    def answer() -> list[str]:
        return [line for line in caplog.messages if line.startswith("p1: broadcasts are stuck")]

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            p1 = one["p1"]
            receipt = await p1.broadcast(b"is anybody there?")
            await until(lambda: bool(answer()))
            reason = "p1 starts with nothing and has yet to meet p2, p3"
            assert p1.status().stuck == reason
            async with joined(config, "p2", "p3"):
                await receipt.delivered()
                await until(lambda: p1.status().stuck == "")
            assert answer().count(f"p1: broadcasts are stuck: reason {reason}") == 1

    go(scenario())


def test_who_leaves_with_something_stuck_does_not_say_that_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.node.condition.PATIENCE_S", 0.02)
    caplog.set_level("INFO", logger="tidings.node")
    config = group_file(tmp_path, 3, "links.close_ms = 300")

    async def scenario() -> None:
        async with joined(config, "p1") as one:
            await one["p1"].broadcast(b"is anybody there?")
            await until(lambda: one["p1"].status().stuck != "")

    go(scenario())
    assert any(line.startswith("p1: broadcasts are stuck") for line in caplog.messages)
    assert "p1: broadcasts go on" not in caplog.messages


def test_leaving_can_be_cancelled_and_then_waits_for_nobody(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, "links.close_ms = 1_000_000")

    async def scenario() -> None:
        async def say_and_leave() -> None:
            async with tidings.join("p1", config) as group:
                await group.broadcast(b"nobody takes this")
                await until(lambda: group.status().refusal != "")
                leaving.set()

        leaving = asyncio.Event()
        task = asyncio.create_task(say_and_leave())
        await leaving.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    go(scenario())


def test_a_program_that_was_killed_learns_the_number_of_its_last_message(tmp_path: Path) -> None:
    """Also of one that was on its disk and nowhere else: the others get it from there."""
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"one")).stable()
        async with joined(config, "p1") as one:
            assert one["p1"].status().own == 1
            assert one["p1"].status().awaited == ("p2", "p3")
            async with joined(config, "p2"):
                await until(lambda: one["p1"].status().awaited == ())
            await one["p1"].broadcast(b"two")
            await until(lambda: one["p1"].status().own == 2)
        async with joined(config, "p1") as one:
            assert one["p1"].status().own == 2
            assert one["p1"].status().delivered == {"p1": 1}
        async with joined(config) as groups:
            receipt = await groups["p1"].broadcast(b"three")
            assert await receipt.stable() == MessageId("p1", 3)

    go(scenario())


def test_founders_speak_before_everybody_is_there(tmp_path: Path) -> None:
    """A majority of a new group is enough, and after a restart of theirs as well."""
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True) as group:
            await (await group["p1"].broadcast(b"let us begin")).delivered()
        async with joined(config, "p1", "p2") as group:
            await (await group["p2"].broadcast(b"my first words")).delivered()
            async with joined(config, "p3") as late:
                assert [one.text for one in await take(late["p3"], 2)] == [
                    b"let us begin",
                    b"my first words",
                ]

    go(scenario())


def test_who_has_met_everybody_once_need_not_do_so_after_a_restart(tmp_path: Path) -> None:
    config = group_file(tmp_path)

    async def scenario() -> None:
        async with joined(config) as group:
            await linked(group)
            await (await group["p1"].broadcast(b"hello")).stable()
        async with joined(config, "p1", "p2") as group:
            await (await group["p2"].broadcast(b"my first words")).delivered()

    go(scenario())


def test_the_time_of_a_delivery_counts_from_the_broadcast_and_once_for_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([10.0, 20.0, 31.0, 42.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    took: list[float] = []
    ledger = Ledger("p1", window=10, window_bytes=100)
    ledger.on_delivery = took.append
    for _ in range(2):
        ledger.add(1)  # the first at 10
    ledger.accept([Span("p1", 8, 9)])
    ledger.add(1)  # at 20
    ledger.deliver(TextSpan("p1", 7, (b"of an earlier life", b"1", b"2")))  # at 31
    assert (took, ledger.bytes) == ([21.0], 1)
    ledger.accept([Span("p1", 10, 10)])
    ledger.deliver(TextSpan("p1", 10, (b"3",)))  # at 42
    assert (took, ledger.bytes) == ([21.0, 22.0], 0)


def test_who_no_longer_waits_is_forgotten() -> None:
    """A program may ask for years, each time with a deadline, what became of one broadcast."""

    async def scenario() -> None:
        milestones, ledger = Milestones(), Ledger("p1", window=1, window_bytes=100)
        ledger.add(1)
        patient = [asyncio.create_task(milestones.reach(number)) for number in (3, 1, 2)]
        for number in range(1, 101):
            for waiting in (milestones.reach(number), ledger.wait_for_room()):
                abandoned = asyncio.create_task(waiting)
                await asyncio.sleep(0)
                abandoned.cancel()
                await asyncio.wait([abandoned])
                assert abandoned.cancelled()
        assert len(milestones._waiting) <= 2 * len(patient)
        assert len(ledger._room) == 0
        milestones.advance(2)
        await asyncio.wait(patient, timeout=0.01)
        assert [task.done() for task in patient] == [False, True, True]
        milestones.advance(3)
        await asyncio.gather(*patient)
        assert milestones._waiting == []

    go(scenario())
