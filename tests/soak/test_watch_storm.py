"""The watch of a storm: no false alarm, and at its end the verdicts of the audit.

Members are killed and come back. One is dead for a third of the time, the files of another arrive
half a minute late, and the group changes twice. The window is far too small for what the dead one
misses.

``TIDINGS_SOAK_MINUTES=12 make soak ROOM=watch_storm`` for twelve minutes, ``TIDINGS_SOAK_SEED=7``
for another storm.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from late_files import LateFiles
from real_groups import group_file
from tidings import pipeline
from tidings.pipeline.watching.running import WatchOptions, read_findings
from tidings.pipeline.watching.status import Status, read_status
from tidings.spec import Value
from tidings.testkit.fleet import Fleet, Member
from watch_driver import watching

MINUTES = float(os.environ.get("TIDINGS_SOAK_MINUTES", 30))
SEED = int(os.environ.get("TIDINGS_SOAK_SEED", 1))
PER_S = 40
"""Broadcasts of each member."""
LATE_S = 30.0
WINDOW = 20_000
SETTINGS = (
    'protocol = "views"',
    "links.alive_ms = 200",
    "links.silence_ms = 1000",
    "limits.segment_bytes = 1_000_000",
    "trace.segment_bytes = 500_000",
)


class Storm:
    """p2 is late, p4 is dead for long, p6 comes, p5 goes; p1 is asked, and stays up meanwhile."""

    def __init__(self, fleet: Fleet, checkpoint: Path, tell: Callable[[str], None]) -> None:
        self.fleet = fleet
        self.place = WatchOptions(str(checkpoint)).place
        self.tell = tell
        self.dice = Random(SEED)
        self.events: Counter[str] = Counter()
        self.worst: Counter[str] = Counter()

    def rage(self, seconds: float, check: Callable[[], None]) -> None:
        begin_s = time.monotonic()
        plan = [
            (0.1, lambda: self.fleet["p4"].kill()),
            (0.25, self._add),
            (0.1 + 1 / 3, lambda: self._start(self.fleet["p4"])),
            (0.75, self._remove),
        ]
        for member in self.fleet:
            member.publish(PER_S)
        while (now := (time.monotonic() - begin_s) / seconds) < 1 or plan:
            if plan and now >= plan[0][0]:
                plan.pop(0)[1]()
            self._kill_somebody()
            check()
            self._look(now)

    def _kill_somebody(self) -> None:
        able = [one for one in self.fleet.inside if one.is_up]
        victim = self.dice.choice(able)
        if len(able) > 3:
            victim.kill()
            self._pass(0.2, 4)
            self._start(victim)
            self.events["killed"] += 1
        self._pass(2, 6)

    def _start(self, member: Member) -> None:
        member.start(report_ms=50)
        member.publish(PER_S)

    def _add(self) -> None:
        newcomer = self.fleet.newcomer("p6")
        self._change("p6", add=newcomer)
        newcomer.publish(PER_S)
        self.events["added"] += 1

    def _remove(self) -> None:
        self._change("p5", remove="p5")
        self.events["removed"] += 1

    def _change(self, name: str, add: Member | None = None, remove: str = "") -> None:
        asked = self.fleet["p1"]
        for _ in range(30):
            before = asked.report.altered + len(asked.report.denied)
            asked.alter(add=add, remove=remove)
            self.fleet.wait_for(
                lambda b=before: asked.report.altered + len(asked.report.denied) > b, "an answer"
            )
            if (name in asked.report.members) == (add is not None):
                return
            self._pass(1, 2)
        raise AssertionError(f"denied again and again: {asked.report.denied[-1]}")

    def _look(self, now: float) -> None:
        """Nothing has gone wrong, so nothing may be said to have."""
        found = list(read_findings(self.place))
        assert not found, found[0]
        status = read_status(self.place)
        if status is not None:
            self._note(status)
            self.tell(f"{now:4.0%}  {_line(status)}, {dict(self.events)}")

    def _note(self, status: Status) -> None:
        self.worst["state bytes"] = max(self.worst["state bytes"], status.state_bytes)
        self.worst["lag ms"] = max(self.worst["lag ms"], round(1e3 * (status.lag_s or 0)))
        for run in status.runs:
            self.worst["window rows"] = max(self.worst["window rows"], run.window_rows)
            assert all(one.value is not Value.VIOLATED for one in run.verdicts), run.verdicts

    def _pass(self, least_s: float, most_s: float) -> None:
        self.fleet.comes_true(lambda: False, self.dice.uniform(least_s, most_s))


def _line(status: Status) -> str:
    (run,) = status.runs
    owed = sum(one.count for one in run.owed)
    lag = f"{status.lag_s:.1f}" if status.lag_s is not None else "?"
    return f"{status.rows:,} rows, lag {lag} s, {owed:,} owed, {status.state_bytes:,} bytes"


def test_a_storm_raises_no_false_alarm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    config = group_file(tmp_path, 5, *SETTINGS, tls=True, newcomers=("p6",))
    seen, checkpoint = tmp_path / "seen", tmp_path / "checkpoint"
    with (
        Fleet(tmp_path / "group.toml", seed=SEED, report_ms=50) as fleet,
        LateFiles(config.trace_folder, seen, "p2", LATE_S) as files,
        watching(seen, checkpoint, "--window", str(WINDOW)) as driver,
    ):
        storm = Storm(fleet, checkpoint, tell)

        def check() -> None:
            files.check()
            assert driver.poll() is None, driver.communicate()

        storm.rage(60 * MINUTES, check)
        assert fleet.settle(timeout_s=120)
        told, complaints = driver.communicate(timeout=4 * LATE_S)
    tell(f"at most {dict(storm.worst)}")
    assert driver.returncode == 0, (told, complaints)
    assert b"auditing the folder" not in complaints, "it could judge by itself"
    (line,) = told.splitlines()
    (run,) = json.loads(line)["runs"]
    (audited,) = pipeline.audit_here(seen).verdicts.values()
    assert {name: (one["value"], one["judged"], one["not_owed"], one["violated"])
            for name, one in run["verdicts"].items()} == {
        one.guarantee.value: (one.value, one.judged, one.not_owed, one.violated)
        for one in audited
    }  # fmt: skip
    assert all(one.value is Value.HOLDS for one in audited)
    assert len(audited) == 6
    assert storm.worst["window rows"] <= WINDOW
    assert storm.events["killed"] > 2 * MINUTES
