"""What people look at while a group is watched: members, what is owed, verdicts.

The judge writes it after every batch, as JSON in the checkpoint's folder. Whoever shows it, in a
terminal, on a page or as metrics, reads that file and needs no Spark.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidings.disk.files import whole_file
from tidings.spec import Value, Verdict

FILE = "status.json"


class MemberStatus(msgspec.Struct, frozen=True):
    name: str
    rows: int
    last_kind: str
    time_ns: int
    """Of its last row, in its own clock."""
    late: int = 0
    """Rows that wait behind a part that is missing."""
    ended: bool = False


class Owed(msgspec.Struct, frozen=True):
    """Messages of one origin that a member has yet to deliver."""

    process: str
    origin: str
    count: int
    first: int
    last: int
    since_s: float
    """Since when the first of them is owed, in the clock of the watch."""


class SoFar(msgspec.Struct, frozen=True):
    """A verdict without its violations: these are findings."""

    guarantee: str
    """In a word; also that of views."""
    value: Value
    judged: int
    not_owed: int = 0
    violated: int = 0
    reason: str = ""
    note: str = ""

    @classmethod
    def of(cls, verdict: Verdict) -> "SoFar":
        return cls(*(getattr(verdict, name) for name in cls.__struct_fields__))


class RunStatus(msgspec.Struct, frozen=True):
    run: str
    members: tuple[MemberStatus, ...]
    owed: tuple[Owed, ...]
    verdicts: tuple[SoFar, ...]
    waiting: int
    """Deliveries that cannot be judged yet."""
    window_rows: int
    has_ended: bool
    """Every history says how it ended. More may come all the same."""
    has_ended_but_for_parts: bool = False
    """So it will be when nobody waits any longer for what is missing."""


class Status(msgspec.Struct, frozen=True):
    batch: int
    at_s: float
    rows: int
    alarms: int
    batch_rows: int
    batch_s: float
    lag_s: float | None
    """From the newest row of the last batch until it was judged, if the clock is a wall clock."""
    state_bytes: int
    runs: tuple[RunStatus, ...]

    @property
    def verdicts(self) -> list[SoFar]:
        return [one for run in self.runs for one in run.verdicts]


_decode = msgspec.json.Decoder(Status).decode


def write_status(folder: Path, status: Status) -> None:
    with whole_file(folder / FILE) as draft:
        draft.write_bytes(msgspec.json.encode(status))


def read_status(folder: Path) -> Status | None:
    """The last one; None if no batch has been judged yet."""
    try:
        return _decode((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None


def owed_words(owed: Sequence[Owed], now_s: float | None = None, most: int = 5) -> list[str]:
    """The oldest debts first: ``p3 owes p1#7..19, 13 messages, for 12 s``."""
    now_s = time.time() if now_s is None else now_s
    lines = []
    for one in sorted(owed, key=lambda one: one.since_s)[:most]:
        span = f"{one.first}" if one.first == one.last else f"{one.first}..{one.last}"
        many = f", {one.count:,} messages," if one.count > 1 else ""
        lines.append(
            f"{one.process} owes {one.origin}#{span}{many} for {max(0, now_s - one.since_s):,.0f} s"
        )
    return lines
