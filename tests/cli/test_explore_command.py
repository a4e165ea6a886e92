"""``tidings explore`` as its users meet it: verdicts, stored runs, stories, refusals."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.core import Exit
from tidings.trace import read_runs


def test_a_sound_algorithm_explored_to_the_end_exits_0(tidings) -> None:
    answer = tidings("explore", "--crashes", "1", "--workers", "1")
    assert answer.status == Exit.HOLDS
    assert "frontier, 3 processes, 1 broadcast, 1 crash" in answer.out
    assert "that is everything" in answer.out
    assert answer.out.count("✓ holds") == 5
    assert not Path("runs").exists()


def test_a_flaw_exits_1_with_a_run_that_replays_and_a_story(tidings) -> None:
    answer = tidings("explore", "--protocol", "flawed/hasty", "--crashes", "1", "--workers", "1")
    assert answer.status == Exit.VIOLATED
    assert "UNIFORM AGREEMENT violated at p2" in answer.out
    (folder,) = Path("runs").iterdir()
    assert f"tidings replay {folder}" in answer.out
    names = {path.name for path in folder.iterdir()}
    test = f"test_{folder.name.split('-')[1]}_uniform_agreement.py"
    assert {"story.md", "story.svg", test} <= names
    again = tidings("replay", str(folder))
    assert again.status == Exit.VIOLATED
    assert "byte for byte" in again.out
    assert "UNIFORM AGREEMENT violated at p2" in again.out


GUIDE = Path(__file__).parents[2] / "docs" / "explore.md"


@pytest.mark.parametrize(
    "command", re.findall(r"^\$ tidings (explore.*)$", GUIDE.read_text(), re.MULTILINE)
)
def test_the_commands_of_the_guide_work(tidings, command: str) -> None:
    words = [
        str(GUIDE.parent.parent / word) if word.startswith("examples/") else word
        for word in command.split()
    ]
    answer = tidings(*words)
    assert answer.status == (Exit.HOLDS if "stage-gossip" in command else Exit.VIOLATED)


def test_the_same_search_writes_the_same_bytes(tidings) -> None:
    for name in ("one", "two"):
        tidings("explore", "--protocol", "flawed/unordered", "--broadcasts", "2", "--out", name)
    one, two = (
        {path.relative_to(name): path.read_bytes() for path in Path(name).rglob("*.jsonl")}
        for name in ("one", "two")
    )
    assert one
    assert one == two


def test_two_guarantees_broken_by_one_run_have_a_story_each(tidings) -> None:
    answer = tidings("explore", "--protocol", "flawed/silent-relay", "--crashes", "1")
    assert answer.status == Exit.VIOLATED
    stories = [path.read_text() for path in sorted(Path("runs").glob("*/story.md"))]
    assert [story.splitlines()[0] for story in stories] == [
        "# Uniform agreement violated at p1",
        "# Validity violated at p1",
    ]


def test_a_flaw_of_cost_is_found_by_its_packets(tidings) -> None:
    words = ("explore", "--protocol", "flawed/forgetful-relay", "--workers", "1")
    assert tidings(*words).status == Exit.HOLDS
    answer = tidings(*words, "--max-packets", "6")
    assert answer.status == Exit.VIOLATED
    assert "cost" in answer.out


def test_a_cut_search_exits_2_and_says_so(tidings) -> None:
    answer = tidings("explore", "--broadcasts", "2", "--depth", "2", "--workers", "1")
    assert answer.status == Exit.UNKNOWN
    assert "not everything: not deeper than 2 moves" in answer.out
    assert answer.out.count("? unknown") == 5


def test_the_result_as_json(tidings) -> None:
    words = ("explore", "--protocol", "flawed/careless", "--broadcasts", "2", "--json")
    answer = tidings(*words)
    result = json.loads(answer.out)
    assert answer.status == Exit.VIOLATED
    assert result["verdicts"]["causal order"] == "violated"
    assert result["pace"]["states"] > 0
    (run,) = read_runs(Path(result["found"]["causal order"]))
    assert run.manifest.plan["explored"]["broadcasts"] == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--crashes", "2"], "at most 1 of 3"),
        (["--protocol", "nonsense"], "unknown protocol 'nonsense'"),
        (["--without", "magic"], "no reduction 'magic'"),
        (["--workers", "-1"], "--workers takes 1 to 64"),
        (["--joiners", "1"], "fixed group"),
        (["--protocol", "two-phase", "--crashes", "1", "--restarts", "1"], "cannot come back"),
        (["--process", "nowhere.py:Mine"], "nowhere.py"),
    ],
)
def test_what_cannot_be_explored_is_refused_in_one_line(
    tidings, words: list[str], complaint: str
) -> None:
    answer = tidings("explore", *words)
    assert answer.status in (Exit.USAGE, Exit.DATA)
    assert complaint in answer.err
    assert len([line for line in answer.err.splitlines() if line.startswith("tidings:")]) == 1


OWN = """
from tidings.core import Accept, Broadcast, Deliver, Message, MessageId, Process


class Lonely(Process):
    \"\"\"Delivers to itself alone, and fails when it is asked twice.\"\"\"

    def __init__(self, me, members, choose):
        super().__init__(me, members, choose)
        self.seq = 0

    def step(self, event):
        if not isinstance(event, Broadcast):
            return []
        self.seq += 1
        if self.seq > 1:
            raise RuntimeError("asked twice")
        message = Message(self.me, self.seq, event.texts[0])
        return [Accept((message.id,)), Deliver((message,))]
"""


def test_a_process_of_ones_own_is_explored(tidings) -> None:
    Path("own.py").write_text(OWN)
    answer = tidings("explore", "--process", "own.py:Lonely", "--workers", "1")
    assert answer.status == Exit.VIOLATED
    assert "UNIFORM AGREEMENT violated" in answer.out


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_process_that_fails_is_reported_with_the_way_there(tidings, workers: str) -> None:
    Path("own.py").write_text(OWN)
    answer = tidings(
        "explore", "--process", "own.py:Lonely", "--processes", "1", "--broadcasts", "2",
        "--workers", workers,
    )  # fmt: skip
    assert answer.status == Exit.DATA
    assert "RuntimeError: asked twice" in answer.err
    assert "own.py:17" in answer.err
    (folder,) = Path("runs").iterdir()
    again = tidings("replay", str(folder))
    assert again.status == Exit.DATA
    assert "RuntimeError: asked twice" in again.err


def test_ctrl_c_ends_the_search_with_what_it_saw(tmp_path: Path) -> None:
    search = subprocess.Popen(
        [
            sys.executable, "-c", "from tidings.cli import run_and_exit; run_and_exit()",
            "explore", "--broadcasts", "4", "--crashes", "1", "--without", "all",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert search.stderr is not None
    search.stderr.readline()  # it has begun
    os.killpg(search.pid, signal.SIGINT)
    out, _ = search.communicate(timeout=120)
    assert search.returncode == Exit.INTERRUPTED
    assert "not everything: interrupted" in out
    assert out.strip().endswith("UNKNOWN")
