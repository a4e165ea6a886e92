"""One door: whatever the source of a trace is, the verdicts and the witnesses are the same."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline_ways import specified_by
from tidings import pipeline
from tidings.core import DataError, EnvironmentMissing, UsageError
from tidings.pipeline.sources.laying import Drawer
from tidings.pipeline.sources.unread import secrets_kept
from tidings.pipeline.spark.maps import with_maps, without_maps
from tidings.trace import Manifest, layout, read_manifests
from tidings.trace.foreign import read_mapping
from tidings.trace.parquet import ARROW
from traces import random_runs, write_trace

JUDGED = ("run", "process", "index", "kind", "origin", "seq", "digest", "view")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some runs of one trace, good and bad, without what only a manifest knows."""
    drafts = [one for one in random_runs(60, seed=3) if not (one.holes or one.fates or one.cuts)]
    assert len(drafts) > 20
    manifests = [one.manifest() for one in drafts]
    rows = [row for one in drafts for row in one.rows()]
    return write_trace(tmp_path_factory.mktemp("sources"), manifests, table=rows)


@pytest.fixture(scope="module")
def manifests(folder: Path) -> dict[str, Manifest]:
    return read_manifests(layout(folder).manifests)


MAPPING = """
[columns]
process = "who"
kind = "what"
order = "at"
id = "id"
text = "@id"

[kinds]
broadcast = "pub"
deliver = "got"

[group]
members = "from the log"
"""


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.toml"
    path.write_text(MAPPING)
    return path


def judged_rows(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder / "*.parquet"))


def test_the_same_trace_by_every_door(
    spark: SparkSession, folder: Path, tmp_path: Path, manifests: dict[str, Manifest]
) -> None:
    expected = pipeline.audit(spark, folder, examples=1000)
    manifest = next(folder.glob("*manifest.jsonl"))
    rows = judged_rows(spark, folder)
    names = spark.createDataFrame(
        pa.Table.from_pylist(
            [{"run": run, "names": list(one.names)} for run, one in manifests.items()]
        )
    )

    def named(column: str) -> object:
        return F.get("names", F.col(column).cast("int")).alias(column)

    by_name = rows.join(names, "run").select(
        *(
            one if one not in ("process", "origin") else named(one)
            for one in (*JUDGED, "name", "value")
        )
    )
    by_name.write.parquet(str(tmp_path / "table"))
    by_name.write.json(str(tmp_path / "lines"))
    doors: dict[str, Callable[[], pipeline.Audit]] = {
        "a URI": lambda: pipeline.audit(spark, folder.as_uri(), examples=1000),
        "positions": lambda: pipeline.audit(spark, rows, manifest=manifest, examples=1000),
        "names": lambda: pipeline.audit(spark, by_name, manifest=manifest, examples=1000),
        "a table": lambda: pipeline.audit(
            spark, tmp_path / "table", format="parquet", manifest=manifest, examples=1000
        ),
        "JSON": lambda: pipeline.audit(
            spark, tmp_path / "lines", format="json", manifest=manifest, examples=1000
        ),
    }
    for name, door in doors.items():
        audited = door()
        assert audited.rows == expected.rows, name
        assert audited.verdicts == expected.verdicts, name
    assert dict(expected.verdicts) == specified_by(folder)


