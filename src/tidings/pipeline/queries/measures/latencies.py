"""From the broadcast of a message to its deliveries, and how long a text waits in between.

All rows about one message come together once, by its name, and each process has a column in what
is gathered: no join with the broadcasts, and no sort of the deliveries. In a large group that
would be a column too many; there lists are gathered, which takes three times as long. Who was
addressed is looked up afterwards, once for each message.

Which broadcast and which delivery is the first is a matter of the index; only how long it took is
a matter of the clock. Real processes have a clock each: a latency between two of them is as good
as these agree, and may be negative.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.pipeline.queries.measures.recording import Recording, audiences, percentiles
from tidings.trace.schema import BINDING

MEASURES = ("own", "first", "majority", "last")

MOST_COLUMNS = 64
"""In a larger group the first deliveries of a message are a list."""


def latencies(recording: Recording) -> DataFrame:
    """One row for every message that was broadcast; a name used twice is its first broadcast.

    - members: how many it is addressed to; delivered: how many of them delivered it
    - own_ns: until its origin delivered it; first_ns: until any member did
    - majority_ns: until more than half of the members had
    - last_ns: until all correct members had; null if one did not, or if it is not known who is
      correct
    """
    is_small = recording.width <= MOST_COLUMNS
    messages = _in_columns(recording) if is_small else _in_lists(recording)
    deliveries = _from_columns(recording.width) if is_small else _from_lists()
    known = (
        messages.where(F.col("sent").isNotNull())
        .join(F.broadcast(audiences(recording)), ["run", "view"], "inner")
        .withColumns(deliveries)
    )
    majority = F.floor(F.col("members") / 2).cast("int") + 1
    is_everywhere = F.col("settled") & (F.col("reached") == F.col("owing"))
    moments = {
        "own": F.col("own"),
        "first": F.array_min("times"),
        # The latest first: nulls, which come last, do not move the others.
        "majority": F.get(F.sort_array("times", asc=False), F.col("delivered") - majority),
        "last": F.when(is_everywhere, F.col("last")),
    }
    return known.select(
        "run",
        F.get("names", "origin").alias("origin"),
        *("seq", "members", "delivered"),
        *(
            F.when(F.col("clock").isNotNull(), moment - F.col("sent")).alias(f"{measure}_ns")
            for measure, moment in moments.items()
        ),
    )


def _in_columns(recording: Recording) -> DataFrame:
    """run, origin, seq, sent, view, and at_0, at_1, ...: when each process first delivered it."""
    first_deliveries = (
        F.min_by(
            "time_ns", F.when(_is_delivery() & (F.col("process") == place), F.col("index"))
        ).alias(f"at_{place}")
        for place in range(recording.width)
    )
    return (
        recording.rows_of(*BINDING, "deliver")
        .groupBy("run", "origin", "seq")
        .agg(*_broadcast(), *first_deliveries)
    )


def _from_columns(width: int) -> dict[str, Column]:
    """What the deliveries of a message amount to; plain expressions, which Spark compiles.

    - own: when its origin delivered it
    - times, delivered: when members did, with nulls among them, and how many did
    - last, reached: when the last of the correct members did, and how many did
    """
    at = [F.col(f"at_{place}") for place in range(width)]
    of_members, of_correct = (
        [F.when(F.get(whose, F.lit(place)), time) for place, time in enumerate(at)]
        for whose in ("is_addressed", "is_owing")
    )
    return {
        "own": F.get(F.array(*at), "origin"),
        "times": F.array(*of_members),
        "delivered": _count(of_members),
        "last": F.array_max(F.array(*of_correct)),
        "reached": _count(of_correct),
    }


def _count(times: Iterable[Column]) -> Column:
    return reduce(add, (time.isNotNull().cast("int") for time in times))


def _in_lists(recording: Recording) -> DataFrame:
    """The same with one column, deliveries: the first of each process, and then all of them."""
    at = F.min_by("time_ns", F.when(_is_delivery(), F.col("index"))).alias("at")
    return (
        recording.rows_of(*BINDING, "deliver")
        .groupBy("run", "origin", "seq", "process")
        .agg(*_broadcast(), at)
        .groupBy("run", "origin", "seq")
        .agg(
            F.max("sent").alias("sent"),
            F.max("view").alias("view"),
            F.collect_list(F.when(F.col("at").isNotNull(), F.struct("process", "at"))).alias(
                "deliveries"
            ),
        )
    )


def _from_lists() -> dict[str, Column]:
    def times(is_meant: Callable[[Column], Column]) -> Column:
        return F.filter("deliveries", lambda one: is_meant(one["process"]))["at"]

    of_members = times(lambda process: F.get("is_addressed", process))
    of_correct = times(lambda process: F.get("is_owing", process))
    return {
        "own": F.get(times(lambda process: process == F.col("origin")), F.lit(0)),
        "times": of_members,
        "delivered": F.size(of_members),
        "last": F.array_max(of_correct),
        "reached": F.size(of_correct),
    }


def _is_delivery() -> Column:
    return F.col("kind") == "deliver"


def _broadcast() -> tuple[Column, Column]:
    """When the first broadcast under the name was, and to which list it was bound last."""
    sent_at, moved_at = (
        F.when(F.col("kind") == kind, F.col("index")) for kind in ("broadcast", "rebind")
    )
    view = F.coalesce(F.max_by("view", moved_at), F.min_by("view", sent_at))
    return F.min_by("time_ns", sent_at).alias("sent"), view.alias("view")


def latency_summary(recording: Recording, messages: DataFrame | None = None) -> DataFrame:
    """run, clock, measure, messages, p50_ns, p90_ns, p99_ns, max_ns; no row for what is not known.

    ``messages`` is the table of latencies, if it is at hand.
    """
    each = latencies(recording) if messages is None else messages
    values = each.unpivot("run", [f"{one}_ns" for one in MEASURES], "measure", "value_ns")
    return (
        percentiles(values, "run", "measure")
        .join(F.broadcast(recording.runs.select("run", "clock")), "run", "inner")
        .select(
            *("run", "clock", F.regexp_replace("measure", "_ns$", "").alias("measure")),
            F.col("count").alias("messages"),
            *("p50_ns", "p90_ns", "p99_ns", "max_ns"),
        )
    )


# --- how long a text waits at a process before it may be delivered: deliver minus held


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
