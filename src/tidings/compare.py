"""The same workload through several algorithms, side by side: what each pays for the same promise.

Fault-free, with unit delays and 32-byte texts. A run that has not come to rest after 100,000
packets is cut, and its figures are lower bounds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.core import quorum
from tidings.disk.files import whole_file
from tidings.guests import factory
from tidings.report.charts import Axis, Line, LineChart, Point, document, lines_of
from tidings.report.numbers import figure
from tidings.report.words import with_options
from tidings.simulator import Plan, walk
from tidings.simulator.script import protocol_of
from tidings.trace import Run

Workload = Literal["one", "stream"]

SIZES = (3, 5, 10, 20, 50)
CUT = 100_000
TEXT_BYTES, NUMBER_BYTES = 32, 8
_MS = 1_000_000


class Contender(msgspec.Struct, frozen=True):
    """An algorithm with its options. Prints as ``majority-relay notice=yes``."""

    protocol: str
    options: dict[str, Any] = {}

    def __str__(self) -> str:
        return with_options(self.protocol, self.options)


CONTENDERS = (
    Contender("majority-relay"),
    Contender("majority-relay", {"notice": True}),
    Contender("majority-relay", {"pull": True}),
    Contender("majority-relay", {"postpone": True}),
    Contender("majority-relay", {"notice": True, "pull": True, "postpone": True}),
    Contender("history-sets"),
    Contender("interval-history"),
    Contender("two-phase"),
    Contender("stage-gossip"),
    Contender("stage-gossip", {"form": "news"}),
    Contender("frontier", {"mode": "all"}),
    Contender("frontier", {"mode": "origin"}),
)
"""Every sound algorithm for a group that stays as it is, and every proposal of the notes."""

SOUND = (*CONTENDERS, Contender("views"))
"""With frontier for groups that change: while nothing changes, it costs what frontier costs."""

AS_WRITTEN = (
    Contender("flawed/forgetful-relay"),
    Contender("flawed/two-phase-as-written"),
    Contender("flawed/storm"),
)
"""Forms that cost more, as the notes have them."""


class Cost(msgspec.Struct, frozen=True):
    """What one broadcast costs on average; ``cut`` says that there would have been more."""

    contender: str
    workload: Workload
    processes: int
    packets: float
    packets_until_safe: float
    """Those sent before the last delivery."""
    bytes: float
    """As msgpack, which is what travels."""
    json_bytes: float
    """As JSON arrays without field names, for comparison with other descriptions."""
    delays: float
    """From the broadcast to its last delivery, in units of one packet's delay; the median."""
    kept_bytes: float
    """What one process keeps when everything is over, each number weighed as eight bytes."""
    kept_ids: float
    kept_ranges: float
    cut: bool


