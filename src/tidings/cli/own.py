"""Processes of one's own on the command line: how they are named, and what if they fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tidings.core import UsageError
from tidings.protocols.own import is_file
from tidings.simulator import Plan
from tidings.simulator.diagnosis import ProcessFault
from tidings.simulator.failure import failed_run
from tidings.simulator.script import protocol_of
from tidings.trace import Format, write_runs


def checked_own(words: str) -> str:
    """The words after ``--process``, options among them, if they name a class in a file."""
    name, _ = protocol_of(words)
    if not is_file(name):
        raise UsageError(f"--process takes a class in a file: my_file.py:MyProcess, not {words!r}")
    return words


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
            write_runs(folder, [run], form)
            steps = len(fault.schedule)
            fault.add_note(f"after {steps:,} steps; once more: tidings replay {folder}")
        raise
