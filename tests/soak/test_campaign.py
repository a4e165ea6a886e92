"""The default campaign as a user runs it: killed half-way, finished, within its time.

``TIDINGS_SEEDS`` makes it larger or smaller than the plan says.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_cluster import connect_server, standalone
from tidings.campaign.folder import opened
from tidings.campaign.tables import read_table

SEEDS = int(os.environ.get("TIDINGS_SEEDS", "5"))
WITHIN_S = 15 * 60
COMMAND = [sys.executable, "-m", "tidings", "campaign", "--out", "out", "--json"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


def test_it_is_killed_half_way_and_finishes_without_doing_anything_twice(place: Path) -> None:
    first = [*COMMAND, "--seeds", str(SEEDS)]
    running = subprocess.Popen(first, cwd=place, stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    done: dict[str, int] = {}
    while running.poll() is None:
        if (place / "out" / "campaign.json").exists():
            done = finished_files(place)
            tasks = len(opened(place / "out").tasks)
            if len(done) > tasks / 2:
                break
        assert time.monotonic() - begin < WITHIN_S
        time.sleep(0.2)  # somebody else's work: there is nothing to wait on but its files
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = finished_files(place)
    took_s = time.monotonic() - begin
    begin = time.monotonic()
    answer = subprocess.run(COMMAND, cwd=place, stdout=subprocess.PIPE, check=False)
    took_s += time.monotonic() - begin
    assert answer.returncode == 0, "no sound algorithm violates anything or is unknown"
    found = json.loads(answer.stdout)
    assert found["runs"] >= 1_000 * SEEDS
    assert found["done_before"] > found["runs"] / 4
    after = finished_files(place)
    assert {name: after[name] for name in done} == done, "what was done is as it was"
    assert took_s < WITHIN_S


def finished_files(place: Path) -> dict[str, int]:
    """When each task that is done was done."""
    return {
        file.name: file.stat().st_mtime_ns for file in (place / "out" / "tasks").glob("*.jsonl")
    }


def test_every_flawed_form_that_was_caught_has_a_shrunk_counterexample(place: Path) -> None:
    caught = {
        (row["algorithm"], row["guarantee"])
        for row in read_table(place / "out" / "verdicts.parquet")
        if row["violated"]
    }
    shown = read_table(place / "out" / "counterexamples.parquet")
    assert {(row["algorithm"], row["guarantee"]) for row in shown} == caught
    assert len(caught) >= 15
    assert all(row["shrunk"] for row in shown)
    page = (place / "out" / "report.html").read_text()
    assert len(re.findall(r"tidings replay out/counterexamples/", page)) >= 15


def test_it_is_no_worse_than_itself(place: Path) -> None:
    answer = subprocess.run(
        [*COMMAND, "--baseline", "out"], cwd=place, stdout=subprocess.PIPE, check=False
    )
    assert answer.returncode == 0
    assert json.loads(answer.stdout)["changes"] == []


PLAN = """
seeds = 4
sizes = [3, 5]
algorithms = ["majority-relay", "frontier mode=origin"]
flawed = ["flawed/hasty"]

[workloads.steady]
broadcasts = 8
sample_ms = 10.0

[faults.none]

[faults.crashes]
crashes = "minority"
mid_broadcast = 1.0
"""


@pytest.mark.parametrize("kind", ["--master", "--remote"])
def test_a_cluster_and_a_connect_server_give_the_same_numbers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)

    def numbers(out: str, *words: str) -> list[dict[str, object]]:
        command = [*COMMAND[:4], "plan.toml", "--out", out, *words]
        answer = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        assert "shrinking 1 counterexample" in answer.stderr
        rows = read_table(tmp_path / out / "runs.parquet")
        return [row | {"cpu_s": 0.0, "replay": ""} for row in rows]

    here = numbers("here")
    with standalone(tmp_path) as cluster:
        if kind == "--master":
            assert numbers("there", kind, cluster.master) == here
        else:
            with connect_server(tmp_path, cluster.master) as remote:
                assert numbers("there", kind, remote) == here
