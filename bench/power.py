"""How often a comparison with a baseline sees a change, and how often it sees one that is none.

A plan is run twice, as two versions of the code would run it whose packets differ: load and faults
are drawn as the seed says, and in the second campaign a share of the packets, drawn at random, has
other luck. Nothing has changed, and neither campaign is special: any pair of runs may be swapped.

- False alarms: pairs are swapped by chance, the same for all algorithms under the same conditions,
  which share their luck; how many of REPETITIONS comparisons report anything at all?
- Power: then one measure of one algorithm under one fault plan gets worse by so much; is it seen?
- What pairs are worth: the same, with each run beside that of another seed instead of its own.

Simulating the default plan takes twelve minutes of CPU, twice; with ``--keep`` a second call starts
from there.

    python bench/power.py --keep /tmp/power
    python bench/power.py --plan plan.toml --seeds 4 --other 1.0 --repetitions 50
"""

import argparse
import multiprocessing
import random
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from scipy import stats

from tidings import pipeline
from tidings.campaign import numbers, runs
from tidings.campaign.baseline import ALPHA, PairedCell, compared, likeness, paired
from tidings.campaign.cells import mixed
from tidings.campaign.conduct import judge, measure
from tidings.campaign.folder import Folder, begun
from tidings.campaign.plan import Campaign, default_plan, read_plan
from tidings.simulator.luck import Key, Luck

REPETITIONS = 200
CHANGES = 20
"""How many places to make something worse."""
FACTORS = (1.02, 1.05, 1.1, 1.2)
MEASURE = "latency_ms"


# --- two campaigns between which nothing has changed


class PartlyOther(Luck):
    """The luck of a seed, but for a share of its packets."""

    other = 0.5

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._else = Luck(-1 - seed)

    def share(self, *key: Key) -> float:
        if key[0] not in OF_A_PACKET or self._else.share("which", *key[1:4]) >= self.other:
            return super().share(*key)
        return self._else.share(*key)


OF_A_PACKET = ("delay", "tail", "retries", "lost", "duplicated")


def simulated(place: Path, campaign: Campaign, luck: type[Luck], jobs: int) -> Folder:
    """A campaign with all its tables, as far as it is not there yet."""
    folder = begun(place, campaign)
    missing = [task.number for task in mixed(folder.tasks) if not runs.is_done(task, place)]
    walking = sys.modules["tidings.simulator.walk"]
    with (
        patch.object(walking, "Luck", luck),
        multiprocessing.get_context("fork").Pool(jobs) as pool,
    ):
        for done, _ in enumerate(pool.imap_unordered(partial(_perform, folder), missing), start=1):
            print(f"... {place.name}: {done} of {len(missing)} tasks", file=sys.stderr)
    if not folder.table("runs").exists():
        progress = pipeline.Progress(lambda words: print(f"... {words}", file=sys.stderr), 30.0)
        with pipeline.session(master=f"local[{jobs}]") as spark:
            verdicts = judge(spark, folder, progress)
            measure(spark, folder, progress)
        numbers.write(folder, verdicts)
    return folder


def _perform(folder: Folder, number: int) -> None:
    runs.perform(folder.tasks[number], folder.path, folder.campaign.budget)


# --- comparisons


def swapped(cells: Sequence[PairedCell], dice: random.Random) -> list[PairedCell]:
    """Each pair of runs either way, as a coin falls that all with the same luck share."""
    coins: dict[tuple[Any, ...], bool] = {}
    new = []
    for cell, pairs in cells:
        tossed = [
            coins.setdefault(
                (cell.processes, cell.workload, cell.faults, after["seed"]), dice.random() < 0.5
            )
            for after, _ in pairs
        ]
        turned = [pair[::-1] if coin else pair for pair, coin in zip(pairs, tossed, strict=True)]
        new.append(PairedCell(cell, turned))
    return new


def beside_another(cells: Sequence[PairedCell]) -> list[PairedCell]:
    """Each run beside that of the next seed."""
    return [
        PairedCell(
            cell,
            [
                (after, before)
                for (after, _), (_, before) in zip(pairs, [*pairs[1:], *pairs[:1]], strict=True)
            ],
        )
        for cell, pairs in cells
    ]


def worsened(
    cells: Sequence[PairedCell], algorithm: str, faults: str, factor: float
) -> Iterator[PairedCell]:
    for cell, pairs in cells:
        if (cell.algorithm, cell.faults) == (algorithm, faults):
            yield PairedCell(cell, [(_dearer(after, factor), before) for after, before in pairs])
        else:
            yield PairedCell(cell, pairs)


def _dearer(row: Any, factor: float) -> dict[str, Any]:
    value = row[MEASURE]
    return {**row, MEASURE: None if value is None else value * factor}


def is_alarm(cells: Sequence[PairedCell], seed: int) -> bool:
    return any(row["verdict"] != "same" for row in compared(swapped(cells, random.Random(seed))))


def is_seen(cells: Sequence[PairedCell], factor: float, seed: int) -> bool:
    dice = random.Random(seed)
    places = sorted({(cell.algorithm, cell.faults) for cell, _ in cells if not cell.flawed})
    algorithm, faults = dice.choice(places)
    worse = list(worsened(swapped(cells, dice), algorithm, faults, factor))
    return any(
        (row["verdict"], row["algorithm"], row["measure"]) == ("worse", algorithm, MEASURE)
        for row in compared(worse)
    )


def report(cells: Sequence[PairedCell], repetitions: int, jobs: int) -> None:
    rows = compared(cells)
    print(f"{len(rows):,} comparisons, {sum(len(one.runs) for one in cells):,} pairs of runs")
    print(f"correlation of the measures of an algorithm: median {likeness(rows)}")
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        alarms = sum(pool.map(partial(is_alarm, cells), range(repetitions)))
        most = int(stats.binom.ppf(0.999, repetitions, ALPHA))
        print(f"false alarms: {alarms} of {repetitions} comparisons (at {ALPHA:.0%}: <= {most})")
        for factor in FACTORS:
            seen = sum(pool.map(partial(is_seen, cells, factor), range(CHANGES)))
            others = beside_another(cells)
            unpaired = sum(pool.map(partial(is_seen, others, factor), range(CHANGES)))
            print(
                f"{MEASURE} x {factor}, one algorithm, one fault plan: seen {seen} of {CHANGES}, "
                f"beside another seed {unpaired}"
            )
    assert alarms <= most, "more false alarms than the tests promise"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=default_plan())
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--other", type=float, default=PartlyOther.other)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=None)
    asked = parser.parse_args()
    campaign = read_plan(asked.plan, asked.seeds)
    PartlyOther.other = asked.other
    with TemporaryDirectory() as place:
        where = asked.keep or Path(place)
        before = simulated(where / "before", campaign, Luck, asked.jobs)
        after = simulated(where / f"other-{asked.other:g}", campaign, PartlyOther, asked.jobs)
        report(paired(after, before), asked.repetitions, asked.jobs)


if __name__ == "__main__":
    main()
