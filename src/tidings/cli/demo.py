"""``tidings demo``: the whole flow in one command."""

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.audit import audit_on_spark
from tidings.cli.common import AsJson, app, print_json, print_run, print_verdicts, result, say
from tidings.lab.demo import Break, demo_run, last_words
from tidings.spec import exit_status
from tidings.trace import refuse_to_overwrite, write_runs


@app.command(epilog="Example: tidings demo --break order")
def demo(
    broken: Annotated[
        Break | None,
        typer.Option("--break", help="Run a protocol with this flaw instead."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another run.")] = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder for the trace; else runs/demo-ID.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Five processes, two killed in the middle of a broadcast; Spark audits what they logged.

    Exits 0 when all five guarantees hold; with --break, exits 1 and names what broke (with the
    default seed; not every other seed shows every flaw).
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    run = demo_run(seed, broken)
    if folder is None:
        # The same run again writes the same bytes, so its own folder may be written again.
        folder = Path("runs") / f"demo-{run.manifest.run}"
    rows = write_runs(folder, [run], "parquet")
    if not as_json:
        say(f"seed   {seed}")
        print_run(run)
        for process, message, copies in last_words(run):
            others = len(run.manifest.names) - 1
            say(
                f"crash  {process} died broadcasting {message}: {copies} of {others} copies had "
                "left"
            )
        say(f"trace  {folder}: {rows:,} rows")
    audited = audit_on_spark(folder, examples=1)
    assert audited.rows == rows, f"{rows} rows were written, but {audited.rows} audited"
    verdicts = audited.verdicts[run.manifest.run]
    if as_json:
        print_json(result(run.manifest, verdicts) | {"written": rows, "audited": audited.rows})
    else:
        say(f"audit  {audited.rows:,} of {rows:,} rows audited on Spark")
        print_verdicts(run.manifest, verdicts, run=run, folder=folder)
    raise typer.Exit(exit_status(verdicts))
