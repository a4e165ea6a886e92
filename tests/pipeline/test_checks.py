"""Each rule on a table small enough to check by eye. Three processes: 0, 1 and 2."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from tidings.pipeline.queries.checks import (
    CHECKS,
    causal_order,
    no_creation,
    no_duplication,
    uniform_agreement,
    validity,
)
from tidings.pipeline.queries.checks.schema import VIOLATIONS
from tidings.pipeline.queries.evidence import BELOW, with_messages, with_pasts

EVENTS = (
    "run int, process smallint, index bigint, kind string, origin smallint, seq bigint, "
    "given boolean, sent struct<index: bigint, view: bigint>, same_text boolean, "
    "delivered_at array<bigint>, "
    "settled boolean, readers array<smallint>, correct boolean, ended boolean, hidden boolean, "
    "members array<smallint>, survivors array<smallint>, owed boolean"
)
USUAL: dict[str, Any] = {
    "run": 0,
    "given": False,
    "sent": (0, 0),
    "same_text": True,
    "delivered_at": [1, 0, 0],
    "settled": True,
    "readers": [0, 1, 2],
    "correct": True,
    "ended": True,
    "hidden": False,
    "members": [0, 1, 2],
    "survivors": [0, 1, 2],
    "owed": True,
}


@pytest.fixture
def table(spark: SparkSession) -> Any:
    def events(*rows: dict[str, Any]) -> DataFrame:
        columns = [name.split()[0] for name in EVENTS.split(", ") if not name.startswith("view")]
        filled = [tuple((USUAL | row)[column] for column in columns) for row in rows]
        return with_pasts(spark.createDataFrame(filled, EVENTS), width=3)

    return events


def _broadcast(process: int, index: int, seq: int, **more: Any) -> dict[str, Any]:
    about = {"process": process, "index": index, "kind": "broadcast", "origin": process}
    return about | {"seq": seq, "sent": (index, 0)} | more


def _deliver(process: int, index: int, origin: int, seq: int, **more: Any) -> dict[str, Any]:
    about = {"process": process, "index": index, "kind": "deliver", "origin": origin}
    return about | {"seq": seq} | more


def _assert_violations(found: DataFrame, *expected: tuple[Any, ...]) -> None:
    """Nothing is to be noted of any."""
    rows = [(*row, None) for row in expected]
    assertDataFrameEqual(found, found.sparkSession.createDataFrame(rows, VIOLATIONS))


def test_what_became_of_a_message_is_known_at_each_of_its_events(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (0, 0, 4, "broadcast", 0, 7, 111, 1),
            (0, 0, 9, "broadcast", 0, 7, 222, 0),
            (0, 1, 3, "deliver", 0, 7, 111, None),
            (0, 1, 5, "deliver", 0, 7, 333, None),
            (0, 1, 6, "settle", None, None, None, None),
            (1, 1, 0, "deliver", 0, 7, 111, None),
        ],
        "run int, process smallint, index bigint, kind string, origin smallint, seq bigint, "
        "digest bigint, view bigint",
    )
    known = with_messages(rows, width=2, cuts=None).select(
        "run", "process", "index", "sent", "same_text", "delivered_at"
    )
    expected = [
        (0, 0, 4, (4, 1), True, [None, 3]),
        (0, 0, 9, (4, 1), True, [None, 3]),
        (0, 1, 3, (4, 1), True, [None, 3]),
        (0, 1, 5, (4, 1), False, [None, 3]),
        (1, 1, 0, None, False, [None, 0]),
    ]
    assertDataFrameEqual(known, spark.createDataFrame(expected, known.schema))


def test_what_was_cut_off_is_known_at_each_event(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [
            (0, 0, 9, "broadcast", 0, 7, 222, 0),
            (0, 0, 10, "broadcast", 0, 8, 222, 0),
            (0, 1, 3, "deliver", 0, 8, 222, None),
            (0, 1, 5, "deliver", 0, 6, 333, None),
        ],
        "run int, process smallint, index bigint, kind string, origin smallint, seq bigint, "
        "digest bigint, view bigint",
    )
    cuts = spark.createDataFrame(
        [(0, 0, 7, [0, 6])], "run int, origin smallint, broadcast bigint, had array<bigint>"
    )
    known = with_messages(rows, width=2, cuts=cuts).select(
        "process", "index", "given", "sent", "delivered_at"
    )
    expected = [
        (0, 9, True, None, [None, None]),
        (0, 10, False, (10, 0), [None, 3]),
        (1, 3, False, (10, 0), [None, 3]),
        (1, 5, True, None, [None, BELOW]),
    ]
    assertDataFrameEqual(known, spark.createDataFrame(expected, known.schema))


def test_no_duplication_shows_the_first_delivery_and_the_repeated_one(table: Any) -> None:
    events = table(
        _broadcast(0, 0, seq=1),
        _deliver(0, 1, 0, seq=1),
        _deliver(1, 0, 0, seq=1),
        _deliver(1, 4, 0, seq=1),
    )
    _assert_violations(
        no_duplication.violations(events),
        (0, "no duplication", 1, 0, 1, None, None, [(1, 0), (1, 4)]),
    )


def test_no_creation_knows_inventions_other_texts_and_names_used_twice(table: Any) -> None:
    events = table(
        _deliver(1, 0, 0, seq=2**62, sent=None),
        _deliver(1, 1, 0, seq=1, same_text=False),
        _broadcast(0, 5, seq=1, sent=(0, 0)),
        _deliver(2, 0, 0, seq=1),
    )
    _assert_violations(
        no_creation.violations(events),
        (0, "no creation", 1, 0, 2**62, None, None, [(1, 0)]),
        (0, "no creation", 1, 0, 1, None, None, [(1, 1), (0, 0)]),
        (0, "no creation", 0, 0, 1, None, None, [(0, 0), (0, 5)]),
    )


def test_no_creation_accuses_a_stranger_but_not_where_evidence_is_missing(table: Any) -> None:
    events = table(
        _deliver(1, 0, 0, seq=8, sent=None, ended=False),
        _deliver(1, 1, 0, seq=9, sent=None, hidden=True),
        _deliver(1, 2, 2, seq=1, sent=None, ended=None, hidden=None),
    )
    _assert_violations(
        no_creation.violations(events),
        (0, "no creation", 1, 2, 1, None, None, [(1, 2)]),
    )


def test_validity_asks_only_correct_origins_for_what_is_owed(table: Any) -> None:
    lost = [None, 0, 0]
    events = table(
        _broadcast(0, 0, seq=1, delivered_at=lost),
        _broadcast(0, 1, seq=2, delivered_at=lost, owed=False),
        _broadcast(0, 2, seq=3, delivered_at=lost, correct=False),
        _broadcast(0, 3, seq=4, delivered_at=lost, settled=False),
        _broadcast(0, 4, seq=1, delivered_at=lost, sent=(0, 0)),
    )
    _assert_violations(
        validity.violations(events),
        (0, "validity", 0, 0, 1, None, None, [(0, 0)]),
    )


def test_uniform_agreement_binds_the_survivors_to_what_even_the_crashed_delivered(
    table: Any,
) -> None:
    events = table(
        _broadcast(0, 0, seq=1, delivered_at=[None, None, 6], survivors=[0, 1]),
        _broadcast(0, 1, seq=2, delivered_at=[None, None, None]),
        _broadcast(0, 2, seq=3, delivered_at=[None, 3, 7], owed=False),
    )
    _assert_violations(
        uniform_agreement.violations(events),
        (0, "uniform agreement", 0, 0, 1, None, None, [(0, 0), (2, 6)]),
        (0, "uniform agreement", 1, 0, 1, None, None, [(0, 0), (2, 6)]),
    )


def test_causal_order_names_the_first_missing_cause(table: Any) -> None:
    question, answer, unheard = (
        {"delivered_at": [1, 0, 5]},
        {"delivered_at": [2, 2, 4]},
        {"delivered_at": [3, None, None]},
    )
    events = table(
        _broadcast(0, 0, seq=1, **question),
        _deliver(1, 0, 0, seq=1, **question),
        _broadcast(1, 1, seq=1, sent=(1, 0), **answer),
        _broadcast(2, 0, seq=1, members=[0], **unheard),
    )
    # Process 2 delivered the answer at 4 and the question at 5.
    _assert_violations(
        causal_order.violations(events),
        (0, "causal order", 2, 1, 1, 0, 1, [(1, 0), (1, 1), (2, 4)]),
    )


def test_causal_order_asks_nothing_for_messages_addressed_to_others(table: Any) -> None:
    private, public = {"delivered_at": [1, 0, None]}, {"delivered_at": [2, 2, 0]}
    events = table(
        _deliver(1, 0, 0, seq=1, members=[0, 1], **private),
        _broadcast(1, 1, seq=1, **public),
    )
    _assert_violations(causal_order.violations(events))


def test_causal_order_is_silent_about_a_reader_with_a_hole(table: Any) -> None:
    events = table(
        _deliver(1, 0, 0, seq=1, delivered_at=[1, 0, None], readers=[0, 1]),
        _broadcast(1, 1, seq=1, delivered_at=[2, 2, 0], readers=[0, 1]),
    )
    _assert_violations(causal_order.violations(events))


def test_all_checks_return_the_same_columns(table: Any) -> None:
    events = table(_broadcast(0, 0, seq=1))
    columns = events.sparkSession.createDataFrame([], VIOLATIONS).dtypes
    for check in CHECKS.values():
        assert check.violations(events).dtypes == columns
