"""Percentiles by nearest rank (``core/ranks.py``), of columns.

Exact: the values are sorted, on disk if they have to be.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

PERCENTILES = (50, 90, 99)


def percentiles(
    values: DataFrame,
    *by: str,
    value: str = "value_ns",
    shares: Sequence[int] = PERCENTILES,
) -> DataFrame:
    """For each group: count, min, p50, p90, p99 and max of the values that are not null, by unit.

    ``value`` ends with its unit, and so do the columns: p50_ns, ..., max_ns.
    """
    unit = value.rpartition("_")[2]
    group = Window.partitionBy(*by)
    ranked = values.where(F.col(value).isNotNull()).select(
        *by,
        F.col(value).alias("value"),
        F.row_number().over(group.orderBy(value)).alias("rank"),
        F.count("*").over(group).alias("count"),
    )
    ranks = {
        f"min_{unit}": F.lit(1),
        **{f"p{share}_{unit}": F.ceil(F.col("count") * share / 100) for share in shares},
        f"max_{unit}": F.col("count"),
    }
    return ranked.groupBy(*by).agg(
        F.max("count").alias("count"),
        *(
            F.max(F.when(F.col("rank") == rank, F.col("value"))).alias(name)
            for name, rank in ranks.items()
        ),
    )
