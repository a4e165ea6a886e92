"""Real logs of real brokers, recorded once by examples/brokers: which guarantees they kept."""

import json
import re
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_logs import BROKEN, FIXTURES, Values, expected, verdicts
from guides import play
from tidings.spec import Guarantee
from tidings.trace.foreign import mapping

from broker_runs import FAULTS, GUARANTEES, MAPPING, SETTINGS, table  # isort: skip - found by broker_logs

GUIDE = Path(__file__).parents[2] / "docs" / "audit-your-broker.md"


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Values:
    return verdicts(spark, FIXTURES, tmp_path_factory.mktemp("brokers") / "trace")


@pytest.mark.parametrize("setting", BROKEN)
def test_each_broker_broke_in_its_recorded_runs_what_is_stated_of_it(
    recorded: Values, setting: str
) -> None:
    found = {run: values for run, values in recorded.items() if run.split("/")[0] == setting}
    assert found == expected(setting)


def test_every_setting_was_recorded_in_every_run(recorded: Values) -> None:
    assert set(recorded) == {f"{one.name}/{fault}" for one in SETTINGS for fault in FAULTS}
    assert {one.name for one in SETTINGS} == set(BROKEN)
    assert [one.value for one in Guarantee] == list(GUARANTEES)


@pytest.mark.usefixtures("spark")
def test_the_commands_give_each_recorded_run_its_five_verdicts(
    tidings, request: pytest.FixtureRequest
) -> None:
    logs = map(str, sorted(FIXTURES.glob("*/*.jsonl")))
    assert tidings("ingest", *logs, "--mapping", str(MAPPING), "--out", "trace").status == 0
    audited = tidings("audit", "trace", "--json")
    assert audited.status == 1
    marks = {"holds": "✓", "violated": "✗", "unknown": "?"}
    came = ""
    for one in sorted(json.loads(audited.out)["runs"], key=itemgetter("run")):
        values = [one["verdicts"][guarantee]["value"] for guarantee in GUARANTEES]
        came += f"{one['run']:<31}  {' '.join(marks[value] for value in values)}\n"
    recorded = FIXTURES / "verdicts.txt"
    if request.config.getoption("--rewrite"):
        recorded.write_text(came)
    assert came == recorded.read_text()


def test_the_guide_shows_what_the_recorded_logs_say(
    recorded: Values, request: pytest.FixtureRequest
) -> None:
    text, made = GUIDE.read_text(), table(recorded, SETTINGS)
    shown = re.search(r"^broker \| calm.*\n(.+ \| .*\n)+", text, re.MULTILINE)
    assert shown is not None
    if request.config.getoption("--rewrite"):
        GUIDE.write_text(text.replace(shown[0], made))
    else:
        assert shown[0] == made


@pytest.mark.usefixtures("spark")
def test_the_guide_s_example_comes_out_as_shown(tidings, request: pytest.FixtureRequest) -> None:
    ran = play(GUIDE, tidings, rewrite=request.config.getoption("--rewrite"))
    assert ran == [("ingest", 0), ("audit", 1)]


def test_every_field_of_a_mapping_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    tables = (
        mapping.Columns,
        mapping.Kinds,
        mapping.Forms,
        mapping.MappedGroup,
        mapping.MappedEnd,
        mapping.Csv,
        mapping.Keep,
    )
    for field in [name for one in tables for name in one.__struct_fields__]:
        assert f"`{field}`" in text, field
    for field in mapping.Mapping.__struct_fields__:
        assert f"`{field}`" in text or f"`[{field}]`" in text, field
    for word in (mapping.FILE, mapping.LINE, mapping.ID, mapping.FROM_THE_LOG):
        assert f'`"{word}"`' in text, word
