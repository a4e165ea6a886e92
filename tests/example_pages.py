"""A page from real runs: small ones of several algorithms, measured and judged in plain Python.

What a campaign fills from thousands of runs is filled here from a few; the numbers are true.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import comb

from tidings.core import quorum
from tidings.lab.compare import BOUNDS, Contender, Cost, contender_of, measure
from tidings.protocols import PROTOCOLS
from tidings.report.causality import Causality
from tidings.report.page import Page, picture_of
from tidings.report.page import measure as rows_say
from tidings.report.page.model import (
    Axis,
    Cell,
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
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script
from tidings.spec import Guarantee, Value, Verdict, judge
from tidings.trace import Run

ALGORITHMS = (
    Contender("majority-relay"),
    Contender("majority-relay", {"notice": True}),
    Contender("majority-relay", {"pull": True}),
    Contender("history-sets"),
    Contender("interval-history"),
    Contender("two-phase"),
    Contender("stage-gossip"),
    Contender("frontier", {"mode": "all"}),
    Contender("frontier", {"mode": "origin"}),
    Contender("flawed/careless"),
    Contender("flawed/hasty"),
)
SIZES = (3, 5, 10)
RUNS = 12
COMMAND = "tidings campaign plan.toml"


def careless_run() -> Run:
    """p3 delivers the answer before the question."""
    script = Script("answered-too-early")
    for line in (
        "protocol flawed/careless",
        "group p1 p2 p3",
        "broadcast p1 who is there?",
        "receive p1->p2",
        "broadcast p2 I am",
        "receive p2->p3 p2#1",
        "settle",
    ):
        script.command(line)
    return script.run()


@cache
def runs_of(words: str, count: int = RUNS) -> list[tuple[Run, list[Verdict]]]:
    algorithm = contender_of(words)
    plan = Plan(
        protocol=algorithm.protocol,
        options=algorithm.options,
        processes=3,
        broadcasts=6,
        crashes=1,
        mid_broadcast=1.0,
        delay_ms_max=60.0,
    )
    runs = [walk(plan, seed) for seed in range(count)]
    return [(run, list(judge(run))) for run in runs]


def exact_interval(hits: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's: every share under which so many hits are not too rare."""
    tail = (1 - confidence) / 2

    def share_at_which(least: int, chance: float) -> float:
        """The share of hits at which ``least`` or more of them have this chance."""
        low, high = 0.0, 1.0
        for _ in range(60):
            share = (low + high) / 2
            reached = sum(
                comb(runs, count) * share**count * (1 - share) ** (runs - count)
                for count in range(least, runs + 1)
            )
            low, high = (share, high) if reached < chance else (low, share)
        return low

    low = share_at_which(hits, tail) if hits else 0.0
    high = share_at_which(hits + 1, 1 - tail) if hits < runs else 1.0
    return low, high


def cells(algorithm: Contender) -> Iterator[tuple[Guarantee, Cell]]:
    judged = runs_of(str(algorithm))
    for number, guarantee in enumerate(Guarantee):
        values = [verdicts[number].value for _, verdicts in judged]
        violated = values.count(Value.VIOLATED)
        low, high = exact_interval(violated, len(values))
        key = f"{algorithm.protocol.replace('/', '-')}-{'-'.join(guarantee.split())}"
        yield (
            guarantee,
            Cell(
                value=Value.VIOLATED if violated else Value.HOLDS,
                runs=len(values),
                violated=violated,
                low=low,
                high=high,
                picture=key if violated else None,
            ),
        )


def counterexamples(algorithm: Contender) -> Iterator[Picture]:
    for number, guarantee in enumerate(Guarantee):
        for run, verdicts in runs_of(str(algorithm)):
            if verdicts[number].violations:
                key = f"{algorithm.protocol.replace('/', '-')}-{'-'.join(guarantee.split())}"
                replay = f"tidings replay runs/{run.manifest.run}"
                violation = verdicts[number].violations[0]
                yield picture_of(
                    Causality(run), violation, key=key, entry=str(algorithm), replay=replay
                )
                break


