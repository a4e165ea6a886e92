"""``tidings ingest``: the log of any other system as a trace."""

import shlex
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from tidings.cli.audit import (
    Master,
    Remote,
    SourceOption,
    on_spark,
    options_of,
    refuse_both,
    refuse_missing,
    refuse_misspelt,
    refuse_unread,
)
from tidings.cli.common import AsJson, app, print_json, say
from tidings.core import UsageError
from tidings.disk.files import refuse_unwritable
from tidings.report import listed, many
from tidings.trace import Fate, foreign, refuse_to_overwrite


@app.command(epilog="Example: tidings ingest logs/*.jsonl --mapping mapping.toml --out runs/mine")
def ingest(
    logs: Annotated[
        list[str], typer.Argument(help="The log: .jsonl, .csv or .parquet files, or URIs.")
    ],
    mapping: Annotated[Path, typer.Option(help="A TOML file: what the columns mean.")],
    folder: Annotated[Path, typer.Option("--out", help="A new folder for the trace.")],
    settled: Annotated[
        str | None,
        typer.Option(help="Processes up at the end, when nothing more could come: all, or p1,p2."),
    ] = None,
    fate: Annotated[
        list[str] | None,
        typer.Option(help="What became of a process: p3=crashed (or up, left). May be repeated."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="json, csv, parquet, delta, kafka, ...; by default by name."),
    ] = None,
    source_option: SourceOption = None,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep the texts of messages in the trace.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Make a trace of the log of any other system, on Spark, for tidings audit.

    The mapping says what the columns of the log mean (docs/audit-your-broker.md). The log, the
    mapping, --settled or --fate must say how processes ended; otherwise verdicts are unknown. Exits
    65 for a bad row or a mistake in the mapping, named with its file and line.

    If all but p3 were up at the end: --settled all --fate p3=crashed
    """
    refuse_both(master, remote)
    refuse_misspelt(form)
    completed = with_ends(foreign.read_mapping(mapping), settled, fate)
    options = options_of(source_option)
    refuse_unread(options, logs, form)
    refuse_to_overwrite(folder)
    refuse_unwritable(folder)
    refuse_missing(logs, form)
    with on_spark(master, remote) as (spark, progress):
        from tidings import pipeline

        done = pipeline.ingest(
            spark,
            logs,
            completed,
            folder,
            form=form,
            options=options,
            keeps_text=keep_text,
            progress=progress,
        )
    if as_json:
        print_json(msgspec.to_builtins(done) | {"trace": str(folder)})
    else:
        _print(done, len(logs), completed.columns.text, folder)


def with_ends(
    mapping: foreign.Mapping, settled: str | None, fate: list[str] | None
) -> foreign.Mapping:
    names = [name for name in (settled or "").split(",") if name]
    return foreign.with_end(mapping, names, dict(map(_fate, fate or ())))


def _fate(text: str) -> tuple[str, Fate]:
    name, _, fate = text.rpartition("=")
    if not name or fate not in get_args(Fate):
        raise UsageError(f"--fate takes p3=crashed, p3=left or p3=up, not {text!r}")
    return name, fate  # type: ignore[return-value]


def _print(done: Any, files: int, text: str, folder: Path) -> None:
    say(f"read   {many(files, 'file')}, {many(done.read, 'row')}, {done.ignored:,} of them ignored")
    say(
        f"trace  {folder}: {many(done.rows, 'row')} of {many(len(done.manifests), 'run')}, "
        f"{many(done.kinds.get('broadcast', 0), 'broadcast')}, "
        f"{many(done.kinds.get('deliver', 0), 'delivery')}"
    )
    groups = {one.members for one in done.manifests}
    say(f"group  {', '.join(*groups) if len(groups) == 1 else 'not the same in all runs'}")
    if text == "@id":
        say("texts  not in the log: whether they were altered on the way is not judged")
    for run, names in [one for one in done.untold.items() if one[1]][:1]:
        say(
            f"end    of {listed(names)} in run {run} nothing is said: verdicts will be unknown "
            "(--settled and --fate say it)"
        )
    say(f"next   tidings audit {shlex.quote(str(folder))}")
