"""The audit as a whole: what it carries, what it says while it works, what notebooks get."""

from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from job_names import every_job_is_named
from tidings import pipeline
from tidings.core import EnvironmentMissing, MessageId, UsageError
from tidings.pipeline.arrays.written import rows_in, whole_folder, write_part
from tidings.spec import Guarantee, Place, Value, judge
from tidings.trace import HistoryCut, Manifest, Row, digest, read_runs
from traces import write_trace

NAMES = ("p10", "p2", "p1")
TEXT = digest(b"hello")


class _Writer:
    """Rows of one run, numbered as they come."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.rows: list[Row] = []

    def add(self, process: str, kind: Any, **columns: Any) -> None:
        index = sum(row.process == process for row in self.rows)
        about = {"run": self.run, "process": process, "index": index, "kind": kind, "time_ns": 0}
        self.rows.append(Row(**about, **columns))

    def broadcast(self, process: str, seq: int, view: int = 0) -> None:
        self.add(process, "broadcast", origin=process, seq=seq, digest=TEXT, view=view)

    def deliver(self, process: str, origin: str, seq: int) -> None:
        self.add(process, "deliver", origin=origin, seq=seq, digest=TEXT)


def _repeating(run: str) -> list[Row]:
    """p2 and p10 deliver the same message three times."""
    writer = _Writer(run)
    writer.broadcast("p1", 5)
    for process in NAMES:
        writer.deliver(process, "p1", 5)
    for process in ("p10", "p2", "p10", "p2"):
        writer.deliver(process, "p1", 5)
    for process in NAMES:
        writer.add(process, "settle")
    return writer.rows


def _tainted(run: str) -> list[Row]:
    """p1's message to a list that lost its majority taints p2's, and so on to p4's."""
    writer = _Writer(run)
    writer.broadcast("p3", 9)
    writer.broadcast("p1", 1, view=1)
    writer.deliver("p2", "p1", 1)
    writer.broadcast("p2", 1)
    writer.deliver("p3", "p2", 1)
    writer.broadcast("p3", 1)
    writer.deliver("p4", "p3", 1)
    writer.broadcast("p4", 1)
    for process in ("p1", "p2", "p3", "p4", "p5"):
        writer.add(process, "settle")
    for process in ("p6", "p7"):
        writer.add(process, "crash")
    return writer.rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seven = tuple(f"p{number}" for number in range(1, 8))
    manifests = [
        Manifest(schema=1, run="repeating", names=NAMES, views=(NAMES,)),
        Manifest(schema=1, run="empty", names=NAMES, views=(NAMES,)),
        Manifest(schema=1, run="tainted", names=seven, views=(seven, ("p1", "p6", "p7"))),
    ]
    return write_trace(
        tmp_path_factory.mktemp("trace"),
        manifests,
        lines=_repeating("repeating"),
        table=_tainted("tainted"),
    )


@pytest.fixture(scope="module")
def stages() -> list[str]:
    return []


@pytest.fixture(scope="module")
def audited(spark: SparkSession, folder: Path, stages: list[str]) -> pipeline.Audit:
    return pipeline.audit(spark, folder, examples=2, progress=stages.append)


def test_an_audit_counts_all_and_shows_the_first_few(audited: pipeline.Audit) -> None:
    assert audited.rows == 26
    assert list(audited.verdicts) == list(audited.manifests) == ["repeating", "empty", "tainted"]
    duplication = audited.verdicts["repeating"][0]
    assert (duplication.value, duplication.judged, duplication.violated) == (Value.VIOLATED, 7, 4)
    assert [(one.process, one.witness) for one in duplication.violations] == [
        ("p2", (Place("p2", 0), Place("p2", 1))),
        ("p2", (Place("p2", 0), Place("p2", 2))),
    ]
    assert duplication.violations[0].message == MessageId("p1", 5)


def test_a_run_without_rows_is_unknown(audited: pipeline.Audit) -> None:
    verdicts = audited.verdicts["empty"]
    assert {verdict.value for verdict in verdicts} == {Value.UNKNOWN}
    assert {verdict.reason for verdict in verdicts} == {"p1 left no history"}


def test_what_is_not_owed_is_followed_from_process_to_process(
    audited: pipeline.Audit, folder: Path
) -> None:
    verdicts = audited.verdicts["tainted"]
    validity = next(one for one in verdicts if one.guarantee is Guarantee.VALIDITY)
    assert (validity.judged, validity.not_owed, validity.violated) == (1, 4, 1)
    assert verdicts == judge(read_runs(folder)[2])


@pytest.mark.usefixtures("audited")
def test_the_audit_says_which_way_it_picked_and_why(stages: list[str]) -> None:
    assert stages == [
        "reading the manifest and the footers",
        "26 rows of 3 runs in 2 files: all at once",
    ]


