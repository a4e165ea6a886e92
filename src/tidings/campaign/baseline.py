"""What got better or worse since another campaign, beyond noise.

Cells are compared with those of the same name, size, load and faults, if these are the same in both
plans. Every measure is tested three times: in each cell, over all cells of an algorithm under one
fault plan, and over all its cells. The last two see a change that is too small for the few runs of
one cell, if it is in many. All are tests of ranks, which assume nothing about the numbers. Every
guarantee of an algorithm is tested by Fisher's exact test on the share of violating runs, and so is
whether its runs come to rest.

So many tests would find something by chance alone. Those of single cells and all the others are two
families; in each the p-values are adjusted by Holm's method, and doubled since there are two: the
chance that any change is reported where there is none is about ALPHA at most. A change of a mean by
less than LEAST_CHANGE is not reported, however sure.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from tidings.campaign import statistics
from tidings.campaign.cells import GridCell
from tidings.campaign.folder import Folder
from tidings.campaign.numbers import MEASURES, RUNS, column_of, grouped, values_of
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
    "p": "float64",
    "p_adjusted": "float64",
    "verdict": "string",
}


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
    p: float
    direction: float
    """Above 0 if it got more: of all that is measured, less is better."""


class Pair(NamedTuple):
    """A cell that both campaigns have, and its runs in both."""

    cell: GridCell
    after: Rows
    before: Rows


def compare(ours: Folder, theirs: Folder) -> list[dict[str, Any]]:
    """All comparisons, also as a table in our folder: the same, ``better`` or ``worse``."""
    after, before = (
        grouped(read_table(folder.table("runs"), RUNS), itemgetter("cell"))
        for folder in (ours, theirs)
    )
    pairs = [
        Pair(cell, after.get(cell.number, []), before.get(other.number, []))
        for cell, other in _partners(ours.cells, theirs.cells)
    ]
    if not pairs:
        raise UsageError(f"{theirs.shown} has no cell in common with {ours.shown}")
    changes = list(_changes(pairs))
    rows = [
        {name: value for name, value in change._asdict().items() if name in COMPARISON}
        | {"baseline": str(theirs.shown), "p_adjusted": p, "verdict": _verdict(change, p)}
        for change, p in zip(changes, _adjusted(changes), strict=True)
    ]
    write_table(ours.table("comparison"), rows, COMPARISON)
    return rows


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
        family = [place for place, one in enumerate(changes) if (one.cell is not None) is is_single]
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


def _changes(pairs: Sequence[Pair]) -> Iterator[BaselineTest]:
    for algorithm, of_algorithm in grouped(pairs, lambda pair: pair.cell.algorithm).items():
        yield from _measured(of_algorithm, f"{algorithm}, everywhere")
        yield from _counted(of_algorithm, f"{algorithm}, everywhere")
        by_faults = grouped(of_algorithm, lambda pair: pair.cell.faults)
        for faults, under_faults in by_faults.items():
            if len(by_faults) > 1 and len(under_faults) > 1:
                yield from _measured(under_faults, f"{algorithm}, faults: {faults}")
        for pair in of_algorithm:
            yield from _measured([pair], pair.cell.key, pair.cell.number)


def _measured(
    pairs: Sequence[Pair], where: str, number: int | None = None
) -> Iterator[BaselineTest]:
    first = pairs[0].cell
    for measure in MEASURES:
        values = [(values_of(one.after, measure), values_of(one.before, measure)) for one in pairs]
        values = [(new, old) for new, old in values if new and old]
        if not values:
            continue
        shift = statistics.shift(values)
        means = [(fmean(new), fmean(old)) for new, old in values]
        yield BaselineTest(
            algorithm=first.algorithm,
            flawed=first.flawed,
            cell=number,
            where=where,
            measure=measure,
            before=fmean(old for _, old in means),
            after=fmean(new for new, _ in means),
            change=_relative(means),
            p=shift.p,
            direction=shift.direction,
        )


def _relative(means: Sequence[tuple[float, float]]) -> float | None:
    """By how much the means of the cells changed, on the (geometric) average."""
    logs = [math.log(new / old) for new, old in means if new > 0 and old > 0]
    if not logs:
        return 0.0 if all(new == old for new, old in means) else None
    return math.expm1(fmean(logs))


def _counted(pairs: Sequence[Pair], where: str) -> Iterator[BaselineTest]:
    """Shares of runs: those that violate a guarantee, of those in which it could be judged; and
    those that did not end by themselves.
    """
    after = [row for one in pairs for row in one.after]
    before = [row for one in pairs for row in one.before]
    shares = {
        f"{guarantee.value} violated": (_violated(guarantee, after), _violated(guarantee, before))
        for guarantee in Guarantee
    }
    shares[NOT_ENDED] = (_not_ended(after), _not_ended(before))
    for measure, (new, old) in shares.items():
        if new[1] and old[1]:
            now, then = (hits / runs for hits, runs in (new, old))
            yield BaselineTest(
                algorithm=pairs[0].cell.algorithm,
                flawed=pairs[0].cell.flawed,
                cell=None,
                where=where,
                measure=measure,
                before=then,
                after=now,
                change=now - then,
                p=statistics.shares_differ(new, old),
                direction=now - then,
            )


def _violated(guarantee: Guarantee, rows: Rows) -> tuple[int, int]:
    values = [row[column_of(guarantee)] for row in rows]
    return values.count(Value.VIOLATED.value), len(values) - values.count(Value.UNKNOWN.value)


def _not_ended(rows: Rows) -> tuple[int, int]:
    return sum(row["outcome"] != "ran" for row in rows), len(rows)
