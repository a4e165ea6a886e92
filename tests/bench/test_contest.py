"""The harness of the benchmark is measured by contestants whose costs are known."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import contest

BURNT_S = 0.6
MEMORY_MIB = 300

BURNING = f"""
import os, sys, time
held = bytearray(os.urandom(1 << 20)) * {MEMORY_MIB}
begin = time.process_time()
while time.process_time() < begin + {BURNT_S}:
    pass
with open(sys.argv[1], "w") as note:
    note.write(str(time.process_time()))
"""


def _burn(shell: str, note: Path, keep: int) -> None:
    """A shell starts what holds memory, burns time, and notes how much."""
    burning = [sys.executable, "-S", "-c", BURNING, str(note)]
    subprocess.run(["sh", "-c", shell, "sh", *burning], check=True, pass_fds=[keep])


def _judged(shell: str, trace: Path) -> None:
    """Until the burning is over, even if nobody waits for it: then the pipe has no other end."""
    if trace.name == "trace":
        reading, writing = os.pipe()
        _burn(shell, trace, writing)
        os.close(writing)
        assert os.read(reading, 1) == b""


@contextmanager
def _in_a_grandchild() -> Iterator[Callable[[Path], None]]:
    yield lambda trace: _judged('"$@"; true', trace)


@contextmanager
def _in_an_orphan() -> Iterator[Callable[[Path], None]]:
    yield lambda trace: _judged('"$@" &', trace)


@contextmanager
def _only_while_warming_up() -> Iterator[Callable[[Path], None]]:
    while time.process_time() < BURNT_S:
        pass
    yield lambda trace: None


@contextmanager
def _wrong() -> Iterator[Callable[[Path], None]]:
    def judge(trace: Path) -> None:
        raise ValueError("a valid trace was judged violated")

    yield judge


@contextmanager
def _mute() -> Iterator[Callable[[Path], None]]:
    yield lambda trace: os._exit(3)


@pytest.mark.parametrize("contestant", [_in_a_grandchild, _in_an_orphan])
def test_descendants_that_have_ended_are_counted(
    contestant: contest.Contestant, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    cost = contest.measured(contestant, tmp_path / "small", trace)
    assert cost.cpu_s == pytest.approx(float(trace.read_text()), rel=0.15)
    assert cost.wall_s >= BURNT_S
    assert MEMORY_MIB <= cost.peak_mib <= MEMORY_MIB + 100


def test_warming_up_is_not_counted() -> None:
    cost = contest.measured(_only_while_warming_up, Path("small"), Path("trace"))
    assert cost.cpu_s < BURNT_S / 10


@pytest.mark.parametrize(("contestant", "words"), [(_wrong, "violated"), (_mute, "without a word")])
def test_a_contestant_that_fails_is_not_measured(
    contestant: contest.Contestant, words: str
) -> None:
    with pytest.raises(contest.ContestantFailedError, match=words):
        contest.measured(contestant, Path("small"), Path("trace"))
