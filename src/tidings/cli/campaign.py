"""``tidings campaign``: thousands of runs, judged, measured and compared."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.campaign.folder import (
    Folder,
    begun,
    held,
    is_campaign,
    opened,
    other_code,
    plan_of,
)
from tidings.campaign.plan import default_plan, read_plan, with_seeds
from tidings.cli.audit import Master, Remote, on_spark, refuse_without_spark, write_page
from tidings.cli.common import (
    AsJson,
    app,
    err,
    faults_are_stored,
    out,
    print_json,
    print_run,
    print_verdicts,
    result,
    say,
)
from tidings.core import DataError, Exit, Interrupted, UsageError
from tidings.report import listed, many, plain_table
from tidings.report.numbers import percent
from tidings.spec import JUDGED, Extra, Guarantee, exit_status, judge
from tidings.trace import write_runs

if TYPE_CHECKING:
    from tidings.campaign.baseline import Apart
    from tidings.campaign.conduct import Done

MOST_TOLD = 5
"""Of runs that failed, and of regressions; the tables have them all."""


@app.command(epilog="Example: tidings campaign plan.toml --out runs/mine --baseline runs/main")
def campaign(
    plan: Annotated[
        Path | None,
        typer.Argument(help="A .toml file; by default every algorithm runs under every fault."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", help="A new folder, or the folder of a campaign to continue.")
    ] = Path("runs/campaign"),
    seeds: Annotated[
        int | None, typer.Option(help="How many runs of every cell, instead of the plan's number.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="How many cores of this machine to use; by default all.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A campaign to compare with: exits 1 if something is worse.")
    ] = None,
    again: Annotated[
        str | None, typer.Option(help="Instead, simulate one run again, by its name.")
    ] = None,
    master: Master = None,
    remote: Remote = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid of simulations on Spark: algorithms, sizes, loads, faults; judge and measure them.

    An interrupted campaign continues where it was. Exits 0; 1 if an algorithm that is not marked as
    flawed violates something, or is worse than the baseline; 2 if something is unknown.
    """
    options = {"--jobs": jobs, "--master": master, "--remote": remote}
    if len(given := [name for name, value in options.items() if value]) > 1:
        raise UsageError(f"{' or '.join(given)}, not both")
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs takes 1 or more")
    if again is not None:
        raise typer.Exit(_once_more(folder, again, as_json))
    wanted, text = _wanted(plan, folder, seeds)
    other = _comparable(baseline, wanted) if baseline is not None else None
    refuse_without_spark()
    with _interruptions_in_one_line(folder, options | {"--baseline": baseline}), held(folder):
        chosen = begun(folder, wanted.campaign, text)
        with on_spark(f"local[{jobs}]" if jobs else master, remote) as (spark, progress):
            from tidings.campaign.conduct import conduct

            done = conduct(spark, chosen, progress)
        status = _tell(chosen, done, other, as_json)
    raise typer.Exit(status)


@contextmanager
def _interruptions_in_one_line(folder: Path, options: Mapping[str, object]) -> Iterator[None]:
    try:
        yield
    except BaseException as fault:
        if not _is_interruption(fault):
            raise
        if "tidings.pipeline" in sys.modules:
            sys.modules["tidings.pipeline"].abandon()
        say("UNKNOWN: interrupted before the verdicts")
        given = [str(word) for pair in options.items() if pair[1] is not None for word in pair]
        on = shlex.join(["tidings", "campaign", "--out", str(folder), *given])
        raise Interrupted(f"interrupted; what is done is kept, go on with: {on}") from None


def _is_interruption(fault: BaseException | None) -> bool:
    """Ctrl-C, or what Spark says while it is being interrupted: that its jobs were cancelled."""
    while fault is not None and not isinstance(fault, KeyboardInterrupt):
        fault = fault.__context__
    return fault is not None


def _wanted(plan: Path | None, folder: Path, seeds: int | None) -> tuple[Folder, str]:
    """The campaign that is asked for: by the plan, by what the folder holds, or the usual one; and
    the text of its plan, if it was read from a file. Nothing is written yet.
    """

    if plan is None and is_campaign(folder):
        return Folder(folder, with_seeds(plan_of(folder), seeds)), ""
    file = plan or default_plan()
    return Folder(folder, read_plan(file, seeds)), file.read_text(encoding="utf-8")


def _comparable(baseline: Path, wanted: Folder) -> Folder:
    """A campaign that can be compared with the one that is wanted, before that is run."""
    from tidings.campaign.baseline import apart
    from tidings.campaign.numbers import RUNS
    from tidings.campaign.tables import read_table

    other = opened(baseline)
    if not other.table("runs").exists():
        raise DataError(f"{baseline}: the campaign is not complete; go on with it first")
    read_table(other.table("runs"), RUNS)
    if apart(wanted, other).ours == len(wanted.cells):
        raise UsageError(f"{baseline} has no cell in common with what is to be run")
    return other


# --- what is said


