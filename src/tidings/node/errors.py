"""What a program may have to deal with, beside what is wrong with its own calls."""

from tidings.core import Exit, TidingsError


class Closed(TidingsError):  # noqa: N818 - reads as what happened
    """The program has left the group, or never entered it."""

    status = Exit.USAGE


class LogFull(TidingsError):  # noqa: N818 - reads as what happened
    """The log has reached its limit: somebody is away, or does not read; nothing is lost."""

    status = Exit.ENVIRONMENT


class Removed(TidingsError):  # noqa: N818 - reads as what happened
    """The others have removed this member from the group."""

    status = Exit.ENVIRONMENT


class ChangeDenied(TidingsError):  # noqa: N818 - reads as what happened
    """The group did not change; the text says why."""

    status = Exit.ENVIRONMENT
