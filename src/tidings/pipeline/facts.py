"""What is known about each run before a single message is looked at.

The manifest and the last row of each history say who was correct, who may still have more to
tell, and which member lists lost their majority. The specification itself draws these
conclusions; here they become small tables, to be joined with the large ones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidings.core import Members, majority, ordered
from tidings.pipeline.ingest import Life, Trace
from tidings.spec.evidence import Evidence
from tidings.trace import Cut, Manifest, Row, Run

Forsaken = Mapping[tuple[int, int], int]
"""Where a process, given as (run, process), first meets a message for which nothing is owed."""


class Facts(NamedTuple):
    """Small tables. Lists of processes hold their numbers.

    - runs: run, settled (every fate is known), doomed (and some view is forsaken), readers
      (the processes whose history has no hole)
    - processes: run, process, correct, ended (what is not in its history did not happen), holed,
      forsaken_from (the index from which on nothing is owed for what it broadcasts, or null)
    - views: run, view, members, survivors (the correct ones), forsaken (they are no majority)
    - cuts, if there are any: run, origin, broadcast (how many of its messages it had broadcast
      below its cut), had (how many of them each process had delivered below its own)
    """

    runs: DataFrame
    processes: DataFrame
    views: DataFrame
    cuts: DataFrame | None


class Ending(NamedTuple):
    """What the specification can say of a run from the ends of its histories alone."""

    run: int
    evidence: Evidence
    places: Mapping[str, int]

    @property
    def is_settled(self) -> bool:
        """Nothing that is missing can still come."""
        return not self.evidence.doubt_about_the_end

    @property
    def is_doomed(self) -> bool:
        """Some list lost its majority. Before a run has settled nobody asks what is owed."""
        return self.is_settled and any(map(self.is_forsaken, self.evidence.views))

    def is_forsaken(self, view: Members) -> bool:
        return len(self.survivors(view)) < majority(len(view))

    def survivors(self, view: Members) -> Members:
        return tuple(name for name in view if self.evidence.is_correct(name))

    def numbers(self, names: Iterable[str]) -> list[int]:
        return [self.places[name] for name in names]


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
        )
        for number in range(len(trace.manifests))
    ]


def ending_of(run: int, manifest: Manifest, lives: Mapping[str, Life]) -> Ending:
    """The end of one run, every history cut down to a stand-in for its last row."""
    histories = {name: [_last_row(name, life.last_kind)] for name, life in lives.items()}
    holed = frozenset(name for name, life in lives.items() if life.holed)
    places = {name: place for place, name in enumerate(ordered(manifest.names))}
    return Ending(run, Evidence(Run(manifest, histories, holed)), places)


def _last_row(process: str, last_kind: str) -> Row:
    # Only whether it is an ending matters; a message in it would be misread.
    kind: Any = last_kind if last_kind in ("settle", "crash", "leave") else "state"
    return Row(run="", process=process, index=0, kind=kind, time_ns=0)


def facts_of(spark: SparkSession, ended: Sequence[Ending], forsaken: Forsaken) -> Facts:
    return Facts(
        runs=_table(spark, _RUNS, map(_run_row, ended)),
        processes=_table(
            spark, _PROCESSES, (row for one in ended for row in _process_rows(one, forsaken))
        ),
        views=_table(spark, _VIEWS, (row for one in ended for row in _view_rows(one))),
        cuts=cuts_of(spark, ended),
    )


def cuts_of(spark: SparkSession, ended: Sequence[Ending]) -> DataFrame | None:
    rows = [row for one in ended if one.evidence.cuts for row in _cut_rows(one)]
    return _table(spark, _CUTS, rows) if rows else None


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
            "ended": evidence.has_told_all(name),
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
            "forsaken": ending.is_forsaken(view),
        }


def _cut_rows(ending: Ending) -> Iterator[dict[str, Any]]:
    sent, had = cut_off(ending)
    for origin, broadcast in enumerate(sent):
        of_origin = [delivered[origin] for delivered in had]
        yield {"run": ending.run, "origin": origin, "broadcast": broadcast, "had": of_origin}


def cut_off(ending: Ending) -> tuple[list[int], list[list[int]]]:
    """What was cut off: how many each process had broadcast, how many of each it had delivered."""
    evidence = ending.evidence
    cuts = {name: evidence.cuts.get(name, _NO_CUT) for name in ending.places}
    had = [
        [cut.delivered.get(origin, 0) if name in evidence.processes else 0 for origin in cuts]
        for name, cut in cuts.items()
    ]
    return [cut.broadcast for cut in cuts.values()], had


_NO_CUT = Cut(index=0)


def _table(spark: SparkSession, schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))
