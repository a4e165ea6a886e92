"""The rows of a source, each value as the text that stands there, each row with its place.

A place is a source (a file, a partition of a topic) and a position in it. Lines have no numbers in
Spark: it reads blocks of a file side by side. So a line's position is a number that grows within
its block, and ``survey`` turns it into the line's own number once it has counted the lines of all
blocks before it. Rows of Parquet and of Kafka know their positions themselves.

CSV goes by lines as well. Only where a quote is left open at the end of a line, the lines of each
file are put together into records first, in one task a file.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from tidings.core import DataError, UsageError, without_secrets
from tidings.pipeline.sources.unread import named_by_spark, unread
from tidings.pipeline.spark.spool import literally
from tidings.trace.foreign import LINE
from tidings.trace.foreign import Mapping as LogMapping

TEXTS = ("json", "csv")
"""The formats that are read line by line."""
ENDINGS = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".log": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".zst", ".bz2")
KAFKA = "kafka."
"""In a mapping, ``kafka.offset`` is a column of Kafka's own; all others are fields of the value."""
QUOTE = '"'

Options = Mapping[str, str]
NO_OPTIONS: Options = {}


def is_frame(source: object) -> TypeGuard[DataFrame]:
    """Whether it is a DataFrame, be it of Spark or of Spark Connect."""
    return hasattr(source, "schema") and hasattr(source, "toArrow")


class Reading(NamedTuple):
    """Rows that are read when they are asked for."""

    rows: DataFrame
    """A column ``c0``, ``c1``, ... for each that the mapping reads, ``source``, ``start``,
    ``position``, ``is_row`` (not a header, not an empty line) and ``is_torn``."""
    labels: Mapping[str, str]
    """What a source is called, if not by its own name."""
    is_counted: bool
    """Whether positions have to be turned into the numbers of lines."""
    has_places: bool = True
    lines: DataFrame | None = None
    """The lines themselves, to show a bad one."""
    form: str = ""
    headers: Mapping[str, tuple[Sequence[str], str]] = {}
    """Of each CSV file its columns, and what is between them."""

    @property
    def is_csv(self) -> bool:
        """Whether nobody can tell an empty text from none."""
        return self.form == "csv"

    def label(self, source: str) -> str:
        """As the user named it."""
        name = named_by_spark(source)
        return self.labels.get(name, without_secrets(name))


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
) -> Reading:
    """Files of one format, in the order in which they are given."""
    if form == "json":
        lines = _lines(spark, paths, options)
        return Reading(
            _from_json(lines, mapping.read_columns), _labels(paths), True, lines=lines, form=form
        )
    if form == "csv":
        return _csv(spark, paths, mapping, options, joins_lines)
    table = read_table(spark, paths, form, options)
    columns = [_table_column(paths[0], table, name) for name in mapping.read_columns]
    if form != "parquet":
        return read_frame(table, mapping, paths[0] if paths else form)
    placed = _placed(
        table,
        columns,
        F.col("_metadata.file_path"),
        F.lit(0).cast("bigint"),
        F.col("_metadata.row_index") + 1,
    )
    return Reading(placed, _labels(paths), is_counted=False)


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


def read_frame(frame: DataFrame, mapping: LogMapping, name: str) -> Reading:
    """A table of any kind; its rows have a place if the mapping says which column it is."""
    columns = [_table_column(name, frame, column) for column in mapping.read_columns]
    if mapping.columns.order == LINE:
        raise UsageError(
            f"{name}: the rows of a table have no order; columns.order has to name one"
        )
    place = mapping.columns.place
    unplaced = F.monotonically_increasing_id()
    position = unplaced if place is None else _column(name, frame, place)
    placed = _placed(frame, columns, F.lit(name), F.lit(0).cast("bigint"), position.cast("bigint"))
    return Reading(placed, {}, False, place is not None)


def read_kafka(
    spark: SparkSession, topics: Sequence[str], mapping: LogMapping, options: Options
) -> Reading:
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
    records = read_table(spark, [], "kafka", options).select(
        F.col("value").cast("string").alias("value"),
        F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("source"),
        F.lit(0).cast("bigint").alias("start"),
        F.col("offset").alias("position"),
        F.struct("topic", "partition", "offset", "timestamp", "key").alias("kafka"),
    )
    return Reading(_from_json(records, mapping.read_columns), {}, False, lines=records, form="json")


# --- lines


def _lines(spark: SparkSession, paths: Sequence[str], options: Options) -> DataFrame:
    places = list(map(_for_spark, paths))
    try:
        lines = spark.read.options(**{"lineSep": "\n", **options}).text(places)
        return lines.select(
            F.when(F.col("value").endswith("\r"), F.rtrim("value", F.lit("\r")))
            .otherwise(F.col("value"))
            .alias("value"),
            F.col("_metadata.file_path").alias("source"),
            F.col("_metadata.file_block_start").alias("start"),
            F.monotonically_increasing_id().alias("position"),
        )
    except AnalysisException as fault:
        raise unread(paths[0], "text", fault) from None


