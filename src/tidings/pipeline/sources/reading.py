"""Where the rows of a log come from: files that every worker reads by itself, or Spark's readers.

A place is a source (a file, a partition of a topic) and a position in it. Text files on a file
system are cut into pieces (``lines``). Lines behind a URI, tables and Kafka come as a DataFrame,
whose partitions the workers interpret as they arrive. The positions of lines count within a piece
or a block of Spark's, until ``survey`` has heard how many lines all those before it have; rows of
Parquet and of Kafka know their positions themselves.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, TimestampType

from tidings import __version__
from tidings.core import DataError, UsageError
from tidings.pipeline.sources.cells import CsvLines, JsonLines, as_texts
from tidings.pipeline.sources.lines import (
    COMPRESSED,
    LineCounter,
    Lines,
    Piece,
    begin_of,
    first_line,
    pieces_of,
    store_pieces,
    tasks_for,
)
from tidings.pipeline.sources.meaning import ABSENT, Meaning
from tidings.pipeline.sources.storing import Chunk, Store, store
from tidings.pipeline.sources.survey import Sources
from tidings.pipeline.sources.unread import named_by_spark, unread
from tidings.pipeline.spark.spool import literally
from tidings.pipeline.spark.workers import RESULT, packed, performing, results
from tidings.trace.foreign import LINE
from tidings.trace.foreign import Mapping as LogMapping

ENDINGS = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".log": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
KAFKA = "kafka."
"""In a mapping, ``kafka.offset`` is a column of Kafka's own; all others are fields of the value."""

Options = Mapping[str, str]
NO_OPTIONS: Options = {}


def is_frame(source: object) -> TypeGuard[DataFrame]:
    """Whether it is a DataFrame, be it of Spark or of Spark Connect."""
    return hasattr(source, "schema") and hasattr(source, "toArrow")


class Log(NamedTuple):
    """Rows that are read when they are asked for: from files, or from a DataFrame."""

    sources: Sources
    pieces: Sequence[Piece] = ()
    frame: DataFrame | None = None
    """``source``, ``start``, ``position``; ``value`` if it has lines; and a column ``c0``, ``c1``,
    ... for each that Spark has read already."""
    lines: Mapping[str, Lines] | JsonLines | None = None
    """What becomes of a value of the frame, perhaps by the source."""
    is_csv: bool = False


def format_of(path: str) -> str:
    """What kind of file it is, by its ending."""
    name = Path(urlsplit(path).path if is_uri(path) else path)
    suffixes = [suffix for suffix in name.suffixes if suffix not in COMPRESSED]
    if suffixes and suffixes[-1] in ENDINGS:
        return ENDINGS[suffixes[-1]]
    raise UsageError(f"{path}: not a .jsonl, .csv or .parquet file")


