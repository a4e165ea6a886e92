"""``tidings node``: one member of a group, as a program for pipes and services."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from tidings.cli.common import AsJson, app
from tidings.core import Message, UsageError

if TYPE_CHECKING:
    from tidings.node.group import Group

Member = Annotated[str, typer.Argument(help="Which member of the group this is.")]
LEVELS = ("debug", "info", "warning", "error")
GroupFile = Annotated[Path, typer.Option("--group", help="The group file, the same for all.")]


@app.command(epilog="Example: tidings node p1 --group group.toml")
def node(
    member: Member,
    group: GroupFile = Path("group.toml"),
    logs: Annotated[
        Literal["console", "json"], typer.Option(help="How to log, on standard error.")
    ] = "console",
    level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    as_json: AsJson = False,
) -> None:
    """Run one member: each line of input is broadcast, each delivery is a line of output.

    A delivery counts as processed once its line is written. SIGTERM and Ctrl-C leave the group
    in good order; so does nothing else, least of all the end of the input.
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.logs import configure

    if level not in LEVELS:
        raise UsageError(f"--level is one of {', '.join(LEVELS)}, not {level!r}")
    configure(logs, level.upper())
    terminal.run(member, str(group), _show_json if as_json else _show, _obey, stay=True)


def _show(message: Message) -> None:
    sys.stdout.write(f"{message.id}{again(message)} {text_of(message)}\n")
    sys.stdout.flush()


def _show_json(message: Message) -> None:
    origin, seq = message.id
    told = {
        "origin": origin,
        "seq": seq,
        "text": text_of(message),
        "again": bool(again(message)),
    }
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    sys.stdout.flush()


def text_of(message: Message) -> str:
    return message.text.decode("utf-8", "backslashreplace")


def again(message: Message) -> str:
    """A mark for what was handed over before a restart."""
    from tidings.node.group import Replayed

    return " (again)" if isinstance(message, Replayed) else ""


def _obey(group: "Group", line: str) -> bool:
    return False
