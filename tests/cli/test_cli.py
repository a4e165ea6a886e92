"""The command line: every exit status, every example, every --json."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from textwrap import dedent
from unittest.mock import patch

import pytest

from flaw_scenes import SCENARIOS
from tidings import cli
from tidings.__main__ import JUDGES

COMMAND = Path(sys.executable).with_name("tidings")
DEADLINE_S = 120
COMMANDS = [command.name or command.callback.__name__ for command in cli.app.registered_commands]


# --- exit statuses


def test_0_when_all_five_hold(tidings) -> None:
    answer = tidings("simulate", "--seed", "7", "--crashes", "2")
    assert answer.status == 0
    assert answer.out.startswith("seed   7\n")
    assert answer.out.count("✓ holds") == 5


def test_1_when_one_is_violated(tidings) -> None:
    answer = tidings("simulate", "--seed", "7", "--protocol", "flawed/repeating")
    assert answer.status == 1
    assert "NO DUPLICATION violated at" in answer.out


def test_2_when_one_cannot_be_judged(tidings, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("group p1 p2 p3\nbroadcast p1 hi\nreceive all\n")
    answer = tidings("simulate", "short.txt")
    assert answer.status == 2
    assert "p1 neither settled nor has a known fate" in answer.out


LEAVING_OUT = "protocol {}" + dedent(SCENARIOS["flawed/leaving-out"])


def test_a_newcomer_left_out_is_reported_beside_the_five(tidings) -> None:
    Path("s.txt").write_text(LEAVING_OUT.format("flawed/leaving-out"))
    answer = tidings("simulate", "s.txt", "--story", "story")
    assert answer.status == 1
    assert "REACH violated at p2" in answer.out
    assert "However, m2 was not addressed to p4, to whom m1 was addressed." in answer.out
    assert "story/story.md" in answer.out
    assert json.loads(tidings("simulate", "s.txt", "--json").out)["extras"] == ["reach"]


def test_where_members_join_reach_is_expected_to_hold(tidings) -> None:
    Path("s.txt").write_text(LEAVING_OUT.format("interval-history"))
    answer = tidings("simulate", "s.txt")
    assert answer.status == 0
    assert "reach, which is none of the five, holds too" in answer.out
    assert "reach" not in tidings("simulate", "--seed", "7").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["simulate", "--protocol", "urb"], "unknown protocol 'urb'; known: majority-relay"),
        (["simulate", "--crashes", "3"], "only a minority may crash: at most 2 of 5"),
        (["simulate", "--processes", "many"], "'--processes'"),
        (["simulate", "--option", "fast"], "write options as name=value"),
        (["simulate", "--links", "wet"], "'--links'"),
        (["simulate", "absent.txt"], "absent.txt: no such scenario file"),
        (["simulate", "absent.txt", "--crashes", "1"], "a scenario file says everything itself"),
        (["simulate", "--seed", "-7"], "a seed is 0 or more"),
        (["simulate", "--option", "strict=7"], "strict is yes or no"),
        (["compare", "--chart", "no/such/folder.svg"], "in a folder that exists"),
        (["simulate", "--no-such-option"], "No such option: --no-such-option"),
        (["demo", "--break", "trust"], "'--break'"),
        (["compare", "--sizes", "few"], "--sizes takes numbers like 3,5,10"),
        (["compare", "--messages", "0"], "--messages takes 1 or more"),
        (["compare", "--chart", "costs.pdf"], "--chart takes a .svg file"),
        (["compare", "--protocol", "urb"], "unknown protocol 'urb'"),
        (["audit", "nowhere"], "nowhere: no such file or folder"),
        (["audit", "nowhere", "--examples", "-1"], "--examples takes 0 or more"),
        (["audit", ".", "--master", "local", "--remote", "sc://here"], "not both"),
        (["shout"], "No such command 'shout'"),
        (["simulate", "--seed", "x"], "'--seed': 'x' should be a valid integer (see tidings sim"),
        (["watch", ".", "--every", "1s"], "'--every': '1s' should be a valid number (see tidings"),
        (["group", "p1", "--metrics", "99999"], "'99999' should be less than or equal to 65535"),
        (["demo", "--break", "ordr"], "'--break': 'ordr' is not one of 'duplication', 'creation'"),
        (["demo", "--break", "ordr"], "'agreement', 'order'; did you mean order? (see tidings de"),
        (["node", "p1", "--logs", "xml"], "'xml' is not one of 'console', 'json' (see tidings nod"),
    ],
)
def test_64_when_asked_for_the_impossible(tidings, words, complaint) -> None:
    answer = tidings(*words)
    assert answer.status == 64
    assert complaint in answer.err
    assert one_line(answer.err)


def test_what_audit_cannot_write_or_read_is_noticed_before_spark_is_started(
    tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("tidings.cli.audit.on_spark")
    assert tidings("simulate", "--seed", "1", "--trace", "t").status == 0
    answer = tidings("audit", "t", "--violations", "t/trace.jsonl/all.parquet")
    assert (answer.status, one_line(answer.err)) == (69, True)
    assert "t/trace.jsonl/all.parquet: Not a directory" in answer.err
    Path("t/manifest.jsonl").write_text("{")
    answer = tidings("audit", "t")
    assert (answer.status, one_line(answer.err)) == (65, True)
    assert "t/manifest.jsonl:1: not a part of a manifest" in answer.err


@pytest.mark.usefixtures("spark")
def test_65_when_the_data_is_bad(tidings, tmp_path: Path) -> None:
    assert tidings("simulate", "--seed", "1", "--trace", "t").status == 0
    rows = (tmp_path / "t" / "trace.jsonl").read_bytes()
    (tmp_path / "t" / "trace.jsonl").write_bytes(rows[:-20])
    answer = tidings("audit", "t")
    assert answer.status == 65
    assert "trace.jsonl:" in answer.err
    assert "truncated" in answer.err
    assert answer.out == "", "no partial verdict"


@pytest.mark.usefixtures("spark")
def test_65_when_only_the_rows_are_corrupt(tidings, tmp_path: Path) -> None:
    assert tidings("simulate", "--seed", "1", "--trace", "t", "--format", "parquet").status == 0
    file = tmp_path / "t" / "trace.parquet"
    content = bytearray(file.read_bytes())
    content[200:400] = bytes(200)
    file.write_bytes(content)
    answer = tidings("audit", "t")
    assert answer.status == 65
    assert "t/trace.parquet: corrupt" in answer.err


def test_141_when_the_reader_goes_away() -> None:
    command = f"{COMMAND} simulate --seed 1 --broadcasts 2000 | head -1; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert ended.stdout.splitlines()[0] == "seed   1"
    assert ended.stdout.splitlines()[-1] in ("0", "141"), "0 if all was written before head ended"
    assert ended.stderr == ""


def test_a_terminal_without_unicode_still_gets_its_verdicts() -> None:
    ended = subprocess.run(
        [COMMAND, "simulate", "--seed", "1"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode == 0
    assert ended.stdout.count("? holds") == 5


def test_words_stay_as_they_are_written(tidings, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("group p1\nbroadcast p1 :100: [bold]\nsettle\n")
    assert 'p1 delivers p1#1 ":100: [bold]"' in tidings("simulate", "s.txt").out


@pytest.fixture
def no_spark(tidings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if it were not installed."""
    monkeypatch.delattr("tidings.pipeline")
    # What is imported in here goes with it: elsewhere it would be a second copy.
    with patch.dict(sys.modules):
        for module in [name for name in sys.modules if name.startswith("tidings.pipeline")]:
            del sys.modules[module]
        for module in ["pyspark", *(name for name in sys.modules if name.startswith("pyspark."))]:
            sys.modules[module] = None
        yield


