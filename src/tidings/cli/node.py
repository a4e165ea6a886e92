"""One member of a group: ``tidings node`` for pipes and services, ``tidings chat`` for people."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from tidings.cli.common import AsJson, GroupFile, app
from tidings.core import Message, TidingsError, UsageError
from tidings.node.config import Config, read_config

if TYPE_CHECKING:
    from tidings.node.group import Group, Status

Member = Annotated[str, typer.Argument(help="Which member of the group this is.")]
LEVELS = ("debug", "info", "warning", "error")
Founding = Annotated[
    bool,
    typer.Option(
        "--founding", help="The group is certainly new: begin before all members have met."
    ),
]
Newcomer = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        envvar="TIDINGS_ADDRESS",
        help="Where a newcomer is reached that is not in the group file, at its first start; p2+1 "
        "need not say so at the address of p2.",
    ),
]
CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160)) if code != 9}
"""What a text may not do to a terminal, and how it is shown instead."""


@app.command(epilog="Example: tidings node p1 --group group.toml")
def node(
    member: Annotated[
        str,
        typer.Argument(
            help="Which member of the group this is; else whose certificate is here.",
            show_default=False,
        ),
    ] = "",
    group: GroupFile = Path("group.toml"),
    founding: Founding = False,
    address: Newcomer = "",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="PORT",
            help="Where on loopback metrics and health are, in place of what the group file says; "
            "a port, or HOST:PORT.",
            show_default=False,
        ),
    ] = "",
    logs: Annotated[
        Literal["console", "json"], typer.Option(help="How to log, on standard error.")
    ] = "console",
    level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    as_json: AsJson = False,
) -> None:
    """Run one member: each line of input is broadcast, each delivery is a line of output.

    A delivery counts as processed once its line is written. SIGTERM and Ctrl-C leave the group
    in good order, the second one at once; the end of the input does not. Unless the input is a
    terminal, SIGHUP reads the certificates again. In a pipe:
    tail -f app.log | tidings node p1 --json > all.jsonl

    The group file is written by: tidings group p1 p2 p3. Somebody who is not in it waits until
    a member adds it.
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.logs import configure

    if level not in LEVELS:
        raise UsageError(f"--level is one of {', '.join(LEVELS)}, not {level!r}")
    configure(logs, level.upper())
    if logs == "console":
        for handler in logging.getLogger("tidings.node").handlers:
            handler.addFilter(_is_not_the_last_word)
    config = read_config(group, member)
    member = member or _certified_here(config)
    face, output = _Pipe(member, as_json), terminal.Output()
    where = {"address": address, "metrics": metrics}
    terminal.run(member, config, face, output, stay=True, founding=founding, **where)


def _certified_here(config: Config) -> str:
    """Who has a certificate on this machine: a service need not be told who runs there."""
    if config.certificates is None:
        raise UsageError(f"which member is this? One of {', '.join(config.members)}")
    folder, certified = config.certificates, config.certified_here()
    if len(certified) != 1:
        here = ", ".join(certified) or "nobody"
        way_out = (
            f"name it, as in tidings node {certified[0]}, or delete those of others"
            if certified
            else f"copy {folder.name}/NAME here from where the group was made"
        )
        raise UsageError(f"which member is this? {folder} has certificates of {here}; {way_out}")
    return certified[0]


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
        address = str(group.config.listens_on(group.name))
        self._logger.info("joined", group=group.config.name, address=address)

    def obey(self, group: "Group", line: bytes) -> bool:
        return False

    def look(self, status: "Status") -> None:
        pass

    def tell(self, what: str) -> None:
        self._logger.warning(what)


def _line(message: Message) -> str:
    return f"{message.id}{_again(message)} {_text_of(message)}"


def _json_line(message: Message) -> str:
    return msgspec.json.encode(
        {
            "origin": message.id.origin,
            "seq": message.id.seq,
            "text": message.text.decode("utf-8", "backslashreplace"),
            "again": bool(_again(message)),
        }
    ).decode()


def _text_of(message: Message) -> str:
    """On one line, and without anything that would move the cursor."""
    return message.text.decode("utf-8", "backslashreplace").translate(CONTROL)


def _again(message: Message) -> str:
    """A mark for what was handed over before a restart."""
    from tidings.node.group import Replayed

    return " (again)" if isinstance(message, Replayed) else ""


# --- for people

LOOKS = 5
"""How often to look before it is said that somebody is away: linking takes a moment."""
HELP = "/who says who is there, /why what your words wait for, /quit leaves"
TOLD_OTHERWISE = ("cannot be reached", "broadcasts are stuck", "left in haste", "stopped")
"""Log lines about what the chat says in its own words."""


@app.command(epilog="Example: tidings chat p1 --group group.toml")
def chat(
    member: Member,
    group: GroupFile = Path("group.toml"),
    founding: Founding = False,
    address: Newcomer = "",
) -> None:
    """Talk in a group: what you type is broadcast, what any member says is printed.

    /who says who is there, /why what your words wait for (/why bob#3: what that message waits
    for), /quit leaves; so do Ctrl-D and Ctrl-C.

    To try it, run tidings group alice bob carol; then, each in its own terminal, tidings chat
    alice, tidings chat bob, tidings chat carol.
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.logs import configure

    configure("console", "WARNING")
    for handler in logging.getLogger("tidings.node").handlers:
        handler.addFilter(_is_for_people)
    config, output = read_config(group, member), terminal.Output()
    face = _Chat(output.say)
    terminal.run(member, config, face, output, stay=False, founding=founding, address=address)


def _is_for_people(record: logging.LogRecord) -> bool:
    return not any(words in record.getMessage() for words in TOLD_OTHERWISE)


class _Chat:
    """Who is there, who says what, and why nothing happens when nothing does."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._status: Status | None = None
        self._looks = 0
        self._waits = ""

    def joined(self, group: "Group") -> None:
        self._say(f"you are {group.name}; {HELP}")

    def show(self, message: Message) -> str:
        return f"{message.id.origin}{_again(message)}: {_text_of(message)}"

    def look(self, status: "Status") -> None:
        before = self._status
        self._looks += 1
        are_all_here = len(status.linked) + 1 == len(status.members)
        if before is None and self._looks < LOOKS and not are_all_here:
            return
        self._status = status
        if before is None:
            self._say(_presence(status))
        else:
            for one in status.members:
                if (one in status.linked) != (one in before.linked):
                    self._say(f"{one} is {'here' if one in status.linked else 'away'}")
        waits = status.refusal or status.stuck
        if waits and waits != self._waits:
            self._say(f"waiting: {waits}")
        self._waits = waits

    def obey(self, group: "Group", line: bytes) -> bool:
        """Whether the line was for us and not for the group."""
        command, _, rest = line.decode("utf-8", "replace").partition(" ")
        if command == "/quit":
            raise EOFError
        if command == "/who":
            self._say(_presence(group.status()))
        elif command == "/why":
            self._say(_why(group, rest.strip()))
        elif command.startswith("/"):
            self._say(HELP)
        return not line.strip() or command.startswith("/")

    def tell(self, what: str) -> None:
        self._say(what)


def _presence(status: "Status") -> str:
    away = [one for one in status.members if one not in (*status.linked, status.member)]
    return f"here: {', '.join(status.linked) or 'nobody'}; away: {', '.join(away) or 'nobody'}"


def _why(group: "Group", asked: str) -> str:
    try:
        return group.why(asked or None) or "everything you said was delivered"
    except TidingsError as error:
        return str(error)
