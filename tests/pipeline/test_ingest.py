"""What Spark accepts and refuses is what the Python reader accepts and refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.core import DataError, UsageError
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import plainly
from tidings.pipeline.arrays.plan import judge_by_arrays, plan_of
from tidings.pipeline.arrays.rows import BadRowsError, UnreadableError, read, source_of
from tidings.pipeline.queries.faults import PROCESS, in_sequence
from tidings.pipeline.queries.ingest import placed, runs_table
from tidings.pipeline.spark.spool import STORED
from tidings.trace import HistoryCut, Manifest, Row, digest, read_runs
from tidings.trace.parquet import ARROW, write_rows
from tidings.trace.schema import JUDGED
from traces import write_trace

Columns = dict[str, Any]
Spoil = Callable[[list[Columns]], None]

NAMES = ("p1", "p2", "p10")
MANIFEST = Manifest(schema=1, run="r", names=NAMES, views=(NAMES,))
TEXT = digest(b"hello")


def _row(process: str, index: int, kind: Any, **columns: Any) -> Row:
    return Row(run="r", process=process, index=index, kind=kind, time_ns=0, **columns)


GOOD = [
    _row("p1", 0, "join", view=0, vector={"p2": 3}),
    _row("p1", 1, "broadcast", origin="p1", seq=1, digest=TEXT, view=0),
    _row("p1", 2, "send", peer="p2", packet=1, packet_kind="copy", bytes=3),
    _row("p1", 3, "crash"),
    _row("p1", 4, "recover", incarnation=1),
    _row("p1", 5, "deliver", origin="p1", seq=1, digest=TEXT, incarnation=1),
    _row("p1", 6, "settle", incarnation=1),
    _row("p2", 0, "receive", peer="p1", packet=1, packet_kind="copy", bytes=3),
    _row("p2", 1, "deliver", origin="p1", seq=1, digest=TEXT),
    _row("p2", 2, "settle"),
    _row("p10", 0, "deliver", origin="p1", seq=1, digest=TEXT),
    _row("p10", 1, "settle"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "a [trace]", [MANIFEST], table=GOOD)


def _store(folder: Path, rows: list[Columns], **options: Any) -> None:
    """The rows as they are: nothing forbids a null, as in a file of somebody else's making."""
    lenient = pa.schema([field.with_nullable(True) for field in ARROW], metadata=ARROW.metadata)
    table = pa.Table.from_pylist(rows, schema=lenient)
    pq.write_table(table, folder / "rows.parquet", **options)


def _set(position: int, **columns: Any) -> Spoil:
    return lambda rows: rows[position].update(columns)


def _drop(position: int) -> Spoil:
    return lambda rows: rows.pop(position) and None


def _repeat(position: int) -> Spoil:
    return lambda rows: rows.insert(position, dict(rows[position]))


def _swap(position: int) -> Spoil:
    def swap(rows: list[Columns]) -> None:
        rows[position], rows[position + 1] = rows[position + 1], rows[position]

    return swap


def _both(one: Spoil, other: Spoil) -> Spoil:
    def spoil(rows: list[Columns]) -> None:
        one(rows)
        other(rows)

    return spoil


def _rebind(rows: list[Columns]) -> None:
    rows[2].update(kind="rebind", origin=rows[1]["origin"], seq=rows[1]["seq"], view=0)


