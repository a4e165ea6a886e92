"""What a program may have to deal with, beside what is wrong with its own calls."""

from tidings.core import Exit, Members, TidingsError


class Closed(TidingsError):  # noqa: N818 - reads as what happened
    """The program has left the group, or never entered it."""

    status = Exit.USAGE


class NotReady(TidingsError):  # noqa: N818 - reads as what happened
    """Nothing would be delivered yet; the text says what is missing."""

    status = Exit.ENVIRONMENT

    def __init__(self, words: str, missing: Members = ()) -> None:
        super().__init__(words)
        self.missing = missing
        """Members that have no link with this one."""


class LogFull(TidingsError):  # noqa: N818 - reads as what happened
    """The log has reached its limit: somebody is away, or does not read; nothing is lost."""

    status = Exit.ENVIRONMENT


class Removed(TidingsError):  # noqa: N818 - reads as what happened
    """The others have removed this member from the group. No restart changes that."""

    status = Exit.DATA


class ChangeDenied(TidingsError):  # noqa: N818 - reads as what happened
    """The group did not change; the text says why."""

    status = Exit.ENVIRONMENT


class Halted(TidingsError):  # noqa: N818 - reads as what happened
    """The member cannot go on under its name, nor after a restart; the text says why."""

    status = Exit.DATA


def replacing_helps(name: str) -> str:
    """The way out of it, if the group can change."""
    return f"; where another member runs, tidings members replace {name} helps"


class ProcessFailed(TidingsError):  # noqa: N818 - reads as what happened
    """The process raised something, and is in no state to go on."""


class TooLong(ProcessFailed):
    """The process said something that no member would accept."""