@pytest.mark.usefixtures("no_spark")
def test_69_without_spark(tidings) -> None:
    assert tidings("simulate", "--seed", "1", "--trace", "t").status == 0
    answer = tidings("audit", "t")
    assert answer.status == 69
    missing = (
        "Spark is not installed; tidings audit and tidings report judge without it (--local), "
        "or install tidings with the extra [spark]"
    )
    assert missing in answer.err
    assert tidings("audit", "t", "--local").status == 0


@pytest.mark.usefixtures("no_spark")
def test_a_campaign_that_cannot_be_run_is_not_begun(tidings, tmp_path: Path) -> None:
    answer = tidings("campaign")
    assert (answer.status, one_line(answer.err)) == (69, True)
    assert "Spark is not installed" in answer.err
    assert [*tmp_path.iterdir()] == []


def test_69_where_nothing_can_be_written(tidings) -> None:
    for words in (["simulate", "--trace"], ["demo", "--out"]):
        answer = tidings(*words, "/proc/nowhere/t")
        assert answer.status == 69
        assert "/proc/nowhere" in answer.err
        assert one_line(answer.err)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("explore --protocol flawed/hasty --crashes 1", "runs/explored-f4b81cfe-uniform-agreement"),
        ("demo", "runs/demo-"),
        ("adapt majority-relay --out module.py", "module.py"),
        ("compare --sizes 3 --messages 1 --chart costs.svg", "costs.svg"),
    ],
)
def test_69_and_the_file_when_the_disk_is_full(
    tidings, words: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, data: object, **_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", fill)
    monkeypatch.setattr(Path, "write_bytes", fill)
    answer = tidings(*words.split())
    assert (answer.status, one_line(answer.err)) == (69, True)
    assert answer.err.startswith(f"tidings: {file}")
    assert answer.err.endswith(": No space left on device\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["simulate --seed 7", "simulate --json", "--version"])
def test_69_when_the_output_cannot_be_written(words: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [COMMAND, *words.split()],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
        )
    assert ended.stderr == "tidings: standard output: No space left on device\n"
    assert ended.returncode == 69


def test_70_when_it_is_our_fault(tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("p1 would deliver p2#1 twice")

    monkeypatch.setattr(cli.simulate, "walk", fail)
    answer = tidings("simulate")
    assert answer.status == 70
    assert "a bug in tidings: AssertionError: p1 would deliver p2#1 twice" in answer.err
    assert one_line(answer.err)


@pytest.mark.parametrize(
    ("words", "shown"), [(["audit", "runs/7"], "UNKNOWN\n"), (["node", "p1"], ""), ([], "")]
)
def test_130_when_interrupted_before_the_commands_are_loaded(words: list[str], shown: str) -> None:
    program = """
import sys
from tidings.__main__ import run

class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "tidings.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
run()
"""
    command = [sys.executable, "-c", program, *words]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 130
    assert (answer.stdout, answer.stderr) == (shown, "tidings: interrupted\n")


@pytest.mark.parametrize("words", [("group", "p1"), ("node", "p1"), ("chat", "p1")])
def test_only_who_judges_says_unknown(tidings, words, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.cli import group, node

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(node, "read_config", interrupted)
    monkeypatch.setattr(group, "new_group_file", interrupted)
    assert tidings(*words) == (130, "", "tidings: interrupted\n")


def test_130_when_the_answer_to_ctrl_c_is_an_error(
    tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's, whose workers hear it, too."""

    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("the answer from the other side is empty")

    monkeypatch.setattr(cli.simulate, "walk", interrupted)
    assert tidings("simulate").err == "tidings: interrupted\n"
    monkeypatch.setattr(cli.demo, "_simulate", interrupted)
    answer = tidings("demo", "--simulated")
    assert answer.status == 130
    assert answer.out == "audit  UNKNOWN: interrupted before the verdicts\n"


def test_every_command_judges_or_does_not() -> None:
    silent = {"group", "node", "chat", "status", "settle", "proxy", "ingest", "adapt"}
    assert {*JUDGES, *silent, "algorithms", "compare"} == set(COMMANDS)


def test_wrong_usage_is_referred_to_the_help_of_the_command(tidings) -> None:
    assert "(see tidings simulate --help)" in tidings("simulate", "--crashes", "x").err
    assert "(see tidings --help)" in tidings("shout").err


def processor_s(pid: int) -> float:
    """How much it has worked: who has just said something may still be busy saying it."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_130_when_interrupted() -> None:
    process = subprocess.Popen(
        [COMMAND, "simulate", "--seed", "1", "--broadcasts", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "seed   1\n"
    begun_s = processor_s(process.pid)
    while processor_s(process.pid) < begun_s + 0.1:
        assert process.poll() is None, "it ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out == "UNKNOWN\n"
    assert err == "tidings: interrupted\n"


def one_line(text: str) -> bool:
    spoken = [line for line in text.splitlines() if not line.startswith("... ")]
    return len(spoken) == 1 and spoken[0].startswith("tidings: ")


# --- help


def test_the_help_lists_every_command(tidings) -> None:
    for words in ([], ["--help"]):
        answer = tidings(*words)
        assert answer.status == 0
        assert all(name in answer.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_by_an_example(tidings, name: str) -> None:
    answer = tidings(name, "--help")
    assert answer.status == 0
    assert f"Example: tidings {name}" in answer.out


@pytest.mark.usefixtures("spark")
def test_the_examples_work(tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    statuses = {}
    for command in cli.app.registered_commands:
        words = str(command.epilog).removeprefix("Example: tidings ").split()
        statuses[words[0]] = tidings(*words).status
    broken_on_purpose = ("demo", "explore", "shrink")
    # A group, its trace, logs, a plan.
    without_their_files = {"check", "node", "chat", "status", "settle", "conform"}
    without_their_files |= {"ingest", "campaign"}
    assert statuses == {
        name: 64 if name in without_their_files else int(name in broken_on_purpose)
        for name in COMMANDS
    }


# --- results as JSON


@pytest.mark.usefixtures("spark")
def test_results_can_be_had_as_json(tidings) -> None:
    words = ["--seed", "3", "--protocol", "flawed/careless", "--broadcasts", "100"]
    simulated = tidings("simulate", *words, "--trace", "t", "--json")
    audited = tidings("audit", "t", "--examples", "1000", "--json")
    assert (simulated.status, audited.status) == (1, 1)
    one, other = json.loads(simulated.out), json.loads(audited.out)
    (of_run,) = other["runs"]
    assert of_run["verdicts"] == one["verdicts"], "specification and Spark say the same"
    assert of_run["verdicts"]["causal order"]["violated"] > 0
    assert other["rows"] == len(Path("t/trace.jsonl").read_text().splitlines())


# --- traces


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_trace_is_written_and_audited(tidings, form: str) -> None:
    written = tidings("simulate", "--seed", "3", "--crashes", "1", "--trace", "t", "--format", form)
    assert written.status == 0
    audited = tidings("audit", "t")
    assert audited.status == 0
    assert audited.out.count("✓ holds") == 5
    assert f"{json.loads(tidings('audit', 't', '--json').out)['rows']:,} rows" in written.out


def test_a_trace_is_never_overwritten(tidings) -> None:
    assert tidings("simulate", "--trace", "t").status == 0
    for words in (["simulate", "--trace", "t"], ["demo", "--out", "t"]):
        answer = tidings(*words)
        assert answer.status == 64
        assert "t is not an empty folder" in answer.err


@pytest.mark.usefixtures("spark")
def test_many_runs_are_audited_together(tidings, tmp_path: Path) -> None:
    from tidings.simulator import Plan, walk
    from tidings.trace import write_runs

    sound = [walk(Plan(processes=3, broadcasts=5), seed) for seed in range(4)]
    flawed = walk(Plan(protocol="flawed/repeating", processes=3, broadcasts=5), 1)
    write_runs(tmp_path / "many", [*sound, flawed], "parquet")
    answer = tidings("audit", "many")
    assert answer.status == 1
    assert "5 runs" in answer.out
    assert f"NO DUPLICATION violated at p1                  run {flawed.manifest.run}" in answer.out


# --- help where it is needed


def completed(*words: str) -> list[str]:
    """What a shell offers where the cursor stands after these words."""
    line = ["tidings", *words]
    environment = os.environ | {
        "_TIDINGS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    ended = subprocess.run([COMMAND], env=environment, capture_output=True, text=True)
    return ended.stdout.split()


def test_a_shell_completes_commands_options_and_protocols() -> None:
    assert completed("simu") == ["simulate"]
    assert {"--protocol", "--process", "--processes"} <= set(completed("simulate", "--pro"))
    assert completed("simulate", "--protocol", "maj") == ["majority-relay"]


def test_a_violated_run_suggests_how_to_make_it_shorter(tidings) -> None:
    words = ("simulate", "--protocol", "flawed/careless", "--seed", "3")
    unstored = tidings(*words)
    assert unstored.status == 1
    assert unstored.out.endswith(
        "\nShrink:  the same with --trace FOLDER, then tidings shrink FOLDER\n"
    )
    stored = tidings(*words, "--trace", "a run")
    assert stored.out.endswith("\nShrink:  tidings shrink 'a run'\n")
    assert "Shrink" not in tidings("simulate", "--seed", "3").out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("simulate", "--protocol", "majority-rely"), "majority-relay"),
        (("simulate", "--protocol", "majority-relay", "--option", "notise=yes"), "notice"),
        (("algorithms", "frontiers"), "frontier"),
        (("audit", "e", "--format", "jsn"), "json"),
        (("audit", "e", "--format", "Parket"), "parquet"),
        (("ingest", "e", "--mapping", "m.toml", "--out", "t", "--format", "jsonl"), "json"),
        (("watch", "e", "--format", "kafak"), "kafka"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(
    tidings, words: tuple[str, ...], meant: str
) -> None:
    answer = tidings(*words)
    assert answer.status == 64
    assert answer.err.endswith(f"; did you mean {meant}?\n")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("form", ["JSON", "geojson", "org.example.Json", "orc", "avro", "text"])
def test_a_format_that_spark_may_know_is_left_to_spark(tidings, form: str) -> None:
    answer = tidings("audit", "e", "--format", form)
    assert answer.status == 69
    assert "Spark is not installed" in answer.err


# --- algorithms side by side


def test_every_algorithm_and_every_flaw_is_listed(tidings) -> None:
    from tidings.protocols import PROTOCOLS

    sound = json.loads(tidings("algorithms", "--json").out)["rows"]
    flawed = json.loads(tidings("algorithms", "--flawed", "--json").out)["rows"]
    assert {row["algorithm"].split()[0] for row in sound} == {
        name for name, algorithm in PROTOCOLS.items() if not algorithm.breaks
    }
    assert [row["protocol"] for row in flawed] == [
        name for name, algorithm in PROTOCOLS.items() if algorithm.breaks
    ]
    assert all(row["how"] for row in flawed)


def test_algorithms_are_compared_in_tables_and_in_a_chart(tidings, tmp_path: Path) -> None:
    words = ["--sizes", "3,5", "--messages", "5", "--protocol", "majority-relay"]
    shown = tidings("compare", *words, "--protocol", "two-phase", "--chart", "costs.svg")
    assert shown.status == 0
    assert re.search(
        r"^packets +n=3 +n=5\nmajority-relay +6 +20\ntwo-phase +10 +28$", shown.out, re.M
    )
    chart = (tmp_path / "costs.svg").read_text()
    assert chart.startswith("<svg")
    assert all(word in chart for word in ("majority-relay", "two-phase", "processes"))
    for point in ("majority-relay, processes 5: 20", "two-phase, processes 3: 10"):
        assert f"<title>{point}</title>" in chart
    for what in ("packets", "bytes", "delays", "bytes kept by a process at the end"):
        assert f">One broadcast: {what}<" in chart
        assert f">A stream: {what}<" in chart
    for bound in ("until safe in two delays", "the text to everybody", "there and back"):
        assert f"<title>lower bound, {bound}</title>" in chart


FAILING = """
from tidings.core import Process


class Failing(Process):
    def step(self, event):
        raise RuntimeError("it was measured")
"""


def test_a_chart_that_is_no_svg_is_refused_before_anything_is_measured(tidings) -> None:
    Path("own.py").write_text(FAILING)
    words = ("compare", "--process", "own.py", "--sizes", "3")
    assert "it was measured" in tidings(*words, "--chart", "costs.svg").err
    answer = tidings(*words, "--chart", "costs.png")
    assert answer.status == 64
    assert answer.err == (
        "tidings: --chart takes a .svg file in a folder that exists, not costs.png\n"
    )
    assert not Path("costs.png").exists()


def test_what_explodes_is_cut_and_spared_the_larger_groups(tidings) -> None:
    words = ["--sizes", "3,25,26", "--messages", "1", "--protocol", "flawed/storm"]
    costs = json.loads(tidings("compare", *words, "--json").out)["costs"]
    assert [(c["workload"], c["processes"], c["cut"]) for c in costs] == [
        ("one", 3, False),
        ("one", 25, True),
        ("stream", 3, False),
        ("stream", 25, True),
    ]
    assert 100_000 <= costs[1]["packets"] < 101_000


# --- scenarios


def test_a_scenario_is_printed_as_a_conversation(tidings) -> None:
    file = Path(__file__).parents[1] / "scenarios" / "sender-dies-in-mid-sentence.txt"
    answer = tidings("simulate", str(file))
    assert answer.status == 0
    assert file.read_text().strip() in answer.out


def test_a_scenario_that_goes_otherwise_is_an_error(tidings, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("group p1 p2\n\nbroadcast p1 hi\n----\nnothing at all\n")
    answer = tidings("simulate", "s.txt")
    assert answer.status == 64
    assert "s.txt:5: expected 'nothing at all'" in answer.err
