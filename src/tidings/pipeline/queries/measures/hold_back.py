"""How long a text waits at a process before it may be delivered: deliver minus held."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.measures.ranks import percentiles
from tidings.pipeline.queries.measures.recording import Recording


def hold_back(recording: Recording) -> DataFrame:
    """run, process, origin, seq, hold_back_ns: for every text that a process is known to have held.

    The first time it was held and the first time it was delivered count, over restarts too. Null
    if it was not delivered.
    """
    kinds = ("held", "deliver") if "held" in recording.kinds else ()
    first = {
        kind: F.min_by("time_ns", F.when(F.col("kind") == kind, F.col("index"))).alias(kind)
        for kind in ("held", "deliver")
    }
    texts = (
        recording.rows_of(*kinds)
        .groupBy("run", "process", "origin", "seq")
        .agg(*first.values())
        .where(F.col("held").isNotNull())
    )
    waited = F.when(F.col("clock").isNotNull(), F.col("deliver") - F.col("held"))
    return recording.named(texts, "process", "origin").select(
        *("run", "process", "origin", "seq"), waited.alias("hold_back_ns")
    )


def hold_back_summary(recording: Recording, texts: DataFrame | None = None) -> DataFrame:
    """run, clock, texts, p50_ns, p90_ns, p99_ns, max_ns; no row for a run where nothing is known.

    ``texts`` is the table of hold-back times, if it is at hand.
    """
    each = hold_back(recording) if texts is None else texts
    return (
        percentiles(each, "run", value="hold_back_ns")
        .join(F.broadcast(recording.runs.select("run", "clock")), "run", "inner")
        .select(
            *("run", "clock", F.col("count").alias("texts")),
            *("p50_ns", "p90_ns", "p99_ns", "max_ns"),
        )
    )