def _labels(paths: Sequence[str]) -> dict[str, str]:
    """Files as the user named them, by the names that Spark has for them."""
    return {path_of(path): without_secrets(path) for path in paths}


def _is_name(path: str) -> bool:
    """Whether it is that of a table in a catalog, and not of anything on this machine."""
    return not is_uri(path) and not Path(path).exists()


def _for_spark(path: str) -> str:
    """Java has a working folder of its own."""
    return path if is_uri(path) else literally(Path(path).resolve())


def path_of(name: str) -> str:
    """A file by its path if it is here, otherwise by its URI."""
    return named_by_spark(name) if is_uri(name) else str(Path(name).resolve())


def _from_json(lines: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Top-level fields, and ``meta.id``: a field of an object in the row."""
    own = [name for name in columns if not _is_kafkas(lines, name)]
    fields = StructType([StructField(name, StringType()) for name in (*own, _TORN)])
    form = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _TORN}
    parsed = lines.withColumn("parsed", F.from_json("value", fields, form))
    if within := [name.split(".") for name in own if "." in name]:
        parsed = parsed.withColumn("within", F.from_json("value", _objects(within)))

    def column(name: str) -> Column:
        if _is_kafkas(lines, name):
            return F.col(name).cast("string")
        value = F.col("parsed").getField(name)
        if "." in name:
            value = F.coalesce(value, reduce(Column.getField, name.split("."), F.col("within")))
        return _as_written(value, name.split(".")[-1])

    is_row = F.length(F.trim("value")) > 0
    is_torn = (
        F.col("parsed").getField(_TORN).isNotNull()
        | ~F.ltrim("value").startswith("{")
        | _is_no_text(F.col("value"))
    )
    # Of a surrogate pair JSON may have one half alone: no text in UTF-8 has that.
    halves = r"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]"
    is_half = F.when(F.contains("value", F.lit("\\u")), F.col("value").rlike(halves))
    is_torn = is_torn | F.coalesce(is_half, F.lit(False))
    return parsed.select(
        *(column(name).alias(f"c{number}") for number, name in enumerate(columns)),
        *("source", "start", "position"),
        is_row.alias("is_row"),
        (is_row & is_torn).alias("is_torn"),
    )


def _as_written(value: Column, key: str) -> Column:
    """A number with a point as it stands in the line: as a float, nanoseconds would be lost."""
    written = F.regexp_extract("value", rf'"{re.escape(key)}"\s*:\s*(-?\d[\d.eE+-]*)', 1)
    is_float = F.contains(value, F.lit(".")) & value.rlike(r"^-?\d+\.\d+(E-?\d+)?$")
    is_it = written.try_cast("double") == value.try_cast("double")
    return F.when(is_float, F.when(is_it, written).otherwise(value)).otherwise(value)


def _objects(paths: Sequence[Sequence[str]]) -> StructType:
    """Objects in objects, down to the fields at the ends of these paths."""
    below: dict[str, list[Sequence[str]]] = {}
    for head, *rest in paths:
        below.setdefault(head, []).append(rest)
    return StructType(
        [
            StructField(head, _objects([one for one in rest if one]) if all(rest) else StringType())
            for head, rest in below.items()
        ]
    )


_TORN = "@torn"


def _is_kafkas(lines: DataFrame, name: str) -> bool:
    return name.startswith(KAFKA) and "kafka" in lines.columns


def _is_no_text(value: Column) -> Column:
    return ~F.is_valid_utf8(value)


# --- CSV


def _csv(
    spark: SparkSession,
    paths: Sequence[str],
    mapping: LogMapping,
    options: Options,
    joins_lines: bool,
) -> Reading:
    """Files with the same columns are read together."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for path in paths:
        delimiter = "\t" if ".tsv" in Path(path).suffixes else mapping.csv.delimiter
        line = "" if mapping.csv.header else _first_line(spark, path, options)
        header = mapping.csv.header or _cells(line, delimiter)
        check_columns(path, mapping.read_columns, header)
        alike.setdefault((line, delimiter, tuple(header)), []).append(path)
    parts, lines = [], []
    for (line, delimiter, header), those in alike.items():
        found = _lines(spark, those, options)
        if joins_lines:
            found = _records(found)
        lines.append(found)
        is_header = (F.col("start") == 0) & (F.col("value") == line) if line else F.lit(False)
        parts.append(_from_csv(found, mapping.read_columns, header, delimiter, is_header))
    return Reading(
        reduce(DataFrame.unionByName, parts),
        _labels(paths),
        is_counted=not joins_lines,
        lines=reduce(DataFrame.unionByName, lines),
        form="csv",
        headers={
            path_of(path): (header, delimiter)
            for (_, delimiter, header), those in alike.items()
            for path in those
        },
    )


def _first_line(spark: SparkSession, path: str, options: Options) -> str:
    if not is_uri(path) and not path.endswith(COMPRESSED):
        with Path(path).open("rb") as file:
            return file.readline().decode(errors="replace").rstrip("\r\n")
    first = _lines(spark, [path], options).limit(1).collect()
    return str(first[0]["value"]) if first else ""


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(line.removeprefix("\ufeff")), delimiter=delimiter), [])


