"""From a log and a mapping to the folder of a trace: whole, or not at all.

The workers read and interpret pieces of the log, and store what counts (``storing``). The driver
puts together what they found (``survey``). If messages are known by ids, the broadcasts get names
(``names``); then the histories are gathered, numbered and written (``laying``). An id that was
delivered and never broadcast has no name. It is ascribed to a process whose history does not tell
its end, for that one may have broadcast it, and the verdicts are unknown. If there is none, it is
the message of nobody, and a violation. Both are rare, and only then the rows are laid out again.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidings.core import DataError, Members, UsageError
from tidings.pipeline.arrays.perform import Perform
from tidings.pipeline.arrays.rows import UnreadableError
from tidings.pipeline.progress import Show, silent
from tidings.pipeline.sources.ends import NOBODY, Endings, Ends
from tidings.pipeline.sources.gathering import Gathering, Shelf, Slice
from tidings.pipeline.sources.laying import Laid, Sheet, files_of, lay_out
from tidings.pipeline.sources.meaning import Meaning
from tidings.pipeline.sources.names import invented, names_of
from tidings.pipeline.sources.numbering import POSITION, RUN_BITS, NumberingFault
from tidings.pipeline.sources.reading import (
    NO_OPTIONS,
    Log,
    Options,
    format_of,
    is_frame,
    is_uri,
    read_files,
    read_frame,
    read_kafka,
    stores_of,
)
from tidings.pipeline.sources.survey import Sources, Survey, survey
from tidings.pipeline.sources.unread import reading_of, secrets_kept
from tidings.pipeline.spark.spool import unseen
from tidings.pipeline.spark.workers import UnseenError, performing
from tidings.trace import KINDS, SCHEMA_VERSION, Manifest, refuse_to_overwrite
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.layout import MANIFEST
from tidings.trace.manifest import check

Paths = Path | str | Sequence[Path | str]
Source = DataFrame | Paths


class Ingested(msgspec.Struct, frozen=True):
    """What became of a log."""

    read: int
    """How many rows the log has, those ignored included."""
    ignored: int
    rows: int
    """How many rows the trace has, those from the mapping included."""
    kinds: dict[str, int]
    manifests: tuple[Manifest, ...]
    untold: dict[str, Members]
    """For each run those of whose end neither the log nor the mapping says anything."""


def ingest(
    spark: SparkSession,
    logs: Source,
    mapping: LogMapping,
    folder: Path,
    *,
    form: str | None = None,
    options: Options = NO_OPTIONS,
    keeps_text: bool = False,
    progress: Show = silent,
) -> Ingested:
    """Make a trace of the logs in a new folder, or nothing at all."""
    refuse_to_overwrite(folder)
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as draft:
        trace = Path(draft, "trace")
        trace.mkdir()
        with secrets_kept(options), reading_of(_name_of(logs)):
            done = lay_out_log(
                spark, logs, mapping, trace, mapping.run or folder.name,
                form=form, options=options, keeps_text=keeps_text, progress=progress,
            )  # fmt: skip
        trace.rename(folder)
    return done


def _name_of(logs: Source) -> str:
    if is_frame(logs):
        return "the DataFrame"
    names: Any = [logs] if isinstance(logs, Path | str) else logs
    return str(names[0]) if len(names) == 1 else "the logs"


def lay_out_log(
    spark: SparkSession,
    logs: Source,
    mapping: LogMapping,
    folder: Path,
    run: str,
    *,
    form: str | None = None,
    options: Options = NO_OPTIONS,
    keeps_text: bool = False,
    progress: Show = silent,
) -> Ingested:
    """Make a trace of the logs in an empty folder."""
    meaning = Meaning(mapping, run, keeps_text or mapping.keep.text)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as stores:
        progress("reading the log")
        try:
            found, log = _surveyed(spark, logs, meaning, form, options, Path(stores))
            ingest = _Ingest(performing(spark), found, mapping, folder, Path(stores), progress)
            return ingest.done(log.sources)
        except UnseenError as fault:
            raise unseen(Path(fault.path), str(fault)) from None
        except UnreadableError as fault:
            raise DataError(f"{fault.path}: cannot be read: {fault.reason}") from None


def _surveyed(
    spark: SparkSession, logs: Source, meaning: Meaning, form: str | None, options: Options,
    folder: Path,
) -> tuple[Survey, Log]:  # fmt: skip
    """All rows in stores; if a quote goes over lines, the log is read anew."""
    for joins_lines in (False, True):
        log = _read(spark, logs, meaning.mapping, form, options, joins_lines)
        stores = stores_of(spark, log, meaning._replace(is_csv=log.is_csv), folder)
        if not any(one.has_open_quote for one in stores):
            break
    return survey(stores, log.sources), log


def _read(
    spark: SparkSession,
    logs: Source,
    mapping: LogMapping,
    form: str | None,
    options: Options,
    joins_lines: bool,
) -> Log:
    if is_frame(logs):
        return read_frame(logs, mapping, "the DataFrame")
    given: Any = [logs] if isinstance(logs, Path | str) else logs
    if form == "kafka":
        return read_kafka(spark, list(map(str, given)), mapping, options)
    paths = found_files(given, is_table=form is not None)
    forms = {form or format_of(path) for path in paths}
    readings = [
        read_files(
            spark,
            [path for path in paths if (form or format_of(path)) == one],
            mapping,
            form=one,
            options=options,
            joins_lines=joins_lines,
        )
        for one in sorted(forms)
    ]
    if len(readings) > 1:
        raise UsageError(f"{paths[0]}: all logs have to be of one kind, not {', '.join(forms)}")
    return readings[0]


def found_files(given: Sequence[Path | str], *, is_table: bool = False) -> list[str]:
    """What is there, patterns resolved; a URI is for Hadoop to find."""
    paths: list[str] = []
    for one in map(str, given):
        if is_uri(one) or (is_table and Path(one).is_dir()):
            found = [one]
        else:
            found = [one] if Path(one).is_file() else _matching(one)
        if not found and is_table:
            found = [one]
        if not found:
            raise UsageError(f"{one}: no such file")
        paths += found
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path} is given twice")
    return paths


def _matching(pattern: str) -> list[str]:
    anchor = Path(pattern).anchor
    return sorted(map(str, Path(anchor).glob(pattern.removeprefix(anchor))))


class _Ingest:
    def __init__(
        self,
        perform: Perform,
        found: Survey,
        mapping: LogMapping,
        folder: Path,
        stores: Path,
        progress: Show,
    ) -> None:
        self.perform = perform
        self.survey = found
        self.mapping = mapping
        self.folder = folder
        self.stores = stores
        self.progress = progress

    def done(self, sources: Sources) -> Ingested:
        found = self.survey
        if found.read == found.ignored:
            name = next(iter([*found.labels, *sources.given]), "it")
            raise DataError(f"{name}: no row to judge ({found.ignored:,} ignored)")
        self._name_all()
        self.shelves = self._shelves()
        self.jobs = self._jobs()
        self.sheet = Sheet(
            str(self.folder), list(self.runs), found.labels, sources.have_places, str(self.stores)
        )
        self.progress("finding the broadcast of each message, and putting all rows in order")
        laid = self._lay_out()
        manifests = tuple(self._manifest(run) for run in self.runs)
        (self.folder / MANIFEST).write_bytes(msgspec.json.Encoder().encode_lines(manifests))
        endings = self._endings(laid)
        return Ingested(
            read=found.read,
            ignored=found.ignored,
            rows=laid.kinds.total(),
            kinds=dict(laid.kinds),
            manifests=manifests,
            untold={run: self.ends.untold(run, endings) for run in self.runs},
        )

    # --- numbers for names

    def _name_all(self) -> None:
        """Who is in each run; what cannot be a trace is refused before any row is moved."""
        self.ends = Ends(self.mapping, self.survey)
        self.runs = {run: number for number, run in enumerate(self.survey.runs)}
        self.names: dict[str, list[str]] = {run: [] for run in self.runs}
        for run, process in self.survey.histories:
            self.names[run].append(process)
        for run, names in self.names.items():
            known = {*names}
            names += [name for name in self.ends.processes(run) if name not in known]
        for run in self.runs:
            self._manifest(run)
        self.positions = {
            run: {name: position for position, name in enumerate(names)}
            for run, names in self.names.items()
        }

    def _history(self, run: str, name: str) -> int:
        return self.runs[run] << RUN_BITS | self.positions[run][name]

    def _shelves(self) -> list[Shelf]:
        return [
            Shelf(
                store.path,
                blocks,
                [self.positions[one.run][one.process] for one in store.histories],
            )
            for store, blocks in zip(self.survey.stores, self.survey.blocks, strict=True)
        ]

    def _jobs(self) -> list[list[Gathering]]:
        """For each file of the trace, the histories in it."""
        slices: dict[int, list[Slice]] = {
            self._history(run, name): [] for run, names in self.names.items() for name in names
        }
        for shelf, store in enumerate(self.survey.stores):
            end = 0
            for one in store.histories:
                begin, end = end, end + one.rows
                if one.rows:
                    slices[self._history(one.run, one.process)].append(Slice(shelf, begin, end))
        settled = {self._history(run, name) for run in self.runs for name in self.ends.settled(run)}
        files = files_of(
            (history, sum(end - begin for _, begin, end in parts) + (history in settled))
            for history, parts in slices.items()
        )
        jobs: list[list[Gathering]] = [[] for _ in range(max(files.values()) + 1)]
        for history, parts in slices.items():
            jobs[files[history]].append(Gathering(history, parts, history in settled))
        return jobs

    # --- rows

    def _lay_out(self) -> Laid:
        names, fault = None, None
        if self.mapping.columns.id is not None:
            broadcasts = sum(kinds["broadcast"] for kinds in self.survey.histories.values())
            has_origin = self.mapping.columns.origin is not None
            names, fault = names_of(
                self.perform, self.jobs, self.shelves, has_origin, broadcasts, self.stores
            )
        laid = lay_out(self.perform, self.jobs, self.shelves, names, self.sheet)
        self._refuse([*laid.faults, *filter(None, [fault])])
        if names is None or not laid.lost:
            return laid
        self.progress("naming what nobody is seen to broadcast")
        names = names._replace(others=self._invented(laid))
        return lay_out(self.perform, self.jobs, self.shelves, names, self.sheet)

    def _endings(self, laid: Laid) -> Endings:
        runs = list(self.runs)
        return {
            (run, self.names[run][history & POSITION]): kind
            for history, kind in laid.endings.items()
            for run in [runs[history >> RUN_BITS]]
        }

    def _invented(self, laid: Laid) -> str:
        """Names for what nobody is seen to broadcast: an origin, the one that the log names if it
        does, and a number that it has not used."""
        endings = self._endings(laid)
        suspects = []
        for run in self.runs:
            untold = next(iter(self.ends.untold(run, endings)), NOBODY)
            if untold not in self.names[run]:
                self.names[run].append(untold)
            suspects.append(self.names[run].index(untold))

        def used(run: int, position: int) -> int:
            name = list(self.runs)[run]
            kinds = self.survey.histories.get((name, self.names[name][position]), Counter())
            return kinds["broadcast"]

        return invented(laid.lost, suspects, used, self.stores)

    # --- what is wrong

    def _refuse(self, faults: Sequence[NumberingFault]) -> None:
        """The first that is wrong in the log."""
        fault = min(faults, default=None)
        if fault is None:
            return
        run = list(self.runs)[fault.history >> RUN_BITS]
        name = self.names[run][fault.history & POSITION]
        if fault.what == "over":
            if self.mapping.end.listed:
                last = KINDS[fault.other]
                raise DataError(
                    f"end.settled: {name} is listed, but its history ends with a {last}"
                )
            return
        place = self.survey.place(fault.place)
        if fault.what == "acts":
            raise DataError(
                f"{place}: {name} acts ({fault.kind}) after its {KINDS[fault.other]}; "
                "which rows say that it came back (kinds.recover)?"
            )
        other = self.survey.place(fault.other)
        if fault.what == "tie":
            raise DataError(
                f"{place}: {name} has a row of the same order in {other}: which comes first?"
            )
        raise DataError(
            f"{place}: the id of a message that {other} has broadcast already; if ids are only "
            "unique for each origin, say which column tells it (columns.origin)"
        )

    def _manifest(self, run: str) -> Manifest:
        manifest = Manifest(
            schema=SCHEMA_VERSION,
            run=run,
            names=tuple(self.names[run]),
            views=(self.ends.members(run),),
            protocol=self.mapping.system,
            fates=self.ends.fates(run),
            clock=None if self.mapping.columns.time is None else "wall",
        )
        check(manifest)
        return manifest
