"""The tests themselves: the programs that they start hear the signals that they send."""

import subprocess
import sys
from pathlib import Path

IGNORED = """
import signal
heard = (signal.SIGINT, signal.SIGTERM)
print([one.name for one in heard if signal.getsignal(one) is signal.SIG_IGN])
"""
IN_THE_BACKGROUND = """
import os, signal, sys
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *sys.argv[1:]])
"""
"""Tests as a script without job control starts them, with ``make test &``."""


def test_a_program_that_a_test_starts_ignores_no_signal() -> None:
    answer = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True)
    assert answer.stdout == "[]\n"


def test_nor_does_it_when_the_tests_themselves_run_in_the_background() -> None:
    one = f"{Path(__file__)}::{test_a_program_that_a_test_starts_ignores_no_signal.__name__}"
    command = [sys.executable, "-c", IN_THE_BACKGROUND, one]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert (answer.returncode, "1 passed" in answer.stdout) == (0, True), answer.stdout
