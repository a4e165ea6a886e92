"""``tidings conform``: whether real members did what their protocol would have done."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from tidings.cli.common import AsJson, app, group_manifest, out, print_json, progress_line, say
from tidings.core import Exit, UsageError
from tidings.disk.files import is_locked
from tidings.report import many
from tidings.report.words import with_options
from tidings.trace.steps import OPEN, steps_of

if TYPE_CHECKING:
    from tidings.conform import Conformity

EVERY_S = 10.0
"""How often a long one tells how far it is, where there is no terminal."""


@app.command(epilog="Example: tidings conform trace")
def conform(
    path: Annotated[Path, typer.Argument(help="The trace folder of a group.")],
    as_json: AsJson = False,
) -> int:
    """Step through what the members of a group recorded, and compare it with what they did.

    With trace.conform = true in the group file each member records what its process was handed.
    Here a new process is handed the same: its broadcasts, deliveries, packets and records must be
    those of the member, and what a member received, another must have sent.

    Exits with 0 if all members conform, 1 if one does not, 2 if nobody can tell, as when steps or
    rows are missing.
    """
    from tidings.conform import conform as step_through
    from tidings.conform.words import story

    manifest = group_manifest(path, "stepped through")
    for name in manifest.members:
        if any(file.name.endswith(OPEN) and is_locked(file) for file in steps_of(path, name)):
            raise UsageError(f"{name} is still running: step through it when everybody has left")
    with progress_line("reading the steps", EVERY_S) as show:
        found = step_through(
            path, manifest, lambda member, steps: show(f"{member}: {many(steps, 'step')}")
        )
    stories = [story(one, manifest.run) for one in found.divergences]
    if as_json:
        print_json(_as_data(found, stories))
    else:
        _print(found, stories)
    if found.divergences:
        return Exit.VIOLATED
    return Exit.UNKNOWN if found.unknown else Exit.HOLDS


def _print(found: "Conformity", stories: Sequence[str]) -> None:
    manifest = found.manifest
    protocol = with_options(manifest.protocol or "an unknown protocol", manifest.options)
    say(f"run {manifest.run}: {protocol}, {many(found.packets, 'packet')} compared")
    out.print()
    names = ("lives", "steps", "rows", "records")
    numbers = (Column(name, justify="right") for name in names)
    table = Table("member", *numbers, box=None, pad_edge=False)
    for member, steps in found.members.items():
        table.add_row(member, *(f"{count:,}" for count in steps))
    out.print(table)
    out.print()
    for story in stories:
        say(story)
        out.print()
    for reason in found.unknown:
        say(f"unknown: {reason}")
    say(_in_a_word(found).upper())


def _in_a_word(found: "Conformity") -> str:
    if found.divergences:
        return "does not conform"
    return "unknown" if found.unknown else "conforms"


def _as_data(found: "Conformity", stories: Sequence[str]) -> dict[str, Any]:
    return {
        "run": found.manifest.run,
        "protocol": found.manifest.protocol,
        "verdict": _in_a_word(found),
        "members": {member: steps._asdict() for member, steps in found.members.items()},
        "packets": found.packets,
        "divergences": [
            {
                "member": one.member,
                "life": one.life,
                "tick": one.tick,
                "row": one.index,
                "words": one.words,
                "would": one.would,
                "did": one.did,
                "story": story.splitlines(),
            }
            for one, story in zip(found.divergences, stories, strict=True)
        ],
        "unknown": found.unknown,
    }
