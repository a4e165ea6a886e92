"""How fast the explorer is, and what each reduction saves.

Every line is measured in the same run, on one core, in seconds of its own processor time, since
machines are seldom idle. The last table shows what a second worker is worth.
"""

import argparse
import json
import sys
import time
from typing import Any

from rich.console import Console

from tidings.explore import ALL, Reduction, Scope, explore
from tidings.report import plain_table

SCOPE = Scope(processes=3, broadcasts=2, crashes=1)
LARGER = Scope(processes=3, broadcasts=3, crashes=1)


def measured(scope: Scope, reductions: frozenset[Reduction], workers: int = 1) -> dict[str, Any]:
    before = time.process_time()
    explored = explore(scope, reductions=reductions, workers=workers)
    seconds = time.process_time() - before
    assert not explored.cut, explored.cut
    assert not explored.found, explored.found
    pace = explored.pace
    return {
        "states": pace.states,
        "transitions": pace.transitions,
        "cpu_seconds": seconds,
        "wall_seconds": pace.seconds,
        "states_per_second": pace.states / (seconds if workers == 1 else pace.seconds),
        "memory_mb": pace.memory_mb,
    }


def reductions_compared() -> list[dict[str, Any]]:
    every = frozenset(ALL)
    cases = {
        "none": frozenset(),
        **{f"{one} alone": frozenset([one]) for one in ALL},
        **{f"all but {one}": every - {one} for one in ALL},
        "all": every,
    }
    rows = [{"reductions": name} | measured(SCOPE, which) for name, which in cases.items()]
    for row in rows:
        row["saved"] = rows[0]["states"] / row["states"]
    return rows


def workers_compared() -> list[dict[str, Any]]:
    rows = [{"workers": workers} | measured(LARGER, frozenset(ALL), workers) for workers in (1, 2)]
    for row in rows:
        row["speed"] = rows[0]["wall_seconds"] / row["wall_seconds"]
    return rows


def shown(row: dict[str, Any]) -> dict[str, str]:
    return {
        name: value
        if isinstance(value, str)
        else f"{value:,.1f}"
        if value < 100
        else f"{value:,.0f}"
        for name, value in row.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print figures, nothing else")
    asked = parser.parse_args()
    tables = {"reductions": reductions_compared(), "workers": workers_compared()}
    if asked.json:
        json.dump(tables, sys.stdout, indent=2)
        return
    out = Console(highlight=False, width=140)
    out.print("majority-relay, 3 processes, 2 broadcasts, 1 crash: the full space, one core\n")
    out.print(plain_table([shown(row) for row in tables["reductions"]]))
    out.print("\nthe same with 3 broadcasts, all reductions\n")
    out.print(plain_table([shown(row) for row in tables["workers"]]))


if __name__ == "__main__":
    main()
