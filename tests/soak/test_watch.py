"""The watch of a group that runs for minutes, by a driver that is killed again and again."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tidings import pipeline
from tidings.pipeline.watching.running import WatchOptions, key_of, read_findings
from tidings.pipeline.watching.status import read_status
from tidings.spec import Verdict
from watch_driver import Driver, watching
from writing_members import FORGED, FaultyGroup, deliver

KILLS = 10
TURNS_PER_S = 20
WITHIN_S = 10.0
OF_EACH_KIND = 20


def _run_for(group: FaultyGroup, seconds: float, kinds: list[str]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = kinds.pop() if kinds and group.rng.random() < 0.1 else None
        group.turn(kind)
        time.sleep(1 / TURNS_PER_S)


def _wait_for_batch(group: FaultyGroup, driver: Driver, checkpoint: Path, after: int) -> int:
    """The group goes on meanwhile: without rows there is no batch."""
    for _ in range(1200):
        assert driver.poll() is None, driver.communicate()
        group.turn()
        status = read_status(WatchOptions(str(checkpoint)).place)
        if status is not None and status.batch > after:
            return status.batch
        time.sleep(0.1)
    raise AssertionError(f"no batch after {after}")


def _findings(checkpoint: Path) -> list[dict[str, Any]]:
    return list(read_findings(WatchOptions(str(checkpoint)).place))


def _fault(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["guarantee"], row["process"], f"{row['origin']}#{row['seq']}"


def _audited(trace: Path) -> tuple[Verdict, ...]:
    return tuple(pipeline.audit_here(trace, examples=None).verdicts["live"])


def _keys_of_safety(verdicts: Iterable[Verdict]) -> list[str]:
    """Of every violation that an alarm tells: a key has the witness in it."""
    told = ("no duplication", "no creation", "causal order")
    found = [one for verdict in verdicts for one in verdict.violations]
    return sorted(key_of("live", one) for one in found if one.guarantee in told)


def test_a_driver_killed_ten_times_misses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    trace, checkpoint = tmp_path / "trace", tmp_path / "checkpoint"
    group = FaultyGroup(trace, seed=3)
    kinds = [*FaultyGroup.KINDS] * 5
    batch = -1
    for _ in range(KILLS):
        with watching(trace, checkpoint) as driver:
            batch = _wait_for_batch(group, driver, checkpoint, batch)
            _run_for(group, 2 + group.rng.random() * 3, kinds)
    with watching(trace, checkpoint) as driver:
        while kinds:
            _run_for(group, 1, kinds)
        group.settle()
        told, complaints = driver.communicate(timeout=120)
    assert driver.returncode == 1, (told, complaints)
    rows = _findings(checkpoint)
    expected = [(one.guarantee, one.process, one.message) for one in group.faults]
    assert sorted(map(_fault, rows)) == sorted(expected)
    assert len(rows) == 5 * len(FaultyGroup.KINDS)
    assert sorted(row["key"] for row in rows) == _keys_of_safety(_audited(trace))


@pytest.mark.parametrize("kind", FaultyGroup.KINDS)
def test_faults_are_found_within_seconds(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, checkpoint = tmp_path / "trace", tmp_path / "checkpoint"
    group = FaultyGroup(trace, seed=4)
    with watching(trace, checkpoint) as driver:
        _wait_for_batch(group, driver, checkpoint, -1)
        kinds = [kind] * OF_EACH_KIND
        while kinds:
            _run_for(group, 1, kinds)
        group.settle()
        told, complaints = driver.communicate(timeout=120)
    assert driver.returncode == 1, (told, complaints)
    rows = _findings(checkpoint)
    found_at = {_fault(row): row["found_at"].timestamp() for row in rows}
    late = sorted(
        found_at[one.guarantee, one.process, one.message] - one.decidable_s for one in group.faults
    )
    with capsys.disabled():
        print(f"\n{kind}: found after {late[len(late) // 2]:.2f} s, at most {late[-1]:.2f} s")
    assert late[-1] < WITHIN_S
    assert len(late) == len(rows) == OF_EACH_KIND
    assert sorted(row["key"] for row in rows) == _keys_of_safety(_audited(trace))


@pytest.mark.parametrize("kind", ["invented", "never delivered"])
def test_what_only_the_end_shows_is_told_within_seconds_of_it(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody broadcast it; or p3 lacks the last that p2 broadcast."""
    trace, checkpoint = tmp_path / "trace", tmp_path / "checkpoint"
    group = FaultyGroup(trace, seed=5)
    with watching(trace, checkpoint) as driver:
        _wait_for_batch(group, driver, checkpoint, -1)
        _run_for(group, 1, [])
        if kind == "invented":
            group.p3.write(deliver("p1", 1_000_000, OF_EACH_KIND, FORGED))
        else:
            for _ in range(OF_EACH_KIND):
                group.answer()
        group.settle()
        settled_s = time.monotonic()
        told, complaints = driver.communicate(timeout=120)
    late_s = time.monotonic() - settled_s
    with capsys.disabled():
        print(f"\n{kind}: told {late_s:.2f} s after the end")
    assert driver.returncode == 1, (told, complaints)
    assert not _findings(checkpoint)
    audited = _audited(trace)
    (end,) = json.loads(told.splitlines()[-1])["runs"]
    violated = {name: one["violated"] for name, one in end["verdicts"].items()}
    assert violated == {one.guarantee.value: one.violated for one in audited}
    assert sum(violated.values()) == OF_EACH_KIND
    assert late_s < WITHIN_S
