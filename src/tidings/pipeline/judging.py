"""The verdicts on a whole trace: counted on Spark, stated by the specification's own words.

There are two judges. The fast one works by arrays (``arrays``). The other, in
queries (``queries.checks``), is the oracle for the first, judges the rare trace that does not suit
arrays, and knows which row it is when any row is bad.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidings.core import Members, UsageError
from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.findings import Judged
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.plan import (
    JudgingPlan,
    NotByArraysError,
    judge_by_arrays,
    plan_of,
)
from tidings.pipeline.arrays.rows import BadRowsError, UnreadableError
from tidings.pipeline.arrays.written import (
    empty,
    not_shared,
    rows_in,
    whole_folder,
)
from tidings.pipeline.progress import Progress, Show, silent
from tidings.pipeline.queries.case import Case, breaches, examine
from tidings.pipeline.queries.case import violations as every_violation
from tidings.pipeline.queries.causes import largest_causes, with_roots
from tidings.pipeline.queries.checks import CHECKS, no_creation
from tidings.pipeline.queries.ingest import corrupt_files_named, ingest
from tidings.pipeline.sources.door import TIDINGS, Source, opened
from tidings.pipeline.sources.logged import add_log
from tidings.pipeline.sources.lookup import log_of
from tidings.pipeline.spark.exchange import exchanging
from tidings.pipeline.spark.grouped import judge_grouped
from tidings.pipeline.spark.naming import naming_jobs
from tidings.pipeline.spark.session import is_here
from tidings.pipeline.spark.spool import spool_for, unseen
from tidings.pipeline.spark.workers import UnseenError, performing
from tidings.pipeline.statement import (
    Audit,
    Doubts,
    Shown,
    cause_of,
    doubt_about_broadcasts,
    five,
    stated,
    violation_of,
)
from tidings.spec import Cause, Guarantee, Verdict, from_the_cut_on
from tidings.spec.evidence import Evidence
from tidings.spec.verdict import judged_as
from tidings.trace import layout, read_manifests
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.layout import refuse_to_overwrite
from tidings.trace.spooling import corrupt, fill, spooled

Checker = Literal["arrays", "sql"]


class CountedCauses(NamedTuple):
    """How many causes each guarantee has in a run, and the largest of them, that one first."""

    counts: Sequence[int]
    causes: list[Cause]


Largest = dict[int, CountedCauses]
NO_CAUSES = CountedCauses([0] * len(Guarantee), [])


@naming_jobs
def audit(
    spark: SparkSession,
    source: Source,
    mapping: LogMapping | Path | str | None = None,
    *,
    format: str = TIDINGS,  # noqa: A002 - as Spark's own readers call it
    options: Mapping[str, str] | None = None,
    manifest: Path | str | None = None,
    spool: Path | None = None,
    examples: int | None = 3,
    progress: Show = silent,
    checker: Checker = "arrays",
    violations: Path | None = None,
    limits: JudgingLimits | None = None,
) -> Audit:
    """All five verdicts on every run, each with its first few violations, or with all (None).

    The source is a trace (a path or a URI), a DataFrame, or what Spark reads in the ``format`` with
    these ``options``; a log needs a ``mapping``. All violations also become a table: Parquet files
    in the new folder ``violations``, if given.
    """
    if spool is not None and is_here(spark):
        raise UsageError("--spool is for the workers of a cluster; here TMPDIR says where")
    with ExitStack() as stack:
        draft = None
        if violations is not None:
            refuse_to_overwrite(violations)
            draft = stack.enter_context(whole_folder(violations))
        trace = stack.enter_context(
            opened(
                spark,
                source,
                mapping,
                form=format,
                options=options,
                manifest=manifest,
                spool=spool,
                progress=progress,
            )
        )
        audited = _audit_trace(spark, trace, examples, progress, checker, draft, limits)
        if violations is not None and draft is not None:
            _expect_all(audited, draft, violations)
            add_log(spark, trace, audited.manifests, draft)
        log = log_of(trace, audited.manifests, audited.verdicts)
        return msgspec.structs.replace(audited, log=log)


def _audit_trace(
    spark: SparkSession,
    path: Path,
    examples: int | None,
    progress: Show,
    checker: Checker,
    violations: Path | None,
    limits: JudgingLimits | None,
) -> Audit:
    if checker == "arrays":
        try:
            return _audit_by_arrays(spark, path, examples, progress, violations, limits)
        except NotByArraysError as obstacle:
            progress(f"not by arrays, but by queries: {obstacle}")
    with examine(spark, path, progress=progress) as case:
        if violations is not None:
            empty(violations)
            progress("writing all that was violated")
            found = every_violation(case).write.mode("append").option("compression", "zstd")
            found.parquet(str(violations))
        return Audit(
            rows=case.rows,
            manifests=case.manifests,
            verdicts=judge(case, examples=examples, progress=progress),
        )


def _expect_all(audited: Audit, draft: Path, folder: Path) -> None:
    """Workers that do not share the folder with us have written somewhere else."""
    violated = sum(one.violated for five in audited.verdicts.values() for one in five)
    if (written := rows_in(draft)) != violated:
        raise not_shared(folder, f"{written} of {violated} violations arrived")


def _audit_by_arrays(
    spark: SparkSession,
    path: Path,
    examples: int | None,
    progress: Show,
    violations: Path | None,
    limits: JudgingLimits | None,
) -> Audit:
    files = layout(path)
    progress("reading the manifest and the footers")
    manifests = read_manifests(files.manifests)
    with spool_for(spark, path) as spool:
        sources = fill(spool, files, manifests)
        paths = [spooled(spool, number).resolve() for number in range(len(sources))]
        most = None if examples is None else max(examples, 1)
        try:
            plan = plan_of(paths, manifests, limits or JudgingLimits())
            progress(plan.why)
            with corrupt_files_named(sources):
                judged = judge_plan(spark, plan, spool, most, progress, violations)
        except UnreadableError as fault:
            raise corrupt(sources[paths.index(Path(fault.path))]) from None
        except UnseenError as fault:
            raise unseen(sources[paths.index(Path(fault.path))], str(fault)) from None
        except TooLongError:
            raise NotByArraysError("a long run among many") from None
        except BadRowsError:
            progress("looking for the first bad row")
            again = Path(spool, "again")
            again.mkdir()
            ingest(spark, path, again)
            raise AssertionError(
                f"{path}: bad rows for one reader, good ones for the other"
            ) from None
    return stated(judged, manifests, plan.directory, examples, violations)


def judge_plan(
    spark: SparkSession,
    plan: JudgingPlan,
    spool: Path,
    most: int | None,
    progress: Show = silent,
    violations: Path | None = None,
) -> Judged:
    judged = judge_by_arrays(
        plan,
        performing(spark),
        most,
        exchange=exchanging(spark, plan.limits.batch_bytes),
        progress=Progress.of(progress),
        marks=spool / "_marks",
        violations=violations,
    )
    if judged is None:
        progress("runs lie scattered: bringing each of them together")
        if violations is not None:
            empty(violations)
        judged = judge_grouped(spark, plan, spool, most, violations)
    return judged


@naming_jobs
def judge(
    case: Case, *, examples: int | None = 3, progress: Show = silent
) -> dict[str, tuple[Verdict, ...]]:
    """The five verdicts on each run of an open case."""
    progress = Progress.of(progress)
    progress("judging the five guarantees")
    progress.expect(case.rows)
    counts = {row.run: row for row in counted(case.events()).collect()}
    shown: Shown = {}
    largest: Largest = {}
    violated: list[tuple[int, Guarantee]] = [
        (run, one) for run, row in counts.items() for one in Guarantee if row[one].violated
    ]
    if violated:
        progress("looking for the events that show what was violated")
        shown, largest = _first_violations(case, violated, examples)
    of_views = _views(case, shown, examples)
    return {
        ending.evidence.run.manifest.run: from_the_cut_on(
            five(
                [
                    *_counts(counts.get(ending.run), largest.get(ending.run, NO_CAUSES).counts),
                    (ending.evidence.agreed.rows, 0, of_views.get(ending.run, 0), 0),
                ],
                _doubts(case.trace.names[ending.run], ending.evidence, counts.get(ending.run)),
                shown.get(ending.run, {}),
                examples,
                largest.get(ending.run, NO_CAUSES).causes,
            ),
            ending.evidence.cuts,
            examples,
        )
        for ending in case.endings
    }


def verdicts(case: Case) -> DataFrame:
    """The verdicts on an open case, by the queries, as a ``verdict_table``."""
    return verdict_table(case.spark, judge(case, examples=0))


def verdict_table(spark: SparkSession, verdicts: Mapping[str, tuple[Verdict, ...]]) -> DataFrame:
    """The verdicts as a table: run, and the columns of a verdict but for its violations."""
    columns = ("guarantee", "value", "judged", "not_owed", "violated", "causes", "reason", "note")
    rows = [
        {"run": run} | {column: getattr(verdict, column) for column in columns}
        for run, five in verdicts.items()
        for verdict in five
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows))


def counted(events: DataFrame) -> DataFrame:
    """For each run and guarantee how much was judged, not owed and violated, in one pass.

    Columns: run, one struct for each guarantee, and ``unreached``: the first delivery whose
    broadcast the origin's history does not reach, if any.
    """
    first_unreached = F.min(
        F.when(no_creation.is_unreached(), F.struct("process", "index", "origin", "seq"))
    )
    sums = [
        F.struct(
            _sum(counts.judged).alias("judged"),
            _sum(counts.not_owed).alias("not_owed"),
            _sum(counts.violated).alias("violated"),
        ).alias(guarantee.value)
        for guarantee, counts in ((one, check.counts()) for one, check in CHECKS.items())
    ]
    return events.groupBy("run").agg(*sums, first_unreached.alias("unreached"))


def _sum(count: Column | None) -> Column:
    if count is None:
        return F.lit(0)
    return F.coalesce(F.sum(count.cast("bigint")), F.lit(0))


def _first_violations(
    case: Case, violated: list[tuple[int, Guarantee]], examples: int | None
) -> tuple[Shown, Largest]:
    """The first few violations of each guarantee that is violated, by process and place.

    And what they follow from.
    """
    runs = {run for run, _ in violated}
    guarantees = {guarantee for _, guarantee in violated}
    events = case.events(sorted(runs)).persist()
    rooted = with_roots(breaches(events, sorted(guarantees)), events).persist()
    shown: Shown = {}
    _show(case, rooted, shown, examples)
    causes = largest_causes(rooted).collect()
    rooted.unpersist()
    events.unpersist()
    return shown, _largest(case, causes)


def _show(case: Case, found: DataFrame, shown: Shown, examples: int | None) -> None:
    in_order = Window.partitionBy("run", "guarantee").orderBy("process", "witness", "origin", "seq")
    first = (
        found.withColumn("rank", F.row_number().over(in_order))
        .where(F.lit(True) if examples is None else F.col("rank") <= max(examples, 1))
        .collect()
    )
    for row in sorted(first, key=lambda row: int(row["rank"])):
        guarantee = judged_as(row.guarantee)
        cause, root = (row.cause_origin, row.cause_seq), (row.root_origin, row.root_seq)
        violation = violation_of(
            guarantee,
            case.trace.names[row.run],
            row.process,
            (row.origin, row.seq),
            ((at["process"], at["index"]) for at in row.witness),
            cause if row.cause_origin is not None else None,
            root if row.root_origin is not None else None,
            row.note or "",
        )
        shown.setdefault(row.run, {}).setdefault(guarantee, []).append(violation)


def _views(case: Case, shown: Shown, examples: int | None) -> dict[int, int]:
    """How often agreed views are violated in each run; the first of these are shown, too."""
    found = case.breaches_of_views()
    if found is None:
        return {}
    found = found.persist()
    counts = {row.run: row["count"] for row in found.groupBy("run").count().collect()}
    if counts:
        nothing = F.lit(None)
        roots = {"root_origin": nothing.cast("smallint"), "root_seq": nothing.cast("bigint")}
        _show(case, found.withColumns(roots), shown, examples)
    found.unpersist()
    return counts


def _largest(case: Case, rows: list[Any]) -> Largest:
    largest: Largest = {}
    for row in rows:
        violated, counts = (
            [row[f"{what}_{number}"] for number in range(len(Guarantee))]
            for what in ("violated", "causes")
        )
        names, message = case.trace.names[row.run], (row.root_origin, row.root_seq)
        cause = cause_of(names, row.process, message, violated)
        largest.setdefault(row.run, CountedCauses(counts, [])).causes.append(cause)
    return largest


def _counts(row: Any, causes: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Judged, not owed, violated, causes: of each guarantee, in a run that may have no rows."""
    if row is None:
        return [(0, 0, 0, 0)] * len(Guarantee)
    return [
        (row[one].judged, row[one].not_owed, row[one].violated, count)
        for one, count in zip(Guarantee, causes, strict=True)
    ]


def _doubts(names: Members, evidence: Evidence, counts: Any) -> Doubts:
    """Why the guarantees of a run cannot be judged to the end, if so."""
    broadcasts = histories = evidence.doubt_about_histories
    if not histories and counts is not None and counts.unreached is not None:
        broadcasts = doubt_about_broadcasts(names, counts.unreached.origin, counts.unreached.seq)
    return histories, broadcasts, evidence.doubt_about_the_end
