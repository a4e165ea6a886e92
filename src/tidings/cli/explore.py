"""``tidings explore``: every run of a small scope."""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.common import (
    QUIET_S,
    AsJson,
    app,
    checked_own,
    faults_are_stored,
    known_protocols,
    named_protocol,
    out,
    print_json,
    progress_line,
    say,
)
from tidings.core import Exit, Interrupted, UsageError
from tidings.explore import ALL, Explored, Scope, SearchProgress, explore, reductions_without
from tidings.protocols import DEFAULT
from tidings.report import explain, many, property_table, write_story
from tidings.spec import Extra, Guarantee, Value, broken
from tidings.trace import Run, refuse_to_overwrite, write_runs

EVERY_S = 10.0


@app.command(
    name="explore",
    epilog="Example: tidings explore --protocol flawed/hasty --processes 3 --crashes 1",
)
def explore_command(
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The algorithm: see tidings algorithms.",
            show_default=DEFAULT,
            autocompletion=known_protocols,
        ),
    ] = None,
    process: Annotated[
        str | None, typer.Option(help="Instead, a class of your own: my_file.py:MyProcess.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the protocol, as name=value.")
    ] = None,
    processes: Annotated[int, typer.Option(help="The size of the group.")] = 3,
    broadcasts: Annotated[int, typer.Option(help="How many messages, by any process.")] = 1,
    crashes: Annotated[int, typer.Option(help="How many processes crash: at most a minority.")] = 0,
    joiners: Annotated[int, typer.Option(help="How many processes join (interval-history).")] = 0,
    change: Annotated[
        list[str] | None,
        typer.Option(help="What somebody asks, as in 'p1 add p4' or 'p1 remove p3' (views)."),
    ] = None,
    duplicates: Annotated[int, typer.Option(help="How many packets arrive twice.")] = 0,
    restarts: Annotated[int, typer.Option(help="How many of the crashed come back.")] = 0,
    rollbacks: Annotated[
        int, typer.Option(help="How many of those come back with the disk they had at the start.")
    ] = 0,
    text: Annotated[
        list[str] | None, typer.Option(help="What is broadcast, in turn; by default 1, 2, 3.")
    ] = None,
    max_packets: Annotated[
        int | None, typer.Option(help="Also: no run sends more packets than this.")
    ] = None,
    early_timeouts: Annotated[
        int | None,
        typer.Option(help="How many timers run out while packets are under way; others wait."),
    ] = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Links deliver in order, as TCP connections do.")
    ] = False,
    depth: Annotated[int | None, typer.Option(help="How many moves a run has at most.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help=f"Leave out a reduction: {', '.join(ALL)}, or all."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Workers; by default all cores.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first violation.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="A new folder for the runs that break something."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try every run in a small scope: every order, every crash, every draw.

    Shortest runs first, so what it finds is the smallest way to break something; it is stored
    with its story, its picture and a test that reproduces it. Exits 0 if nothing can be broken, 1
    if something can, 2 if the search was cut short.
    """
    if process is not None and protocol is not None:
        raise UsageError("give --protocol or --process, not both")
    if folder is not None:
        refuse_to_overwrite(folder)
    named = checked_own(process) if process is not None else protocol or DEFAULT
    name, options = named_protocol(named, option or ())
    scope = Scope(
        protocol=name,
        options=options,
        processes=processes,
        broadcasts=broadcasts,
        crashes=crashes,
        joiners=joiners,
        changes=tuple(change or ()),
        early_timeouts=early_timeouts,
        duplicates=duplicates,
        restarts=restarts,
        rollbacks=rollbacks,
        texts=tuple(map(os.fsencode, text or ())),
        max_packets=max_packets,
        in_order=in_order,
        depth=depth,
    )
    reductions = reductions_without(without or ())
    with faults_are_stored(), progress_line("exploring", EVERY_S) as show:
        explored = explore(
            scope,
            reductions=reductions,
            workers=workers,
            keep_going=keep_going,
            progress=lambda now: show(progress_words(now)),
        )
    stored = {what: _store(run, what, folder, scope) for what, run in explored.found.items()}
    if as_json:
        print_json(
            {
                "scope": {
                    name: msgspec.to_builtins(value)
                    for name, value in msgspec.structs.asdict(explored.scope).items()
                },
                "pace": msgspec.to_builtins(explored.pace),
                "complete": not explored.cut,
                "cut": explored.cut,
                "reductions": list(explored.reductions),
                "verdicts": {
                    what.value: explored.verdict(what).value for what in explored.properties
                },
                "found": {what.value: str(place) for what, place in stored.items()},
            }
        )
    else:
        _print(explored, stored)
    if explored.cut == "interrupted" and not explored.found:
        raise Interrupted("interrupted")
    holds = all(explored.verdict(what) is Value.HOLDS for what in explored.properties)
    unbroken = Exit.HOLDS if holds else Exit.UNKNOWN
    raise typer.Exit(Exit.VIOLATED if explored.found else unbroken)


def progress_words(pace: SearchProgress) -> str:
    return (
        f"exploring: depth {pace.depth}, {pace.states:,} states "
        f"({pace.states_per_second:,.0f}/s), {pace.frontier:,} to go, {pace.memory_mb:,} MB"
    )


def _store(run: Run, what: Guarantee | Extra, folder: Path | None, scope: Scope) -> Path:
    """The run and its story, in a folder of its own."""
    name = what.replace(" ", "-")
    place = folder / name if folder else Path("runs") / f"explored-{run.manifest.run}-{name}"
    write_runs(place, [run], "jsonl")
    violation = broken(run, what, scope.max_packets)
    assert violation is not None, f"{what} is not broken in {run.manifest.run}"
    write_story(place, run, violation, trace=place)
    return place


def _print(explored: Explored, stored: dict[Any, Path]) -> None:
    scope, pace = explored.scope, explored.pace
    faults = {
        "crash": scope.crashes,
        "joiner": scope.joiners,
        "change": len(scope.changes),
        "duplicate": scope.duplicates,
        "restart": scope.restarts,
        "rollback": scope.rollbacks,
    }
    parts = [
        " ".join([scope.protocol, *(f"{name}={value}" for name, value in scope.options.items())]),
        many(scope.processes, "process"),
        many(scope.broadcasts, "broadcast"),
        *(many(count, noun) for noun, count in faults.items() if count),
    ]
    parts += ["packets in order"] if scope.in_order else []
    say(f"scope  {', '.join(parts)}")
    everything = "that is everything"
    if explored.cut:
        everything = f"not everything: {explored.cut}"
    elif pace.pruned:
        everything = "everything but what follows a violation, so the rest is unknown"
    say(
        f"seen   {many(pace.states, 'state')}, {many(pace.transitions, 'transition')}, "
        f"{many(pace.depth, 'move')} deep, {pace.settled:,} settled, "
        f"{pace.owed:,} with something owed; {everything}"
    )
    if pace.seconds > QUIET_S:
        say(
            f"pace   {pace.seconds:,.0f} s, {pace.states_per_second:,.0f} states per second, "
            f"{pace.memory_mb:,} MB"
        )
    if explored.lively:
        say(f"note   {', '.join(explored.lively)} packets are never inert here; none was skipped")
    if pace.restless:
        say("note   some runs never come to rest while dice are thrown: who can say how they end?")
    out.print()
    out.print(property_table({what: explored.verdict(what) for what in explored.properties}))
    if explored.cut == "interrupted":
        say("UNKNOWN")
    for what, run in explored.found.items():
        violation = broken(run, what, scope.max_packets)
        assert violation is not None
        out.print()
        say(explain(violation, run.manifest.run, folder=stored[what], trace=run))
        say(f"Story:   {stored[what] / 'story.md'}, with a picture and a test beside it")
