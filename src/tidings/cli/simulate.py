"""``tidings simulate``: one run, random or as written."""

import random
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.common import (
    AsJson,
    app,
    checked_own,
    extra_violations,
    faults_are_stored,
    known_protocols,
    named_protocol,
    print_json,
    print_proofs,
    print_run,
    print_verdicts,
    result,
    say,
)
from tidings.core import Exit, UsageError
from tidings.guests import factory
from tidings.protocols import DEFAULT
from tidings.report import write_story
from tidings.report.explain import shrink_command
from tidings.simulator import Links, Plan, walk
from tidings.simulator.scenario import play_scenario
from tidings.spec import Extra, exit_status, judge
from tidings.trace import Format, Run, refuse_to_overwrite, write_runs


@app.command(epilog="Example: tidings simulate --seed 7 --processes 5 --crashes 2 --trace runs/7")
def simulate(
    file: Annotated[
        Path | None, typer.Argument(help="A scenario file; without one the run is random.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides the run; random if absent.")] = None,
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
    processes: Annotated[int, typer.Option(help="The size of the group.")] = 5,
    broadcasts: Annotated[int, typer.Option(help="How many messages.")] = 20,
    crashes: Annotated[int, typer.Option(help="How many processes crash: at most a minority.")] = 0,
    mid_broadcast: Annotated[
        float, typer.Option(help="Share of crashes in the middle of a broadcast.")
    ] = 0.5,
    duplicated: Annotated[float, typer.Option(help="Share of packets that arrive twice.")] = 0.0,
    lost: Annotated[float, typer.Option(help="Share of packets that get lost.")] = 0.0,
    links: Annotated[Links, typer.Option(help="Whether links send again what they lose.")] = (
        "retrying"
    ),
    partitions: Annotated[int, typer.Option(help="How often the group is cut in two.")] = 0,
    restarts: Annotated[
        int, typer.Option(help="How often a process crashes and comes back (frontier).")
    ] = 0,
    joiners: Annotated[int, typer.Option(help="How many processes join (interval-history).")] = 0,
    changes: Annotated[
        int, typer.Option(help="How often the group adds, removes or replaces a member (views).")
    ] = 0,
    trace: Annotated[Path | None, typer.Option(help="Write the trace to this new folder.")] = None,
    story: Annotated[
        Path | None, typer.Option(help="Write the story of the first violation to this new folder.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Run a group in the simulator: a scenario file, or a random run with faults.

    Exits 0 if the five guarantees hold, 1 if one is violated, 2 if one cannot be judged. Where
    members join, reach is judged too.
    """
    for folder in (trace, story):
        if folder is not None:
            refuse_to_overwrite(folder)
    if protocol is not None and process is not None:
        raise UsageError("--process says which protocol it is; leave --protocol out")
    named = checked_own(process) if process is not None else protocol or DEFAULT
    name, options = named_protocol(named, option or ())
    plan = Plan(
        protocol=name,
        options=options,
        processes=processes,
        broadcasts=broadcasts,
        links=links,
        crashes=crashes,
        mid_broadcast=mid_broadcast,
        duplicated=duplicated,
        lost=lost,
        partitions=partitions,
        restarts=restarts,
        joiners=joiners,
        changes=changes,
    )
    if file is None:
        run = _walk(plan, seed, trace, form)
    elif plan != Plan(protocol=DEFAULT) or seed is not None:
        raise UsageError("a scenario file says everything itself; leave the other options out")
    else:
        with faults_are_stored(trace, form):
            run = _play(file)
    rows = write_runs(trace, [run], form) if trace is not None else None
    verdicts, extras = judge(run), extra_violations(run)
    violations = [*(one for verdict in verdicts for one in verdict.violations), *extras]
    story_file = str(story / "story.md") if story is not None and violations else None
    if story is not None and violations:
        write_story(story, run, violations[0], trace=trace)
    if as_json:
        print_json(
            result(run.manifest, verdicts)
            | {
                "trace": trace and str(trace),
                "story": story_file,
                "extras": [violation.guarantee.value for violation in extras],
            }
        )
    else:
        print_run(run)
        if rows is not None:
            say(f"trace  {trace}: {rows:,} rows")
        print_verdicts(run.manifest, verdicts, run=run, folder=trace)
        print_proofs(run.manifest, extras, run=run, folder=trace)
        has_agreed = any(verdict.guarantee is Extra.VIEWS for verdict in verdicts)
        if len(run.manifest.views) > 1 and not extras and not has_agreed:
            say("reach, which is none of the five, holds too: no newcomer is left out of an answer")
        if violations:
            say(_shorter(trace))
        if story is not None:
            say(f"\nstory  {story_file or 'none: nothing is violated'}")
    raise typer.Exit(Exit.VIOLATED if extras else exit_status(verdicts))


def _shorter(trace: Path | None) -> str:
    """How to make a violation short: it needs a trace."""
    if trace is not None:
        return f"Shrink:  {shrink_command(trace)}"
    return "Shrink:  the same with --trace FOLDER, then tidings shrink FOLDER"


def _walk(plan: Plan, seed: int | None, trace: Path | None, form: Format) -> Run:
    plan.check()
    factory(plan.protocol, plan.options)  # what is not there is said before anything else
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    say(f"seed   {seed}")
    with faults_are_stored(trace, form, seed=seed, plan=plan):
        return walk(plan, seed)


def _play(file: Path) -> Run:
    played = play_scenario(file)
    say(played.conversation())
    if (surprise := played.surprise()) is not None:
        raise UsageError(surprise)
    return played.run
