"""``format("tidings")`` gives the rows that Python reads, and refuses what that refuses."""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import UNSET
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, In, Not

from tidings import pipeline
from tidings.core import DataError
from tidings.pipeline.spark.source import TraceReader
from tidings.trace import HistoryCut, Manifest, Row, digest, parquet, read_runs
from tidings.trace.schema import COLUMNS
from tidings.trace.segments import Block, Gap, Mark, Messages, Owner, Packets, whole_segment
from traces import random_cut_runs, random_runs, write_drafts, write_trace

DIGESTS = b"".join(bytes.fromhex(digest(text)) for text in (b"one", b"two"))
Values = tuple[Any, ...]


def _table(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.format("tidings").load(str(folder))


def _values(table: DataFrame) -> list[Values]:
    return sorted((tuple(row) for row in table.collect()), key=_place)


def _place(values: Values) -> Values:
    return values[:3]


def _expected(rows: Iterable[Row]) -> list[Values]:
    """The values of these rows, with the digest as Spark's own function would give it."""

    def value(row: Row, column: str) -> Any:
        found = getattr(row, column)
        if found is UNSET:
            return None
        return int.from_bytes(bytes.fromhex(found), signed=True) if column == "digest" else found

    return sorted((tuple(value(row, name) for name in COLUMNS) for row in rows), key=_place)


def _read(folder: Path) -> list[Row]:
    return [row for run in read_runs(folder) for row in run.rows]


@pytest.fixture(scope="module")
def random_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines and tables of many runs, each with a dictionary of its own."""
    folder = tmp_path_factory.mktemp("random") / "a [trace]"
    write_drafts(folder, [*random_runs(40, seed=3), *_renamed(random_cut_runs(20, seed=4))])
    rows = pq.read_table(folder / "rows.parquet")
    pq.write_table(rows, folder / "rows.parquet", row_group_size=len(rows) // 3)
    return folder


def _renamed(drafts: list[Any]) -> list[Any]:
    for draft in drafts:
        draft.run = f"cut-{draft.run}"
    return drafts


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Two histories as nodes write them: one of them cut, the other not yet closed."""
    manifest = Manifest(
        schema=2,
        run="run",
        names=("p2", "p1"),
        views=(("p1", "p2"),),
        cuts={"p1": HistoryCut(index=2, broadcast=2)},
    )
    (tmp_path / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest))
    of_p1 = [
        Block(0, 7, 0, (Messages("broadcast", "p1", 1, 2, DIGESTS, view=0),)),
        Block(2, 8, 0, (Packets("send", (("p2", 5), ("p1", 6)), "data", 9, "p1", 1),)),
        Block(
            4, 9, 1, (Mark("recover", None, {"p1": 2, "p2": 0}, 2), Messages("held", "p2", 8, 3))
        ),
        Block(8, 9, 1, (Gap("gap", 7, {"p2": 3}, 2), Gap("gap", 1), Mark("settle"))),
    ]
    (tmp_path / "p1-1.segment").write_bytes(whole_segment(Owner("run", "p1"), *of_p1))
    of_p2 = Block(0, 7, 0, (Messages("deliver", "p1", 1, 2, DIGESTS),))
    (tmp_path / "p2-1.segment.open").write_bytes(whole_segment(Owner("run", "p2"), of_p2) + b"torn")
    return tmp_path


def test_random_traces_have_the_rows_that_python_reads(
    spark: SparkSession, random_trace: Path
) -> None:
    table = _table(spark, random_trace)
    assert table.columns == list(COLUMNS)
    rows = _read(random_trace)
    assert {row.kind for row in rows} >= {"broadcast", "deliver", "gap", "crash", "recover"}
    assert _values(table) == _expected(rows)
    assert table.rdd.getNumPartitions() >= 4, "the lines, and three groups of rows"


def test_any_session_reads_traces_once_it_is_registered(
    spark: SparkSession, segments: Path
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    with pytest.raises(PySparkException, match="filter pushdown is disabled"):
        _table(other, segments).collect()
    pipeline.register(other)
    assert _values(_table(other, segments)) == _expected(_read(segments))


def test_segments_of_nodes_have_the_rows_that_python_reads(
    spark: SparkSession, segments: Path
) -> None:
    table, rows = _table(spark, segments), _read(segments)
    assert {type(row.vector) for row in rows} >= {dict}
    assert _values(table) == _expected(rows)
    assert len(rows) == 11


def test_sql_finds_a_message_by_its_text(spark: SparkSession, segments: Path) -> None:
    _table(spark, segments).createOrReplaceTempView("rows")
    found = spark.sql(
        "select process, origin, seq from rows where digest = xxhash64('two') and kind = 'deliver'"
    )
    assert [tuple(row) for row in found.collect()] == [("p2", "p1", 2)]
    spark.catalog.dropTempView("rows")


@pytest.mark.parametrize(
    ("condition", "is_meant"),
    [
        (
            "process in ('p1', 'p3') and kind = 'deliver'",
            lambda row: row.process in ("p1", "p3") and row.kind == "deliver",
        ),
        ("run = 'run-11'", lambda row: row.run == "run-11"),
        ("kind in ('gap', null)", lambda row: row.kind == "gap"),
        (
            "origin = 'p2' and kind <> 'deliver'",
            lambda row: row.origin == "p2" and row.kind != "deliver",
        ),
    ],
)
def test_a_filter_keeps_the_rows_that_are_meant(
    spark: SparkSession, random_trace: Path, condition: str, is_meant: Callable[[Row], bool]
) -> None:
    meant = _expected(filter(is_meant, _read(random_trace)))
    assert _values(_table(spark, random_trace).where(condition)) == meant
    assert meant


def test_rows_are_filtered_by_run_process_and_kind_before_they_reach_java(segments: Path) -> None:
    reader = _reader(segments)
    ours = [EqualTo(("process",), "p1"), In(("kind",), ("gap", "settle"))]
    others = [EqualTo(("origin",), "p1"), Not(EqualTo(("kind",), "gap"))]
    assert list(reader.pushFilters([*ours, *others])) == others
    assert [(row["process"], row["kind"]) for row in _all_rows(reader)] == [
        ("p1", "gap"),
        ("p1", "gap"),
        ("p1", "settle"),
    ]


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, segments: Path) -> None:
    places = spark.read.schema("index bigint, process string").format("tidings")
    expected = [(row.index, row.process) for row in _read(segments)]
    assert sorted(map(tuple, places.load(str(segments)).collect())) == sorted(expected)
    with pytest.raises(PySparkException, match="UsageError: a trace has no column 'text'"):
        spark.read.schema("text string").format("tidings").load(str(segments)).collect()


