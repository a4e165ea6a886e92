"""Agreed views: what ``spec.views`` says, by queries.

The time of a process falls into stays, one for each view that it was in. Of each stay and each
origin a small table has the bounds: which of the origin's messages belong there. A delivery that
lies in a stay, and not within its bounds, is misplaced; and what a process has not delivered
between the bounds of a stay that it left is missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.queries.checks.schema import breaches, is_delivery, place
from tidings.pipeline.queries.evidence import NEVER
from tidings.spec import Extra, Place, ViewRule
from tidings.spec.endings import Ending
from tidings.trace.schema import BINDING

_KEY = {"run": pa.int32(), "process": pa.int16(), "origin": pa.int16()}
_BOUNDS = pa.schema(
    {
        **_KEY,
        "begin": pa.int64(),
        "end": pa.int64(),
        "in_view": pa.int64(),
        "low": pa.int64(),
        "high": pa.int64(),
        "entry": pa.int64(),
        "next_process": pa.int16(),
        "next_index": pa.int64(),
        "is_left": pa.bool_(),
    }
)
"""``end`` and ``high`` are NEVER where there is none; ``entry`` and ``next`` are the rows that
installed this view and, at whichever process, the next, if there are any."""
_MISSTEPS = pa.schema(
    {
        **_KEY,
        "seq": pa.int64(),
        "index": pa.int64(),
        "other_process": pa.int16(),
        "other_index": pa.int64(),
        "rule": pa.string(),
    }
)


def violations(
    spark: SparkSession, rows: DataFrame, events: DataFrame, endings: Sequence[Ending]
) -> DataFrame | None:
    """The rows of ``schema.VIOLATIONS``; None if no run has agreed views.

    From all rows, and the events of ``evidence.with_messages``.
    """
    changing = [ending for ending in endings if ending.evidence.agreed]
    if not changing:
        return None
    bounds = F.broadcast(_table(spark, _BOUNDS, map(_bounds, changing)))
    is_first = F.col("index") == F.get("delivered_at", "process")
    first = events.where(is_delivery() & is_first).select(
        *("run", "process", "index", "origin", "seq", F.col("sent").isNotNull().alias("is_sent"))
    )
    return (
        _misplaced(first, bounds)
        .unionByName(_elsewhere(rows, bounds))
        .unionByName(_left_out(first, bounds))
        .unionByName(_missteps(_table(spark, _MISSTEPS, map(_missteps_of, changing))))
    )


def _is_in_stay() -> Column:
    return (F.col("index") >= F.col("begin")) & (F.col("index") < F.col("end"))


def _misplaced(first: DataFrame, bounds: DataFrame) -> DataFrame:
    is_below, is_beyond = F.col("seq") <= F.col("low"), F.col("seq") > F.col("high")
    misplaced = first.join(bounds, ["run", "process", "origin"], "inner").where(
        F.col("is_sent") & _is_in_stay() & (is_below | is_beyond)
    )
    by_own = is_below | F.col("next_index").isNull()
    return _breaches(
        misplaced.withColumns(
            {
                "other_process": F.when(by_own, F.col("process")).otherwise(F.col("next_process")),
                "other_index": F.when(by_own, F.col("entry")).otherwise(F.col("next_index")),
            }
        ),
        F.lit(ViewRule.MISPLACED.value),
    )


def _elsewhere(rows: DataFrame, bounds: DataFrame) -> DataFrame:
    bound = rows.where(F.col("kind").isin(*BINDING)).join(
        bounds, ["run", "process", "origin"], "inner"
    )
    elsewhere = bound.where(_is_in_stay() & ~F.col("view").eqNullSafe(F.col("in_view")))
    return _breaches(
        elsewhere.withColumns({"other_process": F.col("process"), "other_index": F.col("entry")}),
        F.lit(ViewRule.ELSEWHERE.value),
    )


def _left_out(first: DataFrame, bounds: DataFrame) -> DataFrame:
    """For each stay that was left, and each origin, the first message that is missing."""
    due = bounds.where("is_left and high > low")
    heard = first.select("run", "process", "origin", "seq")
    here = F.when(F.col("seq").between(F.col("low") + 1, F.col("high")), F.col("seq"))
    delivered = (
        due.join(heard, ["run", "process", "origin"], "left")
        .groupBy(*due.columns)
        .agg(F.collect_list(here).alias("seqs"))
    )
    following = F.concat(F.array(F.col("low") + 1), F.transform("seqs", lambda seq: seq + 1))
    missing = delivered.where(F.size("seqs") < F.col("high") - F.col("low"))
    return _breaches(
        missing.withColumns(
            {
                "seq": F.array_min(F.array_except(following, F.col("seqs"))),
                "index": F.col("end"),
                "other_process": F.col("next_process"),
                "other_index": F.col("next_index"),
            }
        ),
        F.lit(ViewRule.LEFT_OUT.value),
    )


def _missteps(missteps: DataFrame) -> DataFrame:
    return _breaches(missteps, F.col("rule"))


def _breaches(table: DataFrame, note: Column) -> DataFrame:
    """Of rows with ``index``, where it shows, and ``other``, the limit, if there is one."""
    here, other = place("process", "index"), place("other_process", "other_index")
    witness = F.when(F.col("other_index").isNull(), F.array(here)).otherwise(F.array(other, here))
    return breaches(table, Extra.VIEWS, witness=witness, note=note)


# --- the small tables


def _table(
    spark: SparkSession, schema: pa.Schema, rows: Iterable[Iterator[dict[str, Any]]]
) -> DataFrame:
    listed = [row for of_run in rows for row in of_run]
    return spark.createDataFrame(pa.Table.from_pylist(listed, schema=schema))


def _bounds(ending: Ending) -> Iterator[dict[str, Any]]:
    evidence, places = ending.evidence, ending.places
    for process in evidence.processes:
        stays = () if process in evidence.run.holed else evidence.agreed.stays(process)
        for stay in stays:
            following = evidence.agreed.following(stay)
            then = following.place if following is not None else None
            for origin in places:
                low, high = evidence.agreed.bounds(stay, origin)
                yield {
                    "run": ending.run,
                    "process": places[process],
                    "origin": places[origin],
                    "begin": stay.begin,
                    "end": NEVER if stay.end is None else stay.end,
                    "in_view": stay.view,
                    "low": low,
                    "high": NEVER if high is None else high,
                    "entry": None if stay.entry is None else stay.entry.index,
                    "next_process": None if then is None else places[then.process],
                    "next_index": None if then is None else then.index,
                    "is_left": stay.end is not None and then is not None,
                }


def _missteps_of(ending: Ending) -> Iterator[dict[str, Any]]:
    for row, rule, other in ending.evidence.agreed.missteps():
        process = ending.places[row.process]
        yield {
            "run": ending.run,
            "process": process,
            "origin": process,
            "seq": 0,
            "index": row.index,
            "rule": rule.value,
            **_other(ending, other),
        }


def _other(ending: Ending, other: Place | None) -> dict[str, Any]:
    if other is None:
        return {}
    return {"other_process": ending.places[other.process], "other_index": other.index}
