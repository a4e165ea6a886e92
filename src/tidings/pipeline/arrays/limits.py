"""How much is looked at together, and how work is divided: by the data, never by the cluster.

A cluster that grows or shrinks while it works gets the same tasks, and nobody has to ask it first.
"""

from typing import NamedTuple


class JudgingLimits(NamedTuple):
    """Verdicts do not depend on any of these; tests make them small."""

    batch_rows: int = 1 << 21
    """Up to so many rows in all are judged at once; of a campaign, so many at a time."""
    task_rows: int = 1 << 22
    """A long run has a task for so many of its rows,"""
    least_tasks: int = 8
    """but so many at least, that no worker waits for another,"""
    most_tasks: int = 1024
    """and no more than this."""
    slab_rows: int = 1 << 21
    """So many rows of a long run make a slab; a task judges some slabs, one after the other."""
    most_slab_rows: int = 1 << 24
    """A slab may come out larger if names are no counters; this is too large for memory."""

    def tasks(self, rows: int) -> int:
        """Of a long run, in each stage."""
        return min(self.most_tasks, max(self.least_tasks, -(-rows // self.task_rows)))

    def slabs(self, rows: int) -> int:
        """As many for each task, so that none of them works alone in the end."""
        tasks = self.tasks(rows)
        return tasks * max(1, -(-rows // (self.slab_rows * tasks)))
