"""What violations follow from, by queries; ``spec.causes`` says what that is, and why.

All that is needed stands in two tables: the violations, and of every history how far a reader got
with it. Both are brought together for each reader of a run, and followed there row by row.
"""

from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import VIOLATIONS
from tidings.pipeline.queries.evidence import BELOW
from tidings.spec import Guarantee
from tidings.spec.verdict import FAULTS, MOST_CAUSES, Fault

Message = tuple[int, int]
"""Origin and sequence number."""

ROOTED = f"{VIOLATIONS}, root_origin smallint, root_seq bigint"
_WITNESS = pa.list_(pa.field("element", pa.struct({"process": pa.int16(), "index": pa.int64()})))
_DEBTS = (Guarantee.VALIDITY.value, Guarantee.UNIFORM_AGREEMENT.value)
_FOLLOWING = (*_DEBTS, Guarantee.CAUSAL_ORDER.value)
"""What may follow from something else."""


def with_roots(breaches: DataFrame, events: DataFrame) -> DataFrame:
    """Every violation with its root; ``breaches`` are all of some runs, which ``events`` has."""
    mine = breaches.groupBy("run", "process")
    theirs = reached(breaches, events).groupBy("run", "process")
    return mine.cogroup(theirs).applyInArrow(_rooted, ROOTED)


def reached(breaches: DataFrame, events: DataFrame) -> DataFrame:
    """How far a process got with each history.

    - run, process, whose: the reader, and the process whose history it is
    - last: the index of the last broadcast there that the reader delivers, null if there is none
    - debt: index, origin and seq of the first event after it that is about something the reader
      owes and never delivers, null if there is none
    """
    debts = (
        breaches.where(F.col("guarantee").isin(*_DEBTS))
        .select("run", F.col("process").alias("reader"), "origin", "seq")
        .distinct()
    )
    last = (
        events.where("kind = 'broadcast'")
        .join(debts.select("run", "reader").distinct(), "run", "inner")
        .where(F.get("delivered_at", "reader").isNotNull())
        .groupBy("run", "reader", "process")
        .agg(F.max("index").alias("last"))
    )
    met = (
        events.join(debts, ["run", "origin", "seq"], "inner")
        .join(last, ["run", "reader", "process"], "left")
        .where(F.col("index") > F.coalesce("last", F.lit(BELOW)))
        .groupBy("run", "reader", "process")
        .agg(F.min(F.struct("index", "origin", "seq")).alias("debt"))
    )
    return last.join(met, ["run", "reader", "process"], "full").select(
        "run", F.col("reader").alias("process"), F.col("process").alias("whose"), "last", "debt"
    )


def _rooted(breaches: Any, reached: Any) -> Any:
    """The violations at one process of a run, each with its root."""
    rows = breaches.to_pylist()
    missing_cause = {
        _message(row): _message(row, "cause_")
        for row in rows
        if row["guarantee"] == Guarantee.CAUSAL_ORDER.value
    }
    sent_at = {
        _message(row): row["witness"][0]["index"] for row in rows if row["guarantee"] in _DEBTS
    }
    histories = {row["whose"]: row for row in reached.to_pylist()}

    def followed(message: Message) -> Message:
        if message in missing_cause:
            return missing_cause[message]
        if message not in sent_at:
            return message
        history = histories[message[0]]
        is_skipped = history["last"] is not None and sent_at[message] < history["last"]
        return message if is_skipped else _message(history["debt"])

    def root(message: Message) -> Message:
        passed: list[Message] = []
        while message not in passed:
            passed.append(message)
            message = followed(message)
        circle = passed[passed.index(message) :]
        first, _ = min(circle)
        return message if len(circle) == 1 else _message(histories[first]["debt"])

    roots = [
        root(_message(row)) if row["guarantee"] in _FOLLOWING else _message(row) for row in rows
    ]
    origins, seqs = zip(*roots, strict=True)
    # Nothing null where Spark knows that nothing is: as loose as the schema that was promised.
    loose = breaches.set_column(
        breaches.column_names.index("witness"), "witness", breaches["witness"].cast(_WITNESS)
    )
    with_origins = loose.append_column("root_origin", pa.array(origins, pa.int16()))
    return with_origins.append_column("root_seq", pa.array(seqs, pa.int64()))


def _message(row: Any, what: str = "") -> Message:
    return row[f"{what}origin"], row[f"{what}seq"]


def largest_causes(rooted: DataFrame) -> DataFrame:
    """The causes of rooted violations that are among the largest of some guarantee.

    - run, process, root_origin, root_seq, fault, total
    - violated_0 to violated_4: how many violations of each guarantee follow from it
    - causes_0 to causes_4: how many causes of each guarantee there are in its run
    """
    numbers = range(len(Guarantee))
    of_each = [
        F.count_if(F.col("guarantee") == guarantee.value).alias(f"violated_{number}")
        for number, guarantee in enumerate(Guarantee)
    ]
    of_run = Window.partitionBy("run")
    in_order = of_run.orderBy(F.desc("total"), "process", "root_origin", "root_seq", "fault")
    is_of = [(F.col(f"violated_{number}") > 0).cast("int") for number in numbers]
    ranks = [F.sum(one).over(in_order) for one in is_of]
    return (
        rooted.withColumn("fault", _fault())
        .groupBy("run", "process", "root_origin", "root_seq", "fault")
        .agg(F.count("*").alias("total"), *of_each)
        .withColumns({f"rank_{number}": ranks[number] for number in numbers})
        .withColumns({f"causes_{number}": F.sum(is_of[number]).over(of_run) for number in numbers})
        .where(
            reduce(
                Column.__or__,
                (
                    (is_of[number] > 0) & (F.col(f"rank_{number}") <= MOST_CAUSES)
                    for number in numbers
                ),
            )
        )
        .drop(*(f"rank_{number}" for number in numbers))
        .orderBy("run", F.desc("total"), "process", "root_origin", "root_seq", "fault")
    )


def _fault() -> Column:
    """The number of the fault that a violation shows."""
    numbers = {one.value: list(Fault).index(fault) for one, fault in FAULTS.items()}
    pairs = (F.lit(word) for pair in numbers.items() for word in pair)
    return F.element_at(F.create_map(*pairs), F.col("guarantee"))
