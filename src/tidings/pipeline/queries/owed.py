"""For which messages anything is owed, when some list of members lost its majority.

A message is forsaken if its own list lost its majority, or if its origin met a forsaken message
before it broadcast this one: who cannot deliver the cause must not deliver the effect. So for
each process one number says it all: the index at which it first meets a forsaken message.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.queries.facts import Facts, Forsaken

_FIRST = pa.schema({"run": pa.int32(), "origin": pa.int16(), "since": pa.int64()})


def first_forsaken(spark: SparkSession, events: DataFrame, facts: Facts) -> Forsaken:
    """A fixpoint over one number per process: a job for each time that somebody taints another."""
    met = meetings(events, facts).persist()
    first = _first_of_each(met.where("forsaken"))
    while sooner := _sooner(met, _table(spark, first), first):
        first |= sooner
    met.unpersist()
    return first


def meetings(events: DataFrame, facts: Facts) -> DataFrame:
    """Where each process of a doomed run met a message, from the events of ``with_messages``.

    - process, index: the meeting; origin, sent_at: the broadcast of the message
    - forsaken: the list of the message lost its majority
    """
    doomed = facts.runs.where("doomed").select("run")
    return (
        events.where(F.col("sent").isNotNull())
        .join(F.broadcast(doomed), "run", "left_semi")
        .withColumn("view", F.col("sent.view"))
        .join(F.broadcast(facts.views), ["run", "view"], "inner")
        .select(
            *("run", "process", "index", "origin"),
            F.col("sent.index").alias("sent_at"),
            "forsaken",
        )
    )


def _sooner(met: DataFrame, since: DataFrame, first: Forsaken) -> dict[tuple[int, int], int]:
    """Where a process meets, sooner than known so far, what an origin tainted by then sent."""
    tainted = met.join(F.broadcast(since), ["run", "origin"], "inner").where("since < sent_at")
    found = _first_of_each(tainted).items()
    return {process: index for process, index in found if index < first.get(process, index + 1)}


def _first_of_each(met: DataFrame) -> dict[tuple[int, int], int]:
    firsts = met.groupBy("run", "process").agg(F.min("index").alias("index")).collect()
    return {(row.run, row.process): row["index"] for row in firsts}


def _table(spark: SparkSession, first: Forsaken) -> DataFrame:
    rows = [{"run": run, "origin": process, "since": at} for (run, process), at in first.items()]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_FIRST))
