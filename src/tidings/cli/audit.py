"""Judging a trace: ``tidings audit``, and ``tidings report``, which tells it on a page.

The pipeline is imported late: everything else works without Spark.
"""

import logging
import shlex
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn
from urllib.parse import unquote, urlsplit

import typer

from tidings.campaign.folder import is_campaign, opened
from tidings.cli.common import (
    AsJson,
    app,
    err,
    out,
    print_json,
    print_verdicts,
    progress_line,
    result,
    say,
)
from tidings.core import Exit, UsageError
from tidings.core.likeness import did_you_mean
from tidings.disk.files import refuse_unwritable, whole_file
from tidings.report import campaign_table, many
from tidings.report.page import Page, page_of_trace, render
from tidings.report.page.from_trace import MOST_ROWS, entries_of
from tidings.spec import exit_status
from tidings.trace import Run, foreign, layout, read_manifests, read_runs, refuse_to_overwrite
from tidings.trace.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.pipeline import Audit, Progress

Master = Annotated[
    str | None, typer.Option(help="A Spark cluster, spark://host:port; by default this machine.")
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:port.")]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--source-option", help="Of Spark's reader: key=value. May be repeated."),
]
MappingFile = Annotated[
    Path | None, typer.Option(help="What the columns of a log mean: see tidings ingest.")
]
ManifestFile = Annotated[
    str | None, typer.Option(help="The manifest of rows that have the columns of a trace.")
]
HistoryFolder = Annotated[
    Path | None, typer.Option(help="Append the verdicts to the history in this folder.")
]

FORMATS = ("tidings", "parquet", "delta", "iceberg", "json", "csv", "kafka")
"""Those that the help names; any other that Spark has a reader for will do."""
EVERY_S = 5.0
"""How often it is told where there is no terminal."""


def options_of(given: Sequence[str] | None) -> dict[str, str]:
    """The options of Spark's reader, as key=value."""
    for one in given or ():
        if "=" not in one:
            raise UsageError("--source-option takes key=value")
    return dict(one.split("=", 1) for one in given or ())


_OF_ALL_FILES = (
    *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
    *("ignoremissingfiles", "ignorecorruptfiles", "linesep"),
)


def refuse_unread(options: Mapping[str, str], logs: Sequence[str], form: str | None) -> None:
    """The lines of a log are read as the mapping says: Spark would ignore how to take them apart.

    What has a dot in its name is for Hadoop, which finds the files.
    """
    is_by_name = form is None and not any(log.endswith(".parquet") for log in logs)
    if is_by_name or form in ("csv", "json"):
        for key in options:
            if "." not in key and key.lower() not in _OF_ALL_FILES:
                raise UsageError(
                    f"--source-option {key} does nothing here: lines are read as the mapping says"
                )


def refuse_misspelt(form: str | None) -> None:
    """Only Spark knows all its readers, but a slip of the pen is reported before it starts.

    ``geojson`` or ``my.Reader`` is none.
    """
    if form is None or "." in form or form.lower().endswith(FORMATS):
        return
    if meant := did_you_mean(form, FORMATS):
        raise UsageError(f"unknown format {form!r}{meant}")


def refuse_missing(logs: Sequence[str], form: str | None) -> None:
    """What is not there at all is reported before Spark starts."""
    for log in logs:
        is_pattern = any(letter in log for letter in "*?[")
        if form is None and "://" not in log and not is_pattern and not Path(log).is_file():
            raise UsageError(f"{log}: no such file")


def refuse_both(master: str | None, remote: str | None) -> None:
    if master is not None and remote is not None:
        raise UsageError("--master or --remote, not both")


def refuse_without_spark() -> None:
    """Where it is not installed, nothing is begun that only Spark could go on with."""
    from tidings.pipeline import session as session


