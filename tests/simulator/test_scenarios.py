"""Golden conversations: every scenario file says what the group must answer."""

import re
from pathlib import Path

import pytest

from tidings.core import DataError, UsageError
from tidings.protocols import PROTOCOLS
from tidings.simulator.scenario import parse, play_scenario
from tidings.spec import Value, judge

FILES = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_group_answers_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    played = play_scenario(path)
    if request.config.getoption("--rewrite"):
        path.write_text(played.conversation())
        played = play_scenario(path)
    way_out = f"if it is right now: .venv/bin/pytest {__file__} -k {path.stem} --rewrite"
    assert played.conversation() == path.read_text(), way_out
    assert played.surprise() is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_flawed_protocols_break_a_guarantee(path: Path) -> None:
    run = play_scenario(path).run
    broken = tuple(v.guarantee.value for v in judge(run) if v.value is not Value.HOLDS)
    texts = {(row.message, row.digest) for row in run.rows if row.kind == "broadcast"}
    if len({message for message, _ in texts}) < len(texts):
        assert broken == ("no creation",), "a name used twice, and no protocol can help that"
    else:
        assert broken == PROTOCOLS[run.manifest.protocol].breaks


def test_some_scenarios_break_a_guarantee() -> None:
    flaws = {
        str(play_scenario(path).run.manifest.protocol)
        for path in FILES
        if "flawed/" in path.read_text()
    }
    assert {"flawed/careless", "flawed/hasty"} <= flaws


def test_every_rule_of_frontier_has_a_conversation() -> None:
    rules = "1 2 3 4 5 6 7 8a 8b 8c 8d 8e 8f 9 10 11"
    tops = [path.read_text().partition(":")[0] for path in FILES]
    shown = [re.findall(r"\d+[a-f]?", top) for top in tops if top.startswith("# Rule")]
    assert {rule for some in shown for rule in some} == set(rules.split())


def play(tmp_path: Path, text: str):
    file = tmp_path / "scenario.txt"
    file.write_text(text)
    return play_scenario(file)


def test_a_wrong_answer_is_found_with_its_line(tmp_path: Path) -> None:
    text = "group p1 p2\nprotocol majority-relay\nbroadcast p1 hi\n----\np1 -> p3  copy p1#1\n"
    surprise = play(tmp_path, text).surprise()
    assert surprise is not None
    assert "scenario.txt:5" in surprise
    assert "p1 -> p2" in surprise


def test_what_the_group_adds_unasked_is_found(tmp_path: Path) -> None:
    text = "group p1 p2\nprotocol majority-relay\nbroadcast p1 hi\n----\np1 -> p2  copy p1#1\n"
    surprise = play(tmp_path, text).surprise()
    assert surprise is not None
    assert "also says 'p1 delivers p1#1 \"hi\"'" in surprise


def test_a_run_that_is_not_settled_cannot_promise_anything(tmp_path: Path) -> None:
    run = play(tmp_path, "group p1 p2 p3\nbroadcast p1 hi\nreceive all\n").run
    assert [verdict.value.value for verdict in judge(run)] == [
        "holds",
        "holds",
        "unknown",
        "unknown",
        "holds",
    ]


def test_times_can_be_given(tmp_path: Path) -> None:
    run = play(tmp_path, "group p1 p2\nat 20ms broadcast p1 hi\nsettle\n").run
    assert next(iter(run.rows)).time_ns == 20_000_000


def test_blocks_keep_commands_and_answers_apart() -> None:
    first, second = parse("group p1\nbroadcast p1 x\n----\nan answer\n\nsettle\n")
    assert (first.commands, first.answer) == (["group p1", "broadcast p1 x"], ["an answer"])
    assert (second.line, second.commands, second.answer) == (6, ["settle"], None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("group p1 p2\nshout p1 hi", "2: unknown command 'shout'"),
        ("broadcast p1 hi", "1: say who is in the group first"),
        ("group p1 1p", "1: '1p' is not a name"),
        ("group p1 p2\nbroadcast p3 hi", "2: there is no p3"),
        ("group p1 p2\nbroadcast p1 hi\nreceive p2->p1 p1#7", "3: nothing in flight fits"),
        ("group p1 p2\nreceive p1-p2", "2: 'p1-p2' is not a link"),
        ("group p1 p2\nprotocol urb", "2: unknown protocol 'urb'"),
        ("group p1 p2\nprotocol majority-relay fast=yes", "2: majority-relay has no option"),
        ("group p1 p2\nlinks wet", "2: links are retrying or lossy"),
        ("group p1 p2\nbroadcast p1 x\ndrop p1->p2", "3: only lossy links drop packets"),
        ("group p1 p2\nbroadcast p1 x\nlinks lossy", "3: 'links' comes before the first event"),
        ("group p1 p2 p3\ncrash p1\nbroadcast p1 x", "3: p1 has crashed"),
        ("group p1 p2\ncrash p1 gently", "2: write: crash P"),
        ("group p1 p2\nprotocol two-phase\ncrash p1\nrecover p1", "4: p1 keeps nothing on disk"),
        ("group p1 p2\njoin p3 via p1", "2: this protocol has a fixed group"),
        ("group p1 p2\njoin p3", "2: write: join p4 via p1"),
        ("group p1 p2\ntimeout p1 relay", "2: p1 has no timer 'relay'"),
        ("group p1 p2\nchoose p1", "2: write: choose PROCESS LABEL POSITION"),
        ("group p1 p2\nat noon broadcast p1 x", "2: 'noon' is not a time"),
        ("group p1 p2\ncut", "2: write: cut p1 p2 | p3"),
        ("group p1 p2\ncut p1->p9", "2: there is no link p1->p9"),
        ("# nothing\n", "an empty scenario"),
        ("group p1 p1", "1: a name stands twice"),
        ("group p1 p2\nbroadcast", "2: write: broadcast p1 any text"),
        ("group p1 p2\nat 5ms", "2: write: at 20ms COMMAND"),
        ("group p1 p2\nheal now", "2: heal stands alone"),
        ("group p1 p2\nsettle please", "2: settle stands alone"),
        ("group p1\nprotocol majority-relay notice=maybe", "2: notice is yes or no"),
        (
            "group p1 p2 p3\nprotocol flawed/storm\nbroadcast p1 lost\nbroadcast p1 kept\n"
            "crash p1 keeping p1->p2 p1#2, p1->p3 p1#2\nsettle",
            "6: the run does not come to rest in 100,000 steps",
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        play(tmp_path, text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "scenario.txt"))


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such scenario file"):
        play_scenario(tmp_path / "absent.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"binary.txt: not a scenario: no UTF-8 at byte 0$"):
        play_scenario(tmp_path / "binary.txt")
    with pytest.raises(UsageError, match="Is a directory"):
        play_scenario(tmp_path)
