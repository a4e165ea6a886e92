"""What is delivered was broadcast by its stated origin, with that text."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import EventCounts, breaches, is_delivery, place
from tidings.pipeline.queries.evidence import BELOW
from tidings.spec import Guarantee


def counts() -> EventCounts:
    return EventCounts(
        judged=is_delivery() & ~F.col("given"), violated=_is_invented() | _is_renamed()
    )


def violations(events: DataFrame) -> DataFrame:
    invented = breaches(
        events.where(_is_invented()),
        Guarantee.NO_CREATION,
        witness=F.when(
            F.col("sent").isNotNull(),
            F.array(place("process", "index"), place("origin", "sent.index")),
        ).otherwise(F.array(place("process", "index"))),
    )
    renamed = breaches(
        events.where(_is_renamed()).withColumn("first", F.coalesce("sent.index", F.lit(BELOW))),
        Guarantee.NO_CREATION,
        witness=F.array(place("process", "first"), place("process", "index")),
    )
    return invented.unionByName(renamed)


def is_unreached() -> Column:
    """Delivered, but the origin's history may not have come to the broadcast yet."""
    has_more_to_tell = F.coalesce(~F.col("ended"), F.lit(False))
    return is_delivery() & F.col("sent").isNull() & ~F.col("given") & has_more_to_tell


def _is_invented() -> Column:
    """Delivered, and broadcast by nobody, or with another text."""
    is_hidden = F.coalesce("hidden", F.lit(False))
    has_no_broadcast = F.col("sent").isNull() & ~is_hidden & ~is_unreached()
    has_other_text = F.col("sent").isNotNull() & ~F.col("same_text")
    return is_delivery() & ~F.col("given") & (has_no_broadcast | has_other_text)


def _is_renamed() -> Column:
    """One name for two broadcasts: whoever delivers it cannot say which it is."""
    is_second = F.coalesce(F.col("index") > F.col("sent.index"), F.lit(False))
    return (F.col("kind") == "broadcast") & (F.col("given") | is_second)
