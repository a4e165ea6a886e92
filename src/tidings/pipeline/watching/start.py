"""``pipeline.watch``: a streaming query that judges, and its findings as a streaming DataFrame."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from tidings.core import DataError, UsageError
from tidings.pipeline.sources.reading import KAFKA
from tidings.pipeline.spark.source import register
from tidings.pipeline.watching.growing import Growing
from tidings.pipeline.watching.judge import WatchLimits
from tidings.pipeline.watching.mapped import refuse_ids
from tidings.pipeline.watching.running import (
    FINDINGS,
    BatchJudge,
    WatchOptions,
    conclusion,
    refuse_another_source,
)
from tidings.pipeline.watching.status import Status, read_status
from tidings.spec import Verdict
from tidings.trace import read_manifests
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.foreign import read_mapping
from tidings.trace.layout import MANIFEST

FOUND = (
    "key string, batch bigint, found_at timestamp, run string, guarantee string, process string, "
    "origin string, seq bigint, cause_origin string, cause_seq bigint, "
    "witness array<struct<process: string, index: bigint>>, note string"
)
"""The columns of findings, as Spark calls their types."""
NEEDED = ("run", "process", "index", "kind", "origin", "seq", "digest", "view")


class Watching:
    """A watch that runs: ``findings`` is what it finds, as a streaming DataFrame."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, options: WatchOptions) -> None:
        self.query = query
        self.options = options
        folder = options.place / FINDINGS
        folder.mkdir(parents=True, exist_ok=True)
        reader = spark.readStream.schema(FOUND).option("pathGlobFilter", "*.parquet")
        self.findings: DataFrame = reader.parquet(str(folder))  # without drafts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.query.stop()

    @property
    def status(self) -> Status | None:
        """How it stands after the last batch."""
        return read_status(self.options.place)

    def judge_what_is_there(self) -> None:
        """Wait until all has been judged that can be read now, or the query has failed."""
        with suppress(StreamingQueryException):
            self.query.processAllAvailable()

    def verdicts(self) -> dict[str, tuple[Verdict, ...]]:
        """The five on every run, if nothing more comes."""
        return conclusion(self.options)

    def refuse_failure(self) -> None:
        """Say in one line why the query has ended, if something went wrong."""
        fault = None if self.query.isActive else self.query.exception()
        if fault is not None:
            raise DataError(_reason(fault))


def watch(
    spark: SparkSession,
    source: DataFrame | Path | str,
    mapping: LogMapping | Path | str | None = None,
    *,
    checkpoint: Path | str,
    manifest: Path | str | None = None,
    every_s: float = 1.0,
    once: bool = False,
    patience_s: float = 60.0,
    limits: WatchLimits | None = None,
    options: Mapping[str, str] | None = None,
) -> Watching:
    """Judge a trace folder while members write it, or any stream.

    A stream has the columns of a trace, or a ``mapping`` says what its columns mean.

    The folder ``checkpoint`` is where it goes on after a restart. With ``once`` it ends when it has
    judged what is there. Without a ``manifest`` the members of a stream are those who have rows.
    """
    known: Any = ()
    folder = None
    if isinstance(source, Path | str):
        if manifest is not None:
            raise UsageError("--manifest does nothing here: a trace has its own")
        folder = str(Path(source).resolve())
        if not Path(folder).is_dir():
            raise UsageError(f"{source}: no such folder")
        Growing(Path(folder)).manifests()
        register(spark)
        reader = spark.readStream.format("tidings").option("packed", "true")
        stream = reader.options(**dict(options or {})).load(folder)
        if mapping is not None:
            raise UsageError("--mapping does nothing here: a trace needs none")
    elif mapping is not None:
        if manifest is not None:
            raise UsageError(
                "--manifest does nothing here: the mapping says what is known of a log"
            )
        if isinstance(mapping, Path | str):
            mapping = read_mapping(Path(mapping))
        refuse_ids(mapping)
        stream = _texts(source, mapping)
    else:
        stream = _checked(source)
        known = _manifests(manifest)
    watched = WatchOptions(
        checkpoint=str(Path(checkpoint).resolve()),
        folder=folder,
        manifests=tuple(known.values()) if known else (),
        form="packed" if folder is not None else "log" if mapping is not None else "rows",
        mapping=mapping,
        patience_s=patience_s,
        limits=limits or WatchLimits(),
    )
    refuse_another_source(watched)
    writer = (
        stream.writeStream.queryName("tidings watch")
        .foreachBatch(BatchJudge(watched))
        .option("checkpointLocation", str(Path(watched.checkpoint, "spark")))
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(
        processingTime=f"{round(every_s * 1000)} milliseconds"
    )  # fmt: skip
    return Watching(spark, writer.start(), watched)


def stream_of(spark: SparkSession, source: str, form: str, options: Mapping[str, str]) -> DataFrame:
    """What Spark reads as a stream: of Kafka, the topics are the source."""
    reader = spark.readStream.format(form)
    if form == "kafka":
        asked = {"subscribe": source, "startingOffsets": "earliest"} | dict(options)
        return reader.options(**asked).load()
    return reader.options(**dict(options)).load(source)


def _checked(stream: DataFrame) -> DataFrame:
    if not stream.isStreaming:
        raise UsageError("this DataFrame is not a stream; audit it: pipeline.audit")
    missing = [name for name in NEEDED if name not in stream.columns]
    if missing:
        raise UsageError(f"the stream lacks the column {missing[0]!r} of a trace")
    more = [name for name in ("time_ns", "value", "vector") if name in stream.columns]
    return stream.select(*NEEDED, *more)


def _texts(stream: DataFrame, mapping: LogMapping) -> DataFrame:
    """The columns that the mapping reads; of a topic they are fields of its values."""
    if not stream.isStreaming:
        raise UsageError("this DataFrame is not a stream; audit it: pipeline.audit")
    if {"topic", "partition", "offset", "value"} <= set(stream.columns):
        own = [name for name in mapping.read_columns if not name.startswith(KAFKA)]
        fields = StructType([StructField(name, StringType()) for name in own])
        kafka = F.struct(*(name for name in stream.columns if name != "value")).alias("kafka")
        value = F.from_json(F.col("value").cast("string"), fields).alias("value")
        stream = stream.select(kafka, value).select("kafka", "value.*")
    try:
        return stream.select(
            *(F.col(name).cast("string").alias(name) for name in mapping.read_columns)
        )
    except AnalysisException as fault:
        raise UsageError(f"the stream lacks a column of the mapping: {_reason(fault)}") from None


def _manifests(manifest: Path | str | None) -> dict[str, Any]:
    if manifest is None:
        return {}
    path = Path(manifest)
    if not path.is_file():
        raise UsageError(f"{path}: no such file (a file whose name ends in {MANIFEST})")
    return dict(read_manifests((path,)))


def _reason(fault: PySparkException) -> str:
    """What one of ours has to say, without the stacks of two languages around it."""
    lines = [line.strip() for line in str(fault).splitlines()]
    ours = [line for line in lines if line.startswith(("tidings.core", "DataError", "UsageError"))]
    raised = ours or [line for line in lines if re.match(r"[A-Za-z][\w.]*: ", line)]
    words = raised[-1].partition(": ")[2] if raised else lines[0]
    return words or lines[0]
