"""What a campaign found, and what of it is shown.

Costs are drawn for the first load and the first fault plan; latencies for the first load with more
than one broadcast; state for the first in which it is sampled. The size is the one nearest to five
that there is. Only runs that came to rest are measured.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.campaign import counterexamples
from tidings.campaign.baseline import COMPARISON, regressions
from tidings.campaign.cells import GridCell
from tidings.campaign.folder import Folder
from tidings.campaign.numbers import RUNS, STATISTICS, VERDICTS, not_ended
from tidings.campaign.tables import read_table
from tidings.core import Exit
from tidings.report.words import many

USUAL_SIZE = 5
AGAIN = "again"
"""A folder that is none yet: what was done is not done again in its own."""
Rows = Sequence[Mapping[str, Any]]


def status_of(folder: Folder) -> Exit:
    """By those that are not meant to fail: violated, unknown, or all is well."""
    sound = [row for row in read_table(folder.table("verdicts"), VERDICTS) if not row["flawed"]]
    if any(row["violated"] for row in sound):
        return Exit.VIOLATED
    return Exit.UNKNOWN if any(row["unknown"] for row in sound) else Exit.HOLDS


class CampaignResults:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        # A copy elsewhere would look for files of one's own where it lies.
        plan = folder.campaign.source or folder.shown / folder.plan_file.name
        repeated = ["--seeds", str(folder.campaign.seeds), "--out", AGAIN]
        self.again = shlex.join(["tidings", "campaign", str(plan), *repeated])
        self.verdicts = read_table(folder.table("verdicts"), VERDICTS)
        self.runs = read_table(folder.table("runs"), RUNS)
        self.statistics = read_table(folder.table("statistics"), STATISTICS)
        compared = folder.table("comparison")
        self.compared = read_table(compared, COMPARISON) if compared.exists() else []
        self.worse = len(regressions(self.compared))
        campaign = folder.campaign
        self.sound = list(dict.fromkeys(cell.algorithm for cell in folder.cells if not cell.flawed))
        self.broken = [name for name in self.sound if self.count("violated", name)]
        self.ended = not_ended(self.runs)
        self.rested = {row["run"] for row in self.runs if row["outcome"] == "ran"}
        self.calm = next(iter(campaign.faults))
        self.quiet = next(iter(campaign.workloads))
        loads = campaign.workloads
        self.busy = next((one for one in loads if loads[one].broadcasts > 1), self.quiet)
        self.sampled = next((one for one in loads if loads[one].sample_ms), self.busy)
        self.counterexamples = sorted(
            counterexamples.stored(folder), key=lambda one: bool(one[0]["flawed"])
        )

    def count(self, what: str, algorithm: str) -> int:
        return sum(row[what] for row in self.verdicts if row["algorithm"] == algorithm)

    def cells(self, workload: str, faults: str) -> list[GridCell]:
        """Of the sound ones, in groups of the usual size."""
        usual = self.usual_size(workload, faults)
        return [
            cell
            for cell in self.folder.cells
            if not cell.flawed
            and (cell.processes, cell.workload, cell.faults) == (usual, workload, faults)
        ]

    def usual_size(self, workload: str, faults: str) -> int:
        """Not every load, and not every fault plan, is for all sizes."""
        sizes = [
            cell.processes
            for cell in self.folder.cells
            if (cell.workload, cell.faults) == (workload, faults)
        ]
        return min(sizes, key=lambda size: abs(size - USUAL_SIZE), default=USUAL_SIZE)

    def group(self, workload: str, faults: str) -> str:
        size = self.usual_size(workload, faults)
        return f"{many(size, 'process')}, {workload}, faults: {faults}"

    def key(self, row: Mapping[str, Any]) -> str:
        """Names may differ in what no key can have: the place of the algorithm tells them apart."""
        names = list(dict.fromkeys(one["algorithm"] for one in self.verdicts))
        place = names.index(row["algorithm"]) + 1
        words = f"of {place} {row['algorithm']} {row['guarantee']}"
        return "".join(letter if letter.isalnum() else "-" for letter in words)
