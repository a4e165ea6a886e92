"""``tidings shrink``: the smallest run that still fails."""

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.common import (
    AsJson,
    ProgressLine,
    app,
    extra_violations,
    out,
    print_extras,
    print_json,
    print_run,
    print_verdicts,
    result,
    say,
    stored_run,
)
from tidings.cli.own import Anew, renamed
from tidings.cli.replay import Player
from tidings.core import Exit, UsageError
from tidings.report import write_story
from tidings.report.words import many
from tidings.shrink import Property, ShrinkProgress, charge_against, shrink
from tidings.simulator import schedule_of
from tidings.spec import Extra, Guarantee, judge
from tidings.trace import Run, refuse_to_overwrite, write_runs


@app.command(name="shrink", epilog="Example: tidings shrink runs/demo-c43e56df")
def shrink_command(
    path: Annotated[Path, typer.Argument(help="A trace: a folder, or one file of it.")],
    run: Annotated[str | None, typer.Option(help="Which run of the trace, if it has many.")] = None,
    guarantee: Annotated[
        str | None, typer.Option(help="What it must break: 'causal order', ..., cost or reach.")
    ] = None,
    max_packets: Annotated[
        int | None, typer.Option(help="For cost: how many packets are allowed.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder; by default runs/shrunk-ID.")
    ] = None,
    process: Anew = None,
    as_json: AsJson = False,
) -> None:
    """Find a smaller run that breaks the same guarantee, and write its story.

    Fewer processes, broadcasts, faults and steps, in this order. Exits 1, since the smaller run
    fails too; 64 if the run breaks nothing.
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    source = renamed(stored_run(path, run), process)
    charge = charge_against(source, _property(guarantee), max_packets)
    pace: ShrinkProgress | None = None
    with ProgressLine("shrinking") as show:

        def progress(now: ShrinkProgress) -> None:
            nonlocal pace
            pace = now
            show(_progress(now))

        small = shrink(source, charge.what, max_packets=charge.max_packets, progress=progress)
    assert pace is not None, "nothing was tried"
    # The same run again writes the same bytes, so its own folder may be written again.
    place = folder or Path("runs") / f"shrunk-{small.manifest.run}"
    rows = write_runs(place, [small], "jsonl")
    (violation, *_) = charge.against(small)
    write_story(place, small, violation, trace=place)
    verdicts = judge(small)
    if as_json:
        print_json(
            result(small.manifest, verdicts)
            | {
                "breaks": charge.what.value,
                "trace": str(place),
                "before": _counts(source),
                "after": _counts(small),
                "tried": pace.tried,
            }
        )
    else:
        for shown in Player(small, None).play():
            say(shown.text())
        out.print()
        print_run(small)
        say(f"shrunk {_in_words(source, small)}; {many(pace.tried, 'run')} tried")
        say(f"trace  {place}: {many(rows, 'row')}, with its story, a picture and a test")
        print_verdicts(small.manifest, verdicts, run=small, folder=place)
        print_extras(small, extra_violations(small), folder=place)
    raise typer.Exit(Exit.VIOLATED)


def _property(words: str | None) -> Property | None:
    """What is to be broken, by its name."""
    if words is None:
        return None
    known: dict[str, Property] = {one.value: one for one in (*Guarantee, *Extra)}
    if words not in known:
        raise UsageError(f"there is no guarantee {words!r}; there are: {', '.join(known)}")
    return known[words]


def _progress(pace: ShrinkProgress) -> str:
    return (
        f"shrinking: {many(pace.size.processes, 'process')}, "
        f"{many(pace.size.broadcasts, 'broadcast')}, {many(pace.size.steps, 'step')}; "
        f"{many(pace.tried, 'run')} tried"
    )


def _counts(run: Run) -> dict[str, int]:
    rows = [row.kind for row in run.rows]
    return {
        "processes": len(run.manifest.members),
        "broadcasts": rows.count("broadcast"),
        "steps": len(schedule_of(run.manifest)),
        "rows": len(rows),
    }


def _in_words(source: Run, small: Run) -> str:
    after = _counts(small)
    return ", ".join(
        f"{before:,} {what} to {after[what]:,}" for what, before in _counts(source).items()
    )
