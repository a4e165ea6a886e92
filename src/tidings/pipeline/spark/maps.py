"""Maps go to Python as texts.

For every row of a batch Spark measures how long the batch has become, and where there is a map that
takes it as long as the batch is: 220 us a row in batches of 131,072 (pyspark 4.3).
"""

from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.trace.parquet import ARROW

VECTOR = "vector"


def without_maps(rows: DataFrame) -> DataFrame:
    """The rows, for a function of Arrow batches."""
    if VECTOR not in rows.columns:
        return rows
    return rows.withColumn(VECTOR, F.to_json(VECTOR, {"ignoreNullFields": "false"}))


def with_maps(table: Any) -> Any:
    """A table of what arrived, with its maps; few rows have one."""
    if VECTOR not in table.column_names:
        return table
    found = [
        text and list(msgspec.json.decode(text, type=dict[int, int | None]).items())
        for text in table[VECTOR].to_pylist()
    ]
    maps = pa.array(found, ARROW.field(VECTOR).type)
    return table.set_column(table.column_names.index(VECTOR), VECTOR, maps)
