"""``tidings demo``: the whole flow in one command."""

import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from tidings.cli.audit import audit_on_spark
from tidings.cli.common import AsJson, app, print_json, print_run, print_verdicts, result, say
from tidings.core import Exit, TidingsError
from tidings.lab.demo import Break, demo_run, last_words
from tidings.report.words import listed
from tidings.spec import exit_status
from tidings.trace import Run, refuse_to_overwrite, write_runs


@app.command(epilog="Example: tidings demo --simulated --break order")
def demo(
    broken: Annotated[
        Break | None,
        typer.Option("--break", help="Run a protocol with this flaw instead."),
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="In the simulator, instead of on real nodes.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Who is killed, and the luck of the links; simulated, everything.")
    ] = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder for the trace; else runs/demo-ID.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Five nodes, two killed in the middle of a broadcast; Spark audits what they logged.

    The nodes are durable, each a process of its own on this machine, and one of the two comes
    back; with --break they keep nothing, and nobody does. Exits 0 when all five guarantees hold;
    with --break, exits 1 and names what broke.
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    try:
        if simulated:
            _simulate(folder, seed, broken, as_json)
        else:
            _run_nodes(folder, seed, broken, as_json)
    except KeyboardInterrupt:
        if "tidings.pipeline" in sys.modules:
            sys.modules["tidings.pipeline"].abandon()
        if not as_json:
            say("audit  UNKNOWN: interrupted before the verdicts")
        raise _InterruptedError("interrupted") from None


class _InterruptedError(TidingsError):
    """By Ctrl-C; what is unknown has been told."""

    status = Exit.INTERRUPTED


# --- on real nodes


def _run_nodes(folder: Path | None, seed: int, broken: Break | None, as_json: bool) -> None:
    # Imported late: the other commands need neither a network nor Spark.
    from tidings.lab.fleet_demo import Play, perform
    from tidings.pipeline.java import find_java

    find_java()  # what is missing is said before anything begins
    name = f"demo-{secrets.token_hex(4)}"
    folder = folder or Path("runs") / name
    tell = _keep_to_oneself if as_json else say
    tell(f"seed   {seed}")
    starting = Thread(target=_start_spark, daemon=True)
    play = Play.of(broken, seed)
    played = perform(folder, name, play, seed, tell=tell, meanwhile=starting.start)
    if not as_json:
        print_run(played.run)
        for death in played.deaths:
            say(
                f"crash  {death.process} died broadcasting {death.message}: {death.copies} of "
                f"{len(played.run.manifest.members) - 1} copies had arrived; "
                f"{listed(death.delivered_by or ('nobody',))} delivered it"
            )
    starting.join()
    details = {"killed": played.deaths, "came_back": played.comebacks}
    _audit(folder, played.run, sum(1 for _ in played.run.rows), details, as_json)


def _keep_to_oneself(line: str) -> None:
    pass


def _start_spark() -> None:
    """While the nodes run. What goes wrong, the audit will meet again, and tell."""
    from tidings import pipeline

    with suppress(Exception):
        pipeline.session()


# --- in the simulator


def _simulate(folder: Path | None, seed: int, broken: Break | None, as_json: bool) -> None:
    run = demo_run(seed, broken)
    # The same run again writes the same bytes, so its own folder may be written again.
    folder = folder or Path("runs") / f"demo-{run.manifest.run}"
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
    _audit(folder, run, rows, {}, as_json)


# --- both


def _audit(
    folder: Path, run: Run, rows: int, details: Mapping[str, Any], as_json: bool
) -> NoReturn:
    """Judge what was written, all of it, and say so."""
    if not as_json:
        say(f"trace  {folder}: {rows:,} rows")
    audited = audit_on_spark(folder, examples=1)
    assert audited.rows == rows, f"{rows} rows were written, but {audited.rows} audited"
    verdicts = audited.verdicts[run.manifest.run]
    if as_json:
        counts = {"written": rows, "audited": audited.rows}
        told: dict[str, Any] = msgspec.to_builtins(details, str_keys=True)
        print_json(result(run.manifest, verdicts) | counts | told)
    else:
        say(f"audit  {audited.rows:,} of {rows:,} rows audited on Spark")
        print_verdicts(run.manifest, verdicts, run=run, folder=folder)
    raise typer.Exit(exit_status(verdicts))
