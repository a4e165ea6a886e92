"""The page of a campaign, from its tables alone: verdicts, prices, and the runs that show them.

Costs are drawn for the first load and the first fault plan; latencies for the first load with more
than one broadcast; state for the first in which it is sampled. The size is the one nearest to five
that there is. Only runs that came to rest are measured.
"""

import shlex
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING
from itertools import islice
from operator import itemgetter
from statistics import fmean
from typing import Any

import msgspec

from tidings import __version__
from tidings.campaign import counterexamples
from tidings.campaign.baseline import COMPARISON, likeness, regressions, worst_first
from tidings.campaign.cells import GridCell
from tidings.campaign.folder import Folder
from tidings.campaign.growth import LEAST_LEAK_BYTES, growth
from tidings.campaign.numbers import (
    RUNS,
    STATISTICS,
    VERDICTS,
    again,
    column_of,
    grouped,
    not_ended,
    values_of,
    waits_ms,
)
from tidings.campaign.statistics import CONFIDENCE, COVERAGE, RESAMPLES, SEED, exact_interval
from tidings.campaign.tables import Rows, read_table
from tidings.compare import BOUNDS
from tidings.core import Exit, quorum
from tidings.report.causality import Causality
from tidings.report.charts.model import (
    Axis,
    Dot,
    Line,
    LineChart,
    ParetoChart,
    Point,
    SpreadChart,
    StateChart,
    StateLine,
    lines_of,
)
from tidings.report.explain import replay_command
from tidings.report.numbers import percent
from tidings.report.page import Page, picture_of
from tidings.report.page.measure import spread
from tidings.report.page.model import (
    MOST_PICTURES,
    Cell,
    Change,
    Comparison,
    Entry,
    Fact,
    Matrix,
    Picture,
)
from tidings.report.page.pictures import can_be_drawn
from tidings.report.words import listed, many
from tidings.shrink import Charge
from tidings.spec import JUDGED, Value
from tidings.spec.verdict import judged_as

USUAL_SIZE = 5
AGAIN = "again"
"""A folder that is none yet: what was done is not done again in its own."""
_MS = 1_000_000
_BOOTSTRAP = f"{100 * CONFIDENCE:g} % intervals by bootstrap, {RESAMPLES:,} resamples, seed {SEED}"
_COVERAGE = "Simulated, they contain the mean in " + "; ".join(
    f"{', '.join(f'{100 * share:.0f} ({kind})' for kind, share in of_kind.items())} of 100 "
    f"samples of {runs}"
    for runs, of_kind in COVERAGE.items()
)
_COVERAGE += ": normal values, skewed ones, and where one run in ten differs."


def page_of(folder: Folder, how: str = "") -> Page:
    """``how`` is the command that makes the page."""
    found = CampaignResults(folder)
    pictures = (*islice(_violations(found), MOST_PICTURES - 1), *_good_run(found))
    return Page(
        title=f"Campaign {folder.path.name}",
        answer=_answer(found),
        value=_value(found),
        about=f"{many(len(found.runs), 'simulated run')} in {many(len(folder.cells), 'cell')}: "
        "every algorithm in groups of every size, under every load and every fault plan that it is "
        f"made for, {many(folder.campaign.seeds, 'seed')} each. Every verdict comes from the "
        "recorded events alone.",
        facts=_facts(found),
        matrix=_matrix(found, {picture.key for picture in pictures}),
        comparison=_comparison(found),
        costs=(_cost_chart(found, "packets"), _cost_chart(found, "bytes")),
        latencies=tuple(_latencies(found)),
        states=tuple(_states(found)),
        pareto=(_pareto(found),),
        pictures=pictures,
        reproduce=(
            *([Fact("this page", how)] if how else []),
            Fact("the numbers again", found.again),
            Fact("one run", again(folder.shown, "RUN")),
        ),
        left_out=tuple(_left_out(found, sum(one.is_violation for one in pictures))),
    )


# --- what a campaign found, and what of it is shown


