"""``tidings watch``: the audit while the group runs."""

import json
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs
from rich.live import Live

from tidings.cli.audit import (
    EVERY_S,
    HistoryFolder,
    ManifestFile,
    MappingFile,
    Master,
    Remote,
    SourceOption,
    options_of,
    refuse_both,
    refuse_misspelt,
)
from tidings.cli.common import app, err, out, print_verdicts, progress_line, result, say
from tidings.core import Exit, UsageError
from tidings.disk.files import refuse_unwritable, whole_file
from tidings.report import many
from tidings.spec import Value, Verdict, exit_status
from tidings.trace import Manifest, foreign

if TYPE_CHECKING:
    from tidings.pipeline import Watching
    from tidings.pipeline.watching.status import Status

LOOKS_S = 0.2
ALARMS = 20
"""So many of the newest alarms are on the page."""
DAY_S = 86_400
CALM_S = 3.0
"""After every history has ended, so long nothing more may come."""


@app.command(epilog="Example: tidings watch runs/7 --once --json")
def watch(
    source: Annotated[
        str, typer.Argument(help="A trace folder that members write to. Or what --format reads.")
    ],
    form: Annotated[
        str, typer.Option("--format", help="tidings, kafka, or another stream of Spark's.")
    ] = "tidings",
    mapping: MappingFile = None,
    source_option: SourceOption = None,
    manifest: ManifestFile = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Go on here after a restart; by default a folder that vanishes."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Judge what is there, and do not wait for more.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between two batches.")] = 1.0,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait for a missing part of a history.")
    ] = 60.0,
    window: Annotated[
        int, typer.Option(help="How many broadcasts and deliveries are kept in memory.")
    ] = 1_000_000,
    page: Annotated[
        Path | None, typer.Option(help="Keep this .html file up to date; it refreshes itself.")
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Answer Prometheus on this port, on loopback."),
    ] = None,
    history: HistoryFolder = None,
    master: Master = None,
    remote: Remote = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print alarms and the end as lines of JSON.")
    ] = False,
) -> None:
    """Judge the five guarantees on Spark while the members of a group run.

    An alarm is a violation that rows show; what is only missing so far is owed. It ends when every
    history has ended (tidings settle), or with Ctrl-C. While it runs, look at it in a terminal or
    a browser, or scrape it: tidings watch runs/7 --page runs/7.html --metrics 9464

    Exits as audit does, with the verdict on what was read.
    """
    refuse_both(master, remote)
    refuse_misspelt(form)
    if not (0 < every <= DAY_S and patience >= 0 and window >= 0):
        raise UsageError(
            "--every takes more than 0 seconds, up to a day; --patience and --window 0 or more"
        )
    if form == "tidings" and not Path(source).is_dir():
        raise UsageError(f"{source}: no such folder")
    options = options_of(source_option)
    known = foreign.read_mapping(mapping) if mapping is not None else None
    if page is not None:
        if page.suffix not in (".html", ".htm"):
            raise UsageError(f"--page takes a .html file, not {page}")
        refuse_unwritable(page)
    if history is not None:
        from tidings.pipeline.history import refuse_no_history

        refuse_no_history(history)
    with ExitStack() as stack:
        if checkpoint is None:
            checkpoint = Path(stack.enter_context(TemporaryDirectory(prefix="tidings-watch-")))
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs interruptions
        with progress_line("looking for Spark and Java", EVERY_S, quiet_s=0.0) as progress:
            from tidings import pipeline
            from tidings.pipeline.watching.judge import WatchLimits
            from tidings.pipeline.watching.running import manifests_at_the_end

            spark = stack.enter_context(
                pipeline.session(master=master, remote=remote, progress=progress)
            )
        watching = pipeline.watch(
            spark,
            source if form == "tidings" else pipeline.stream_of(spark, source, form, options),
            known,
            checkpoint=checkpoint,
            manifest=manifest,
            every_s=every,
            once=once,
            patience_s=patience,
            limits=WatchLimits(window_rows=window),
            options=options if form == "tidings" else None,
        )
        show = _Show(watching, Path(source).name, page, as_json)
        if metrics is not None:
            from tidings.report.live import WatchMetrics

            answering = WatchMetrics(lambda: watching.status)
            answering.listen(metrics)
            stack.callback(answering.close)
        begin_s = time.time()
        _follow(watching, show, once)
        verdicts = _concluded(watching)
        show.end(verdicts)
        manifests = manifests_at_the_end(watching.options)
    if history is not None:
        from tidings.pipeline.history import append

        append(history, "watch", source, verdicts, time.time() - begin_s, show.rows)
    folder = Path(source) if form == "tidings" else None
    _tell(manifests, verdicts, folder, as_json, show.rows)
    found = [one for five in verdicts.values() for one in five]
    raise typer.Exit(exit_status(found) if found else Exit.UNKNOWN)


