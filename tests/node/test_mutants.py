"""The tests of the node notice what it must not forget.

Mutants under which a test hangs wait for its deadline, and are left to ``make soak``.
"""

import subprocess
import sys
from collections import Counter

import mutants
from mutants import CAUGHT, HANGS

UNNOTICED = """
from mutants import CAUGHT, Caught, forgotten_sync, missed, nothing

test, complaint = CAUGHT[forgotten_sync]
CAUGHT |= {nothing: Caught(test, complaint), forgotten_sync: Caught(test, "it is late")}
print(missed(nothing))
print(missed(forgotten_sync).splitlines()[0])
CAUGHT[nothing] = Caught("test_durable_log.py::test_that_is_not_there", "")
print(missed(nothing))
"""


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    folder = mutants.HERE
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)


def test_every_mutant_is_caught_by_the_test_that_is_named_for_it() -> None:
    quick = [mutant.__name__ for mutant, caught in CAUGHT.items() if caught.complaint != HANGS]
    answer = run("mutants.py", *quick)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_there_are_twenty_of_them_and_few_that_hang() -> None:
    assert len(CAUGHT) >= 20
    assert Counter(caught.complaint == HANGS for caught in CAUGHT.values())[True] <= 5


def test_a_test_that_passes_or_fails_for_another_reason_does_not_count() -> None:
    answer = run("-c", UNNOTICED)
    test = CAUGHT[mutants.forgotten_sync].by
    assert answer.stdout.splitlines() == [
        f"{test} passes",
        f"{test} fails for another reason: AssertionError: assert [] == ['fdatasync 00000001.log']",
        "there is no test_durable_log.py::test_that_is_not_there",
    ]