def is_uri(path: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", path) is not None


def read_files(
    spark: SparkSession,
    paths: Sequence[str],
    mapping: LogMapping,
    *,
    form: str,
    options: Options = NO_OPTIONS,
    joins_lines: bool = False,
) -> Log:
    """Files of one format, in the order in which they are given."""
    if form in ("csv", "json"):
        return _read_lines(spark, paths, mapping, form, options, joins_lines)
    table = read_table(spark, paths, form, options)
    columns = [_table_column(paths[0], table, name) for name in mapping.read_columns]
    if form != "parquet":
        return read_frame(table, mapping, paths[0] if paths else form)
    placed = _placed(table, columns, F.col("_metadata.file_path"), F.col("_metadata.row_index") + 1)
    return Log(Sources(paths, are_lines=False), frame=placed)


def read_table(spark: SparkSession, paths: Sequence[str], form: str, options: Options) -> DataFrame:
    """A table by Spark's own reader of that format."""
    places = [path if _is_name(path) else _for_spark(path) for path in paths]
    reader = spark.read.format(form).options(**options)
    try:
        table = reader.load(places if len(places) > 1 else places[0]) if places else reader.load()
        table.schema  # noqa: B018 - Connect asks the server only now
        return table
    except Exception as fault:
        # The readers of Parquet, of Hadoop and of connectors fail in Java, each in its own way.
        raise unread(paths[0] if paths else form, form, fault) from None


def read_frame(frame: DataFrame, mapping: LogMapping, name: str) -> Log:
    """A table of any kind; its rows have a place if the mapping says which column it is."""
    columns = [_table_column(name, frame, column) for column in mapping.read_columns]
    if mapping.columns.order == LINE:
        raise UsageError(
            f"{name}: the rows of a table have no order; columns.order has to name one"
        )
    place = mapping.columns.place
    unplaced = F.monotonically_increasing_id()
    position = unplaced if place is None else _column(name, frame, place)
    placed = _placed(frame, columns, F.lit(name), position.cast("bigint"))
    return Log(Sources([], are_lines=False, have_places=place is not None), frame=placed)


def read_kafka(
    spark: SparkSession, topics: Sequence[str], mapping: LogMapping, options: Options
) -> Log:
    """Records whose values are JSON objects; the columns of Kafka itself as ``kafka.offset``.

    All records there are, of these topics, unless the options ask for others.
    """
    if mapping.columns.order == LINE:
        raise UsageError(
            f"{', '.join(topics)}: partitions have no order between them; columns.order has to "
            "name one, such as kafka.offset if each process writes to one partition"
        )
    if not {"subscribe", "subscribePattern", "assign"} & options.keys():
        options = {"subscribe": ",".join(topics), **options}
    options = {"startingOffsets": "earliest", **options}
    fields = ("topic", "partition", "offset", "timestamp", "key")
    records = read_table(spark, [], "kafka", options).withColumn("kafka", F.struct(*fields))
    own = [name for name in mapping.read_columns if not name.startswith(KAFKA)]
    frame = records.select(
        F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("source"),
        F.lit(0).cast("bigint").alias("start"),
        F.col("offset").alias("position"),
        F.col("value").cast("binary").alias("value"),
        *(
            F.col(name).cast("string").alias(f"c{number}")
            for number, name in enumerate(mapping.read_columns)
            if name.startswith(KAFKA)
        ),
    )
    return Log(Sources([], are_lines=False), frame=frame, lines=JsonLines(own))


# --- lines


def _read_lines(
    spark: SparkSession,
    paths: Sequence[str],
    mapping: LogMapping,
    form: str,
    options: Options,
    joins_lines: bool,
) -> Log:
    forms = {path: _lines_of(spark, path, mapping, form, options, joins_lines) for path in paths}
    sources = Sources(paths)
    if not options and not any(map(is_uri, paths)):
        pieces = [
            piece
            for path, lines in forms.items()
            for piece in pieces_of(str(Path(path).resolve()), path, lines)
        ]
        return Log(sources, pieces, is_csv=form == "csv")
    frame = _values(spark, paths, options)
    if joins_lines:
        count = len(paths)
        frame = frame.repartition(count, "source").sortWithinPartitions("source", "start", "line")
        frame = frame.withColumn("start", F.lit(0).cast("bigint"))
    return Log(sources, frame=frame.drop("line"), lines=forms, is_csv=form == "csv")


def _lines_of(
    spark: SparkSession,
    path: str,
    mapping: LogMapping,
    form: str,
    options: Options,
    joins_lines: bool,
) -> Lines:
    if form == "json":
        return JsonLines(mapping.read_columns)
    delimiter = "\t" if ".tsv" in Path(path).suffixes else mapping.csv.delimiter
    header: Sequence[str] = mapping.csv.header
    if not header:
        line = first_line(_begin(spark, path, options))
        header = next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
    check_columns(path, mapping.read_columns, header)
    return CsvLines(mapping.read_columns, header, delimiter, not mapping.csv.header, joins_lines)


def _begin(spark: SparkSession, path: str, options: Options) -> bytes:
    if not is_uri(path):
        return begin_of(path)
    first = _values(spark, [path], options).limit(1).collect()
    return bytes(first[0]["value"]) if first else b""


def _values(spark: SparkSession, paths: Sequence[str], options: Options) -> DataFrame:
    """The lines of files that only Spark can open; those of a block stay together, in order."""
    places = list(map(_for_spark, paths))
    try:
        lines = spark.read.options(**{"lineSep": "\n", **options}).text(places)
        return lines.select(
            F.col("_metadata.file_path").alias("source"),
            F.col("_metadata.file_block_start").alias("start"),
            F.lit(0).cast("bigint").alias("position"),
            F.col("value").cast("binary").alias("value"),
            F.monotonically_increasing_id().alias("line"),
        )
    except AnalysisException as fault:
        raise unread(paths[0], "text", fault) from None


def _is_name(path: str) -> bool:
    """Whether it is that of a table in a catalog, and not of anything on this machine."""
    return not is_uri(path) and not Path(path).exists()


def _for_spark(path: str) -> str:
    """Java has a working folder of its own."""
    return path if is_uri(path) else literally(Path(path).resolve())


def path_of(name: str) -> str:
    """A file by its path if it is here, otherwise by its URI."""
    return named_by_spark(name) if is_uri(name) else str(Path(name).resolve())


# --- tables


def check_columns(name: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    for column in wanted:
        if column not in found:
            raise DataError(f"{name}: no column {column!r}; there are: {', '.join(found)}")


def _column(name: str, table: DataFrame, column: str) -> Column:
    if column in table.columns:
        return F.col(f"`{column}`")
    if column.split(".")[0] not in table.columns:
        check_columns(name, [column], table.columns)
    return F.col(column)


def _table_column(name: str, table: DataFrame, column: str) -> Column:
    """Its values as texts; bytes and moments stay what they are."""
    found = _column(name, table, column)
    kept = (BinaryType, TimestampType)
    return found if isinstance(_type_of(table, found), kept) else found.cast("string")


def _type_of(table: DataFrame, column: Column) -> Any:
    return table.select(column.alias("c")).schema["c"].dataType


def _placed(
    table: DataFrame, columns: Sequence[Column], source: Column, position: Column
) -> DataFrame:
    return table.select(
        source.alias("source"),
        F.lit(0).cast("bigint").alias("start"),
        position.alias("position"),
        *(column.alias(f"c{number}") for number, column in enumerate(columns)),
    )


# --- storing


def stores_of(spark: SparkSession, log: Log, meaning: Meaning, folder: Path) -> list[Store]:
    """All rows, read and interpreted by the workers, in as many stores as they like."""
    if log.frame is None:
        task = partial(store_pieces, meaning=meaning, folder=folder)
        return _flat(performing(spark)(task, tasks_for(log.pieces)))
    labels = {path_of(path): path for path in log.sources.given}
    arrived = partial(_arrived, log=log._replace(frame=None), labels=labels)
    columns, version = meaning.mapping.read_columns, __version__

    def store_batches(batches: Iterator[Any]) -> list[Store]:
        return store(arrived(batches, columns=columns), meaning, str(folder))

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        yield packed(0, store_batches, batches, version)

    return _flat(results(log.frame.mapInArrow(work, RESULT)))


def _arrived(
    batches: Iterator[Any], columns: Sequence[str], log: Log, labels: Mapping[str, str]
) -> Iterator[Chunk]:
    """The rows of a partition, those of each block together."""
    counters: dict[tuple[str, int], LineCounter] = {}
    for batch in batches:
        source = batch.column("source").dictionary_encode()
        start = batch.column("start").to_numpy()
        changes = (np.diff(source.indices.to_numpy()) != 0) | (np.diff(start) != 0)
        for begin, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]):
            if begin < end:
                name = named_by_spark(source[begin].as_py())
                block = labels.get(name, name), int(start[begin])
                yield from _chunk(batch.slice(begin, end - begin), block, columns, log, counters)
    for counter in counters.values():
        yield from counter.rest()


