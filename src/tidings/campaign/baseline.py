"""What got better or worse since another campaign, beyond noise.

Cells are compared with those of the same name, size, load and faults, if these are the same in both
plans, and in them each run with that of the same seed: the same load, faults and delays, as far as
both send the same packets. So luck that both had cancels out of the difference. How alike the pairs
are is reported as their correlation; at 0, pairs are as good as any two runs, and no worse.

Every measure is tested three times: in each cell, over all cells of an algorithm under one fault
plan, and over all its cells. The last two see a change that is too small for the few runs of one
cell, if it is in many. All are tests of ranks of differences (``statistics.shift``); they assume
that without a change a difference is as likely up as down. The shares of runs of an algorithm that
violate a guarantee, and of those that do not come to rest, are compared by the same pairs.

So many tests would find something by chance alone. Those of single cells and all the others are two
families; in each the p-values are adjusted by Holm's method, and doubled since there are two: the
chance that any change is reported where there is none is ALPHA at most (``bench/power.py`` counts
how often). Tests of too few differences to find anything are left out of that, and find nothing. A
change of a mean by less than LEAST_CHANGE is not reported, however sure.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import fmean, median
from typing import Any, NamedTuple

from tidings.campaign import statistics
from tidings.campaign.cells import GridCell
from tidings.campaign.folder import Folder
from tidings.campaign.numbers import COMPARED, MEASURES, column_of, grouped, values_of
from tidings.campaign.tables import Rows, read_table, write_table
from tidings.core import UsageError
from tidings.spec import Guarantee, Value

ALPHA = 0.05
LEAST_CHANGE = 0.01
NOT_ENDED = "runs that did not end"

COMPARISON = {
    "baseline": "string",
    "algorithm": "string",
    "flawed": "bool",
    "cell": "int64",
    "where": "string",
    "measure": "string",
    "before": "float64",
    "after": "float64",
    "change": "float64",
    "pairs": "int64",
    "correlation": "float64",
    "p": "float64",
    "p_adjusted": "float64",
    "verdict": "string",
}


Run = Mapping[str, Any]
"""A row of the table of runs."""


class BaselineTest(NamedTuple):
    """One test: what was compared, how it came out, and how likely that is by chance alone."""

    algorithm: str
    flawed: bool
    cell: int | None
    """None for several cells together."""
    where: str
    measure: str
    before: float
    after: float
    change: float | None
    """Of means, relative, and None if that was 0; of shares, the difference."""
    pairs: int
    correlation: float | None
    """Of the two runs of a pair, as far as either varies."""
    p: float
    least: float
    """What p could have been at best."""
    direction: float
    """Above 0 if it got more: of all that is measured, less is better."""


class PairedCell(NamedTuple):
    """A cell that both campaigns have, and its runs in both, by seed; each after and before."""

    cell: GridCell
    runs: Sequence[tuple[Run, Run]]


def compare(ours: Folder, theirs: Folder) -> list[dict[str, Any]]:
    """All comparisons, also as a table in our folder: the same, ``better`` or ``worse``."""
    cells = paired(ours, theirs)
    if not cells:
        raise UsageError(f"{theirs.shown} has no cell in common with {ours.shown}")
    rows = [row | {"baseline": str(theirs.shown)} for row in compared(cells)]
    write_table(ours.table("comparison"), rows, COMPARISON)
    return rows


def paired(ours: Folder, theirs: Folder) -> list[PairedCell]:
    """The cells in common; of their runs those whose seed both have."""
    after, before = (
        grouped(read_table(folder.table("runs"), COMPARED), itemgetter("cell"))
        for folder in (ours, theirs)
    )
    cells = []
    for cell, other in _partners(ours.cells, theirs.cells):
        old = {row["seed"]: row for row in before.get(other.number, [])}
        new = after.get(cell.number, [])
        runs = [(row, old[row["seed"]]) for row in new if row["seed"] in old]
        cells.append(PairedCell(cell, runs))
    return cells


def compared(cells: Sequence[PairedCell]) -> list[dict[str, Any]]:
    """A row for each test, without the name of the baseline."""
    changes = list(_changes(cells))
    return [
        {name: value for name, value in change._asdict().items() if name in COMPARISON}
        | {"p_adjusted": p, "verdict": _verdict(change, p)}
        for change, p in zip(changes, _adjusted(changes), strict=True)
    ]


def likeness(rows: Rows) -> float | None:
    """How alike the runs of a pair are: the median correlation of the measures of algorithms."""
    found = [
        row["correlation"]
        for row in rows
        if row["where"] == _everywhere(row["algorithm"]) and row["measure"] in MEASURES
    ]
    known = [one for one in found if one is not None]
    return median(known) if known else None


def regressions(rows: Rows) -> list[Mapping[str, Any]]:
    """What got worse; those that are meant to fail are not meant to fail less."""
    return [row for row in rows if row["verdict"] == "worse" and not row["flawed"]]


def worst_first(rows: Rows) -> list[Mapping[str, Any]]:
    """What is not the same: worse before better, many cells before one, the surest first."""
    return sorted(
        [row for row in rows if row["verdict"] != "same"],
        key=lambda row: (row["verdict"] != "worse", row["cell"] is not None, row["p_adjusted"]),
    )


class Apart(NamedTuple):
    """How many cells have no partner to be compared with, and whose have none at all."""

    ours: int
    theirs: int
    algorithms: tuple[str, ...]
    """Of ours, those that are not meant to fail."""


def apart(ours: Folder, theirs: Folder) -> Apart:
    common = [cell for cell, _ in _partners(ours.cells, theirs.cells)]
    compared = {cell.algorithm for cell in common}
    sound = dict.fromkeys(cell.algorithm for cell in ours.cells if not cell.flawed)
    return Apart(
        len(ours.cells) - len(common),
        len(theirs.cells) - len(common),
        tuple(name for name in sound if name not in compared),
    )


def _adjusted(changes: Sequence[BaselineTest]) -> list[float]:
    """Their p-values, those of single cells and of several apart."""
    adjusted = [1.0] * len(changes)
    for is_single in (True, False):
        alike = [place for place, one in enumerate(changes) if (one.cell is not None) is is_single]
        able = statistics.could_show([changes[place].least for place in alike], ALPHA / 2)
        family = [alike[place] for place in able]
        chances = statistics.holm([changes[place].p for place in family])
        for place, chance in zip(family, chances, strict=True):
            adjusted[place] = min(1.0, 2 * chance)
    return adjusted


def _verdict(change: BaselineTest, p: float) -> str:
    is_share = change.measure not in MEASURES
    is_trifle = change.change is not None and abs(change.change) < LEAST_CHANGE and not is_share
    # Means and ranks may differ in their direction, if a few runs are far from all others.
    is_clear = change.change is None or change.change * change.direction > 0
    if p >= ALPHA or is_trifle or not is_clear:
        return "same"
    return "worse" if change.direction > 0 else "better"


# --- who is compared with whom


def _partners(
    ours: Sequence[GridCell], theirs: Sequence[GridCell]
) -> list[tuple[GridCell, GridCell]]:
    """Cells under the same conditions: a run may have more or less time, or packets, for them."""
    alike = {cell.key: cell for cell in theirs}
    return [
        (cell, alike[cell.key])
        for cell in ours
        if cell.key in alike and alike[cell.key].conditions == cell.conditions
    ]


# --- the tests


def _changes(cells: Sequence[PairedCell]) -> Iterator[BaselineTest]:
    for algorithm, of_algorithm in grouped(cells, lambda one: one.cell.algorithm).items():
        yield from _measured(of_algorithm, _everywhere(algorithm))
        yield from _counted(of_algorithm, _everywhere(algorithm))
        by_faults = grouped(of_algorithm, lambda one: one.cell.faults)
        for faults, under_faults in by_faults.items():
            if len(by_faults) > 1 and len(under_faults) > 1:
                yield from _measured(under_faults, f"{algorithm}, faults: {faults}")
        for one in of_algorithm:
            yield from _measured([one], one.cell.key, one.cell.number)


def _everywhere(algorithm: str) -> str:
    return f"{algorithm}, everywhere"


def _measured(
    cells: Sequence[PairedCell], where: str, number: int | None = None
) -> Iterator[BaselineTest]:
    for measure in MEASURES:
        values = [_values(one.runs, measure) for one in cells]
        values = [pairs for pairs in values if pairs]
        means = [
            (fmean(new for new, _ in pairs), fmean(old for _, old in pairs)) for pairs in values
        ]
        if means:
            after, before = (fmean(side) for side in zip(*means, strict=True))
            change = _relative(means)
            yield _tested(cells[0].cell, number, where, measure, values, (before, after, change))


def _values(runs: Sequence[tuple[Run, Run]], measure: str) -> list[tuple[float, float]]:
    """Of pairs in which both came to rest and were measured."""
    both = [(values_of([new], measure), values_of([old], measure)) for new, old in runs]
    return [(new[0], old[0]) for new, old in both if new and old]


def _relative(means: Sequence[tuple[float, float]]) -> float | None:
    """By how much the means of the cells changed, on the (geometric) average."""
    logs = [math.log(new / old) for new, old in means if new > 0 and old > 0]
    if not logs:
        return 0.0 if all(new == old for new, old in means) else None
    return math.expm1(fmean(logs))


def _counted(cells: Sequence[PairedCell], where: str) -> Iterator[BaselineTest]:
    """Shares of runs: those that violate a guarantee, of those in which it could be judged; and
    those that did not end by themselves.
    """
    runs = [pair for one in cells for pair in one.runs]
    shares = {
        f"{guarantee.value} violated": _judged(runs, column_of(guarantee))
        for guarantee in Guarantee
    }
    shares[NOT_ENDED] = [
        (float(new["outcome"] != "ran"), float(old["outcome"] != "ran")) for new, old in runs
    ]
    for measure, pairs in shares.items():
        if pairs:
            after, before = (fmean(side) for side in zip(*pairs, strict=True))
            figures = (before, after, after - before)
            yield _tested(cells[0].cell, None, where, measure, [pairs], figures)


def _judged(runs: Sequence[tuple[Run, Run]], column: str) -> list[tuple[float, float]]:
    """1 where it was violated, of pairs in which it could be judged in both."""
    values = [(new[column], old[column]) for new, old in runs]
    return [
        (float(new == Value.VIOLATED.value), float(old == Value.VIOLATED.value))
        for new, old in values
        if Value.UNKNOWN.value not in (new, old)
    ]


def _tested(
    cell: GridCell,
    number: int | None,
    where: str,
    measure: str,
    values: Sequence[statistics.Pairs],
    figures: tuple[float, float, float | None],
) -> BaselineTest:
    before, after, change = figures
    shift = statistics.shift(values)
    return BaselineTest(
        algorithm=cell.algorithm,
        flawed=cell.flawed,
        cell=number,
        where=where,
        measure=measure,
        before=before,
        after=after,
        change=change,
        pairs=sum(map(len, values)),
        correlation=shift.correlation,
        p=shift.p,
        least=shift.least,
        direction=shift.direction,
    )
