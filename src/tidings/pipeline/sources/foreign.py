"""From a log and a mapping to the folder of a trace: whole, or not at all.

Messages known by an id get names like p1#4: the fourth message that p1 broadcast. The broadcasts
are numbered first, then every row about a message is joined with the name of its id, and all rows
are exchanged by history. An id that was delivered and never broadcast has no name. It is ascribed
to a process whose history does not tell its end, for that one may have broadcast it, and the
verdicts are unknown. If there is none, it is the message of nobody, and a violation. Both are rare,
and only then the rows are laid out once more.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidings.core import DataError, Members, UsageError
from tidings.pipeline.progress import Show, silent
from tidings.pipeline.sources.ends import NOBODY, Ends, HistoryEnding
from tidings.pipeline.sources.laying import Laid, Sheet, files_of, lay_out
from tidings.pipeline.sources.meaning import KIND, Meaning
from tidings.pipeline.sources.numbering import AT_THE_END, BY_MAPPING, RUN_BITS, NumberingFault
from tidings.pipeline.sources.reading import (
    NO_OPTIONS,
    Options,
    Reading,
    format_of,
    is_frame,
    is_uri,
    read_files,
    read_frame,
    read_kafka,
)
from tidings.pipeline.sources.survey import LINE_BITS, OpenQuoteError, Survey, survey
from tidings.pipeline.sources.unread import reading_of, secrets_kept
from tidings.pipeline.spark.spool import literally
from tidings.trace import KINDS, SCHEMA_VERSION, Manifest, refuse_to_overwrite
from tidings.trace.foreign import LINE, MESSAGES
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
    keeps_text = keeps_text or mapping.keep.text
    joins_lines = False
    while True:
        reading = _read(spark, logs, mapping, form, options, joins_lines)
        meaning = Meaning(reading, mapping, run)
        progress("reading the log")
        with _read_once(spark, meaning.rows(keeps_text), folder) as rows:
            try:
                found = survey(rows, reading, meaning, mapping)
                return _Ingest(spark, rows, found, mapping, folder, reading, progress).done()
            except OpenQuoteError:
                joins_lines = True


@contextmanager
def _read_once(spark: SparkSession, rows: DataFrame, folder: Path) -> Iterator[DataFrame]:
    """The rows, stored beside the folder as long as the block lasts: the source is read once."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as draft:
        stored, schema = Path(draft, "rows"), rows.schema
        rows.write.parquet(str(stored), compression="lz4")
        yield spark.read.schema(schema).parquet(literally(stored))


