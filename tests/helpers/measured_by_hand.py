"""Costs, latencies, hold-back and state of runs in plain Python: the twin of Spark's tables."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tidings.core import majority
from tidings.pipeline.queries import measures
from tidings.pipeline.queries.measures.overview import (
    SHARES,
    Overview,
    PacketsSent,
    Quantiles,
    StateSample,
)
from tidings.spec.evidence import Evidence
from tidings.trace import Run

Table = list[tuple[Any, ...]]
Tables = dict[str, Table]


def measured_by_hand(runs: Iterable[Run]) -> Tables:
    tables: Tables = {name: [] for name in measures.TABLES}
    for run in runs:
        label = run.manifest.run
        tables["costs"] += _costs(run)
        tables["run_costs"].append(_run_costs(run))
        latencies = list(_latencies(run))
        tables["latencies"] += latencies
        for place, measure in enumerate(("own", "first", "majority", "last"), start=5):
            values = [row[place] for row in latencies]
            for summary in _ranked(values):
                tables["latency_summary"].append((label, run.manifest.clock, measure, *summary))
        held = list(_hold_back(run))
        tables["hold_back"] += held
        for summary in _ranked([row[-1] for row in held]):
            tables["hold_back_summary"].append((label, run.manifest.clock, *summary))
        samples = list(_states(run))
        tables["states"] += samples
        by_process = list(_states_by_process(label, samples))
        tables["states_by_process"] += by_process
        tables["states_by_run"] += _states_by_run(label, by_process)
    return tables


def _costs(run: Run) -> Iterator[tuple[Any, ...]]:
    sizes = defaultdict(list)
    for row in run.rows:
        if row.kind == "send":
            sizes[row.packet_kind].append(row.bytes)
    for kind, of_kind in sizes.items():
        yield run.manifest.run, kind, len(of_kind), sum(of_kind)


def _run_costs(run: Run) -> tuple[Any, ...]:
    broadcasts = sum(row.kind == "broadcast" for row in run.rows)
    sizes = [row.bytes for row in run.rows if row.kind == "send"]
    if not sizes:
        return run.manifest.run, broadcasts, None, None, None, None
    each = (len(sizes) / broadcasts, sum(sizes) / broadcasts) if broadcasts else (None, None)
    return run.manifest.run, broadcasts, len(sizes), sum(sizes), *each


def _latencies(run: Run) -> Iterator[tuple[Any, ...]]:
    evidence = Evidence(run)
    for message, broadcast in evidence.broadcasts.items():
        members = evidence.addressees(broadcast)
        at = {
            process: delivered[message].time_ns
            for process, delivered in evidence.deliveries.items()
            if message in delivered
        }
        times = sorted(at[member] for member in members if member in at)
        most = majority(len(members))
        correct = [member for member in members if evidence.has_settled(member)]
        is_everywhere = all(map(evidence.has_ended, members)) and all(one in at for one in correct)
        moments = (
            at.get(message.origin),
            times[0] if times else None,
            times[most - 1] if len(times) >= most else None,
            max((at[one] for one in correct), default=None) if is_everywhere else None,
        )
        waited = (
            None if at is None or run.manifest.clock is None else at - broadcast.time_ns
            for at in moments
        )
        yield run.manifest.run, *message, len(members), len(times), *waited


def _hold_back(run: Run) -> Iterator[tuple[Any, ...]]:
    for process, history in run.histories.items():
        held: dict[Any, int] = {}
        delivered: dict[Any, int] = {}
        for row in history:
            if row.kind in ("held", "deliver"):
                (held if row.kind == "held" else delivered).setdefault(row.message, row.time_ns)
        for message, since in held.items():
            is_known = message in delivered and run.manifest.clock is not None
            waited = delivered[message] - since if is_known else None
            yield run.manifest.run, process, *message, waited


def _states(run: Run) -> Iterator[tuple[Any, ...]]:
    for process, history in run.histories.items():
        delivered = 0
        for row in history:
            delivered += row.kind == "deliver"
            if row.kind == "state":
                time_ns = row.time_ns if run.manifest.clock else None
                place = (run.manifest.run, process, row.index, row.name)
                yield *place, time_ns, delivered, row.value


def _states_by_process(label: str, samples: Table) -> Iterator[tuple[Any, ...]]:
    of_name = defaultdict(list)
    for _, process, _, name, _, delivered, value in samples:
        of_name[process, name].append((delivered, value))
    for (process, name), points in of_name.items():
        values = [value for _, value in points]
        ends = values[0], values[-1], max(values)
        yield label, process, name, len(points), *ends, _slope(points)


def _slope(points: list[tuple[int, int]]) -> float | None:
    count = len(points)
    mean_x = Fraction(sum(x for x, _ in points), count)
    mean_y = Fraction(sum(y for _, y in points), count)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return float(sum((x - mean_x) * (y - mean_y) for x, y in points) / spread) if spread else None


def _states_by_run(label: str, by_process: Table) -> Iterator[tuple[Any, ...]]:
    of_name = defaultdict(list)
    for row in by_process:
        of_name[row[2]].append(row[4:])
    for name, rows in of_name.items():
        first, last, most, growth = zip(*rows, strict=True)
        slopes = [one for one in growth if one is not None]
        means = sum(first) / len(rows), sum(last) / len(rows)
        slope = sum(slopes) / len(slopes) if slopes else None
        yield label, name, len(rows), *means, max(most), slope


def _ranked(values: list[int | None], shares: Sequence[int] = (50, 90, 99)) -> Table:
    """How many are known, their percentiles and the largest: one row, or none."""
    known = sorted(value for value in values if value is not None)
    ranks = [math.ceil(len(known) * share / 100) for share in shares]
    return [(len(known), *(known[rank - 1] for rank in ranks), known[-1])] if known else []


def overview_by_hand(runs: Sequence[Run], groups: Mapping[str, str]) -> Overview:
    tables = measured_by_hand(runs)
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for _, kind, packets, size in tables["costs"]:
        totals[kind][0] += packets
        totals[kind][1] += size
    waits = {}
    for place, measure in enumerate(("own", "first", "majority", "last"), start=5):
        for group in set(groups.values()):
            values = [row[place] for row in tables["latencies"] if groups[row[0]] == group]
            for known, *ranks in _ranked(values, SHARES):
                least = min(value for value in values if value is not None)
                waits[group, measure] = Quantiles(known, least, *ranks)
    kept: dict[str, list[StateSample]] = defaultdict(list)
    if len(groups) == 1:
        for _, process, _, name, time_ns, _, value in tables["states"]:
            if name == "bytes" and time_ns is not None:
                kept[process].append(StateSample(time_ns, value))
    return Overview(
        broadcasts=sum(row[1] for row in tables["run_costs"]),
        sent=tuple(
            sorted(
                (PacketsSent(kind, *total) for kind, total in totals.items()),
                key=lambda one: (-one.bytes, one.kind),
            )
        ),
        waits=waits,
        kept={process: tuple(samples) for process, samples in kept.items()},
    )
