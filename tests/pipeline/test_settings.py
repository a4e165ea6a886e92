"""What the user has set for Spark stays; and what runs there has a name."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from job_names import every_job_is_named
from tidings import pipeline
from tidings.core import EnvironmentMissing
from tidings.pipeline.spark.settings import user_settings
from traces import known_violations

DEFAULTS = """
# a comment, and ! another
spark.driver.memory      768m
spark.ui.enabled=true
spark.ui.port : 0

spark.app.name my own audit
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of settings."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_DRIVER_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    return tmp_path / "conf"


def test_settings_are_read_as_spark_reads_them(conf: Path) -> None:
    assert user_settings() == {
        "spark.driver.memory": "768m",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.app.name": "my own audit",
    }


@pytest.mark.usefixtures("conf")
def test_options_of_spark_submit_come_before_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = "-v --driver-memory 3g --conf spark.ui.port=9 -c 'spark.a=b c' --name=me x.py"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "5g")
    found = user_settings()
    assert (found["spark.driver.memory"], found["spark.ui.port"]) == ("3g", "9")
    assert (found["spark.a"], found["spark.app.name"]) == ("b c", "me")


@pytest.mark.usefixtures("conf")
def test_an_open_quote_in_the_options_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name 'mine")
    with pytest.raises(EnvironmentMissing, match=r"^PYSPARK_SUBMIT_ARGS: No closing quotation"):
        user_settings()


def test_another_file_takes_the_place_of_the_defaults(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (conf / "mine").write_text("spark.master local[1]\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {conf / 'mine'} pyspark-shell")
    assert user_settings() == {"spark.master": "local[1]"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf / "nowhere"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    assert user_settings() == {}


ASKING = """
import json
from urllib.request import urlopen
from tidings import pipeline

with pipeline.session() as spark:
    context = spark.sparkContext
    names = ("spark.driver.memory", "spark.app.name", "spark.sql.shuffle.partitions")
    answers = {name: spark.conf.get(name) for name in names}
    answers["heap"] = context._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
    answers["jobs"] = len(context.statusTracker().getJobIdsForGroup(None))
    page = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    answers["page"] = urlopen(page).status
    print(json.dumps(answers))
"""


def test_a_session_keeps_what_the_user_has_set(conf: Path) -> None:
    with (conf / "spark-defaults.conf").open("a") as file:
        file.write("spark.sql.shuffle.partitions 7\n")
    ended = subprocess.run(
        [sys.executable, "-c", ASKING], capture_output=True, text=True, check=True
    )
    answers = json.loads(ended.stdout)
    assert 500 < answers.pop("heap") <= 768
    assert answers == {
        "spark.driver.memory": "768m",
        "spark.app.name": "my own audit",
        "spark.sql.shuffle.partitions": "7",
        "jobs": 0,
        "page": 200,
    }


def test_a_session_that_is_there_is_left_as_it_is(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "123")
    try:
        assert pipeline.session() is spark
        assert spark.conf.get(name) == "123"
    finally:
        spark.conf.set(name, before)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda spark, path, _: pipeline.audit(spark, path), "rows of 1 run in 2 files: all at"),
        (
            lambda spark, path, place: pipeline.write_tables(spark, path, place / "tables"),
            "measuring: latencies",
        ),
    ],
    ids=["arrays", "tables"],
)
def test_every_job_has_a_name_that_a_person_knows(
    spark: SparkSession, tmp_path: Path, ask: Callable[..., Any], words: str
) -> None:
    """For the queries that is shown where they write their table: they take longest to plan."""
    known_violations(tmp_path / "known")
    with every_job_is_named(spark, words):
        ask(spark, tmp_path / "known", tmp_path)
