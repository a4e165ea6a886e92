"""A process delivers a message at most once."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import EventCounts, breaches, is_delivery, place
from tidings.spec import Guarantee


def counts() -> EventCounts:
    return EventCounts(judged=is_delivery(), violated=_is_repeated())


def violations(events: DataFrame) -> DataFrame:
    return breaches(
        events.where(_is_repeated()).withColumn("first", _first_delivery_here()),
        Guarantee.NO_DUPLICATION,
        witness=F.array(place("process", "first"), place("process", "index")),
    )


def _is_repeated() -> Column:
    return is_delivery() & (F.col("index") > _first_delivery_here())


def _first_delivery_here() -> Column:
    return F.get("delivered_at", "process")
