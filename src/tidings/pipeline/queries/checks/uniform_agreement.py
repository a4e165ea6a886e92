"""What any process delivers, even one that crashed, every correct addressee delivers."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import EventCounts, breaches, is_message, place
from tidings.spec import Guarantee


def counts() -> EventCounts:
    is_judged = _is_delivered() & F.col("owed")
    return EventCounts(
        judged=is_judged,
        not_owed=_is_delivered() & ~F.col("owed"),
        violated=F.when(is_judged, F.size(_forgotten())),
    )


def violations(events: DataFrame) -> DataFrame:
    missing = (
        events.where(_is_delivered() & F.col("owed"))
        .select("run", "origin", "seq", "index", "delivered_at", F.explode(_forgotten()))
        .withColumnsRenamed({"col": "process"})
        .withColumn("seen", _first_delivery())
    )
    return breaches(
        missing,
        Guarantee.UNIFORM_AGREEMENT,
        witness=F.array(place("origin", "index"), F.col("seen")),
    )


def _is_delivered() -> Column:
    is_seen = F.exists("delivered_at", lambda index: index.isNotNull())
    return is_message() & F.col("settled") & is_seen


def _forgotten() -> Column:
    """The correct addressees that did not deliver the message."""
    return F.filter("survivors", lambda member: F.get("delivered_at", member).isNull())


def _first_delivery() -> Column:
    """The delivery at the first process, by number, that has one."""
    deliveries = F.transform(
        "delivered_at",
        lambda index, process: F.struct(
            process.cast("smallint").alias("process"), index.alias("index")
        ),
    )
    return F.get(F.filter(deliveries, lambda seen: seen["index"].isNotNull()), F.lit(0))
