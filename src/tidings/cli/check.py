"""``tidings check``: a process of your own through everything there is, in one verb."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.common import (
    AsJson,
    app,
    checked_own,
    faults_are_stored,
    named_protocol,
    out,
    print_json,
    progress_line,
    say,
)
from tidings.cli.explore import EVERY_S, progress_words
from tidings.core import Exit
from tidings.explore import Explored, Scope, explore
from tidings.guests import factory
from tidings.report import explain, many, property_table, write_story
from tidings.shrink import Property, shrink
from tidings.simulator import Plan, walk
from tidings.spec import Guarantee, Value, broken, judge
from tidings.trace import Run, refuse_to_overwrite, write_runs

RUNS, STATES = 50, 100_000


class Finding(msgspec.Struct, frozen=True):
    """A short run that breaks something, and how it was found."""

    run: Run
    how: str


@app.command(epilog="Example: tidings check my_file.py:MyProcess --crashes 1")
def check(
    process: Annotated[str, typer.Argument(help="A class in a file: my_file.py:MyProcess.")],
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the process, as name=value.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="How many random runs to simulate.")] = RUNS,
    seed: Annotated[int, typer.Option(help="Of the first of them; the next has the next.")] = 1,
    crashes: Annotated[
        int, typer.Option(help="How many processes crash: in random runs, and of three.")
    ] = 1,
    states: Annotated[int, typer.Option(min=1, help="How many states to explore.")] = STATES,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="A new folder for what breaks; by default runs/checked-ID."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a process of your own: simulate, explore, shrink, and write the story.

    Random runs of five with faults, then every run of three processes and two broadcasts. For each
    guarantee that breaks, the shortest run that was found is stored with its proof, its picture
    and a test. Exits 1 if something breaks; 0 if every run of the small scope was seen and nothing
    breaks; 2 if there are too many to see all.
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    name, options = named_protocol(checked_own(process), option or ())
    factory(name, options)  # what is not there is said before anything else
    plan = Plan(
        protocol=name,
        options=options,
        processes=5,
        broadcasts=20,
        crashes=crashes,
        duplicated=0.05,
        partitions=1,
    )
    scope = Scope(protocol=name, options=options, processes=3, broadcasts=2, crashes=crashes)
    plan.check()
    scope.check()
    with faults_are_stored(), progress_line("checking", EVERY_S) as show:
        simulated: dict[Property, Run] = {}
        for number in range(runs):
            show(f"simulating: {number} of {many(runs, 'run')}")
            with faults_are_stored(seed=seed + number, plan=plan):
                run = walk(plan, seed + number)
            simulated = dict.fromkeys(_broken(run), run) | simulated
        explored = explore(
            scope, most_states=states, progress=lambda now: show(progress_words(now))
        )
        found = {what: Finding(run, "explored") for what, run in explored.found.items()}
        for what in (one for one in Guarantee if one in simulated and one not in found):
            show(f"shrinking: {what}")
            found[what] = Finding(shrink(simulated[what], what), "shrunk")
    stored = {what: _store(one.run, what, folder) for what, one in found.items()}
    if as_json:
        print_json(_result(name, runs, simulated, explored, found, stored))
    else:
        _tell(name, plan, runs, simulated, explored, found, stored)
    if found:
        raise typer.Exit(Exit.VIOLATED)
    raise typer.Exit(Exit.HOLDS if not explored.cut and _all_hold(explored) else Exit.UNKNOWN)


def _broken(run: Run) -> list[Property]:
    return [verdict.guarantee for verdict in judge(run) if verdict.value is Value.VIOLATED]


def _all_hold(explored: Explored) -> bool:
    return all(explored.verdict(what) is Value.HOLDS for what in explored.properties)


def _store(run: Run, what: Property, folder: Path | None) -> Path:
    """The run with its story. The same run writes the same bytes, so it may be written again."""
    name = what.replace(" ", "-")
    place = folder / name if folder else Path("runs") / f"checked-{run.manifest.run}-{name}"
    violation = broken(run, what)
    assert violation is not None, f"{what} is not broken in {run.manifest.run}"
    write_runs(place, [run], "jsonl")
    write_story(place, run, violation, trace=place)
    return place


def _verdicts(explored: Explored, found: dict[Property, Finding]) -> dict[str, Value]:
    return {
        what.value: Value.VIOLATED if what in found else explored.verdict(what)
        for what in explored.properties
    }


def _result(
    name: str,
    runs: int,
    simulated: dict[Property, Run],
    explored: Explored,
    found: dict[Property, Finding],
    stored: dict[Property, Path],
) -> dict[str, Any]:
    return {
        "process": name,
        "simulated": {"runs": runs, "violated": [what.value for what in simulated]},
        "explored": {"states": explored.pace.states, "cut": explored.cut},
        "verdicts": {what: value.value for what, value in _verdicts(explored, found).items()},
        "found": {
            what.value: {"how": one.how, "trace": str(stored[what])} for what, one in found.items()
        },
    }


def _tell(
    name: str,
    plan: Plan,
    runs: int,
    simulated: dict[Property, Run],
    explored: Explored,
    found: dict[Property, Finding],
    stored: dict[Property, Path],
) -> None:
    scope, pace = explored.scope, explored.pace
    broke = ", ".join(what.value for what in Guarantee if what in simulated)
    of_five = f"{many(runs, 'random run')} of {many(plan.processes, 'process')}"
    say(f"simulate  {of_five}: {f'broke {broke}' if broke else 'nothing broke'}")
    of_three = f"{scope.processes} processes and {many(scope.broadcasts, 'broadcast')}"
    crashes = f", {many(scope.crashes, 'crash')}" if scope.crashes else ""
    everything = explored.cut or "that is everything"
    say(f"explore   {of_three}{crashes}: {many(pace.states, 'state')}, {everything}")
    for what, one in found.items():
        if one.how == "shrunk":
            say(f"shrink    {what}: {many(sum(1 for _ in one.run.rows), 'row')} left")
    out.print()
    out.print(property_table(_verdicts(explored, found)))
    for what, one in found.items():
        violation = broken(one.run, what)
        assert violation is not None, f"{what} is not broken in {one.run.manifest.run}"
        out.print()
        say(explain(violation, one.run.manifest.run, folder=stored[what], trace=one.run))
        say(f"Story:   {stored[what] / 'story.md'}, with a picture and a test beside it")
    if not found and explored.cut:
        say(f"\nNothing broke in what was seen; to see more: --states {10 * pace.states}")
