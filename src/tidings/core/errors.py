"""What the world did wrong, each with a way out and an exit status.

What *we* did wrong is an ``AssertionError`` with the values in it, never one of these.
"""

from enum import IntEnum


class Exit(IntEnum):
    """The exit statuses of every command; from 64 on they follow BSD's sysexits."""

    HOLDS = 0
    VIOLATED = 1
    UNKNOWN = 2
    USAGE = 64
    DATA = 65
    ENVIRONMENT = 69
    BUG = 70
    INTERRUPTED = 130


class TidingsError(Exception):
    """One clear line for the user; the command ends with ``status``."""

    status: Exit = Exit.BUG


class UsageError(TidingsError):
    """The command, the scenario or the options ask for something that does not exist."""

    status = Exit.USAGE


class DataError(TidingsError):
    """A file does not say what its format promises. The text names the file and the place."""

    status = Exit.DATA


class Interrupted(TidingsError):  # noqa: N818 - reads as what happened
    """By Ctrl-C; the command has reported what it knew until then."""

    status = Exit.INTERRUPTED


class EnvironmentMissing(TidingsError):  # noqa: N818 - reads as what happened
    """Something outside the project is needed and not there; the text says how to get it."""

    status = Exit.ENVIRONMENT


def with_extra(extra: str) -> str:
    """How to get what only some commands need; without a package index, from a wheel file."""
    pip = f"pip install 'tidings[{extra}]', or 'tidings-...whl[{extra}]' for a wheel file"
    return f"install tidings with the extra [{extra}]: {pip}"
