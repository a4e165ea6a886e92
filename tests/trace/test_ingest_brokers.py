"""Real logs of real brokers, recorded once by examples/brokers: which guarantees they kept."""

import re
from pathlib import Path

import pytest

from broker_logs import BROKEN, FIXTURES, Values, expected, verdicts
from tidings.spec import Guarantee
from tidings.trace.foreign import mapping

from broker_runs import FAULTS, GUARANTEES, SETTINGS, table  # isort: skip - found by broker_logs

GUIDE = Path(__file__).parents[2] / "docs" / "audit-your-broker.md"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Values:
    return verdicts(FIXTURES, tmp_path_factory.mktemp("brokers") / "trace")


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


def test_the_guide_s_example_comes_out_as_shown(tidings, request: pytest.FixtureRequest) -> None:
    text = rewritten = GUIDE.read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(parts) == 4
    for command, _, output in (part.partition("\n") for part in parts):
        program, *words = command.split()
        if program == "cat":
            Path(*words).write_text(output)
            continue
        shown = "".join(line.rstrip() + "\n" for line in tidings(*words).out.splitlines())
        rewritten = rewritten.replace(f"$ {command}\n{output}", f"$ {command}\n{shown}")
    if request.config.getoption("--rewrite"):
        GUIDE.write_text(rewritten)
    else:
        assert rewritten == text


def test_every_field_of_a_mapping_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    tables = (
        mapping.Columns,
        mapping.Kinds,
        mapping.Forms,
        mapping.MappedGroup,
        mapping.MappedEnd,
        mapping.Csv,
    )
    for field in [name for one in tables for name in one.__struct_fields__]:
        assert f"`{field}`" in text, field
    for field in mapping.Mapping.__struct_fields__:
        assert f"`{field}`" in text or f"`[{field}]`" in text, field
    for word in (mapping.FILE, mapping.LINE, mapping.ID, mapping.FROM_THE_LOG):
        assert f'`"{word}"`' in text, word
