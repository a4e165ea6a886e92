"""``tidings algorithms`` and ``tidings compare``: what there is, and what it costs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.common import (
    AsJson,
    ProgressLine,
    app,
    out,
    print_json,
    print_table,
    say,
)
from tidings.cli.own import checked_own, faults_are_stored
from tidings.compare import AS_WRITTEN, CONTENDERS, METRICS, contender_of, draw, matrix, measure
from tidings.compare import bounds as packet_bounds
from tidings.compare import compare as compare_all
from tidings.core import UsageError
from tidings.explore.gallery import how_to_see
from tidings.protocols import PROTOCOLS
from tidings.report import plain_table


@app.command(epilog="Example: tidings algorithms flawed/hasty")
def algorithms(
    name: Annotated[str | None, typer.Argument(help="Describe this one.")] = None,
    flawed: Annotated[bool, typer.Option(help="List the gallery of flaws instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """List every algorithm: what it promises, and what one broadcast costs in a group of five.

    State is what one process keeps after a stream of 100 messages. With a name: how it works,
    and for a flaw the command that shows it.
    """
    if name is not None:
        _tell_all_about(name, as_json)
        return
    if flawed:
        gallery = [
            {
                "protocol": name,
                "breaks": ", ".join(algorithm.breaks),
                "how": algorithm.summary,
                "instead of": algorithm.instead_of,
            }
            for name, algorithm in PROTOCOLS.items()
            if algorithm.breaks
        ]
        print_table(gallery, as_json)
        if not as_json:
            say("\nHow to see one of them: tidings algorithms flawed/hasty")
        return
    with ProgressLine("measuring") as show:
        table = []
        for number, contender in enumerate(CONTENDERS, start=1):
            one = measure(contender, "one", 5, 1)
            stream = measure(contender, "stream", 5, 100)
            figures = {
                "packets": one.packets,
                "bytes": one.bytes,
                "delays": one.delays,
                "state": stream.kept_bytes,
            }
            table.append({"algorithm": str(contender), "guarantees": "all five"} | figures)
            show(f"measuring: {number} of {len(CONTENDERS)}, {contender}")
    if as_json:
        print_json({"rows": table})
        return
    out.print(plain_table([_rounded(row) for row in table]))
    out.print()
    for name, algorithm in PROTOCOLS.items():
        if not algorithm.breaks:
            say(f"{name}: {algorithm.summary}")


def _rounded(row: Mapping[str, Any]) -> dict[str, str]:
    whole = {column: f"{row[column]:,.0f}" for column in ("bytes", "state")}
    exact = {column: f"{row[column]:g}" for column in ("packets", "delays")}
    return {**row, **exact, **whole, "state": f"{whole['state']} bytes"}


def _tell_all_about(name: str, as_json: bool) -> None:
    if name not in PROTOCOLS:
        raise UsageError(f"no algorithm is called {name!r}; tidings algorithms lists them")
    algorithm = PROTOCOLS[name]
    words = algorithm.theory
    see = how_to_see(name)
    if as_json:
        about = {"protocol": name, "breaks": algorithm.breaks, "instead_of": algorithm.instead_of}
        print_json(about | {"words": words, "see": see})
        return
    if not algorithm.breaks:
        say(words)
        return
    say(f"{name}, a flaw of {algorithm.instead_of}\n\n{words}\n")
    say(f"See it:    {see or 'a scenario, docs/frontier.md'}")
    say(f"Mended:    the same with {algorithm.instead_of}")


@app.command(epilog="Example: tidings compare --sizes 3,5 --chart costs.svg")
def compare(
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="As in a scenario: 'majority-relay notice=yes'. May be repeated."),
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(help="A class of your own: 'my_file.py:MyProcess fast=yes'. May be repeated."),
    ] = None,
    sizes: Annotated[str, typer.Option(help="Group sizes.")] = "3,5,10,20,50",
    messages: Annotated[int, typer.Option(help="How many messages the stream has.")] = 30,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Also show what no algorithm can beat.")
    ] = False,
    chart: Annotated[Path | None, typer.Option(help="Draw a chart: a .svg file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the same workload with several algorithms: one broadcast, and a stream of them.

    Fault-free, unit delays, texts of 32 bytes; figures are per broadcast. A workload is cut at
    100,000 packets and shown with a ">".
    """
    named = [*(protocol or ()), *map(checked_own, process or ())]
    contenders = [contender_of(words) for words in named] or [*CONTENDERS, *AS_WRITTEN]
    numbers = _sizes(sizes)
    if messages < 1:
        raise UsageError("--messages takes 1 or more")
    if chart is not None and (chart.suffix != ".svg" or not chart.parent.is_dir()):
        raise UsageError(f"--chart takes a .svg file in a folder that exists, not {chart}")
    costs = []
    total = 2 * len(contenders) * len(numbers)
    with ProgressLine("comparing") as show, faults_are_stored():
        for cost in compare_all(contenders, {"one": 1, "stream": messages}, numbers):
            costs.append(cost)
            about = f"{cost.contender}, {cost.processes} processes"
            show(f"comparing: {len(costs)} of {total}, {about}")
    if chart is not None:
        draw(costs, chart)
    if as_json:
        print_json({"costs": msgspec.to_builtins(costs)})
        return
    for workload, title in (("one", "one broadcast"), ("stream", f"a stream of {messages}")):
        of_workload = [cost for cost in costs if cost.workload == workload]
        say(f"{title}, fault-free, per broadcast\n")
        for metric in METRICS:
            out.print(plain_table(matrix(of_workload, metric)))
            out.print()
            if bounds and (workload, metric) == ("one", "packets"):
                out.print(plain_table(packet_bounds(numbers)))
                out.print()
    if chart is not None:
        say(f"chart  {chart}")


def _sizes(words: str) -> list[int]:
    try:
        numbers = [int(word) for word in words.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"--sizes takes numbers like 3,5,10, not {words!r}")
    return numbers
