"""Every judge answers to the specification: the same verdicts, counts and witnesses.

The queries are judged by what they find, the judges by arrays also by the order in which they tell
it. They are called without Spark where a thousand small jobs would only cost time; that Spark's
workers do the same is for the last tests.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from changing_traces import changing_run, changing_runs
from pipeline_ways import Verdicts, by_arrays, specified_by
from slabs import worse_run
from tidings import pipeline
from tidings.core import EnvironmentMissing
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.spec import BELOW_THE_CUT, Extra, Guarantee, Value, Verdict, ViewRule, Violation
from tidings.trace import HistoryCut, Manifest, Row, digest, parquet
from tidings.trace.segments import Block, Mark, Messages, Owner, whole_segment
from traces import Draft, random_cut_runs, random_runs, write_drafts, write_trace

RUNS = 2000
CUT = 700
"""Runs of which the beginnings of histories were cut off."""
CHANGING = 700
"""Runs of groups that change by agreement."""
QUERIED, QUERIED_CUT, QUERIED_CHANGING = 500, 250, 200
"""The queries take a while; ``make soak`` asks them about all runs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    write_drafts(folder, [*random_runs(RUNS), *random_cut_runs(CUT), *changing_runs(CHANGING)])
    return folder


@pytest.fixture(scope="module")
def specified(folder: Path) -> Verdicts:
    return specified_by(folder)


def _cut(specified: Verdicts, most: int) -> Verdicts:
    return {
        run: tuple(
            msgspec.structs.replace(verdict, violations=verdict.violations[:most])
            for verdict in verdicts
        )
        for run, verdicts in specified.items()
    }


@pytest.fixture(scope="module")
def queried(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    delivered_again: Path,
    killed: Path,
) -> Verdicts:
    """What the queries say about all runs for which tests ask them: each audit takes seconds."""
    trace = tmp_path_factory.mktemp("queried")
    drafts = [*random_runs(QUERIED), *random_cut_runs(QUERIED_CUT)]
    write_drafts(trace, [*drafts, *changing_runs(QUERIED_CHANGING)])
    for other in (delivered_again, killed):
        for file in other.iterdir():
            copyfile(file, trace / f"{other.name}-{file.name}")
    return dict(pipeline.audit(spark, trace, examples=None, checker="sql").verdicts)


def test_the_queries_and_the_specification_agree(
    queried: Verdicts, specified: Verdicts, delivered_again: Path, killed: Path
) -> None:
    expected_of = specified | specified_by(delivered_again) | specified_by(killed)
    assert len(queried) == QUERIED + QUERIED_CUT + QUERIED_CHANGING + 2
    for run, verdicts in queried.items():
        for found, expected in zip(verdicts, expected_of[run], strict=True):
            assert _without_violations(found) == _without_violations(expected), run
            assert Counter(found.violations) == Counter(expected.violations), run


def test_all_runs_at_once_and_the_specification_agree(
    folder: Path, specified: Verdicts, tmp_path: Path
) -> None:
    assert by_arrays(folder, tmp_path, JudgingLimits(), "at once") == specified


def test_the_first_few_violations_are_the_first_of_the_specification(
    folder: Path, specified: Verdicts, tmp_path: Path
) -> None:
    assert by_arrays(folder, tmp_path, JudgingLimits(), "at once", most=2) == _cut(specified, 2)


def _whole_runs(drafts: list[Draft]) -> list[Draft]:
    """Each run in one piece, in the file of tables."""
    for draft in drafts:
        draft.split = 0
    return [draft for draft in drafts if not draft.holes]


@pytest.mark.parametrize(("group", "batch"), [(7, 30), (100, 60), (100, 350)])
def test_batches_are_cut_between_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, batch: int
) -> None:
    """Runs across groups of rows, groups of many runs, runs longer than a batch, and so on."""
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", group)
    seed = group + batch
    drafts = [*random_runs(80, seed), *random_cut_runs(40, seed), *changing_runs(40, seed)]
    write_drafts(tmp_path / "trace", _whole_runs(drafts))
    specified = specified_by(tmp_path / "trace")
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=batch, batch_share=10)
    assert by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "batches") == specified


