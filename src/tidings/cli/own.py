"""Processes of one's own on the command line: how they are named, and what if they fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings.cli.common import many, named_protocol
from tidings.core import UsageError
from tidings.guests import is_file
from tidings.guests.diagnosis import ProcessFault
from tidings.simulator import Plan
from tidings.simulator.failure import failed_run
from tidings.trace import Format, Run, write_runs

Anew = Annotated[
    str | None,
    typer.Option("--process", help="Where your class is now: my_file.py:MyProcess."),
]


def checked_own(words: str) -> str:
    """The words after ``--process``, options among them, if they name a class in a file."""
    name, _ = named_protocol(words)
    if not is_file(name):
        raise UsageError(f"--process takes a class in a file: my_file.py:MyProcess, not {words!r}")
    return words


def renamed(run: Run, process: str | None) -> Run:
    """The stored run of a class of one's own, whose file has moved since."""
    if process is None:
        return run
    name, options = named_protocol(checked_own(process))
    options = options or dict(run.manifest.options)
    manifest = msgspec.structs.replace(run.manifest, protocol=name, options=options)
    return msgspec.structs.replace(run, manifest=manifest)


@contextmanager
def faults_are_stored(
    folder: Path | None = None,
    form: Format = "jsonl",
    *,
    seed: int | None = None,
    plan: Plan | None = None,
) -> Iterator[None]:
    """Write the run that a fault ended, under runs/ unless a folder was asked for."""
    try:
        yield
    except ProcessFault as fault:
        planned = msgspec.to_builtins(plan) if plan is not None else None
        run = failed_run(fault, seed=seed, plan=planned)
        if run is not None:
            if folder is None:
                # The same run again writes the same bytes, so its own folder may be written again.
                folder, form = Path("runs") / f"fault-{run.manifest.run}", "jsonl"
            # A file of rows must not be empty; Parquet says how many there are, even none.
            write_runs(folder, [run], form if run.histories else "parquet")
            steps = many(len(fault.schedule), "step")
            fault.add_note(f"after {steps}; once more: tidings replay {folder}")
        raise
