"""A trace opened for judgement: every table that a notebook or the audit may ask for."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.progress import Show, silent
from tidings.pipeline.queries.causes import with_roots
from tidings.pipeline.queries.checks import CHECKS, views
from tidings.pipeline.queries.evidence import known_events, with_messages
from tidings.pipeline.queries.facts import Facts, endings, facts_of, first_forsaken
from tidings.pipeline.queries.ingest import Trace, ingest
from tidings.pipeline.spark.naming import jobs_named
from tidings.pipeline.spark.spool import spool_for
from tidings.spec import Guarantee
from tidings.spec.endings import Ending
from tidings.spec.table import shown_by_cuts
from tidings.trace import Manifest


class Case(NamedTuple):
    """A checked trace and what is known about its runs; the large tables are made on demand."""

    spark: SparkSession
    trace: Trace
    endings: Sequence[Ending]
    facts: Facts

    def events(self, runs: Sequence[int] | None = None) -> DataFrame:
        """``evidence.known_events`` of all runs, or of these."""
        rows = self.trace.rows
        if runs is not None:
            rows = rows.where(F.col("run").isin(list(runs)))
        return known_events(rows, self.facts, self.trace.width)

    def breaches_of_views(self) -> DataFrame | None:
        """The same rows as ``breaches``, of agreed views; None if no run has any."""
        changing = [ending.run for ending in self.endings if ending.evidence.agreed]
        rows = self.trace.rows.where(F.col("run").isin(changing))
        events = with_messages(rows, self.trace.width, self.facts.cuts)
        return views.violations(self.spark, rows, events, self.endings)

    @property
    def manifests(self) -> dict[str, Manifest]:
        return {manifest.run: manifest for manifest in self.trace.manifests}

    @property
    def rows(self) -> int:
        """How many rows were read and checked."""
        return sum(life.rows for life in self.trace.lives.values())


@contextmanager
def examine(spark: SparkSession, path: Path | str, *, progress: Show = silent) -> Iterator[Case]:
    """Open a trace, or refuse it; its tables live as long as the block."""
    with spool_for(spark, Path(path)) as spool:
        with jobs_named(spark, progress) as progress:
            progress("reading the trace and checking every row")
            trace = ingest(spark, Path(path), spool)
            ended = endings(trace)
            facts = facts_of(spark, ended, forsaken={})
            if any(ending.is_doomed for ending in ended):
                progress("following what was lost with a majority")
                met = with_messages(trace.rows, trace.width, facts.cuts)
                facts = facts_of(spark, ended, first_forsaken(spark, met, facts))
        yield Case(spark, trace, ended, facts)


def breaches(events: DataFrame, guarantees: Iterable[Guarantee] = tuple(Guarantee)) -> DataFrame:
    """Every violation of these guarantees, in numbers: the rows of ``checks.schema.VIOLATIONS``."""
    return reduce(
        DataFrame.unionByName, (CHECKS[guarantee].violations(events) for guarantee in guarantees)
    )


def violations(case: Case) -> DataFrame:
    """Every violation, with names for the numbers."""
    labels = [
        {"run": number, "label": manifest.run, "names": list(case.trace.names[number])}
        for number, manifest in enumerate(case.trace.manifests)
    ]
    schema = pa.schema({"run": pa.int32(), "label": pa.string(), "names": pa.list_(pa.string())})
    labelled = case.spark.createDataFrame(pa.Table.from_pylist(labels, schema=schema))
    shown = shown_by_cuts(case.trace.manifests)
    events = case.events()
    found = (
        with_views(case, with_roots(breaches(events), events))
        .join(F.broadcast(labelled), "run", "inner")
        .select(
            F.col("label").alias("run"),
            "guarantee",
            F.get("names", "process").alias("process"),
            F.get("names", "origin").alias("origin"),
            "seq",
            F.get("names", "cause_origin").alias("cause_origin"),
            "cause_seq",
            F.get("names", "root_origin").alias("root_origin"),
            "root_seq",
            F.transform("witness", _named_place).alias("witness"),
            "note",
        )
    )
    return found.unionByName(case.spark.createDataFrame(shown)) if len(shown) else found


def with_views(case: Case, rooted: DataFrame) -> DataFrame:
    """Those of agreed views as well, which have no roots."""
    of_views = case.breaches_of_views()
    if of_views is None:
        return rooted
    return rooted.unionByName(of_views, allowMissingColumns=True)


def _named_place(place: Column) -> Column:
    name = F.get("names", place["process"])
    return F.struct(name.alias("process"), place["index"].alias("index"))
