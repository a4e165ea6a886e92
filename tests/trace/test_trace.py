"""Traces: what is written is read back, and what is not a trace is refused with its place."""

from pathlib import Path

import msgspec
import pytest

from tidings.core import DataError, UsageError
from tidings.simulator import Plan, walk
from tidings.spec import Value, judge
from tidings.trace import (
    NEEDED,
    SCHEMA_VERSION,
    Format,
    HistoryCut,
    Manifest,
    Row,
    Run,
    collect,
    digest,
    read_runs,
    refuse_to_overwrite,
    write_runs,
)
from tidings.trace.manifest import merge

PLAN = Plan(processes=3, broadcasts=4, crashes=1, mid_broadcast=1.0)


@pytest.fixture(scope="module")
def run() -> Run:
    return walk(PLAN, 1)


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    write_runs(tmp_path / "trace", [run])
    return tmp_path / "trace"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_written_is_read_back(tmp_path: Path, form: Format) -> None:
    runs = [walk(PLAN, seed) for seed in range(3)]
    rows = write_runs(tmp_path, runs, form)
    back = read_runs(tmp_path)
    assert back == runs
    assert rows == sum(len(list(run.rows)) for run in back)


def test_a_single_file_is_read_with_the_manifest_beside_it(folder: Path, run: Run) -> None:
    assert read_runs(folder / "trace.jsonl") == [run]


def test_every_column_survives_both_formats(tmp_path: Path) -> None:
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        run="r",
        names=("p1", "p2", "ghost"),
        views=(("p1", "p2"),),
        cuts={"p2": HistoryCut(index=7, broadcast=2, delivered={"p1": 3})},
    )
    text = digest(b"\x00\xff")
    rows = [
        Row(run="r", process="p1", index=0, kind="join", time_ns=-5, view=0, vector={"p2": 7}),
        Row(run="r", process="p1", index=1, kind="broadcast", time_ns=1, origin="p1", seq=2**62,
            digest=text, view=0),
        Row(run="r", process="p1", index=2, kind="state", time_ns=2, name="bytes", value=-1),
        Row(run="r", process="p1", index=3, kind="send", time_ns=3, peer="p2", packet=1,
            packet_kind="copy", bytes=9, origin="ghost", seq=0),
        Row(run="r", process="p1", index=4, kind="crash", time_ns=4),
        Row(run="r", process="p1", index=5, kind="recover", time_ns=5, incarnation=2**40),
        Row(run="r", process="p1", index=6, kind="view", time_ns=5, incarnation=2**40, view=0,
            value=3, vector={"p1": 2, "p2": 7}),
        Row(run="r", process="p1", index=7, kind="rebind", time_ns=5, incarnation=2**40,
            origin="p1", seq=2**62, view=0),
        Row(run="r", process="p1", index=8, kind="gap", time_ns=6, incarnation=2**40, value=2**50,
            vector={"p2": 9}, seq=3),
        Row(run="r", process="p1", index=2**50 + 1, kind="leave", time_ns=7, incarnation=2**40,
            value=4),
    ]  # fmt: skip
    run = collect(manifest, rows)
    assert run.holed == {"p1"}
    forms: list[Format] = ["jsonl", "parquet"]
    for form in forms:
        write_runs(tmp_path / form, [run], form)
        assert read_runs(tmp_path / form) == [run]


V1 = Path(__file__).parents[1] / "fixtures" / "traces-v1"
"""Made by the last tidings that wrote version 1: of nodes, and of one simulated run twice."""


def test_a_trace_of_version_1_is_read_and_judged() -> None:
    (nodes,) = read_runs(V1 / "nodes")
    assert nodes.manifest.schema == 1
    assert [row.kind for row in nodes.histories["p2"]].count("deliver") == 3
    assert {verdict.value for verdict in judge(nodes)} == {Value.HOLDS}
    (lines,) = read_runs(V1 / "lines")
    (tables,) = read_runs(V1 / "tables")
    assert lines == tables
    assert {verdict.value for verdict in judge(lines)} == {Value.HOLDS}


def test_a_run_of_version_1_is_replayed(tidings) -> None:
    answer = tidings("replay", str(V1 / "lines"), "--last", "1")
    assert answer.status == 0, answer.err


def test_members_may_be_updated_one_after_the_other() -> None:
    part = {"names": ("p1", "p2"), "views": (("p1", "p2"),)}
    merged = merge([Manifest(schema=1, run="r", **part), Manifest(schema=2, run="r", **part)])
    assert merged.schema == 2


def test_the_digest_is_the_one_that_spark_computes(spark) -> None:
    from pyspark.sql.functions import xxhash64

    for text in (b"", b"hello", bytes(range(256))):
        frame = spark.createDataFrame([(bytearray(text),)], "text binary")
        (value,) = frame.select(xxhash64("text")).first()
        assert value.to_bytes(8, signed=True).hex() == digest(text)


