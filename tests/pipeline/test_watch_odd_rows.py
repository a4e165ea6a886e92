"""A watch, and rows that are repeated, missing, cut off, impossible, or gone after a look."""

import json
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shorthand import Shorthand
from tidings.cli import watch
from tidings.core import DataError
from tidings.pipeline import history
from tidings.pipeline.watching.final import final_verdicts
from tidings.pipeline.watching.judge import Judge, WatchLimits
from tidings.pipeline.watching.pieces import pieces_of_rows
from tidings.pipeline.watching.running import (
    BatchJudge,
    WatchOptions,
    conclusion,
    pieces_of_table,
)
from tidings.pipeline.watching.status import read_status
from tidings.spec import Guarantee, Value, exit_status, judge
from tidings.trace import SCHEMA_VERSION, HistoryCut, Manifest
from tidings.trace.segments import Item, Mark
from watched_folders import Reading
from watched_runs import Source, without_causes
from writing_members import NAMES, Writer, broadcast, deliver, new_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_trace(tmp_path)


# --- cut off, missing, repeated


def test_a_second_broadcast_under_a_name_below_the_cut_is_not_the_first() -> None:
    script = Shorthand(p1="dp3#1 b2 settle", p2="dp1#2 dp3#1 settle", p3="b1 dp3#1 settle")
    script.cuts = {
        "p1": HistoryCut(index=4, broadcast=2, delivered={"p1": 2}),
        "p2": HistoryCut(index=1, delivered={"p1": 1}),
        "p3": HistoryCut(index=2, delivered={"p1": 2}),
    }
    run = script.run()
    watching = Judge(run.manifest, WatchLimits(window_rows=0, chunk_rows=100), Source(run))
    for name in ("p3", "p1", "p2"):
        watching.take(pieces_of_rows(run.histories[name]))
    found = without_causes(final_verdicts(watching, run.manifest))
    assert found == without_causes(judge(run))


def test_a_part_that_is_missing_behind_a_crash_is_a_hole() -> None:
    run = Shorthand(p1="b1 crash recover dp1#1 settle", p2="settle", p3="settle").run()
    watching = Judge(run.manifest)
    rows = run.histories["p1"]
    watching.take(pieces_of_rows([*rows[:2], *rows[3:]]))
    watching.take((), since=watching.standing)
    (first,) = (one for one in watching.histories if one.name == "p1")
    assert (first.holed, first.last_kind, first.end) == (True, "settle", 5)


def test_rows_around_a_crash_may_come_twice() -> None:
    run = Shorthand(p1="b1 dp1#1 crash recover dp1#2 settle", p2="settle", p3="settle").run()
    watching = Judge(run.manifest)
    rows = run.histories["p1"]
    watching.take(pieces_of_rows(rows[:3]))
    watching.take(pieces_of_rows(rows[1:]))
    assert watching.histories[watching.numbers["p1"]].rows == len(rows)


@pytest.mark.parametrize("is_patient", [True, False])
def test_an_own_delivery_before_a_broadcast_that_is_moved_is_a_cause(is_patient: bool) -> None:
    """p2 delivers its message, then broadcasts it, then moves it to the view of p5."""
    run = Shorthand((("p2",), ("p2", "p5")), p2="dp2#1 b1 r1/1", p5="j1/1 dp2#1").run()
    counts = {one.guarantee: one.violated for one in judge(run)}
    judged = 0
    for order in set(permutations(["p2"] * 3 + ["p5"] * 2)):
        watching = Judge(run.manifest, WatchLimits(), Source(run))
        rows = {name: iter(history) for name, history in run.histories.items()}
        for name in order:
            since = {} if is_patient else watching.standing
            watching.take(pieces_of_rows([next(rows[name])]), since)
        if not watching.given_up:
            found = {one.guarantee: one.violated for one in final_verdicts(watching, run.manifest)}
            assert found[Guarantee.CAUSAL_ORDER] == counts[Guarantee.CAUSAL_ORDER] == 2, order
            judged += 1
    assert judged


def test_late_pieces_of_one_row_cost_linear_time() -> None:
    def seconds(count: int) -> float:
        words = " ".join(f"b{number}" for number in range(1, count + 1))
        run = Shorthand(p1=words).run()
        pieces = [one for row in run.histories["p1"][1::2] for one in pieces_of_rows([row])]
        watching = Judge(run.manifest)
        begin = time.process_time()
        watching.take(pieces)
        return time.process_time() - begin

    assert seconds(16_000) < 10 * seconds(4_000)


# --- impossible


