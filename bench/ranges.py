"""How many ranges a history takes, over time: the space argument of the third note, measured.

The third note keeps sets of message ids as ranges of sequence numbers and argues that the ranges
stay few while delays vary within bounds, and gain little when they do not. Here five processes
talk at a steady rate, once with bounded delays and once for each of two Pareto tails so heavy
that the delay has no mean; interval-history counts its ranges, and history-sets, in the very same
runs, its ids. Two things are counted: the sets themselves (what is held, and what is delivered),
which is what the note speaks of, and all that a process keeps, in which messages that wait for
their past still name it.

    python bench/ranges.py             draws docs/ranges.svg and prints a table
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tidings.core.state import measured
from tidings.guests.diagnosis import trusted
from tidings.protocols.history_sets import HistorySets
from tidings.protocols.interval_history import IntervalHistory
from tidings.report.charts import Axis, LineChart, Point, document, lines_of
from tidings.simulator import Plan, walk

PICTURE = Path(__file__).parents[1] / "docs" / "ranges.svg"

TAILS = {"delays of 1 to 20 ms": 0.0, "Pareto tail 0.5": 0.5, "Pareto tail 0.2": 0.2}
"""The exponents of the tails; the smaller, the heavier."""

GAP_MS = 0.2

SAMPLES = 20

DRAWN = (1, 2, 3, 4, 6, 8, 12, 16, 20)
"""The samples in the picture: about evenly spaced where time is logarithmic."""

SETS, ALL = "the sets of ids alone", "all that a process keeps"


@trusted
class RangesCounted(IntervalHistory):
    """Says beside what it keeps in all how many ranges its two sets have."""

    def kept(self) -> dict[str, int]:
        kept = super().kept()
        return {SETS: measured([self.held, self.delivered])["ranges"], ALL: kept["ranges"]}


@trusted
class IdsCounted(HistorySets):
    """The same of ids."""

    def kept(self) -> dict[str, int]:
        return {SETS: len(self.held) + len(self.delivered), ALL: super().kept()["ids"]}


COUNTED = {"ranges": RangesCounted, "ids": IdsCounted}


class Sample(msgspec.Struct, frozen=True):
    """What the processes kept at one moment."""

    unit: str
    delays: str
    what: str
    time_ms: float
    mean: float
    most: int
    settled: bool
    """Whether this is the last sample, taken when everything had arrived."""


def samples(
    unit: str, delays: str, messages: int, seed: int, gap_ms: float = GAP_MS
) -> list[Sample]:
    """Five processes, so many messages from each on average, and what they keep meanwhile."""
    plan = Plan(
        processes=5,
        broadcasts=5 * messages,
        gap_ms_mean=gap_ms,
        tail=TAILS[delays],
        sample_ms=5 * messages * gap_ms / SAMPLES,
    )
    run = walk(plan, seed, factory=COUNTED[unit])
    kept: dict[tuple[int, str], list[int]] = {}
    for row in run.rows:
        if row.kind == "state":
            kept.setdefault((row.time_ns, str(row.name)), []).append(int(row.value or 0))
    end_ns = max(time_ns for time_ns, _ in kept)
    return [
        Sample(
            unit=unit,
            delays=delays,
            what=what,
            time_ms=time_ns / 1e6,
            mean=sum(values) / len(values),
            most=max(values),
            settled=time_ns == end_ns,
        )
        for (time_ns, what), values in kept.items()
    ]


def measure(messages: int, seed: int, gap_ms: float) -> Iterator[Sample]:
    """Every unit with every kind of delays."""
    for unit in COUNTED:
        for delays in TAILS:
            yield from samples(unit, delays, messages, seed, gap_ms)


def draw(received: Sequence[Sample], path: Path) -> None:
    """Lines over time while messages keep coming; at rest they all meet again, far to the right."""
    times = sorted({one.time_ms for one in received if not one.settled})
    drawn = {times[number - 1] for number in DRAWN if number <= len(times)}
    charts = [
        LineChart(
            title=what.capitalize(),
            x=Axis("simulated time", "ms", logarithmic=True),
            y=Axis("ranges or ids kept by a process, mean of five", logarithmic=True),
            lines=lines_of(
                (f"{one.unit}, {one.delays}", Point(one.time_ms, one.mean))
                for one in received
                if one.what == what and one.time_ms in drawn
            ),
        )
        for what in (SETS, ALL)
    ]
    title = "Ranges of interval-history and ids of history-sets while five processes talk"
    path.write_text(document(title, charts), encoding="utf-8")


def table(received: Sequence[Sample]) -> str:
    """The most that any process kept while they talked, and at rest, as a Markdown table."""
    lines = [
        "| counted | delays | unit | most while they talk | at rest |",
        "|---|---|---|---:|---:|",
    ]
    for what in (SETS, ALL):
        for unit in COUNTED:
            for delays in TAILS:
                mine = [
                    one
                    for one in received
                    if (one.what, one.unit, one.delays) == (what, unit, delays)
                ]
                (rest,) = (one for one in mine if one.settled)
                most = max(one.most for one in mine if not one.settled)
                lines.append(f"| {what} | {delays} | {unit} | {most:,} | {rest.most:,} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ranges and ids kept over time; see the file.")
    parser.add_argument("--messages", type=int, default=300, help="per process (300)")
    parser.add_argument("--gap-ms", type=float, default=GAP_MS, help="between two messages (0.2)")
    parser.add_argument("--seed", type=int, default=1, help="decides the runs (1)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture (docs/ranges.svg)")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, {asked.messages} messages from each of five processes", flush=True)
    received = list(measure(asked.messages, asked.seed, asked.gap_ms))
    draw(received, asked.out)
    print(table(received))


if __name__ == "__main__":
    main()
