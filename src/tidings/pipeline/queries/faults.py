"""What makes a row bad data: the rules of ``trace.schema`` and ``trace.histories``, for Spark.

They accept and refuse exactly what the Python reader does, and say it in the same words.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidings.trace import KINDS, NEEDED
from tidings.trace.schema import AGREED, BINDING, COUNTS, LONGEST_WORD, REQUIRED, WORDS

PROCESS = "{process}"
"""Stands in a fault for the name of the process, which only the driver knows."""


def fault_in_row() -> Column:
    """Why a stored row, beside what its manifest knows, cannot be part of the trace, or null.

    Reads the stored columns and, from the manifest, ``number``, ``numbers`` and ``known``.
    """
    return F.coalesce(
        _when(F.col("number").isNull(), "run '", F.col("run"), "' is not in the manifest"),
        _when(F.greatest(*map(F.isnull, REQUIRED)), f"a row needs {', '.join(REQUIRED)}"),
        _when(~F.col("kind").isin(*KINDS), "unknown kind '", F.col("kind"), "'"),
        *(_unnamed(column) for column in ("process", "origin", "peer")),
        _unnamed_in_vector(),
        _when(F.exists(F.map_values("vector"), _is_no_count), "'vector' holds a bad count"),
        _when(F.least(*COUNTS) < 0, f"a count is negative ({', '.join(COUNTS)})"),
        _when(F.greatest(*map(F.length, WORDS)) > LONGEST_WORD, "a word is too long"),
        _when(F.least(*map(F.length, WORDS)) == 0, "a word is empty"),
        *(_missing(column) for column in sorted({one for row in NEEDED.values() for one in row})),
        _when(
            F.col("kind").isin(*BINDING)
            & (F.get("numbers", "origin") != F.get("numbers", "process")),
            *(PROCESS, " cannot ", F.col("kind"), " a message of process number "),
            F.col("origin"),
        ),
        _when(
            F.col("kind").isin(*AGREED) & (F.col("value") < 1),
            *("a ", F.col("kind"), " row cannot have the number ", F.col("value")),
        ),
        _when(F.col("view") >= F.col("known"), "view ", F.col("view"), " is not in the manifest"),
        _when(
            (F.col("kind") == "gap") & (F.col("value") < F.col("index")),
            *("a gap from ", F.col("index"), " cannot end at ", F.col("value")),
        ),
    )


def in_sequence(rows: DataFrame) -> DataFrame:
    """Each row of a history against the one before it, in reading order.

    An index that is left out within a file is a fault; where a file begins it is a hole, left by a
    file that is missing. A gap that the process tells of itself is a hole as well.
    """
    history = Window.partitionBy("run", "process").orderBy("file", "row")
    last = F.lag(F.struct("file", "last_index", "kind", "incarnation")).over(history)
    return rows.withColumn("last", last).select(
        *("run", "process", "kind", "file", "row"),
        (_is_after_hole() | (F.col("kind") == "gap")).alias("holed"),
        F.coalesce("fault", _fault_in_sequence()).alias("fault"),
    )


def _expected() -> Column:
    begins = F.col("last").isNull()
    return F.when(begins, F.col("begin")).otherwise(F.try_add("last.last_index", F.lit(1)))


def _is_after_hole() -> Column:
    begins_in_file = F.col("last").isNull() | (F.col("last.file") != F.col("file"))
    return F.coalesce(begins_in_file & (F.col("index") > _expected()), F.lit(False))


def _fault_in_sequence() -> Column:
    follows = F.coalesce(F.col("index") == _expected(), F.lit(False))
    is_over = F.col("last.kind").isin("crash", "leave")
    begins_again = F.col("kind").isin("recover", "join")
    return F.coalesce(
        _when(
            ~follows & ~_is_after_hole(),
            *(PROCESS, "'s index is ", F.col("index")),
            *(" where ", F.coalesce(_expected().cast("string"), F.lit("nothing")), " comes next"),
        ),
        _when(
            is_over & ~begins_again,
            *(PROCESS, " acts (", F.col("kind"), ") after its ", F.col("last.kind")),
        ),
        _when(
            F.col("incarnation") < F.col("last.incarnation"),
            *(PROCESS, "'s incarnation falls from ", F.col("last.incarnation")),
            *(" to ", F.col("incarnation")),
        ),
    )


def _missing(column: str) -> Column:
    in_need = [kind for kind, columns in NEEDED.items() if column in columns]
    return _when(
        F.col("kind").isin(*in_need) & F.col(column).isNull(),
        *("a ", F.col("kind"), f" row needs {column!r}"),
    )


def _unnamed(column: str) -> Column:
    return _when(
        F.col(column).isNotNull() & F.get("numbers", column).isNull(),
        *("process number ", F.col(column), " is not in the run's dictionary"),
    )


def _unnamed_in_vector() -> Column:
    unnamed = F.filter(F.map_keys("vector"), lambda key: F.get("numbers", key).isNull())
    return _when(
        F.size(unnamed) > 0,
        *("process number ", F.get(unnamed, F.lit(0)), " is not in the run's dictionary"),
    )


def _is_no_count(value: Column) -> Column:
    return value.isNull() | (value < 0)


def _when(condition: Column, *text: str | Column) -> Column:
    """The text where the condition holds; null where it does not, or is itself unknown."""
    parts = [F.lit(part) if isinstance(part, str) else part.cast("string") for part in text]
    return F.when(condition, F.concat_ws("", *parts))
