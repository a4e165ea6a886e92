"""The events of a long run, read once more from a piece that was surveyed before."""

from collections.abc import Iterator

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.long.outline import Outline, RunPiece
from tidings.pipeline.arrays.rows import Directory, events_of


def read_events(
    part: RunPiece, columns: set[str], outline: Outline, directory: Directory
) -> Iterator[tuple[int, Events]]:
    """The events of each process that has any in a piece."""
    piece, owners, is_alone, first_index = part
    if is_alone and len(owners) == 1 and first_index is not None:
        # Checked before: the rows are all of one process, and their indices follow each other.
        table = piece.read(sorted(columns - {"index"}))
        yield owners[0], events_of(table, directory, outline.run, first_index)
        return
    columns = columns | {"process"} if is_alone else columns | {"process", "run"}
    events = events_of(piece.read(sorted(columns)), directory, outline.run)
    for owner in owners:
        yield owner, events.at(events.process == owner)
