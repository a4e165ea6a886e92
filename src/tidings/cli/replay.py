"""``tidings replay``: a stored run once more, step by step, as far as one likes."""

import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tidings.cli.common import (
    AsJson,
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
from tidings.core import Exit, MessageId, UsageError
from tidings.report.words import many
from tidings.simulator import PlayedStep, RunReplay, World
from tidings.simulator.conversation import Conversation
from tidings.simulator.script import line_for
from tidings.spec import Place, exit_status, judge
from tidings.trace import Run

_MS = 1_000_000


@app.command(epilog="Example: tidings replay runs/7 --state p3")
def replay(
    path: Annotated[Path, typer.Argument(help="A trace: a folder, or one file of it.")],
    run: Annotated[str | None, typer.Option(help="Which run of the trace, if it has many.")] = None,
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
    stored = renamed(stored_run(path, run), process)
    player = Player(stored, _until(until, stored))
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
            for one in last_steps:
                say(one.text())
    played = player.replay.so_far()
    verdicts = judge(played)
    rows = len(player.replay.rows)
    shown = player.names(state or ())
    extras = extra_violations(played)
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
        print_extras(played, extras)
    raise typer.Exit(Exit.VIOLATED if extras else exit_status(verdicts))


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
        step = self.moment.step
        head = f"{self.moment.number:>5} {step.time_ns / _MS:>10.3f} ms  {self.command}"
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
        self._until = until
        steps = len(self.replay.schedule)
        if isinstance(until, int) and not 1 <= until <= steps:
            raise UsageError(f"there is no step {until}: the run has {many(steps, 'step')}")

    @property
    def world(self) -> World:
        return self.replay.world

    def play(self) -> Iterator[StepText]:
        before = dict(self.world.in_flight)
        for moment in self.replay:
            choice = moment.step.choice
            answer = self._conversation.answer(choice, before, self.world)
            yield StepText(moment, line_for(choice, before), answer)
            before = dict(self.world.in_flight)
            places = [Place(row.process, row.index) for row in moment.rows]
            if self._until == moment.number or self._until in places:
                return

    # --- questions

    def names(self, asked: Sequence[str]) -> list[str]:
        """The processes that were asked for, each once."""
        known = list(self.world.processes)
        for name in asked:
            if name not in (*known, "all"):
                raise UsageError(f"there is no {name} here; there are: {', '.join(known)}")
        return [name for name in known if name in asked or "all" in asked]

    def state(self, name: str) -> dict[str, Any]:
        process = self.world.processes[name]
        return {
            "state": process.describe(),
            "waiting": [process.why(message) for message in self._awaited(name)],
        }

    def whys(self, message: MessageId) -> list[str]:
        """What a message waits for, at everybody who is up and has not delivered it."""
        waiting = [name for name in self.world.up if message in self._awaited(name)]
        whys = [self.world.processes[name].why(message) for name in waiting]
        return whys or [f"nobody waits for {message}"]

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
        last_steps = self.state(name)
        crashed = ", which has crashed" if name in self.world.crashed else ""
        return "\n".join(
            [
                f"state of {name}{crashed}:",
                *(
                    f"  {part}: {json.dumps(value, ensure_ascii=False)}"
                    for part, value in last_steps["state"].items()
                ),
                *(f"  {why}" for why in last_steps["waiting"]),
                "",
            ]
        )


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
