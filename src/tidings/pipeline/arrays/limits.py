"""How much is looked at together, and how work is divided: by the data, never by the cluster.

A cluster that grows or shrinks while it works gets the same tasks, and nobody has to ask it first.
"""

from typing import NamedTuple


class JudgingLimits(NamedTuple):
    """No verdict depends on any of these; tests draw them small."""

    batch_rows: int = 1 << 21
    """Up to so many rows in all are judged at once; of a campaign, so many at a time."""
    batch_share: float = 0.25
    """Runs are not long while they take no more of a batch than this, on average."""
    longest_rows: int = 1 << 24
    """A run of more rows than this is not judged in one go."""
    few_long_runs: int = 64
    """So many are judged in slabs, one after the other; of more, each is judged by one task."""

    task_rows: int = 1 << 23
    """A long run has a task for so many of its rows,"""
    least_tasks: int = 8
    """but so many at least, that no worker waits for another,"""
    most_tasks: int = 1024
    """and no more than this."""
    slab_rows: int = 1 << 21
    """So many rows of a long run make a slab; a task judges some slabs, one after the other."""
    most_slab_rows: int = 1 << 24
    """Names that are no counters may make it larger; beyond this it does not fit in memory."""
    most_slab_cells: int = 1 << 28
    """The same for what is noted of each reader and message, or reader and row that is away."""

    kept_rows: int = 1 << 26
    """So many stay in memory between survey and slabs, in about seven bytes each; not on Spark."""
    marks_a_slab: int = 8
    """So many places of each history in a slab are marked by the survey;"""
    mark_window: int = 8
    """a mark looks back over so many rows for each process."""
    most_moments: int = 1 << 14
    """So many moments are considered when a run is cut."""
    places_a_row: int = 4
    """A table of messages may have so many places for each row, and"""
    more_places: int = 1024
    """so many more."""
    cells_at_once: int = 1 << 18
    """So many (reader, event) are looked at together: they fit in a cache."""
    batch_bytes: int = 4 << 20
    """So many bytes of parcels go to Spark together."""

    def tasks(self, rows: int) -> int:
        """Of a long run, in each stage."""
        return min(self.most_tasks, max(self.least_tasks, -(-rows // self.task_rows)))

    def slabs(self, rows: int) -> int:
        """As many for each task, so that none of them works alone in the end."""
        tasks = self.tasks(rows)
        return tasks * max(1, -(-rows // (self.slab_rows * tasks)))
