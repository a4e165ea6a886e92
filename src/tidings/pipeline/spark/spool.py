"""Where the files of a trace are put for Spark to read, under names of our own.

On this machine that is any temporary folder. The workers of a cluster share with us the folder of
the trace, and perhaps nothing else: so there the spool is a folder within it, for as long as the
audit takes. If nothing can be written there, a temporary folder has to do; a trace in Parquet is
then still read where it lies, and of anything else a worker says that it does not see it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings.core import EnvironmentMissing
from tidings.pipeline.spark.session import is_here
from tidings.trace.manifest import MOST_NAMES
from tidings.trace.parquet import NAMES

STORED = (
    "run string, process smallint, index bigint, kind string, time_ns bigint, incarnation bigint, "
    "origin smallint, seq bigint, peer smallint, packet bigint, packet_kind string, bytes bigint, "
    "digest bigint, view bigint, name string, value bigint, vector map<smallint, bigint>"
)
"""The columns of a Parquet trace, as Spark calls their types."""
_AS_WRITTEN = STORED.replace(" smallint", " bigint")
"""Other writers have wider positions. Spark would cut off what it cannot hold, without a word."""


@contextmanager
def spool_for(spark: SparkSession, trace: Path) -> Iterator[Path]:
    """An empty folder that is gone when the block ends."""
    with _temporary(None if is_here(spark) else trace) as spool:
        yield Path(spool).resolve()


def _temporary(trace: Path | None) -> "TemporaryDirectory[str]":
    if trace is not None:
        try:
            within = trace if trace.is_dir() else trace.parent
            return TemporaryDirectory(prefix="tidings-", dir=within)
        except OSError:
            pass
    return TemporaryDirectory(prefix="tidings-")


def stored_rows(spark: SparkSession, spool: Path) -> DataFrame:
    """All rows of the files in a spool; columns that a file does not have are null."""
    written = spark.read.schema(_AS_WRITTEN).parquet(literally(spool))
    return written.withColumns({column: narrowed(F.col(column)) for column in NAMES})


def narrowed(position: Column) -> Column:
    """As we write it; what is too large becomes the least position that no dictionary has."""
    nearest = F.greatest(F.lit(-1), F.least(position, F.lit(MOST_NAMES)))
    return F.when(position.isNotNull(), nearest).cast("smallint")


def literally(folder: Path) -> str:
    """A folder that a user named may look like one of Hadoop's patterns."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(folder))


def unseen(source: Path, reason: str) -> EnvironmentMissing:
    """What a worker does not find where we do."""
    return EnvironmentMissing(
        f"{source}: {reason}; the folder of the trace has to be one that all workers share, "
        "under the same path, and where we can write (see docs/pipeline.md)"
    )
