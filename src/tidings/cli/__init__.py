"""The command line: one Typer app, thin commands, one module per room of them.

Every command ends with the verdict or with one clear line; ``main`` turns both into the exit
status.
"""

import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from tidings import __version__
from tidings.__main__ import judges
from tidings.cli.common import app, err, interrupts_heard, out
from tidings.core import Exit, TidingsError, without_secrets
from tidings.core.likeness import did_you_mean
from tidings.disk.files import OUTPUT, named

# Each of these registers its commands on the app; the help lists them in this order.
# isort: off
from tidings.cli import (
    simulate as simulate,
    check as check,
    audit as audit,
    watch as watch,
    campaign as campaign,
    ingest as ingest,
    demo as demo,
    group as group,
    certs as certs,
    node as node,
    members as members,
    status as status,
    settle as settle,
    conform as conform,
    algorithms as algorithms,
    explore as explore,
    replay as replay,
    adapt as adapt,
    proxy as proxy,
)
# isort: on


rooms = (app, certs.app, members.app)
for command in [one for room in rooms for one in room.registered_commands]:
    # Each paragraph in one line: Typer breaks lines itself, and ours would be broken twice.
    paragraphs = cleandoc(getattr(command.callback, "__doc__", None) or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; whatever happens, end with one line and the right status."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with interrupts_heard():
            status = app(args=words or ["--help"], prog_name="tidings", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        if status == Exit.INTERRUPTED:  # what Typer makes of Ctrl-C
            raise KeyboardInterrupt
        return int(status or 0)
    except TidingsError as error:
        return _fail(str(error), error.status, notes=getattr(error, "__notes__", ()))
    except TyperException as error:
        context = getattr(error, "ctx", None)
        used = context.command_path if context is not None else "tidings"
        return _fail(f"{_in_our_words(error)} (see {used} --help)", Exit.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        if "pyspark" in sys.modules:
            sys.modules["tidings.pipeline"].abandon()
        if judges(words):
            print("UNKNOWN")
        return _fail("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away; there is nobody left to tell.
        _drop_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        if os.environ.get("TIDINGS_DEBUG"):
            sys.stderr.write(without_secrets(traceback.format_exc()))
        if isinstance(error, OSError):
            place = f"{error.filename}: " if error.filename else ""
            return _fail(f"{place}{error.strerror or error}", Exit.ENVIRONMENT)
        return _fail(
            f"a bug in tidings: {type(error).__name__}: {error} "
            "(TIDINGS_DEBUG=1 shows where; please report it)",
            Exit.BUG,
        )
    finally:
        out.quiet = False  # where --json had made it so


class _Output(TextIOWrapper):
    """Standard output, which is named where it cannot be written: nobody but us opened it so."""

    def __init__(self, stream: TextIOWrapper) -> None:
        how = stream.line_buffering, stream.write_through
        super().__init__(stream.buffer, stream.encoding, stream.errors, None, *how)

    def write(self, text: str) -> int:
        with named(OUTPUT):
            return super().write(text)

    def flush(self) -> None:
        with named(OUTPUT):
            super().flush()


def _drop_output() -> None:
    """What is still in its buffer goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_our_words(error: TyperException) -> str:
    """A value that is refused is shown, with the one that may be meant.

    Pydantic checks it for Typer, and its words, ``Value error, ...``, are for programmers.
    """
    line, checked = error.format_message(), getattr(error.__cause__, "errors", None)
    if checked is None:
        return line
    fault = checked()[0]
    value, reason = str(fault["input"]), str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
    reason = reason.partition(", unable")[0].replace("Input should", f"{value!r} should")
    known = re.findall("'([^']*)'", reason.partition(" is not one of ")[2])
    return line.removesuffix(error.message) + reason + did_you_mean(value, known)


def _fail(line: str, status: Exit, notes: Sequence[str] = ()) -> int:
    err.print(f"tidings: {without_secrets(' '.join(line.split()))}", soft_wrap=True)
    for note in notes:
        err.print(f"  {note}", soft_wrap=True)
    return status


def _version(asked: bool) -> None:
    if asked:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Group messaging in causal order that survives crashes, and the judge that checks it."""


def run_and_exit() -> NoReturn:
    """The entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a ✓ gets a ?
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = _Output(sys.stdout)
    status = main()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # it was reported, and Python would report it once more
        _drop_output()
    sys.exit(status)