def status_of(folder: Folder) -> Exit:
    """By those that are not meant to fail: violated, unknown, or all is well."""
    sound = [row for row in read_table(folder.table("verdicts"), VERDICTS) if not row["flawed"]]
    if any(row["violated"] for row in sound):
        return Exit.VIOLATED
    return Exit.UNKNOWN if any(row["unknown"] for row in sound) else Exit.HOLDS


class CampaignResults:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        campaign = folder.campaign
        # A copy elsewhere would look for files of one's own where it lies.
        plan = str(campaign.source or folder.shown / folder.plan_file.name)
        self.again = shlex.join(
            ["tidings", "campaign", plan, "--seeds", str(campaign.seeds), "--out", AGAIN]
        )
        self.verdicts = read_table(folder.table("verdicts"), VERDICTS)
        self.runs = read_table(folder.table("runs"), RUNS)
        self.statistics = read_table(folder.table("statistics"), STATISTICS)
        compared = folder.table("comparison")
        self.compared = read_table(compared, COMPARISON) if compared.exists() else []
        self.worse = len(regressions(self.compared))
        self.sound = list(dict.fromkeys(cell.algorithm for cell in folder.cells if not cell.flawed))
        self.broken = [name for name in self.sound if self.count("violated", name)]
        self.ended = not_ended(self.runs)
        self.rested = {row["run"] for row in self.runs if row["outcome"] == "ran"}
        loads = campaign.workloads
        self.calm, self.quiet = next(iter(campaign.faults)), next(iter(loads))
        self.busy = next((one for one in loads if loads[one].broadcasts > 1), self.quiet)
        self.sampled = next((one for one in loads if loads[one].sample_ms), self.busy)
        self.counterexamples = sorted(
            counterexamples.stored(folder), key=lambda one: bool(one[0]["flawed"])
        )

    def count(self, what: str, algorithm: str) -> int:
        return sum(row[what] for row in self.verdicts if row["algorithm"] == algorithm)

    def cells(self, workload: str, faults: str) -> list[GridCell]:
        """Of the sound ones, in groups of the usual size."""
        wanted = (self.usual_size(workload, faults), workload, faults)
        return [
            cell
            for cell in self.folder.cells
            if not cell.flawed and (cell.processes, cell.workload, cell.faults) == wanted
        ]

    def usual_size(self, workload: str, faults: str) -> int:
        """Not every load, and not every fault plan, is for all sizes."""
        sizes = [
            cell.processes
            for cell in self.folder.cells
            if (cell.workload, cell.faults) == (workload, faults)
        ]
        return min(sizes, key=lambda size: abs(size - USUAL_SIZE), default=USUAL_SIZE)

    @property
    def shorter(self) -> str | None:
        """The longest of the loads with fewer broadcasts than the sampled one, in such groups."""
        loads = self.folder.campaign.workloads
        wanted = (self.usual_size(self.sampled, self.calm), self.calm)
        names = {
            cell.workload
            for cell in self.folder.cells
            if (cell.processes, cell.faults) == wanted
            and loads[cell.workload].broadcasts < loads[self.sampled].broadcasts
        }
        return max(sorted(names), key=lambda name: loads[name].broadcasts, default=None)

    def runs_under(self, workload: str | None) -> dict[str, list[Mapping[str, Any]]]:
        """Without faults, of groups as in the sampled load, by algorithm."""
        wanted = (self.usual_size(self.sampled, self.calm), workload, self.calm)
        return grouped(
            (
                row
                for row in self.runs
                if (row["processes"], row["workload"], row["faults"]) == wanted
            ),
            itemgetter("algorithm"),
        )

    def group(self, workload: str, faults: str) -> str:
        size = many(self.usual_size(workload, faults), "process")
        return f"{size}, {workload}, faults: {faults}"

    def key(self, row: Mapping[str, Any]) -> str:
        """Names may differ in what no key can have: the place of the algorithm tells them apart."""
        names = list(dict.fromkeys(one["algorithm"] for one in self.verdicts))
        name = row["algorithm"]
        words = f"of {names.index(name) + 1} {name} {row['guarantee']}"
        return "".join(letter if letter.isalnum() else "-" for letter in words)


# --- the answer in one sentence, and what else is said in words


