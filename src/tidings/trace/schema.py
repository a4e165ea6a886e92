"""The trace, version 3: the one contract between those who run and those who judge.

A row is one thing that happened at one process. ``(process, index)`` is the only order there is
between rows: ``index`` counts that process's own history from 0, on over restarts. What could not
be written down is one row, a ``gap``. ``time_ns`` is for latency, never for order.
docs/trace-format.md explains every column.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import repeat
from typing import Annotated, Literal, get_args

import msgspec
import xxhash
from msgspec import UNSET, Meta, UnsetType

from tidings.core import MessageId

SCHEMA_VERSION = 3
"""What is written. Version 1 had neither gaps nor cuts, version 2 no agreed views."""
READABLE = (1, 2, 3)

Kind = Literal[
    "broadcast",
    "deliver",
    "send",
    "receive",
    "held",
    "crash",
    "recover",
    "join",
    "leave",
    "view",
    "rebind",
    "state",
    "settle",
    "gap",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Digest = Literal["xxh64-42", "blake2b-64"]
DIGEST: Digest = "xxh64-42"
"""XXH64 with seed 42: fast, and the very function that Spark calls ``xxhash64``."""

LONGEST_WORD = 255
Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_WORD)]
Hex64 = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]


class Row(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What happened, in one process, at one moment of its own history."""

    run: Name
    process: Name
    index: Count
    kind: Kind
    time_ns: Number
    incarnation: Count = 0
    origin: Name | UnsetType = UNSET
    seq: Count | UnsetType = UNSET
    peer: Name | UnsetType = UNSET
    packet: Count | UnsetType = UNSET
    packet_kind: Name | UnsetType = UNSET
    bytes: Count | UnsetType = UNSET
    digest: Hex64 | UnsetType = UNSET
    view: Count | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    value: Number | UnsetType = UNSET
    vector: dict[str, Count] | UnsetType = UNSET

    @property
    def end(self) -> int:
        """The index that comes after it."""
        is_gap = self.kind == "gap" and self.value is not UNSET
        return (self.value if is_gap else self.index) + 1  # type: ignore[operator]

    @property
    def message(self) -> MessageId:
        assert self.origin is not UNSET, f"a {self.kind} row has no message: {self}"
        assert self.seq is not UNSET, f"a {self.kind} row has no message: {self}"
        return MessageId(self.origin, self.seq)


COLUMNS = Row.__struct_fields__
JUDGED = ("run", "process", "index", "kind", "origin", "seq", "digest", "view")
"""The columns that every table of rows has; the others may be missing."""
REQUIRED = ("process", "index", "kind")
"""What a stored row of any kind cannot do without, beside its run."""
COUNTS = ("index", "incarnation", "seq", "packet", "bytes", "view")
WORDS = ("packet_kind", "name")

NEEDED: dict[Kind, tuple[str, ...]] = {
    "broadcast": ("origin", "seq", "digest", "view"),
    "deliver": ("origin", "seq", "digest"),
    "send": ("peer", "packet", "packet_kind", "bytes"),
    "receive": ("peer", "packet", "packet_kind", "bytes"),
    "held": ("origin", "seq"),
    "crash": (),
    "recover": (),
    "join": ("view",),
    "leave": (),
    "view": ("view",),
    "rebind": ("origin", "seq", "view"),
    "state": ("name", "value"),
    "settle": (),
    "gap": ("value",),
}
"""Which columns a row of each kind cannot do without; the other columns may stay empty."""
BINDING: tuple[Kind, ...] = ("broadcast", "rebind")
"""Say to which members a message of the process itself is addressed; the last one counts."""
AGREED: tuple[Kind, ...] = ("join", "view", "leave")
"""Concern an agreed view if they have its number, from 1 on, as ``value``."""
ENDS: tuple[Kind, ...] = ("crash", "leave")
BEGINNINGS: tuple[Kind, ...] = ("recover", "join")
"""What alone a process can do after one of these ends."""


def _xxh64(texts: Iterable[bytes]) -> bytes:
    return b"".join(map(xxhash.xxh64_digest, texts, repeat(42)))


def _blake2b(texts: Iterable[bytes]) -> bytes:
    return b"".join([blake2b(text, digest_size=8).digest() for text in texts])


DIGESTS: dict[str, Callable[[Iterable[bytes]], bytes]] = {
    "xxh64-42": _xxh64,
    "blake2b-64": _blake2b,
}
"""Eight bytes for each of these texts, one after the other. XXH64 shows what happens by accident;
two texts with one digest can be computed by hand. docs/trace-format.md compares them."""


def digest(text: bytes, kind: str = DIGEST) -> str:
    return DIGESTS[kind]([text]).hex()


def fault_of(row: Row) -> str | None:
    """Why this row cannot be part of any trace, or None."""
    for column in NEEDED[row.kind]:
        if getattr(row, column) is UNSET:
            return f"a {row.kind} row needs {column!r}"
    if row.kind in BINDING and row.origin != row.process:
        return f"{row.process} cannot {row.kind} a message of {row.origin}"
    if row.kind in AGREED and row.value is not UNSET and row.value < 1:
        return f"a {row.kind} row cannot have the number {row.value}"
    if row.kind == "gap" and row.end <= row.index:
        return f"a gap from {row.index} cannot end at {row.value}"
    return None


def unreadable(version: object) -> str:
    """Why a trace of another version is refused."""
    *most, last = map(str, READABLE)
    return f"trace schema {version}, this tidings reads {', '.join(most)} and {last}"


def names_in(rows: Iterable[Row]) -> set[str]:
    """Every process that the rows mention, in whatever role."""
    roles = ((row.process, row.origin, row.peer, *(row.vector or ())) for row in rows)
    return {name for names in roles for name in names if name is not UNSET}