def test_one_file_is_a_trace_and_a_violation_without_an_example_is_one(
    spark: SparkSession, folder: Path
) -> None:
    audited = pipeline.audit(spark, folder / "rows.jsonl", examples=0)
    duplication = audited.verdicts["repeating"][0]
    assert (audited.rows, duplication.value, duplication.violated) == (11, Value.VIOLATED, 4)
    assert duplication.violations == ()


@pytest.mark.parametrize("checker", ["arrays", "sql"])
def test_all_violations_become_a_table_and_the_verdicts_are_the_same(
    spark: SparkSession, folder: Path, tmp_path: Path, audited: pipeline.Audit, checker: Any
) -> None:
    target = tmp_path / "violations.parquet"
    stages: list[str] = []
    last = {"arrays": "26 rows of 3 runs in 2 files", "sql": "looking for the events that show"}
    with every_job_is_named(spark, last[checker]):
        shown = pipeline.audit(
            spark, folder, examples=2, checker=checker, violations=target, progress=stages.append
        )
    assert shown == audited
    if checker == "sql":
        assert stages == [
            "reading the trace and checking every row",
            "following what was lost with a majority",
            "writing all that was violated",
            "judging the five guarantees",
            "looking for the events that show what was violated",
        ]
    rows = pq.read_table(target).to_pylist()
    assert len(rows) == sum(one.violated for v in shown.verdicts.values() for one in v)
    assert {
        "run": "repeating",
        "guarantee": "no duplication",
        "process": "p10",
        "origin": "p1",
        "seq": 5,
        "cause_origin": None,
        "cause_seq": None,
        "root_origin": "p1",
        "root_seq": 5,
        "witness": [{"process": "p10", "index": 0}, {"process": "p10", "index": 1}],
        "note": None,
    } in rows


def test_a_folder_of_violations_is_whole_or_not_there(tmp_path: Path) -> None:
    table, folder = pa.table({"seq": [1, 2, 3]}), tmp_path / "violations.parquet"
    with suppress(KeyboardInterrupt), whole_folder(folder) as draft:
        write_part(draft, "one", table)
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with whole_folder(folder) as draft:
        write_part(draft, "one", table)
        write_part(draft, "other", table)
        write_part(draft, "one", table)  # by a task that was done again
        (draft / ".one-host-7").touch()  # by one that was killed
    assert sorted(file.name for file in folder.iterdir()) == ["one.parquet", "other.parquet"]
    assert rows_in(folder) == 6


