"""Who kept which guarantee, and what changed since the baseline."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tidings.campaign.baseline import worst_first
from tidings.campaign.page.found import CampaignResults, Rows
from tidings.campaign.statistics import CONFIDENCE
from tidings.report.page.model import Cell, Change, Comparison, Entry, Matrix
from tidings.report.words import many
from tidings.spec import Guarantee, Value


def matrix(found: CampaignResults, pictures: set[str]) -> Matrix:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in found.verdicts:
        by_name.setdefault(row["algorithm"], []).append(row)
    return Matrix(
        entries=tuple(
            Entry(
                name=name,
                flawed=of_name[0]["flawed"],
                note="; ".join(_notes(found, name, of_name)),
                cells={Guarantee(row["guarantee"]): _cell(found, row, pictures) for row in of_name},
            )
            for name, of_name in by_name.items()
        ),
        confidence=CONFIDENCE,
        note="Over all sizes, loads and faults of this plan: the shares are those of this "
        "mixture, and say nothing about others. The intervals are Clopper and Pearson's, of "
        "the runs that could be judged; shares.csv has them for each cell.",
        how=found.again,
    )


def _notes(found: CampaignResults, name: str, verdicts: Rows) -> Iterator[str]:
    yield many(verdicts[0]["runs"], "run")
    for outcome in ("failed", "cut"):
        if rows := found.ended.get((outcome, name)):
            yield f"{len(rows):,} {outcome}"
    if verdicts[0]["flawed"] and not any(row["violated"] for row in verdicts):
        yield "not caught"


def _cell(found: CampaignResults, row: Mapping[str, Any], pictures: set[str]) -> Cell:
    value = Value.HOLDS
    if row["violated"]:
        value = Value.VIOLATED
    elif row["unknown"]:
        value = Value.UNKNOWN
    key = found.key(row)
    return Cell(
        value=value,
        runs=row["runs"],
        violated=row["violated"],
        unknown=row["unknown"],
        low=row["share_low"],
        high=row["share_high"],
        note=f"first in run {row['first_violated']}" if row["violated"] else "",
        picture=key if key in pictures else None,
    )


def comparison(found: CampaignResults) -> Comparison | None:
    """With the baseline, if there was one."""
    rows = found.compared
    if not rows:
        return None
    baseline = rows[0]["baseline"]
    return Comparison(
        baseline=baseline,
        changes=tuple(
            Change(
                where=row["where"] + (" (flawed)" if row["flawed"] else ""),
                measure=row["measure"],
                before=row["before"],
                after=row["after"],
                chance=row["p_adjusted"],
                is_worse=row["verdict"] == "worse",
            )
            for row in worst_first(rows)
        ),
        note=f"Of {many(len(rows), 'comparison')}, by the ranks of the runs within each cell "
        "or by shares of runs; the chance is adjusted for their number by Holm's method. All "
        "of them are in comparison.csv.",
        how=f"{shlex.join(['tidings', 'campaign', '--out', str(found.folder.shown)])} "
        f"--baseline {shlex.quote(baseline)}",
    )