SAID_ALIKE: dict[str, Spoil] = {
    "unknown kind": _set(2, kind="shout"),
    "unknown process": _set(8, process=3),
    "negative process": _set(8, process=-1),
    "unknown origin": _set(8, origin=7),
    "unknown peer": _set(2, peer=7),
    "unknown process in a vector": _set(0, vector=[(9, 1)]),
    "unknown view": _set(1, view=1),
    "broadcast without view": _set(1, view=None),
    "delivery without text": _set(8, digest=None),
    "delivery without seq": _set(8, seq=None),
    "send without peer": _set(2, peer=None),
    "join without view": _set(0, view=None),
    "gap": _drop(1),
    "another gap": _drop(8),
    "history that does not start": _set(7, index=1),
    "repeated row": _repeat(8),
    "rows out of order": _swap(7),
    "life after the end": _set(4, kind="held", origin=0, seq=1),
    "incarnation falls": _set(6, incarnation=0),
    "the first of two faults": _both(_set(9, kind="x"), _set(1, kind="y")),
    "gap without end": _set(2, kind="gap"),
    "gap that ends before it begins": _set(2, kind="gap", value=1),
    "gap over rows": _set(2, kind="gap", value=3),
    "gaps that overlap": _both(_set(1, kind="gap", value=2), _set(2, kind="gap", value=2)),
    "gap that ends before the next row": _both(_drop(2), _set(1, kind="gap", value=1)),
    "rows below a cut": lambda rows: None,
    "a view without a number": _set(0, value=0),
    "rebinding to no view": _both(_rebind, _set(2, view=None)),
}
SAID_DIFFERENTLY: dict[str, Spoil] = {
    "no process": _set(8, process=None),
    "no index": _set(8, index=None),
    "no kind": _set(8, kind=None),
    "negative seq": _set(8, seq=-1),
    "negative index": _set(0, index=-1),
    "negative bytes": _set(2, bytes=-1),
    "negative count in a vector": _set(0, vector=[(1, -1)]),
    "empty packet kind": _set(2, packet_kind=""),
    "long packet kind": _set(2, packet_kind="x" * 256),
    "broadcast for another": _set(1, origin=1),
    "rebinding for another": _both(_rebind, _set(2, origin=1)),
    "endless index": _set(11, index=2**63 - 1),
}
ACCEPTED: dict[str, Spoil] = {
    "as it is": lambda rows: None,
    "no incarnation": _set(8, incarnation=None),
    "no time": _set(8, time_ns=None),
    "a stored word of 255": _set(2, packet_kind="x" * 255),
    "an empty vector": _set(0, vector=[]),
    "a view with a number": _set(0, value=1),
    "rebinding": _rebind,
    "needless columns": _set(9, view=0, origin=2, seq=0, value=-5),
    "a gap of one": _set(2, kind="gap", value=2, vector=[(1, 5)]),
    "a gap of two": _both(_drop(2), _set(1, kind="gap", value=2)),
    "a gap at the end": _set(6, kind="gap", value=2**62),
    "a history from its cut on": _both(_drop(0), _drop(0)),
}
CUTS: dict[str, dict[str, HistoryCut]] = {
    "rows below a cut": {"p2": HistoryCut(index=1)},
    "a history from its cut on": {"p1": HistoryCut(index=2, broadcast=1)},
}


def _manifest(case: str, run: str = "r") -> Manifest:
    return msgspec.structs.replace(MANIFEST, run=run, cuts=CUTS.get(case, {}))


ALL = SAID_ALIKE | SAID_DIFFERENTLY | ACCEPTED


