"""Durable groups for long: one that is stopped, one that is away, and five million messages."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from backlog import leave_unread, restart
from tidings.node.config import GIB, MIB, Limits
from tidings.testkit.fleet import Fleet, Latencies, Member, free_ports, percentile_s

AT_FULL_SPEED = 1e9
"""More per second than anybody can offer: back-pressure decides."""

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Figures are for whoever runs this, captured or not."""

    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    return tell


def group_file(folder: Path, size: int, *lines: str) -> Path:
    ports = free_ports(size)
    addresses = (f'p{number} = "127.0.0.1:{port}"' for number, port in enumerate(ports, 1))
    path = folder / "group.toml"
    path.write_text(
        "\n".join(['name = "endurance"', "tls.plain = true", *lines, "[members]", *addresses])
    )
    return path


def run_for(fleet: Fleet, seconds: float) -> None:
    """Let time pass; who ends by itself is noticed."""
    fleet.comes_true(lambda: False, seconds)


def publish(members: Iterable[Member], per_s: float, count: int | None = None) -> None:
    for member in members:
        member.publish(per_s, count=count)


def delivered(member: Member) -> int:
    return sum(member.report.delivered.values())


def assured(members: Iterable[Member]) -> Latencies:
    return sum((member.latencies for member in members), Latencies())


def log_bytes(fleet: Fleet, name: str) -> int:
    return sum(one.stat().st_size for one in (fleet.config.data / name).rglob("*") if one.is_file())


def full_speed(fleet: Fleet, seconds: float) -> float:
    """How many broadcasts per second the slowest member delivers when all offer what they can."""
    publish(fleet, AT_FULL_SPEED)
    run_for(fleet, 3)
    before, begin_s = min(map(delivered, fleet)), time.monotonic()
    run_for(fleet, seconds)
    rate = (min(map(delivered, fleet)) - before) / (time.monotonic() - begin_s)
    for member in fleet:
        member.hush()
    fleet.wait_for(fleet.are_equal, "all to have delivered everything")
    return rate


def test_a_stopped_and_a_dead_member_slow_nobody_down(tmp_path: Path, tell: Tell) -> None:
    with Fleet(group_file(tmp_path, 5), report_ms=100) as fleet:
        dead, stopped = fleet["p4"], fleet["p5"]
        rest = [fleet["p1"], fleet["p2"], fleet["p3"]]
        most = full_speed(fleet, 10)
        rate = most / 2
        publish(rest, rate / 3)
        run_for(fleet, 15)
        before = assured(rest)
        run_for(fleet, 60)
        calm = assured(rest) - before
        dead.kill()
        stopped.stop()
        before, offered = assured(rest), sum(one.offered for one in rest)
        run_for(fleet, 60)
        rough = assured(rest) - before
        offered = sum(one.offered for one in rest) - offered
        held_up = delivered(stopped)
        stopped.resume()
        begin_s = time.monotonic()
        for member in rest:
            member.hush()
        fleet.wait_for(fleet.are_equal, "the stopped one to catch up", 120)
        caught_up_s = time.monotonic() - begin_s
        missed = delivered(stopped) - held_up
        both = [percentile_s(one, 0.99) * 1e3 for one in (calm, rough)]
        tell(
            f"most {most:,.0f} broadcasts/s, offered {rate:,.0f}/s; p99 of delivered() "
            f"{both[0]:.1f} ms with all, {both[1]:.1f} ms with one stopped and one dead; "
            f"{missed:,} missed were caught up in {caught_up_s:.1f} s"
        )
        assert offered >= 0.95 * rate * 60, "the rest must go on offering"
        assert rough.total() >= 0.95 * rate * 60, "and deliver it"
        assert both[1] <= 2 * both[0]
        assert missed >= offered
        assert not any(member.repeated for member in fleet)


def test_who_was_away_for_a_million_messages_catches_up(tmp_path: Path, tell: Tell) -> None:
    with Fleet(group_file(tmp_path, 3), report_ms=100) as fleet:
        p1, p2, p3 = fleet
        p3.publish(AT_FULL_SPEED, count=1)
        fleet.wait_for(fleet.are_equal, "all to have met")
        p3.kill()
        publish((p1, p2), AT_FULL_SPEED, 500_000)
        fleet.wait_for(lambda: delivered(p1) == delivered(p2) == 1_000_001, "the rest", 300)
        kept = log_bytes(fleet, "p1")
        begin_s = time.monotonic()
        p3.start(report_ms=100)
        fleet.wait_for(lambda: delivered(p3) == 1_000_001, "p3 to catch up", 300)
        took_s = time.monotonic() - begin_s
        tell(f"1,000,000 messages ({kept / 1e6:,.0f} MB in p1's log) caught up in {took_s:.1f} s")
        fleet.wait_for(lambda: len(p3.handed("p1")) == len(p3.handed("p2")) == 500_000, "them all")
        assert not p3.repeated
        p3.publish(AT_FULL_SPEED, count=1)
        fleet.wait_for(fleet.are_equal, "all to go on")


def test_memory_and_log_stay_bounded_over_five_million_messages(tmp_path: Path, tell: Tell) -> None:
    """With low limits: at full speed the scheduler decides how far the slowest member is behind,
    and with the usual limits that is many MB more or less, in which what is kept for ever could
    hide."""
    million = 1_000_000
    limits = ("limits.window = 1_000", "limits.memory_messages = 5_000")
    with Fleet(group_file(tmp_path, 3, *limits), report_ms=100) as fleet:
        publish(fleet, AT_FULL_SPEED, 5 * million // 3)
        memory: dict[str, list[int]] = {member.name: [] for member in fleet}
        logs: dict[str, list[int]] = {member.name: [] for member in fleet}
        for half in range(2, 10):  # the first million warms up
            enough = half * million // 2
            fleet.wait_for(lambda enough=enough: min(map(delivered, fleet)) >= enough, "more", 300)
            for member in fleet:
                memory[member.name].append(member.rss_bytes)
                logs[member.name].append(log_bytes(fleet, member.name))
        fleet.wait_for(fleet.are_equal, "the end", 300)
        for member in fleet:
            rss, log = memory[member.name], logs[member.name]
            tell(
                f"{member.name}: RSS {rss[0] / 1e6:.1f} MB after a million, at most "
                f"{max(rss) / 1e6:.1f} MB until five; log at most {max(log) / 1e6:.1f} MB"
            )
        for member in fleet:
            rss, log = memory[member.name], logs[member.name]
            assert max(rss) <= 1.1 * rss[0]
            limit = 4 * fleet.config.limits.segment_bytes
            assert max(log) <= limit, "a few segments, whatever was said"


def test_a_restart_with_a_gibibyte_that_was_not_processed(tmp_path: Path, tell: Tell) -> None:
    """What the program is handed again is read back in pieces, whatever it has missed."""
    size = 1_000
    path = group_file(tmp_path, 3)
    leave_unread(path, GIB // size // 2, size)
    again = restart(path, timeout_s=600)
    tell(
        f"{again.messages:,} messages were waiting: RSS at most {again.joined_bytes / MIB:.0f} MiB "
        f"until the first of them, after {again.joined_s:.1f} s, and {again.read_bytes / MIB:.0f} "
        f"MiB until the last, after {again.read_s:.1f} s"
    )
    assert again.messages * size > GIB - size * 2
    assert again.read_bytes <= Limits().memory_bytes + 100 * MIB