def _tell(folder: Folder, done: "Done", other: Folder | None, as_json: bool) -> Exit:
    from tidings.campaign.baseline import Apart, apart, compare, regressions
    from tidings.campaign.numbers import not_ended
    from tidings.campaign.page import page_of, status_of
    from tidings.campaign.statistics import CONFIDENCE
    from tidings.campaign.tables import read_table, remove_table

    remove_table(folder.table("comparison"))  # with whatever it was compared before
    compared = compare(folder, other) if other is not None else []
    uncompared = apart(folder, other) if other is not None else Apart(0, 0, ())
    write_page(page_of(folder, shlex.join(["tidings", "report", str(folder.shown)])), folder.page)
    verdicts = read_table(folder.table("verdicts"))
    ended = not_ended(read_table(folder.table("runs")))
    status = Exit.VIOLATED if regressions(compared) else status_of(folder)
    if status is Exit.HOLDS and uncompared.algorithms:
        status = Exit.UNKNOWN
    page = folder.shown / folder.page.name
    if as_json:
        print_json(
            {
                "folder": str(folder.shown),
                "cells": len(folder.cells),
                "runs": done.runs + done.earlier,
                "done_before": done.earlier,
                "not_ended": [row for rows in ended.values() for row in rows],
                "verdicts": verdicts,
                "changes": [row for row in compared if row["verdict"] != "same"],
                "not_compared": uncompared.algorithms,
                "page": str(page),
            }
        )
        return status
    before = f", {done.earlier:,} of them done before" if done.earlier else ""
    say(f"runs   {done.runs + done.earlier:,} in {many(len(folder.cells), 'cell')}{before}")
    _tell_ended(ended)
    out.print()
    out.print(plain_table(_matrix(verdicts)))
    say(f"✓ ≤: a share of runs that seeing no violation still allows, at {percent(CONFIDENCE)}")
    if other is not None:
        _tell_changes(compared, other.shown)
        _tell_apart(uncompared, folder, other)
    say(f"\npage   {page}")
    return status


def _tell_ended(alike: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> None:
    """Runs that did not end by themselves: of each outcome and algorithm the first."""
    for (outcome, algorithm), same in list(alike.items())[:MOST_TOLD]:
        first = same[0]
        say(
            f"{outcome:<6} {many(len(same), 'run')} of {algorithm}, first {first['run']}:\n"
            f"       {first['reason']}\n       {first['replay']}"
        )
    if len(alike) > MOST_TOLD:
        say(f"       and those of {many(len(alike) - MOST_TOLD, 'more algorithm')}: see runs.csv")


def _matrix(verdicts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """One row for each algorithm: how many runs, and in how many each guarantee was violated.

    The last column is that of views, if any group changed by agreement.
    """
    given = {verdict["guarantee"] for verdict in verdicts}
    columns = [one.value for one in JUDGED if one is not Extra.VIEWS or one.value in given]
    rows: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        name = verdict["algorithm"]
        row = rows.setdefault(name, {"algorithm": name, "runs": f"{verdict['runs']:,}"})
        row[verdict["guarantee"]] = _in_a_word(verdict)
    for row in rows.values():
        assert all(one.value in row for one in Guarantee), "a guarantee is missing"
        row |= {column: row.get(column, "-") for column in columns}
    return list(rows.values())


def _in_a_word(verdict: Mapping[str, Any]) -> str:
    if verdict["violated"]:
        return f"✗ {verdict['violated']:,}"
    if verdict["unknown"]:
        return f"? {verdict['unknown']:,}"
    return f"✓ ≤ {percent(verdict['share_high'], ROUND_CEILING)}"


def _tell_changes(compared: Sequence[Mapping[str, Any]], baseline: Path) -> None:
    from tidings.campaign.baseline import likeness, worst_first

    for verdict in ("worse", "better"):
        changed = [row for row in worst_first(compared) if row["verdict"] == verdict]
        say(f"\n{verdict:<6} than {baseline}: {len(changed):,} of {len(compared):,} comparisons")
        for row in changed[:MOST_TOLD]:
            say(
                f"       {row['where']}: {row['measure']} {row['before']:.4g} to "
                f"{row['after']:.4g}, {many(row['pairs'], 'pair')}, p = {row['p_adjusted']:.2g}"
            )
    alike = likeness(compared)
    correlation = "" if alike is None else f", correlation {alike:.2f} (median)"
    say(f"\npairs  by seed{correlation}; p is adjusted by Holm for all comparisons")


def _tell_apart(apart: "Apart", folder: Folder, other: Folder) -> None:
    if apart.ours or apart.theirs:
        say(
            f"\nnot compared: {many(apart.ours, 'cell')} of {folder.shown} and "
            f"{many(apart.theirs, 'cell')} of {other.shown}, which the other does not have"
        )
    if names := apart.algorithms:
        say(f"UNKNOWN whether worse, since nothing of it could be compared: {listed(names)}")


# --- one run once more


def _once_more(folder: Path, name: str, as_json: bool) -> Exit:
    """Simulate one run again and store it with its schedule, so that it can be replayed."""
    from tidings.campaign.runs import simulated

    cell, seed = opened(folder).cell_of(name)
    if changed := other_code(folder):
        err.print(f"tidings: {changed}: this may be another run", soft_wrap=True)
    place = folder / "again" / name
    with faults_are_stored(place, seed=cell.dice(seed), plan=cell.plan):
        run = simulated(cell, seed)
    rows = write_runs(place, [run], "jsonl")
    verdicts = judge(run)
    if as_json:
        print_json(result(run.manifest, verdicts) | {"cell": cell.key, "trace": str(place)})
    else:
        say(f"cell   {cell.key}")
        say(f"seed   {seed} of the cell, {run.manifest.seed} of the simulator")
        print_run(run)
        say(
            f"trace  {place}: {rows:,} rows; step by step: tidings replay {shlex.quote(str(place))}"
        )
        print_verdicts(run.manifest, verdicts, run=run, folder=place)
    return exit_status(verdicts)
