"""``tidings ingest``: the log of any other system as a trace."""

import shlex
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from tidings.cli.common import QUIET_S, AsJson, app, print_json, progress_line, say
from tidings.core import UsageError
from tidings.report import listed, many
from tidings.trace import Fate

EVERY_S = 5.0
"""How often a progress line is written where there is no terminal."""


@app.command(epilog="Example: tidings ingest logs/*.jsonl --mapping mapping.toml --out runs/mine")
def ingest(
    logs: Annotated[list[Path], typer.Argument(help="The log: .jsonl, .csv or .parquet files.")],
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
    as_json: AsJson = False,
) -> None:
    """Make a trace of the log of any other system, for tidings audit.

    The mapping says what the columns of the log mean (docs/audit-your-broker.md). The log, the
    mapping, --settled or --fate must say how processes ended; otherwise verdicts are unknown. Exits
    65 for a bad row or a mistake in the mapping, named with its file and line.

    If all but p3 were up at the end: --settled all --fate p3=crashed
    """
    # Imported late: everything else works without pyarrow, and this says so if it is missing.
    from tidings.trace import parquet as parquet  # isort: skip
    from tidings.trace import foreign

    names = [name for name in (settled or "").split(",") if name]
    completed = foreign.with_end(foreign.read_mapping(mapping), names, dict(map(_fate, fate or ())))
    with progress_line("reading", EVERY_S, QUIET_S) as progress:
        done = foreign.ingest(logs, completed, folder, progress=progress)
    if as_json:
        print_json(msgspec.to_builtins(done) | {"trace": str(folder)})
    else:
        _print(done, len(logs), completed.columns.text, folder)


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
