"""The watch of a group that runs for minutes, by a driver that is killed again and again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidings import pipeline
from tidings.pipeline.watching.running import WatchOptions, read_findings
from tidings.pipeline.watching.status import read_status
from writing_members import FaultyGroup

KILLS = 10
TURNS_PER_S = 20
WITHIN_S = 10.0


def _watch(trace: Path, checkpoint: Path) -> "subprocess.Popen[bytes]":
    words = ["watch", str(trace), "--checkpoint", str(checkpoint), "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "tidings", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _run_for(group: FaultyGroup, seconds: float, kinds: list[str]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = kinds.pop() if kinds and group.rng.random() < 0.1 else None
        group.turn(kind)
        time.sleep(1 / TURNS_PER_S)


def _wait_for_batch(group: FaultyGroup, checkpoint: Path, after: int) -> int:
    """The group goes on meanwhile: without rows there is no batch."""
    for _ in range(1200):
        group.turn()
        status = read_status(WatchOptions(str(checkpoint)).place)
        if status is not None and status.batch > after:
            return status.batch
        time.sleep(0.1)
    raise AssertionError(f"no batch after {after}")


def test_a_driver_killed_ten_times_misses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    group, checkpoint = FaultyGroup(tmp_path / "trace", seed=3), tmp_path / "checkpoint"
    kinds = [*FaultyGroup.KINDS] * 5
    batch = -1
    for _ in range(KILLS):
        driver = _watch(tmp_path / "trace", checkpoint)
        batch = _wait_for_batch(group, checkpoint, batch)
        _run_for(group, 2 + group.rng.random() * 3, kinds)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    driver = _watch(tmp_path / "trace", checkpoint)
    while kinds:
        _run_for(group, 1, kinds)
    group.settle()
    assert driver.wait(timeout=120) == 1
    rows = list(read_findings(WatchOptions(str(checkpoint)).place))
    found = [(row["guarantee"], row["process"], row["seq"]) for row in rows]
    assert sorted(found) == sorted((one.guarantee, one.process, one.seq) for one in group.faults)
    assert len({row["key"] for row in rows}) == len(rows) == 20


@pytest.mark.parametrize("kind", FaultyGroup.KINDS)
def test_faults_are_found_within_seconds(tmp_path: Path, kind: str) -> None:
    group, checkpoint = FaultyGroup(tmp_path / "trace", seed=4), tmp_path / "checkpoint"
    driver = _watch(tmp_path / "trace", checkpoint)
    _wait_for_batch(group, checkpoint, -1)
    kinds = [kind] * 20
    while kinds:
        _run_for(group, 1, kinds)
    group.settle()
    assert driver.wait(timeout=120) == 1
    rows = list(read_findings(WatchOptions(str(checkpoint)).place))
    late = [
        row["found_at"].timestamp() - one.decidable_s
        for row, one in zip(rows, group.faults, strict=True)
    ]
    print(f"{kind}: found after {sorted(late)[10]:.2f} s, at most {max(late):.2f} s")
    assert max(late) < WITHIN_S
    audited = pipeline.audit_here(tmp_path / "trace", examples=None).verdicts["live"]
    assert sum(one.violated for one in audited) == len(rows) == 20
