"""The command line: one Typer app, thin commands.

Results go to standard output, progress to standard error. Every command ends with the verdict
or with one clear line; ``main`` turns both into the exit status.
"""

import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from typer.exceptions import TyperException

from tidings import __version__
from tidings.core import Exit, TidingsError, UsageError
from tidings.lab.compare import AS_WRITTEN, CONTENDERS, METRICS, contender_of, draw, matrix, measure
from tidings.lab.compare import compare as compare_all
from tidings.lab.demo import Break, demo_run, last_words
from tidings.protocols import PROTOCOLS
from tidings.report import campaign_table, explain, plain_table, verdict_table
from tidings.simulator import Links, Plan, walk
from tidings.simulator.scenario import play_scenario
from tidings.simulator.script import protocol_of
from tidings.spec import Verdict, exit_status, judge
from tidings.trace import Format, Manifest, Run, layout, refuse_to_overwrite, write_runs

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Group messaging that cannot lose, repeat or reorder, and the tool to prove it.",
    epilog="Start with: tidings demo",
)


class _Console(Console):
    """Words as they are: no emoji for :100:, and a reader who went away is an error of ours."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, markup=False, **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = _Console()
err = _Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, nothing else.")]


def say(text: str) -> None:
    """Plain words, never wrapped: the terminal does that better."""
    out.print(text, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; whatever happens, end with one line and the right status."""
    try:
        words = sys.argv[1:] if arguments is None else arguments
        status = app(args=words or ["--help"], prog_name="tidings", standalone_mode=False)
        if status == Exit.INTERRUPTED:  # what Typer makes of Ctrl-C
            raise KeyboardInterrupt
        return int(status or 0)
    except TidingsError as error:
        return _fail(str(error), error.status)
    except TyperException as error:
        return _fail(f"{error.format_message()} (see tidings --help)", Exit.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        if "tidings.pipeline" in sys.modules:
            sys.modules["tidings.pipeline"].abandon()
        out.print("UNKNOWN")
        return _fail("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        _show_traceback_if_asked()
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", Exit.ENVIRONMENT)
    except Exception as error:
        _show_traceback_if_asked()
        return _fail(
            f"a bug in tidings: {type(error).__name__}: {error} "
            "(TIDINGS_DEBUG=1 shows where; please report it)",
            Exit.BUG,
        )


def _fail(line: str, status: Exit) -> int:
    err.print(f"tidings: {' '.join(line.split())}", soft_wrap=True)
    return status


def _show_traceback_if_asked() -> None:
    if os.environ.get("TIDINGS_DEBUG"):
        traceback.print_exc()


def _version(asked: bool) -> None:
    if asked:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Group messaging that cannot lose, repeat or reorder, and the tool to prove it."""


@app.command(epilog="Example: tidings simulate --seed 7 --processes 5 --crashes 2 --trace runs/7")
def simulate(
    file: Annotated[
        Path | None, typer.Argument(help="A scenario file; without one the run is random.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything; drawn if absent.")] = None,
    protocol: Annotated[
        str, typer.Option(help="The algorithm: see tidings algorithms.")
    ] = "majority-relay",
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the protocol, as name=value.")
    ] = None,
    processes: Annotated[int, typer.Option(help="The size of the group.")] = 5,
    broadcasts: Annotated[int, typer.Option(help="How many messages.")] = 20,
    crashes: Annotated[int, typer.Option(help="How many crash: at most a minority.")] = 0,
    mid_broadcast: Annotated[
        float, typer.Option(help="Share of crashes in the middle of a broadcast.")
    ] = 0.5,
    duplicated: Annotated[float, typer.Option(help="Share of packets that arrive twice.")] = 0.0,
    lost: Annotated[float, typer.Option(help="Share of packets that get lost.")] = 0.0,
    links: Annotated[Links, typer.Option(help="Whether links send again what they lose.")] = (
        "retrying"
    ),
    partitions: Annotated[int, typer.Option(help="How often the group is cut in two.")] = 0,
    joiners: Annotated[int, typer.Option(help="How many join (interval-history).")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Write the trace to this new folder.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How rows are written.")] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Run a group in the simulator: a scenario file, or a random run with faults.

    Exits 0 if the five guarantees hold, 1 if one is violated, 2 if one cannot be judged.
    """
    if trace is not None:
        refuse_to_overwrite(trace)
    name, options = protocol_of(" ".join([protocol, *(option or ())]))
    plan = Plan(
        protocol=name,
        options=options,
        processes=processes,
        broadcasts=broadcasts,
        links=links,
        crashes=crashes,
        mid_broadcast=mid_broadcast,
        duplicated=duplicated,
        lost=lost,
        partitions=partitions,
        joiners=joiners,
    )
    if file is None:
        run = _walk(plan, seed, quiet=as_json)
    elif plan != Plan() or seed is not None:
        raise UsageError("a scenario file says everything itself; leave the other options out")
    else:
        run = _play(file, quiet=as_json)
    rows = write_runs(trace, [run], form) if trace is not None else None
    verdicts = judge(run)
    if as_json:
        _print_json(_result(run.manifest, verdicts) | {"trace": trace and str(trace)})
    else:
        _print_run(run)
        if rows is not None:
            say(f"trace  {trace}: {rows:,} rows")
        _print_verdicts(run.manifest, verdicts)
    raise typer.Exit(exit_status(verdicts))


@app.command(epilog="Example: tidings audit runs/7")
def audit(
    path: Annotated[Path, typer.Argument(help="A trace: a folder, or one file of it.")],
    examples: Annotated[int, typer.Option(help="How many violations to explain.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Judge the five guarantees on any trace, on Spark.

    Exits 0 if they hold, 1 if one is violated, 2 if one cannot be judged, 65 if the trace is bad.
    """
    audited = _audit(path, examples)
    status = exit_status([verdict for run in audited.verdicts.values() for verdict in run])
    if as_json:
        _print_json(
            {
                "rows": audited.rows,
                "runs": [
                    _result(audited.manifests[run], verdicts)
                    for run, verdicts in audited.verdicts.items()
                ],
            }
        )
    else:
        runs = _many(len(audited.verdicts), "run")
        say(f"{audited.rows:,} rows of {runs} audited on Spark")
        if len(audited.verdicts) > 1:
            out.print(campaign_table(audited.verdicts))
        for run, verdicts in audited.verdicts.items():
            if len(audited.verdicts) == 1 or exit_status(verdicts) is Exit.VIOLATED:
                _print_verdicts(audited.manifests[run], verdicts)
    raise typer.Exit(status)


@app.command(epilog="Example: tidings demo --break order")
def demo(
    broken: Annotated[
        Break | None,
        typer.Option("--break", help="Run a protocol with this flaw instead."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another run.")] = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="A new folder for the trace, not under runs/.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Five processes, two killed in the middle of a broadcast; Spark audits what they logged.

    Exits 0 when all five guarantees hold; with --break, exits 1 and names what broke (with the
    default seed; not every other seed shows every flaw).
    """
    if folder is not None:
        refuse_to_overwrite(folder)
    run = demo_run(seed, broken)
    if folder is None:
        # The same run again writes the same bytes, so its own folder may be written again.
        folder = Path("runs") / f"demo-{run.manifest.run}"
    rows = write_runs(folder, [run], "parquet")
    if not as_json:
        say(f"seed   {seed}")
        _print_run(run)
        for process, message, copies in last_words(run):
            others = len(run.manifest.names) - 1
            say(
                f"crash  {process} died broadcasting {message}: {copies} of {others} copies had "
                "left"
            )
        say(f"trace  {folder}: {rows:,} rows")
    audited = _audit(folder, examples=1)
    assert audited.rows == rows, f"{rows} rows were written, but {audited.rows} audited"
    verdicts = audited.verdicts[run.manifest.run]
    if as_json:
        _print_json(_result(run.manifest, verdicts) | {"written": rows, "audited": audited.rows})
    else:
        say(f"audit  {audited.rows:,} of {rows:,} rows audited on Spark")
        _print_verdicts(run.manifest, verdicts)
    raise typer.Exit(exit_status(verdicts))


@app.command(epilog="Example: tidings algorithms --flawed")
def algorithms(
    flawed: Annotated[bool, typer.Option(help="The gallery of flaws instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every algorithm: what it promises, and what one broadcast costs in a group of five.

    State is what one process keeps after a stream of 100 messages.
    """
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
        _print_table(gallery, as_json)
        return
    with _progress(len(CONTENDERS), "measuring") as step:
        table = []
        for contender in CONTENDERS:
            one = measure(contender, "one", 5, 1)
            stream = measure(contender, "stream", 5, 100)
            table.append(
                {
                    "algorithm": str(contender),
                    "guarantees": "all five",
                    "packets": f"{one.packets:g}",
                    "bytes": f"{one.bytes:,.0f}",
                    "delays": f"{one.delays:g}",
                    "state": f"{stream.kept_bytes:,.0f} bytes",
                }
            )
            step(str(contender))
    _print_table(table, as_json)
    if not as_json:
        out.print()
        for name, algorithm in PROTOCOLS.items():
            if not algorithm.breaks:
                say(f"{name}: {algorithm.summary}")


@app.command(epilog="Example: tidings compare --sizes 3,5 --chart costs.svg")
def compare(
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="As in a scenario: 'majority-relay notice=yes'. May be repeated."),
    ] = None,
    sizes: Annotated[str, typer.Option(help="Group sizes.")] = "3,5,10,20,50",
    messages: Annotated[int, typer.Option(help="How many messages the stream has.")] = 30,
    chart: Annotated[Path | None, typer.Option(help="Draw it: a .svg or .png file.")] = None,
    as_json: AsJson = False,
) -> None:
    """The same workload through several algorithms: one broadcast, and a stream of them.

    Fault-free, unit delays, texts of 32 bytes; figures are per broadcast. What explodes is cut at
    100,000 packets and shown with a ">".
    """
    contenders = [contender_of(words) for words in protocol or ()] or [*CONTENDERS, *AS_WRITTEN]
    numbers = _sizes(sizes)
    if messages < 1:
        raise UsageError("--messages takes 1 or more")
    if chart is not None and (chart.suffix not in (".svg", ".png") or not chart.parent.is_dir()):
        raise UsageError(f"--chart takes a .svg or .png file in a folder that exists, not {chart}")
    costs = []
    with _progress(2 * len(contenders) * len(numbers), "comparing") as step:
        for cost in compare_all(contenders, {"one": 1, "stream": messages}, numbers):
            costs.append(cost)
            step(f"{cost.contender}, {cost.processes} processes")
    if chart is not None:
        draw(costs, chart)
    if as_json:
        _print_json({"costs": msgspec.to_builtins(costs)})
        return
    for workload, title in (("one", "one broadcast"), ("stream", f"a stream of {messages}")):
        of_workload = [cost for cost in costs if cost.workload == workload]
        say(f"{title}, fault-free, per broadcast\n")
        for metric in METRICS:
            out.print(plain_table(matrix(of_workload, metric)))
            out.print()
    if chart is not None:
        say(f"chart  {chart}")


# --- parts of commands


@contextmanager
def _progress(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A line that says how far a long command has come, on a terminal; silence elsewhere."""
    with err.status(what) as status:
        done = 0

        def step(name: str) -> None:
            nonlocal done
            done += 1
            status.update(f"{what}: {done} of {total}, {name}")

        yield step


def _sizes(words: str) -> list[int]:
    try:
        numbers = [int(word) for word in words.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"--sizes takes numbers like 3,5,10, not {words!r}")
    return numbers


def _print_table(rows: Sequence[Mapping[str, str]], as_json: bool) -> None:
    if as_json:
        _print_json({"rows": rows})
    else:
        out.print(plain_table(rows))


def _walk(plan: Plan, seed: int | None, quiet: bool) -> Run:
    plan.check()
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    if not quiet:
        say(f"seed   {seed}")
    return walk(plan, seed)


def _play(file: Path, quiet: bool) -> Run:
    played = play_scenario(file)
    if not quiet:
        say(played.conversation())
    if (surprise := played.surprise()) is not None:
        raise UsageError(surprise)
    return played.run


def _audit(path: Path, examples: int) -> Any:
    """The pipeline, imported late: everything else works without Spark."""
    if examples < 0:
        raise UsageError("--examples takes 0 or more")
    layout(path)  # what is not there at all is said before Spark starts
    with err.status("looking for Spark and Java") as status:
        from tidings import pipeline

        def progress(stage: str) -> None:
            status.update(stage)
            if not err.is_terminal:
                err.print(f"... {stage}")

        with pipeline.session(progress=progress) as spark:
            return pipeline.audit(spark, path, examples=examples, progress=progress)


def _print_run(run: Run) -> None:
    manifest = run.manifest
    kinds = [row.kind for row in run.rows]
    crashed = [name for name, fate in manifest.fates.items() if fate == "crashed"]
    say(
        f"run    {manifest.run}: {manifest.protocol}, {_many(len(manifest.members), 'process')}, "
        f"{kinds.count('broadcast'):,} broadcasts, {kinds.count('deliver'):,} deliveries, "
        f"{kinds.count('send'):,} packets" + (f", crashed: {', '.join(crashed)}" if crashed else "")
    )


def _many(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    plural = {"delivery": "deliveries", "process": "processes"}.get(noun, f"{noun}s")
    return f"{count:,} {plural}"


def _print_verdicts(manifest: Manifest, verdicts: Sequence[Verdict]) -> None:
    out.print()
    out.print(verdict_table(verdicts))
    for verdict in verdicts:
        if verdict.reason:
            say(f"{verdict.guarantee.value} is unknown: {verdict.reason}")
    for verdict in verdicts:
        for violation in verdict.violations[:1]:
            out.print()
            say(explain(violation, manifest.run, manifest.seed))


def _result(manifest: Manifest, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "run": manifest.run,
        "seed": manifest.seed,
        "protocol": manifest.protocol,
        "verdicts": {verdict.guarantee.value: msgspec.to_builtins(verdict) for verdict in verdicts},
    }


def _print_json(result: Mapping[str, Any]) -> None:
    print(json.dumps(result, indent=2, ensure_ascii=False))


def run_and_exit() -> NoReturn:
    """The entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a ✓ gets a ?
    sys.exit(main())
