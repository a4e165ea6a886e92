"""``tidings chat``: talk in a group, line by line."""

from pathlib import Path
from typing import TYPE_CHECKING

from tidings.cli.common import app, say
from tidings.cli.node import GroupFile, Member, again, text_of
from tidings.core import Message, TidingsError

if TYPE_CHECKING:
    from tidings.node.group import Group

HELP = "/who says who is there, /why p3#17 what a message waits for, /quit leaves"


@app.command(epilog="Example: tidings chat p1 --group group.toml")
def chat(member: Member, group: GroupFile = Path("group.toml")) -> None:
    """Talk in a group: what you type is broadcast, what anybody says is printed.

    /who says who is there, /why p3#17 what a message waits for, /quit leaves.
    """
    # Imported late: the other commands need no network.
    from tidings.node import terminal
    from tidings.node.logs import configure

    configure("console", "WARNING")
    say(f"you are {member}; {HELP}")
    terminal.run(member, str(group), _show, _obey, stay=False)


def _show(message: Message) -> None:
    say(f"{message.id.origin}{again(message)}: {text_of(message)}")


def _obey(group: "Group", line: str) -> bool:
    """Whether the line was for us and not for the group."""
    command, _, rest = line.partition(" ")
    if command == "/who":
        status = group.status()
        away = [one for one in status.members if one not in (*status.linked, status.member)]
        say(f"here: {', '.join(status.linked) or 'nobody'}; away: {', '.join(away) or 'nobody'}")
        if status.refusal:
            say(status.refusal)
    elif command == "/why":
        try:
            say(group.why(rest.strip()))
        except TidingsError as error:
            say(str(error))
    elif command.startswith("/"):
        say(HELP)
    return not line or line.startswith("/")
