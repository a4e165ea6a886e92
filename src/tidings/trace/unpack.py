"""Segments as Parquet: what nodes wrote in blocks, expanded for the pipeline, column by column.

A segment may stand for ten million rows, so nothing here is done row by row: an item of a block
becomes one stretch, and its values are repeated over the rows that it stands for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.core import DataError
from tidings.disk.files import whole_file
from tidings.trace.manifest import Manifest
from tidings.trace.parquet import ARROW, FORM, ROWS_A_GROUP, table_of, words_of
from tidings.trace.schema import KINDS
from tidings.trace.segments import Block, Gap, Mark, Messages, Owner, Packets, Reader

_KINDS = {kind: code for code, kind in enumerate(KINDS)}
_ABSENT = -1


class _RowsOfSpan(NamedTuple):
    """So many rows that differ only in their index, their sequence number and their digest."""

    begin: int
    time_ns: int
    life: int
    kind: int
    rows: int = 1
    origin: str | None = None
    seq: int | None = None
    peer: str | None = None
    packet: int | None = None
    packet_kind: str | None = None
    size: int | None = None
    view: int | None = None
    value: int | None = None
    vector: Mapping[str, int] | None = None
    digests: bytes = b""


def write_segment(path: Path, source: Path, manifests: Mapping[str, Manifest]) -> Counter[Owner]:
    """The rows of the segment ``source`` as the Parquet file ``path``.

    Returns whose history it is, and how many of its blocks do not lie before the cut.
    """
    left = Counter[Owner]()
    with whole_file(path) as draft, pq.ParquetWriter(draft, ARROW, **FORM) as writer:
        for table in tables(source, manifests, left):
            writer.write_table(table)
    return left


def tables(source: Path, manifests: Mapping[str, Manifest], left: Counter[Owner]) -> Iterator[Any]:
    """The rows of a segment from its cut on, a table for each million or so.

    In ``left`` are counted, for their owner, the blocks that do not lie before the cut.
    """
    reader = Reader(source)
    rows, spans = 0, list[_RowsOfSpan]()
    for block in reader.blocks():
        assert reader.owner is not None, f"{source}: blocks of nobody"
        is_left = block.end > _begin(reader.owner, manifests)
        left[reader.owner] += is_left
        if is_left:
            spans += _spans(block)
            rows += block.end - block.index
        if rows >= ROWS_A_GROUP:
            yield _table(source, reader.owner, spans, manifests)
            rows, spans = 0, []
    if spans and reader.owner is not None:
        yield _table(source, reader.owner, spans, manifests)


def table_of_blocks(
    source: Path, owner: Owner, blocks: Iterable[Block], manifests: Mapping[str, Manifest]
) -> Any:
    """The rows of some blocks of a segment; None if there are none."""
    spans = [span for block in blocks for span in _spans(block)]
    return _table(source, owner, spans, manifests) if spans else None


def _begin(owner: Owner, manifests: Mapping[str, Manifest]) -> int:
    """Where the history begins whose segment this is."""
    return manifests[owner.run].begin(owner.process) if owner.run in manifests else 0


def _spans(block: Block) -> Iterable[_RowsOfSpan]:
    index = block.index
    for item in block.items:
        begin = _RowsOfSpan(index, block.time_ns, block.incarnation, _KINDS[item.kind])
        match item:
            case Messages(_, origin, first, count, digests, view):
                yield begin._replace(
                    rows=count, origin=origin, seq=first, digests=digests, view=view
                )
            case Packets(_, peers, packet_kind, size, origin, seq):
                about = begin._replace(packet_kind=packet_kind, size=size, origin=origin, seq=seq)
                for place, (peer, number) in enumerate(peers):
                    yield about._replace(begin=index + place, peer=peer, packet=number)
            case Gap(_, count, delivered, broadcast):
                yield begin._replace(
                    value=index + count - 1, vector=delivered or None, seq=broadcast or None
                )
            case Mark(_, view, delivered, broadcast, number):
                yield begin._replace(
                    view=view, vector=delivered, seq=broadcast or None, value=number
                )
        index += item.rows


def _table(
    source: Path, owner: Owner, spans: list[_RowsOfSpan], manifests: Mapping[str, Manifest]
) -> Any:
    try:
        return _Columns(owner, spans, manifests).table()
    except DataError as fault:
        raise DataError(f"{source}: {fault}") from None


class _Columns:
    def __init__(
        self, owner: Owner, spans: list[_RowsOfSpan], manifests: Mapping[str, Manifest]
    ) -> None:
        if owner.run not in manifests:
            raise DataError(f"run {owner.run!r} is not in the manifest")
        names = manifests[owner.run].names
        self.owner = owner
        self.positions: dict[str | None, int] = {name: at for at, name in enumerate(names)}
        self.positions[None] = _ABSENT
        self.of = dict(zip(_RowsOfSpan._fields, zip(*spans, strict=True), strict=True))
        self.counts = np.array(self.of["rows"])
        self.rows = int(self.counts.sum())
        starts = np.cumsum(self.counts) - self.counts
        self.within = np.arange(self.rows) - np.repeat(starts, self.counts)

    def table(self) -> Any:
        packet_kinds = sorted({one for one in self.of["packet_kind"] if one is not None})
        codes = {word: code for code, word in enumerate(packet_kinds)} | {None: _ABSENT}
        seq = self._numbers("seq")
        columns = {
            "run": words_of(np.zeros(self.rows, np.int32), [self.owner.run]),
            "process": pa.array(np.full(self.rows, self._position(self.owner.process)), pa.int16()),
            "index": pa.array(self._numbers("begin") + self.within),
            "kind": words_of(self._repeated(self.of["kind"]), KINDS),
            "time_ns": pa.array(self._repeated(self.of["time_ns"])),
            "incarnation": pa.array(self._numbers("life")),
            "origin": _optional(self._places("origin"), pa.int16()),
            "seq": pa.array(seq + self.within, pa.int64(), mask=seq == _ABSENT),
            "peer": _optional(self._places("peer"), pa.int16()),
            "packet": _optional(self._numbers("packet")),
            "packet_kind": words_of(
                self._repeated(codes[one] for one in self.of["packet_kind"]), packet_kinds
            ),
            "bytes": _optional(self._numbers("size")),
            "digest": self._digests(),
            "view": _optional(self._numbers("view")),
        }
        if any(one is not None for one in self.of["value"]):
            columns["value"] = _optional(self._numbers("value"))
        if any(one is not None for one in self.of["vector"]):
            columns["vector"] = self._vectors()
        return table_of(columns)

    def _repeated(self, values: Iterable[Any]) -> Any:
        """One value for each stretch, over all its rows."""
        return np.repeat(np.fromiter(values, np.int64, len(self.counts)), self.counts)

    def _numbers(self, field: str) -> Any:
        return self._repeated(_ABSENT if value is None else value for value in self.of[field])

    def _places(self, field: str) -> Any:
        return self._repeated(map(self._position, self.of[field]))

    def _position(self, name: str | None) -> int:
        if name not in self.positions:
            raise DataError(f"{name} is not among the manifest's names")
        return self.positions[name]

    def _vectors(self) -> Any:
        """Only rows that stand alone have one."""
        vectors = np.full(self.rows, None)
        for end, vector in zip(np.cumsum(self.counts), self.of["vector"], strict=True):
            if vector is not None:
                vectors[end - 1] = [(self._position(name), n) for name, n in vector.items()]
        return pa.array(vectors, ARROW.field("vector").type)

    def _digests(self) -> Any:
        given = self._repeated(map(bool, self.of["digests"])).astype(bool)
        digests = np.zeros(self.rows, np.int64)
        digests[given] = np.frombuffer(b"".join(self.of["digests"]), ">i8")
        return pa.array(digests, pa.int64(), mask=~given)


def _optional(values: Any, kind: Any = None) -> Any:
    return pa.array(values, kind or pa.int64(), mask=values == _ABSENT)
