"""``tidings chat``: talk in a group, line by line."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.cli.common import app
from tidings.cli.node import Founding, GroupFile, Member, again, text_of
from tidings.core import Message, TidingsError

if TYPE_CHECKING:
    from tidings.node.group import Group, Status

LOOKS = 5
"""How often to look before it is said that somebody is away: linking takes a moment."""
HELP = "/who says who is there, /why what your words wait for, /quit leaves"
TOLD_OTHERWISE = ("cannot be reached", "broadcasts are stuck", "left in haste", "stopped")
"""Log lines about what the chat says in its own words."""


@app.command(epilog="Example: tidings chat p1 --group group.toml")
def chat(member: Member, group: GroupFile = Path("group.toml"), founding: Founding = False) -> None:
    """Talk in a group: what you type is broadcast, what any member says is printed.

    /who says who is there, /why what your words wait for (/why bob#3: what that message waits
    for), /quit leaves; so do Ctrl-D and Ctrl-C.

    To try it, run tidings group alice bob carol; then, each in its own terminal, tidings chat
    alice, tidings chat bob, tidings chat carol.
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.config import read_config
    from tidings.node.logs import configure

    configure("console", "WARNING")
    for handler in logging.getLogger("tidings.node").handlers:
        handler.addFilter(_is_for_people)
    output = terminal.Output()
    face = _Chat(output.say)
    terminal.run(member, read_config(group), face, output, stay=False, founding=founding)


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
        return f"{message.id.origin}{again(message)}: {text_of(message)}"

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
