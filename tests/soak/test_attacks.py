"""Whoever is not a member does not slow a group down, however long it attacks.

A group of three delivers 200 broadcasts a second. Phases with strangers alternate with phases
without. In all, strangers make 120 calls a second, 20 in each of six ways (attackers.py): so each
member answers 40 a second, 20 of which begin a handshake, and has as many strangers as it allows.
They call from one process, which takes a part of a core; that they can use up processors with more
calls from more addresses is known (docs/security.md).

``TIDINGS_SOAK_PHASES=20 make soak ROOM=attacks`` for a longer one.
"""

import asyncio
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from attackers import attackers
from real_groups import MEMORY, assert_all_hold, free_ports, go, group_file, joined, linked, until
from strangers import fingerprints, overheard
from tidings.node.config import Config
from tidings.testkit.fleet import Fleet, percentile_s
from tidings.trace import read_runs

PHASES = int(os.environ.get("TIDINGS_SOAK_PHASES", 8))
PHASE_S = 6.0
PER_S = 200
CALLS_PER_S = 120
SEEN = ("tls", "certificate", "authority", "crowd")
"""As what the members count those who call."""

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    return tell


def recorded(folder: Path) -> bytes:
    """By who listened when p1 once called p2."""
    folder.mkdir()
    config = group_file(folder, 3, *MEMORY, tls=True)

    async def listen() -> bytes:
        async with joined(config, "p2", "p3") as others:
            return await overheard(config, others["p2"])

    return go(listen())


def refusals(config: Config) -> Counter[str]:
    """By all members together, by their metrics."""
    counts: Counter[str] = Counter()
    for address in config.metrics.values():
        with urlopen(f"http://{address}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("tidings_refused_total{"):
                    counts[line.split('"')[1]] += int(float(line.split()[-1]))
    return counts


def test_strangers_that_attack_all_the_time_slow_nobody_down(tmp_path: Path, tell: Tell) -> None:
    past = recorded(tmp_path / "before")
    answering = enumerate(free_ports(3), start=1)
    lines = [f'metrics.p{number} = "127.0.0.1:{port}"' for number, port in answering]
    config = group_file(tmp_path, 3, *lines, tls=True)
    path = tmp_path / "group.toml"
    p99_ms: dict[bool, list[float]] = {False: [], True: []}
    rss: dict[tuple[str, bool], list[int]] = {}
    refused: Counter[str] = Counter()
    with Fleet(path) as fleet, attackers(path, tmp_path, past, CALLS_PER_S) as attack:
        for member in fleet:
            member.publish(PER_S / 3)
        fleet.wait_for(lambda: fleet.latencies().total() > 5 * PER_S, "a good start")
        begin_s = time.monotonic()
        for phase in range(2 * PHASES):
            is_attacked = phase % 2 == 1
            attack(is_attacked)
            fleet.comes_true(lambda: False, 1)
            before, had_refused = fleet.latencies(), refusals(config)
            fleet.comes_true(lambda: False, PHASE_S)
            p99_ms[is_attacked].append(1e3 * percentile_s(fleet.latencies() - before, 0.99))
            for member in fleet:
                rss.setdefault((member.name, is_attacked), []).append(member.rss_bytes)
            news = refusals(config) - had_refused
            refused += news
            assert is_attacked or not news, f"nobody attacks, and {news} are refused"
        attack(False)
        lasted_s = time.monotonic() - begin_s
        assert fleet.settle()
    calm_ms, attacked_ms = (statistics.median(p99_ms[one]) for one in (False, True))
    per_s = refused.total() / (PHASES * PHASE_S)
    tell(
        f"{per_s:.0f} refusals/s: {dict(refused)}; p99 of delivered() {attacked_ms:.1f} ms, "
        f"{calm_ms:.1f} ms without, {attacked_ms / calm_ms:.2f} times"
    )
    tell(f"phases without {_printed(p99_ms[False])}, with {_printed(p99_ms[True])}")
    for name in config.members:
        calm, attacked = (statistics.median(rss[name, one]) for one in (False, True))
        tell(f"{name}: RSS {calm / 1e6:.1f} MB without, {attacked / 1e6:.1f} MB with strangers")
        assert max(rss[name, True]) <= 1.1 * calm
    assert all(refused[what] for what in SEEN), refused
    assert per_s >= CALLS_PER_S / 2, "there were fewer attacks than there should be"
    assert attacked_ms <= 1.5 * calm_ms
    offered = sum(member.offered for member in fleet)
    assert offered >= 0.9 * PER_S * lasted_s
    for member in fleet:
        assert sum(len(member.handed(origin)) for origin in config.members) == offered
        assert not member.repeated
    (run,) = read_runs(config.trace_folder)
    assert_all_hold(run)


def _printed(values: list[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def test_strangers_alone_change_nothing(tmp_path: Path) -> None:
    past = recorded(tmp_path / "before")
    config = group_file(tmp_path, 3, *MEMORY, "options.stable_ms = 0", tls=True)

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await (await groups["p2"].broadcast(b"before")).stable()
            await until(lambda: all(not one.status().waiting for one in groups.values()))
            state = fingerprints(groups.values())
            refused = [one._member.transport.refused for one in groups.values()]
            with attackers(tmp_path / "group.toml", tmp_path, past, CALLS_PER_S) as attack:
                await asyncio.to_thread(attack, True)
                await until(lambda: all(min(one[what] for what in SEEN) > 50 for one in refused))
            assert fingerprints(groups.values()) == state
            assert all(len(one.status().linked) == 2 for one in groups.values())

    go(scenario())
