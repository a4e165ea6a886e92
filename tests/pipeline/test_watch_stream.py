"""A trace folder that grows: read as it grows, judged batch by batch, stopped anywhere."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from prometheus_client import generate_latest
from rich.console import Console

from changing_traces import changing_runs, simulated
from guides import ROOT
from pipeline_ways import specified_by
from shorthand import Shorthand
from tidings import pipeline
from tidings.core import DataError, UsageError
from tidings.pipeline.history import append, entries, newest
from tidings.pipeline.watching import running
from tidings.pipeline.watching.growing import Growing, pieces_in
from tidings.pipeline.watching.pieces import pieces_of_rows
from tidings.pipeline.watching.running import BatchJudge, WatchOptions, conclusion, read_findings
from tidings.pipeline.watching.status import read_status
from tidings.pipeline.watching.stream import SegmentStream
from tidings.report.live import WatchMetrics, live_table
from tidings.report.over_time import history_page
from tidings.spec import Extra, Guarantee, Value, judge
from tidings.trace.foreign import read_mapping
from tidings.trace.segments import Mark
from traces import random_cut_runs, random_runs, write_drafts
from watched_folders import Reading
from watched_runs import without_causes
from writing_members import FORGED, NAMES, FaultyGroup, Writer, broadcast, deliver, new_trace

WATCH_RULES = ROOT / "deploy" / "prometheus" / "tidings-watch.rules.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_trace(tmp_path)


def _life(folder: Path) -> Iterator[None]:
    """A group in five steps; p2 delivers one twice, p3 too early, one forged, one never."""
    p1, p2, p3 = (Writer(folder, name) for name in NAMES)
    p1.write(broadcast("p1", 1), deliver("p1", 1))
    yield
    p2.write(deliver("p1", 1), torn=3)
    p3.write(deliver("p1", 1))
    yield
    p2.write(deliver("p1", 7, 1))
    p1.turn_over()
    p1.write(broadcast("p1", 11), deliver("p1", 11))
    yield
    p2.write(deliver("p1", 11))
    p3.write(deliver("p1", 12, 9))
    p1.write(broadcast("p1", 21, 2), deliver("p1", 21, 2))
    yield
    p3.write(deliver("p1", 11, 1), deliver("p1", 21, 1, FORGED))
    for one in (p1, p2, p3):
        one.write(Mark("settle"))
    yield


EXPECTED = {
    Guarantee.NO_DUPLICATION: 1,
    Guarantee.NO_CREATION: 1,
    Guarantee.VALIDITY: 0,
    Guarantee.UNIFORM_AGREEMENT: 3,
    Guarantee.CAUSAL_ORDER: 9,
}


def _as_audited(folder: Path, options: WatchOptions) -> None:
    audited = pipeline.audit_here(folder, examples=None).verdicts["live"]
    assert {one.guarantee: one.violated for one in audited} == EXPECTED
    for found, expected in zip(conclusion(options)["live"], audited, strict=True):
        assert found.value == expected.value
        assert (found.judged, found.not_owed) == (expected.judged, expected.not_owed)
        assert [one.witness for one in found.violations] == [
            one.witness for one in expected.violations
        ]


def test_a_growing_folder_ends_with_the_verdicts_of_the_audit(folder: Path, tmp_path: Path) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    counts = []
    for _ in _life(folder):
        reading.look()
        counts.append(len(reading.keys()))
    assert counts == [0, 0, 1, 10, 11]  # each as soon as rows show it; what is owed is no alarm
    assert len(set(reading.keys())) == 11
    _as_audited(folder, reading.options)


@pytest.mark.parametrize("lost", ["_save", "write_status"])
def test_a_driver_that_dies_in_a_batch_misses_nothing_and_repeats_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    for _ in _life(folder):
        with monkeypatch.context() as patch:
            place = BatchJudge if lost == "_save" else running
            patch.setattr(place, lost, _die)
            with pytest.raises(KeyboardInterrupt):
                reading.look()
        reading.restart()
        if lost == "_save":
            reading.look()
        else:
            reading.offset = reading.growing.latest(reading.offset, 1 << 30)
            reading.batch += 1
    assert len(reading.keys()) == len(set(reading.keys())) == 11
    _as_audited(folder, reading.options)


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


def test_an_alarm_has_one_file_although_a_repeated_batch_may_find_something_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p2 delivers p1#2 without p1#1. Before both p1 delivered p3#9, which nobody has broadcast so
    far: the alarm waits until patience is over, and after a restart waits longer."""
    reading = Reading(folder, tmp_path / "checkpoint")
    p1, p2 = Writer(folder, "p1"), Writer(folder, "p2")
    p1.write(deliver("p3", 9, 1), broadcast("p1", 1, 2))
    p2.write(deliver("p1", 2, 1))
    reading.look(0.0)
    p1.write(broadcast("p1", 3, 1))
    with monkeypatch.context() as patch:
        patch.setattr(BatchJudge, "_save", _die)
        with pytest.raises(KeyboardInterrupt):
            reading.look(100.0)
    seen = reading.keys()
    reading.restart()
    for now_s in (101.0, 200.0, 300.0):
        reading.look(now_s)
        seen = sorted({*seen, *reading.keys()})
        p1.write(broadcast("p1", int(now_s), 1))
    assert reading.keys() == seen
    assert len(seen) == 1
    status = read_status(reading.options.place)
    assert status is not None
    assert status.alarms == 1


