"""``tidings algorithms`` and ``tidings compare``: what there is, and what it costs."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tidings.cli.common import (
    AsJson,
    app,
    checked_own,
    faults_are_stored,
    known_protocols,
    out,
    print_json,
    progress_line,
    say,
)
from tidings.compare import (
    AS_WRITTEN,
    CONTENDERS,
    METRICS,
    SOUND,
    contender_of,
    draw,
    matrix,
    measure,
)
from tidings.compare import bounds as packet_bounds
from tidings.compare import compare as compare_all
from tidings.core import UsageError
from tidings.core.likeness import did_you_mean
from tidings.explore.gallery import how_to_see
from tidings.protocols import PROTOCOLS
from tidings.report import plain_table
from tidings.report.numbers import figure


@app.command(epilog="Example: tidings algorithms flawed/hasty")
def algorithms(
    name: Annotated[
        str | None, typer.Argument(help="Describe this one.", autocompletion=known_protocols)
    ] = None,
    flawed: Annotated[bool, typer.Option(help="List the gallery of flaws instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """List every algorithm: what it promises, and what one broadcast costs in a group of five.

    State is what one process keeps after a stream of 100 messages. With a name: how it works,
    and for a flaw the command that shows it.
    """
    if name is not None:
        _describe(name, as_json)
    elif flawed:
        _list_flaws(as_json)
    else:
        _list_costs(as_json)


def _describe(name: str, as_json: bool) -> None:
    if name not in PROTOCOLS:
        meant = did_you_mean(name, PROTOCOLS)
        raise UsageError(f"no algorithm is called {name!r}; tidings algorithms lists them{meant}")
    algorithm = PROTOCOLS[name]
    instead_of, words, see = algorithm.instead_of, algorithm.theory, how_to_see(name)
    if as_json:
        about = {"protocol": name, "breaks": algorithm.breaks, "instead_of": instead_of}
        print_json(about | {"words": words, "see": see})
    elif algorithm.breaks:
        say(
            f"{name}, a flaw of {instead_of}\n\n{words}\n\n"
            f"See it:    {see or 'a scenario, docs/frontier.md'}\n"
            f"Mended:    the same with {instead_of}"
        )
    else:
        say(words)


def _list_flaws(as_json: bool) -> None:
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
    if as_json:
        print_json({"rows": gallery})
    else:
        out.print(plain_table(gallery))
        say("\nHow to see one of them: tidings algorithms flawed/hasty")


def _list_costs(as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    with progress_line("measuring") as show:
        for contender in SOUND:
            one = measure(contender, "one", 5, 1)
            rows.append(
                {
                    "algorithm": str(contender),
                    "guarantees": "all five",
                    "packets": one.packets,
                    "bytes": one.bytes,
                    "delays": one.delays,
                    "state": measure(contender, "stream", 5, 100).kept_bytes,
                }
            )
            show(f"measuring: {len(rows)} of {len(SOUND)}, {contender}")
    if as_json:
        print_json({"rows": rows})
        return
    shown = [
        row
        | {name: figure(row[name]) for name in ("packets", "bytes", "delays")}
        | {"state": f"{figure(row['state'])} bytes"}
        for row in rows
    ]
    out.print(plain_table(shown))
    out.print()
    for name, algorithm in PROTOCOLS.items():
        if not algorithm.breaks:
            say(f"{name}: {algorithm.summary}")


@app.command(epilog="Example: tidings compare --sizes 3,5 --chart costs.svg")
def compare(
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            help="As in a scenario: 'majority-relay notice=yes'. May be repeated.",
            autocompletion=known_protocols,
        ),
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
    contenders = [*map(contender_of, named)] or [*CONTENDERS, *AS_WRITTEN]
    numbers = _sizes(sizes)
    if messages < 1:
        raise UsageError("--messages takes 1 or more")
    if chart is not None and (chart.suffix != ".svg" or not chart.parent.is_dir()):
        raise UsageError(f"--chart takes a .svg file in a folder that exists, not {chart}")
    costs = []
    total = 2 * len(contenders) * len(numbers)
    with progress_line("comparing") as show, faults_are_stored():
        for cost in compare_all(contenders, {"one": 1, "stream": messages}, numbers):
            costs.append(cost)
            show(
                f"comparing: {len(costs)} of {total}, {cost.contender}, {cost.processes} processes"
            )
    if chart is not None:
        draw(costs, chart)
    if as_json:
        print_json({"costs": msgspec.to_builtins(costs)})
        return
    for workload, title in (("one", "one broadcast"), ("stream", f"a stream of {messages}")):
        of_workload = [cost for cost in costs if cost.workload == workload]
        say(f"{title}, fault-free, per broadcast\n")
        for metric in METRICS:
            out.print(plain_table(matrix(of_workload, metric)), "")
            if bounds and (workload, metric) == ("one", "packets"):
                out.print(plain_table(packet_bounds(numbers)), "")
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
