"""A campaign whose runs lie scattered over files: Spark brings the rows of each run together."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidings import __version__
from tidings.pipeline.arrays.campaign import TooLongError, batches, judge_stored
from tidings.pipeline.arrays.findings import Judged
from tidings.pipeline.arrays.plan import JudgingPlan
from tidings.pipeline.arrays.rows import Directory
from tidings.pipeline.arrays.written import Showing
from tidings.pipeline.spark.maps import with_maps, without_maps
from tidings.pipeline.spark.spool import stored_rows
from tidings.pipeline.spark.workers import RESULT, packed, results


def judge_grouped(
    spark: SparkSession,
    plan: JudgingPlan,
    spool: Path,
    most: int | None,
    violations: Path | None = None,
) -> Judged:
    """Judge every run of the files in the spool, all its rows in one task."""
    showing = Showing(most, str(violations or ""))
    task = partial(_judge_batch, directory=plan.directory, showing=showing)
    limits, version = plan.limits, __version__

    def work(arriving: Iterator[Any]) -> Iterator[Any]:
        try:
            for table in batches(map(_table, arriving), limits):
                yield packed(0, task, table, version)
        except TooLongError as fault:
            yield packed(0, _fail, fault, version)

    needed = {column for source in plan.sources for column in source.columns}
    placed = stored_rows(spark, spool).select(
        *sorted(needed),
        F.substring_index("_metadata.file_name", ".", 1).cast("int").alias("file"),
        F.col("_metadata.row_index").alias("row"),
    )
    in_order = placed.repartition(1 + plan.rows // limits.batch_rows, "run").sortWithinPartitions(
        "run", "file", "row"
    )
    return Judged.joined(results(without_maps(in_order).mapInArrow(work, RESULT)))


def _table(batch: Any) -> Any:
    """A batch as it came; the words that stand in every row become numbers at once."""
    table = with_maps(pa.Table.from_batches([batch]).drop_columns(["row"]))
    for word in ("run", "kind"):
        place = table.column_names.index(word)
        table = table.set_column(place, word, table[word].dictionary_encode())
    return table


def _fail(fault: Exception) -> None:
    raise fault


def _judge_batch(table: Any, directory: Directory, showing: Showing) -> Judged:
    return judge_stored(table.drop_columns(["file"]), table["file"].to_numpy(), directory, showing)
