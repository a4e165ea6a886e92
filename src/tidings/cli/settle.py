"""``tidings settle``: the runner's last word on a trace that nodes wrote."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidings.cli.common import app, group_manifest, say
from tidings.core import Members, UsageError
from tidings.core.likeness import did_you_mean
from tidings.disk.files import is_locked, whole_file
from tidings.report import listed
from tidings.trace import SCHEMA_VERSION, Fate, Manifest
from tidings.trace.reached import missing_at_the_end
from tidings.trace.segments import (
    OPEN,
    Messages,
    Reader,
    has_left,
    is_settled,
    last_block,
    segments_of,
)
from tidings.trace.segments import settle as settle_segments


@app.command(epilog="Example: tidings settle trace --crashed carol")
def settle(
    path: Annotated[Path, typer.Argument(help="The trace folder of a group.")],
    crashed: Annotated[
        list[str] | None,
        typer.Option(help="A member that was killed and did not come back. May be repeated."),
    ] = None,
    up: Annotated[
        list[str] | None,
        typer.Option(help="A member that had time for all, whatever it lacks. May be repeated."),
    ] = None,
) -> None:
    """Say how a group on a real network ended, so that tidings audit can judge all of it.

    You assert that all members, except those that you name, were up and linked to the end, and had
    time to deliver everything: whatever one of them did not deliver is then a violation. The trace
    cannot show that. Run it once, when all members have left, and name as crashed each one that
    was killed for good or left while others went on. Of members that were removed the trace shows
    it, and they need not be named.

    A member whose history ends without what it should have delivered by then is asked about:
    name it with --crashed or with --up, or start the members once more and let them catch up.
    """
    manifest = group_manifest(path, "settled")
    gone = tuple(dict.fromkeys(crashed or ()))
    for name in (*gone, *(up or ())):
        if name not in manifest.members:
            known, meant = ", ".join(manifest.members), did_you_mean(name, manifest.members)
            raise UsageError(f"{name} is not in run {manifest.run}; its members: {known}{meant}")
        if name in gone and name in (up or ()):
            raise UsageError(f"{name} cannot be --crashed and --up")
    newest = manifest.views[-1]
    removed = tuple(name for name in manifest.members if name not in (*newest, *gone))
    rest = tuple(name for name in newest if name not in gone)
    _refuse_what_is_untrue(path, rest, (*gone, *removed))
    unsettled = [name for name in rest if not is_settled(last_block(path, manifest.run, name))]
    if not unsettled:
        raise UsageError(f"{path} is settled already: see what tidings audit says of it")
    _ask_about_what_is_missing(path, rest, up or ())
    unaware = [name for name in removed if not _knows_that_it_left(path, manifest.run, name)]
    lost = [name for name in unaware if not _tells_of_messages(path, name)]
    unaware = [name for name in unaware if name not in lost]
    fates: dict[str, Fate] = dict.fromkeys(rest, "up")
    fates |= dict.fromkeys((*gone, *unaware), "crashed")
    for name, fate in fates.items():
        if (recorded := manifest.fates.get(name, fate)) != fate:
            raise UsageError(f"{path}: the manifest says already that {name} is {recorded}")
    settle_segments(path, manifest.run, unsettled, time.time_ns())
    _write_fates(path, manifest, fates)
    say(f"settled  {listed(rest)} of {manifest.run}, up to the end")
    if gone:
        say(f"crashed  {listed(gone)}")
    if removed:
        say(f"removed  {listed(removed)}")
    if lost:
        say(
            f"lost     what {listed(lost)} did: no broadcast and no delivery is in its trace. If "
            "its disk was lost, the audit cannot judge its messages; if it never did anything, "
            f"say so with {' '.join(f'--crashed {name}' for name in lost)}"
        )
    say(f"next     tidings audit {shlex.quote(str(path))}")


def _refuse_what_is_untrue(path: Path, up: Members, gone: Members) -> None:
    """As far as one can know: who still runs has not ended, and who was killed was not up."""
    if not up:
        raise UsageError("somebody has to be up at the end, or nothing is owed to anybody")
    last = {name: segments_of(path, name)[-1:] for name in (*up, *gone)}
    unclosed = {name: file for name in last for file in last[name] if file.name.endswith(OPEN)}
    for name, file in unclosed.items():
        if is_locked(file):
            raise UsageError(f"{name} is still running: settle when everybody has left")
    for name in up:
        if not last[name]:
            raise UsageError(
                f"{name} has no trace here: if it ran on another machine, copy it here; if it has "
                f"never come, say --crashed {name}"
            )
        if name in unclosed:
            raise UsageError(
                f"{name} never closed {unclosed[name].name}: it was killed and has not come back, "
                f"or could not write its trace; say so with --crashed {name}, or start it once "
                "more and let it leave"
            )


def _ask_about_what_is_missing(path: Path, rest: Members, up: Sequence[str]) -> None:
    """It may have left too early, or have lost a message: only who was there knows which."""
    for name, message in missing_at_the_end(path, rest):
        if name not in up:
            raise UsageError(
                f"{name} ends without {message}: start the members once more until it has all; or "
                f"say --crashed {name} if it left while others went on, --up {name} if it had time"
            )


def _knows_that_it_left(path: Path, run: str, name: str) -> bool:
    """Whether its own history ends so; whoever was lost before it was removed never heard of it."""
    return bool(segments_of(path, name)) and has_left(last_block(path, run, name))


def _tells_of_messages(path: Path, name: str) -> bool:
    """Whether it ever broadcast or delivered anything.

    A member that is started once more without its disk is turned away, and leaves a trace of that
    alone. Nobody may take it for all that there was.
    """
    blocks = (block for file in segments_of(path, name) for block in Reader(file).blocks())
    items = (item for block in blocks for item in block.items if isinstance(item, Messages))
    return any(item.kind in ("broadcast", "deliver") for item in items)


def _write_fates(path: Path, manifest: Manifest, fates: dict[str, Fate]) -> None:
    """One more part of the manifest, beside what its runner has told already."""
    if fates.items() <= manifest.fates.items():
        return
    part = msgspec.json.encode(Manifest(schema=SCHEMA_VERSION, run=manifest.run, fates=fates))
    file = path / "runner.manifest.jsonl"
    before = file.read_bytes() if file.exists() else b""
    with whole_file(file) as draft:
        draft.write_bytes(before + part + b"\n")
