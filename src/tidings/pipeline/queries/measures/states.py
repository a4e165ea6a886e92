"""How much a process keeps, over time, and whether that grows with what it has delivered."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.measures.recording import Recording


def states(recording: Recording) -> DataFrame:
    """run, process, index, name, time_ns, delivered, value: every sample.

    ``delivered`` counts the deliveries of the process up to there, a repeated one again.
    """
    kinds = ("state", "deliver") if "state" in recording.kinds else ()
    so_far = (
        Window.partitionBy("run", "process")
        .orderBy("index")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    delivered = F.count(F.when(F.col("kind") == "deliver", F.lit(1))).over(so_far)
    samples = (
        recording.rows_of(*kinds).withColumn("delivered", delivered).where(F.col("kind") == "state")
    )
    return recording.named(samples, "process").select(
        *("run", "process", "index", "name"),
        F.when(F.col("clock").isNotNull(), F.col("time_ns")).alias("time_ns"),
        *("delivered", "value"),
    )


def states_by_process(recording: Recording, samples: DataFrame | None = None) -> DataFrame:
    """run, process, name, samples, first, last, max, growth.

    ``growth`` is the slope of the least-squares line through value against delivered: how much
    more is kept for each message. Null where nothing was delivered between the samples.
    """
    each = states(recording) if samples is None else samples
    return (
        each.groupBy("run", "process", "name")
        .agg(
            F.count("*").alias("samples"),
            F.min_by("value", "index").alias("first"),
            F.max_by("value", "index").alias("last"),
            F.max("value").alias("max"),
            F.regr_slope("value", "delivered").alias("growth"),
        )
        .select("run", "process", "name", "samples", "first", "last", "max", "growth")
    )


def states_by_run(recording: Recording, samples: DataFrame | None = None) -> DataFrame:
    """run, name, processes, first, last, max, growth: means over the processes, and the largest."""
    return (
        states_by_process(recording, samples)
        .groupBy("run", "name")
        .agg(
            F.count("*").alias("processes"),
            F.avg("first").alias("first"),
            F.avg("last").alias("last"),
            F.max("max").alias("max"),
            F.avg("growth").alias("growth"),
        )
        .select("run", "name", "processes", "first", "last", "max", "growth")
    )