class _Show:
    """What is shown of each batch."""

    def __init__(self, watching: "Watching", name: str, page: Path | None, as_json: bool) -> None:
        self._watching = watching
        self._name = name
        self._page = page
        self._as_json = as_json
        self._batch = -1
        self._newest: deque[str] = deque(maxlen=ALARMS)
        self.status: Status | None = None

    @property
    def rows(self) -> int:
        return self.status.rows if self.status is not None else 0

    def look(self) -> bool:
        """Whether there is anything new; alarms are told."""
        status = self._watching.status
        if status is None or (self.status is not None and status.batch == self.status.batch):
            return False
        from tidings.pipeline.watching.running import read_findings

        # The next batch may have written its findings already.
        for row in read_findings(self._watching.options.place, self._batch, upto=status.batch):
            self._tell(row)
        self._batch, self.status = status.batch, status
        self._write(status)
        return True

    def end(self, verdicts: Mapping[str, Sequence[Verdict]]) -> None:
        """Nothing more will come: the page says what is printed."""
        if self.status is None:
            return
        from tidings.pipeline.watching.status import SoFar

        runs = tuple(
            structs.replace(run, verdicts=tuple(map(SoFar.of, verdicts[run.run])))
            for run in self.status.runs
            if run.run in verdicts
        )
        self._write(structs.replace(self.status, runs=runs), is_over=True)

    def _write(self, status: "Status", *, is_over: bool = False) -> None:
        if self._page is None:
            return
        from tidings.report.live import live_page

        with whole_file(self._page) as draft:
            page = live_page(status, self._name, tuple(self._newest), is_over=is_over)
            draft.write_text(page, encoding="utf-8")

    def _tell(self, row: dict[str, Any]) -> None:
        line = _alarm(row)
        self._newest.append(line)
        if self._as_json:
            print(json.dumps({"alarm": row | {"found_at": str(row["found_at"])}}), flush=True)
        else:
            say(f"ALARM {line}")


def _alarm(row: dict[str, Any]) -> str:
    places = ", ".join(f"{at['process']}:{at['index']}" for at in row["witness"])
    cause = f" before {row['cause_origin']}#{row['cause_seq']}" if row["cause_origin"] else ""
    about = f"{row['origin']}#{row['seq']}{cause} " if row["seq"] else ""
    note = f"{row['note']} " if row["note"] else ""
    return f"{row['guarantee']} at {row['process']}: {about}{note}({places})"


def _follow(watching: "Watching", show: _Show, once: bool) -> None:
    """Until the run has ended, the query has, or somebody interrupts."""
    calm_since_s = time.monotonic()
    try:
        with _live() as update:
            while watching.query.isActive:
                if show.look():
                    calm_since_s = time.monotonic()
                update(show.status)
                calm_s = time.monotonic() - calm_since_s
                if not once and _has_ended(show.status, calm_s, watching.options.patience_s):
                    # The status may be that of an earlier start, and more have come since.
                    watching.judge_what_is_there()
                    if not show.look():
                        break
                time.sleep(LOOKS_S)
    except KeyboardInterrupt:
        if show.status is None:
            raise  # nothing was read: nothing can be said
        err.print("interrupted: the verdicts are on what was read", soft_wrap=True)
    watching.query.stop()
    show.look()
    watching.refuse_failure()


@contextmanager
def shown_while(watching: "Watching") -> Iterator[None]:
    """Lines about a group that something else makes run, until the block ends."""
    show = _Show(watching, "", None, as_json=False)
    is_over = Event()

    def tell() -> None:
        while not is_over.wait(LOOKS_S):
            if show.look() and show.status is not None:
                say(_line(show.status))

    speaker = Thread(target=tell, daemon=True)
    speaker.start()
    try:
        yield
        watching.judge_what_is_there()
    finally:
        is_over.set()
        speaker.join()
        watching.query.stop()
        if show.look() and show.status is not None:
            say(_line(show.status))
    watching.refuse_failure()


def _line(status: "Status") -> str:
    from tidings.pipeline.watching.status import owed_words

    lag = "" if status.lag_s is None else f", {status.lag_s:.1f} s after they were written"
    owed = [line for run in status.runs for line in owed_words(run.owed, most=1)]
    return "; ".join([f"watch  {many(status.rows, 'row')} judged{lag}", *owed[:1]])


def _has_ended(status: "Status | None", calm_s: float, patience_s: float) -> bool:
    """Spark calls the judge for new rows only: if none come, what is missing is given up here."""
    if status is None or calm_s <= CALM_S:
        return False
    is_patient = calm_s <= patience_s
    return bool(status.runs) and all(
        run.has_ended or (run.has_ended_but_for_parts and not is_patient) for run in status.runs
    )


@contextmanager
def _live() -> Iterator[Any]:
    """In a terminal a table that changes; elsewhere nothing."""
    if not out.is_terminal:
        yield lambda status: None
        return
    from tidings.report.live import live_table

    with Live(console=out, refresh_per_second=4, transient=True) as live:
        yield lambda status: live.update(live_table(status))


def _concluded(watching: "Watching") -> dict[str, Any]:
    """The verdicts at the end. What the watch had to give up, the audit of the folder judges."""
    from tidings.pipeline.watching.running import has_holes

    verdicts, options = watching.verdicts(), watching.options
    folder = options.folder
    notes = [one.note for five in verdicts.values() for one in five]
    is_left = any("not all could be judged" in note for note in notes) or has_holes(options)
    if folder is not None and is_left:
        from tidings import pipeline

        err.print("not everything could be judged as it came: auditing the folder", soft_wrap=True)
        audited = pipeline.audit_here(folder, examples=3).verdicts.items()
        return {run: _and_what_was_seen(five, verdicts.get(run, ())) for run, five in audited}
    return verdicts


def _and_what_was_seen(audited: Sequence[Verdict], seen: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """A breach that rows have shown stays one, though retention has deleted them since."""
    broken = {one.guarantee: one for one in seen if one.value is Value.VIOLATED}
    return tuple(
        one if one.value is Value.VIOLATED else broken.get(one.guarantee, one) for one in audited
    )


def _tell(
    manifests: dict[str, Manifest],
    verdicts: dict[str, Any],
    folder: Path | None,
    as_json: bool,
    rows: int,
) -> None:
    if as_json:
        runs = [result(manifests[run], five) for run, five in verdicts.items()]
        print(json.dumps({"rows": rows, "runs": runs}, ensure_ascii=False))
        return
    say(f"{many(rows, 'row')} watched on Spark")
    for run, five in verdicts.items():
        out.print()
        print_verdicts(manifests[run], five, folder=folder)
