"""What the group paid: packets and bytes that were sent, by kind, and for each broadcast."""

from pyspark.sql import DataFrame
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
