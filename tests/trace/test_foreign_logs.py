"""Foreign logs: read as the mapping says, bad rows named, and nobody acquitted by default."""

import csv
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from consoles import without_progress
from tidings.core import DataError, UsageError
from tidings.pipeline.sources import laying, lines
from tidings.pipeline.sources.foreign import Ingested, ingest
from tidings.spec import Value, judge
from tidings.trace import Run, collect, digest, foreign, read_runs
from traces import Draft, random_runs

MAPPING = """\
[columns]
process = "who"
kind = "what"
order = "@line"
id = "id"
text = "text"

[kinds]
broadcast = "pub"
deliver = ["got", "again"]
crash = "died"
recover = "back"
settle = "calm"
ignore = "noise"

[group]
members = ["p1", "p2"]
"""


def row(who: str, what: str, name: str = "", text: str = "hi", **more: Any) -> dict[str, Any]:
    about = {"id": name, "text": text} if name else {}
    return {"who": who, "what": what, **about, **more}


CALM = [
    row("p1", "pub", "a"),
    row("p1", "got", "a"),
    row("p2", "got", "a"),
    row("p1", "calm"),
    row("p2", "calm"),
]


class Desk:
    """A folder with logs and mappings, and what ingest makes of them."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.spark = spark

    def log(self, rows: Sequence[dict[str, Any]], name: str = "log.jsonl") -> Path:
        path = self.folder / name
        WRITERS[path.suffix](path, rows)
        return path

    def mapping(self, text: str = MAPPING, *changes: tuple[str, str]) -> foreign.Mapping:
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / "mapping.toml"
        path.write_text(text)
        return foreign.read_mapping(path)

    def ingest(self, *logs: Path, mapping: foreign.Mapping | None = None) -> Ingested:
        return ingest(self.spark, logs, mapping or self.mapping(), self.out)

    def runs(self, *logs: Path, mapping: foreign.Mapping | None = None) -> list[Run]:
        self.ingest(*logs, mapping=mapping)
        return read_runs(self.out)

    def verdicts(self, *logs: Path, mapping: foreign.Mapping | None = None) -> dict[str, str]:
        (run,) = self.runs(*logs, mapping=mapping)
        return spoken(run)


def spoken(run: Run) -> dict[str, str]:
    return {one.guarantee.value: one.reason or one.value.value for one in judge(run)}


def write_json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))


def all_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for one in rows for name in one))


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, all_columns(rows))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    names = all_columns(rows)
    table = pa.Table.from_pylist([{name: one.get(name) for name in names} for one in rows])
    pq.write_table(table, path, row_group_size=7)


WRITERS: dict[str, Callable[[Path, Sequence[dict[str, Any]]], None]] = {
    ".jsonl": write_json_lines,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


@pytest.fixture
def desk(tmp_path: Path, spark: SparkSession) -> Desk:
    return Desk(tmp_path, spark)


# --- the verdicts on a log are those on the trace it was made from


def drafts(count: int = 200) -> list[Draft]:
    """Random runs, good and bad, as a foreign log can tell them: one list of members, no holes."""
    found = []
    for draft in random_runs(count, seed=7):
        draft.views = [tuple(draft.members)]
        for events in draft.events.values():
            for event in events:
                event.pop("incarnation", None)
                if "view" in event:
                    event["view"] = 0
        has_gaps = any(
            event["kind"] == "gap" for events in draft.events.values() for event in events
        )
        if not (draft.holes or has_gaps or draft.fates) and all(draft.events.values()):
            found.append(draft)
    assert len(found) > count / 2
    return found


def foreign_rows(draft: Draft) -> list[dict[str, Any]]:
    rows = []
    for one in draft.rows():
        if one.kind != "state":
            about = {} if not one.origin else {
                "sender": one.origin, "n": one.seq, "id": f"{one.origin}/{one.seq}",
                "text": one.digest,
            }  # fmt: skip
            at = {"run": one.run, "who": one.process, "at": one.index * 3, "what": one.kind}
            rows.append(at | about)
    return rows


BY_ORDER = """\
[columns]
run = "run"
process = "who"
kind = "what"
order = "at"
NAMES
text = "text"