def test_a_trace_that_only_spark_can_open_is_laid_out_first(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pipeline.audit(spark, folder, examples=1000)
    monkeypatch.setattr("tidings.pipeline.sources.door._on_this_machine", lambda *_: None)
    audited = pipeline.audit(spark, folder.as_uri(), examples=1000)
    assert (audited.rows, audited.verdicts) == (expected.rows, expected.verdicts)


def test_a_map_goes_to_python_as_a_text_and_is_the_same_there(spark: SparkSession) -> None:
    vectors = [{0: 7, 3: 2**62}, None, {}, {1: None}, {2: -1}]
    rows = spark.createDataFrame(
        [(number, vector) for number, vector in enumerate(vectors)],
        "index bigint, vector map<smallint, bigint>",
    )
    flat = without_maps(rows)
    assert dict(flat.dtypes)["vector"] == "string"
    arrived = with_maps(flat.orderBy("index").toArrow())
    assert arrived["vector"].type == ARROW.field("vector").type
    found = [vector and dict(vector) for vector in arrived["vector"].to_pylist()]
    assert found == [vector or (None if vector is None else []) for vector in vectors]
    assert with_maps(arrived.drop_columns(["vector"])).column_names == ["index"]


def test_behind_a_uri_nothing_is_left_out_in_silence(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.pipeline.sources.door._on_this_machine", lambda *_: None)
    copytree(folder, tmp_path / "trace")
    (tmp_path / "trace" / "more.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"more\.jsonl: behind a URI only Parquet is read"):
        pipeline.audit(spark, (tmp_path / "trace").as_uri())


def test_a_topic_has_no_order_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[columns]\nprocess = "who"\nkind = "what"\norder = "@line"\nid = "id"\ntext = "@id"\n'
        '[kinds]\nbroadcast = "pub"\ndeliver = "got"\n[group]\nmembers = "from the log"\n'
    )
    with pytest.raises(UsageError, match=r"^orders: partitions have no order between them"):
        pipeline.audit(spark, "orders", mapping, format="kafka")


@pytest.mark.parametrize("form", ["kafka", "iceberg"])
def test_on_a_cluster_what_has_no_folder_needs_one_to_be_laid_out_in(
    spark: SparkSession, mapping: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("tidings.pipeline.sources.door.is_here", lambda _: False)
    monkeypatch.chdir(mapping.parent)
    if form == "kafka":
        Path("orders").mkdir()
    with pytest.raises(EnvironmentMissing, match=r"name a folder that they share \(--spool"):
        pipeline.audit(spark, "orders", mapping, format=form)
    Path("orders.jsonl").touch()
    with pytest.raises(DataError, match=r"^orders\.jsonl: no row to judge"):
        pipeline.audit(spark, "orders.jsonl", mapping)


def test_a_run_may_be_named_like_a_path_and_a_file_with_a_plus(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("a+b", "a b"):
        row = {"what": "got" if name == "a b" else "pub", "id": "m", "at": 1}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        'run = "../2026/11"\n[columns]\nprocess = "@file"\nkind = "what"\norder = "at"\nid = "id"\n'
        'text = "@id"\n[kinds]\nbroadcast = "pub"\ndeliver = "got"\n[group]\n'
        'members = "from the log"\n'
    )
    audited = pipeline.audit(spark, str(tmp_path / "*.jsonl"), mapping)
    assert audited.manifests["../2026/11"].members == ("a b", "a+b")
    assert {one.name for one in tmp_path.iterdir()} == {"a+b.jsonl", "a b.jsonl", "mapping.toml"}


def test_without_a_manifest_the_members_are_those_with_rows(spark: SparkSession) -> None:
    rows = [
        *(("r", "p1", 0, "broadcast", "p1", 1, 5, 0), ("r", "p1", 1, "deliver", "p1", 1, 5, None)),
        *(("r", "p2", 0, "deliver", "p1", 1, 5, None), ("r", "p2", 1, "settle") + (None,) * 4),
        ("r", "p1", 2, "settle", None, None, None, None),
    ]
    types = "run string, process string, index int, kind string, origin string, seq int, "
    frame = spark.createDataFrame(rows, types + "digest bigint, view int")
    audited = pipeline.audit(spark, frame)
    assert {one.value.value for one in audited.verdicts["r"]} == {"holds"}
    assert audited.manifests["r"].members == ("p1", "p2")
    assert audited.rows == 5


def test_what_is_missing_or_wrong_is_named_in_one_line(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    rows = judged_rows(spark, folder)
    for wrong, complaint in (
        (rows.drop("seq"), r"^the DataFrame: no column 'seq'; there are: "),
        (
            rows.withColumn("seq", F.lit("x")),
            r"^the DataFrame: column 'seq' is string, not bigint$",
        ),
        (rows, r"^the DataFrame: processes are numbers, and no manifest says whose$"),
        (rows.where("false").withColumn("process", F.lit("p")), r"one is a text"),
    ):
        with pytest.raises(DataError, match=complaint):
            pipeline.audit(spark, wrong)
    texts = rows.withColumn("digest", F.lit("sha256:9f"))
    manifest = next(folder.glob("*manifest.jsonl"))
    with pytest.raises(DataError, match=r"^the DataFrame: digest 'sha256:9f' is not a number, nor"):
        pipeline.audit(spark, texts, manifest=manifest)
    elsewhere = rows.withColumn("origin", F.col("origin") + 65536)
    with pytest.raises(DataError, match=r"is not in the run's dictionary"):
        pipeline.audit(spark, elsewhere, manifest=manifest)
    twice = rows.union(rows)
    with pytest.raises(DataError, match=r"^the DataFrame/.*: .*index is"):
        pipeline.audit(spark, twice, manifest=manifest)
    with pytest.raises(UsageError, match="no such file or folder"):
        pipeline.audit(spark, tmp_path / "none", format="parquet")
    with pytest.raises(UsageError, match="this Spark has no reader for 'delta'"):
        pipeline.audit(spark, tmp_path, format="delta")


def test_the_command_judges_a_log_by_its_mapping(tidings, tmp_path: Path) -> None:
    rows = [
        {"who": "p1", "what": "pub", "id": "order 7"},
        {"who": "p1", "what": "got", "id": "order 7"},
        {"who": "p2", "what": "got", "id": "order 7"},
        {"who": "p2", "what": "got", "id": "order 7"},
    ]
    Path("log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    Path("mapping.toml").write_text(
        '[columns]\nprocess = "who"\nkind = "what"\norder = "@line"\nid = "id"\ntext = "@id"\n'
        '[kinds]\nbroadcast = "pub"\ndeliver = "got"\n[group]\nmembers = ["p1", "p2"]\n'
    )
    words = ("--mapping", "mapping.toml", "--violations", "found.parquet")
    answer = tidings("audit", "log.jsonl", *words)
    assert answer.status == 1
    assert "4 rows of 1 run judged on Spark" in answer.out
    assert "NO DUPLICATION violated at p2" in answer.out
    looked_up = answer.out.partition("In the log:\n")[2].splitlines()
    assert looked_up == [
        *("  m = order 7, log.jsonl:1", "  p2:0 = log.jsonl:3", "  p2:1 = log.jsonl:4")
    ]
    (found,) = pq.read_table("found.parquet").to_pylist()
    assert (found["message"], found["place"]) == ("order 7", "log.jsonl:4")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["found.parquet", "log.jsonl", "mapping.toml"]
    Path("log.jsonl").write_text('{"who": "p1", "what": "?"}\n')
    answer = tidings("audit", "log.jsonl", "--mapping", "mapping.toml")
    assert (answer.status, answer.out) == (65, "")
    assert answer.err.splitlines()[-1].startswith("tidings: log.jsonl:1: what does '?' mean?")


# --- what breaks off half-way


def _rows(count: int) -> list[dict[str, object]]:
    return [
        {"who": "p1", "what": "pub" if at % 2 == 0 else "got", "id": f"m{at // 2}", "at": at}
        for at in range(count)
    ]


def _cut_gzip(path: Path) -> None:
    whole = gzip.compress("".join(json.dumps(one) + "\n" for one in _rows(9000)).encode())
    path.write_bytes(whole[: len(whole) // 2])


def _no_gzip(path: Path) -> None:
    path.write_bytes(b"who,what,id,at\n")


def _damaged_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(_rows(9000)), path, compression="zstd")
    whole = bytearray(path.read_bytes())
    whole[4:2000] = bytes(1996)
    path.write_bytes(whole)


def _cut_parquet_in_a_folder(path: Path) -> None:
    path.mkdir()
    pq.write_table(pa.Table.from_pylist(_rows(9000)), path / "1.parquet")
    whole = (path / "1.parquet").read_bytes()
    (path / "2.parquet").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("name", "spoil", "words", "complaint"),
    [
        ("log.jsonl.gz", _cut_gzip, (), r"log\.jsonl\.gz: cannot be read: Truncated"),
        (
            *("log.jsonl.gz", _cut_gzip, ("--source-option", "ignoreMissingFiles=false")),
            r"log\.jsonl\.gz: cannot be read: Unexpected end",
        ),
        ("log.csv.gz", _no_gzip, (), r"log\.csv\.gz: cannot be read: .*header"),
        ("log.parquet", _damaged_parquet, (), r"log\.parquet: cannot be read: "),
        (
            *("table", _cut_parquet_in_a_folder, ("--format", "parquet")),
            r"table: .*/table/2\.parquet cannot be read: .*is not a Parquet file",
        ),
    ],
)
@pytest.mark.parametrize("command", ["audit", "ingest"])
def test_a_source_that_breaks_off_is_named_in_one_line(
    tidings,
    command: str,
    name: str,
    spoil: Callable[[Path], None],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    Path("mapping.toml").write_text(MAPPING)
    spoil(Path(name))
    out = ("--out", "made") if command == "ingest" else ()
    answer = tidings(command, name, "--mapping", "mapping.toml", *words, *out)
    assert (answer.status, answer.out) == (65, "")
    assert re.match(f"tidings: {complaint}", answer.err.splitlines()[-1])
    assert not Path("made").exists()


def test_two_attempts_at_one_file_do_not_meet(tmp_path: Path) -> None:
    """On machines that share a folder processes may have the same name and number."""
    rows = pa.table({"index": [0, 1, 2]})
    one, other = Drawer(str(tmp_path)), Drawer(str(tmp_path))
    for drawer in (one, other):
        for _ in range(2):
            drawer.add(np.zeros(3, int), rows)
            drawer._flush()
    one.close()
    other.close()
    (file,) = tmp_path.iterdir()
    assert pq.read_table(file).num_rows == 6


# --- secrets


def test_no_password_of_a_uri_is_stored_or_shown(
    spark: SparkSession, tmp_path: Path, mapping: Path
) -> None:
    (tmp_path / "logs").mkdir()
    rows = _rows(4)
    lines = [json.dumps(one) + "\n" for one in (*rows, rows[1] | {"at": 4})]
    (tmp_path / "logs" / "log.jsonl").write_text("".join(lines))
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.me:hunter2@shelf.link./logs", (tmp_path / "logs").as_uri())
    source = "viewfs://me:hunter2@shelf/logs/log.jsonl"
    pipeline.ingest(spark, source, read_mapping(mapping), tmp_path / "trace")
    (file,) = (tmp_path / "trace").glob("*.parquet")
    stored = pq.read_table(file).to_pylist()
    assert {row["source"] for row in stored} == {"viewfs://***@shelf/logs/log.jsonl"}
    assert "hunter2" not in (tmp_path / "trace" / "manifest.jsonl").read_text()
    audited = pipeline.audit(spark, source, mapping)
    assert audited.log
    assert "hunter2" not in str(audited)
    (tmp_path / "logs" / "log.jsonl").write_text("?")
    for wrong in (source, source + "x", "s3a://me:hunter2@shelf/log.jsonl"):
        with pytest.raises((DataError, UsageError), match=r"://\*\*\*@shelf/") as refused:
            pipeline.audit(spark, wrong, mapping, format="json")
        assert "hunter2" not in str(refused.value)


def test_no_secret_option_is_shown(tidings) -> None:
    for kind in (DataError, ValueError):
        with (
            pytest.raises((DataError, RuntimeError)) as raised,
            secrets_kept({"password": "hunter2"}),
        ):
            raise kind("hunter2 is wrong")
        assert str(raised.value).endswith("*** is wrong")
    answer = tidings("audit", "x", "--format", "kafka", "--source-option", "hunter2")
    assert answer.status == 64
    assert "hunter2" not in answer.err
