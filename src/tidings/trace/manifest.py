"""The manifest: what a run was, told in parts by those who knew.

Every writer adds one part (what it ran), and whoever ran the experiment adds one (the seed, the
schedule, what became of each process). Parts are merged on read. A part is one line of JSON in
a file whose name ends in ``manifest.jsonl``, so that a part can be added without touching the
others.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tidings.core import DataError, Members, ordered
from tidings.trace.schema import DIGEST, READABLE, Count, unreadable

MOST_NAMES = 2**15 - 1
"""Positions in the dictionary of names are 16-bit numbers."""

Fate = Literal["up", "crashed", "left"]


class HistoryCut(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Where the history of a process begins, since all before it was deleted.

    Only what happened in sequence is ever cut off. So two kinds of numbers say what is gone: the
    process had broadcast its messages from 1 up to ``broadcast``, and delivered those of each
    origin from 1 up to ``delivered``, each once. ``digests`` sums up the texts of the latter, of
    those origins of which none was missing (``cutting.summed``).
    """

    index: Count
    broadcast: Count = 0
    delivered: dict[str, Count] = {}
    digests: dict[str, Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]] = {}

    def has_broadcast(self, seq: int) -> bool:
        return 1 <= seq <= self.broadcast

    def has_delivered(self, origin: str, seq: int) -> bool:
        return 1 <= seq <= self.delivered.get(origin, 0)


class Manifest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One part, or all parts merged: the fields nobody told are empty."""

    schema: int
    run: str
    names: Members = ()
    """The dictionary of process names: Parquet rows hold positions in it."""
    views: tuple[Members, ...] = ()
    """The table of member lists: the ``view`` of a row is a position in it."""
    digest: str = DIGEST
    process: str | None = None
    protocol: str | None = None
    options: dict[str, Any] = {}
    seed: int | None = None
    commit: str | None = None
    plan: dict[str, Any] = {}
    """The faults and the load that were planned."""
    schedule: msgspec.Raw = msgspec.Raw(b"[]")
    """Every choice that was made, in order: enough to run it again."""
    fates: dict[str, Fate] = {}
    cuts: dict[str, HistoryCut] = {}
    """Of which processes the beginning was deleted, and what is known of it."""
    clock: Literal["simulated", "wall"] | None = None
    grace_ms: float | None = None

    @property
    def members(self) -> Members:
        """Everybody who was ever addressed."""
        return ordered(member for view in self.views for member in view)


def begins_of(manifest: Manifest) -> list[int]:
    """Where the history of each process begins, in the order that a person expects."""
    cuts = manifest.cuts
    return [cuts[name].index if name in cuts else 0 for name in ordered(manifest.names)]


def merge(parts: Sequence[Manifest]) -> Manifest:
    """All parts of one run as one manifest; two parts may not contradict each other."""
    merged: dict[str, Any] = {}
    for field in Manifest.__struct_fields__:
        values = [getattr(part, field) for part in parts]
        if field == "process":
            continue
        if field == "schema":
            merged[field], agree = max(values), True  # members are updated one after the other
        elif field in ("names", "views"):
            merged[field] = max(values, key=len)
            agree = all(merged[field][: len(one)] == one for one in values)
        elif field in ("fates", "cuts", "options", "plan"):
            merged[field] = {key: value for one in values for key, value in one.items()}
            agree = all(one.items() <= merged[field].items() for one in values)
        else:
            silence = getattr(_SILENT, field)
            answers = [one for one in values if one != silence]
            merged[field] = answers[0] if answers else silence
            agree = all(one == merged[field] for one in answers)
        if not agree:
            raise DataError(
                f"run {parts[0].run}: two parts of the manifest disagree about {field!r}"
            )
    return Manifest(**merged)


_SILENT = Manifest(schema=0, run="")


def check(manifest: Manifest) -> None:
    """Refuse a merged manifest that no judge could use."""
    if manifest.schema not in READABLE:
        raise DataError(f"run {manifest.run}: {unreadable(manifest.schema)}")
    if manifest.digest != DIGEST:
        raise DataError(
            f"run {manifest.run}: digest {manifest.digest!r}, this tidings reads {DIGEST!r}"
        )
    if not manifest.members:
        raise DataError(f"run {manifest.run}: the manifest lists no members ('views' is empty)")
    if len(set(manifest.names)) < len(manifest.names):
        raise DataError(f"run {manifest.run}: a name stands twice in 'names'")
    if len(manifest.names) > MOST_NAMES:
        raise DataError(f"run {manifest.run}: more than {MOST_NAMES:,} names")
    if any(len(set(view)) < len(view) or not view for view in manifest.views):
        raise DataError(f"run {manifest.run}: a view is empty or lists a member twice")
    if manifest.cuts and len(manifest.views) > 1:
        # Nobody could say to whom the messages were addressed whose broadcasts are gone.
        raise DataError(f"run {manifest.run}: a history is cut, and the group has changed")
    cut = [
        name for own, one in manifest.cuts.items() for name in (own, *one.delivered, *one.digests)
    ]
    places = (("a view", manifest.members), ("'fates'", manifest.fates), ("'cuts'", cut))
    for place, names in places:
        unnamed = [name for name in names if name not in manifest.names]
        if unnamed:
            raise DataError(f"run {manifest.run}: {unnamed[0]} is in {place} but not in 'names'")