def cost_chart(costs: Sequence[Cost], metric: str) -> LineChart:
    by_name: dict[str, list[Point]] = {}
    for cost in costs:
        point = Point(cost.processes, getattr(cost, metric), at_least=cost.cut)
        by_name.setdefault(cost.contender, []).append(point)
    bounds = [
        Line(name, tuple(Point(size, bound(size, quorum(size) - 1)) for size in SIZES))
        for name, bound in BOUNDS.items()
    ]
    return LineChart(
        title=f"{metric.capitalize()} per broadcast",
        x=Axis("processes", logarithmic=True),
        y=Axis(f"{metric} per broadcast", logarithmic=True),
        lines=tuple(Line(name, tuple(points)) for name, points in by_name.items()),
        bounds=tuple(bounds) if metric == "packets" else (),
        note="One broadcast, without faults.",
        how="tidings compare --sizes 3,5,10",
    )


def state_line(algorithm: Contender) -> StateLine:
    plan = Plan(
        protocol=algorithm.protocol,
        options=algorithm.options,
        processes=3,
        broadcasts=200,
        sample_ms=25.0,
    )
    points = rows_say.kept_bytes(walk(plan, seed=1))["p1"]
    return StateLine(str(algorithm), tuple(points), rows_say.growth_of(points))


@cache
def example_page() -> Page:
    sound = [one for one in ALGORITHMS if not PROTOCOLS[one.protocol].breaks]
    costs = [measure(one, "one", size, 1) for one in sound for size in SIZES]
    waits = {
        str(one): [
            wait
            for run, _ in runs_of(str(one))
            for of_process in rows_say.latencies_ms(run).values()
            for wait in of_process
        ]
        for one in sound
    }
    entries = [
        Entry(
            name=str(one),
            cells=dict(cells(one)),
            flawed=bool(PROTOCOLS[one.protocol].breaks),
        )
        for one in ALGORITHMS
    ]
    pictures = [picture for one in ALGORITHMS for picture in counterexamples(one)]
    small = walk(Plan(processes=3, broadcasts=2, crashes=1, mid_broadcast=1.0), seed=4)
    chosen = picture_of(
        Causality(small),
        key="chosen",
        entry="majority-relay",
        title="A crash in mid-broadcast, and everybody alive delivers",
        replay="tidings simulate --seed 4 --processes 3 --broadcasts 2 --crashes 1",
    )
    of_five = [cost for cost in costs if cost.processes == 5]
    return Page(
        title="Eleven algorithms under the same faults",
        answer=f"All nine sound algorithms kept all five guarantees in {9 * RUNS} runs; "
        "both flawed ones were caught.",
        value=Value.HOLDS,
        about="Each algorithm broadcasts the same messages through the same faults: three "
        "processes, one of which crashes while it broadcasts.",
        facts=(
            Fact("runs", f"{len(ALGORITHMS) * RUNS:,}"),
            Fact("algorithms", str(len(ALGORITHMS))),
            Fact("seeds", f"0 to {RUNS - 1}"),
        ),
        matrix=Matrix(entries=tuple(entries), how=COMMAND),
        costs=(cost_chart(costs, "packets"), cost_chart(costs, "bytes")),
        latencies=(
            SpreadChart(
                title="Time to delivery, with a crash in mid-broadcast",
                x=Axis("time from broadcast to delivery", "ms"),
                spreads=tuple(rows_say.spread(name, values) for name, values in waits.items()),
                how=COMMAND,
            ),
        ),
        states=(
            StateChart(
                title="What one of three processes keeps, over 200 broadcasts",
                x=Axis("time since the start", "ms"),
                y=Axis("kept by p1", "bytes"),
                lines=tuple(map(state_line, sound)),
                how=COMMAND,
            ),
        ),
        pareto=(
            ParetoChart(
                title="One broadcast to five processes, without faults",
                x=Axis("delays"),
                y=Axis("bytes per broadcast", logarithmic=True),
                dots=tuple(Dot(one.contender, one.delays, one.bytes) for one in of_five),
                how="tidings compare --sizes 5",
            ),
        ),
        pictures=(*pictures, chosen),
        reproduce=(Fact("this page", f"{COMMAND} && tidings report runs/campaign"),),
    )
