"""What it cost, how long it took, and what was kept."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from tidings.campaign.page.found import CampaignResults
from tidings.campaign.statistics import CONFIDENCE, RESAMPLES, SEED
from tidings.campaign.tables import read_table
from tidings.compare import BOUNDS
from tidings.core import quorum
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
from tidings.report.page.measure import growth_of, spread
from tidings.report.words import listed, many

_MS = 1_000_000
_BOOTSTRAP = f"{100 * CONFIDENCE:g} % intervals by bootstrap, {RESAMPLES:,} resamples, seed {SEED}"


def _figures(
    found: CampaignResults, measure: str, workload: str, faults: str
) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Of the sound ones: the algorithm, the size, and its statistics."""
    for row in found.statistics:
        asked = (row["measure"], row["workload"], row["faults"]) == (measure, workload, faults)
        if asked and not row["flawed"]:
            yield row["algorithm"], row["processes"], row


def cost_chart(found: CampaignResults, measure: str) -> LineChart:
    sizes, seeds = found.folder.campaign.sizes, found.folder.campaign.seeds
    means = f"Means of {many(seeds, 'run')}; bars: {_BOOTSTRAP}." if seeds > 1 else "One run."
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
            for name, size, row in _figures(found, measure, found.quiet, found.calm)
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


def pareto(found: CampaignResults) -> ParetoChart:
    usual = found.usual_size(found.quiet, found.calm)
    price = {
        what: {
            name: row["mean"]
            for name, size, row in _figures(found, what, found.quiet, found.calm)
            if size == usual
        }
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


def latencies(found: CampaignResults) -> Iterator[SpreadChart]:
    """One chart for each fault plan: from the broadcast to the last delivery it needs."""
    waits: dict[int, list[float]] = {}
    if found.folder.measures.exists():
        for row in read_table(found.folder.measures / "latencies", ["run", "last_ns"]):
            if row["last_ns"] is not None and row["run"] in found.rested:
                waits.setdefault(_cell_of(row), []).append(row["last_ns"] / _MS)
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


def states(found: CampaignResults) -> Iterator[StateChart]:
    """What a process keeps, on average over processes and runs."""
    cells = found.cells(found.sampled, found.calm)
    algorithm = {
        cell.run_name(seed): cell.algorithm
        for cell in cells
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
    load = found.folder.campaign.workloads[found.sampled]
    last_ns = load.broadcasts * load.gap_ms_mean * _MS
    lines = []
    for name in dict.fromkeys(algorithm.values()):
        # The sample at the end is at another moment in every run.
        moments = [time for time in sorted(at.get(name, {})) if time <= last_ns]
        points = [Point(time / _MS, fmean(at[name][time])) for time in moments]
        if len(points) > 1:
            lines.append(StateLine(name, tuple(points), growth_of(points)))
    if lines:
        yield StateChart(
            title=f"What a process keeps: {found.group(found.sampled, found.calm)}",
            x=Axis("time since the start of the run", "ms"),
            y=Axis("kept by a process", "bytes"),
            lines=tuple(lines),
            note="Means over processes and runs, while the load lasts.",
            how=found.again,
        )


def _cell_of(row: Mapping[str, Any]) -> int:
    return int(row["run"].partition("-")[0])
