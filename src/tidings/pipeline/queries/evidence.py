"""Everything that the trace knows about each event, gathered once for all five checks.

One table, in three steps: what became of the event's message (one shuffle, by message), what the
small tables say about it (joins without a shuffle), and what the events before it asked for (one
shuffle, by process). Every check is then a rule about single rows of it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.facts import Facts
from tidings.spec import BELOW_THE_CUT
from tidings.trace.schema import BINDING

NEVER = 2**63 - 1
"""The position of what was not delivered: after everything."""
BELOW = BELOW_THE_CUT
"""The position of what was delivered, or broadcast, below the cut: before everything."""


def known_events(rows: DataFrame, facts: Facts, width: int) -> DataFrame:
    """Every broadcast and delivery, with what all steps know about it.

    ``width`` is the number of processes of the largest run.
    """
    return with_pasts(with_facts(with_messages(rows, width, facts.cuts), facts), width)


def with_messages(rows: DataFrame, width: int, cuts: DataFrame | None) -> DataFrame:
    """Every broadcast and delivery, with what became of its message.

    - given: the message was broadcast below the cut of its origin
    - sent: index of the first broadcast under its name, and the view to which it was bound last;
      null if there is none, or if the message is given
    - same_text: some broadcast under that name had this very text
    - delivered_at: for each process the index of its first delivery, null if there is none, BELOW
      if it was below its cut
    """
    events = with_cuts(rows.where(F.col("kind").isin(*BINDING, "deliver")), cuts)
    is_broadcast, is_delivery = (F.col("kind") == kind for kind in ("broadcast", "deliver"))
    message = Window.partitionBy("run", "origin", "seq")
    text = Window.partitionBy("run", "origin", "seq", "digest")
    first_broadcast = F.min(F.when(is_broadcast & ~F.col("given"), F.struct("index", "view")))
    first_deliveries = [
        F.min(F.when(is_delivery & (F.col("process") == process), F.col("index")))
        for process in range(width)
    ]
    rebound = F.max(F.when(F.col("kind") == "rebind", F.struct("index", "view")))
    with_views = events.select(
        *("run", "process", "index", "kind", "origin", "seq", "given"),
        first_broadcast.over(message).alias("sent"),
        rebound.over(message).alias("rebound"),
        F.max(is_broadcast).over(text).alias("same_text"),
        F.array(
            *(
                F.when(
                    _is_within(F.get("had", F.lit(process))), F.lit(BELOW).cast("bigint")
                ).otherwise(first.over(message))
                for process, first in enumerate(first_deliveries)
            )
        ).alias("delivered_at"),
    )
    is_moved = F.col("rebound.index") > F.col("sent.index")
    view = F.when(is_moved, F.col("rebound.view")).otherwise(F.col("sent.view"))
    sent = F.when(
        F.col("sent").isNotNull(), F.struct(F.col("sent.index").alias("index"), view.alias("view"))
    )
    return with_views.where("kind != 'rebind'").withColumn("sent", sent).drop("rebound")


def with_cuts(events: DataFrame, cuts: DataFrame | None) -> DataFrame:
    """What was cut off: ``given``, and ``had``, of the origin the last that each process had."""
    if cuts is None:
        return events.withColumns({"given": F.lit(False), "had": F.lit(None).cast("array<bigint>")})
    return events.join(F.broadcast(cuts), ["run", "origin"], "left").withColumn(
        "given", F.coalesce(_is_within(F.col("broadcast")), F.lit(False))
    )


def _is_within(last: Column) -> Column:
    return F.col("seq").between(F.lit(1), last)


def with_facts(events: DataFrame, facts: Facts) -> DataFrame:
    """What the small tables say about each event.

    - settled: what is missing in this run will not come any more
    - readers: the processes whose whole history is known
    - correct, ended, hidden: what became of the message's origin; all null for a stranger
    - members, survivors: the addressees of the message, and the correct ones among them
    - owed: its list, and the lists of all in its causal past, kept their majority
    """
    origins = facts.processes.withColumnsRenamed({"process": "origin"})
    return (
        # There is but one list of members where anything was cut off.
        events.withColumn("view", F.coalesce("sent.view", F.when(F.col("given"), F.lit(0))))
        .join(F.broadcast(facts.runs), "run", "inner")
        .join(F.broadcast(origins), ["run", "origin"], "left")
        .join(F.broadcast(facts.views), ["run", "view"], "left")
        .select(
            *(events[column] for column in events.columns),
            *("settled", "readers", "correct", "ended", F.col("holed").alias("hidden")),
            *("members", "survivors", _is_owed().alias("owed")),
        )
    )


def _is_owed() -> Column:
    is_tainted = F.coalesce(F.col("forsaken_from") < F.col("sent.index"), F.lit(False))
    return ~(F.col("forsaken") | is_tainted)


def with_pasts(events: DataFrame, width: int) -> DataFrame:
    """What each event, and all events of the same process before it, ask of every reader.

    - asked: the position at which the reader first delivers the event's message, NEVER if it
      does not although the message is addressed to it, null if it is not
    - before: the largest position asked for by earlier events
    """
    earlier = (
        Window.partitionBy("run", "process")
        .orderBy("index")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    asked = F.array(*(_asked_of(reader) for reader in range(width)))
    largest = [F.max(F.get("asked", F.lit(reader))).over(earlier) for reader in range(width)]
    return events.withColumn("asked", asked).withColumn("before", F.array(*largest))


def _asked_of(reader: int) -> Column:
    is_addressed = F.array_contains("members", F.lit(reader).cast("smallint"))
    position = F.coalesce(F.get("delivered_at", F.lit(reader)), F.lit(NEVER))
    return F.when(is_addressed, position)
