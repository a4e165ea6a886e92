"""A correct process delivers what it broadcast."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import EventCounts, breaches, is_message, place
from tidings.spec import Guarantee


def counts() -> EventCounts:
    return EventCounts(
        judged=_is_promised() & F.col("owed"),
        not_owed=_is_promised() & ~F.col("owed"),
        violated=_is_lost(),
    )


def violations(events: DataFrame) -> DataFrame:
    return breaches(
        events.where(_is_lost()),
        Guarantee.VALIDITY,
        witness=F.array(place("process", "index")),
    )


def _is_promised() -> Column:
    return is_message() & F.col("settled") & F.col("correct")


def _is_lost() -> Column:
    return _is_promised() & F.col("owed") & F.get("delivered_at", "origin").isNull()
