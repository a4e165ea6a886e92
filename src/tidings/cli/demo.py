"""``tidings demo``: the whole flow in one command."""

import secrets
import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.audit import PAGE, audited_page, open_page, write_page
from tidings.cli.common import AsJson, app, print_json, print_run, print_verdicts, result, say
from tidings.core import Exit, Interrupted, UsageError
from tidings.demo.simulated import Break, demo_run, last_words
from tidings.report import listed
from tidings.spec import exit_status
from tidings.trace import Run, refuse_to_overwrite, write_runs


@app.command(epilog="Example: tidings demo --simulated --break order")
def demo(
    broken: Annotated[
        Break | None,
        typer.Option("--break", help="Run a protocol with this flaw instead."),
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Run in the simulator instead.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Decides who is killed and when links fail; simulated, everything.")
    ] = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder; by default runs/demo-ID.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Judge the nodes while they run, too.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Five nodes, two killed in the middle of a broadcast; Spark audits what they logged.

    The nodes are durable, each a separate process on this machine, and one of the two comes back.
    With --break they keep nothing, and neither comes back. Exits 0 when all five guarantees hold;
    with --break, exits 1 and names what broke.
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    if watch and simulated:
        raise UsageError("--watch needs nodes that run: leave out --simulated")
    try:
        if simulated:
            page, status = _simulate(folder, seed, broken, as_json)
        else:
            page, status = _run_nodes(folder, seed, broken, as_json, watch)
    except KeyboardInterrupt:
        if "tidings.pipeline" in sys.modules:
            sys.modules["tidings.pipeline"].abandon()
        say("audit  UNKNOWN: interrupted before the verdicts")
        raise Interrupted("interrupted") from None
    if open_:
        open_page(page)
    raise typer.Exit(status)


# --- Each of these returns the page that was written, and how the command ends.


def _run_nodes(
    folder: Path | None, seed: int, broken: Break | None, as_json: bool, watch: bool
) -> tuple[Path, Exit]:
    # Imported late: the other commands need neither a network nor Spark.
    from tidings.demo.on_nodes import DemoPlay, perform
    from tidings.pipeline.spark.java import find_java

    find_java()  # what is missing is said before anything begins
    name = f"demo-{secrets.token_hex(4)}"
    folder = folder or Path("runs") / name
    say(f"seed   {seed}")
    starting = Thread(target=_start_spark, daemon=True)
    play = DemoPlay.of(broken, seed)
    with ExitStack() as stack:
        if watch:
            # Spark first: the story is shorter than its start.
            _start_spark()
            begin = partial(_begin_watch, folder, stack)
        played = perform(
            folder, name, play, seed, tell=say, meanwhile=begin if watch else starting.start
        )
    print_run(played.run)
    for death in played.deaths:
        say(
            f"crash  {death.process} died broadcasting {death.message}: {death.copies} of "
            f"{len(played.run.manifest.members) - 1} copies had arrived; "
            f"{listed(death.readers or ('nobody',))} delivered it"
        )
    if not watch:
        starting.join()
    details = {"killed": played.deaths, "came_back": played.comebacks}
    return _audit(folder, played.run, sum(1 for _ in played.run.rows), details, as_json)


def _begin_watch(folder: Path, stack: ExitStack) -> None:
    """Follow the nodes until they have stopped, and tell what the watch sees."""
    from tidings.cli.watch import shown_while
    from tidings.pipeline import session, watch

    checkpoint = stack.enter_context(TemporaryDirectory(prefix="tidings-watch-"))
    watching = watch(session(), folder, checkpoint=checkpoint, every_s=0.5)
    stack.enter_context(shown_while(watching))


def _start_spark() -> None:
    """While the nodes run. What goes wrong, the audit will meet again, and tell."""
    from tidings import pipeline

    with suppress(Exception):
        pipeline.session()


def _simulate(
    folder: Path | None, seed: int, broken: Break | None, as_json: bool
) -> tuple[Path, Exit]:
    run = demo_run(seed, broken)
    # The same run again writes the same bytes, so its own folder may be written again.
    folder = folder or Path("runs") / f"demo-{run.manifest.run}"
    rows = write_runs(folder, [run], "parquet")
    say(f"seed   {seed}")
    print_run(run)
    for process, message, copies in last_words(run):
        of = f"{copies} of {len(run.manifest.names) - 1} copies"
        say(f"crash  {process} died broadcasting {message}: {of} had left")
    return _audit(folder, run, rows, {}, as_json)


def _audit(
    folder: Path, run: Run, rows: int, details: Mapping[str, Any], as_json: bool
) -> tuple[Path, Exit]:
    """Judge what was written, all of it; say so, and tell it on a page."""
    say(f"trace  {folder}: {rows:,} rows")
    how = shlex.join(["tidings", "report", str(folder)])
    page, audited = audited_page(folder, how, runs=[run])
    assert audited.rows == rows, f"{rows} rows were written, but {audited.rows} judged"
    file = folder / PAGE
    write_page(page, file)
    verdicts = audited.verdicts[run.manifest.run]
    if as_json:
        counts = {"written": rows, "judged": audited.rows, "page": str(file)}
        print_json(
            result(run.manifest, verdicts)
            | counts
            | {name: msgspec.to_builtins(value) for name, value in details.items()}
        )
    else:
        say(f"audit  {audited.rows:,} of {rows:,} rows judged on Spark\npage   {file}")
        print_verdicts(run.manifest, verdicts, run=run, folder=folder)
    return file, exit_status(verdicts)
