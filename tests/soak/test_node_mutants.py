"""Every mutant of the node is caught, those included under which a test hangs."""

import subprocess
import sys
from pathlib import Path

MUTANTS = Path(__file__).parents[1] / "helpers" / "mutants.py"


def test_every_mutant_is_caught_by_the_test_that_is_named_for_it() -> None:
    answer = subprocess.run([sys.executable, MUTANTS], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
