"""Rows that have the columns of a trace already: a DataFrame, or a trace behind a URI.

The judged columns are needed: run, process, index, kind, origin, seq, digest, view. Of the others
those are kept that a trace knows. Names of processes are texts, or positions in the names of a
manifest; without a manifest, the members of a run are whoever has a row in it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from tidings import __version__
from tidings.core import DataError, UsageError, ordered
from tidings.pipeline.progress import Show, silent
from tidings.pipeline.sources.laying import Drawer, files_of
from tidings.pipeline.sources.numbering import RUN_BITS
from tidings.pipeline.sources.reading import Options, check_columns, read_table
from tidings.pipeline.spark.maps import with_maps, without_maps
from tidings.pipeline.spark.spool import STORED, narrowed
from tidings.pipeline.spark.workers import RESULT, packed, results
from tidings.trace import SCHEMA_VERSION, Manifest
from tidings.trace.layout import MANIFEST, manifests_in
from tidings.trace.manifest import check
from tidings.trace.parquet import ARROW, LOOKED_UP, NAMES
from tidings.trace.schema import JUDGED


def lay_out_rows(
    spark: SparkSession,
    rows: DataFrame,
    folder: Path,
    name: str,
    manifests: Mapping[str, Manifest] | None = None,
    *,
    progress: Show = silent,
) -> None:
    """Make a trace of rows with its columns, in an empty folder."""
    check_columns(name, JUDGED, rows.columns)
    are_names = _are_names(rows, name)
    rows = _typed(rows, name, are_names).persist()
    try:
        progress("counting the rows of each process")
        found = rows.groupBy("run", "process").agg(F.count("*").alias("count"), F.min(BAD_DIGEST))
        counts = found.toDF("run", "process", "count", "bad").collect()
        for one in counts:
            if one["bad"] is not None:
                fault = f"digest {one['bad']!r} is not a number, nor sixteen hexadecimal digits"
                raise DataError(f"{name}: {fault}")
            if one["run"] is None or one["process"] is None:
                empty = "run" if one["run"] is None else "process"
                raise DataError(f"{name}: column {empty!r} is empty in {one['count']:,} rows")
        if not counts:
            raise DataError(f"{name}: no rows to judge")
        if manifests is None:
            if not are_names:
                raise DataError(f"{name}: processes are numbers, and no manifest says whose")
            manifests = _manifests(rows, [(one["run"], one["process"]) for one in counts])
        for run in {one["run"] for one in counts} - manifests.keys():
            raise DataError(f"{name}: run {run!r} is not in the manifest")
        numbers = {run: number for number, run in enumerate(manifests)}
        sizes = sorted(
            (numbers[one["run"]] << RUN_BITS | _position(one, manifests, name), one["count"])
            for one in counts
        )
        progress("laying out the rows by process")
        _lay_out(spark, rows.drop(BAD_DIGEST), folder, manifests, dict(files_of(sizes)), are_names)
        text = msgspec.json.Encoder().encode_lines(manifests.values())
        (folder / MANIFEST).write_bytes(text)
    finally:
        rows.unpersist()


def _are_names(rows: DataFrame, name: str) -> bool:
    """Whether processes are named by texts."""
    types = {rows.schema[column].dataType.typeName() for column in ("process", "origin")}
    if len(types - {"void"}) > 1 and "string" in types:
        raise DataError(f"{name}: of 'process' and 'origin' one is a text, the other a number")
    return "string" in types


def _typed(rows: DataFrame, name: str, are_names: bool) -> DataFrame:
    """The columns that a trace knows, in its types."""
    wanted = {part.split()[0]: part.split(maxsplit=1)[1] for part in _stored()}
    chosen = []
    for column, kind in wanted.items():
        if column in rows.columns:
            if are_names and column in NAMES:
                kind = "string"
            chosen.append(_cast(rows, name, column, kind))
    is_text = rows.schema["digest"].dataType.typeName() == "string"
    digest = F.col("digest") if is_text else F.lit(None).cast("string")
    return rows.select(*chosen, F.when(~digest.rlike(DIGITS), digest).alias(BAD_DIGEST))


def _stored() -> list[str]:
    listed = STORED.replace("map<smallint, bigint>", "map<smallint;bigint>").split(", ")
    looked_up = ["message string", "source string", "place bigint", "text string"]
    return [one.replace(";", ",") for one in [*listed, *looked_up]]


BAD_DIGEST = "_bad_digest"
"""A digest that is none, as long as rows are looked at."""
DIGITS = "^[0-9a-fA-F]{16}$"
_WIDENING = {"byte", "short", "integer", "long"}


def _cast(rows: DataFrame, name: str, column: str, kind: str) -> Column:
    found: DataType = rows.schema[column].dataType
    value = F.col(f"`{column}`")
    type_name = found.typeName()
    if column == "digest" and type_name == "string":
        # As in JSON. Whatever else stands there is refused: ``conv`` would read as far as it can.
        number = F.when(value.rlike(DIGITS), F.conv(value, 16, -10))
        return number.try_cast("bigint").alias(column)
    is_number = kind in ("smallint", "bigint")
    fits = (
        (is_number and type_name in _WIDENING)
        or (kind == "string" and type_name in ("string", "varchar", "char"))
        or kind.startswith("map")
        or type_name == "void"
    )
    if not fits:
        raise DataError(f"{name}: column {column!r} is {found.simpleString()}, not {kind}")
    if kind == "smallint":
        return narrowed(value.cast("bigint")).alias(column)
    return value.cast(kind).alias(column)


def _manifests(rows: DataFrame, histories: Sequence[tuple[str, str]]) -> dict[str, Manifest]:
    """For each run: its members are whoever has a row, and nobody else is known."""
    mentioned = rows.select("run", "origin").where(F.col("origin").isNotNull()).distinct()
    names: dict[str, set[str]] = {}
    for run, process in histories:
        names.setdefault(run, set()).add(process)
    members = {run: ordered(those) for run, those in names.items()}
    for one in mentioned.collect():
        names[one["run"]].add(one["origin"])
    found = {}
    for run in ordered(names):
        manifest = Manifest(
            schema=SCHEMA_VERSION, run=run, names=ordered(names[run]), views=(members[run],)
        )
        check(manifest)
        found[run] = manifest
    return found


def _position(one: Any, manifests: Mapping[str, Manifest], name: str) -> int:
    names = manifests[one["run"]].names
    if not isinstance(one["process"], str):
        if 0 <= one["process"] < len(names):
            return int(one["process"])
    elif one["process"] in names:
        return names.index(one["process"])
    raise DataError(f"{name}: run {one['run']}: process {one['process']} is not in the manifest")


def _lay_out(
    spark: SparkSession,
    rows: DataFrame,
    folder: Path,
    manifests: Mapping[str, Manifest],
    files: Mapping[int, int],
    are_names: bool,
) -> None:
    numbers = {run: number for number, run in enumerate(manifests)}
    table = pa.Table.from_pylist(
        [
            {
                "run": run,
                "process": name if are_names else position,
                "position": position,
                "file": files.get(numbers[run] << RUN_BITS | position, 0),
            }
            for run, manifest in manifests.items()
            for position, name in enumerate(manifest.names)
        ],
        schema=pa.schema(
            {
                "run": pa.string(),
                "process": pa.string() if are_names else pa.int16(),
                "position": pa.int16(),
                "file": pa.int32(),
            }
        ),
    )
    known = F.broadcast(spark.createDataFrame(table))
    placed = rows.join(known, ["run", "process"], "inner").withColumn("process", F.col("position"))
    placed = placed.drop("position")
    for column in NAMES[1:]:
        if are_names and column in rows.columns:
            others = known.select("run", F.col("process").alias(column), F.col("position"))
            placed = (
                placed.join(others, ["run", column], "left")
                .withColumn(column, F.col("position"))
                .drop("position")
            )
    task, version = partial(_write, folder=str(folder)), __version__

    def work(arriving: Iterator[Any]) -> Iterator[Any]:
        yield packed(0, task, arriving, version)

    count = max(files.values(), default=0) + 1
    tasks = min(count, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    in_order = placed.repartitionById(tasks, F.col("file") % tasks).sortWithinPartitions(
        "file", "run", "process", "index"
    )
    results(without_maps(in_order).mapInArrow(work, RESULT))


def _write(arriving: Iterator[Any], folder: str) -> None:
    drawer = Drawer(folder)
    for batch in arriving:
        arrived = with_maps(pa.Table.from_batches([batch]))
        given = {one: arrived[one] for one in arrived.column_names if one != "file"}
        schema = ARROW
        for field in LOOKED_UP:
            if field.name in given:
                schema = schema.append(field)
        columns = [
            given[field.name].cast(field.type)
            if field.name in given
            else _empty(field, batch.num_rows)
            for field in schema
        ]
        table = pa.table(columns, schema=_nullable(schema))
        drawer.add(batch.column("file").to_numpy().astype(np.int64), table)
    drawer.close()


def _empty(field: Any, rows: int) -> Any:
    """What nobody gives is 0 where a trace has to have something."""
    if field.nullable:
        return pa.nulls(rows, field.type)
    return pa.array(np.zeros(rows, np.int64), field.type)


def _nullable(schema: Any) -> Any:
    """A missing value is found by the judges, who say which row it is."""
    return pa.schema([field.with_nullable(True) for field in schema], schema.metadata)


# --- a trace behind a URI


def read_trace(
    spark: SparkSession, uri: str, options: Options
) -> tuple[DataFrame, dict[str, Manifest]]:
    """The rows and the manifests of a folder that only Hadoop can open; Parquet only."""
    folder = uri.rstrip("/")
    listed = read_table(spark, [f"{folder}/*"], "binaryFile", {}).select("path").collect()
    for path in sorted(one["path"] for one in listed):
        if re.search(r"(?<!manifest)\.jsonl$|\.segment(\.open)?$", path):
            raise UsageError(f"{path}: behind a URI only Parquet is read; copy the trace here")
    manifests = read_manifest(spark, f"{folder}/*manifest.jsonl")
    return read_table(spark, [f"{folder}/*.parquet"], "parquet", options), manifests


def read_manifest(spark: SparkSession, uri: str) -> dict[str, Manifest]:
    lines = read_table(spark, [uri], "text", {"wholetext": "true"}).collect()
    return manifests_in([(uri, str(line["value"]).encode()) for line in lines])
