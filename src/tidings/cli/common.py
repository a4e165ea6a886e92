"""What the commands share: the app they register on, and the ways they say things.

Results go to standard output, progress to standard error.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from tidings.core import MessageId, TidingsError, UsageError, ordered
from tidings.guests import is_file
from tidings.guests.diagnosis import ProcessFault
from tidings.node.config import Config, read_config
from tidings.protocols import PROTOCOLS
from tidings.report import (
    can_be_replayed,
    cause_lines,
    explain,
    is_long,
    listed,
    many,
    verdict_table,
)
from tidings.shrink import planned_packets
from tidings.simulator import Plan
from tidings.simulator.failure import failed_run
from tidings.simulator.script import protocol_of
from tidings.spec import Extra, Place, Verdict, Violation, broken
from tidings.trace import Format, Manifest, Run, layout, read_manifests, write_runs

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Group messaging in causal order that survives crashes, and the judge that checks it.",
    epilog="Start with: tidings demo",
)


class _Console(Console):
    """Words as they are: no emoji for :100:, and a reader who went away is an error of ours."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, markup=False, **options)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = 160  # for a file or another program, no line need be folded

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = _Console()
err = _Console(stderr=True)

QUIET_S = 2.0
"""What takes no longer needs no progress lines in a file."""


def _say_nothing_else(as_json: bool) -> bool:
    out.quiet = as_json
    return as_json


AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the result as JSON, nothing else.", callback=_say_nothing_else
    ),
]
GroupFile = Annotated[Path, typer.Option("--group", help="The group file, the same for all.")]


def group_that_is(path: Path) -> Config:
    """Of a group that was made before: whoever asks for it may be in another folder."""
    return read_config(path, way_out="--group says where the group file is")


def say(text: str) -> None:
    """Plain words, never wrapped: the terminal does that better."""
    out.print(text, soft_wrap=True)


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """What Ctrl-C breaks off in Spark may end with an error of its own, which hides it."""
    try:
        yield
    except Exception as fault:
        hidden: BaseException | None = fault
        while hidden is not None and not isinstance(hidden, KeyboardInterrupt):
            hidden = hidden.__context__
        if hidden is None or isinstance(fault, TidingsError):
            raise
        raise KeyboardInterrupt from fault


@contextmanager
def progress_line(
    words: str, every_s: float | None = None, quiet_s: float = QUIET_S
) -> Iterator[Callable[[str], None]]:
    """How far a long command has come: on a terminal one line that changes.

    Elsewhere nothing is printed, or with ``every_s`` a new line now and then, once the command
    takes longer than ``quiet_s``.
    """
    next_s = time.monotonic() + quiet_s

    def show(words: str) -> None:
        nonlocal next_s
        status.update(words)
        now_s = time.monotonic()
        if every_s is not None and not err.is_terminal and now_s >= next_s:
            err.print(f"... {words}", soft_wrap=True)
            next_s = now_s + every_s

    with err.status(words) as status:
        yield show


