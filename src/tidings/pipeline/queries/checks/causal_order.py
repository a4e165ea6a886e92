"""Before m of origin u, a process delivers all that u had broadcast or delivered before m.

All that is addressed to it, that is. Seen from one reader p, every event of u asks for a
position in p's history: that of p's first delivery of the event's message, or NEVER. While u's
history is read in order, the largest position asked for so far is a running maximum
(``evidence.with_pasts``). If it reaches the position at which p delivered m itself, some cause
of m came too late or not at all. One pass over u's history serves all readers, so the work grows
with the trace and not with its pairs of messages.

The first missing cause is looked for only where something is wrong. It is the first event of u
that asks for p's delivery of m or for more, hence an event that raises the running maximum;
among those, positions grow along u's history, so it is the one that asks for the least position
from m's delivery on.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import EventCounts, breaches, is_message, place
from tidings.pipeline.queries.evidence import BELOW
from tidings.spec import Guarantee


def counts() -> EventCounts:
    delivering = F.filter("readers", lambda reader: F.get("delivered_at", reader) > BELOW)
    return EventCounts(
        judged=F.when(is_message(), F.size(delivering)),
        violated=F.when(is_message(), F.size(_too_early())),
    )


def violations(events: DataFrame) -> DataFrame:
    return breaches(
        first_missing_causes(early_deliveries(events), record_demands(events)),
        Guarantee.CAUSAL_ORDER,
        witness=F.array(
            place("origin", "cause.index"),
            place("origin", "sent_at"),
            place("process", "position"),
        ),
        cause_origin=F.col("cause.origin"),
        cause_seq=F.col("cause.seq"),
    )


def _too_early() -> Column:
    """The readers that delivered the message before one of its causes."""
    return F.filter(
        "readers",
        lambda reader: (
            (F.get("delivered_at", reader) > BELOW)
            & (F.get("before", reader) >= F.get("delivered_at", reader))
        ),
    )


def early_deliveries(events: DataFrame) -> DataFrame:
    """The deliveries of a message before one of its causes, each with its position."""
    return (
        events.where(is_message())
        .select("*", F.explode(_too_early()).alias("reader"))
        .select(
            *("run", "origin", "seq"),
            F.col("index").alias("sent_at"),
            F.col("reader").alias("process"),
            F.get("delivered_at", "reader").alias("position"),
        )
    )


def record_demands(events: DataFrame) -> DataFrame:
    """The events of an origin that ask more of a reader than all before them did."""
    records = F.filter(
        F.sequence(F.lit(0), F.size("asked") - 1),
        lambda reader: F.get("asked", reader) > F.coalesce(F.get("before", reader), F.lit(-1)),
    )
    return events.select("*", F.explode(records).alias("reader")).select(
        "run",
        F.col("process").alias("origin"),
        F.col("reader").cast("smallint").alias("process"),
        F.get("asked", "reader").alias("position"),
        F.struct("index", "origin", "seq").alias("cause"),
    )


def first_missing_causes(early: DataFrame, demands: DataFrame) -> DataFrame:
    """Each early delivery with the demand of the least position not before its own.

    Both are laid in one line, the largest position first, demands before a delivery of the same
    position; the demand last passed is the one.
    """
    line = (
        Window.partitionBy("run", "origin", "process")
        .orderBy(F.col("position").desc(), F.col("is_delivery"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    suspects = early.select("run", "origin", "process").distinct()
    relevant = demands.join(F.broadcast(suspects), ["run", "origin", "process"], "left_semi")
    return (
        early.unionByName(relevant, allowMissingColumns=True)
        .withColumn("is_delivery", F.col("sent_at").isNotNull())
        .withColumn("cause", F.last("cause", ignorenulls=True).over(line))
        .where("is_delivery")
    )
