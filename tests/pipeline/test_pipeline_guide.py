"""docs/pipeline.md is tried: its program, and its table of functions."""

import re
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.pipeline.queries import measures

GUIDE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()


def _block(kind: str) -> str:
    return GUIDE.split(f"```{kind}\n")[1].split("```")[0]


def test_the_program_prints_what_is_stated(
    tidings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = _block("console").removeprefix("$ tidings ").split()
    assert tidings(*command).status == 0
    monkeypatch.setattr(pipeline, "session", lambda: nullcontext(spark))
    exec(compile(_block("python"), "docs/pipeline.md", "exec"), {})
    assert capsys.readouterr().out.split() == _block("text").split()


@pytest.mark.parametrize("module", [pipeline, measures])
def test_every_name_is_reported(module: ModuleType) -> None:
    inner = {"Audit", "Case", "Recording", "TABLES", "abandon", "judge", "percentiles"}
    for name in set(module.__all__) - inner:
        assert re.search(rf"`(measures\.)?{name}\b", GUIDE), f"{name} is not in docs/pipeline.md"