[kinds]
broadcast = "broadcast"
deliver = "deliver"
crash = "crash"
recover = "recover"
leave = "leave"
settle = "settle"

[group]
members = "from the log"
"""


Judged = dict[str, tuple[str, int]]


def judged(run: Run) -> Judged:
    return {one.guarantee.value: (one.value.value, one.violated) for one in judge(run)}


def original(draft: Draft) -> Judged:
    return judged(collect(draft.manifest(), draft.rows()))


@pytest.fixture(scope="module")
def shown() -> list[tuple[Draft, Judged]]:
    return [(draft, original(draft)) for draft in drafts()]


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("names", ['origin = "sender"\nseq = "n"', 'origin = "sender"\nid = "id"'])
def test_a_log_in_any_order_of_lines_is_judged_like_the_trace_it_tells(
    desk: Desk, shown: list[tuple[Draft, Judged]], ending: str, names: str
) -> None:
    rows = [one for draft, _ in shown for one in foreign_rows(draft)]
    Random(1).shuffle(rows)
    half = len(rows) // 2
    logs = [desk.log(rows[:half], f"a{ending}"), desk.log(rows[half:], f"b{ending}")]
    mapping = desk.mapping(BY_ORDER.replace("NAMES", names))
    runs = {run.manifest.run: run for run in desk.runs(*logs, mapping=mapping)}
    for draft, before in shown:
        assert judged(runs[draft.run]) == before, draft.run
    values = [value for _, before in shown for value, _ in before.values()]
    assert all(values.count(value.value) > 20 for value in Value)


def test_without_the_origins_of_ids_less_is_known_and_nothing_else(desk: Desk) -> None:
    shown = drafts(800)
    log = desk.log([one for draft in shown for one in foreign_rows(draft)])
    runs = desk.runs(log, mapping=desk.mapping(BY_ORDER.replace("NAMES", 'id = "id"')))
    lost = 0
    for draft, run in zip(shown, runs, strict=True):
        for verdict in judge(run):
            before, _ = original(draft)[verdict.guarantee.value]
            assert verdict.value.value in (before, "unknown"), draft.run
            lost += verdict.value.value != before
    assert 0 < lost < len(shown) / 10


def test_a_long_run_has_a_file_for_each_process_and_short_runs_share_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laying, "ROWS_A_FILE", 6)
    long = [row(who, "pub", f"{who}-{n}", test="long") for who in ("p1", "p2") for n in range(8)]
    short = [row("p1", "pub", "x", test=f"short {n}") for n in range(7)]
    mapping = desk.mapping(MAPPING, ("[columns]", '[columns]\nrun = "test"'))
    runs = desk.runs(desk.log([*long, *short]), mapping=mapping)
    assert len(runs) == 8
    files = sorted(desk.out.glob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [8, 8, 6, 1]


# --- what the log says


@pytest.mark.parametrize("ending", WRITERS)
def test_every_row_of_a_log_may_be_of_a_message(desk: Desk, ending: str) -> None:
    """Where no number is missing, Arrow hands out arrays that nobody may write to."""
    whats = [("p1", "broadcast"), ("p1", "deliver"), ("p2", "deliver")]
    rows = [
        {"run": "r", "who": who, "at": n, "what": what, "sender": "p1", "n": n, "text": "a"}
        for n in (1, 2)
        for who, what in whats
    ]
    mapping = desk.mapping(BY_ORDER.replace("NAMES", 'origin = "sender"\nseq = "n"'))
    (run,) = desk.runs(desk.log(rows, f"log{ending}"), mapping=mapping)
    assert [str(one.message) for one in run.histories["p2"]] == ["p1#1", "p1#2"]


def test_the_fourth_broadcast_of_p1_is_called_p1_4(desk: Desk) -> None:
    ids = ["e", "b", "zz", "a"]
    (run,) = desk.runs(desk.log([row("p1", "pub", one, text=one) for one in ids]))
    rows = run.histories["p1"]
    assert [str(one.message) for one in rows] == ["p1#1", "p1#2", "p1#3", "p1#4"]
    assert rows[3].digest == digest(b"a")


def test_files_are_read_in_the_order_given_and_name_the_process_if_asked(desk: Desk) -> None:
    mapping = desk.mapping(MAPPING, ('process = "who"', 'process = "@file"'))
    logs = [desk.log(CALM[:2], "p1.jsonl"), desk.log([row("-", "got", "a")], "p2.jsonl")]
    (run,) = desk.runs(*logs, mapping=mapping)
    assert {name: len(rows) for name, rows in run.histories.items()} == {"p1": 2, "p2": 1}


def test_fields_within_fields_and_numbers_are_read_as_they_stand(desk: Desk) -> None:
    log = desk.folder / "log.jsonl"
    log.write_text(
        '{"who": 1, "what": true, "m": {"id": 7, "text": 1.50}, "at": 1700000000.123456789}\n'
        '{"who": 1, "what": false, "m": {"id": "7", "text": "1.50"}, "at": "1700000001"}\n'
    )
    mapping = desk.mapping(
        MAPPING,
        ('"pub"', "true"),
        ('["got", "again"]', "false"),
        ('id = "id"', 'id = "m.id"\ntime = "at"'),
        ('"text"', '"m.text"'),
        ("[group]", '[forms]\ntime = "s"\n\n[group]'),
        ('["p1", "p2"]', '["1"]'),
    )
    (run,) = desk.runs(log, mapping=mapping)
    sent, got = run.histories["1"]
    assert (sent.message, sent.digest) == (got.message, got.digest)
    assert (sent.time_ns, got.time_ns) == (1700000000123456789, 1700000001 * 10**9)
    assert run.manifest.clock == "wall"


@pytest.mark.parametrize(
    ("unit", "text", "ns"),
    [
        ("s", "12", 12 * 10**9),
        ("s", "1.5e-3", 1_500_000),
        ("ms", "-3.25", -3_250_000),
        ("us", "7", 7_000),
        ("ns", "7", 7),
        ("iso8601", "1970-01-01T00:00:01Z", 10**9),
        ("iso8601", "1970-01-01 01:00:00.123456789+01:00", 123456789),
        ("iso8601", "1969-12-31T23:59:59.5", -500_000_000),
    ],
)
def test_times_in_every_unit(desk: Desk, unit: str, text: str, ns: int) -> None:
    mapping = desk.mapping(
        MAPPING,
        ('id = "id"', 'id = "id"\ntime = "at"'),
        ("[group]", f'[forms]\ntime = "{unit}"\n\n[group]'),
    )
    (run,) = desk.runs(desk.log([row("p1", "pub", "a", at=text)]), mapping=mapping)
    assert run.histories["p1"][0].time_ns == ns


def test_texts_may_be_encoded_and_parquet_may_hold_bytes_and_times(desk: Desk) -> None:
    at = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    log = desk.log([row("p1", "pub", "a", text=b"\xff\x00", at=at)], "log.parquet")
    mapping = desk.mapping(
        MAPPING,
        ('id = "id"', 'id = "id"\ntime = "at"'),
        ("[group]", '[forms]\ntime = "iso8601"\n\n[group]'),
    )
    (run,) = desk.runs(log, mapping=mapping)
    (sent,) = run.histories["p1"]
    assert (sent.digest, sent.time_ns) == (digest(b"\xff\x00"), int(at.timestamp() * 1000) * 10**6)
    for form, text in (("base64", "/wA="), ("hex", "ff00")):
        mapping = desk.mapping(MAPPING, ("[group]", f'[forms]\ntext = "{form}"\n\n[group]'))
        desk.out = desk.folder / form
        (run,) = desk.runs(desk.log([row("p1", "pub", "a", text=text)]), mapping=mapping)
        assert run.histories["p1"][0].digest == sent.digest


def test_csv_with_its_own_delimiter_without_a_header_and_with_line_ends_in_texts(
    desk: Desk,
) -> None:
    log = desk.folder / "log.csv"
    log.write_text('p1;pub;a;"one\ntwo"\n\np2;got;a;"one\ntwo"\np2;got;a;\n')
    mapping = desk.mapping(
        MAPPING + '\n[csv]\ndelimiter = ";"\nheader = ["who", "what", "id", "text"]\n'
    )
    (run,) = desk.runs(log, mapping=mapping)
    texts = [one.digest for one in run.rows]
    assert texts == [digest(b"one\ntwo")] * 2 + [digest(b"")]


def test_rows_of_no_interest_are_left_out(desk: Desk) -> None:
    rows = [row("p1", "noise"), row("p1", "pub", "b", topic="other"), *CALM]
    mapping = desk.mapping(MAPPING + '\n[ignore]\ntopic = ["other", "another"]\n')
    done = desk.ingest(desk.log(rows), mapping=mapping)
    assert (done.read, done.ignored, done.rows) == (7, 2, 5)
    assert done.kinds == {"broadcast": 1, "deliver": 2, "settle": 2}


def test_everything_else_is_ignored_if_the_mapping_says_so(desk: Desk) -> None:
    rows = [row("p1", "connecting"), {"level": "debug"}, *CALM]
    mapping = desk.mapping(MAPPING, ('"noise"', '"*"'))
    assert set(desk.verdicts(desk.log(rows), mapping=mapping).values()) == {"holds"}


def test_a_process_that_comes_back_begins_another_life(desk: Desk) -> None:
    rows = [row("p1", "died"), row("p1", "back"), row("p1", "pub", "a")]
    (run,) = desk.runs(desk.log(rows))
    assert [one.incarnation for one in run.histories["p1"]] == [0, 1, 1]


def test_the_lines_of_two_files_follow_each_other_in_one_process(desk: Desk) -> None:
    logs = [desk.log(CALM[:1], "z.jsonl"), desk.log(CALM[1:], "a.jsonl")]
    (run,) = desk.runs(*logs)
    assert [one.kind for one in run.histories["p1"]] == ["broadcast", "deliver", "settle"]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_mark_of_the_encoding_at_the_start_of_a_file_is_skipped(desk: Desk, ending: str) -> None:
    log = desk.log(CALM, f"log{ending}")
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes())
    assert set(desk.verdicts(log).values()) == {"holds"}


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_file_may_be_cut_into_pieces_at_any_byte(
    desk: Desk, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row("p1", "pub", f"m{n}", text="x" * n) for n in range(40)]
    log = desk.log(rows, f"log{ending}")
    (expected,) = desk.runs(log)
    for size in (1, 7, 64):
        monkeypatch.setattr(lines, "PIECE_BYTES", size)
        desk.out = desk.folder / f"in pieces of {size}" / "out"
        (run,) = desk.runs(log)
        assert run.histories == expected.histories
        places = pq.read_table(desk.out / "trace-1.parquet")["place"].to_pylist()
        assert places == list(range(1 + (ending == ".csv"), 41 + (ending == ".csv")))


def test_a_place_may_be_any_number_of_64_bits(desk: Desk) -> None:
    places = [2**40 + 7, 2**62, 5]
    rows = [row("p1", "pub", f"m{n}", at=n, where=place) for n, place in enumerate(places, start=1)]
    frame = desk.spark.createDataFrame(pa.Table.from_pylist(rows))
    mapping = desk.mapping(MAPPING, ("@line", "at"), ("[kinds]", 'place = "where"\n\n[kinds]'))
    ingest(desk.spark, frame, mapping, desk.out)
    assert pq.read_table(desk.out / "trace-1.parquet")["place"].to_pylist() == places
    bad = frame.where("where > 5").drop("who").selectExpr("*", "'' as who")
    with pytest.raises(DataError, match=rf"the DataFrame:{2**40 + 7}: no 'who', which should"):
        ingest(desk.spark, bad, mapping, desk.folder / "bad")


# --- what the log does not say


def test_a_log_that_says_nothing_of_the_end_leaves_what_depends_on_it_unknown(desk: Desk) -> None:
    verdicts = desk.verdicts(desk.log(CALM[:3]))
    assert verdicts == {
        "no duplication": "holds",
        "no creation": "holds",
        "validity": "p1 neither settled nor has a known fate",
        "uniform agreement": "p1 neither settled nor has a known fate",
        "causal order": "holds",
    }


def test_all_settled_says_nothing_of_a_member_without_any_row(desk: Desk) -> None:
    mapping = foreign.with_end(desk.mapping(), ["all"], {})
    verdicts = desk.verdicts(desk.log(CALM[:2]), mapping=mapping)
    assert set(verdicts.values()) == {"p2 left no history"}


def test_a_member_that_settled_by_name_and_has_no_row_has_delivered_nothing(desk: Desk) -> None:
    mapping = foreign.with_end(desk.mapping(), ["p1", "p2"], {})
    verdicts = desk.verdicts(desk.log(CALM[:2]), mapping=mapping)
    assert verdicts["uniform agreement"] == "violated"
    assert verdicts["no duplication"] == "holds"


def test_all_settled_leaves_out_who_crashed_or_has_another_fate(desk: Desk) -> None:
    members = ('["p1", "p2"]', '["p1", "p2", "p3"]')
    mapping = foreign.with_end(desk.mapping(MAPPING, members), ["all"], {"p3": "crashed"})
    rows = [*CALM[:3], row("p2", "died"), row("p3", "got", "a")]
    (run,) = desk.runs(desk.log(rows), mapping=mapping)
    assert {name: rows[-1].kind for name, rows in run.histories.items()} == {
        "p1": "settle",
        "p2": "crash",
        "p3": "deliver",
    }
    assert run.manifest.fates == {"p3": "crashed"}


def test_a_producer_that_left_is_no_member_and_owes_itself_nothing(desk: Desk) -> None:
    rows = [row("feed", "pub", "a"), row("p1", "got", "a"), row("p2", "got", "a")]
    mapping = foreign.with_end(desk.mapping(), ["all"], {"feed": "left"})
    (run,) = desk.runs(desk.log(rows), mapping=mapping)
    assert run.manifest.members == ("p1", "p2")
    assert set(spoken(run).values()) == {"holds"}


def test_one_that_reports_it_itself_does_not_settle_twice(desk: Desk) -> None:
    (run,) = desk.runs(desk.log(CALM), mapping=foreign.with_end(desk.mapping(), ["all"], {}))
    assert [one.kind for one in run.rows].count("settle") == 2


def test_what_nobody_broadcast_is_invented_only_if_everybody_has_reported_all(desk: Desk) -> None:
    invented = [row("p2", "got", "ghost"), *CALM]
    assert desk.verdicts(desk.log(invented))["no creation"] == "violated"
    desk.out = desk.folder / "cut"
    verdicts = desk.verdicts(desk.log(invented[:-1]))
    assert verdicts["no creation"] == "p2's history does not reach p2#1"
    assert verdicts["causal order"] == "p2's history does not reach p2#1"


def test_a_text_that_is_not_in_the_log_is_not_compared_and_that_must_be_stated(desk: Desk) -> None:
    altered = [CALM[0], CALM[1], row("p2", "got", "a", text="ho"), *CALM[3:]]
    assert desk.verdicts(desk.log(altered))["no creation"] == "violated"
    desk.out = desk.folder / "by id"
    mapping = desk.mapping(MAPPING, ('text = "text"', 'text = "@id"'))
    assert desk.verdicts(desk.log(altered), mapping=mapping)["no creation"] == "holds"
    with pytest.raises(DataError, match=r"mapping.toml:1: columns: missing: text"):
        desk.mapping(MAPPING, ('text = "text"\n', ""))


# --- what is refused


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('kind = "what"', "kind = ", r":3: Invalid value"),
        ('kind = "what"', 'kinds = "what"', r":3: columns.kinds: there is no such setting"),
        ('kind = "what"', "kind = 3", r":3: columns.kind: expected str, got int"),
        ('process = "who"\n', "", r":1: columns: missing: process"),
        ('"who"', '"@line"', r":2: columns.process: @line has no meaning here, only @file"),
        ('"who"', '""', r":2: columns.process: the name of a column is missing"),
        ('"@line"', '"@file"', r":4: columns.order: @file has no meaning here, only @line"),
        ('id = "id"\n', "", r":1: columns: what names a message\? give id, or origin and seq"),
        ('id = "id"', 'seq = "n"', r":5: columns.seq: a number names a message only beside"),
        ("[kinds]", 'origin = "o"\nseq = "n"\n[kinds]', r":9: columns.seq: id names a message"),
        ("[kinds]", 'time = "t"\n[kinds]', r":8: columns.time: in which unit\?"),
        ("[group]", '[forms]\ntime = "s"\n[group]', r":17: forms.time: the unit of which column"),
        ("[group]", '[forms]\norder = "m"\n[group]', r":17: forms.order: there is no 'm'"),
        ('"died"', '"pub"', r":11: kinds.crash: 'pub' means broadcast already"),
        ('"died"', '"*"', r":11: kinds.crash: '\*' can only be ignored"),
        ('"again"]', "1.5]", r":10: kinds.deliver: expected"),
        ('["p1", "p2"]', '"all"', r':17: group.members: give a list of names, or "from the log"'),
        ('["p1", "p2"]', '["p1", "p1"]', r":17: group.members: a group has at least one member"),
        ("[group]", '[csv]\ndelimiter = ";;"\n[group]', r":17: csv.delimiter: one character"),
        ("[group]", '[end]\nfates = {p1 = "dead"}\n[group]', r":17: end.fates.*: there is no 'd"),
        (
            "[group]",
            '[end]\nsettled = ["p1"]\nfates.p1 = "left"\n[group]',
            r":17: end.settled: p1 cannot have settled: its fate is told otherwise",
        ),
        ("[columns]", 'run = "r"\n[columns]\nrun = "run"', r":1: run: columns.run tells the run"),
    ],
)
def test_every_mistake_in_a_mapping_is_named_with_its_line_and_field(
    desk: Desk, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(DataError, match=r"mapping\.toml" + complaint):
        desk.mapping(MAPPING, (old, new))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"log.jsonl:6: Input data was truncated"),
        ("[1]", r"log.jsonl:6: Expected `object`, got `array`"),
        ('{"what": "pub"}', r"log.jsonl:6: no 'who', which should tell the process"),
        ('{"who": "p1"}', r"log.jsonl:6: no 'what', which should tell the kind of row"),
        (
            '{"who": "p1", "what": "?"}',
            r"log.jsonl:6: what does '\?' mean\? say so under \[kinds\]",
        ),
        ('{"who": "p1", "what": "pub", "text": ""}', r"log.jsonl:6: no 'id', which should tell"),
        ('{"who": "p1", "what": "pub", "id": "z"}', r"log.jsonl:6: no 'text', which should tell"),
        ('{"who": "p1", "what": "got", "id": "\\ud800", "text": ""}', r"log.jsonl:6: .*surrogate"),
        (
            '{"who": "p2", "what": "pub", "id": "a", "text": "x"}',
            r"log.jsonl:6: the id of a message that .*log.jsonl:1 has broadcast already",
        ),
    ],
)
def test_bad_rows_are_refused_with_file_and_line(desk: Desk, line: str, complaint: str) -> None:
    log = desk.log(CALM)
    log.write_text(log.read_text() + line + "\n")
    with pytest.raises(DataError, match=complaint):
        desk.ingest(log)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["log.jsonl", "mapping.toml"]


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        ("x", r"log.csv:3: 'x' is not a whole number"),
        ("1.5", r"log.csv:3: '1.5' is not a whole number"),
        (str(2**63), r"log.csv:3: '9223372036854775808' is out of range"),
        ("", r"log.csv:3: no 'at', which should tell the order"),
    ],
)
def test_bad_numbers_are_refused_with_file_and_line(desk: Desk, at: str, complaint: str) -> None:
    rows = [row("p1", "pub", "a", at=1), row("p1", "got", "a", at=at)]
    with pytest.raises(DataError, match=complaint):
        desk.runs(desk.log(rows, "log.csv"), mapping=desk.mapping(MAPPING, ("@line", "at")))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("who,what,id,text\np1,pub,a\n", r"log.csv:2: 3 columns where 4 belong"),
        ('who,what,id,text\np1,pub,"a\nb"c,d\n', r"log.csv:2: '.' expected after"),
        ("who,what,id\np1,pub,a\n", r"log.csv: no column 'text'; there are: who, what, id"),
        ("", r"log.csv: no column 'who'"),
        (
            "who,what,id,text\n" + "p1,pub,a,hi\n" * 2000 + "p1,pub,\xff,\n",
            r"log.csv:2002: not UTF-8",
        ),
        ("who,what,id,text\n", r"log.csv: no row to judge \(0 ignored\)"),
        ("who,what,id,text\np1,noise,,\n", r"log.csv: no row to judge \(1 ignored\)"),
    ],
)
def test_bad_csv_is_refused(desk: Desk, text: str, complaint: str) -> None:
    log = desk.folder / "log.csv"
    log.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=complaint):
        desk.runs(log)


def test_bad_times_are_refused_whatever_their_size(desk: Desk) -> None:
    changes = [("@line", "at"), ("[group]", '[forms]\norder = "s"\n\n[group]')]
    for at in ("1e999999999", "1e11", "NaN", "Infinity", "noon"):
        log = desk.log([row("p1", "pub", "a", at=at)], "log.csv")
        with pytest.raises(DataError, match=r"log.csv:2: '\w+' is (not a time|out of range)"):
            desk.runs(log, mapping=desk.mapping(MAPPING, *changes))


def test_more_processes_than_a_trace_can_name_are_refused(desk: Desk) -> None:
    log = desk.log([row(f"c{number}", "pub", f"{number}") for number in range(2**15)])
    with pytest.raises(DataError, match="more than 32,767 names"):
        desk.runs(log)


def test_bad_parquet_is_refused(desk: Desk) -> None:
    log = desk.log(CALM, "log.parquet")
    log.write_bytes(log.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"log.parquet: not a Parquet file, or a damaged one"):
        desk.runs(log)
    broken = pa.array([b"p\xff"]).view(pa.string())
    pq.write_table(pa.table(dict.fromkeys(("who", "what", "id", "text"), broken)), log)
    with pytest.raises(DataError, match=r"log.parquet: row 1: a text in it is not UTF-8"):
        desk.runs(log)
    log = desk.log([row("p1", "pub", "a"), row("", "pub", "b")], "log.parquet")
    with pytest.raises(DataError, match=r"log.parquet: row 2: no 'who', which should tell"):
        desk.runs(log)


def test_nobody_acts_after_a_crash_without_coming_back(desk: Desk) -> None:
    rows = [row("p1", "pub", "a"), row("p1", "died"), row("p1", "got", "a")]
    with pytest.raises(DataError, match=r"log.jsonl:3: p1 acts \(deliver\) after its crash"):
        desk.runs(desk.log(rows))
    mapping = foreign.with_end(desk.mapping(), ["p1"], {})
    with pytest.raises(DataError, match=r"end.settled: p1 is listed, but .* ends with a crash"):
        desk.runs(desk.log(rows[:2]), mapping=mapping)


def test_an_end_that_the_mapping_gives_in_vain_hides_no_fault(desk: Desk) -> None:
    mapping = foreign.with_end(desk.mapping(), ["all"], {})
    rows = [row("p2", "died"), row("p1", "died"), row("p1", "pub", "a")]
    with pytest.raises(DataError, match=r"log.jsonl:3: p1 acts \(broadcast\) after its crash"):
        desk.runs(desk.log(rows), mapping=mapping)


def test_rows_of_the_same_order_follow_their_lines_but_not_their_files(desk: Desk) -> None:
    mapping = desk.mapping(MAPPING, ("@line", "at"))
    same = [row("p1", "pub", "a", at=4), row("p1", "got", "a", at=4)]
    (run,) = desk.runs(desk.log(same), mapping=mapping)
    assert [one.kind for one in run.rows] == ["broadcast", "deliver"]
    desk.out = desk.folder / "two"
    logs = [desk.log(same[:1], "a.jsonl"), desk.log(same[1:], "b.jsonl")]
    with pytest.raises(
        DataError, match=r"b.jsonl:1: p1 has a row of the same order in .*a.jsonl:1"
    ):
        desk.runs(*logs, mapping=mapping)


def test_a_broadcast_is_its_own_process_s(desk: Desk) -> None:
    mapping = desk.mapping(MAPPING, ('id = "id"', 'id = "id"\norigin = "by"'))
    rows = [row("p1", "pub", "a"), row("p2", "got", "a", by="p1"), row("p1", "pub", "b", by="p2")]
    with pytest.raises(DataError, match=r"log.jsonl:3: p1 cannot broadcast a message of p2"):
        desk.runs(desk.log(rows), mapping=mapping)
    (run,) = desk.runs(desk.log(rows[:2]), mapping=mapping)
    assert [str(one.message) for one in run.rows] == ["p1#1", "p1#1"]


def test_a_name_that_is_nowhere_in_the_log_is_misspelt(desk: Desk) -> None:
    for mapping in (
        foreign.with_end(desk.mapping(), ["p1", "p9"], {}),
        foreign.with_end(desk.mapping(), [], {"p9": "crashed"}),
    ):
        with pytest.raises(DataError, match="end: p9 is no member, and the log has no row of it"):
            desk.runs(desk.log(CALM), mapping=mapping)


def test_an_existing_trace_is_not_overwritten_and_files_must_be_there_once(desk: Desk) -> None:
    log = desk.log(CALM)
    desk.out.mkdir()
    desk.runs(log)
    with pytest.raises(UsageError, match="not an empty folder"):
        desk.runs(log)
    desk.out = desk.folder / "new"
    with pytest.raises(UsageError, match=r"log.jsonl is given twice"):
        desk.runs(log, log)
    with pytest.raises(UsageError, match=r"none.jsonl: no such file"):
        desk.runs(log, desk.folder / "none.jsonl")
    with pytest.raises(UsageError, match=r"mapping.toml: not a .jsonl, .csv or .parquet file"):
        desk.runs(desk.folder / "mapping.toml")


# --- the command


def test_the_command_says_what_it_made_and_what_nobody_reported(tidings, desk: Desk) -> None:
    desk.log(CALM[:3])
    desk.mapping()
    answer = tidings("ingest", "log.jsonl", "--mapping", "mapping.toml", "--out", "runs/mine")
    assert answer.status == 0
    assert without_progress(answer.err) == ""
    assert answer.out.splitlines() == [
        "read   1 file, 3 rows, 0 of them ignored",
        "trace  runs/mine: 3 rows of 1 run, 1 broadcast, 2 deliveries",
        "group  p1, p2",
        "end    of p1 and p2 in run mine nothing is said: verdicts will be unknown "
        "(--settled and --fate say it)",
        "next   tidings audit runs/mine",
    ]
    words = ("--settled", "p1", "--fate", "p2=crashed", "--json")
    answer = tidings("ingest", "log.jsonl", "--mapping", "mapping.toml", "--out", "two", *words)
    shown = json.loads(answer.out)
    assert shown["untold"] == {"two": []}
    assert shown["manifests"][0]["fates"] == {"p2": "crashed"}
    assert shown["rows"] == 4


def test_the_command_ends_with_one_line_and_the_right_status(tidings, desk: Desk) -> None:
    log = desk.log(CALM)
    desk.mapping()
    words = ("ingest", "log.jsonl", "--mapping", "mapping.toml", "--out", "out")
    for wrong in (["--fate", "p1=dead"], ["--fate", "p1=left", "--settled", "p1"]):
        answer = tidings(*words, *wrong)
        assert (answer.status, answer.err.count("\n")) == (64, 1)
    log.write_text("{}\n")
    answer = tidings(*words)
    assert (answer.status, without_progress(answer.err)) == (
        65,
        "tidings: log.jsonl:1: no 'what', which should tell the kind of row\n",
    )
    answer = tidings("ingest", "log.jsonl", "--mapping", "none.toml", "--out", "out")
    assert (answer.status, answer.err) == (64, "tidings: none.toml: No such file or directory\n")