@pytest.fixture(scope="module")
def shown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Spark says of each case, and where. All cases at once: a job takes its time."""
    spool = tmp_path_factory.mktemp("spool")
    for number, (name, spoil) in enumerate(ALL.items()):
        write_trace(spool, [MANIFEST], table=GOOD)
        _spoil(spool, spoil, run=name)
        (spool / "rows.parquet").rename(spool / f"{number:06}.parquet")
    manifests = {name: _manifest(name, run=name) for name in ALL}
    stored = spark.read.schema(STORED).parquet(str(spool / "*.parquet"))
    checked = in_sequence(placed(stored, runs_table(spark, manifests)))
    shown: dict[str, str] = {}
    for row in checked.where("fault is not null").orderBy("file", "row").collect():
        name = list(ALL)[row.file]
        fault = row.fault if row.process is None else row.fault.replace(PROCESS, NAMES[row.process])
        shown.setdefault(name, f"row {row.row + 1}: {fault}")
    return shown


def _spoil(folder: Path, spoil: Spoil, run: str) -> None:
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    spoil(rows)
    _store(folder, [row | {"run": run} for row in rows])


def _reported_by_the_reader(folder: Path, case: str) -> str:
    write_trace(folder, [_manifest(case)])
    _spoil(folder, ALL[case], run="r")
    with pytest.raises(DataError) as refused:
        read_runs(folder)
    return str(refused.value).removeprefix(f"{folder / 'rows.parquet'}: ")


@pytest.mark.parametrize("fault", SAID_ALIKE)
def test_bad_rows_are_refused_in_the_same_words(
    shown: dict[str, str], folder: Path, fault: str
) -> None:
    assert shown[fault] == _reported_by_the_reader(folder, fault)


@pytest.mark.parametrize("fault", SAID_DIFFERENTLY)
def test_bad_values_are_refused_at_the_same_place(
    shown: dict[str, str], folder: Path, fault: str
) -> None:
    place, _, _ = _reported_by_the_reader(folder, fault).partition(":")
    assert shown[fault].startswith(f"{place}: ")


@pytest.mark.parametrize("variant", ACCEPTED)
def test_good_rows_are_accepted(shown: dict[str, str], folder: Path, variant: str) -> None:
    assert variant not in shown
    write_trace(folder, [_manifest(variant)])
    _spoil(folder, ACCEPTED[variant], run="r")
    read_runs(folder)


@pytest.mark.parametrize("case", ALL)
def test_arrays_refuse_and_accept_the_same_rows(folder: Path, case: str) -> None:
    """All rows at once, and each group of rows by itself, with its neighbours."""
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    ALL[case](rows)
    _store(folder, rows, row_group_size=4)
    source = source_of(folder / "rows.parquet")
    manifests = {"r": _manifest(case)}
    for limits in (JudgingLimits(), JudgingLimits(batch_rows=1)):
        plan = plan_of([Path(source.path)], manifests, limits)
        if case in ACCEPTED:
            judged = judge_by_arrays(plan, plainly, most=1)
            assert judged is not None
            assert judged.rows == len(rows)
        else:
            with pytest.raises(BadRowsError):
                judge_by_arrays(plan, plainly, most=1)


def test_a_column_that_the_footer_acquits_is_not_read(folder: Path) -> None:
    source = source_of(folder / "rows.parquet")
    assert {"peer", "packet", "incarnation", "vector"} < set(source.columns)
    rows = [_row("p1", 0, "broadcast", origin="p1", seq=1, digest=TEXT, view=0)]
    write_rows(folder / "plain.parquet", rows, {"r": MANIFEST})
    assert source_of(folder / "plain.parquet").columns == JUDGED


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _many(tmp_path_factory.mktemp("many"), 1000)


def _many(folder: Path, files: int) -> Path:
    """A run in each of them."""
    manifests = [msgspec.structs.replace(MANIFEST, run=f"run-{number}") for number in range(files)]
    write_trace(folder, manifests)
    for manifest in manifests:
        rows = [msgspec.structs.replace(row, run=manifest.run) for row in GOOD]
        write_rows(folder / f"{manifest.run}.parquet", rows, {manifest.run: manifest})
    return folder


def _of_another_kind(good: bytes) -> bytes:
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"city": ["Perm"], "degrees": [-5]}), other)
    return other.getvalue().to_pybytes()


def _without_rows(good: bytes) -> bytes:
    other = pa.BufferOutputStream()
    pq.write_table(ARROW.empty_table(), other)
    return other.getvalue().to_pybytes()


BAD_FILES: dict[str, Callable[[bytes], bytes]] = {
    "corrupt": lambda good: good[:4] + bytes(196) + good[200:],
    "truncated": lambda good: good[: len(good) // 2],
    "no Parquet": lambda good: b"process,index,kind\np1,0,broadcast\n",
    "of another kind": _of_another_kind,
    "empty": lambda good: b"",
    "without rows": _without_rows,
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_one_bad_file_among_a_thousand_good_ones_is_named(
    tidings, thousand: Path, kind: str
) -> None:
    bad = thousand / "run-700.parquet"
    good = bad.read_bytes()
    try:
        bad.write_bytes(BAD_FILES[kind](good))
        answer = tidings("audit", str(thousand), "--json")
    finally:
        bad.write_bytes(good)
    assert answer.status == 65
    assert answer.out == "", "no verdict as if that were all"
    shown = [line for line in answer.err.splitlines() if not line.startswith("...")]
    assert len(shown) == 1
    assert shown[0].startswith(f"tidings: {bad}: ")


def test_a_thousand_good_files_are_judged(spark: SparkSession, thousand: Path) -> None:
    assert pipeline.audit(spark, thousand).rows == 1000 * len(GOOD)


def test_a_flipped_bit_in_any_page_is_noticed(folder: Path) -> None:
    path = folder / "rows.parquet"
    source, whole = source_of(path), path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    pages = pq.ParquetFile(path).metadata.row_group(0)
    flipped = 0
    for place in range(pages.num_columns):
        chunk = pages.column(place)
        if chunk.path_in_schema not in source.columns:
            continue
        end = chunk.dictionary_page_offset or chunk.data_page_offset
        end += chunk.total_compressed_size
        assert end <= footer
        path.write_bytes(whole[: end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:])
        with pytest.raises(UnreadableError):
            read(str(path), source.columns, [0])
        flipped += 1
    assert flipped >= len(JUDGED)


def test_a_word_that_is_no_text_is_corrupt(spark: SparkSession, folder: Path) -> None:
    """One bit of a dictionary, and Python could not even read the word."""
    path = folder / "rows.parquet"
    whole = path.read_bytes()
    written = pq.read_table(path)
    pq.write_table(written, path, compression="none", use_dictionary=True)
    plain = path.read_bytes()
    assert plain.count(b"copy") >= 1
    path.write_bytes(plain.replace(b"copy", b"c\xffpy", 1))
    with pytest.raises(DataError, match=r"rows.parquet: corrupt: its rows cannot"):
        pipeline.audit(spark, folder)
    path.write_bytes(whole)
    assert pipeline.audit(spark, folder).rows == len(GOOD)


def test_a_dictionary_may_have_words_that_nobody_uses(spark: SparkSession, folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    place = table.column_names.index("packet_kind")
    column = table["packet_kind"].combine_chunks().cast(pa.string())
    codes = pa.array([None if word is None else 1 for word in column.to_pylist()], pa.int32())
    words = pa.DictionaryArray.from_arrays(codes, pa.array(["", "copy", "x" * 300]))
    pq.write_table(
        table.set_column(place, table.schema.field(place), words), folder / "rows.parquet"
    )
    assert pipeline.audit(spark, folder).rows == len(GOOD)


def test_a_corrupt_file_is_named_on_every_way(spark: SparkSession, tmp_path: Path) -> None:
    bad = _many(tmp_path, 30) / "run-20.parquet"
    bad.write_bytes(BAD_FILES["corrupt"](bad.read_bytes()))
    for limits in (JudgingLimits(), JudgingLimits(batch_rows=60), JudgingLimits(batch_rows=1)):
        with pytest.raises(DataError, match=r"^\S*/run-20.parquet: corrupt: its rows cannot"):
            pipeline.audit(spark, tmp_path, limits=limits)


@pytest.mark.parametrize("run", ["other", None])
def test_a_run_that_is_not_in_the_manifest_is_refused(
    spark: SparkSession, folder: Path, run: str | None
) -> None:
    _store(folder, [{"run": run, "process": 0, "index": 0, "kind": "settle", "time_ns": 0}])
    with pytest.raises(DataError, match=r"a \[trace\]/rows.parquet: row 1: run .* not in the man"):
        read_runs(folder)
    with (
        pytest.raises(DataError, match=r"a \[trace\]/rows.parquet: row 1: run .* not in the man"),
        pipeline.examine(spark, folder),
    ):
        pass


def test_a_bad_row_is_reported_with_its_file_and_its_process(
    spark: SparkSession, folder: Path
) -> None:
    expected = _reported_by_the_reader(folder, "another gap")
    with pytest.raises(DataError) as refused, pipeline.examine(spark, folder):
        pass
    with pytest.raises(DataError) as refused_too:
        pipeline.audit(spark, folder)
    assert str(refused.value) == str(refused_too.value) == f"{folder / 'rows.parquet'}: {expected}"
    assert expected == "row 9: p2's index is 2 where 1 comes next"


def test_a_gap_between_files_is_a_hole_and_no_fault(spark: SparkSession, folder: Path) -> None:
    write_rows(folder / "more.parquet", [_row("p2", 5, "settle")], {"r": MANIFEST})
    (folder / "rows.parquet").rename(folder / "first.parquet")
    assert [run.holed for run in read_runs(folder)] == [frozenset({"p2"})]
    with pipeline.examine(spark, folder) as case:
        holed = [place for (_, place), life in case.trace.lives.items() if life.holed]
        assert [case.trace.names[0][place] for place in holed] == ["p2"]


def _garbage(folder: Path) -> None:
    (folder / "rows.parquet").write_bytes(b"PAR1 is how it begins, but not how it goes on")


def _truncated(folder: Path) -> None:
    whole = (folder / "rows.parquet").read_bytes()
    (folder / "rows.parquet").write_bytes(whole[: len(whole) // 2])


def _empty(folder: Path) -> None:
    (folder / "rows.parquet").write_bytes(b"")


def _foreign(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), folder / "rows.parquet")


def _other_version(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    pq.write_table(table.replace_schema_metadata({"tidings.schema": "9"}), folder / "rows.parquet")


def _other_type(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    place = table.column_names.index("seq")
    wide = table.set_column(place, "seq", table["seq"].cast(pa.float64()))
    pq.write_table(wide, folder / "rows.parquet")


def _unsigned(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    place = table.column_names.index("digest")
    wide = table.set_column(place, "digest", table["digest"].cast(pa.uint64(), safe=False))
    pq.write_table(wide, folder / "rows.parquet")


def _judged_column_missing(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    pq.write_table(table.drop_columns(["view"]), folder / "rows.parquet")


def _same_name_twice(folder: Path) -> None:
    table = pq.read_table(folder / "rows.parquet")
    pq.write_table(table.append_column("Peer", table["peer"]), folder / "rows.parquet")


def _name_in_capitals(folder: Path) -> None:
    """Spark would read it as peer, everybody else as a column that nobody knows."""
    table = pq.read_table(folder / "rows.parquet")
    names = [name.replace("peer", "PEER") for name in table.column_names]
    pq.write_table(table.rename_columns(names), folder / "rows.parquet")


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.jsonl").unlink()


def _bad_line(folder: Path) -> None:
    (folder / "more.jsonl").write_bytes(msgspec.json.encode(GOOD[0]) + b"\n{broken\n")


@pytest.mark.parametrize(
    "spoil",
    [
        _garbage,
        _truncated,
        _empty,
        _foreign,
        _other_version,
        _other_type,
        _unsigned,
        _judged_column_missing,
        _same_name_twice,
        _name_in_capitals,
        _no_manifest,
        _bad_line,
    ],
)
def test_bad_files_are_refused_in_the_same_words(
    spark: SparkSession, folder: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(folder)
    with pytest.raises(DataError) as expected:
        read_runs(folder)
    with pytest.raises(DataError) as refused, pipeline.examine(spark, folder):
        pass
    with pytest.raises(DataError) as refused_too:
        pipeline.audit(spark, folder)
    assert str(refused.value) == str(refused_too.value) == str(expected.value)


def test_nothing_there_is_the_users_mistake(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"), pipeline.examine(spark, tmp_path / "no"):
        pass
