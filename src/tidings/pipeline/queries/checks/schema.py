"""What the checks share: the columns they return, and the kinds of rows they look at."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidings.spec import Extra, Guarantee

VIOLATIONS = (
    "run int, guarantee string, process smallint, origin smallint, seq bigint, "
    "cause_origin smallint, cause_seq bigint, "
    "witness array<struct<process: smallint, index: bigint>>, note string"
)
"""One row for each breach; the witness, and the note, are as ``spec.Violation`` describes them."""


class EventCounts(NamedTuple):
    """What one event adds to the numbers of its run; a null adds nothing."""

    judged: Column
    violated: Column
    not_owed: Column | None = None


def is_delivery() -> Column:
    return F.col("kind") == "deliver"


def is_message() -> Column:
    """The first broadcast under its name stands for the message."""
    return (F.col("kind") == "broadcast") & (F.col("index") == F.col("sent.index"))


def place(process: str, index: str) -> Column:
    """One event of a witness."""
    return F.struct(F.col(process).alias("process"), F.col(index).alias("index"))


def breaches(
    table: DataFrame,
    guarantee: Guarantee | Extra,
    witness: Column,
    cause_origin: Column | None = None,
    cause_seq: Column | None = None,
    note: Column | None = None,
) -> DataFrame:
    """The violation columns of a table that has run, process, origin and seq."""
    nothing = F.lit(None)
    return table.select(
        "run",
        F.lit(guarantee.value).alias("guarantee"),
        *("process", "origin", "seq"),
        (nothing if cause_origin is None else cause_origin).cast("smallint").alias("cause_origin"),
        (nothing if cause_seq is None else cause_seq).cast("bigint").alias("cause_seq"),
        witness.alias("witness"),
        (nothing if note is None else note).cast("string").alias("note"),
    )
