"""Everything that the trace knows about each event, gathered once for all five checks.

One table, in three steps: what became of the event's message (one shuffle, by message), what the
small tables say about it (joins without a shuffle), and what the events before it asked for (one
shuffle, by process). Every check is then a rule about single rows of it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.facts import Facts

NEVER = 2**63 - 1
"""The position of what was not delivered: after everything."""


def known_events(rows: DataFrame, facts: Facts, width: int) -> DataFrame:
    """Every broadcast and delivery, with what all steps know about it.

    ``width`` is the number of processes of the largest run.
    """
    return with_pasts(with_facts(with_messages(rows, width), facts), width)


def with_messages(rows: DataFrame, width: int) -> DataFrame:
    """Every broadcast and delivery, with what became of its message.

    - sent: index and view of the first broadcast under its name, null if there is none
    - same_text: some broadcast under that name had this very text
    - delivered_at: for each process the index of its first delivery, null if there is none
    """
    is_broadcast = F.col("kind") == "broadcast"
    message = Window.partitionBy("run", "origin", "seq")
    text = Window.partitionBy("run", "origin", "seq", "digest")
    first_broadcast = F.min(F.when(is_broadcast, F.struct("index", "view")))
    first_deliveries = [
        F.min(F.when(~is_broadcast & (F.col("process") == process), F.col("index")))
        for process in range(width)
    ]
    return rows.where(F.col("kind").isin("broadcast", "deliver")).select(
        *("run", "process", "index", "kind", "origin", "seq"),
        first_broadcast.over(message).alias("sent"),
        F.max(is_broadcast).over(text).alias("same_text"),
        F.array(*(first.over(message) for first in first_deliveries)).alias("delivered_at"),
    )


def with_facts(events: DataFrame, facts: Facts) -> DataFrame:
    """What the small tables say about each event.

    - settled: what is missing in this run will not come any more
    - readers: the processes whose whole history is known
    - correct, ended, hidden: what became of the message's origin; all null for a stranger
    - members, survivors: the addressees of the message, and the correct ones among them
    - owed: its list, and the lists of all in its causal past, kept their majority
    """
    runs = F.broadcast(facts.runs)
    origins = F.broadcast(facts.processes.withColumnsRenamed({"process": "origin"}))
    views = F.broadcast(facts.views)
    return (
        events.withColumn("view", F.col("sent.view"))
        .join(runs, "run", "inner")
        .join(origins, ["run", "origin"], "left")
        .join(views, ["run", "view"], "left")
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
