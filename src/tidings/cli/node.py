"""``tidings node``: one member of a group, as a program for pipes and services; and a first group.

``tidings group`` writes the file that all members need.
"""

import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from tidings.cli.common import AsJson, app, say
from tidings.core import Message, UsageError, is_name

if TYPE_CHECKING:
    from tidings.node.group import Group, Status

Member = Annotated[str, typer.Argument(help="Which member of the group this is.")]
LEVELS = ("debug", "info", "warning", "error")
GroupFile = Annotated[Path, typer.Option("--group", help="The group file, the same for all.")]
Founding = Annotated[
    bool,
    typer.Option(
        "--founding", help="The group is certainly new: begin before all members have met."
    ),
]
CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160)) if code != 9}
"""What a text may not do to a terminal, and how it is shown instead."""


@app.command("group", epilog="Example: tidings group alice bob carol --group friends.toml")
def new_group(
    members: Annotated[list[str], typer.Argument(help="The names of all members.")],
    group: GroupFile = Path("group.toml"),
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="The first port; ports in use are skipped.")
    ] = 7001,
) -> None:
    """Write a first group file, for members on this machine.

    Then, each in its own terminal: tidings chat alice, tidings chat bob, tidings chat carol.
    docs/node.md lists all settings of the file.
    """
    # Imported late: the other commands need no network.
    from tidings.node.config import new_group_file

    for member in members:
        if not is_name(member):
            raise UsageError(f"{member!r} is not a name: letters, digits, _ . -")
        if members.count(member) > 1:
            raise UsageError(f"{member} is there twice")
    addresses = dict(zip(members, _free_addresses(len(members), port), strict=True))
    text = new_group_file(group.stem if is_name(group.stem) else "group", addresses)
    try:
        with group.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{group} is there already; it stays as it is") from None
    say(f"{group}: " + ", ".join(f"{member} on {address}" for member, address in addresses.items()))


def _free_addresses(count: int, port: int) -> list[str]:
    """So many ports from this one on that nobody listens on at the moment."""
    found: list[str] = []
    while len(found) < count:
        if port > 65535:
            raise UsageError(f"there are not {count} free ports from there on")
        try:
            socket.create_server(("127.0.0.1", port)).close()
            found.append(f"127.0.0.1:{port}")
        except OSError:
            pass
        port += 1
    return found


@app.command(epilog="Example: tidings node p1 --group group.toml")
def node(
    member: Member,
    group: GroupFile = Path("group.toml"),
    founding: Founding = False,
    logs: Annotated[
        Literal["console", "json"], typer.Option(help="How to log, on standard error.")
    ] = "console",
    level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    as_json: AsJson = False,
) -> None:
    """Run one member: each line of input is broadcast, each delivery is a line of output.

    A delivery counts as processed once its line is written. SIGTERM and Ctrl-C leave the group
    in good order, the second one at once; the end of the input does not. In a pipe:
    tail -f app.log | tidings node p1 --json > all.jsonl

    The group file is written by: tidings group p1 p2 p3
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.config import read_config
    from tidings.node.logs import configure

    if level not in LEVELS:
        raise UsageError(f"--level is one of {', '.join(LEVELS)}, not {level!r}")
    configure(logs, level.upper())
    if logs == "console":
        for handler in logging.getLogger("tidings.node").handlers:
            handler.addFilter(_is_not_the_last_word)
    face, output = _Pipe(member, as_json), terminal.Output()
    terminal.run(member, read_config(group), face, output, stay=True, founding=founding)


def _is_not_the_last_word(record: logging.LogRecord) -> bool:
    """What stops the member is the command's own last line; to a machine, it is an event, too."""
    return record.levelno < logging.ERROR


class _Pipe:
    """Deliveries on standard output, everything else in the log."""

    def __init__(self, member: str, as_json: bool) -> None:
        from tidings.node.logs import get_logger

        self._logger = get_logger(member=member)
        self.show = _json_line if as_json else _line

    def joined(self, group: "Group") -> None:
        config = group.config
        address = str(config.addresses[group.name])
        self._logger.info("joined", group=config.name, address=address)

    def obey(self, group: "Group", line: bytes) -> bool:
        return False

    def look(self, status: "Status") -> None:
        pass

    def tell(self, what: str) -> None:
        self._logger.warning(what)


def _line(message: Message) -> str:
    return f"{message.id}{again(message)} {text_of(message)}"


def _json_line(message: Message) -> str:
    origin, seq = message.id
    about = {
        "origin": origin,
        "seq": seq,
        "text": message.text.decode("utf-8", "backslashreplace"),
        "again": bool(again(message)),
    }
    return msgspec.json.encode(about).decode()


def text_of(message: Message) -> str:
    """On one line, and without anything that would move the cursor."""
    return message.text.decode("utf-8", "backslashreplace").translate(CONTROL)


def again(message: Message) -> str:
    """A mark for what was handed over before a restart."""
    from tidings.node.group import Replayed

    return " (again)" if isinstance(message, Replayed) else ""
