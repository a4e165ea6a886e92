"""A stored run once more: ``tidings replay`` step by step, ``tidings shrink`` made smaller."""

import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from tidings.cli.common import (
    AsJson,
    app,
    checked_own,
    extra_violations,
    named_protocol,
    out,
    print_json,
    print_proofs,
    print_run,
    print_verdicts,
    progress_line,
    result,
    say,
)
from tidings.core import Exit, MessageId, UsageError
from tidings.report import many, write_story
from tidings.shrink import Property, ShrinkProgress, charge_against, shrink
from tidings.simulator import PlayedStep, RunReplay, schedule_of
from tidings.simulator.conversation import Conversation
from tidings.simulator.script import line_for
from tidings.spec import Extra, Guarantee, Place, exit_status, judge
from tidings.trace import Run, read_runs, refuse_to_overwrite, write_runs

Trace = Annotated[Path, typer.Argument(help="A trace: a folder, or one file of it.")]
RunName = Annotated[str | None, typer.Option(help="Which run of the trace, if it has many.")]
Anew = Annotated[
    str | None,
    typer.Option("--process", help="Where your class is now: my_file.py:MyProcess."),
]
_MS = 1_000_000


def _stored(path: Path, name: str | None, process: str | None) -> Run:
    """One run of a trace: the named one, or the only one; of a class whose file may have moved."""
    runs = {run.manifest.run: run for run in read_runs(path)}
    known = ", ".join(runs)
    if name is None and len(runs) > 1:
        raise UsageError(f"{path} has {many(len(runs), 'run')}, choose one with --run: {known}")
    if name is not None and name not in runs:
        raise UsageError(f"{path} has no run {name}; it has: {known}")
    run = runs[name] if name is not None else next(iter(runs.values()))
    if process is None:
        return run
    protocol, options = named_protocol(checked_own(process))
    manifest = msgspec.structs.replace(
        run.manifest, protocol=protocol, options=options or dict(run.manifest.options)
    )
    return msgspec.structs.replace(run, manifest=manifest)


