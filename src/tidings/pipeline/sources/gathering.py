"""Rows of histories, out of all stores and in order: portion by portion, as they fit in memory."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.pipeline.sources.meaning import ABSENT, KIND
from tidings.pipeline.sources.numbering import AT_THE_END
from tidings.pipeline.sources.storing import MOST_MAPPED, chosen, mapped
from tidings.pipeline.sources.survey import PlacedBlock

PORTION_ROWS = 1 << 20
"""A portion has about so many rows, or all those of one order."""


class Shelf(NamedTuple):
    """A store, and what its own numbers mean."""

    path: str
    blocks: Sequence[PlacedBlock]
    positions: Sequence[int]
    """By its number of a history: the position of the process in the manifest."""


class Slice(NamedTuple):
    """The rows of one history in a store."""

    shelf: int
    begin: int
    end: int


class Gathering(NamedTuple):
    """One history: where its rows are, and whether the mapping ends it."""

    history: int
    slices: Sequence[Slice]
    is_settled: bool


Rows = dict[str, Any]


def portions(
    gatherings: Sequence[Gathering],
    shelves: Sequence[Shelf],
    wanted: Sequence[str],
    *,
    broadcasts: bool = False,
) -> Iterator[Rows]:
    """history, kind, order, source, place and these columns of all rows, or of broadcasts alone."""
    waiting: list[Rows] = []
    size = 0
    for one in gatherings:
        for slices in _cut(one, shelves):
            for piece in slices:
                rows = _read(one.history, piece, shelves[piece.shelf], wanted, broadcasts)
                size += len(rows["kind"])
                waiting.append(rows)
            if size >= PORTION_ROWS:
                yield _sorted(waiting)
                waiting, size = [], 0
        if one.is_settled and not broadcasts:
            waiting.append(_settle(one.history, wanted))
            size += 1
    if size:
        yield _sorted(waiting)


def _cut(one: Gathering, shelves: Sequence[Shelf]) -> Iterator[Sequence[Slice]]:
    """A long history in parts that follow each other."""
    rows = sum(piece.end - piece.begin for piece in one.slices)
    if rows < 2 * PORTION_ROWS:
        yield one.slices
        return
    orders = [_order(shelves[piece.shelf], piece) for piece in one.slices]
    if any((order[1:] < order[:-1]).any() for order in orders):
        yield one.slices  # lines of many files in one store, in whatever order they came
        return
    marks = np.sort(np.concatenate([order[:: 1 << 12] for order in orders]))
    cuts = np.unique(marks[PORTION_ROWS >> 12 :: PORTION_ROWS >> 12])
    ends = [[0, *np.searchsorted(order, cuts, "left").tolist(), len(order)] for order in orders]
    for part in range(len(cuts) + 1):
        yield [
            Slice(piece.shelf, piece.begin + end[part], piece.begin + end[part + 1])
            for piece, end in zip(one.slices, ends, strict=True)
            if end[part] < end[part + 1]
        ]


def _order(shelf: Shelf, piece: Slice) -> Any:
    """Something that grows along a slice, and is the same for rows of the same order."""
    rows = _mapped(shelf.path)
    if "order" in rows:
        return rows["order"][piece.begin : piece.end]
    source, place = _placed(shelf, rows, piece)
    return source * float(1 << 53) + place


_mapped = lru_cache(maxsize=MOST_MAPPED)(mapped)


def _read(
    history: int, piece: Slice, shelf: Shelf, wanted: Sequence[str], broadcasts: bool
) -> Rows:
    stored = _mapped(shelf.path)
    within = slice(piece.begin, piece.end)
    kind = stored["kind"][within]
    source, place = _placed(shelf, stored, piece)
    order = stored["order"][within] if "order" in stored else source
    rows = {"kind": kind, "order": order, "source": source, "place": place}
    rows |= {name: _part(stored[name], piece) for name in wanted}
    if "by" in rows:
        rows["by"] = np.array([*shelf.positions, ABSENT])[rows["by"]]
    if broadcasts:
        those = np.flatnonzero(kind == KIND["broadcast"])
        rows = {name: chosen(values, those) for name, values in rows.items()}
    return {"history": np.full(len(rows["kind"]), history), **rows}


def _placed(shelf: Shelf, stored: Rows, piece: Slice) -> tuple[Any, Any]:
    sources, offsets = np.array(shelf.blocks, np.int64).T
    within = slice(piece.begin, piece.end)
    position, block = stored["position"][within], stored["block"][within]
    if len(sources) == 1:
        return np.full(len(block), sources[0]), position + offsets[0]
    return sources[block], position + offsets[block]


def _part(values: Any, piece: Slice) -> Any:
    if isinstance(values, np.ndarray):
        return values[piece.begin : piece.end]
    return values.slice(piece.begin, piece.end - piece.begin)


def _settle(history: int, wanted: Sequence[str]) -> Rows:
    known = {"history": history, "kind": KIND["settle"], "order": AT_THE_END}
    rows: Rows = {
        name: np.array([known.get(name, _ABSENT.get(name, ABSENT))], _TYPES.get(name, np.int64))
        for name in ("history", "kind", "order", "source", "place", *wanted)
        if name not in TEXTS
    }
    return rows | {name: pa.nulls(1, pa.string()) for name in TEXTS if name in wanted}


TEXTS = ("id", "text")
_TYPES: Mapping[str, Any] = {"kind": np.int8, "key": np.uint64, "other_key": np.uint64}
_ABSENT = {"key": 0, "other_key": 0, "time_ns": 0}


def _sorted(parts: Sequence[Rows]) -> Rows:
    """All rows of a portion, whose histories stand in order already."""
    names: Mapping[str, None] = dict.fromkeys(name for part in parts for name in part)
    rows = {name: _joined([part[name] for part in parts if name in part]) for name in names}
    keys = [rows[name] for name in ("history", "order", "source", "place")]
    if _are_in_order(keys):
        return rows
    in_order = np.lexsort(keys[::-1])
    return {name: chosen(values, in_order) for name, values in rows.items()}


def _are_in_order(keys: Sequence[Any]) -> bool:
    """Whether no row comes before the one that stands before it: compared key by key."""
    history, order, *_ = keys
    if history[0] == history[-1] and (order[1:] > order[:-1]).all():
        return True
    undecided = np.arange(1, len(history))
    for key in keys:
        here, before = key[undecided], key[undecided - 1]
        if (here < before).any():
            return False
        undecided = undecided[here == before]
    return True


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.chunked_array(parts, pa.string())