def _value(found: CampaignResults) -> Value:
    if found.worse:
        return Value.VIOLATED
    of_status = {Exit.VIOLATED: Value.VIOLATED, Exit.UNKNOWN: Value.UNKNOWN}
    return of_status.get(status_of(found.folder), Value.HOLDS)


def _answer(found: CampaignResults) -> str:
    """One sentence about those that should hold, one about those that should not.

    Runs are a sample: what was not seen has a bound, the largest of all that the table has.
    """
    broken = found.broken
    unknown = [name for name in found.sound if found.count("unknown", name)]
    runs = many(sum(not row["flawed"] for row in found.runs), "run")
    if broken:
        text = f"Violated: a guarantee by {listed([_share(found, name) for name in broken])}"
    elif unknown:
        text = f"Nothing was seen violated in {runs}, but some of {listed(unknown)} is unknown"
    else:
        most = max(row["share_high"] for row in found.verdicts if not row["flawed"])
        text = (
            f"No violation was seen in {runs} of {many(len(found.sound), 'algorithm')}: of each "
            f"guarantee, in at most {percent(most, ROUND_CEILING)} of the runs of each"
        )
    flawed = list(dict.fromkeys(row["algorithm"] for row in found.verdicts if row["flawed"]))
    if flawed:
        caught = sum(bool(found.count("violated", name)) for name in flawed)
        text += f"; caught: {caught} of {many(len(flawed), 'flawed form')}"
    if found.worse:
        text += f"; worse than {found.compared[0]['baseline']} in {many(found.worse, 'comparison')}"
    return f"{text}."


def _share(found: CampaignResults, algorithm: str) -> str:
    """In how many of its runs anything was violated."""
    runs = [row for row in found.runs if row["algorithm"] == algorithm]
    wrong = sum(any(row[column_of(one)] == Value.VIOLATED.value for one in JUDGED) for row in runs)
    return f"{algorithm} in {wrong:,} of {many(len(runs), 'run')}"