def test_a_table_with_only_the_judged_columns_is_read(tmp_path: Path) -> None:
    """As others write it: words without a dictionary, wide numbers."""
    manifest = Manifest(schema=2, run="run", names=("p2", "p1"), views=(("p1", "p2"),))
    message = {"run": "run", "time_ns": 0, "origin": "p1", "seq": 1, "digest": digest(b"one")}
    rows = [
        Row(process="p1", index=0, kind="broadcast", view=0, **message),
        Row(process="p2", index=0, kind="deliver", **message),
    ]
    write_trace(tmp_path, [manifest], table=rows)
    table = pq.read_table(tmp_path / "rows.parquet").select(parquet.JUDGED)
    words, number = pa.large_string(), pa.int64()
    fields = [
        (one.name, words if pa.types.is_dictionary(one.type) else number) for one in table.schema
    ]
    written = table.cast(pa.schema(fields, table.schema.metadata))
    pq.write_table(written, tmp_path / "rows.parquet")
    found = [tuple(row.values()) for row in _all_rows(_reader(tmp_path))]
    assert sorted(found, key=_place) == _expected(_read(tmp_path)) == _expected(rows)


def _reader(folder: Path) -> TraceReader:
    return TraceReader(folder, COLUMNS)


def _all_rows(reader: TraceReader) -> list[dict[str, Any]]:
    batches = chain.from_iterable(map(reader.read, reader.partitions()))
    return [row for batch in batches for row in batch.to_pylist()]


# --- what is refused


def _with_byte(place: int, change: int = 1) -> Callable[[bytes], bytes]:
    return lambda good: good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]


def _with_values(**values: Any) -> Callable[[bytes], bytes]:
    """A Parquet file whose second row has these instead."""

    def spoil(good: bytes) -> bytes:
        table = pq.read_table(pa.BufferReader(good))
        rows = table.to_pylist()
        rows[1] |= values
        spoilt = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), spoilt)
        return spoilt.getvalue().to_pybytes()

    return spoil


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a byte of a segment": ("p1-1.segment", _with_byte(80), ": damaged at byte "),
    "half a segment": ("p1-1.segment", lambda good: good[: len(good) // 2], "ends within a frame"),
    "no line": ("rows.jsonl", lambda good: b"{" + good, "rows.jsonl:1: "),
    "half a table": ("rows.parquet", lambda good: good[: len(good) // 2], "a truncated one"),
    "a byte of a table": ("rows.parquet", _with_byte(12), "corrupt: "),
    "an unknown run": ("rows.parquet", _with_values(run="x"), "run 'x' is not in the manifest"),
    "an unknown process": (
        "rows.parquet",
        _with_values(process=99),
        "process number 99 is not in the run's dictionary",
    ),
    "an unknown process in a vector": (
        "rows.parquet",
        _with_values(vector=[(0, 1), (-1, 1)]),
        "process number -1 is not in the run's dictionary",
    ),
}


@pytest.fixture
def everything(random_trace: Path, segments: Path, tmp_path: Path) -> Path:
    """Files of all kinds in one folder."""
    folder = tmp_path / "everything"
    copytree(random_trace, folder)
    for file in segments.glob("*.segment"):
        copyfile(file, folder / file.name)
    copyfile(segments / "manifest.jsonl", folder / "p.manifest.jsonl")
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_gets_one_clear_line(everything: Path, damage: str) -> None:
    assert _all_rows(_reader(everything)), "good before it is damaged"
    name, spoil, complaint = DAMAGES[damage]
    file = everything / name
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(DataError, match=complaint) as refused:
        _all_rows(_reader(everything))
    assert str(refused.value).startswith(str(file))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("damage", ["half a table", "a byte of a table"])
def test_what_a_worker_says_of_a_file_is_kept(
    spark: SparkSession, everything: Path, damage: str
) -> None:
    name, spoil, complaint = DAMAGES[damage]
    file = everything / name
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(PySparkException) as refused:
        _table(spark, everything).collect()
    line = rf"^tidings\.core\.errors\.DataError: {re.escape(str(file))}: .*{complaint}"
    assert re.search(line, str(refused.value), re.MULTILINE)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/nowhere/at/all", "no such file or folder"),
        ("s3a://bucket/trace", "reads folders that all workers see as files"),
        (None, r'which trace\? spark.read.format\("tidings"\).load\(FOLDER\)'),
    ],
)
def test_what_is_not_there_is_refused_when_it_is_named(
    spark: SparkSession, path: str | None, complaint: str
) -> None:
    with pytest.raises(PySparkException, match=f"UsageError: .*{complaint}"):
        spark.read.format("tidings").load(path)


def test_a_uri_of_a_file_is_a_path(spark: SparkSession, segments: Path) -> None:
    table = spark.read.format("tidings").load(segments.as_uri())
    assert table.count() == len(_read(segments))
