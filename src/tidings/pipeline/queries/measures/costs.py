"""What the group paid: packets and bytes that were sent, and how much each process keeps."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidings.pipeline.queries.measures.recording import Recording


def costs(recording: Recording) -> DataFrame:
    """run, packet_kind, packets, bytes: what was sent, whether it arrived or not."""
    return (
        recording.rows_of("send")
        .groupBy("run", "packet_kind")
        .agg(F.count("*").alias("packets"), F.sum("bytes").alias("bytes"))
        .select("run", "packet_kind", "packets", "bytes")
    )


def run_costs(recording: Recording) -> DataFrame:
    """One row for every run of the manifest: broadcasts, and what each of them cost on average.

    - broadcasts: rows, so that a name used twice counts twice
    - packets, bytes: null where no packet was written down at all
    - packets_per_broadcast, bytes_per_broadcast: null without packets or without broadcasts
    """
    is_send = F.col("kind") == "send"
    totals = (
        recording.rows_of("send", "broadcast")
        .groupBy("run")
        .agg(
            F.count(F.when(~is_send, F.lit(1))).alias("broadcasts"),
            F.count(F.when(is_send, F.lit(1))).alias("packets"),
            F.sum(F.when(is_send, F.col("bytes"))).alias("bytes"),
        )
    )
    known = totals.withColumn("packets", F.when(F.col("packets") > 0, F.col("packets")))
    per_broadcast = {
        f"{what}_per_broadcast": F.when(F.col("broadcasts") > 0, F.col(what) / F.col("broadcasts"))
        for what in ("packets", "bytes")
    }
    return (
        recording.runs.select("run")
        .join(known, "run", "left")
        .withColumn("broadcasts", F.coalesce("broadcasts", F.lit(0)))
        .withColumns(per_broadcast)
        .select("run", "broadcasts", "packets", "bytes", *per_broadcast)
    )


# --- how much a process keeps, over time, and whether that grows with what it has delivered


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
