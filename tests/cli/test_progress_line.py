"""How far a long command is, in a file: a line now and then, and no more."""

import re

import pytest

from tidings.cli import audit, common


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(common, "time", clock)
    return clock


def test_in_a_file_a_line_is_written_at_most_every_five_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with common.progress_line("working", audit.EVERY_S, quiet_s=0.0) as show:
        for tenth in range(300):
            clock.now = tenth / 10
            show(f"stage {tenth // 7} at {clock.now}")
    lines = capsys.readouterr().err.splitlines()
    times = [float(re.fullmatch(r"\.\.\. stage \d+ at ([\d.]+)", line)[1]) for line in lines]
    assert times == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]


def test_what_is_over_soon_writes_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress_line("working", audit.EVERY_S) as show:
        for tenth in range(19):
            clock.now = tenth / 10
            show("still at it")
    assert capsys.readouterr().err == ""