def _read(
    spark: SparkSession,
    logs: Source,
    mapping: LogMapping,
    form: str | None,
    options: Options,
    joins_lines: bool,
) -> Reading:
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
        spark: SparkSession,
        rows: DataFrame,
        found: Survey,
        mapping: LogMapping,
        folder: Path,
        reading: Reading,
        progress: Show,
    ) -> None:
        self.spark = spark
        self.rows = rows
        self.survey = found
        self.mapping = mapping
        self.folder = folder
        self.progress = progress
        self.keeps_places = reading.has_places
        if found.read == found.ignored:
            name = found.labels[0] if found.labels else next(iter(reading.labels.values()), "it")
            raise DataError(f"{name}: no row to judge ({found.ignored:,} ignored)")
        self.ends = Ends(mapping, found)
        self.runs = {run: number for number, run in enumerate(found.runs)}
        self.names: dict[str, list[str]] = {run: [] for run in self.runs}
        for run, process in found.histories:
            self.names[run].append(process)
        for run, names in self.names.items():
            known = {*names}
            names += [name for name in self.ends.processes(run) if name not in known]
        for run in self.runs:
            self._manifest(run)  # what cannot be a trace is refused before any row is moved

    def done(self) -> Ingested:
        self.positions = {
            run: {name: position for position, name in enumerate(names)}
            for run, names in self.names.items()
        }
        settled = {(run, name) for run in self.runs for name in self.ends.settled(run)}
        rows = {key: kinds.total() for key, kinds in self.survey.histories.items()}
        self.files = files_of(
            (self._history(run, name), rows.get((run, name), 0) + ((run, name) in settled))
            for run, names in self.names.items()
            for name in names
        )
        events = self._events()
        self.progress("finding the broadcast of each message, and putting all rows in order")
        if self.mapping.columns.id is None:
            laid = self._lay_out(events)
        else:
            names = self._names(events)
            laid = self._lay_out(self._named(events, names))
            if laid.nameless:
                self.progress("naming what nobody is seen to broadcast")
                invented = self._invented(self._named(events, names), self._endings(laid))
                names = names.unionByName(invented)
                laid = self._lay_out(self._named(events, names))
        manifests = tuple(self._manifest(run) for run in self.runs)
        (self.folder / MANIFEST).write_bytes(msgspec.json.Encoder().encode_lines(manifests))
        endings = self._endings(laid)
        return Ingested(
            read=self.survey.read,
            ignored=self.survey.ignored,
            rows=laid.kinds.total(),
            kinds=dict(laid.kinds),
            manifests=manifests,
            untold={run: self.ends.untold(run, endings) for run in self.runs},
        )

    # --- numbers for names

    def _history(self, run: str, name: str) -> int:
        return self.runs[run] << RUN_BITS | self.positions[run][name]

    def _histories(self) -> DataFrame:
        """run, process, history, file: small enough for every worker."""
        rows = [
            {"run": run, "process": name, "history": number, "file": self.files.get(number, 0)}
            for run, names in self.names.items()
            for position, name in enumerate(names)
            for number in [self.runs[run] << RUN_BITS | position]
        ]
        schema = pa.schema(
            {"run": pa.string(), "process": pa.string(), "history": pa.int64(), "file": pa.int32()}
        )
        return F.broadcast(self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema)))

    def _blocks(self) -> DataFrame:
        rows = [
            {
                "source": block.source,
                "start": block.start,
                "offset": (block.file << LINE_BITS) + block.offset,
            }
            for block in self.survey.blocks
        ]
        schema = pa.schema({"source": pa.string(), "start": pa.int64(), "offset": pa.int64()})
        return F.broadcast(self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema)))

    # --- rows

    def _events(self) -> DataFrame:
        """The rows that count, in numbers; and the ends that the mapping gives."""
        histories = self._histories()
        rows = (
            self.rows.where(F.col("kind") >= 0)
            .join(self._blocks(), ["source", "start"], "inner")
            .join(histories, ["run", "process"], "inner")
            .withColumn("place", F.col("position") + F.col("offset"))
        )
        if self.mapping.columns.order == LINE:
            rows = rows.withColumn("order", F.col("place"))
        if "origin" in rows.columns:
            origins = histories.select(
                "run", F.col("process").alias("origin"), F.col("history").alias("of")
            )
            position = F.col("of").bitwiseAND(F.lit((1 << RUN_BITS) - 1)).cast("smallint")
            rows = rows.join(origins, ["run", "origin"], "left").withColumn("origin", position)
        kept = [name for name in _COLUMNS if name in rows.columns]
        settles = self._settles(kept, rows)
        rows = rows.select(*kept)
        return rows if settles is None else rows.unionByName(settles)

    def _settles(self, columns: Sequence[str], like: DataFrame) -> DataFrame | None:
        settled = [self._history(run, name) for run in self.runs for name in self.ends.settled(run)]
        if not settled:
            return None
        table = pa.table(
            {
                "history": pa.array(settled, pa.int64()),
                "file": pa.array([self.files[one] for one in settled], pa.int32()),
            }
        )
        known = {
            "order": F.lit(AT_THE_END),
            "place": F.lit(BY_MAPPING),
            "kind": F.lit(KIND["settle"]),
            "time_ns": F.lit(0),
            "history": F.col("history"),
            "file": F.col("file"),
        }
        return self.spark.createDataFrame(table).select(
            *(
                known.get(name, F.lit(None)).cast(like.schema[name].dataType).alias(name)
                for name in columns
            )
        )

    def _lay_out(self, events: DataFrame) -> Laid:
        sheet = Sheet(str(self.folder), list(self.runs), self.survey.labels, self.keeps_places)
        laid = lay_out(self.spark, events, max(self.files.values()) + 1, sheet)
        for fault in laid.faults[:1]:
            self._refuse(fault, events)
        return laid

    def _endings(self, laid: Laid) -> dict[tuple[str, str], HistoryEnding]:
        runs = list(self.runs)
        return {
            (run, self.names[run][history & (1 << RUN_BITS) - 1]): HistoryEnding(*ending)
            for history, ending in laid.endings.items()
            for run in [runs[history >> RUN_BITS]]
        }

    # --- messages known by ids

    def _key(self) -> list[str]:
        return ["number", "id"] if self.mapping.columns.origin is None else ["number", "id", "by"]

    def _names(self, events: DataFrame) -> DataFrame:
        """For each id that was broadcast: number (of the run), id, by, origin, seq."""
        in_order = Window.partitionBy("history").orderBy("order", "place")
        return (
            _keyed(events.where(F.col("kind") == KIND["broadcast"]))
            .withColumn("seq", F.row_number().over(in_order).cast("bigint"))
            .groupBy(*self._key())
            .agg(F.min(_process()).alias("origin"), F.min("seq").alias("seq"))
        )

    def _named(self, events: DataFrame, names: DataFrame) -> DataFrame:
        """The same rows, messages by their names instead of their ids."""
        is_nameless = F.col("seq").isNull() | (F.col("kind") == KIND["broadcast"])
        return (
            _keyed(events)
            .join(names.hint("shuffle_hash"), self._key(), "left")
            .withColumn("message", F.when(is_nameless, F.col("id")))
        )

    def _invented(self, named: DataFrame, endings: Mapping[Any, HistoryEnding]) -> DataFrame:
        """Names for what nobody is seen to broadcast: an origin, the one that the log names if it
        does, and a number that it has not used."""
        suspects = []
        for run, number in self.runs.items():
            untold = next(iter(self.ends.untold(run, endings)), NOBODY)
            if untold not in self.names[run]:
                self.names[run].append(untold)
            for position, name in enumerate(self.names[run]):
                ending = endings.get((run, name))
                if self.mapping.columns.origin is not None or name == untold:
                    suspects.append(
                        {
                            "number": number,
                            "by": position,
                            "own": ending.broadcasts if ending is not None else 0,
                        }
                    )
        schema = pa.schema({"number": pa.int64(), "by": pa.int16(), "own": pa.int64()})
        table = self.spark.createDataFrame(pa.Table.from_pylist(suspects, schema=schema))
        is_lost = F.col("kind").isin([KIND[kind] for kind in MESSAGES]) & F.col("seq").isNull()
        keys = [key for key in self._key() if key != "id"]
        in_order = Window.partitionBy("number", "by").orderBy("id")
        return (
            named.where(is_lost)
            .select(*self._key())
            .distinct()
            .join(F.broadcast(table), keys, "inner")
            .withColumn("seq", F.col("own") + F.row_number().over(in_order))
            .select(*self._key(), F.col("by").cast("bigint").alias("origin"), "seq")
        )

    # --- what is wrong

    def _refuse(self, fault: NumberingFault, events: DataFrame) -> None:
        run = list(self.runs)[fault.history >> RUN_BITS]
        name = self.names[run][fault.history & (1 << RUN_BITS) - 1]
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
        if fault.what == "tie":
            other = self.survey.place(fault.other)
            raise DataError(
                f"{place}: {name} has a row of the same order in {other}: which comes first?"
            )
        raise DataError(
            f"{place}: the id of a message that {self._first_of(fault, events)} has broadcast "
            "already; if ids are only unique for each origin, say which column tells it "
            "(columns.origin)"
        )

    def _first_of(self, fault: NumberingFault, events: DataFrame) -> str:
        """Where the same id was broadcast before."""
        same = events.where(F.col("kind") == KIND["broadcast"]).join(
            events.where(F.col("place") == fault.place).select("message"), "message", "left_semi"
        )
        others = same.where(F.col("place") != fault.place).select("place").collect()
        return self.survey.place(min(one["place"] for one in others))

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


_COLUMNS = (
    *("file", "history", "order", "place", "kind", "time_ns"),
    *("origin", "id", "seq", "digest", "text"),
)


def _process() -> Column:
    return F.col("history").bitwiseAND(F.lit((1 << RUN_BITS) - 1))


def _keyed(events: DataFrame) -> DataFrame:
    """With what an id is unique in: the run, and perhaps the origin."""
    keyed = events.withColumn("number", F.shiftright("history", RUN_BITS))
    return keyed.withColumnRenamed("origin", "by")
