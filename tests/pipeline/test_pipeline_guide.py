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


def _blocks(kind: str) -> list[str]:
    return [part.split("```")[0] for part in GUIDE.split(f"```{kind}\n")[1:]]


def test_the_programs_print_what_is_stated(
    tidings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (command,) = _blocks("console")
    assert tidings(*command.removeprefix("$ tidings ").split()).status == 0
    monkeypatch.setattr(pipeline, "session", lambda: nullcontext(spark))
    names: dict[str, object] = {}
    for program, printed in zip(_blocks("python"), _blocks("text"), strict=True):
        exec(compile(program, "docs/pipeline.md", "exec"), names)
        assert capsys.readouterr().out.split() == printed.split()
    spark.catalog.dropTempView("rows")


@pytest.mark.parametrize("module", [pipeline, measures])
def test_every_name_is_reported(module: ModuleType) -> None:
    inner = {"Audit", "Case", "Ingested", "Recording", "TABLES", "abandon", "judge", "percentiles"}
    for name in set(module.__all__) - inner:
        assert re.search(rf"`(measures\.)?{name}\b", GUIDE), f"{name} is not in docs/pipeline.md"