@contextmanager
def on_spark(
    master: str | None = None, remote: str | None = None
) -> Iterator[tuple["SparkSession", "Progress"]]:
    """A session, and the progress that is shown as long as the block lasts."""
    # py4j logs an interruption with its stack; a root logger with a handler is not given another.
    logging.getLogger().addHandler(logging.NullHandler())
    with progress_line("looking for Spark and Java", EVERY_S, quiet_s=0.0) as show:
        from tidings import pipeline

        progress = pipeline.Progress(show)
        with (
            pipeline.session(master=master, remote=remote, progress=progress) as spark,
            progress.following(pipeline.tasks_of(spark)),
        ):
            yield spark, progress


# --- the verdicts


def _refuse_with_local(needing_spark: Mapping[str, bool]) -> None:
    for option, is_given in needing_spark.items():
        if is_given:
            raise UsageError(f"{option} needs Spark: leave out --local")


def _refuse_idle(given: Mapping[str, bool], why: str) -> None:
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} does nothing here: {why}")


def _refuse_bad_manifest(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    read_manifests((path,))


def _refuse_one_in_the_other(violations: Path | None, tables: Path | None) -> None:
    if violations is not None and tables is not None:
        inner, outer = violations.resolve(), tables.resolve()
        if outer in (inner, *inner.parents):
            raise UsageError("--tables needs a folder of its own, without that of --violations")


def _judged_here(path: Path, examples: int, violations: Path | None) -> "Audit":
    with progress_line("reading the trace", every_s=EVERY_S) as show:
        from tidings import pipeline

        progress = pipeline.Progress(show)
        progress("reading the trace")
        with progress.following():
            return pipeline.audit_here(
                path, examples=examples, progress=progress, violations=violations
            )


@app.command(epilog="Example: tidings audit runs/7")
def audit(
    source: Annotated[
        str,
        typer.Argument(help="A trace: a folder, one file of it, or a URI. Or what --format reads."),
    ],
    form: Annotated[
        str,
        typer.Option("--format", help="tidings, parquet, delta, iceberg, json, csv or kafka."),
    ] = "tidings",
    mapping: MappingFile = None,
    source_option: SourceOption = None,
    manifest: ManifestFile = None,
    spool: Annotated[
        Path | None, typer.Option(help="A folder that all workers share, for rows to be laid out.")
    ] = None,
    examples: Annotated[int, typer.Option(help="How many violations to explain.")] = 1,
    checker: Annotated[
        Literal["arrays", "sql"],
        typer.Option(help="arrays: fast. sql: queries, an independent second opinion."),
    ] = "arrays",
    violations: Annotated[
        Path | None, typer.Option(help="Write all violations to this folder, as Parquet.")
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Also measure costs and latencies, and write the tables to this folder."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Judge in this process, without Spark and Java.")
    ] = False,
    history: HistoryFolder = None,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Judge the five guarantees on any trace, or on any log with a mapping.

    It is judged on Spark or, with --local, without it.

    A trace elsewhere: tidings audit s3a://bucket/runs/7

    A table with the columns of a trace: tidings audit /lake/trace --format delta

    A log: tidings audit "logs/*.jsonl" --format json --mapping mapping.toml

    A topic: tidings audit orders --format kafka --mapping mapping.toml
    --source-option kafka.bootstrap.servers=host:9092

    Exits 0 if they hold, 1 if one is violated, 2 if one cannot be judged, 65 if the trace is bad.
    """
    if examples < 0:
        raise UsageError("--examples takes 0 or more")
    refuse_both(master, remote)
    refuse_misspelt(form)
    uri = urlsplit(source)
    if local and uri.scheme == "file":
        source = unquote(uri.path)
    is_trace = form == "tidings" and mapping is None and "://" not in source
    path, options = Path(source), options_of(source_option)
    has_manifest = {"--manifest": manifest is not None}
    if is_trace:
        idle = {"--source-option": bool(options), "--spool": spool is not None}
        _refuse_idle(idle | has_manifest, "the trace is read where it lies, with its own manifest")
    elif mapping is not None:
        _refuse_idle(has_manifest, "the mapping says what is known of a log")
    elif form == "tidings":
        _refuse_idle(has_manifest, "a trace has its own")
    files = _looked_at(path) if is_trace else None
    if tables is not None and not is_trace:
        raise UsageError("--tables measures a trace; make one of it first: tidings ingest")
    _refuse_one_in_the_other(violations, tables)
    if history is not None:
        from tidings.pipeline.history import append, measured_in, refuse_no_history

        refuse_no_history(history)
    begin_s = time.monotonic()
    for folder in (violations, tables):
        if folder is not None:
            refuse_to_overwrite(folder)
            refuse_unwritable(folder)
    if local:
        _refuse_with_local(
            {
                "--checker sql": checker == "sql",
                "--tables": tables is not None,
                "--master": master is not None,
                "--remote": remote is not None,
                "what is not a trace on this machine": not is_trace,
            }
        )
        audited = _judged_here(path, examples, violations)
    else:
        known = foreign.read_mapping(mapping) if mapping is not None else None
        if known is not None:
            given = None if form == "tidings" else form
            refuse_unread(options, [source], given)
            refuse_missing([source], given)
        if manifest is not None and "://" not in manifest:
            _refuse_bad_manifest(Path(manifest))
        untold = ""
        with on_spark(master, remote) as (spark, progress):
            from tidings import pipeline

            audited = pipeline.audit(
                spark,
                source,
                known,
                format=form,
                options=options,
                manifest=manifest,
                spool=spool,
                examples=examples,
                progress=progress,
                checker=checker,
                violations=violations,
            )
            if tables is not None:
                pipeline.write_tables(spark, path, tables, progress=progress)
                untold = pipeline.measures.unmeasured(path)
        if untold:
            err.print(untold, soft_wrap=True)
    status = _status(audited)
    if history is not None:
        took_s = time.monotonic() - begin_s
        measured = measured_in(tables) if tables is not None else {}
        append(history, "audit", source, audited.verdicts, took_s, audited.rows, measured)
    if as_json:
        runs = [
            result(audited.manifests[run], of_run)
            | {"log": {str(what): words for what, words in audited.log.get(run, {}).items()}}
            for run, of_run in audited.verdicts.items()
        ]
        print_json({"rows": audited.rows, "runs": runs})
        raise typer.Exit(status)
    is_many = len(audited.verdicts) > 1
    where = "here" if local else "on Spark"
    say(f"{audited.rows:,} rows of {many(len(audited.verdicts), 'run')} judged {where}")
    if is_many:
        out.print(campaign_table(audited.verdicts))
        if cut := sum(bool(one.cuts) for one in audited.manifests.values()):
            say(f"judged from the cut on: {many(cut, 'run')}")
    for run, verdicts in audited.verdicts.items():
        if not is_many or exit_status(verdicts) is Exit.VIOLATED:
            known_run = audited.manifests[run]
            folder = path if is_trace else None
            print_verdicts(
                known_run,
                verdicts,
                folder=folder,
                is_one_of_many=is_many,
                log=audited.log.get(run, {}),
            )
            # Nodes wrote it, and nobody has said yet what became of them.
            is_of_nodes = files is not None and files.segments
            if status is Exit.UNKNOWN and is_of_nodes and not known_run.fates:
                say(f"To say how it ended: tidings settle {path} --help")
    raise typer.Exit(status)


def _looked_at(path: Path) -> Layout:
    """What is wrong with the manifest, or not there at all, is said before Spark starts."""
    files = layout(path)
    read_manifests(files.manifests)
    return files


def _status(audited: "Audit") -> Exit:
    return exit_status([verdict for of_run in audited.verdicts.values() for verdict in of_run])


# --- the page

PAGE = "report.html"
HISTORY = "history.json"
"""By this file a history is recognised without the libraries that read it."""


@app.command(epilog="Example: tidings report runs/7 --open")
def report(
    path: Annotated[Path, typer.Argument(help="A trace, or the folder of a campaign.")],
    file: Annotated[
        Path | None,
        typer.Option("--out", help=f"The page to write, a .html file; by default PATH/{PAGE}."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Without Spark and Java; nothing is measured.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Audit a trace on Spark and write one HTML page: verdicts, costs, latencies, pictures.

    Of a history (audit --history) it draws what is there, and audits nothing. The page opens
    offline. Exits as audit does, with the verdict.
    """
    refuse_both(master, remote)
    if local:
        _refuse_with_local({"--master": master is not None, "--remote": remote is not None})
    if file is not None and (file.suffix not in (".html", ".htm") or file.is_dir()):
        raise UsageError(f"--out takes a .html file, not {file}")
    target = file or (path.parent if path.is_file() else path) / PAGE
    where = ["--out", str(file)] if file else []
    how = shlex.join(["tidings", "report", str(path), *where, *(["--local"] if local else [])])
    refuse_unwritable(target)
    if (path / HISTORY).is_file():
        _report_history(path, target, as_json, open_)
    if is_campaign(path):
        # It is complete: all numbers are there, and nothing is run or judged again.
        from tidings.campaign.page import page_of, status_of

        folder = opened(path)
        page, status = page_of(folder, how), status_of(folder)
    else:
        page, audited = audited_page(path, how, master, remote, local=local)
        status = _status(audited)
    size = write_page(page, target)
    if as_json:
        print_json({"answer": page.answer, "value": page.value.value, "page": str(target)})
    else:
        say(f"{page.answer}\npage   {target}: {size / 1000:,.0f} kB")
    if open_:
        open_page(target)
    raise typer.Exit(status)


def _report_history(path: Path, target: Path, as_json: bool, open_: bool) -> NoReturn:
    """It exits with the newest verdict."""
    from tidings.pipeline.history import entries, newest
    from tidings.report.over_time import answer, history_page

    found = entries(path)
    value = newest(found)
    with whole_file(target) as draft:
        draft.write_text(history_page(found, value, path.name), encoding="utf-8")
    if as_json:
        print_json({"answer": answer(found, value), "value": value.value, "page": str(target)})
    else:
        say(f"{answer(found, value)}\npage   {target}")
    if open_:
        open_page(target)
    raise typer.Exit(Exit[value.name])


def audited_page(
    path: Path,
    how: str,
    master: str | None = None,
    remote: str | None = None,
    *,
    runs: Sequence[Run] | None = None,
    local: bool = False,
) -> tuple[Page, "Audit"]:
    """The page of a trace with all that it tells, judged and measured in one session.

    ``how`` is the command that makes it again, ``runs`` the trace, if it is in memory already.
    Without Spark (``local``) nothing is measured.
    """
    _looked_at(path)
    if local:
        audited, measured = _judged_here(path, examples=1, violations=None), None
    else:
        with on_spark(master, remote) as (spark, progress):
            from tidings import pipeline

            audited = pipeline.audit(spark, path, examples=1, progress=progress)
            entries = entries_of(audited.manifests)
            measured = pipeline.overview(spark, path, entries, progress=progress)
    rows, manifests, verdicts = audited.rows, audited.manifests, audited.verdicts
    if runs is None:
        runs = read_runs(path) if rows <= MOST_ROWS else []
    page = page_of_trace(path, rows, manifests, verdicts, runs, measured, how, log=audited.log)
    return page, audited


def write_page(page: Page, out: Path) -> int:
    """All of it or nothing; how many characters it has."""
    text = render(page)
    with whole_file(out) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")
    return len(text)


def open_page(out: Path) -> None:
    if not webbrowser.open(out.resolve().as_uri()):
        err.print("No browser could be opened.")
