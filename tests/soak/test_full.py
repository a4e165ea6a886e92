"""Tests that do less as a rule, in full: as many runs, seeds and seconds as ``amount`` says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amounts import FULL

TESTS = Path(__file__).parents[1]
USING = "from amounts import"
ROOMS = [
    str(path.relative_to(TESTS))
    for path in sorted(TESTS.rglob("test_*.py"))
    if path.parent.name != "soak" and USING in path.read_text()
]


@pytest.mark.parametrize("room", ROOMS)
def test_it_passes_in_full(room: str) -> None:
    words = [sys.executable, "-m", "pytest", "--override-ini", "addopts=", "-q", str(TESTS / room)]
    ended = subprocess.run(words, env=os.environ | {FULL: "yes"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-5_000:]