def test_nothing_of_others_is_deleted_or_published(tmp_path: Path) -> None:
    table, folder = pa.table({"seq": [1]}), tmp_path / "violations"
    (tmp_path / "violations.open").mkdir()
    (tmp_path / "violations.open" / "thesis").touch()
    first = ExitStack()
    write_part(first.enter_context(whole_folder(folder)), "one", table)
    with whole_folder(folder) as second:
        write_part(second, "other", table)
    with pytest.raises(UsageError, match="not an empty folder"):
        first.close()
    assert sorted(file.name for file in folder.iterdir()) == ["other.parquet"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["violations", "violations.open"]
    assert (tmp_path / "violations.open" / "thesis").exists()


@pytest.mark.parametrize("name", ["there", "link", "astray"])
def test_violations_go_to_an_empty_folder_or_where_a_link_leads(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "astray").symlink_to("new")
    inode = (tmp_path / "there").stat().st_ino
    with suppress(KeyboardInterrupt), whole_folder(tmp_path / name) as draft:
        raise KeyboardInterrupt
    with whole_folder(tmp_path / name) as draft:
        write_part(draft, "one", pa.table({"seq": [1]}))
    assert [file.name for file in (tmp_path / name).iterdir()] == ["one.parquet"]
    # A folder that is there stays the same one: it may be where a file system begins.
    assert (tmp_path / "there").stat().st_ino == inode
    assert len(list(tmp_path.iterdir())) == (4 if name == "astray" else 3)


def test_a_folder_that_others_filled_meanwhile_is_left_to_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an empty folder"), whole_folder(tmp_path):
        (tmp_path / "theirs").touch()
    assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


def test_no_parents_are_left_where_nothing_was_written(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), whole_folder(tmp_path / "a" / "b" / "violations"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    unseen = tmp_path / "elsewhere" / "draft"
    with pytest.raises(EnvironmentMissing, match=r"No such file.*; it has to be on a file system"):
        write_part(unseen, "one", pa.table({"seq": [1]}))
    assert not list(tmp_path.iterdir())


def test_violations_that_workers_wrote_elsewhere_are_missed(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("tidings.pipeline.judging")
    monkeypatch.setattr(module, "rows_in", lambda draft: rows_in(draft) - 1)
    with pytest.raises(EnvironmentMissing, match="file system that all workers share"):
        pipeline.audit(spark, folder, violations=tmp_path / "violations.parquet")
    assert not list(tmp_path.iterdir())


def test_no_folder_is_overwritten_by_violations(tidings: Any, cut: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    answer = tidings("audit", str(cut), "--violations", str(tmp_path))
    assert (answer.status, answer.out) == (64, "")
    assert "is not an empty folder" in answer.err


def test_notebooks_get_tables_with_names(spark: SparkSession, folder: Path) -> None:
    with pipeline.examine(spark, folder) as case:
        repeated = pipeline.violations(case).where("guarantee = 'no duplication'")
        violations = repeated.orderBy("process", "witness").collect()
        verdicts = pipeline.verdicts(case).where("run = 'repeating'").collect()
    assert [(row.run, row.process, row.origin) for row in violations] == [
        ("repeating", "p10", "p1"),
        ("repeating", "p10", "p1"),
        ("repeating", "p2", "p1"),
        ("repeating", "p2", "p1"),
    ]
    assert [(place.process, place["index"]) for place in violations[0].witness] == [
        ("p10", 0),
        ("p10", 1),
    ]
    assert [row.guarantee for row in verdicts] == [str(one) for one in Guarantee]
    assert [row.violated for row in verdicts] == [4, 0, 0, 0, 0]
    assert [row.causes for row in verdicts] == [2, 0, 0, 0, 0]


V1 = Path(__file__).parent.parent / "fixtures" / "traces-v1"


@pytest.mark.parametrize("form", ["nodes", "tables"])
def test_a_trace_of_version_1_is_audited(spark: SparkSession, form: str) -> None:
    (run,) = read_runs(V1 / form)
    audited = pipeline.audit(spark, V1 / form)
    assert audited.verdicts == {run.manifest.run: judge(run)}
    assert {verdict.value for verdict in judge(run)} == {Value.HOLDS}


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    writer = _Writer("cut")
    writer.broadcast("p1", 2)
    for process in NAMES:
        writer.deliver(process, "p1", 2)
        writer.add(process, "settle")
    index = HistoryCut(index=7, broadcast=1, delivered={"p1": 1})
    rows = [
        msgspec.structs.replace(row, index=row.index + 7) if row.process == "p1" else row
        for row in writer.rows
    ]
    manifest = Manifest(schema=2, run="cut", names=NAMES, views=(NAMES,), cuts={"p1": index})
    return write_trace(tmp_path / "cut", [manifest], table=rows)


def test_a_cut_is_reported_with_the_verdicts(tidings: Any, cut: Path) -> None:
    answer = tidings("audit", str(cut))
    assert answer.status == 0, answer.err
    assert answer.out.rstrip().endswith("\njudged from the cut on (p1 from 7)")


def test_a_trace_that_cannot_be_is_refused_in_one_line(tidings: Any, cut: Path) -> None:
    manifest = cut / "manifest.jsonl"
    manifest.write_text(manifest.read_text().replace('"index":7', '"index":9'))
    answer = tidings("audit", str(cut))
    assert answer.status == 65
    assert answer.err.splitlines()[-1] == (
        f"tidings: {cut / 'rows.parquet'}: row 1: p1's index is 7 where 9 comes next"
    )


@pytest.mark.parametrize("checker", ["arrays", "sql"])
def test_cuts_with_different_digests_are_a_violation(
    tidings: Any, cut: Path, tmp_path: Path, checker: str
) -> None:
    (manifest,) = [run.manifest for run in read_runs(cut)]
    cuts = {
        "p1": HistoryCut(index=7, broadcast=1, delivered={"p1": 1}, digests={"p1": "1" * 32}),
        "p2": HistoryCut(index=0, delivered={"p1": 1}, digests={"p1": "2" * 32}),
    }
    shown = msgspec.structs.replace(manifest, cuts=cuts)
    (cut / "manifest.jsonl").write_bytes(msgspec.json.encode(shown) + b"\n")
    target = tmp_path / "violations.parquet"
    answer = tidings("audit", str(cut), "--checker", checker, "--violations", str(target))
    assert answer.status == 1, answer.err
    words = "However, p2 delivered another text under one of their names (before its cut)."
    assert words in answer.out
    (row,) = pq.read_table(target).to_pylist()
    assert (row["guarantee"], row["process"], row["origin"]) == ("no creation", "p2", "p1")
    assert (row["seq"], row["cause_seq"]) == (1, None)
    assert [place["index"] for place in row["witness"]] == [-1, -1]