# --- bad input


def corrupt(path: Path, how: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    match how:
        case "truncated":
            path.write_bytes(b"".join(lines)[:-30])
        case "garbage":
            path.write_bytes(b"\x80\x81\x82" * 40)
        case "empty":
            path.write_bytes(b"")
        case "gap":
            path.write_bytes(b"".join(lines[:4] + lines[5:]))
        case "repeated row":
            path.write_bytes(b"".join(lines[:4] + lines[3:]))
        case "unknown kind":
            path.write_bytes(b"".join(lines).replace(b'"broadcast"', b'"shout"', 1))
        case "wrong type":
            path.write_bytes(b"".join(lines).replace(b'"index":2', b'"index":"two"', 1))
        case "unknown column":
            path.write_bytes(b"".join(lines).replace(b'"index":2', b'"index":2,"x":1', 1))
        case "missing column":
            path.write_bytes(b"".join(lines).replace(b'"digest"', b'"name"', 1))
        case "stranger":
            path.write_bytes(b"".join(lines).replace(b'"process":"p1"', b'"process":"q"', 1))
        case "other run":
            path.write_bytes(b"".join(lines).replace(b'"run":"', b'"run":"x', 1))


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("truncated", r"trace.jsonl:\d+: Input data was truncated"),
        ("garbage", r"trace.jsonl:1: JSON is malformed"),
        ("empty", r"trace.jsonl: the file is empty"),
        ("gap", r"trace.jsonl:5: p1's index is 5 where 4 comes next"),
        ("repeated row", r"trace.jsonl:5: p1's index is 3 where 4 comes next"),
        ("unknown kind", r"trace.jsonl:1: Invalid enum value 'shout'"),
        ("wrong type", r"trace.jsonl:3: Expected `int`, got `str` - at `\$.index`"),
        ("unknown column", r"trace.jsonl:3: .* unknown field `x`"),
        ("missing column", r"trace.jsonl:1: a broadcast row needs 'digest'"),
        ("stranger", r"trace.jsonl:1: q is not among the manifest's names"),
        ("other run", r"trace.jsonl:1: run 'x.*' is not in the manifest"),
    ],
)
def test_bad_rows_are_refused_with_file_and_line(folder: Path, how: str, complaint: str) -> None:
    corrupt(folder / "trace.jsonl", how)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


def test_a_process_does_not_act_after_its_crash() -> None:
    manifest = Manifest(schema=1, run="r", names=("p1",), views=(("p1",),))
    rows = [
        Row(run="r", process="p1", index=0, kind="crash", time_ns=0),
        Row(run="r", process="p1", index=1, kind="settle", time_ns=0),
    ]
    with pytest.raises(DataError, match="p1 acts \\(settle\\) after its crash"):
        collect(manifest, rows)


@pytest.mark.parametrize("kind", NEEDED)
def test_each_kind_needs_its_columns(kind) -> None:
    manifest = Manifest(schema=1, run="r", names=("p1",), views=(("p1",),))
    row = Row(run="r", process="p1", index=0, kind=kind, time_ns=0)
    if NEEDED[kind]:
        with pytest.raises(DataError, match=f"a {kind} row needs '{NEEDED[kind][0]}'"):
            collect(manifest, [row])
    else:
        assert collect(manifest, [row]).histories["p1"] == [row]


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (b"", "manifest.jsonl: the manifest is empty"),
        (b"{", "manifest.jsonl:1: not a part of a manifest"),
        (b'{"schema":4,"run":"r","colour":"red"}', "jsonl:1: trace schema 4, .* reads 1, 2 and 3"),
        (b'{"schema":1,"run":"r","colour":"red"}', "manifest.jsonl:1: .* unknown field `colour`"),
        (
            b'{"schema":2,"run":"r","digest":"md5"}',
            "run r: digest 'md5', this tidings reads xxh64-42 and blake2b-64",
        ),
        (b'{"schema":1,"run":"r"}', "lists no members"),
        (b'{"schema":1,"run":"r","views":[["p1"]]}', "p1 is in a view but not in 'names'"),
        (b'{"schema":1,"run":"r","views":[["p1"],[]],"names":["p1"]}', "a view is empty"),
        (
            b'{"schema":1,"run":"r","views":[["p1"]],"names":["p1"],"fates":{"q":"up"}}',
            "q is in 'fates' but not in 'names'",
        ),
        (
            b'{"schema":2,"run":"r","views":[["p1"]],"names":["p1"],"cuts":{"q":{"index":1}}}',
            "q is in 'cuts' but not in 'names'",
        ),
        (
            b'{"schema":2,"run":"r","views":[["p1"]],"names":["p1"],'
            b'"cuts":{"p1":{"index":1,"delivered":{"q":1}}}}',
            "q is in 'cuts' but not in 'names'",
        ),
        (
            b'{"schema":2,"run":"r","views":[["p1"],["p1","p2"]],"names":["p1","p2"],'
            b'"cuts":{"p1":{"index":1}}}',
            "a history is cut, and the group has changed",
        ),
        (
            b'{"schema":2,"run":"r","views":[["p1"]],"names":["p1"],"cuts":{"p1":{"index":-1}}}',
            "jsonl:1: .* Expected `int` >= 0",
        ),
        (b'{"schema":1,"run":"r","views":[["p1","p1"]],"names":["p1"]}', "lists a member twice"),
        (b'{"schema":1,"run":"r","views":[["p1"]],"names":["p1","p1"]}', "a name stands twice"),
    ],
)
def test_bad_manifests_are_refused(folder: Path, manifest: bytes, complaint: str) -> None:
    (folder / "manifest.jsonl").write_bytes(manifest)
    with pytest.raises(DataError, match=complaint):
        read_runs(folder)