def named_protocol(words: str, options: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """A protocol as it is named on the command line, and its options."""
    whole = " ".join([words, *options])
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{whole!r} is not UTF-8, as names and options have to be") from None
    return protocol_of(whole)


def known_protocols(incomplete: str) -> list[str]:
    """For completion in a shell."""
    return [name for name in PROTOCOLS if name.startswith(incomplete)]


def group_manifest(path: Path, done: str) -> Manifest:
    """Of the one run in the trace folder of a group; ``done`` says what is done with it."""
    files = layout(path)
    if not path.is_dir() or not files.segments:
        raise UsageError(f"{path}: not the trace folder of a group on a real network")
    manifests = read_manifests(files.manifests)
    if len(manifests) > 1:
        raise UsageError(
            f"{path} has several runs, {listed([*manifests])}; one at a time is {done}"
        )
    (manifest,) = manifests.values()
    return manifest


def print_run(run: Run) -> None:
    manifest = run.manifest
    kinds = [row.kind for row in run.rows]
    crashed = [name for name, fate in manifest.fates.items() if fate == "crashed"]
    back = ordered(row.process for row in run.rows if row.kind == "recover")
    broadcasts, planned = kinds.count("broadcast"), manifest.plan.get("broadcasts")
    is_less = isinstance(planned, int) and planned > broadcasts
    parts = [
        str(manifest.protocol),
        many(len(manifest.members), "process"),
        many(broadcasts, "broadcast") + (f" of {planned:,} planned" if is_less else ""),
        many(kinds.count("deliver"), "delivery"),
        many(kinds.count("send"), "packet"),
        *([f"crashed: {', '.join(crashed)}"] if crashed else []),
        *([f"came back: {', '.join(back)}"] if back else []),
    ]
    say(f"run    {manifest.run}: {', '.join(parts)}")


def print_verdicts(
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    *,
    run: Run | None = None,
    folder: Path | None = None,
    is_one_of_many: bool = False,
    log: Mapping[Place | MessageId, str] = MappingProxyType({}),
) -> None:
    """The table and the proofs."""
    out.print()
    out.print(verdict_table(verdicts))
    for line in (*_unknowns(verdicts), *notes_of(verdicts), *cause_lines(verdicts)):
        say(line)
    firsts = [violation for verdict in verdicts for violation in verdict.violations[:1]]
    print_proofs(manifest, firsts, run=run, folder=folder, is_one_of_many=is_one_of_many, log=log)


def print_proofs(
    manifest: Manifest,
    violations: Sequence[Violation],
    *,
    run: Run | None = None,
    folder: Path | None = None,
    is_one_of_many: bool = False,
    log: Mapping[Place | MessageId, str] = MappingProxyType({}),
) -> None:
    """What lies in a ``folder`` with its schedule can be replayed."""
    for violation in violations:
        out.print()
        say(
            explain(
                violation,
                manifest.run,
                manifest.seed,
                folder=folder if can_be_replayed(manifest) else None,
                is_one_of_many=is_one_of_many,
                is_long=is_long(manifest),
                trace=run,
                log=log,
            )
        )


def extra_violations(run: Run) -> list[Violation]:
    """Where a run breaks what is promised beside the five: cost, if it was limited, and reach."""
    allowed = planned_packets(run.manifest)
    cost = [] if allowed is None else [broken(run, Extra.COST, allowed)]
    return [one for one in (*cost, broken(run, Extra.REACH)) if one is not None]


def _unknowns(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Why some verdict is unknown: each reason once, with all guarantees that it concerns."""
    concerned: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.reason:
            concerned.setdefault(verdict.reason, []).append(verdict.guarantee.value)
    for reason, names in concerned.items():
        yield f"{listed(names)} {'is' if len(names) == 1 else 'are'} unknown: {reason}"


def notes_of(verdicts: Sequence[Verdict]) -> list[str]:
    """What the verdicts are about, if not the whole run; a note that another one repeats is not."""
    notes = dict.fromkeys(verdict.note for verdict in verdicts if verdict.note)
    return [one for one in notes if not any(other.startswith(f"{one};") for other in notes)]


def result(manifest: Manifest, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "run": manifest.run,
        "seed": manifest.seed,
        "protocol": manifest.protocol,
        "verdicts": {verdict.guarantee.value: msgspec.to_builtins(verdict) for verdict in verdicts},
    }


def print_json(result: Mapping[str, Any]) -> None:
    print(json.dumps(result, indent=2, ensure_ascii=False))


# --- processes of one's own: how they are named, and what if they fail


def checked_own(words: str) -> str:
    """The words after ``--process``, options among them, if they name a class in a file."""
    name, _ = named_protocol(words)
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
        run = failed_run(fault, seed=seed, plan=msgspec.to_builtins(plan))
        if run is not None:
            if folder is None:
                # The same run again writes the same bytes, so its own folder may be written again.
                folder, form = Path("runs") / f"fault-{run.manifest.run}", "jsonl"
            # A file of rows must not be empty; Parquet says how many there are, even none.
            write_runs(folder, [run], form if run.histories else "parquet")
            steps = many(len(fault.schedule), "step")
            note = f"after {steps}; once more: tidings replay {folder}"
            if note not in getattr(fault, "__notes__", ()):
                fault.add_note(note)
        raise
