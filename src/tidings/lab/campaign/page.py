"""The page of a campaign, from its tables: verdicts, prices, and the runs that show them.

Costs are drawn for the first load and the first fault plan; latencies for the first load with more
than one broadcast; state for the first in which it is sampled. The size is the one nearest to five
that there is. Only runs that came to rest are measured.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any

import msgspec

from tidings import __version__
from tidings.core import Exit, quorum
from tidings.lab.campaign import counterexamples
from tidings.lab.campaign.baseline import COMPARISON, regressions, told_first
from tidings.lab.campaign.cells import Cell
from tidings.lab.campaign.folder import Folder
from tidings.lab.campaign.numbers import RUNS, STATISTICS, VERDICTS, again, column_of
from tidings.lab.campaign.statistics import CONFIDENCE, RESAMPLES, SEED
from tidings.lab.campaign.tables import read_table
from tidings.lab.compare import BOUNDS
from tidings.lab.shrink import Charge
from tidings.report.causality import Causality
from tidings.report.explain import replay_command
from tidings.report.page import Page, measure, picture_of
from tidings.report.page.model import (
    MOST_PICTURES,
    Axis,
    Change,
    Comparison,
    Dot,
    Entry,
    Fact,
    Line,
    LineChart,
    Matrix,
    ParetoChart,
    Picture,
    Point,
    SpreadChart,
    StateChart,
    StateLine,
)
from tidings.report.page.model import Cell as MatrixCell
from tidings.report.page.pictures import can_be_drawn
from tidings.report.words import listed, many
from tidings.spec import Guarantee, Value

_MS = 1_000_000
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


def page_of(folder: Folder, how: str = "") -> Page:
    """``how`` is the command that makes the page."""
    return _Told(folder, how).page()


class _Told:
    def __init__(self, folder: Folder, how: str) -> None:
        self.folder = folder
        self.how = how
        # A copy elsewhere would look for files of one's own where it lies.
        plan = folder.campaign.source or folder.shown / folder.plan_file.name
        anew = ["--seeds", str(folder.campaign.seeds), "--out", AGAIN]
        self.again = shlex.join(["tidings", "campaign", str(plan), *anew])
        self.verdicts = read_table(folder.table("verdicts"), VERDICTS)
        self.runs = read_table(folder.table("runs"), RUNS)
        self.statistics = read_table(folder.table("statistics"), STATISTICS)
        compared = folder.table("comparison")
        self.compared = read_table(compared, COMPARISON) if compared.exists() else []
        self.worse = len(regressions(self.compared))
        campaign = folder.campaign
        self.sound = list(dict.fromkeys(cell.algorithm for cell in folder.cells if not cell.flawed))
        self.broken = [name for name in self.sound if self._count("violated", name)]
        self.ended: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        """Runs that did not end by themselves, by outcome and algorithm."""
        for row in self.runs:
            if row["outcome"] != "ran":
                self.ended.setdefault((row["outcome"], row["algorithm"]), []).append(row)
        self.rested = {row["run"] for row in self.runs if row["outcome"] == "ran"}
        self.calm = next(iter(campaign.faults))
        self.quiet = next(iter(campaign.workloads))
        loads = campaign.workloads
        self.busy = next((one for one in loads if loads[one].broadcasts > 1), self.quiet)
        self.sampled = next((one for one in loads if loads[one].sample_ms), self.busy)

        self.counterexamples = sorted(
            counterexamples.stored(folder), key=lambda one: bool(one[0]["flawed"])
        )
        self.pictures = (*islice(self._violations(), MOST_PICTURES - 1), *self._good_run())

    def page(self) -> Page:
        cells = len(self.folder.cells)
        return Page(
            title=f"Campaign {self.folder.path.name}",
            answer=self.answer(),
            value=self.value(),
            about=f"{many(len(self.runs), 'simulated run')} in {many(cells, 'cell')}: every "
            "algorithm in groups of every size, under every load and every fault plan that it is "
            f"made for, {many(self.folder.campaign.seeds, 'seed')} each. Every verdict comes from "
            "the recorded events alone.",
            facts=self.facts(),
            matrix=self.matrix({picture.key for picture in self.pictures}),
            comparison=self.comparison(),
            costs=(self.cost_chart("packets"), self.cost_chart("bytes")),
            latencies=tuple(self.latencies()),
            states=tuple(self.states()),
            pareto=(self.pareto(),),
            pictures=self.pictures,
            reproduce=self.reproduce(),
            left_out=tuple(self.left_out()),
        )

    # --- words

    def value(self) -> Value:
        if self.worse:
            return Value.VIOLATED
        of_status = {Exit.VIOLATED: Value.VIOLATED, Exit.UNKNOWN: Value.UNKNOWN}
        return of_status.get(status_of(self.folder), Value.HOLDS)

    def answer(self) -> str:
        """One sentence about those that should hold, one about those that should not."""
        broken = self.broken
        unknown = [name for name in self.sound if self._count("unknown", name)]
        runs = many(sum(not row["flawed"] for row in self.runs), "run")
        if broken:
            told = f"Violated: a guarantee by {listed([self._share(name) for name in broken])}"
        elif unknown:
            told = f"Nothing was seen violated in {runs}, but some of {listed(unknown)} is unknown"
        else:
            told = f"All five guarantees held in {runs} of {many(len(self.sound), 'algorithm')}"
        flawed = list(dict.fromkeys(row["algorithm"] for row in self.verdicts if row["flawed"]))
        if flawed:
            caught = sum(bool(self._count("violated", name)) for name in flawed)
            told += f"; caught: {caught} of {many(len(flawed), 'flawed form')}"
        if self.worse:
            told += (
                f"; worse than {self.compared[0]['baseline']} in {many(self.worse, 'comparison')}"
            )
        return f"{told}."

    def _share(self, algorithm: str) -> str:
        """In how many of its runs anything was violated."""
        runs = [row for row in self.runs if row["algorithm"] == algorithm]
        wrong = sum(
            any(row[column_of(one)] == Value.VIOLATED.value for one in Guarantee) for row in runs
        )
        return f"{algorithm} in {wrong:,} of {many(len(runs), 'run')}"

    def _count(self, what: str, algorithm: str) -> int:
        return sum(row[what] for row in self.verdicts if row["algorithm"] == algorithm)

    def facts(self) -> tuple[Fact, ...]:
        campaign = self.folder.campaign
        outcomes = [row["outcome"] for row in self.runs]
        rows = sum(row["rows"] for row in self.runs)
        return (
            Fact("runs", f"{len(self.runs):,}"),
            Fact("events", f"{rows:,}"),
            Fact("sizes", listed([str(size) for size in campaign.sizes])),
            Fact("loads", listed(list(campaign.workloads))),
            Fact("faults", listed(list(campaign.faults))),
            Fact("seeds", f"0 to {campaign.seeds - 1}" if campaign.seeds > 1 else "0"),
            Fact("tidings", __version__),
            *(
                Fact(f"{word} runs", f"{outcomes.count(word):,}")
                for word in ("cut", "failed")
                if word in outcomes
            ),
        )

    def reproduce(self) -> tuple[Fact, ...]:
        return (
            *([Fact("this page", self.how)] if self.how else []),
            Fact("the numbers, anew", self.again),
            Fact("one run", again(self.folder.shown, "RUN")),
        )

    def left_out(self) -> Iterator[str]:
        for (outcome, algorithm), rows in self.ended.items():
            first = rows[0]
            yield (
                f"{many(len(rows), 'run')} of {algorithm} {outcome}, the first of them "
                f"{first['run']}: {first['reason']} ({first['replay']})."
            )
        undrawn = len(self.counterexamples) - sum(one.is_violation for one in self.pictures)
        if undrawn:
            yield f"{many(undrawn, 'counterexample')} not drawn: see counterexamples.csv."

    # --- verdicts

    def matrix(self, pictures: set[str]) -> Matrix:
        by_name: dict[str, list[dict[str, Any]]] = {}
        for row in self.verdicts:
            by_name.setdefault(row["algorithm"], []).append(row)
        return Matrix(
            entries=tuple(
                Entry(
                    name=name,
                    flawed=of_name[0]["flawed"],
                    note="; ".join(self._notes(name, of_name)),
                    cells={
                        Guarantee(row["guarantee"]): self._cell(row, pictures) for row in of_name
                    },
                )
                for name, of_name in by_name.items()
            ),
            confidence=CONFIDENCE,
            note="Over all sizes, loads and faults of this plan: the shares are those of this "
            "mixture, and say nothing about others. The intervals are Clopper and Pearson's, of "
            "the runs that could be judged; shares.csv has them for each cell.",
            how=self.again,
        )

    def _notes(self, name: str, verdicts: Rows) -> Iterator[str]:
        yield many(verdicts[0]["runs"], "run")
        for outcome in ("failed", "cut"):
            if rows := self.ended.get((outcome, name)):
                yield f"{len(rows):,} {outcome}"
        if verdicts[0]["flawed"] and not any(row["violated"] for row in verdicts):
            yield "not caught"

    def _cell(self, row: Mapping[str, Any], pictures: set[str]) -> MatrixCell:
        value = Value.HOLDS
        if row["violated"]:
            value = Value.VIOLATED
        elif row["unknown"]:
            value = Value.UNKNOWN
        key = self._key(row)
        return MatrixCell(
            value=value,
            runs=row["runs"],
            violated=row["violated"],
            unknown=row["unknown"],
            low=row["share_low"],
            high=row["share_high"],
            note=f"first in run {row['first_violated']}" if row["violated"] else "",
            picture=key if key in pictures else None,
        )

    def comparison(self) -> Comparison | None:
        """With the baseline, if there was one."""
        rows = self.compared
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
                for row in told_first(rows)
            ),
            note=f"Of {many(len(rows), 'comparison')}, by the ranks of the runs within each cell "
            "or by shares of runs; the chance is adjusted for their number by Holm's method. All "
            "of them are in comparison.csv.",
            how=f"{shlex.join(['tidings', 'campaign', '--out', str(self.folder.shown)])} "
            f"--baseline {shlex.quote(baseline)}",
        )

    # --- prices

    def _figures(
        self, measure: str, workload: str, faults: str
    ) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        """Of the sound ones: the algorithm, the size, and its statistics."""
        for row in self.statistics:
            asked = (row["measure"], row["workload"], row["faults"]) == (measure, workload, faults)
            if asked and not row["flawed"]:
                yield row["algorithm"], row["processes"], row

    def cost_chart(self, measure: str) -> LineChart:
        lines: dict[str, list[Point]] = {}
        for name, size, row in self._figures(measure, self.quiet, self.calm):
            point = Point(size, row["mean"], row["mean_low"], row["mean_high"])
            lines.setdefault(name, []).append(point)
        sizes, seeds = self.folder.campaign.sizes, self.folder.campaign.seeds
        means = f"Means of {many(seeds, 'run')}; bars: {_BOOTSTRAP}." if seeds > 1 else "One run."
        bounds = [
            Line(name, tuple(Point(size, bound(size, quorum(size) - 1)) for size in sizes))
            for name, bound in BOUNDS.items()
        ]
        return LineChart(
            title=f"{measure.capitalize()} per broadcast: {self.quiet}, faults: {self.calm}",
            x=Axis("processes", logarithmic=True),
            y=Axis(f"{measure} per broadcast", logarithmic=True),
            lines=tuple(Line(name, tuple(points)) for name, points in lines.items()),
            bounds=tuple(bounds) if measure == "packets" else (),
            note=f"{means} {self._disclaimer('not held to any bound')}".strip(),
            how=self.again,
        )

    def _disclaimer(self, consequence: str) -> str:
        """Who keeps no promise may be cheap."""
        if not self.broken:
            return ""
        verb = "is" if len(self.broken) == 1 else "are"
        return f"{listed(self.broken)} violated a guarantee, and {verb} {consequence}."

    def pareto(self) -> ParetoChart:
        usual = self._usual_size(self.quiet, self.calm)
        price = {
            what: {
                name: row["mean"]
                for name, size, row in self._figures(what, self.quiet, self.calm)
                if size == usual
            }
            for what in ("delays", "bytes")
        }
        return ParetoChart(
            title=f"Bytes against delays: {self._group(self.quiet, self.calm)}",
            x=Axis("delays until all have delivered, in mean delays of a packet"),
            y=Axis("bytes per broadcast", logarithmic=True),
            dots=tuple(
                Dot(name, delays, price["bytes"][name], is_out=name in self.broken)
                for name, delays in price["delays"].items()
                if name in price["bytes"]
            ),
            note=self._disclaimer("not among them"),
            how=self.again,
        )

    def _cells(self, workload: str, faults: str) -> list[Cell]:
        """Of the sound ones, in groups of the usual size."""
        usual = self._usual_size(workload, faults)
        return [
            cell
            for cell in self.folder.cells
            if not cell.flawed
            and (cell.processes, cell.workload, cell.faults) == (usual, workload, faults)
        ]

    def _usual_size(self, workload: str, faults: str) -> int:
        """Not every load, and not every fault plan, is for all sizes."""
        sizes = [
            cell.processes
            for cell in self.folder.cells
            if (cell.workload, cell.faults) == (workload, faults)
        ]
        return min(sizes, key=lambda size: abs(size - USUAL_SIZE), default=USUAL_SIZE)

    def _group(self, workload: str, faults: str) -> str:
        size = self._usual_size(workload, faults)
        return f"{many(size, 'process')}, {workload}, faults: {faults}"

    def latencies(self) -> Iterator[SpreadChart]:
        """One chart for each fault plan: from the broadcast to the last delivery it needs."""
        waits: dict[int, list[float]] = {}
        if self.folder.measures.exists():
            for row in read_table(self.folder.measures / "latencies", ["run", "last_ns"]):
                if row["last_ns"] is not None and row["run"] in self.rested:
                    waits.setdefault(_cell_of(row), []).append(row["last_ns"] / _MS)
        for faults in self.folder.campaign.faults:
            spreads = [
                measure.spread(cell.algorithm, waits[cell.number])
                for cell in self._cells(self.busy, faults)
                if waits.get(cell.number)
            ]
            if spreads:
                yield SpreadChart(
                    title=f"Time to the last delivery: {self._group(self.busy, faults)}",
                    x=Axis("from the broadcast until all correct ones have delivered", "ms"),
                    spreads=tuple(spreads),
                    note="Simulated time; all messages of all runs.",
                    how=self.again,
                )

    def states(self) -> Iterator[StateChart]:
        """What a process keeps, on average over processes and runs."""
        cells = self._cells(self.sampled, self.calm)
        algorithm = {
            cell.run_name(seed): cell.algorithm
            for cell in cells
            for seed in range(self.folder.campaign.seeds)
            if cell.run_name(seed) in self.rested
        }
        at: dict[str, dict[int, list[float]]] = {}
        if self.folder.measures.exists():
            for row in read_table(
                self.folder.measures / "states",
                ["run", "time_ns", "value"],
                only={"run": list(algorithm), "name": ["bytes"]},
            ):
                samples = at.setdefault(algorithm[row["run"]], {})
                samples.setdefault(row["time_ns"], []).append(float(row["value"]))
        load = self.folder.campaign.workloads[self.sampled]
        last_ns = load.broadcasts * load.gap_ms_mean * _MS
        lines = []
        for name in dict.fromkeys(algorithm.values()):
            # The sample at the end is at another moment in every run.
            moments = [time for time in sorted(at.get(name, {})) if time <= last_ns]
            points = [Point(time / _MS, fmean(at[name][time])) for time in moments]
            if len(points) > 1:
                lines.append(StateLine(name, tuple(points), measure.growth_of(points)))
        if lines:
            yield StateChart(
                title=f"What a process keeps: {self._group(self.sampled, self.calm)}",
                x=Axis("time since the start of the run", "ms"),
                y=Axis("kept by a process", "bytes"),
                lines=tuple(lines),
                note="Means over processes and runs, while the load lasts.",
                how=self.again,
            )

    # --- pictures

    def _violations(self) -> Iterator[Picture]:
        """Those of sound algorithms first, in case there are too many."""
        for row, run in self.counterexamples:
            causality = Causality(run)
            violations = Charge(Guarantee(row["guarantee"])).against(run)
            if violations and can_be_drawn(causality):
                folder = self.folder.shown / row["folder"]
                picture = picture_of(
                    causality,
                    violations[0],
                    key=self._key(row),
                    entry=row["algorithm"],
                    replay=replay_command(violations[0], folder),
                )
                yield _with_note(picture, row["note"])

    def _good_run(self) -> Iterator[Picture]:
        found = counterexamples.good_run(self.folder)
        if found is not None:
            row, run = found
            yield picture_of(
                Causality(run),
                key="good",
                entry=row["algorithm"],
                title=f"A good run: {row['workload']}, faults: {row['faults']}",
                replay=row["replay"],
            )

    def _key(self, row: Mapping[str, Any]) -> str:
        """Names may differ in what no key can have: the place of the algorithm tells them apart."""
        names = list(dict.fromkeys(one["algorithm"] for one in self.verdicts))
        place = names.index(row["algorithm"]) + 1
        words = f"of {place} {row['algorithm']} {row['guarantee']}"
        return "".join(letter if letter.isalnum() else "-" for letter in words)


_BOOTSTRAP = f"{100 * CONFIDENCE:g} % intervals by bootstrap, {RESAMPLES:,} resamples, seed {SEED}"


def _cell_of(row: Mapping[str, Any]) -> int:
    return int(row["run"].partition("-")[0])


def _with_note(picture: Picture, note: str) -> Picture:
    return msgspec.structs.replace(picture, left_out=" ".join([note, picture.left_out]).strip())