def test_a_trace_needs_rows_and_a_manifest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        read_runs(tmp_path / "nowhere")
    (folder / "manifest.jsonl").unlink()
    with pytest.raises(DataError, match="no manifest"):
        read_runs(folder)
    (folder / "trace.jsonl").unlink()
    with pytest.raises(DataError, match="no trace here"):
        read_runs(folder)


def test_a_gap_between_two_files_is_a_missing_file_not_bad_data(folder: Path) -> None:
    lines = (folder / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trace.jsonl").unlink()
    (folder / "a.jsonl").write_bytes(b"".join(lines[:3]))
    (folder / "b.jsonl").write_bytes(b"".join(lines[5:]))
    (run,) = read_runs(folder)
    assert run.holed == {"p1"}


def test_numbered_segments_are_read_in_the_order_of_their_numbers(folder: Path, run: Run) -> None:
    lines = (folder / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trace.jsonl").unlink()
    for number, line in enumerate(lines, start=1):
        (folder / f"part-{number}.jsonl").write_bytes(line)
    assert len(lines) > 10
    assert read_runs(folder) == [run]


def test_rows_that_cannot_be_read_are_corrupt_data(tmp_path: Path, run: Run) -> None:
    write_runs(tmp_path, [run], "parquet")
    content = bytearray((tmp_path / "trace.parquet").read_bytes())
    content[100:300] = bytes(200)
    (tmp_path / "trace.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"trace\.parquet: "):
        read_runs(tmp_path)


# --- manifests in parts


def part(**fields) -> Manifest:
    return Manifest(schema=SCHEMA_VERSION, run="r", **fields)


def test_parts_of_a_manifest_complete_each_other() -> None:
    merged = merge(
        [
            part(
                process="p1",
                protocol="frontier",
                names=("p1", "p2"),
                views=(("p1", "p2"),),
                digest="blake2b-64",
            ),
            part(process="p2", protocol="frontier", names=("p1", "p2", "p3"), digest="blake2b-64"),
            part(seed=7, fates={"p1": "crashed"}),
            part(fates={"p2": "up"}),
        ]
    )
    assert (merged.protocol, merged.seed, merged.names) == ("frontier", 7, ("p1", "p2", "p3"))
    assert merged.digest == "blake2b-64", "the runner's silence means nothing"
    assert merged.fates == {"p1": "crashed", "p2": "up"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"protocol": "a"}, {"protocol": "b"}),
        ({"names": ("p1", "p2")}, {"names": ("p2",)}),
        ({"fates": {"p1": "up"}}, {"fates": {"p1": "crashed"}}),
        ({"digest": "blake2b-64"}, {"digest": "md5"}),
        ({"digest": "blake2b-64"}, {"names": ("p1", "p2")}),
    ],
)
def test_parts_of_a_manifest_may_not_contradict_each_other(one, other) -> None:
    with pytest.raises(DataError, match=f"disagree about '{next(iter(one))}'"):
        merge([part(**one), part(**other)])


# --- nothing half-written


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, run: Run) -> None:
    unnamed = msgspec.structs.replace(run.manifest, names=("p1", "p2"))
    with pytest.raises(KeyError):
        write_runs(tmp_path, [Run(unnamed, {"p1": list(run.rows)})], "parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_cannot_be_written_leaves_no_rows_behind(tmp_path: Path, run: Run) -> None:
    (tmp_path / "manifest.jsonl.open").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
        write_runs(tmp_path, [run])
    assert not (tmp_path / "trace.jsonl").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    refuse_to_overwrite(tmp_path / "new")
    refuse_to_overwrite(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        refuse_to_overwrite(tmp_path)
