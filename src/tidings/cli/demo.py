"""``tidings demo``: the whole flow in one command."""

import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated, Literal

import msgspec
import typer

from tidings.cli.audit import PAGE, audited_page, open_page, write_page
from tidings.cli.common import (
    AsJson,
    app,
    interrupts_heard,
    print_json,
    print_run,
    print_verdicts,
    result,
    say,
)
from tidings.core import EnvironmentMissing, Exit, Interrupted, UsageError, with_extra
from tidings.demo.simulated import Break, demo_run
from tidings.report.causality import Causality
from tidings.report.crashes import crashes_of
from tidings.report.page import Page, page_of_trace
from tidings.spec import Guarantee, Value, Verdict, exit_status
from tidings.trace import Run, refuse_to_overwrite, write_runs

Verdicts = Sequence[Verdict]


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
    With --break they keep nothing, and neither comes back. Without Spark the trace is audited in
    this process. Exits 0 when all five guarantees hold; with --break, exits 1 and names what
    broke; 2 where no judge is installed.
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    if watch and simulated:
        raise UsageError("--watch needs nodes that run: leave out --simulated")
    try:
        with interrupts_heard():
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


# --- who judges: Spark, or this process, or nobody

Judge = Literal["on Spark", "here", ""]
NOBODY = (
    f"no judge is installed; to judge in this process, {with_extra('audit')}; to judge on Spark, "
    f"{with_extra('spark')}"
)


def _judge() -> Judge:
    """What is installed; what Spark lacks beside is said before anything begins."""
    if find_spec("pyspark"):
        from tidings.pipeline.spark.java import find_java

        find_java()
        return "on Spark"
    return "here" if find_spec("numpy") and find_spec("pyarrow") else ""


def _judged(folder: Path, run: Run, rows: int, judge: Judge) -> tuple[Page, int, Verdicts]:
    """The page, how many rows were judged, and the verdicts."""
    how = shlex.join(["tidings", "report", str(folder), *(["--local"] if judge == "here" else [])])
    if judge:
        page, audited = audited_page(folder, how, runs=[run], local=judge == "here")
        return page, audited.rows, audited.verdicts[run.manifest.run]
    verdicts = tuple(
        Verdict(guarantee=one, value=Value.UNKNOWN, judged=0, reason=NOBODY) for one in Guarantee
    )
    name = run.manifest.run
    page = page_of_trace(folder, rows, {name: run.manifest}, {name: verdicts}, [run], how=how)
    return page, 0, verdicts


# --- Each of these returns the page that was written, and how the command ends.


def _run_nodes(
    folder: Path | None, seed: int, broken: Break | None, as_json: bool, watch: bool
) -> tuple[Path, Exit]:
    # Imported late: the other commands need no network.
    from tidings.demo.on_nodes import DemoPlay, perform

    judge = _judge()
    name = f"demo-{secrets.token_hex(4)}"
    folder = folder or Path("runs") / name
    say(f"seed   {seed}")
    starting = Thread(target=_start_spark if judge == "on Spark" else lambda: None, daemon=True)
    play = DemoPlay.of(broken, seed)
    with ExitStack() as stack:
        if watch and judge != "on Spark":
            raise EnvironmentMissing(f"--watch needs Spark; {with_extra('spark')}")
        if watch:
            # Spark first: the story is shorter than its start.
            _start_spark()
        begin = partial(_begin_watch, folder, stack) if watch else starting.start
        run = perform(folder, name, play, seed, tell=say, meanwhile=begin)
    if not watch:
        starting.join()
    return _audit(folder, run, sum(1 for _ in run.rows), judge, as_json)


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
    judge = _judge()
    run = demo_run(seed, broken)
    # The same run again writes the same bytes, so its own folder may be written again.
    folder = folder or Path("runs") / f"demo-{run.manifest.run}"
    rows = write_runs(folder, [run], "parquet" if judge else "jsonl")
    say(f"seed   {seed}")
    return _audit(folder, run, rows, judge, as_json)


def _audit(folder: Path, run: Run, rows: int, judge: Judge, as_json: bool) -> tuple[Path, Exit]:
    """Judge what was written, all of it; say so, and tell it on a page."""
    print_run(run)
    crashes = crashes_of(Causality(run))
    back = [crash for crash in crashes if crash.back is not None]
    for crash in crashes:
        say(f"crash  {crash.in_words()}")
    for crash in back:
        say(f"back   {crash.return_in_words()}")
    say(f"trace  {folder}: {rows:,} rows")
    page, judged, verdicts = _judged(folder, run, rows, judge)
    assert judged == (rows if judge else 0), f"{rows} rows were written, but {judged} judged"
    file = folder / PAGE
    write_page(page, file)
    if as_json:
        print_json(
            result(run.manifest, verdicts)
            | {"written": rows, "judged": judged, "page": str(file)}
            | {"killed": msgspec.to_builtins(crashes)}
            | {"came_back": [{"process": one.process, "behind": one.behind} for one in back]}
        )
    else:
        whole = f"{judged:,} of {rows:,} rows judged {judge}"
        say(f"audit  {whole if judge else 'UNKNOWN'}\npage   {file}")
        print_verdicts(run.manifest, verdicts, run=run, folder=folder)
    return file, exit_status(verdicts)
