"""``tidings check``: simulate, explore, shrink and story in one verb."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RELAY = Path(__file__).parents[2] / "examples" / "relay.py"
SOUND = """
from tidings.protocols.majority_relay import MajorityRelay


class Sound(MajorityRelay):
    pass
"""
RAGGED = """
from tidings.core import Receive
from tidings.protocols.majority_relay import MajorityRelay


class Ragged(MajorityRelay):
    def step(self, event):
        if isinstance(event, Receive):
            raise RuntimeError("not today")
        return super().step(event)
"""
QUICK = ("--runs", "4")


def test_what_breaks_is_explored_or_shrunk_and_reported_with_a_test_that_runs(
    tidings, tmp_path: Path
) -> None:
    answer = tidings("check", f"{RELAY}:Relay", *QUICK)
    assert answer.status == 1
    first, second, *_ = answer.out.splitlines()
    assert first.startswith("simulate  4 random runs of 5 processes: broke causal order")
    assert second.startswith("explore   3 processes and 2 broadcasts, 1 crash: ")
    assert second.endswith("stopped at the first violation")
    assert "\nshrink    causal order: " in answer.out, "explored runs are short already"
    assert "uniform agreement  ✗ violated" in answer.out
    assert "UNIFORM AGREEMENT violated" in answer.out
    assert "CAUSAL ORDER violated" in answer.out
    folders = {path.name.split("-", 2)[2]: path.name for path in (tmp_path / "runs").iterdir()}
    assert folders.keys() == {"causal-order", "uniform-agreement"}
    for name in folders.values():
        (test,) = (tmp_path / "runs" / name).glob("test_*.py")
        assert (tmp_path / "runs" / name / "story.md").is_file()
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
        ended = subprocess.run(words, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout
        assert " passed in " in ended.stdout
        assert tidings("replay", f"runs/{name}").status == 1


def test_what_is_sound_in_all_that_was_seen_exits_0(tidings) -> None:
    Path("sound.py").write_text(SOUND)
    answer = tidings("check", "sound.py:Sound", *QUICK, "--crashes", "0")
    assert answer.status == 0
    assert "simulate  4 random runs of 5 processes: nothing broke" in answer.out
    assert ", that is everything" in answer.out
    assert answer.out.count("✓ holds") == 5
    assert not Path("runs").exists()


def test_what_is_too_much_to_see_is_unknown_and_says_how_to_see_more(tidings) -> None:
    Path("sound.py").write_text(SOUND)
    answer = tidings("check", "sound.py:Sound", *QUICK, "--states", "50")
    assert answer.status == 2
    assert "more than 50 states" in answer.out
    assert answer.out.count("? unknown") == 5
    assert "to see more: --states " in answer.out
    result = json.loads(tidings("check", "sound.py:Sound", *QUICK, "--states", "50", "--json").out)
    assert set(result["verdicts"].values()) == {"unknown"}
    assert result["simulated"] == {"runs": 4, "violated": []}
    assert result["found"] == {}


def test_the_folder_of_ones_choice_is_used_and_never_overwritten(tidings, tmp_path: Path) -> None:
    words = ("check", f"{RELAY}:Relay", "--runs", "1", "--out", "kept", "--json")
    result = json.loads(tidings(*words).out)
    assert result["found"]["uniform agreement"] == {
        "how": "explored",
        "trace": "kept/uniform-agreement",
    }
    assert (tmp_path / "kept/uniform-agreement/story.svg").is_file()
    again = tidings(*words)
    assert again.status == 64
    assert "kept is not an empty folder" in again.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["frontier"], "takes a class in a file: my_file.py:MyProcess"),
        (["nowhere.py:Mine"], "nowhere.py"),
        ([f"{RELAY}:Relais"], "has no class 'Relais'; it has: "),
        ([f"{RELAY}:Relay", "--crashes", "2"], "at most 1 of 3"),
        ([f"{RELAY}:Relay", "--option", "speed=9"], "has no option 'speed'"),
    ],
)
def test_a_mistake_gets_one_line(tidings, words: list[str], complaint: str) -> None:
    answer = tidings("check", *words)
    assert answer.status == 64
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


def test_a_process_that_fails_is_reported_with_the_run_that_shows_it(tidings) -> None:
    Path("ragged.py").write_text(RAGGED)
    answer = tidings("check", "ragged.py:Ragged", *QUICK)
    assert answer.status == 65
    assert "not today" in answer.err
    assert "once more: tidings replay runs/fault-" in answer.err
