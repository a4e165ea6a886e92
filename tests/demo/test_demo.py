"""``tidings demo``: on real nodes, in the simulator, flawed on purpose, interrupted."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from broken_demo import BROKEN, assert_nodes_break, not_held
from tidings.cli import demo
from tidings.core import EnvironmentMissing, with_extra
from tidings.demo import on_nodes
from tidings.demo.on_nodes import DemoPlay, perform
from tidings.demo.simulated import BREAKS
from tidings.pipeline.spark import java
from tidings.report.causality import Causality
from tidings.report.crashes import crashes_of
from tidings.spec import Value, judge

COMMAND = Path(sys.executable).with_name("tidings")
# --- on real nodes


@pytest.mark.usefixtures("spark")
def test_two_nodes_are_killed_in_mid_broadcast_one_comes_back_and_all_holds(
    tidings, tmp_path: Path
) -> None:
    answer = tidings("demo", "--json", "--out", "kept")
    result = json.loads(answer.out)
    assert answer.status == 0
    assert not_held(result) == []
    assert result["judged"] == result["written"] > 5000
    first, second = result["killed"]
    for death in (first, second):
        # Two of its links were silent: what it said last was on its way, and not everywhere.
        assert death["copies"] <= 2
        assert death["message"][0] == death["process"]
        if death["came_from_disk"]:
            assert death is second
            assert death["process"] in death["delivered_by"]
    (back,) = result["came_back"]
    assert back["process"] == second["process"]
    assert back["behind"] > 0
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert {"group.toml", "data", "p1.log", "runner.manifest.jsonl"} <= kept
    page = Path(result["page"]).read_text()
    assert page.startswith("<!doctype html>")
    assert "5 guarantees hold" in page
    # It tells its own story: who died with how many copies out, and who came back.
    for death in (first, second):
        name, (origin, seq) = death["process"], death["message"]
        assert f"{name} goes down while it broadcasts {origin}#{seq}" in page
        assert f"broadcasting {origin}#{seq}: {death['copies']} of 4 copies had arrived" in page
    assert f"{back['process']} came back {back['behind']:,} messages behind" in page


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("what", ["order", "agreement"])
def test_flawed_nodes_break_exactly_what_they_are_expected_to(tidings, what: str) -> None:
    """All of them in the simulator below, and on real nodes in the soak."""
    assert_nodes_break(tidings, what)


def test_what_shows_the_flaws_does_no_harm_to_a_sound_protocol(tmp_path: Path) -> None:
    """The same kills, the same silent links, and packets that overtake each other."""
    play = DemoPlay("majority-relay", durable=False, per_s=30, opening=15, injector="reordered=0.3")
    run = perform(tmp_path, "sound", play, seed=2)
    assert all(verdict.value is Value.HOLDS for verdict in judge(run))
    first, second = crashes_of(Causality(run))
    assert first.is_in_mid_broadcast
    assert second.is_in_mid_broadcast


def test_a_used_port_is_one_line(tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as received:
        port = received.getsockname()[1]
        ports = [port, *on_nodes.free_ports(4)]
        monkeypatch.setattr(on_nodes, "free_ports", lambda count: ports)
        answer = tidings("demo")
    assert answer.status == 69
    shown = f"tidings: p1 cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert answer.err == shown


def test_without_java_nothing_is_begun(tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise EnvironmentMissing("Spark needs Java 17 or later: no Java found; install it")

    monkeypatch.setattr(java, "find_java", no_java)
    answer = tidings("demo")
    assert answer.status == 69
    assert answer.out == ""
    assert answer.err == "tidings: Spark needs Java 17 or later: no Java found; install it\n"
    assert not Path("runs").exists()


# --- in the simulator


@pytest.mark.usefixtures("spark")
def test_the_simulated_demo_holds_and_audits_every_row(
    tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = json.loads(tidings("demo", "--simulated", "--json").out)
    assert not_held(result) == []
    assert result["judged"] == result["written"] > 5000
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    shown = tidings("demo", "--simulated", "--open")
    assert shown.status == 0
    assert opened == [Path(result["page"]).resolve().as_uri()]
    assert f"page   {result['page']}\n" in shown.out
    assert shown.out.count("died broadcasting") == 2
    assert shown.out.count("✓ holds") == 5


def without(*missing: str) -> Callable[[str], object]:
    """What an installation without these packages finds."""
    return lambda name: None if name in missing else find_spec(name)


def test_without_spark_the_demo_is_judged_in_its_own_process(
    tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", without("pyspark"))
    monkeypatch.setattr(java, "find_java", lambda: pytest.fail("Java is not needed"))
    answer = tidings("demo", "--simulated")
    assert answer.status == 0
    assert re.search(r"^audit  ([\d,]+) of \1 rows judged here$", answer.out, re.MULTILINE)
    assert answer.out.count("✓ holds") == 5
    (page,) = Path("runs").glob("demo-*/report.html")
    assert "--local" in page.read_text()


def test_without_any_judge_the_demo_runs_and_names_both(
    tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", without("pyspark", "numpy", "pyarrow"))
    answer = tidings("demo", "--simulated")
    assert answer.status == 2
    assert "\naudit  UNKNOWN\n" in answer.out
    assert answer.out.count("? unknown") == 5
    assert answer.out.endswith(
        "are unknown: no judge is installed; to judge in this process, "
        f"{with_extra('audit')}; to judge on Spark, {with_extra('spark')}\n"
    )
    (page,) = Path("runs").glob("demo-*/report.html")
    assert "died broadcasting" in page.read_text()
    result = json.loads(tidings("demo", "--simulated", "--json").out)
    assert result["judged"] == 0 < result["written"]
    assert {one["value"] for one in result["verdicts"].values()} == {"unknown"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("what", BREAKS)
def test_simulated_flaws_break_exactly_what_they_are_expected_to(tidings, what: str) -> None:
    answer = tidings("demo", "--simulated", "--break", what, "--json")
    assert answer.status == 1
    assert not_held(json.loads(answer.out)) == [BROKEN[what].value]


# --- as a command of its own


def test_the_installed_command_does_it_all_by_itself(tmp_path: Path) -> None:
    """End to end in a process of its own, Spark's start-up and silence included."""
    ended = subprocess.run(
        [COMMAND, "demo", "--break", "order"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == 1, ended.stderr
    assert "CAUSAL ORDER violated" in ended.stdout
    assert all(line.startswith("... ") for line in ended.stderr.splitlines()), ended.stderr


def test_an_interrupted_demo_leaves_nobody_behind(tmp_path: Path) -> None:
    """Neither a node nor the Java that starts meanwhile."""
    process = subprocess.Popen(
        [COMMAND, "demo"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    while not (spoken := process.stdout.readline()).startswith("kill"):
        assert spoken, "it ended before anybody was killed"
    while len(living_in_group(process.pid)) < 6:
        assert process.poll() is None, "it ended before its Java was there"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out.endswith("audit  UNKNOWN: interrupted before the verdicts\n")
    assert err.endswith("tidings: interrupted\n")
    deadline = time.monotonic() + 120
    while living_in_group(process.pid):
        assert time.monotonic() < deadline, living_in_group(process.pid)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_demo_that_is_interrupted_at_once_says_what_is_unknown(
    as_json: bool, tidings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(java, "find_java", interrupted)
    answer = tidings("demo", *(["--json"] if as_json else []))
    assert answer.status == 130
    assert answer.out == ("" if as_json else "audit  UNKNOWN: interrupted before the verdicts\n")
    assert answer.err == "tidings: interrupted\n"


def living_in_group(group: int) -> list[str]:
    """Processes of a group that are more than an entry in the table, by pid."""
    living = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            living.append(stat.parent.name)
    return living