def _chunk(
    rows: Any,
    block: tuple[str, int],
    columns: Sequence[str],
    log: Log,
    counters: dict[tuple[str, int], LineCounter],
) -> Iterator[Chunk]:
    positions = rows.column("position").fill_null(ABSENT).to_numpy()
    if log.lines is None:
        cells = as_texts([rows.column(f"c{number}") for number in range(len(columns))], positions)
        yield Chunk(*block, cells, rows.num_rows)
        return
    values = [value or b"" for value in rows.column("value").to_pylist()]
    if isinstance(log.lines, Mapping):
        counter = counters.setdefault(block, LineCounter(*block, log.lines[block[0]]))
        yield from counter.chunks(b"".join(value + b"\n" for value in values))
        return
    cells = log.lines.of_records(values, positions)
    if len(cells.positions) < rows.num_rows:
        kept = pa.array(np.isin(positions, cells.positions))
        rows = rows.filter(kept)
    own = dict(zip(log.lines.columns, cells.columns, strict=True))
    found = [own.get(name) for name in columns]
    whole = [rows.column(f"c{number}") if one is None else one for number, one in enumerate(found)]
    yield Chunk(*block, cells._replace(columns=whole), rows.num_rows)


def _flat(stores: Sequence[Sequence[Store]]) -> list[Store]:
    return [one for some in stores for one in some]