@pytest.mark.parametrize("lost", ["write_findings", "write_status"])
def test_what_follows_from_the_state_is_written_when_its_batch_is_repeated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    p1 = Writer(folder, "p1")
    p1.write(broadcast("p1", 1), deliver("p1", 1))
    reading.look()
    p1.write(deliver("p1", 1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(running, lost, _die)
        with pytest.raises(KeyboardInterrupt):
            reading.look()
    reading.restart()
    reading.judge(None, reading.batch)
    assert len(reading.keys()) == 1
    status = read_status(reading.options.place)
    assert status is not None
    assert (status.batch, status.rows, status.alarms) == (1, 21, 1)


@pytest.mark.parametrize("kind", FaultyGroup.KINDS)
def test_twenty_faults_of_each_decidable_kind_are_found_at_once(tmp_path: Path, kind: str) -> None:
    group = FaultyGroup(tmp_path / "trace", seed=1)
    reading = Reading(tmp_path / "trace", tmp_path / "checkpoint")
    for _ in range(20):
        group.turn()
        group.turn(kind)
        reading.look()
        found = [
            (row["guarantee"], row["process"], f"{row['origin']}#{row['seq']}")
            for row in read_findings(reading.options.place)
        ]
        assert found == [(one.guarantee, one.process, one.message) for one in group.faults]
    group.settle()
    reading.look()
    audited = pipeline.audit_here(tmp_path / "trace", examples=None).verdicts["live"]
    for one, expected in zip(conclusion(reading.options)["live"], audited, strict=True):
        assert (one.value, one.judged, one.violated) == (
            expected.value, expected.judged, expected.violated
        )  # fmt: skip
        assert [found.witness for found in one.violations] == [
            found.witness for found in expected.violations
        ]


def test_what_the_audit_is_tested_with_is_watched_with_the_same_verdicts(tmp_path: Path) -> None:
    """Good runs and flawed ones, with restarts, gaps, cuts and views; one file, then the other."""
    trace = tmp_path / "trace"
    write_drafts(trace, [*random_runs(40), *random_cut_runs(20), *changing_runs(20)])
    (table,) = trace.glob("*.parquet")
    table.rename(tmp_path / table.name)
    reading = Reading(trace, tmp_path / "checkpoint")
    reading.look()
    (tmp_path / table.name).rename(table)
    reading.look()
    found, expected = conclusion(reading.options), specified_by(trace)
    assert found.keys() == expected.keys()
    for run, verdicts in expected.items():
        assert without_causes(found[run]) == without_causes(verdicts), run
    violated = {one.guarantee for five in expected.values() for one in five if one.violated}
    assert violated == {*Guarantee, Extra.VIEWS}


def test_a_torn_end_waits_until_it_is_whole(folder: Path) -> None:
    growing, p1 = Growing(folder), Writer(folder, "p1")
    first = growing.latest({}, 1 << 30)
    p1.write(broadcast("p1", 1), torn=5)
    assert growing.latest(first, 1 << 30) == first
    p1.path.write_bytes(p1.data)
    after = growing.latest(first, 1 << 30)
    assert [piece.rows for part in growing.slices(first, after) for piece in pieces_in(part)] == [
        10
    ]


def test_a_damaged_frame_is_bad_data(folder: Path) -> None:
    growing, p1 = Growing(folder), Writer(folder, "p1")
    p1.write(broadcast("p1", 1))
    first = growing.latest({}, 1 << 30)
    begin = len(p1.data)
    p1.write(broadcast("p1", 11))
    p1.write(broadcast("p1", 21))
    damaged = bytearray(p1.data)
    damaged[begin + 40] ^= 1
    p1.path.write_bytes(damaged)
    after = growing.latest(first, 1 << 30)
    with pytest.raises(DataError, match=r"p1-1\.segment\.open: damaged at byte"):
        list(pieces_in(*growing.slices(first, after)))


def test_little_at_a_time_gets_to_the_same_end(folder: Path) -> None:
    for _ in _life(folder):
        pass
    growing, offset, rows = Growing(folder), {}, 0
    for _ in range(100):
        after = growing.latest(offset, 50)
        parts = growing.slices(offset, after)
        rows += sum(piece.rows for part in parts for piece in pieces_in(part))
        if after == offset:
            break
        offset = after
    assert offset == growing.latest({}, 1 << 30)
    assert rows == pipeline.audit_here(folder).rows


def test_what_comes_after_a_watch_of_what_is_there_has_begun_is_for_the_next_one(
    folder: Path,
) -> None:
    steps = _life(folder)
    for _ in range(3):
        next(steps)
    growing, offset = Growing(folder), {}
    stream = SegmentStream(folder, (), True, 150)
    stream.prepareForTriggerAvailableNow()
    there = growing.latest({}, 1 << 30)
    seen = []
    while (after := stream.latestOffset(offset)) != offset:
        offset = after
        seen.append(offset)
        next(steps, None)
    assert offset == there
    assert len(seen) > 2
    assert growing.latest(offset, 1 << 30) != there
    again = SegmentStream(folder, (), True, 1 << 30)
    again.prepareForTriggerAvailableNow()
    assert again.latestOffset(offset) == growing.latest({}, 1 << 30)


def test_a_step_stays_within_its_limit_when_a_segment_has_more(folder: Path) -> None:
    p1 = Writer(folder, "p1")
    for number in range(20):
        p1.write(broadcast("p1", 10 * number + 1))
    p1.turn_over()
    p1.write(broadcast("p1", 201))
    size = (folder / "p1-1.segment").stat().st_size
    growing = Growing(folder)
    after = growing.latest({}, size // 2)
    assert after["p1"]["segment"] == 1
    assert 0.4 * size < after["p1"]["bytes"] < 0.6 * size
    assert growing.latest(after, size)["p1"]["segment"] == 2


def test_a_segment_deleted_before_it_was_read_makes_verdicts_unknown(
    folder: Path, tmp_path: Path
) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    steps = _life(folder)
    for _ in range(3):
        next(steps)
    (folder / "p1-1.segment").unlink()
    list(steps)
    reading.look()
    found = {one.guarantee: one for one in conclusion(reading.options)["live"]}
    assert found[Guarantee.UNIFORM_AGREEMENT].reason == "a part of p1's history is missing"
    assert found[Guarantee.NO_DUPLICATION].value is Value.VIOLATED


def test_rows_that_have_left_the_window_are_read_again(folder: Path) -> None:
    for _ in _life(folder):
        pass
    growing = Growing(folder)
    pieces = growing.recall("live", "p1", 5, 22)
    assert pieces is not None
    assert [(piece.begin, piece.end) for piece in pieces] == [(0, 20), (20, 45)]
    (folder / "p1-1.segment").unlink()
    assert growing.recall("live", "p1", 5, 22) is None


def test_what_is_owed_says_since_when(folder: Path, tmp_path: Path) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    for _ in _life(folder):
        reading.look()
    status = read_status(reading.options.place)
    assert status is not None
    owed = [(one.process, one.origin, one.first, one.last) for one in status.runs[0].owed]
    assert owed == [("p2", "p1", 21, 22), ("p3", "p1", 22, 22)]
    assert status.runs[0].has_ended


def test_on_spark_each_start_goes_on_where_the_last_one_ended(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    for step, _ in enumerate(_life(folder)):
        if step in (2, 4):
            with pipeline.watch(spark, folder, checkpoint=tmp_path / "c", once=True) as watching:
                watching.query.awaitTermination(60)
                watching.refuse_failure()
    keys = [row["key"] for row in read_findings(watching.options.place)]
    assert len(keys) == len(set(keys)) == 11
    _as_audited(folder, watching.options)
    (watching.options.place / "findings" / "batch-000000009.parquet.open").write_bytes(b"a draft")
    found = watching.findings.writeStream.format("memory").queryName("found")
    found.trigger(availableNow=True).start().awaitTermination(60)
    assert spark.table("found").count() == 11


def test_on_spark_a_watch_of_what_is_there_goes_on_until_all_of_it_is_read(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    for _ in _life(folder):
        pass
    little = {"bytesPerBatch": "300"}
    with pipeline.watch(
        spark, folder, checkpoint=tmp_path / "c", once=True, options=little
    ) as watching:
        watching.query.awaitTermination(60)
        watching.refuse_failure()
    assert watching.status is not None
    assert watching.status.batch > 0
    _as_audited(folder, watching.options)


def test_on_spark_a_stream_of_rows_is_judged_like_the_folder(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    for _ in _life(folder):
        pass
    pipeline.register(spark)
    rows = spark.readStream.format("tidings").load(str(folder))
    manifest = folder / "manifest.jsonl"
    with pipeline.watch(
        spark, rows, checkpoint=tmp_path / "c", manifest=manifest, once=True
    ) as watching:
        watching.query.awaitTermination(60)
        watching.refuse_failure()
    _as_audited(folder, watching.options)


@pytest.mark.usefixtures("spark")
def test_on_spark_the_command_tells_alarms_and_ends_with_the_verdict(
    tidings: Any, folder: Path, tmp_path: Path
) -> None:
    for _ in _life(folder):
        pass
    answer = tidings("watch", "trace", "--page", "live.html", "--history", "history", "--json")
    assert answer.status == 1
    *alarms, end = map(json.loads, answer.out.splitlines())
    assert len({one["alarm"]["key"] for one in alarms}) == 11
    verdicts = end["runs"][0]["verdicts"]
    assert {name: one["violated"] for name, one in verdicts.items()} == EXPECTED
    page = (tmp_path / "live.html").read_text()
    assert "the watch is over" in page
    assert 'http-equiv="refresh"' not in page, "nothing more will come"
    assert '<span class="violated">✗ violated</span>' in page
    assert "owes" not in page, "what was owed has become a violation"
    assert tidings("report", "history").status == 1
    assert "uniform agreement" in (tmp_path / "history" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["watch", "nowhere"], "nowhere: no such folder"),
        (["watch", "trace", "--every", "0"], "--every takes more than 0 seconds"),
        (["watch", "trace", "--every", "nan"], "--every takes more than 0 seconds, up to a day"),
        (["watch", "trace", "--every", "inf"], "--every takes more than 0 seconds, up to a day"),
        (["watch", "trace", "--patience", "nan"], "--patience and --window 0 or more"),
        (["watch", "trace", "--metrics", "70000"], "should be less than or equal to 65535"),
        (["watch", "trace", "--page", "live"], "--page takes a .html file, not live"),
        (["watch", "trace", "--history", "trace"], "trace is no history (it has no history.json)"),
        (["demo", "--watch", "--simulated"], "--watch needs nodes that run"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_spark_starts(
    tidings: Any, folder: Path, words: list[str], line: str
) -> None:
    answer = tidings(*words)
    assert answer.status == 64
    assert line in answer.err


def test_a_watch_that_has_read_nothing_yet_has_no_verdict(monkeypatch) -> None:
    from tidings.cli import watch

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", interrupted)
    query = SimpleNamespace(isActive=True)
    begun = SimpleNamespace(query=query, status=None, options=WatchOptions(""))
    with pytest.raises(KeyboardInterrupt):
        watch._follow(begun, watch._Show(begun, "", None, as_json=True), once=False)


def test_metrics_and_the_live_table_say_what_the_status_says(folder: Path, tmp_path: Path) -> None:
    reading = Reading(folder, tmp_path / "checkpoint")
    for _ in _life(folder):
        reading.look()
    metrics = WatchMetrics(lambda: read_status(reading.options.place))
    shown = generate_latest(metrics.registry).decode()
    assert 'tidings_watch_verdict{guarantee="no duplication",run="live"} -1.0' in shown
    assert 'tidings_watch_owed{member="p2",run="live"} 2.0' in shown
    assert "tidings_watch_alarms_total 11.0" in shown
    asked = set(re.findall(r"tidings_watch_\w+", WATCH_RULES.read_text()))
    assert asked <= set(re.findall(r"^\w+", shown, re.MULTILINE))
    assert len(asked) >= 3
    console = Console(width=100, record=True, file=StringIO())
    console.print(live_table(read_status(reading.options.place)))
    text = console.export_text()
    assert "p2 owes p1#21..22, 2 messages, for" in text
    assert "✗ violated" in text


MAPPING = """
run = "live"
[columns]
process = "who"
kind = "did"
order = "number"
origin = "by"
seq = "which"
text = "text"
[kinds]
broadcast = "sent"
deliver = "got"
settle = "end"
[group]
members = ["p1", "p2", "p3"]
"""
LOG = (
    [("p1", "sent", 1), ("p1", "got", 1), ("p2", "got", 1)],
    [("p1", "sent", 2), ("p1", "got", 2), ("p2", "got", 2), ("p3", "got", 2)],
    [("p3", "got", 1), ("p1", "end", None), ("p2", "end", None), ("p3", "end", None)],
)
"""In three batches; p3 delivers the second message before the first."""


def _logged(batch: int) -> list[dict[str, str | None]]:
    return [
        {"who": who, "did": did, "number": str(100 * batch + place), "text": "hello"}
        | {"by": "p1" if which else None, "which": str(which) if which else None}
        for place, (who, did, which) in enumerate(LOG[batch])
    ]


def test_a_stream_of_a_log_is_judged_by_its_mapping(tmp_path: Path) -> None:
    (tmp_path / "mapping.toml").write_text(MAPPING)
    mapping = read_mapping(tmp_path / "mapping.toml")
    options = WatchOptions(str(tmp_path / "c"), form="log", mapping=mapping)
    for batch in range(len(LOG)):
        table = pa.Table.from_pylist(_logged(batch)).select(mapping.read_columns)
        BatchJudge(options)(SimpleNamespace(toArrow=lambda table=table: table), batch)
    (alarm,) = read_findings(options.place)
    assert (alarm["guarantee"], alarm["process"], alarm["seq"]) == ("causal order", "p3", 2)
    found = {one.guarantee: one.value for one in conclusion(options)["live"]}
    assert found.pop(Guarantee.CAUSAL_ORDER) is Value.VIOLATED
    assert set(found.values()) == {Value.HOLDS}


@pytest.mark.parametrize("pause_s", [1.0, 1000.0])
def test_a_member_without_a_manifest_may_come_late_but_not_when_nobody_waits(
    tmp_path: Path, pause_s: float
) -> None:
    run = Shorthand(
        p1="b1 dp1#1 b2 dp1#2 settle", p2="dp1#1 dp1#2 settle", p3="dp1#2 dp1#1 settle"
    ).run()
    options = WatchOptions(str(tmp_path / "c"), form="rows")
    p1, p2, p3 = (list(pieces_of_rows(run.histories[name])) for name in ("p1", "p2", "p3"))
    reading = BatchJudge(options)
    for batch, pieces in enumerate([p1 + p2, [], [], p3]):
        reading.judge(pieces, batch, batch * pause_s)
    found = {one.guarantee: one.value for one in conclusion(options)["r"]}
    is_late = pause_s > options.patience_s
    assert found[Guarantee.CAUSAL_ORDER] is (Value.UNKNOWN if is_late else Value.VIOLATED)


def test_ids_are_no_names_in_a_stream(spark: Any, tmp_path: Path) -> None:
    by_id = MAPPING.replace('seq = "which"\n', "").replace('origin = "by"', 'id = "which"')
    (tmp_path / "mapping.toml").write_text(by_id)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="an id gets its name when the whole log is read"):
        pipeline.watch(spark, stream, tmp_path / "mapping.toml", checkpoint=tmp_path / "c")


def test_on_spark_a_log_that_grows_is_watched_by_its_mapping(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "mapping.toml").write_text(MAPPING)
    (tmp_path / "logs").mkdir()
    names = "who string, did string, number string, text string, by string, which string"
    logs = spark.readStream.schema(names).json(str(tmp_path / "logs"))
    lines = [json.dumps(row) for batch in range(len(LOG)) for row in _logged(batch)]
    (tmp_path / "logs" / "1.json").write_text("\n".join(lines))
    mapping = tmp_path / "mapping.toml"
    with pipeline.watch(spark, logs, mapping, checkpoint=tmp_path / "c", once=True) as watching:
        watching.query.awaitTermination(60)
        watching.refuse_failure()
    assert [row["process"] for row in read_findings(watching.options.place)] == ["p3"]


def test_what_is_no_stream_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a stream"):
        pipeline.watch(spark, spark.range(1), checkpoint=tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        pipeline.watch(spark, tmp_path / "nowhere", checkpoint=tmp_path)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="lacks the column 'run'"):
        pipeline.watch(spark, stream, checkpoint=tmp_path)


def test_a_history_tells_the_newest_verdict(folder: Path, tmp_path: Path) -> None:
    for _ in _life(folder):
        pass
    bad = pipeline.audit_here(folder)
    good = {
        "live": [msgspec.structs.replace(one, value=Value.HOLDS) for one in bad.verdicts["live"]]
    }
    history = tmp_path / "history"
    append(history, "watch", "here", good, 1.0, 10)
    assert newest(entries(history)) is Value.HOLDS
    append(history, "audit", "here", bad.verdicts, 2.0, bad.rows)
    found = entries(history)
    assert newest(found) is Value.VIOLATED
    assert [(one.command, one.rows) for one in found] == [("watch", 10), ("audit", bad.rows)]
    with pytest.raises(UsageError, match="no history"):
        append(folder, "audit", "here", bad.verdicts, 2.0, bad.rows)


def test_many_may_begin_a_history_at_once(folder: Path, tmp_path: Path) -> None:
    next(_life(folder))
    verdicts = pipeline.audit_here(folder).verdicts
    for number in range(10):
        history = tmp_path / f"history{number}"
        begin = Barrier(8)

        def tell(_: int, history: Path = history, begin: Barrier = begin) -> None:
            begin.wait()
            append(history, "audit", "here", verdicts, 1.0, 0)

        with ThreadPoolExecutor(8) as several:
            list(several.map(tell, range(8)))
        assert len(entries(history)) == 8


def test_a_history_tells_of_groups_that_change(tmp_path: Path) -> None:
    runs = map(judge, simulated())
    verdicts = next(six for six in runs if six[-1].guarantee is Extra.VIEWS)
    good = [msgspec.structs.replace(one, value=Value.HOLDS) for one in verdicts]
    bad = [*good[:-1], msgspec.structs.replace(good[-1], value=Value.VIOLATED)]
    history = tmp_path / "history"
    append(history, "audit", "here", {"still": good[:-1]}, 1.0, 10)
    append(history, "audit", "here", {"changing": bad}, 1.0, 10)
    found = entries(history)
    assert newest(found) is Value.VIOLATED
    page = history_page(found, newest(found), "history")
    assert ">views</th>" in page
    assert page.count("violated") > 1