def _from_csv(
    lines: DataFrame,
    columns: Sequence[str],
    header: Sequence[str],
    delimiter: str,
    is_header: Column,
) -> DataFrame:
    """A line without a quote is split; of the others Spark's parser makes cells."""
    schema = ", ".join(f"h{number} string" for number in range(len(header)))
    form = {
        "sep": delimiter,
        "escape": QUOTE,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "torn",
        "maxCharsPerColumn": "-1",
        "emptyValue": "",
    }
    quoted = F.contains("value", F.lit(QUOTE))
    parsed = F.col("parsed")
    quotes = F.length("value") - F.length(F.replace("value", F.lit(QUOTE), F.lit("")))
    cells = F.array(*(parsed.getField(f"h{number}") for number in range(len(header))))
    # What is no whole quote is left as it stands, and so begins with one.
    suspect = F.exists(cells, lambda cell: cell.startswith(QUOTE))
    is_well_quoted = F.when(suspect, F.col("value").rlike(_well_quoted(delimiter)))
    is_whole = parsed.getField("torn").isNull() & (quotes % 2 == 0)
    whole = F.when(is_whole & F.coalesce(is_well_quoted, F.lit(True)), cells)
    plain = F.when(F.size("plain") == len(header), F.col("plain"))
    split = (
        lines.withColumn(
            "parsed", F.when(quoted, F.from_csv("value", f"{schema}, torn string", form))
        )
        .withColumn("plain", F.when(~quoted, F.split("value", re.escape(delimiter))))
        .withColumn("cells", F.when(quoted, whole).otherwise(plain))
    )
    is_row = (F.length("value") > 0) & ~is_header
    return split.select(
        *(
            F.get("cells", F.lit(header.index(name))).alias(f"c{number}")
            for number, name in enumerate(columns)
        ),
        *("source", "start", "position"),
        is_row.alias("is_row"),
        (is_row & (F.col("cells").isNull() | _is_no_text(F.col("value")))).alias("is_torn"),
    )


def _well_quoted(delimiter: str) -> str:
    """Cells, each of them in quotes from end to end or beginning without one."""
    between = re.escape(delimiter)
    cell = f'(?:"(?:[^"]++|"")*+"|(?!")[^{between}]*+)'
    return f"^{cell}(?:{between}{cell})*+$"


def _records(lines: DataFrame) -> DataFrame:
    """Lines put together where a quote is open at the end; a record has its first line's number."""
    in_file = Window.partitionBy("source").orderBy("start", "position")
    before = in_file.rowsBetween(Window.unboundedPreceding, -1)
    up_to_here = in_file.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    quotes = F.length("value") - F.length(F.replace("value", F.lit(QUOTE), F.lit("")))
    is_within = F.coalesce(F.sum(quotes).over(before), F.lit(0)) % 2 == 1
    numbered = lines.withColumn("number", F.row_number().over(in_file)).withColumn(
        "is_within", is_within
    )
    begun = F.when(~F.col("is_within"), F.col("number"))
    in_order = F.array_sort(F.collect_list(F.struct("number", "value")))
    return (
        numbered.withColumn("record", F.max(begun).over(up_to_here))
        .groupBy("source", "record")
        .agg(F.array_join(F.transform(in_order, lambda one: one["value"]), "\n").alias("value"))
        .select(
            *("value", "source"),
            F.lit(0).cast("bigint").alias("start"),
            F.col("record").cast("bigint").alias("position"),
        )
    )


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
    table: DataFrame,
    columns: Sequence[Column],
    source: Column,
    start: Column,
    position: Column,
) -> DataFrame:
    texts = [column for column in columns if isinstance(_type_of(table, column), StringType)]
    is_torn = reduce(Column.__or__, map(_is_no_text, texts), F.lit(False))
    return table.select(
        *(column.alias(f"c{number}") for number, column in enumerate(columns)),
        source.alias("source"),
        start.alias("start"),
        position.alias("position"),
        F.lit(True).alias("is_row"),
        F.coalesce(is_torn, F.lit(False)).alias("is_torn"),
    )
