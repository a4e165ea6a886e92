"""Spark as a pool of workers: run this function over these items, and give me the results.

Nothing that Spark Connect lacks: a table with one row for each item, and an Arrow function over
it. What the function needs travels with it.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.long import Perform
from tidings.pipeline.arrays.rows import BadRowsError, UnreadableError

EXPECTED = (BadRowsError, UnreadableError, TooLongError)
"""What is wrong with the trace, and not with us: it travels back as a result."""


def performing(spark: SparkSession) -> Perform:
    """The workers of a session."""

    def perform(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if not items:
            return []
        items = list(items)

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield packed(number, task, items[number])

        numbers = spark.range(0, len(items), 1, len(items))
        return results(numbers.mapInArrow(work, RESULT))

    return perform


RESULT = "number bigint, result binary"


def packed(number: int, task: Callable[[Any], Any], item: Any) -> Any:
    """What came of a task, or what is wrong with the trace, as a row of RESULT."""
    try:
        result = task(item)
    except EXPECTED as fault:
        result = fault
    columns = {"number": [number], "result": [pickle.dumps(result, protocol=5)]}
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)


_SCHEMA = pa.schema({"number": pa.int64(), "result": pa.binary()})


def results(packed: DataFrame) -> list[Any]:
    """The results in the order of their numbers; the first thing that is wrong is raised."""
    table = packed.toArrow().sort_by("number")
    unpacked = [pickle.loads(result.as_buffer()) for result in table["result"]]
    for result in unpacked:
        if isinstance(result, EXPECTED):
            raise result
    return unpacked


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at the same time, as far as Spark lets anybody know."""
    spread = spark.range(1 << 12).select(F.spark_partition_id().alias("task"))
    return int(spread.distinct().count())
