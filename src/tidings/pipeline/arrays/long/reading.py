"""The events of a long run, read once more from a piece that was surveyed before.

If the survey kept them, only their texts are read.
"""

from collections.abc import Iterator

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.long.outline import Kept, Outline, RunPiece
from tidings.pipeline.arrays.rows import Directory, Share, events_of, numbers_of


def read_events(
    part: RunPiece, columns: set[str], outline: Outline, directory: Directory
) -> Iterator[tuple[int, Events]]:
    """The events of each process that has any in a piece."""
    piece, owners, is_alone, first_index, kept = part
    if is_alone and len(owners) == 1 and first_index is not None:
        if kept is not None:
            yield owners[0], _with_texts(piece, kept, first_index)
            return
        # Checked before: the rows are all of one process, and their indices follow each other.
        table = piece.read(sorted(columns - {"index"}))
        yield owners[0], events_of(table, directory, outline.run, first_index)
        return
    columns = columns | {"process"} if is_alone else columns | {"process", "run"}
    events = events_of(piece.read(sorted(columns)), directory, outline.run)
    for owner in owners:
        yield owner, events.at(events.process == owner)


def _with_texts(piece: Share, kept: Kept, first_index: int) -> Events:
    digests = numbers_of(piece.read(["digest"])["digest"])
    index = np.arange(first_index, first_index + len(digests))
    none = np.zeros(0, np.int64)
    return Events(
        none,
        none,
        index[kept.rows],
        kept.is_broadcast,
        kept.origin,
        kept.seq,
        digests[kept.rows],
        kept.view,
    )
