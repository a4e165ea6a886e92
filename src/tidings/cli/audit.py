"""``tidings audit``: whether the guarantees held, from the trace alone."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.common import (
    AsJson,
    app,
    many,
    out,
    print_json,
    print_verdicts,
    result,
    say,
)
from tidings.cli.spark import Master, Remote, on_spark, refuse_both
from tidings.core import Exit, UsageError
from tidings.report import campaign_table
from tidings.spec import exit_status
from tidings.trace import Manifest, layout
from tidings.trace.layout import refuse_to_overwrite


class Checker(StrEnum):
    """Two judges, which have to agree."""

    ARRAYS = "arrays"
    SQL = "sql"


@app.command(epilog="Example: tidings audit runs/7")
def audit(
    path: Annotated[Path, typer.Argument(help="A trace: a folder, or one file of it.")],
    examples: Annotated[int, typer.Option(help="How many violations to explain.")] = 1,
    checker: Annotated[
        Checker, typer.Option(help="arrays: fast. sql: queries, an independent second opinion.")
    ] = Checker.ARRAYS,
    violations: Annotated[
        Path | None, typer.Option(help="Write all violations to this Parquet file.")
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Also measure costs and latencies, and write the tables to this folder."),
    ] = None,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Judge the five guarantees on any trace, on Spark.

    Exits 0 if they hold, 1 if one is violated, 2 if one cannot be judged, 65 if the trace is bad.
    """
    audited = audit_on_spark(
        path, examples, checker, violations, tables, master=master, remote=remote
    )
    status = exit_status([verdict for run in audited.verdicts.values() for verdict in run])
    if as_json:
        print_json(
            {
                "rows": audited.rows,
                "runs": [
                    result(audited.manifests[run], verdicts)
                    for run, verdicts in audited.verdicts.items()
                ],
            }
        )
    else:
        many_runs = len(audited.verdicts) > 1
        runs = many(len(audited.verdicts), "run")
        say(f"{audited.rows:,} rows of {runs} audited on Spark")
        if many_runs:
            out.print(campaign_table(audited.verdicts))
            cut = sum(bool(manifest.cuts) for manifest in audited.manifests.values())
            if cut:
                say(f"judged from the cut on: {many(cut, 'run')}")
        for run, verdicts in audited.verdicts.items():
            if not many_runs or exit_status(verdicts) is Exit.VIOLATED:
                manifest = audited.manifests[run]
                print_verdicts(manifest, verdicts, folder=path, is_one_of_many=many_runs)
                if status is Exit.UNKNOWN and is_unsettled(path, manifest):
                    say(f"To say how it ended: tidings settle {path} --help")
    raise typer.Exit(status)


def is_unsettled(path: Path, manifest: Manifest) -> bool:
    """Whether nodes wrote it, and nobody has said yet what became of them."""
    return bool(layout(path).segments) and not manifest.fates


def audit_on_spark(
    path: Path,
    examples: int,
    checker: Checker = Checker.ARRAYS,
    violations: Path | None = None,
    tables: Path | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
) -> Any:
    """Judge a trace, and measure it if asked to."""
    if examples < 0:
        raise UsageError("--examples takes 0 or more")
    refuse_both(master, remote)
    layout(path)  # what is not there at all is said before Spark starts
    if tables is not None:
        refuse_to_overwrite(tables)
    with on_spark(master, remote) as (spark, progress):
        from tidings import pipeline

        audited = pipeline.audit(
            spark,
            path,
            examples=examples,
            progress=progress,
            checker=checker.value,
            violations=violations,
        )
        if tables is not None:
            pipeline.write_tables(spark, path, tables, progress=progress)
        return audited
