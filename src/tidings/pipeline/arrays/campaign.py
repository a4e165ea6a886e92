"""Many whole runs, batch by batch.

A batch is cut where one run ends and the next begins. A task owns the runs that begin in its
groups of rows: it reads on to the end of the last of them, and leaves out what belongs to a run
that began before. A run whose rows do not stand together is then found in two places; ``whole``
says so, and nobody has to believe what was said of its halves.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.pipeline.arrays.batch import judge
from tidings.pipeline.arrays.findings import Array, Findings, Judged
from tidings.pipeline.arrays.known import Endings
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.rows import Directory, Share, checked, in_sequence, read
from tidings.pipeline.arrays.steps import steps_in
from tidings.pipeline.arrays.written import Showing


class TooLongError(Exception):
    """A run among many that does not fit in memory."""


def judge_tables(
    tables: Sequence[tuple[int, Any]], directory: Directory, showing: Showing
) -> Judged:
    """Judge whole runs, given as tables in reading order with the number of their file."""
    stored = pa.concat_tables([table for _, table in tables], promote_options="default")
    files = np.repeat([file for file, _ in tables], [len(table) for _, table in tables])
    return judge_stored(stored, files, directory, showing)


def judge_stored(stored: Any, files: Array, directory: Directory, showing: Showing) -> Judged:
    if not len(stored):
        return Findings.of_nothing(0).of_runs(np.zeros(0, np.int64), [], 0)
    runs, events, lives = in_sequence(checked(stored, directory), files, directory)
    steps = steps_in(stored, directory).items()
    lives = lives._replace(changing={int(np.searchsorted(runs, run)): one for run, one in steps})
    known = Endings(directory.shapes).known(directory.shape[runs], lives)
    found = judge(events, known, showing.at_first)
    return showing.kept(found.of_runs(runs, known.doubts, len(stored)), directory)


def judge_whole(
    some: tuple[Sequence[Share], str | None], directory: Directory, showing: Showing
) -> Judged:
    """Judge at once all runs of some shares, or the one with this label, mixed as they may be."""
    shares, label = some
    tables = [(share.file, _rows_of(share, label)) for share in shares]
    return judge_tables(tables, directory, showing)


def _rows_of(share: Share, label: str | None) -> Any:
    table = share.read()
    return table if label is None else table.filter(pc.equal(table["run"], label))


def judge_share(
    share: Share, directory: Directory, showing: Showing, limits: JudgingLimits
) -> Judged | None:
    """Judge the runs that begin in a share, batch by batch; None if no run does."""
    parts = [
        judge_tables([(share.file, table)], directory, showing)
        for table in batches(_own_runs(share), limits)
    ]
    return Judged.joined(parts) if parts else None


def _own_runs(share: Share) -> Iterator[Any]:
    """The rows of the runs that begin in a share, group by group."""
    path, columns, groups = share.source.path, share.source.columns, share.source.groups
    foreign = next(
        (
            _last(read(path, ["run"], [group]))
            for group in range(share.begin)[::-1]
            if groups[group]
        ),
        None,
    )
    last = None
    for group in range(share.begin, share.end):
        table = read(path, columns, [group])
        if foreign is not None:
            table = table.slice(_leading(table, foreign))
        if len(table):
            yield table
            foreign, last = None, _last(table)
    if last is None:
        return
    for group in range(share.end, len(groups)):
        table = read(path, columns, [group])
        rest = _leading(table, last)
        yield table.slice(0, rest)
        if rest < len(table):
            return


def _last(table: Any) -> Any:
    """The run of the last row."""
    return table["run"][-1].as_py()


def _leading(table: Any, run: Any) -> int:
    """How many rows at the beginning are of this run."""
    is_other = pc.not_equal(table["run"], run).fill_null(True).to_numpy()
    return int(is_other.argmax()) if is_other.any() else len(table)


def batches(tables: Iterable[Any], limits: JudgingLimits) -> Iterator[Any]:
    """The same rows in tables of about so many, cut only between two runs."""
    waiting: list[Any] = []
    batch_rows, longest = limits.batch_rows, limits.longest_rows
    rows, enough = 0, batch_rows
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows < enough:
            continue
        whole = pa.concat_tables(waiting, promote_options="default").unify_dictionaries()
        is_other = pc.not_equal(whole["run"], _last(whole)).fill_null(True).to_numpy()
        border = len(whole) - int(is_other[::-1].argmax()) if is_other.any() else 0
        if border:
            yield whole.slice(0, border)
            whole = whole.slice(border)
        elif rows > longest:
            raise TooLongError
        waiting, rows = [whole], len(whole)
        # A long run is not looked at again and again.
        enough = min(max(batch_rows, 2 * rows), max(batch_rows, longest + 1))
    if rows:
        yield pa.concat_tables(waiting, promote_options="default").unify_dictionaries()
