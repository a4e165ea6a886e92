"""Pieces of histories: how rows reach the judge, from a segment, from a table, or stored.

A piece is a contiguous part of the history of one process. Of its rows only broadcasts and
deliveries are looked at one by one, and the few about agreed views. Of the others it is enough how
many there are, whether one is a gap, and which kind is the last.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from tidings.core import DataError
from tidings.pipeline.watching.ranges import Array
from tidings.trace.schema import AGREED, BEGINNINGS, BINDING, ENDS, Kind, Row
from tidings.trace.segments import DIGEST_BYTES, Block, Gap, Mark, Messages

NO_VIEW = -1
CUT_OFF = ""


class Events(NamedTuple):
    """Broadcasts and deliveries of one process, by index; origins are numbers."""

    index: Array
    is_broadcast: Array
    origin: Array
    seq: Array
    digest: Array
    view: Array

    @classmethod
    def empty(cls) -> "Events":
        return cls(*(np.zeros(0, kind) for kind in TYPES))

    @classmethod
    def joined(cls, some: "Sequence[Events]") -> "Events":
        if len(some) == 1:
            return some[0]
        return cls(*map(np.concatenate, zip(*some, strict=True))) if some else cls.empty()

    def at(self, places: Any) -> "Events":
        return Events(*(column[places] for column in self))

    def since(self, index: int) -> "Events":
        return self.at(slice(int(np.searchsorted(self.index, index)), None))

    def until(self, index: int) -> "Events":
        return self.at(slice(None, int(np.searchsorted(self.index, index))))

    @property
    def size(self) -> int:
        return len(self.index)

    def by_origin(self) -> "Iterator[tuple[int, Array]]":
        """Each origin that has rows, and the places of these."""
        for origin in np.flatnonzero(np.bincount(self.origin)).tolist():
            yield origin, np.flatnonzero(self.origin == origin)


TYPES = (np.int64, np.bool_, np.int32, np.int64, np.int64, np.int32)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A row about an agreed view: the process installs it, joins with it, or leaves by it."""

    index: int
    kind: Kind
    number: int
    view: int | None = None
    cut: dict[str, int] = {}

    def row(self, process: str) -> Row:
        """As the specification reads it."""
        return Row(
            run="",
            process=process,
            index=self.index,
            kind=self.kind,
            time_ns=0,
            value=self.number,
            view=UNSET if self.view is None else self.view,
            vector=self.cut,
        )


class Rebinds(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive rows that bind messages of the process itself to another view."""

    index: int
    first: int
    count: int
    view: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def since(self, index: int) -> "Rebinds":
        passed = max(0, index - self.index)
        return Rebinds(self.index + passed, self.first + passed, self.count - passed, self.view)


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Rows ``begin`` up to but not including ``end`` of one process."""

    run: str
    process: str
    begin: int
    end: int
    rows: int
    """How many there are: a gap is one, however many places it takes."""
    first_kind: str
    """``CUT_OFF`` where the rows before the first were cut off: they were taken before."""
    last_kind: str
    has_gap: bool
    origins: tuple[str, ...]
    columns: tuple[bytes, ...]
    time_ns: int = 0
    """Of the last row, in the clock of the process: for people, never for order."""
    steps: tuple[Step, ...] = ()
    rebinds: tuple[Rebinds, ...] = ()

    @property
    def events(self) -> Events:
        """Origins are positions in ``origins``."""
        return Events(
            *(np.frombuffer(one, kind) for one, kind in zip(self.columns, TYPES, strict=True))
        )

    @property
    def last_view(self) -> int:
        """The last of the lists of members that its rows name."""
        named = [*(one.view for one in self.rebinds), *(one.view or 0 for one in self.steps)]
        return max(int(self.events.view.max(initial=NO_VIEW)), *named, NO_VIEW)

    def since(self, index: int) -> "Piece":
        """What is left of it from this index on. A gap is not divided."""
        if index <= self.begin:
            return self
        kept = self.events.since(index)
        return msgspec.structs.replace(
            self,
            begin=min(index, self.end),
            first_kind=CUT_OFF,
            rows=min(self.rows, self.end - index),
            columns=packed(kept),
            steps=tuple(one for one in self.steps if one.index >= index),
            rebinds=tuple(
                one.since(index) for one in self.rebinds if one.index + one.count > index
            ),
        )


def packed(events: Events) -> tuple[bytes, ...]:
    return tuple(column.astype(kind).tobytes() for column, kind in zip(events, TYPES, strict=True))


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Piece).decode


# --- from rows, one by one


def pieces_of_rows(rows: Iterable[Row]) -> Iterator[Piece]:
    """Rows of any runs and processes, each history in order; a hole ends a piece."""
    for (run, process), history in groupby(rows, key=lambda row: (row.run, row.process)):
        so_far: list[Row] = []
        for row in history:
            if so_far and row.index != so_far[-1].end:
                yield _piece_of_rows(run, process, so_far)
                so_far = []
            so_far.append(row)
        yield _piece_of_rows(run, process, so_far)