def _table(**columns: list[Any]) -> Any:
    """Two rows of p1 that are right, but for these columns."""
    usual: dict[str, list[Any]] = {
        "run": ["r", "r"],
        "process": ["p1", "p1"],
        "index": [0, 1],
        "kind": ["broadcast", "deliver"],
        "origin": ["p1", "p1"],
        "seq": [1, 1],
        "digest": [5, 5],
        "view": [0, None],
        "value": [None, None],
    }
    numbers = ("index", "seq", "digest", "view", "value")
    return pa.table(
        {
            name: pa.array(values, pa.int64() if name in numbers else pa.string())
            for name, values in (usual | columns).items()
        }
    )


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"kind": ["broadcast", "whatever"]}, "'whatever' is no kind of row"),
        ({"kind": ["broadcast", None]}, "a row needs 'kind'"),
        ({"index": [0, None]}, "a row needs 'index'"),
        ({"process": ["p1", None]}, "a row needs 'process'"),
        ({"index": [-1, 0]}, "p1: index -1"),
        ({"seq": [-5, 1]}, "p1: seq -5"),
        ({"view": [-3, None]}, "p1: view -3"),
        ({"view": [None, None]}, "a row that binds a message needs 'origin', 'seq' and 'view'"),
        ({"origin": ["p2", "p1"]}, "p1 cannot broadcast a message of p2"),
        ({"kind": ["crash", "deliver"]}, "p1 acts (deliver) after its crash"),
        ({"kind": ["view", "deliver"], "value": [0, None]}, "a view row has view 0"),
        ({"kind": ["view", "deliver"], "value": [1, 0], "view": [None, 0]}, "needs 'view'"),
    ],
)
def test_rows_of_a_stream_that_cannot_be_are_refused(columns: Any, reason: str) -> None:
    assert [one.rows for one in pieces_of_table(_table())] == [2]
    with pytest.raises(DataError) as refusal:
        list(pieces_of_table(_table(**columns)))
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ((Mark("crash"), deliver("p1", 1, 5)), r"p3 acts \(deliver\) after its crash"),
        ((Mark("view", number=1),), "a view row needs 'view'"),
        ((Mark("view", 0, {}, 0, 0),), "a view row has view 0"),
    ],
)
def test_rows_of_a_segment_that_cannot_be_are_refused(
    items: tuple[Item, ...], reason: str, folder: Path, tmp_path: Path
) -> None:
    Writer(folder, "p3").write(*items)
    with pytest.raises(DataError, match=reason):
        Reading(folder, tmp_path / "checkpoint").look()


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.parquet", "p2-7.segment", "p2-².segment", "b.manifest.jsonl"]
)
def test_folders_and_odd_numbers_are_no_files_of_rows(
    name: str, folder: Path, tmp_path: Path
) -> None:
    (folder / name).mkdir()
    Writer(folder, "p1").write(broadcast("p1", 1), deliver("p1", 1))
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look()
    status = read_status(reading.options.place)
    assert status is not None
    assert status.rows == 20


# --- deleted, or not come yet


def test_an_alarm_stays_when_its_rows_are_deleted(folder: Path, tmp_path: Path) -> None:
    """The folder has to be audited in the end, since a part came late, and has them no more."""
    p1, p2, p3 = (Writer(folder, name) for name in NAMES)
    p1.write(broadcast("p1", 1), deliver("p1", 1))
    p2.write(deliver("p1", 1))
    p3.write(deliver("p1", 1), deliver("p1", 10, 1))
    reading = Reading(folder, tmp_path / "checkpoint")
    reading.look(0)
    assert len(reading.keys()) == 1
    p3.turn_over()
    p1.turn_over()
    p1.write(broadcast("p1", 11), deliver("p1", 11))
    p1.turn_over()
    late = (folder / "p1-2.segment").rename(tmp_path / "late")
    p2.write(deliver("p1", 11))
    p3.write(deliver("p1", 11))
    for one in (p1, p2, p3):
        one.write(Mark("settle"))
    reading.look(10)
    reading.look(1_000)
    late.rename(folder / "p1-2.segment")
    reading.look(1_001)
    cut = HistoryCut(index=11, delivered={"p1": 10})
    manifest = Manifest(
        schema=SCHEMA_VERSION, run="live", names=NAMES, views=(NAMES,), cuts={"p3": cut}
    )
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest) + b"\n")
    (folder / "p3-1.segment").unlink()
    watching: Any = SimpleNamespace(
        options=reading.options, verdicts=lambda: conclusion(reading.options)
    )
    (five,) = watch._concluded(watching).values()
    values = {one.guarantee: one.value for one in five}
    assert values.pop(Guarantee.NO_DUPLICATION) is Value.VIOLATED
    assert {*values.values()} == {Value.HOLDS}
    assert exit_status(five) == 1


def test_a_stream_without_any_run_yet_has_not_ended(tmp_path: Path) -> None:
    options = WatchOptions(str(tmp_path / "checkpoint"), form="rows")
    BatchJudge(options).judge([], 0, 0.0)
    assert not watch._has_ended(read_status(options.place), 1_000.0, 60.0)


# --- a history of verdicts


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / history.MANIFEST).write_text("[]"),
        lambda folder: pq.write_table(pa.table({"a": [1]}), folder / "odd.parquet"),
        lambda folder: (folder / history.MANIFEST).write_text(json.dumps({"format": 99})),
    ],
    ids=["a list", "other columns", "another format"],
)
def test_a_history_that_somebody_else_wrote_is_refused(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    folder = tmp_path / "history"
    run = Shorthand(p1="b1 dp1#1 settle", p2="dp1#1 settle", p3="dp1#1 settle").run()
    history.append(folder, "audit", "here", {"r": judge(run)}, 1.0, 6)
    assert len(history.entries(folder)) == 1
    spoil(folder)
    with pytest.raises(DataError, match="history"):
        history.entries(folder)