@app.command(epilog="Example: tidings replay runs/7 --state p3")
def replay(
    path: Trace,
    run: RunName = None,
    until: Annotated[
        str | None, typer.Option(help="Stop after this event (p3:17) or this step (40).")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Show the state of p2, or of all, at the end. May be repeated."),
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Print only so many last steps; all are played.")
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter after each step.")] = False,
    process: Anew = None,
    as_json: AsJson = False,
) -> None:
    """Play a stored run again, in plain words, and compare it with its trace byte for byte.

    Exits with the verdict on what was played: a run stopped half-way is unknown (2), unless a
    guarantee is violated by then (1); 65 if the run does not come out as stored.
    """
    if step and (as_json or not sys.stdin.isatty()):
        raise UsageError("--step needs a terminal, to wait for Enter")
    if step and last is not None:
        raise UsageError("--step tells every step, and --last only the last ones")
    stored = _stored(path, run, process)
    player = Player(stored, _until(until, stored))
    _check_names(state or (), stored.manifest.names)
    last_steps: deque[StepText] = deque(maxlen=last)
    try:
        for one in player.play():
            last_steps.append(one)
            if not as_json and last is None:
                say(one.text())
            if step and not _pause(player):
                break
    finally:  # what led to a fault is told, too
        if not as_json and last is not None:
            say("\n".join(one.text() for one in last_steps))
    played = player.replay.so_far()
    verdicts, extras = judge(played), extra_violations(played)
    rows = len(player.replay.rows)
    shown = player.names(state or ())
    if as_json:
        print_json(
            result(played.manifest, verdicts)
            | {
                "steps": [one.data() for one in last_steps],
                "same_rows": rows,
                "states": {name: player.state(name) for name in shown},
                "extras": [violation.guarantee.value for violation in extras],
            }
        )
    else:
        out.print()
        for name in shown:
            say(player.state_text(name))
        print_run(played)
        say(f"replay the same {many(rows, 'row')}, byte for byte")
        print_verdicts(played.manifest, verdicts, run=played)
        print_proofs(played.manifest, extras, run=played)
    raise typer.Exit(Exit.VIOLATED if extras else exit_status(verdicts))


def _check_names(asked: Sequence[str], names: Sequence[str]) -> None:
    """Before anything is played."""
    for name in asked:
        if name not in (*names, "all"):
            raise UsageError(f"there is no {name} here; there are: {', '.join(names)}")


def _until(words: str | None, run: Run) -> Place | int | None:
    """Where to stop: an event of the stored trace, or the number of a step."""
    if words is None or words.isdecimal():
        return None if words is None else int(words)
    process, mark, index = words.rpartition(":")
    if not mark or not index.isdecimal():
        raise UsageError(f"--until takes an event like p3:17 or a step like 40, not {words!r}")
    events = len(run.histories.get(process, ()))
    if int(index) >= events:
        raise UsageError(f"there is no event {words}: {process} has {many(events, 'event')}")
    return Place(process, int(index))


class StepText(NamedTuple):
    """A step in words: the command of a scenario that would have made it, and the answer."""

    moment: PlayedStep
    command: str
    answer: Sequence[str]

    def text(self) -> str:
        ms = self.moment.step.time_ns / _MS
        head = f"{self.moment.number:>5} {ms:>10.3f} ms  {self.command}"
        return "\n".join([head, *(f"{'':21}{line}" for line in self.answer)])

    def data(self) -> dict[str, Any]:
        return {
            "step": self.moment.number,
            "time_ns": self.moment.step.time_ns,
            "command": self.command,
            "answer": self.answer,
        }


class Player:
    """Plays a stored run to where it is to stop, and answers questions about what has come."""

    def __init__(self, run: Run, until: Place | int | None) -> None:
        self._conversation = Conversation()
        self.replay = RunReplay(run, watch=self._conversation.watch)
        self.world = self.replay.world
        self._until = until
        steps = len(self.replay.schedule)
        if isinstance(until, int) and not 1 <= until <= steps:
            raise UsageError(f"there is no step {until}: the run has {many(steps, 'step')}")

    def play(self) -> Iterator[StepText]:
        before = dict(self.world.in_flight)
        for moment in self.replay:
            choice = moment.step.choice
            answer = self._conversation.answer(choice, before, self.world)
            yield StepText(moment, line_for(choice, before), answer)
            before = dict(self.world.in_flight)
            places = (Place(row.process, row.index) for row in moment.rows)
            if self._until in (moment.number, *places):
                return

    # --- questions

    def names(self, asked: Sequence[str]) -> list[str]:
        """The processes that were asked for, each once."""
        _check_names(asked, tuple(self.world.processes))
        return [name for name in self.world.processes if name in asked or "all" in asked]

    def state(self, name: str) -> dict[str, Any]:
        process = self.world.processes[name]
        return {
            "state": process.describe(),
            "waiting": [process.why(message) for message in self._awaited(name)],
        }

    def whys(self, message: MessageId) -> list[str]:
        """What a message waits for, at everybody who is up and has not delivered it."""
        return [
            self.world.processes[name].why(message)
            for name in self.world.up
            if message in self._awaited(name)
        ] or [f"nobody waits for {message}"]

    def _awaited(self, name: str) -> list[MessageId]:
        """What was broadcast to the process so far and has not been delivered there."""
        rows = self.replay.rows
        delivered = {row.message for row in rows if row.kind == "deliver" and row.process == name}
        return [
            row.message
            for row in rows
            if row.kind == "broadcast"
            and name in self.world.views[row.view or 0]
            and row.message not in delivered
        ]

    def state_text(self, name: str) -> str:
        known = self.state(name)
        parts = [
            f"{part}: {json.dumps(value, ensure_ascii=False)}"
            for part, value in known["state"].items()
        ]
        crashed = ", which has crashed" if name in self.world.crashed else ""
        return "\n  ".join([f"state of {name}{crashed}:", *parts, *known["waiting"]]) + "\n"


def _pause(player: Player) -> bool:
    """Answer questions until Enter is pressed; False if the user has seen enough."""
    while True:
        out.print("(Enter, s p2 for its state, w p3#1 for why, q) ", end="")
        line = sys.stdin.readline()
        if not line or line.strip() in ("q", "quit"):
            return False
        if not line.strip():
            return True
        try:
            say(_answer(player, line.split()))
        except UsageError as fault:
            say(str(fault))


def _answer(player: Player, words: list[str]) -> str:
    match words:
        case ["s", *names]:
            return "".join(map(player.state_text, player.names(names or ["all"])))
        case ["w", message]:
            return "\n".join(player.whys(MessageId.parse(message)))
    raise UsageError("press Enter, or write: s p2, s all, w p3#1, q")


# --- the smallest that still fails


@app.command(name="shrink", epilog="Example: tidings shrink runs/demo-c43e56df")
def shrink_command(
    path: Trace,
    run: RunName = None,
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
    source = _stored(path, run, process)
    charge = charge_against(source, _property(guarantee), max_packets)
    pace: ShrinkProgress | None = None
    with progress_line("shrinking") as show:

        def progress(now: ShrinkProgress) -> None:
            nonlocal pace
            pace = now
            show(
                f"shrinking: {many(now.size.processes, 'process')}, "
                f"{many(now.size.broadcasts, 'broadcast')}, {many(now.size.steps, 'step')}; "
                f"{many(now.tried, 'run')} tried"
            )

        small = shrink(source, charge.what, max_packets=charge.max_packets, progress=progress)
    assert pace is not None, "nothing was tried"
    # The same run again writes the same bytes, so its own folder may be written again.
    place = folder or Path("runs") / f"shrunk-{small.manifest.run}"
    rows = write_runs(place, [small], "jsonl")
    (violation, *_) = charge.against(small)
    write_story(place, small, violation, trace=place)
    verdicts = judge(small)
    before, after = _counts(source), _counts(small)
    if as_json:
        print_json(
            result(small.manifest, verdicts)
            | {
                "breaks": charge.what.value,
                "trace": str(place),
                "before": before,
                "after": after,
                "tried": pace.tried,
            }
        )
    else:
        for shown in Player(small, None).play():
            say(shown.text())
        out.print()
        print_run(small)
        shrunk = ", ".join(f"{before[what]:,} {what} to {after[what]:,}" for what in before)
        say(f"shrunk {shrunk}; {many(pace.tried, 'run')} tried")
        say(f"trace  {place}: {many(rows, 'row')}, with its story, a picture and a test")
        print_verdicts(small.manifest, verdicts, run=small, folder=place)
        print_proofs(small.manifest, extra_violations(small), run=small, folder=place)
    raise typer.Exit(Exit.VIOLATED)


def _property(words: str | None) -> Property | None:
    """What is to be broken, by its name."""
    if words is None:
        return None
    known: dict[str, Property] = {one.value: one for one in (*Guarantee, *Extra)}
    if words not in known:
        raise UsageError(f"there is no guarantee {words!r}; there are: {', '.join(known)}")
    return known[words]


def _counts(run: Run) -> dict[str, int]:
    rows = [row.kind for row in run.rows]
    return {
        "processes": len(run.manifest.members),
        "broadcasts": rows.count("broadcast"),
        "steps": len(schedule_of(run.manifest)),
        "rows": len(rows),
    }