def _piece_of_rows(run: str, process: str, rows: Sequence[Row]) -> Piece:
    origins: dict[str, int] = {}
    about: list[tuple[int, bool, int, int, int, int]] = []
    for row in rows:
        if row.kind in ("broadcast", "deliver"):
            origin, seq = row.message
            view = row.view if isinstance(row.view, int) else NO_VIEW
            text = 0 if row.digest is UNSET else int(str(row.digest), 16)
            about.append(
                (
                    row.index,
                    row.kind == "broadcast",
                    origins.setdefault(origin, len(origins)),
                    seq,
                    text - (text >> 63 << 64),
                    view,
                )
            )
    columns = list(zip(*about, strict=True)) or [()] * len(TYPES)
    events = Events(*(np.array(one, kind) for one, kind in zip(columns, TYPES, strict=True)))
    return Piece(
        run=run,
        process=process,
        begin=rows[0].index,
        end=rows[-1].end,
        rows=len(rows),
        first_kind=rows[0].kind,
        last_kind=rows[-1].kind,
        has_gap=any(row.kind == "gap" for row in rows),
        origins=tuple(origins),
        columns=packed(events),
        time_ns=rows[-1].time_ns,
        steps=tuple(
            _step(row) for row in rows if row.kind in AGREED and isinstance(row.value, int)
        ),
        rebinds=tuple(
            Rebinds(row.index, row.message.seq, 1, row.view)
            for row in rows
            if row.kind == "rebind" and isinstance(row.view, int)
        ),
    )


def _step(row: Row) -> Step:
    assert isinstance(row.value, int)
    view = row.view if isinstance(row.view, int) else None
    cut = row.vector if isinstance(row.vector, dict) else {}
    return Step(row.index, row.kind, row.value, view, cut)


# --- from the blocks of a segment


class Collected:
    """Blocks of one segment, put together until they are enough for a piece."""

    def __init__(self, run: str, process: str) -> None:
        self.run = run
        self.process = process
        self.rows = 0
        self._blocks: list[Block] = []

    def add(self, block: Block) -> None:
        if self._blocks and block.index != self._blocks[-1].end:
            raise DataError(
                f"{self.process}'s index is {block.index} where {self._blocks[-1].end} comes next"
            )
        self._blocks.append(block)
        self.rows += block.end - block.index

    def piece(self) -> Piece | None:
        """All of it so far; the next one goes on after it."""
        if not self.rows:
            return None
        made = _piece_of_blocks(self.run, self.process, self._blocks)
        self._blocks, self.rows = [], 0
        return made


def _piece_of_blocks(run: str, process: str, blocks: Sequence[Block]) -> Piece:
    origins: dict[str, int] = {}
    spans: list[tuple[int, int, int, int, int, int]] = []
    digests: list[bytes] = []
    kinds: list[Kind] = []
    steps: list[Step] = []
    rebinds: list[Rebinds] = []
    gaps = 0
    for block in blocks:
        index = block.index
        for item in block.items:
            kinds.append(item.kind)
            if isinstance(item, Messages) and item.kind in ("broadcast", "deliver"):
                _refuse_untold(process, item)
                number = origins.setdefault(item.origin, len(origins))
                view = NO_VIEW if item.view is None else item.view
                is_broadcast = item.kind == "broadcast"
                spans.append((index, is_broadcast, number, item.first, item.count, view))
                digests.append(item.digests)
            elif isinstance(item, Messages) and item.kind == "rebind":
                _refuse_untold(process, item)
                rebinds.append(Rebinds(index, item.first, item.count, item.view or 0))
            elif isinstance(item, Mark) and item.kind in AGREED and item.number is not None:
                step = Step(index, item.kind, item.number, item.view, item.delivered or {})
                steps.append(checked(step))
            elif isinstance(item, Gap):
                gaps += item.rows - 1
            index += item.rows
    _refuse_acts_after_the_end(process, kinds)
    begin, end = blocks[0].index, blocks[-1].end
    return Piece(
        run=run,
        process=process,
        begin=begin,
        end=end,
        rows=end - begin - gaps,
        first_kind=kinds[0],
        last_kind=kinds[-1],
        has_gap="gap" in kinds,
        origins=tuple(origins),
        columns=packed(_expanded(spans, b"".join(digests))),
        time_ns=blocks[-1].time_ns,
        steps=tuple(steps),
        rebinds=tuple(rebinds),
    )


def checked(step: Step) -> Step:
    if step.number < 1:
        raise DataError(f"a {step.kind} row has view {step.number}, and agreed ones begin with 1")
    if step.view is None and step.kind != "leave":
        raise DataError(f"a {step.kind} row needs 'view'")
    return step


def _refuse_acts_after_the_end(process: str, kinds: Iterable[Kind]) -> None:
    for before, kind in pairwise(kinds):
        if before in ENDS and kind not in BEGINNINGS:
            raise DataError(f"{process} acts ({kind}) after its {before}")


def _refuse_untold(process: str, item: Messages) -> None:
    if item.kind != "rebind" and len(item.digests) != DIGEST_BYTES * item.count:
        raise DataError(f"a {item.kind} row needs 'digest'")
    if item.kind in BINDING:
        if item.view is None:
            raise DataError(f"a {item.kind} row needs 'view'")
        if item.origin != process:
            raise DataError(f"{process} cannot {item.kind} a message of {item.origin}")


def _expanded(spans: Sequence[tuple[int, ...]], digests: bytes) -> Events:
    if not spans:
        return Events.empty()
    index, is_broadcast, origin, first, counts, view = np.array(spans, np.int64).T
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return Events(
        np.repeat(index, counts) + within,
        np.repeat(is_broadcast, counts).astype(bool),
        np.repeat(origin, counts),
        np.repeat(first, counts) + within,
        np.frombuffer(digests, ">i8").astype(np.int64),
        np.repeat(view, counts),
    )