def _facts(found: CampaignResults) -> tuple[Fact, ...]:
    campaign = found.folder.campaign
    outcomes = [row["outcome"] for row in found.runs]
    return (
        Fact("runs", f"{len(found.runs):,}"),
        Fact("events", f"{sum(row['rows'] for row in found.runs):,}"),
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


def _left_out(found: CampaignResults, drawn: int) -> Iterator[str]:
    """``drawn`` is how many counterexamples have pictures."""
    for (outcome, algorithm), rows in found.ended.items():
        first = rows[0]
        yield (
            f"{many(len(rows), 'run')} of {algorithm} {outcome}, the first of them "
            f"{first['run']}: {first['reason']} ({first['replay']})."
        )
    if undrawn := len(found.counterexamples) - drawn:
        yield f"{many(undrawn, 'counterexample')} not drawn: see counterexamples.csv."


# --- who kept which guarantee, and what changed since the baseline


def _matrix(found: CampaignResults, pictures: set[str]) -> Matrix:
    return Matrix(
        entries=tuple(
            Entry(
                name=name,
                flawed=of_name[0]["flawed"],
                note="; ".join(_notes(found, name, of_name)),
                cells={judged_as(row["guarantee"]): _cell(found, row, pictures) for row in of_name},
            )
            for name, of_name in grouped(found.verdicts, itemgetter("algorithm")).items()
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
    doubt = Value.UNKNOWN if row["unknown"] else Value.HOLDS
    key = found.key(row)
    return Cell(
        value=Value.VIOLATED if row["violated"] else doubt,
        runs=row["runs"],
        violated=row["violated"],
        unknown=row["unknown"],
        low=row["share_low"],
        high=row["share_high"],
        note=f"first in run {row['first_violated']}" if row["violated"] else "",
        picture=key if key in pictures else None,
    )


def _comparison(found: CampaignResults) -> Comparison | None:
    """With the baseline, if there was one."""
    rows = found.compared
    if not rows:
        return None
    baseline, out = rows[0]["baseline"], str(found.folder.shown)
    return Comparison(
        baseline=baseline,
        changes=tuple(
            Change(
                where=row["where"] + (" (flawed)" if row["flawed"] else ""),
                measure=row["measure"],
                before=row["before"],
                after=row["after"],
                pairs=row["pairs"],
                chance=row["p_adjusted"],
                is_worse=row["verdict"] == "worse",
            )
            for row in worst_first(rows)
        ),
        note=f"Of {many(len(rows), 'comparison')}, each run with that of the same seed, by the "
        f"ranks of their differences within each cell or by shares of runs. {_alike(rows)} The "
        "chance, if nothing has changed, is adjusted for the number of comparisons by Holm's "
        "method. All of them are in comparison.csv.",
        how=shlex.join(["tidings", "campaign", "--out", out, "--baseline", baseline]),
    )


def _alike(rows: Rows) -> str:
    correlation = likeness(rows)
    if correlation is None:
        return "No measure varies, so that luck plays no part."
    return f"The two runs of a pair correlate by {correlation:.2f} (median of the algorithms)."


# --- what it cost, how long it took, and what was kept


def _figures(found: CampaignResults, measure: str) -> list[tuple[str, int, Mapping[str, Any]]]:
    """Of the sound ones: the algorithm, the size, and its statistics."""
    asked = (measure, found.quiet, found.calm, False)
    return [
        (row["algorithm"], row["processes"], row)
        for row in found.statistics
        if (row["measure"], row["workload"], row["faults"], row["flawed"]) == asked
    ]


def _cost_chart(found: CampaignResults, measure: str) -> LineChart:
    sizes, seeds = found.folder.campaign.sizes, found.folder.campaign.seeds
    means = f"Means of {many(seeds, 'run')}; bars: {_BOOTSTRAP}." if seeds > 1 else "One run."
    if seeds > 1 and measure == "packets":  # said once, for the figures beside it too
        means += f" {_COVERAGE}"
    bounds = [
        Line(name, tuple(Point(size, bound(size, quorum(size) - 1)) for size in sizes))
        for name, bound in BOUNDS.items()
    ]
    return LineChart(
        title=f"{measure.capitalize()} per broadcast: {found.quiet}, faults: {found.calm}",
        x=Axis("processes", logarithmic=True),
        y=Axis(f"{measure} per broadcast", logarithmic=True),
        lines=lines_of(
            (name, Point(size, row["mean"], row["mean_low"], row["mean_high"]))
            for name, size, row in _figures(found, measure)
        ),
        bounds=tuple(bounds) if measure == "packets" else (),
        note=f"{means} {_disclaimer(found, 'not held to any bound')}".strip(),
        how=found.again,
    )


def _disclaimer(found: CampaignResults, consequence: str) -> str:
    """Who keeps no promise may be cheap."""
    if not found.broken:
        return ""
    verb = "is" if len(found.broken) == 1 else "are"
    return f"{listed(found.broken)} violated a guarantee, and {verb} {consequence}."


def _pareto(found: CampaignResults) -> ParetoChart:
    usual = found.usual_size(found.quiet, found.calm)
    price = {
        what: {name: row["mean"] for name, size, row in _figures(found, what) if size == usual}
        for what in ("delays", "bytes")
    }
    return ParetoChart(
        title=f"Bytes against delays: {found.group(found.quiet, found.calm)}",
        x=Axis("delays until all have delivered, in mean delays of a packet"),
        y=Axis("bytes per broadcast", logarithmic=True),
        dots=tuple(
            Dot(name, delays, price["bytes"][name], is_out=name in found.broken)
            for name, delays in price["delays"].items()
            if name in price["bytes"]
        ),
        note=_disclaimer(found, "not among them"),
        how=found.again,
    )


def _latencies(found: CampaignResults) -> Iterator[SpreadChart]:
    """One chart for each fault plan: from the broadcast to the last delivery it needs."""
    waits: dict[int, list[float]] = {}
    if found.folder.measures.exists():
        for run, of_run in waits_ms(found.folder).items():
            if run in found.rested:
                waits.setdefault(int(run.partition("-")[0]), []).extend(of_run)
    for faults in found.folder.campaign.faults:
        spreads = [
            spread(cell.algorithm, waits[cell.number])
            for cell in found.cells(found.busy, faults)
            if waits.get(cell.number)
        ]
        if spreads:
            yield SpreadChart(
                title=f"Time to the last delivery: {found.group(found.busy, faults)}",
                x=Axis("from the broadcast until all correct ones have delivered", "ms"),
                spreads=tuple(spreads),
                note="Simulated time; all messages of all runs.",
                how=found.again,
            )


def _states(found: CampaignResults) -> Iterator[StateChart]:
    """What a process keeps, on average over processes and runs."""
    algorithm = {
        cell.run_name(seed): cell.algorithm
        for cell in found.cells(found.sampled, found.calm)
        for seed in range(found.folder.campaign.seeds)
        if cell.run_name(seed) in found.rested
    }
    at: dict[str, dict[int, list[float]]] = {}
    if found.folder.measures.exists():
        for row in read_table(
            found.folder.measures / "states",
            ["run", "time_ns", "value"],
            only={"run": list(algorithm), "name": ["bytes"]},
        ):
            samples = at.setdefault(algorithm[row["run"]], {})
            samples.setdefault(row["time_ns"], []).append(float(row["value"]))
    loads = found.folder.campaign.workloads
    load, shorter_load = loads[found.sampled], found.shorter
    at_rest, rested = found.runs_under(found.sampled), found.runs_under(shorter_load)
    last_ns = load.broadcasts * load.gap_ms_mean * _MS
    lines = []
    for name in dict.fromkeys(algorithm.values()):
        # The sample at the end is at another moment in every run.
        moments = [time for time in sorted(at.get(name, {})) if time <= last_ns]
        points = [Point(time / _MS, fmean(at[name][time])) for time in moments]
        if len(points) > 1:
            longer, shorter = (
                values_of(of_load.get(name, ()), "state_bytes") for of_load in (at_rest, rested)
            )
            lines.append(StateLine(name, tuple(points), growth(points, longer, shorter)))
    if lines:
        yield StateChart(
            title=f"What a process keeps: {found.group(found.sampled, found.calm)}",
            x=Axis("time since the start of the run", "ms"),
            y=Axis("kept by a process", "bytes"),
            lines=tuple(lines),
            note="Means over processes and runs, while the load lasts. "
            + _what_bounded_means(found, load.broadcasts),
            how=found.again,
        )


def _what_bounded_means(found: CampaignResults, broadcasts: int) -> str:
    if found.shorter is None:
        return "No shorter load was run in such groups, so that growth cannot be excluded."
    fewer = found.folder.campaign.workloads[found.shorter].broadcasts
    seeds = found.folder.campaign.seeds
    missed = percent(float(exact_interval(0, seeds).high or 1.0), ROUND_CEILING)
    return (
        f"Bounded: at rest it kept less than {LEAST_LEAK_BYTES:g} byte more after "
        f"{many(broadcasts, 'broadcast')} than after {fewer}, at {100 * CONFIDENCE:g} %; a leak "
        f"in up to {missed} of the runs may still be missed. What neither grows nor can be "
        "excluded to grow is unclear."
    )


# --- the runs that are drawn: every violation, and one that is as it should be


def _violations(found: CampaignResults) -> Iterator[Picture]:
    """Those of sound algorithms first, in case there are too many."""
    for row, run in found.counterexamples:
        causality = Causality(run)
        violations = Charge(judged_as(row["guarantee"])).against(run)
        if violations and can_be_drawn(causality):
            picture = picture_of(
                causality,
                violations[0],
                key=found.key(row),
                entry=row["algorithm"],
                replay=replay_command(violations[0], found.folder.shown / row["folder"]),
            )
            note = f"{row['note']} {picture.left_out}".strip()
            yield msgspec.structs.replace(picture, left_out=note)


def _good_run(found: CampaignResults) -> Iterator[Picture]:
    good = counterexamples.good_run(found.folder)
    if good is not None:
        row, run = good
        yield picture_of(
            Causality(run),
            key="good",
            entry=row["algorithm"],
            title=f"A good run: {row['workload']}, faults: {row['faults']}",
            replay=row["replay"],
        )
