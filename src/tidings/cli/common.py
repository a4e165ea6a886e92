"""What the commands share: the app they register on, and the ways they say things.

Results go to standard output, progress to standard error.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
import typer
from rich.console import Console

from tidings.core import UsageError, ordered
from tidings.report import can_be_replayed, explain, is_long, plain_table, verdict_table
from tidings.report.words import listed
from tidings.report.words import many as many
from tidings.shrink import planned_packets
from tidings.simulator.script import protocol_of
from tidings.spec import Extra, Verdict, Violation, broken
from tidings.trace import Manifest, Run, read_runs

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Group messaging that cannot lose, repeat or reorder, and the tool to prove it.",
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

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, nothing else.")]


def say(text: str) -> None:
    """Plain words, never wrapped: the terminal does that better."""
    out.print(text, soft_wrap=True)


class ProgressLine:
    """How far a long command has come: on a terminal one line that changes.

    Elsewhere nothing is printed, or with ``every_s`` a new line now and then, once the command
    takes longer than ``quiet_s``.
    """

    def __init__(self, words: str, every_s: float | None = None, quiet_s: float = QUIET_S) -> None:
        self._status = err.status(words)
        self._every_s = every_s
        self._next_s = time.monotonic() + quiet_s

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, words: str) -> None:
        self._status.update(words)
        now_s = time.monotonic()
        if self._every_s is not None and not err.is_terminal and now_s >= self._next_s:
            err.print(f"... {words}", soft_wrap=True)
            self._next_s = now_s + self._every_s


def print_table(rows: Sequence[Mapping[str, str]], as_json: bool) -> None:
    if as_json:
        print_json({"rows": rows})
    else:
        out.print(plain_table(rows))


def named_protocol(words: str, options: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """A protocol as it is named on the command line, and its options."""
    whole = " ".join([words, *options])
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{whole!r} is not UTF-8, as names and options have to be") from None
    return protocol_of(whole)


def stored_run(path: Path, name: str | None) -> Run:
    """One run of a trace: the named one, or the only one."""
    runs = {run.manifest.run: run for run in read_runs(path)}
    known = ", ".join(runs)
    if name is None and len(runs) > 1:
        raise UsageError(f"{path} has {many(len(runs), 'run')}, choose one with --run: {known}")
    if name is not None and name not in runs:
        raise UsageError(f"{path} has no run {name}; it has: {known}")
    return runs[name] if name is not None else next(iter(runs.values()))


def print_run(run: Run) -> None:
    manifest = run.manifest
    kinds = [row.kind for row in run.rows]
    crashed = [name for name, fate in manifest.fates.items() if fate == "crashed"]
    back = ordered(row.process for row in run.rows if row.kind == "recover")
    broadcasts, planned = kinds.count("broadcast"), manifest.plan.get("broadcasts")
    is_less = isinstance(planned, int) and planned > broadcasts
    of_planned = f" of {planned:,} planned" if is_less else ""
    parts = [
        str(manifest.protocol),
        many(len(manifest.members), "process"),
        many(broadcasts, "broadcast") + of_planned,
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
) -> None:
    """The table and the proofs. What lies in a ``folder`` with its schedule can be replayed."""
    stored = folder if can_be_replayed(manifest) else None
    out.print()
    out.print(verdict_table(verdicts))
    for line in (*_unknowns(verdicts), *notes_of(verdicts)):
        say(line)
    for verdict in verdicts:
        for violation in verdict.violations[:1]:
            out.print()
            say(
                explain(
                    violation,
                    manifest.run,
                    manifest.seed,
                    folder=stored,
                    is_one_of_many=is_one_of_many,
                    is_long=is_long(manifest),
                    trace=run,
                )
            )


def extra_violations(run: Run) -> list[Violation]:
    """Where a run breaks what is promised beside the five: cost, if it was limited, and reach."""
    allowed = planned_packets(run.manifest)
    cost = [] if allowed is None else [broken(run, Extra.COST, allowed)]
    return [one for one in (*cost, broken(run, Extra.REACH)) if one is not None]


def print_extras(run: Run, violations: Sequence[Violation], folder: Path | None = None) -> None:
    for violation in violations:
        out.print()
        say(
            explain(
                violation,
                run.manifest.run,
                run.manifest.seed,
                folder=folder,
                is_long=is_long(run.manifest),
                trace=run,
            )
        )


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
