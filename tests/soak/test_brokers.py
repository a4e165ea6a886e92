"""The brokers themselves, started, killed and recorded: they break what their recorded logs say.

``pytest tests/soak/test_brokers.py --override-ini addopts= --rewrite`` makes the new logs the
fixtures.
"""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_logs import FIXTURES, expected, verdicts

from broker_runs import SETTINGS, Setting, program, record  # isort: skip - found by the line above


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_broker_breaks_what_its_recorded_logs_say(
    spark: SparkSession, setting: Setting, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if program(setting.program) is None:
        pytest.skip(f"no {setting.program} here; on Debian: apt-get install {setting.program}")
    for _ in record([setting], tmp_path / "logs"):
        pass
    assert verdicts(spark, tmp_path / "logs", tmp_path / "trace") == expected(setting.name)
    if request.config.getoption("--rewrite"):
        shutil.copytree(tmp_path / "logs", FIXTURES, dirs_exist_ok=True)