def measure(
    contender: Contender, workload: Workload, processes: int, messages: int, budget: int = CUT
) -> Cost:
    """Run the workload once and count."""
    plan = Plan(
        protocol=contender.protocol,
        options=contender.options,
        processes=processes,
        broadcasts=1 if workload == "one" else messages,
        texts=tuple(b"%0*d" % (TEXT_BYTES, number) for number in range(messages)),
        gap_ms_mean=1.0,
        delay_ms_min=1.0,
        delay_ms_max=1.0,
        budget=budget,
    )
    run = walk(plan, seed=1)
    as_json = walk(plan, seed=1, weigh=lambda packet: len(msgspec.json.encode(packet)))
    rows = sorted(run.rows, key=lambda row: row.time_ns)
    sent = [row for row in rows if row.kind == "send"]
    begun = {row.message: row.time_ns for row in rows if row.kind == "broadcast"}
    last = {row.message: row.time_ns for row in rows if row.kind == "deliver"}
    waits = sorted((last[one] - begun[one]) / _MS for one in last)
    safe_ns = max(last.values(), default=0)
    count = max(1, len(begun))
    return Cost(
        contender=str(contender),
        workload=workload,
        processes=processes,
        packets=len(sent) / count,
        packets_until_safe=sum(row.time_ns < safe_ns for row in sent) / count,
        bytes=_bytes_sent(run) / count,
        json_bytes=_bytes_sent(as_json) / count,
        delays=waits[len(waits) // 2] if waits else 0.0,
        kept_bytes=_kept(run, "bytes") / processes,
        kept_ids=_kept(run, "ids") / processes,
        kept_ranges=_kept(run, "ranges") / processes,
        cut=not any(row.kind == "settle" for row in rows),
    )


def _bytes_sent(run: Run) -> int:
    return sum(int(row.bytes or 0) for row in run.rows if row.kind == "send")


def _kept(run: Run, name: str) -> int:
    """The last sample of every process, added up; it is four rows long."""
    return sum(
        int(row.value or 0)
        for history in run.histories.values()
        for row in history
        if row.kind == "state" and row.name == name and row.index >= history[-1].index - 4
    )


Bound = Callable[[int, int], int]
"""From n, the size of the group, and f, how many may crash."""

BOUNDS: dict[str, Bound] = {
    "any number of delays": lambda n, f: n - 1 + f,
    "two delays": lambda n, f: f + f * f + (n - 1 - f) * max(1, f - 1),
    "three delays": lambda n, f: n - 1 + f + max(0, f - 2),
    "three delays, through the origin": lambda n, f: n - 1 + (f if f < 2 else 2 * f),
    "relaying on the first copy, without timers": lambda n, f: (n - 1) * (f + 1),
}
"""The fewest packets until one broadcast is safe at all n members, with equal delays.

Nobody may deliver before it knows of f + 1 that hold the message, itself counted: f may crash.

Any number of delays. All but the origin must get the text. The first f who hold it cannot know
f + 1 holders by then, and must hear once more: n - 1 + f. The text going round in a ring does it.

Two delays. The origin must hear from f who held it after the first delay. Those get the text, and
f - 1 others' word; the rest need the word of f - 1, for whoever got the text speaks for the origin.

Three delays. Some member must know enough after the second to tell the rest. It hears from f - 1
witnesses at least, and each of these, having spoken too early to know, must be told again: so
n - 3 + 2f. Through the origin, which must hear from f, it is n - 1 + 2f.

Without timers everybody must be told by f + 1, since the others may crash.
"""

BOUNDS_UNTIL_STABLE: dict[str, Bound] = {
    "any number of delays": lambda n, f: 2 * (n - 1),
    "two delays": lambda n, f: n * (n - 1),
    "three delays, through the origin": lambda n, f: (3 if n > 2 else 2) * (n - 1),
}
"""The fewest until everybody knows that all hold it.

When the first member knows, n - 1 have got the text; each other must hear of it after that. In two
delays everybody hears from everybody. Through the origin each gets the text, answers, and is told.
"""


def bounds(sizes: Sequence[int]) -> list[dict[str, str]]:
    """One row per bound, one column per size, as in ``matrix``."""
    return [
        {"packets at least": name}
        | {f"n={size}": figure(bound(size, quorum(size) - 1)) for size in sizes}
        for name, bound in named_bounds().items()
    ]


def named_bounds() -> dict[str, Bound]:
    """All bounds, with what they count up to."""
    return {
        f"until {what}: {name}": bound
        for what, bounds in (("safe", BOUNDS), ("stable", BOUNDS_UNTIL_STABLE))
        for name, bound in bounds.items()
    }


def contender_of(words: str) -> Contender:
    """From ``majority-relay notice=yes``; unknown names are refused."""
    protocol, options = protocol_of(words)
    factory(protocol, options)
    return Contender(protocol, options)


METRICS = {
    "packets": "packets",
    "bytes": "bytes (msgpack)",
    "json_bytes": "bytes (JSON)",
    "delays": "delays",
    "kept_bytes": "bytes kept by a process at the end",
}


def matrix(costs: Sequence[Cost], metric: str) -> list[dict[str, str]]:
    """One row per contender, one column per size; what was cut, or spared, has a ">"."""
    sizes = sorted({cost.processes for cost in costs})
    known = {(cost.contender, cost.processes): cost for cost in costs}
    return [
        {METRICS[metric]: name}
        | {f"n={size}": _figure(known.get((name, size)), metric) for size in sizes}
        for name in dict.fromkeys(cost.contender for cost in costs)
    ]


def _figure(cost: Cost | None, metric: str) -> str:
    if cost is None:
        return ">"
    if cost.cut and metric in _UNKNOWN_IF_CUT:
        return "?"
    shown = figure(getattr(cost, metric))
    return f"> {shown}" if cost.cut else shown


_AXES = {
    "packets": Axis("packets per broadcast", logarithmic=True),
    "bytes": Axis("bytes per broadcast", logarithmic=True),
    "delays": Axis("delays until the last delivery", logarithmic=True),
    "kept_bytes": Axis("bytes kept by a process at the end", logarithmic=True),
}
_DRAWN_BOUNDS: dict[tuple[str, Workload], dict[str, Bound]] = {
    ("packets", "one"): {
        "until safe, any number of delays": BOUNDS["any number of delays"],
        "until safe in two delays": BOUNDS["two delays"],
        "until safe in three delays": BOUNDS["three delays"],
        "until stable": BOUNDS_UNTIL_STABLE["any number of delays"],
    },
}
"""Of a stream nothing is said about packets: one may carry any number of messages."""
_BOUNDS_OF_BOTH: dict[str, dict[str, Bound]] = {
    "bytes": {"the text to everybody": lambda n, f: TEXT_BYTES * (n - 1)},
    "delays": {"there and back": lambda n, f: 2 if f else min(1, n - 1)},
    "kept_bytes": {"its next number": lambda n, f: NUMBER_BYTES},
}
"""The origin must hear from somebody that it is not alone with a message, unless nobody may crash.
And a process that forgets how many messages it broadcast would use a name twice."""


def draw(costs: Sequence[Cost], path: Path) -> None:
    """What a broadcast costs against the size of the group, one chart for each workload."""
    charts = [
        LineChart(
            title=f"{title}: {METRICS[metric].removesuffix(' (msgpack)')}",
            x=Axis("processes", logarithmic=True),
            y=axis,
            lines=lines_of(
                (cost.contender, Point(cost.processes, getattr(cost, metric), at_least=cost.cut))
                for cost in costs
                if cost.workload == workload and not (cost.cut and metric in _UNKNOWN_IF_CUT)
            ),
            bounds=_bounds_drawn(metric, workload, sorted({cost.processes for cost in costs})),
        )
        for metric, axis in _AXES.items()
        for workload, title in _WORKLOADS.items()
    ]
    with whole_file(path) as draft:
        text = document("What one broadcast costs, fault-free", charts)
        draft.write_text(text, encoding="utf-8")


_WORKLOADS: dict[Workload, str] = {"one": "One broadcast", "stream": "A stream"}
_UNKNOWN_IF_CUT = ("delays", "kept_bytes")


def _bounds_drawn(metric: str, workload: Workload, sizes: Sequence[int]) -> tuple[Line, ...]:
    known = _DRAWN_BOUNDS.get((metric, workload), _BOUNDS_OF_BOTH.get(metric, {}))
    return tuple(
        Line(name, tuple(Point(size, bound(size, quorum(size) - 1)) for size in sizes))
        for name, bound in known.items()
    )


def compare(
    contenders: Sequence[Contender],
    workloads: Mapping[Workload, int],
    sizes: Sequence[int] = SIZES,
) -> Iterator[Cost]:
    """Every contender at every size; one that was cut is spared the larger sizes."""
    for workload, messages in workloads.items():
        for contender in contenders:
            for size in sizes:
                cost = measure(contender, workload, size, messages)
                yield cost
                if cost.cut:
                    break
