"""All tables of a trace, as Parquet: a folder for each, as Spark writes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidings.core import EnvironmentMissing
from tidings.pipeline.progress import Show, silent
from tidings.pipeline.queries.measures.costs import (
    costs,
    run_costs,
    states,
    states_by_process,
    states_by_run,
)
from tidings.pipeline.queries.measures.latencies import (
    hold_back,
    hold_back_summary,
    latencies,
    latency_summary,
)
from tidings.pipeline.queries.measures.recording import Recording, record
from tidings.pipeline.spark.naming import naming_jobs
from tidings.pipeline.spark.spool import literally
from tidings.trace.layout import refuse_to_overwrite

_MEASURED: dict[str, Callable[[Recording], DataFrame]] = {
    "costs": costs,
    "run_costs": run_costs,
    "latencies": latencies,
    "hold_back": hold_back,
    "states": states,
}
_SUMMED_UP: dict[str, tuple[str, Callable[[Recording, DataFrame], DataFrame]]] = {
    "latency_summary": ("latencies", latency_summary),
    "hold_back_summary": ("hold_back", hold_back_summary),
    "states_by_process": ("states", states_by_process),
    "states_by_run": ("states", states_by_run),
}
"""Each from a table that was written before: it is read again instead of made again."""

TABLES = (*_MEASURED, *_SUMMED_UP)


@naming_jobs
def write_tables(
    spark: SparkSession,
    path: Path | str,
    folder: Path | str,
    *,
    progress: Show = silent,
) -> None:
    """Measure the trace at ``path`` and write every table into the empty ``folder``."""
    folder = Path(folder).absolute()
    refuse_to_overwrite(folder)
    progress("reading the trace to measure it")
    with record(spark, path) as recording, _full_disk_in_one_line(folder):
        for name, measured in _MEASURED.items():
            progress(f"measuring: {name.replace('_', ' ')}")
            _write(measured(recording), folder / name)
        for name, (source, summed_up) in _SUMMED_UP.items():
            progress(f"summing up: {name.replace('_', ' ')}")
            _write(
                summed_up(recording, spark.read.parquet(literally(folder / source))), folder / name
            )


@contextmanager
def _full_disk_in_one_line(folder: Path) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if "No space left on device" in str(fault):
            raise EnvironmentMissing(f"{folder}: no space left on the disk") from fault
        raise


def _write(table: DataFrame, folder: Path) -> None:
    table.write.option("compression", "zstd").parquet(str(folder))
