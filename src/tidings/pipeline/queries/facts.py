"""What is known about each run before a single message is looked at.

The manifest and the last row of each history say who was correct, who may still have more to
tell, and which member lists lost their majority. The specification itself draws these
conclusions; here they become small tables, to be joined with the large ones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.queries.ingest import Trace
from tidings.spec.endings import Ending, cut_off, ending_of

Forsaken = Mapping[tuple[int, int], int]
"""Where a process, given as (run, process), first meets a message for which nothing is owed."""


class Facts(NamedTuple):
    """Small tables. Lists of processes hold their numbers.

    - runs: run, settled (every fate is known), doomed (and some view is forsaken), readers
      (the processes whose history has no hole)
    - processes: run, process, correct, ended (what is not in its history did not happen), holed,
      forsaken_from (the index from which on nothing is owed for what it broadcasts, or null)
    - views: run, view, members, survivors (the correct ones), forsaken (it lost its majority)
    - cuts, if there are any: run, origin, broadcast (how many of its messages it had broadcast
      below its cut), had (how many of them each process had delivered below its own)
    """

    runs: DataFrame
    processes: DataFrame
    views: DataFrame
    cuts: DataFrame | None


def endings(trace: Trace) -> list[Ending]:
    return [
        ending_of(
            number,
            trace.manifests[number],
            {
                name: trace.lives[number, place]
                for place, name in enumerate(trace.names[number])
                if (number, place) in trace.lives
            },
            trace.steps.get(number, {}),
        )
        for number in range(len(trace.manifests))
    ]


def facts_of(spark: SparkSession, ended: Sequence[Ending], forsaken: Forsaken) -> Facts:
    cuts = [row for one in ended if one.evidence.cuts for row in _cut_rows(one)]
    return Facts(
        runs=_table(spark, _RUNS, map(_run_row, ended)),
        processes=_table(
            spark, _PROCESSES, (row for one in ended for row in _process_rows(one, forsaken))
        ),
        views=_table(spark, _VIEWS, (row for one in ended for row in _view_rows(one))),
        cuts=_table(spark, _CUTS, cuts) if cuts else None,
    )


_NUMBERS = pa.list_(pa.int16())
_RUNS = pa.schema(
    {"run": pa.int32(), "settled": pa.bool_(), "doomed": pa.bool_(), "readers": _NUMBERS}
)
_PROCESSES = pa.schema(
    {
        "run": pa.int32(),
        "process": pa.int16(),
        "correct": pa.bool_(),
        "ended": pa.bool_(),
        "holed": pa.bool_(),
        "forsaken_from": pa.int64(),
    }
)
_VIEWS = pa.schema(
    {
        "run": pa.int32(),
        "view": pa.int64(),
        "members": _NUMBERS,
        "survivors": _NUMBERS,
        "forsaken": pa.bool_(),
    }
)


_CUTS = pa.schema(
    {
        "run": pa.int32(),
        "origin": pa.int16(),
        "broadcast": pa.int64(),
        "had": pa.list_(pa.int64()),
    }
)


def _run_row(ending: Ending) -> dict[str, Any]:
    evidence = ending.evidence
    unbroken = [name for name in evidence.processes if name not in evidence.run.holed]
    return {
        "run": ending.run,
        "settled": ending.is_settled,
        "doomed": ending.is_doomed,
        "readers": ending.numbers(unbroken),
    }


def _process_rows(ending: Ending, forsaken: Forsaken) -> Iterator[dict[str, Any]]:
    evidence = ending.evidence
    for name in evidence.processes:
        place = ending.places[name]
        yield {
            "run": ending.run,
            "process": place,
            "correct": evidence.is_correct(name),
            "ended": evidence.is_complete(name),
            "holed": name in evidence.run.holed,
            "forsaken_from": forsaken.get((ending.run, place)),
        }


def _view_rows(ending: Ending) -> Iterator[dict[str, Any]]:
    for number, view in enumerate(ending.evidence.views):
        yield {
            "run": ending.run,
            "view": number,
            "members": ending.numbers(view),
            "survivors": ending.numbers(ending.survivors(view)),
            "forsaken": number in ending.evidence.forsaken_views,
        }


def _cut_rows(ending: Ending) -> Iterator[dict[str, Any]]:
    sent, had = cut_off(ending)
    for origin, broadcast in enumerate(sent):
        of_origin = [delivered[origin] for delivered in had]
        yield {"run": ending.run, "origin": origin, "broadcast": broadcast, "had": of_origin}


def _table(spark: SparkSession, schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))


# --- for which messages anything is owed, when some list of members lost its majority
#
# A message is forsaken if its own list lost its majority, or if its origin met a forsaken message
# before it broadcast this one: who cannot deliver the cause must not deliver the effect. So for
# each process one number says it all: the index at which it first meets a forsaken message.

_FIRST = pa.schema({"run": pa.int32(), "origin": pa.int16(), "since": pa.int64()})


def first_forsaken(spark: SparkSession, events: DataFrame, facts: Facts) -> Forsaken:
    """A fixpoint over one number per process: a job for each time that somebody taints another."""
    met = meetings(events, facts).persist()
    first = _first_of_each(met.where("forsaken"))
    while sooner := _sooner(spark, met, first):
        first |= sooner
    met.unpersist()
    return first


def meetings(events: DataFrame, facts: Facts) -> DataFrame:
    """Where each process of a doomed run met a message, from the events of ``with_messages``.

    - process, index: the meeting; origin, sent_at: the broadcast of the message
    - forsaken: the list of the message lost its majority
    """
    doomed = facts.runs.where("doomed").select("run")
    return (
        events.where(F.col("sent").isNotNull())
        .join(F.broadcast(doomed), "run", "left_semi")
        .withColumn("view", F.col("sent.view"))
        .join(F.broadcast(facts.views), ["run", "view"], "inner")
        .select(
            *("run", "process", "index", "origin"),
            F.col("sent.index").alias("sent_at"),
            "forsaken",
        )
    )


def _sooner(spark: SparkSession, met: DataFrame, first: Forsaken) -> dict[tuple[int, int], int]:
    """Where a process meets, sooner than known so far, what an origin tainted by then sent."""
    rows = [{"run": run, "origin": process, "since": at} for (run, process), at in first.items()]
    since = _table(spark, _FIRST, rows)
    tainted = met.join(F.broadcast(since), ["run", "origin"], "inner").where("since < sent_at")
    found = _first_of_each(tainted).items()
    return {process: index for process, index in found if index < first.get(process, index + 1)}


def _first_of_each(met: DataFrame) -> dict[tuple[int, int], int]:
    firsts = met.groupBy("run", "process").agg(F.min("index").alias("index")).collect()
    return {(row.run, row.process): row["index"] for row in firsts}
