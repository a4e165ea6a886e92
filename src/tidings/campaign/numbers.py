"""The tables of a campaign: every run, and what the runs of a cell say together.

docs/campaign.md has every column.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from tidings.campaign import statistics
from tidings.campaign.cells import GridCell
from tidings.campaign.folder import Folder
from tidings.campaign.runs import outcomes_of
from tidings.campaign.tables import read_table, write_table
from tidings.core.ranks import percentile
from tidings.spec import JUDGED, Extra, Guarantee, Value

_MS = 1_000_000


def column_of(guarantee: Guarantee | Extra) -> str:
    """What the guarantee is called in the table of runs."""
    return guarantee.value.replace(" ", "_")


MEASURES = ("packets", "bytes", "delays", "latency_ms", "state_bytes")
"""What is measured in every run; of all of them less is better."""

CELL = {
    "cell": "int64",
    "algorithm": "string",
    "flawed": "bool",
    "processes": "int64",
    "workload": "string",
    "faults": "string",
}
RUNS = {
    **CELL,
    "run": "string",
    "seed": "int64",
    "outcome": "string",
    "reason": "string",
    "replay": "string",
    "rows": "int64",
    "cpu_s": "float64",
    **dict.fromkeys(MEASURES, "float64"),
    **{column_of(guarantee): "string" for guarantee in JUDGED},
}
COMPARED = tuple(column for column in RUNS if column != column_of(Extra.VIEWS))
"""What every campaign has, also one from before views were judged."""
STATISTICS = {
    **CELL,
    "measure": "string",
    "runs": "int64",
    **{
        f"{what}{end}": "float64"
        for what in ("mean", "p50", "p99")
        for end in ("", "_low", "_high")
    },
}
COUNTS = {
    "guarantee": "string",
    "runs": "int64",
    "violated": "int64",
    "unknown": "int64",
    "share": "float64",
    "share_low": "float64",
    "share_high": "float64",
    "first_violated": "string",
}
SHARES = {**CELL, **COUNTS}
VERDICTS = {"algorithm": "string", "flawed": "bool", **COUNTS}

T = TypeVar("T")
Rows = list[dict[str, Any]]
Verdicts = Mapping[str, Mapping[str, str]]
"""By run and guarantee."""


def write(folder: Folder, verdicts: Verdicts) -> None:
    """All tables; that of the runs last, since it tells that the others are there."""
    found = list(_runs(folder, verdicts))
    of_cell = grouped(found, itemgetter("cell"))
    by_cell = [(cell, of_cell[cell.number]) for cell in folder.cells]
    pooled = [
        {"algorithm": name, "flawed": of_name[0]["flawed"]} | counts
        for name, of_name in grouped(found, itemgetter("algorithm")).items()
        for counts in _shares(of_name)
    ]
    shares = [_about(cell) | counts for cell, rows in by_cell for counts in _shares(rows)]
    tables = {
        "statistics": (list(_statistics(by_cell)), STATISTICS),
        "shares": (shares, SHARES),
        "verdicts": (pooled, VERDICTS),
        "runs": (found, RUNS),
    }
    for name, (rows, kinds) in tables.items():
        write_table(folder.table(name), rows, kinds)


def again(folder: Path, run: str) -> str:
    """The command that has a run of a campaign once more."""
    return shlex.join(["tidings", "campaign", "--out", str(folder), "--again", run])


# --- runs


def _runs(folder: Folder, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    measured = _measured(folder)
    outcomes = [one for task in folder.tasks for one in outcomes_of(task, folder.path)]
    unknown = {guarantee.value: Value.UNKNOWN.value for guarantee in Guarantee}
    for outcome in sorted(outcomes, key=lambda one: (one.cell, one.seed)):
        cell = folder.cells[outcome.cell]
        values = verdicts.get(outcome.run, unknown)
        yield {
            **_about(cell),
            "run": outcome.run,
            "seed": outcome.seed,
            "outcome": outcome.outcome,
            "reason": outcome.reason or None,
            "replay": again(folder.shown, outcome.run),
            "rows": outcome.rows,
            "cpu_s": outcome.cpu_s,
            **measured(cell, outcome.run),
            **{column_of(guarantee): values.get(guarantee.value) for guarantee in JUDGED},
        }


def _about(cell: GridCell) -> dict[str, Any]:
    return {name: getattr(cell, {"cell": "number"}.get(name, name)) for name in CELL}


def _measured(folder: Folder) -> Callable[[GridCell, str], dict[str, float | None]]:
    """The measures of a run of a cell: delays are counted in those of its packets."""
    if not folder.measures.exists():
        return lambda cell, run: dict.fromkeys(MEASURES)
    costs = read_table(folder.measures / "run_costs")
    waits = waits_ms(folder)
    kept = read_table(folder.measures / "states_by_run", only={"name": ["bytes"]})
    plain = {
        "packets": {row["run"]: row["packets_per_broadcast"] for row in costs},
        "bytes": {row["run"]: row["bytes_per_broadcast"] for row in costs},
        "latency_ms": {run: fmean(of_run) for run, of_run in waits.items()},
        "state_bytes": {row["run"]: row["last"] for row in kept},
    }
    middle = {run: percentile(50, sorted(of_run)) for run, of_run in waits.items()}

    def of_run(cell: GridCell, run: str) -> dict[str, float | None]:
        delay_ms = (cell.plan.delay_ms_min + cell.plan.delay_ms_max) / 2
        delays = middle[run] / delay_ms if run in middle else None
        return {name: of_all.get(run) for name, of_all in plain.items()} | {"delays": delays}

    return of_run


def waits_ms(folder: Folder) -> dict[str, list[float]]:
    """Of each run how long its messages took, from the broadcast to the last delivery."""
    rows = read_table(folder.measures / "latencies", ["run", "last_ns"])
    waits = grouped((row for row in rows if row["last_ns"] is not None), itemgetter("run"))
    return {run: [row["last_ns"] / _MS for row in of_run] for run, of_run in waits.items()}


# --- cells


def _statistics(by_cell: Sequence[tuple[GridCell, Rows]]) -> Iterator[dict[str, Any]]:
    for (cell, found), measure in product(by_cell, MEASURES):
        if values := values_of(found, measure):
            runs, *figures = statistics.summary(values)
            row = {**_about(cell), "measure": measure, "runs": runs}
            for what, (value, low, high) in zip(("mean", "p50", "p99"), figures, strict=True):
                row |= {what: value, f"{what}_low": low, f"{what}_high": high}
            yield row


def values_of(found: Iterable[Mapping[str, Any]], measure: str) -> list[float]:
    """A measure in the runs that came to rest: of the others it would be a lower bound."""
    return [row[measure] for row in found if row["outcome"] == "ran" and row[measure] is not None]


def _shares(found: Rows) -> Iterator[dict[str, Any]]:
    """Of some runs, in how many each guarantee was violated; what is unknown does not count.

    Agreed views are judged where there are any.
    """
    for guarantee in JUDGED:
        judged = [row for row in found if row[column_of(guarantee)] is not None]
        if not judged:
            continue
        values = [row[column_of(guarantee)] for row in judged]
        violated, unknown = values.count(Value.VIOLATED.value), values.count(Value.UNKNOWN.value)
        share = statistics.exact_interval(violated, len(values) - unknown)
        first = values.index(Value.VIOLATED.value) if violated else None
        yield {
            "guarantee": guarantee.value,
            "runs": len(values),
            "violated": violated,
            "unknown": unknown,
            "share": share.value if len(values) > unknown else None,
            "share_low": share.low,
            "share_high": share.high,
            "first_violated": None if first is None else judged[first]["run"],
        }


def not_ended(found: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Rows]:
    """Runs that did not end by themselves, by outcome and algorithm."""
    return {
        (outcome, algorithm): rows
        for outcome, of_outcome in grouped(found, itemgetter("outcome")).items()
        if outcome != "ran"
        for algorithm, rows in grouped(of_outcome, itemgetter("algorithm")).items()
    }


def grouped(found: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    """What has the same key, such as the same column of a table, together."""
    groups: dict[Any, list[T]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return groups
