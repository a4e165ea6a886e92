"""``tidings adapt``: one of our protocols for somebody else's test program."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.common import app, named_protocol, say
from tidings.core import UsageError
from tidings.disk.files import whole_file
from tidings.guests.anysystem.guest import module_for


@app.command(epilog="Example: tidings adapt majority-relay --option notice=yes --out solution.py")
def adapt(
    protocol: Annotated[str, typer.Argument(help="The algorithm: see tidings algorithms.")],
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the protocol, as name=value.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", help="A new file; without one it is printed.")
    ] = None,
) -> None:
    """Write a protocol as a module for AnySystem or dslab-mp.

    It has a class BroadcastProcess with on_local_message, on_message and on_timer, and imports
    tidings, which must be installed where it runs.
    """
    command = ["tidings", "adapt", protocol, *(f"--option={pair}" for pair in option or ())]
    module = module_for(*named_protocol(protocol, option or ()), command=shlex.join(command))
    if file is None:
        print(module, end="")
    elif file.exists():
        raise UsageError(f"{file} is there already; choose another")
    else:
        with whole_file(file) as draft:
            draft.write_text(module, encoding="utf-8")
        say(f"module {file}: class BroadcastProcess")
