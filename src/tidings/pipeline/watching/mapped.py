"""A stream of any log, with a mapping: each batch becomes pieces of histories.

A log counts no rows, so nobody can tell that one is missing: what comes is put behind what came
before, in the order of the mapping within a batch. Messages need an origin and a number: an id gets
its name only when a whole log has been read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.core import DataError, UsageError, ordered
from tidings.pipeline.sources.cells import as_texts
from tidings.pipeline.sources.meaning import Meaning, Meant
from tidings.pipeline.watching.pieces import Events, Piece, packed
from tidings.trace import SCHEMA_VERSION, Manifest
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.schema import KINDS

BROADCAST, DELIVER = KINDS.index("broadcast"), KINDS.index("deliver")
Ends = Mapping[tuple[str, str], int]
"""Where the history of each process of each run ends."""


def refuse_ids(mapping: LogMapping) -> None:
    if mapping.columns.id is not None:
        raise UsageError(
            "a stream cannot be watched by columns.id: an id gets its name when the whole log is "
            "read; give origin and seq, or ingest the log"
        )
    if mapping.columns.order.startswith("@"):
        raise UsageError("a stream has no lines: columns.order has to name a column")


def manifest_of(
    mapping: LogMapping | None, run: str, seen: Manifest | None, pieces: Sequence[Piece]
) -> Manifest:
    """The members that the mapping lists, or whoever has had rows so far."""
    old, before = (seen.names, seen.views[0]) if seen is not None else ((), ())
    listed = mapping.members if mapping is not None else None
    members = listed or ordered([*before, *(piece.process for piece in pieces)])
    mentioned = [name for piece in pieces for name in (piece.process, *piece.origins)]
    fates = mapping.end.fates if mapping is not None else {}
    return Manifest(
        schema=SCHEMA_VERSION,
        run=run,
        names=ordered([*old, *members, *mentioned]),
        views=(tuple(members),),
        fates={name: fate for name, fate in fates.items() if name in members},
    )


def pieces_of_log(table: Any, mapping: LogMapping, run: str, ends: Ends) -> Iterator[Piece]:
    """``table`` has the columns that the mapping reads, as texts."""
    columns = [table[name].combine_chunks() for name in mapping.read_columns]
    cells = as_texts(columns, np.arange(len(table)))
    meant = Meaning(mapping, run, keeps_text=False).of(cells, "the stream")
    if meant.bad is not None:
        raise DataError(f"row {meant.bad.position} of a batch: {meant.bad.why}")
    rows = _Rows(meant)
    order = np.lexsort((meant.columns["order"], rows.process, rows.run))
    keys = np.stack([rows.run[order], rows.process[order]], axis=1)
    starts = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-2), axis=1))
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield rows.piece(order[begin:end], ends)


class _Rows:
    def __init__(self, meant: Meant) -> None:
        assert meant.origin is not None, "messages have an origin and a number"
        self.meant = meant
        self.run, self.process = meant.run.codes, meant.process.codes
        self.origin = meant.origin

    def piece(self, places: Any, ends: Ends) -> Piece:
        columns = self.meant.columns
        run = self.meant.run.words[self.run[places[0]]]
        process = self.meant.process.words[self.process[places[0]]]
        begin = ends.get((run, process), 0)
        kind = columns["kind"][places]
        about = np.flatnonzero((kind == BROADCAST) | (kind == DELIVER))
        some = places[about]
        origins = pa.array(self.origin.words, pa.string()).take(pa.array(self.origin.codes[some]))
        named = origins.dictionary_encode()
        is_broadcast = kind[about] == BROADCAST
        events = Events(
            begin + about,
            is_broadcast,
            named.indices.to_numpy(),
            columns["seq"][some],
            columns["digest"][some],
            np.where(is_broadcast, 0, -1),
        )
        times = columns.get("time_ns")
        return Piece(
            run=run,
            process=process,
            begin=begin,
            end=begin + len(places),
            rows=len(places),
            first_kind=KINDS[kind[0]],
            last_kind=KINDS[kind[-1]],
            has_gap=False,
            origins=tuple(named.dictionary.to_pylist()),
            columns=packed(events),
            time_ns=0 if times is None else int(times[places[-1]]),
        )
