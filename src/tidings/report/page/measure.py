"""What rows say of cost, latency and state: small runs, measured in plain Python."""

from collections.abc import Iterable, Sequence
from statistics import median

from tidings.report.page.model import CostRow, Growth, Point, Spread
from tidings.trace import Run

_MS = 1_000_000

QUARTER_LEAST = 2
"""Samples in each quarter of a line, without which nothing is said about its growth."""
RISE = 1.3
"""The last quarter of a line that grows has a median so many times that of its second quarter."""


def costs(runs: Sequence[Run]) -> tuple[list[CostRow], int]:
    """What one broadcast cost, by kinds of packets, and how many broadcasts there were."""
    packets: dict[str, int] = {}
    weights: dict[str, int] = {}
    broadcasts = 0
    for run in runs:
        for row in run.rows:
            if row.kind == "broadcast":
                broadcasts += 1
            elif row.kind == "send":
                kind = str(row.packet_kind)
                packets[kind] = packets.get(kind, 0) + 1
                weights[kind] = weights.get(kind, 0) + int(row.bytes or 0)
    if not broadcasts:
        return [], 0
    told = [
        CostRow(kind, packets[kind] / broadcasts, weights[kind] / broadcasts) for kind in packets
    ]
    return sorted(told, key=lambda row: -row.bytes), broadcasts


def latencies_ms(run: Run) -> dict[str, list[float]]:
    """At each process, how long after its broadcast each message was delivered."""
    begun = {row.message: row.time_ns for row in run.rows if row.kind == "broadcast"}
    waits: dict[str, list[float]] = {}
    for row in run.rows:
        if row.kind == "deliver" and row.message in begun:
            wait = (row.time_ns - begun[row.message]) / _MS
            waits.setdefault(row.process, []).append(wait)
    return waits


def spread(name: str, values: Iterable[float]) -> Spread:
    """The quantiles of some values, each one of them."""
    ranked = sorted(values)
    assert ranked, f"nothing was measured for {name}"

    def at(share: float) -> float:
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    return Spread(
        name=name,
        count=len(ranked),
        least=ranked[0],
        p25=at(0.25),
        p50=at(0.5),
        p75=at(0.75),
        p95=at(0.95),
        p99=at(0.99),
        most=ranked[-1],
    )


def kept_bytes(run: Run) -> dict[str, list[Point]]:
    """What each process kept, over the milliseconds of the run."""
    sampled = [row for row in run.rows if row.kind == "state" and row.name == "bytes"]
    start = min((row.time_ns for row in run.rows), default=0)
    lines: dict[str, list[Point]] = {}
    for row in sampled:
        at = (row.time_ns - start) / _MS
        lines.setdefault(row.process, []).append(Point(at, float(row.value or 0)))
    return lines


def growth_of(points: Sequence[Point]) -> Growth:
    """Whether a line goes on rising, from its second quarter over the third to the last.

    The first does not count: everything grows when a run begins.
    """
    size = len(points) // 4
    if size < QUARTER_LEAST:
        return Growth.UNCLEAR
    begin = len(points) - 3 * size
    quarters = [points[begin + number * size : begin + (number + 1) * size] for number in range(3)]
    early, middle, late = (median(point.y for point in quarter) for quarter in quarters)
    rises = early < middle < late and late > RISE * early
    return Growth.GROWING if rises else Growth.BOUNDED
