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
from tidings.trace.schema import DIGEST, DIGESTS, READABLE, Count, unreadable

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
    """How texts became digests. A part with names that does not say so means the default."""
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

    def begin(self, process: str) -> int:
        """The index at which its history begins: that of its cut, if there is one."""
        return self.cuts[process].index if process in self.cuts else 0


def begins_of(manifest: Manifest) -> list[int]:
    """Where the history of each process begins, in the order that a person expects."""
    return [manifest.begin(name) for name in ordered(manifest.names)]


def merge(parts: Sequence[Manifest]) -> Manifest:
    """All parts of one run as one manifest; two parts may not contradict each other."""
    if len(parts) == 1 and parts[0].process is None:
        return parts[0]
    merged: dict[str, Any] = {}
    for field in Manifest.__struct_fields__:
        values = [getattr(part, field) for part in parts]
        if field == "process":
            continue
        if field == "schema":
            merged[field], agree = max(values), True  # members are updated one after the other
        elif field == "digest":
            kinds = [part.digest for part in parts if part.names or part.digest != DIGEST]
            merged[field], agree = (*kinds, DIGEST)[0], len(set(kinds)) <= 1
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
    names, views, cuts = manifest.names, manifest.views, manifest.cuts
    cut = [name for own, one in cuts.items() for name in (own, *one.delivered, *one.digests)]
    mentioned = {"a view": manifest.members, "'fates'": manifest.fates, "'cuts'": cut}
    faults = [
        (manifest.schema not in READABLE, unreadable(manifest.schema)),
        (
            manifest.digest not in DIGESTS,
            f"digest {manifest.digest!r}, this tidings reads {' and '.join(DIGESTS)}",
        ),
        (not manifest.members, "the manifest lists no members ('views' is empty)"),
        (len(set(names)) < len(names), "a name stands twice in 'names'"),
        (len(names) > MOST_NAMES, f"more than {MOST_NAMES:,} names"),
        (
            any(len(set(view)) < len(view) or not view for view in views),
            "a view is empty or lists a member twice",
        ),
        # Nobody could say to whom the messages were addressed whose broadcasts are gone.
        (bool(cuts) and len(views) > 1, "a history is cut, and the group has changed"),
        *(
            (name not in names, f"{name} is in {place} but not in 'names'")
            for place, those in mentioned.items()
            for name in those
        ),
    ]
    for is_wrong, fault in faults:
        if is_wrong:
            raise DataError(f"run {manifest.run}: {fault}")
