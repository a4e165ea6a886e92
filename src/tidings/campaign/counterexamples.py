"""For every algorithm and guarantee that it violated: a small run that shows it, with its story.

The shortest of the runs that violate it is had again and shrunk, for some seconds; if that is not
enough, it is shown as it was, and that is said. Beside them one good run is kept, so that whoever
tells of the campaign needs no algorithm any more.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from tidings.campaign.folder import Folder
from tidings.campaign.numbers import column_of
from tidings.campaign.plan import Campaign
from tidings.campaign.runs import simulated
from tidings.campaign.tables import read_table, write_table
from tidings.core import EnvironmentMissing, TidingsError
from tidings.pipeline.arrays.perform import Perform
from tidings.report import write_story
from tidings.report.page.from_trace import MOST_ROWS_OF_A_WHOLE_RUN
from tidings.report.words import many
from tidings.shrink import Charge, ShrinkProgress, shrink
from tidings.spec import JUDGED, Extra, Guarantee, Value, judge
from tidings.trace import Run, read_runs, write_runs

SHRINK_S = 20.0
"""For one run."""

COUNTEREXAMPLES = {
    "algorithm": "string",
    "flawed": "bool",
    "guarantee": "string",
    "run": "string",
    "folder": "string",
    "shrunk": "bool",
    "note": "string",
}


class Wanted(NamedTuple):
    """A run that violates something, to be shown."""

    algorithm: str
    flawed: bool
    guarantee: Guarantee | Extra
    run: str

    @property
    def name(self) -> str:
        """Of its folder: plain, and unlike any other."""
        protocol = self.algorithm.split()[0].rpartition("/")[2]
        plain = "".join(letter if letter.isalnum() else "-" for letter in protocol)
        return "-".join([plain, self.run.partition("-")[0], *self.guarantee.split()])


def find(folder: Folder, perform: Perform, progress: Callable[[str], None]) -> None:
    """Shrink and store them all, and a good run; what is there stays as it is."""
    if folder.table("counterexamples").exists():
        return
    _store_a_good_run(folder)
    if wanted := wanted_of(folder):
        progress(f"shrinking {many(len(wanted), 'counterexample')}")
    shrink_one = partial(_shown, path=folder.path, shown=folder.shown, campaign=folder.campaign)
    shrunk = perform(shrink_one, wanted)
    rows = [
        one._asdict()
        | {"guarantee": one.guarantee.value, "folder": f"counterexamples/{one.name}"}
        | {"shrunk": shrunk, "note": note}
        for one, (shrunk, note) in zip(wanted, shrunk, strict=True)
    ]
    write_table(folder.table("counterexamples"), rows, COUNTEREXAMPLES)


def wanted_of(folder: Folder) -> list[Wanted]:
    """For each algorithm and guarantee the shortest run that violates it."""
    shortest: dict[tuple[str, Guarantee | Extra], dict[str, Any]] = {}
    for row in read_table(folder.table("runs")):
        for guarantee in JUDGED:
            if row[column_of(guarantee)] == Value.VIOLATED.value:
                known = shortest.get((row["algorithm"], guarantee), row)
                shortest[row["algorithm"], guarantee] = min(known, row, key=itemgetter("rows"))
    return [
        Wanted(algorithm, row["flawed"], guarantee, row["run"])
        for (algorithm, guarantee), row in shortest.items()
    ]


def _shown(wanted: Wanted, path: Path, shown: Path, campaign: Campaign) -> tuple[bool, str]:
    """What a worker does for each of them; it takes the plan along."""
    source = _had_again(Folder(path, campaign), wanted.run, wanted.algorithm)
    if not Charge(wanted.guarantee).against(source):
        raise _another(wanted.run, wanted.algorithm)
    small, note = _shrunk(source, wanted.guarantee, SHRINK_S)
    run = source if small is None else small
    place = Path("counterexamples", wanted.name)
    write_runs(path / place, [run], "jsonl")
    (violation, *_) = Charge(wanted.guarantee).against(run)
    write_story(path / place, run, violation, trace=shown / place)
    return small is not None, note


def _shrunk(run: Run, guarantee: Guarantee | Extra, seconds: float) -> tuple[Run | None, str]:
    """A smaller run that violates the same, or None, and what there is to say about it."""
    end = time.monotonic() + seconds

    def look(pace: ShrinkProgress) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    try:
        return shrink(run, guarantee, progress=look), f"Shrunk from run {run.manifest.run}."
    except TimeoutError:
        return None, f"Not shrunk: {seconds:g} seconds were not enough."
    except (TidingsError, AssertionError) as fault:
        return None, f"Not shrunk: {fault}."


def stored(folder: Folder) -> Iterator[tuple[dict[str, Any], Run]]:
    """What was found, with the runs that show it."""
    for row in read_table(folder.table("counterexamples")):
        (run,) = read_runs(folder.path / row["folder"])
        yield row, run


# --- a good run


def good_run(folder: Folder) -> tuple[dict[str, Any], Run] | None:
    """A run to be shown that is as it should be, with its row; None if there was none."""
    if not folder.good.exists():
        return None
    (run,) = read_runs(folder.good)
    (row,) = read_table(folder.table("runs"), only={"run": [run.manifest.run]})
    return row, run


def _store_a_good_run(folder: Folder) -> None:
    """The longest that can be drawn whole, of a sound algorithm, preferably with a crash."""
    drawable = [
        row
        for row in read_table(folder.table("runs"))
        if not row["flawed"]
        and row["outcome"] == "ran"
        and row["rows"] <= MOST_ROWS_OF_A_WHOLE_RUN
        and Value.VIOLATED.value not in _values(row)
    ]
    crashing = [row for row in drawable if folder.cells[row["cell"]].plan.crashes]
    chosen = max(crashing or drawable, key=itemgetter("rows"), default=None)
    if chosen is None:
        return
    run = _had_again(folder, chosen["run"], chosen["algorithm"])
    if [verdict.value.value for verdict in judge(run)] != _values(chosen):
        raise _another(chosen["run"], chosen["algorithm"])
    write_runs(folder.good, [run], "jsonl")


def _values(row: dict[str, Any]) -> list[str]:
    values = (row[column_of(guarantee)] for guarantee in JUDGED)
    return [value for value in values if value is not None]


def _had_again(folder: Folder, run: str, algorithm: str) -> Run:
    try:
        return simulated(*folder.cell_of(run))
    except Exception as fault:
        raise _another(run, algorithm) from fault


def _another(run: str, algorithm: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"run {run} of {algorithm} is not what it was: the algorithm has changed since, or does "
        "not depend on the seed alone; begin again in another folder"
    )