def test_a_run_found_in_two_places_is_judged_by_none_of_them(folder: Path, tmp_path: Path) -> None:
    assert by_arrays(folder, tmp_path, JudgingLimits(batch_rows=2000), "batches") is None


@pytest.mark.parametrize("offset", [2**53, 1_700_000_000_000_000_000, 2**63 - 100])
@pytest.mark.parametrize(
    ("way", "limits"),
    [("at once", JudgingLimits()), ("pieces", JudgingLimits(batch_rows=1, few_long_runs=RUNS))],
)
def test_names_may_be_numbers_of_any_size(
    tmp_path: Path, offset: int, way: str, limits: JudgingLimits
) -> None:
    """Such as times in nanoseconds: neighbours among them are equal in floating-point."""
    drafts = random_runs(100, seed=offset % 1000)
    for draft in drafts:
        for event in (event for events in draft.events.values() for event in events):
            if event.get("seq", 2**40) < 90:
                event["seq"] += offset
    write_drafts(tmp_path / "trace", drafts)
    (tmp_path / "spool").mkdir()
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, way)
    assert found == specified_by(tmp_path / "trace")


def test_long_runs_of_groups_that_change_are_judged_whole(tmp_path: Path) -> None:
    write_drafts(tmp_path / "trace", changing_runs(60, seed=7))
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=1, few_long_runs=RUNS)
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert found == specified_by(tmp_path / "trace")


