"""Parquet traces that others have written: every reader accepts them, and judges them alike."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidings import pipeline
from tidings.core import DataError
from tidings.pipeline import measures
from tidings.pipeline.arrays.perform import plainly
from tidings.pipeline.arrays.plan import JudgingLimits, judge_by_arrays, plan_of
from tidings.pipeline.statement import Verdicts, verdicts_of
from tidings.spec import Verdict
from tidings.trace import Row, layout, read_manifests, read_runs
from tidings.trace.schema import JUDGED
from traces import alter_a_text, correct_run, repeat_a_delivery, swap_two_deliveries, write_trace

Write = Callable[[Any, Path], None]

KEY = {"tidings.schema": "2"}


def _ours(table: Any, path: Path) -> None:
    """As it is."""
    pq.write_table(table, path)


def _plain_pyarrow(table: Any, path: Path) -> None:
    """Long strings, wide numbers, everything nullable, columns of the user's own."""
    wide = {pa.int16(): pa.int64(), pa.int64(): pa.int64()}
    columns = {
        field.name: table[field.name].cast(wide.get(field.type, pa.large_string()))
        for field in table.schema
        if field.name != "vector"
    }
    # Arrow takes the second for a part of the column "process".
    own = {"note": ["mine"] * len(table), "process.pid": [7] * len(table)}
    written = pa.table(columns | own).replace_schema_metadata(KEY)
    pq.write_table(written, path, row_group_size=5)


def _views_and_small_numbers(table: Any, path: Path) -> None:
    columns = {name: table[name] for name in (*JUDGED, "time_ns", "incarnation", "name", "value")}
    for name in ("process", "origin", "view"):
        columns[name] = columns[name].cast(pa.uint8())
    columns["index"] = columns["index"].cast(pa.uint32())
    for name in ("run", "kind"):
        columns[name] = columns[name].cast(pa.string()).cast(pa.string_view())
    columns["name"] = columns["name"].cast(pa.dictionary(pa.int8(), pa.string()))
    pq.write_table(pa.table(columns).replace_schema_metadata(KEY), path)


def _eight_columns(table: Any, path: Path) -> None:
    pq.write_table(table.select(JUDGED), path, use_dictionary=False, write_statistics=False)


def _polars(table: Any, path: Path) -> None:
    """The key in the file's own metadata, and a schema for Arrow without it."""
    polars = pytest.importorskip("polars", reason="Polars is missing: pip install 'tidings[bench]'")
    frame = polars.from_arrow(table.drop_columns(["vector"]))
    frame = frame.with_columns(polars.col("kind").cast(polars.Categorical))
    frame.write_parquet(path, metadata=KEY)


WRITERS = {
    "ours": _ours,
    "plain-pyarrow": _plain_pyarrow,
    "views-and-small-numbers": _views_and_small_numbers,
    "eight-columns": _eight_columns,
}


def _broken_run(folder: Path, writers: dict[str, Write]) -> None:
    """The same run once for each writer, under the writer's name, in a file of its own."""
    manifests = {}
    for name, write in writers.items():
        draft = correct_run(name, Random(12))
        for fault in (repeat_a_delivery, alter_a_text, swap_two_deliveries):
            fault(draft)
        for process, events in draft.events.items():  # eight columns cannot tell of a state
            draft.events[process] = [event for event in events if event["kind"] != "state"]
        manifests[name] = msgspec.structs.replace(draft.manifest(), clock="wall")
        write_trace(folder, [manifests[name]], table=draft.rows())
        table = pq.read_table(folder / "rows.parquet")
        (folder / "rows.parquet").unlink()
        write(table, folder / f"{name}.parquet")
    write_trace(folder, manifests.values())


def test_every_reader_takes_what_others_write(spark: SparkSession, tmp_path: Path) -> None:
    with_polars = {"polars": _polars} if find_spec("polars") else {}
    _broken_run(tmp_path, WRITERS | with_polars)
    by_queries = pipeline.audit(spark, tmp_path, examples=None, checker="sql").verdicts
    assert by_queries == _judged_without_spark(tmp_path)


def test_what_polars_writes_is_judged(tmp_path: Path) -> None:
    _broken_run(tmp_path, {"ours": _ours, "polars": _polars})
    assert list(_judged_without_spark(tmp_path)) == ["ours", "polars"]


def _judged_without_spark(folder: Path) -> Verdicts:
    """By arrays on every way: the same of every writer, as the rows are that the reader reads."""
    ours, *others = read_runs(folder)
    assert len(others) >= 1
    for other in others:
        assert [_judged(row) for row in other.rows] == [_judged(row) for row in ours.rows]
    files, manifests = layout(folder).parquet, read_manifests(layout(folder).manifests)
    ways = []
    for batch_rows in (1 << 20, 100, 1):
        plan = plan_of(files, manifests, JudgingLimits(batch_rows=batch_rows))
        judged = judge_by_arrays(plan, plainly, most=None)
        assert judged is not None
        ways.append(verdicts_of(judged, manifests, plan.directory, None))
    assert ways[0] == ways[1] == ways[2]
    assert sum(verdict.violated for verdict in _alike(ways[0])) >= 3
    return ways[0]


def _judged(row: Row) -> list[Any]:
    return [getattr(row, column) for column in JUDGED if column != "run"]


def _alike(verdicts: Verdicts) -> tuple[Verdict, ...]:
    expected, *found = verdicts.values()
    assert all(one == expected for one in found)
    return expected


def test_a_position_that_is_too_large_is_no_other_one(spark: SparkSession, tmp_path: Path) -> None:
    """65,536 more would be the same number in sixteen bits."""

    def far(table: Any, path: Path) -> None:
        place = table.column_names.index("origin")
        beyond = [one and one + (1 << 16) for one in table["origin"].to_pylist()]
        pq.write_table(table.set_column(place, "origin", pa.array(beyond, pa.int32())), path)

    _broken_run(tmp_path, {"far": far})
    reported = r"far.parquet: row \d+: process number \d+ is not in the run's dictionary"
    with pytest.raises(DataError, match=reported):
        read_runs(tmp_path)
    with pytest.raises(DataError, match=reported):
        pipeline.audit(spark, tmp_path)


def test_measures_of_what_no_column_tells_stay_empty(spark: SparkSession, tmp_path: Path) -> None:
    _broken_run(tmp_path, {"ours": _ours, "eight-columns": _eight_columns})
    with measures.record(spark, tmp_path) as recording:
        rows = measures.latencies(recording).collect()
    delivered = {name: [] for name in ("ours", "eight-columns")}
    for row in sorted(rows, key=lambda row: (row.origin, row.seq)):
        delivered[row.run].append((row.origin, row.seq, row.members, row.delivered))
    assert delivered["eight-columns"] == delivered["ours"] != []
    assert {row.run for row in rows if row.first_ns is not None} == {"ours"}
    assert measures.unmeasured(tmp_path) == (
        "not measured: costs, states, latencies and hold-back times "
        "(eight-columns.parquet has no bytes, name, packet_kind, time_ns, value)"
    )
