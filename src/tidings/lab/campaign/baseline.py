"""What got better or worse since another campaign, beyond noise.

Cells are compared with those of the same name, load and faults. In each, for every measure, Welch's
t-test on the values of the runs; for every algorithm and measure, a t-test on the logarithms of the
ratios of all its cells, which sees a small change that is everywhere; for every algorithm and
guarantee Fisher's exact test on the share of violating runs. All p-values of all these tests are
adjusted together by Holm's method: the chance that any change is reported where there is none is
below ALPHA. A change of a mean by less than LEAST_CHANGE is not reported, however sure.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from tidings.core import UsageError
from tidings.lab.campaign import statistics
from tidings.lab.campaign.cells import Cell
from tidings.lab.campaign.folder import Folder
from tidings.lab.campaign.numbers import MEASURES, column_of, values_of
from tidings.lab.campaign.tables import read_table, write_table
from tidings.spec import Guarantee, Value

ALPHA = 0.05
LEAST_CHANGE = 0.01

COMPARISON = {
    "algorithm": "string",
    "flawed": "bool",
    "cell": "int64",
    "where": "string",
    "measure": "string",
    "before": "float64",
    "after": "float64",
    "change": "float64",
    "p": "float64",
    "p_adjusted": "float64",
    "verdict": "string",
}
Rows = Sequence[Mapping[str, Any]]


class Change(NamedTuple):
    """One test: what was compared, how it came out, and how likely that is by chance alone."""

    algorithm: str
    flawed: bool
    cell: int | None
    """None for all cells of an algorithm together."""
    where: str
    measure: str
    before: float
    after: float
    change: float
    """Of means, relative; of shares, the difference."""
    p: float


def compare(ours: Folder, theirs: Folder) -> list[dict[str, Any]]:
    """All comparisons, also as a table in our folder: the same, ``better`` or ``worse``."""
    mine, others = (read_table(folder.table("runs")) for folder in (ours, theirs))
    changes = list(_changes(ours.cells, mine, theirs.cells, others))
    if not changes:
        raise UsageError(f"{theirs.shown} has no cell in common with {ours.shown}")
    adjusted = statistics.holm([change.p for change in changes])
    rows = [
        change._asdict() | {"p_adjusted": p, "verdict": _verdict(change, p)}
        for change, p in zip(changes, adjusted, strict=True)
    ]
    write_table(ours.table("comparison"), rows, COMPARISON)
    return rows


def regressions(rows: Rows) -> list[Mapping[str, Any]]:
    """What got worse; those that are meant to fail are not meant to fail less."""
    return [row for row in rows if row["verdict"] == "worse" and not row["flawed"]]


def _verdict(change: Change, p: float) -> str:
    if p >= ALPHA or abs(change.change) < LEAST_CHANGE:
        return "same"
    return "worse" if change.change > 0 else "better"


def _changes(
    our_cells: Sequence[Cell], ours: Rows, their_cells: Sequence[Cell], theirs: Rows
) -> Iterator[Change]:
    mine, others = _by_cell(ours), _by_cell(theirs)
    alike = {cell.key: cell for cell in their_cells}
    pairs = [
        (cell, mine[cell.number], others[alike[cell.key].number])
        for cell in our_cells
        if cell.key in alike and alike[cell.key].plan == cell.plan
    ]
    by_algorithm: dict[str, list[tuple[Cell, Rows, Rows]]] = {}
    for pair in pairs:
        by_algorithm.setdefault(pair[0].algorithm, []).append(pair)
    for algorithm, of_algorithm in by_algorithm.items():
        yield from _in_all_cells(algorithm, of_algorithm)
        for cell, after, before in of_algorithm:
            yield from _in_cell(cell, after, before)


def _by_cell(rows: Rows) -> dict[int, list[Mapping[str, Any]]]:
    cells: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault(row["cell"], []).append(row)
    return cells


def _in_cell(cell: Cell, after: Rows, before: Rows) -> Iterator[Change]:
    for measure in MEASURES:
        new, old = values_of(after, measure), values_of(before, measure)
        if new and old and fmean(old) > 0:
            yield Change(
                cell.algorithm,
                cell.flawed,
                cell.number,
                cell.key,
                measure,
                fmean(old),
                fmean(new),
                fmean(new) / fmean(old) - 1,
                statistics.difference(new, old),
            )


def _in_all_cells(algorithm: str, pairs: Sequence[tuple[Cell, Rows, Rows]]) -> Iterator[Change]:
    flawed, where = pairs[0][0].flawed, f"{algorithm}, everywhere"
    for measure in MEASURES:
        means = [
            (fmean(new), fmean(old))
            for _, after, before in pairs
            if (new := values_of(after, measure)) and (old := values_of(before, measure))
        ]
        logs = [math.log(new / old) for new, old in means if new > 0 and old > 0]
        if logs:
            yield Change(
                algorithm,
                flawed,
                None,
                where,
                measure,
                fmean(old for _, old in means),
                fmean(new for new, _ in means),
                math.expm1(fmean(logs)),
                statistics.drift(logs),
            )
    for guarantee in Guarantee:
        new_share = _violated(guarantee, [row for _, after, _ in pairs for row in after])
        old_share = _violated(guarantee, [row for _, _, before in pairs for row in before])
        if new_share[1] and old_share[1]:
            now, then = (hits / runs for hits, runs in (new_share, old_share))
            yield Change(
                algorithm,
                flawed,
                None,
                where,
                f"{guarantee.value} violated",
                then,
                now,
                now - then,
                statistics.shares_differ(new_share, old_share),
            )


def _violated(guarantee: Guarantee, rows: Rows) -> tuple[int, int]:
    """In how many runs it was violated, of those in which it could be judged."""
    values = [row[column_of(guarantee)] for row in rows]
    return values.count(Value.VIOLATED.value), len(values) - values.count(Value.UNKNOWN.value)