def test_what_is_too_long_to_be_judged_whole_is_not_judged_wrongly(
    spark: SparkSession, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    write_drafts(trace, [changing_run("long", seed=4)])
    limits, stages = JudgingLimits(batch_rows=1, longest_rows=1), list[str]()
    with pytest.raises(EnvironmentMissing, match="the group of a long run changed by agreement; j"):
        pipeline.audit_here(trace, limits=limits)
    found = pipeline.audit(spark, trace, limits=limits, examples=None, progress=stages.append)
    assert any("by queries: the group of a long run changed" in stage for stage in stages)
    assert [one.value for one in found.verdicts["long"]] == [
        one.value for one in specified_by(trace)["long"]
    ]


def test_many_long_runs_are_judged_by_a_task_each(tmp_path: Path) -> None:
    write_drafts(tmp_path / "trace", random_runs(80, seed=3))
    (tmp_path / "spool").mkdir()
    limits = JudgingLimits(batch_rows=1, few_long_runs=40, most_slab_rows=0)
    found = by_arrays(tmp_path / "trace", tmp_path / "spool", limits, "pieces")
    assert found == specified_by(tmp_path / "trace")


WAYS: dict[str, Any] = {
    "at once": JudgingLimits(),
    "grouped": JudgingLimits(batch_rows=600),
    "pieces": JudgingLimits(batch_rows=20, least_tasks=2, slab_rows=15),
}


DRAFTS: dict[str, Callable[[], list[Draft]]] = {
    "at once": lambda: [*random_runs(200, seed=5), *changing_runs(50, seed=5)],
    "grouped": lambda: [*random_runs(200, seed=5), *changing_runs(50, seed=5)],
    # Each with an altered text, and an early delivery whose cause is in another slab.
    "pieces": lambda: [worse_run(f"worse-{seed}", seed) for seed in (44, 53)],
}


@pytest.mark.parametrize("way", WAYS)
def test_the_workers_of_spark_and_the_specification_agree(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_GROUP", 40)
    trace, folder, stages = tmp_path / "trace", tmp_path / "all.parquet", list[str]()
    write_drafts(trace, DRAFTS[way]())
    audited = pipeline.audit(
        spark, trace, examples=2, progress=stages.append, limits=WAYS[way], violations=folder
    )
    specified = specified_by(trace)
    assert audited.verdicts == _cut(specified, 2)
    assert Counter(map(str, pq.read_table(folder).to_pylist())) == Counter(
        str(_row(run, one)) for run, five in specified.items() for v in five for one in v.violations
    )
    words = {"at once": "all at once", "grouped": "lie scattered", "pieces": "something is wrong"}
    assert words[way] in stages[-1]


def _row(run: str, violation: Violation) -> dict[str, Any]:
    """As it stands in the table of violations."""
    cause, root = violation.cause, violation.root
    return {
        "run": run,
        "guarantee": str(violation.guarantee),
        "process": violation.process,
        "origin": violation.message.origin,
        "seq": violation.message.seq,
        "cause_origin": None if cause is None else cause.origin,
        "cause_seq": None if cause is None else cause.seq,
        "root_origin": None if root is None else root.origin,
        "root_seq": None if root is None else root.seq,
        "witness": [{"process": at.process, "index": at.index} for at in violation.witness],
        "note": violation.note or None,
    }


def test_the_random_runs_are_not_vacuous(specified: Verdicts) -> None:
    values = Counter(
        (verdict.guarantee, verdict.value) for v in specified.values() for verdict in v
    )
    for guarantee in Guarantee:
        assert values[guarantee, Value.VIOLATED] >= RUNS * 0.10, (guarantee, values)
        assert values[guarantee, Value.UNKNOWN] >= RUNS * 0.05, (guarantee, values)
        assert values[guarantee, Value.HOLDS] >= RUNS * 0.20, (guarantee, values)
    assert sum(verdict.not_owed > 0 for v in specified.values() for verdict in v) > 20
    reasons = Counter(verdict.reason for v in specified.values() for verdict in v)
    for words in ("is missing", "left no history", "does not reach", "neither settled", "owed"):
        assert any(words in reason for reason in reasons), words


def test_the_causes_are_not_vacuous(specified: Verdicts) -> None:
    violations = [one for v in specified.values() for verdict in v for one in verdict.violations]
    led = Counter(one.guarantee for one in violations if one.root not in (one.message, one.cause))
    assert led[Guarantee.VALIDITY] >= 50, led
    assert led[Guarantee.UNIFORM_AGREEMENT] >= 50, led
    assert led[Guarantee.CAUSAL_ORDER] >= 50, led
    elsewhere = [
        one
        for one in violations
        if one.guarantee is Guarantee.UNIFORM_AGREEMENT and one.root.origin != one.message.origin
    ]
    assert len(elsewhere) >= 20


def test_the_cut_runs_are_not_vacuous(specified: Verdicts) -> None:
    cut = [v for run, v in specified.items() if run.startswith("cut-")]
    values = Counter((verdict.guarantee, verdict.value) for v in cut for verdict in v)
    for guarantee in Guarantee:
        assert values[guarantee, Value.VIOLATED] >= CUT * 0.05, (guarantee, values)
        assert values[guarantee, Value.HOLDS] >= CUT * 0.20, (guarantee, values)
    below = Counter(
        violation.guarantee
        for v in cut
        for verdict in v
        for violation in verdict.violations
        for place in violation.witness
        if place.index == BELOW_THE_CUT
    )
    with_a_cut = (
        Guarantee.NO_DUPLICATION,
        Guarantee.NO_CREATION,
        Guarantee.UNIFORM_AGREEMENT,
    )
    for guarantee in with_a_cut:
        assert below[guarantee] >= 5, below
    assert sum("cannot be compared" in v[1].note for v in cut) >= CUT * 0.1


def test_the_changing_runs_are_not_vacuous(specified: Verdicts) -> None:
    changing = [v for run, v in specified.items() if run.startswith("changing-")]
    views = [verdict for v in changing for verdict in v if verdict.guarantee is Extra.VIEWS]
    values = Counter(verdict.value for verdict in views)
    assert values[Value.VIOLATED] >= CHANGING * 0.2, values
    assert values[Value.HOLDS] >= CHANGING * 0.2, values
    assert values[Value.UNKNOWN] >= 5, values
    rules = Counter(one.note for verdict in views for one in verdict.violations)
    for rule in ViewRule:
        assert rules[rule.value] >= 3, rules
    for guarantee in (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT, Guarantee.CAUSAL_ORDER):
        of_it = [one for v in changing for one in v if one.guarantee is guarantee]
        assert sum(one.value is Value.VIOLATED for one in of_it) >= 5, guarantee
    owed = [verdict for v in changing for verdict in v if verdict.not_owed]
    assert sum(verdict.judged > 0 for verdict in owed) >= 10


def test_some_changing_runs_go_on_under_the_name_of_one_that_left() -> None:
    """And end with a row of each kind that would tell, of any other, what became of it."""
    ends = Counter(
        events[-1]["kind"]
        for draft in changing_runs(QUERIED_CHANGING)
        for events in draft.events.values()
        if [event["kind"] for event in events if "value" in event][-1:] == ["leave"]
    )
    assert all(ends[kind] for kind in ("recover", "crash", "settle")), ends


def _without_violations(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(verdict, violations=())


WITH_FEW_ROWS = {"at once": JudgingLimits(), "pieces": JudgingLimits(batch_rows=1)}


@pytest.fixture(scope="module")
def delivered_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p1 delivered p2#3 below its cut and does so again; p2's history has not come to p2#3."""
    manifest = Manifest(
        schema=2,
        run="again",
        names=("p1", "p2"),
        views=(("p1", "p2"),),
        cuts={"p1": HistoryCut(index=5, delivered={"p2": 3})},
    )
    again = {"origin": "p2", "seq": 3, "digest": digest(b"hello")}
    rows = [
        Row(run="again", process="p1", index=5, kind="deliver", time_ns=0, **again),
        Row(run="again", process="p1", index=6, kind="settle", time_ns=0),
        Row(run="again", process="p2", index=0, kind="state", time_ns=0, name="ids", value=1),
    ]
    return write_trace(tmp_path_factory.mktemp("again"), [manifest], table=rows)


UNREACHED = {
    Guarantee.NO_DUPLICATION: (Value.VIOLATED, ""),
    Guarantee.NO_CREATION: (Value.UNKNOWN, "p2's history does not reach p2#3"),
    Guarantee.CAUSAL_ORDER: (Value.UNKNOWN, "p2's history does not reach p2#3"),
}


def _of_safety(verdicts: Verdicts | None) -> dict[Guarantee, tuple[Value, str]]:
    assert verdicts is not None
    return {v.guarantee: (v.value, v.reason) for v in verdicts["again"] if v.guarantee in UNREACHED}


def test_a_delivery_below_the_cut_does_not_tell_that_it_was_broadcast(
    delivered_again: Path,
) -> None:
    """Delivered again, it is compared with a broadcast that nobody has seen."""
    assert _of_safety(specified_by(delivered_again)) == UNREACHED


@pytest.mark.parametrize("way", WITH_FEW_ROWS)
def test_a_delivery_below_the_cut_tells_the_arrays_no_more(
    delivered_again: Path, tmp_path: Path, way: str
) -> None:
    (tmp_path / "spool").mkdir()
    found = by_arrays(delivered_again, tmp_path / "spool", WITH_FEW_ROWS[way], way)
    assert _of_safety(found) == UNREACHED
    assert found == specified_by(delivered_again)


def test_a_delivery_below_the_cut_tells_the_queries_no_more(queried: Verdicts) -> None:
    assert _of_safety(queried) == UNREACHED


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of two members; each was once killed before it had written its first row."""
    folder = tmp_path_factory.mktemp("killed")
    manifest = Manifest(schema=2, run="killed", names=("p1", "p2"), views=(("p1", "p2"),))
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(manifest))
    text = bytes.fromhex(digest(b"hello"))
    broadcast = Messages("broadcast", "p1", 1, 1, text, view=0)
    deliver = Messages("deliver", "p1", 1, 1, text)
    for member, items in {"p1": (broadcast, deliver), "p2": (deliver,)}.items():
        owner, rows = Owner("killed", member), Block(0, 7, 0, (*items, Mark("settle")))
        (folder / f"{member}-1.segment").write_bytes(whole_segment(owner, rows))
        (folder / f"{member}-2.segment").write_bytes(whole_segment(owner))
    return folder


@pytest.mark.parametrize("way", WITH_FEW_ROWS)
def test_a_segment_without_rows_is_no_damage(killed: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "spool").mkdir()
    found = by_arrays(killed, tmp_path / "spool", WITH_FEW_ROWS[way], way)
    assert found == specified_by(killed)
    assert found is not None
    assert {verdict.value for verdict in found["killed"]} == {Value.HOLDS}


def test_a_segment_without_rows_is_no_damage_on_spark(spark: SparkSession, killed: Path) -> None:
    assert pipeline.audit(spark, killed).verdicts == specified_by(killed)


def test_a_segment_without_rows_is_no_damage_to_the_queries(queried: Verdicts) -> None:
    assert {verdict.value for verdict in queried["killed"]} == {Value.HOLDS}
