"""What commands on Spark share: where it runs, and the line that says how far it is.

The pipeline is imported late: everything else works without Spark.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.common import ProgressLine, err
from tidings.core import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.pipeline import Progress

Master = Annotated[
    str | None, typer.Option(help="A Spark cluster, spark://host:port; by default this machine.")
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:port.")]

EVERY_S = 5.0
"""How often it is told where there is no terminal."""


def refuse_both(master: str | None, remote: str | None) -> None:
    if master is not None and remote is not None:
        raise UsageError("--master or --remote, not both")


@contextmanager
def on_spark(
    master: str | None = None, remote: str | None = None
) -> Iterator[tuple["SparkSession", "Progress"]]:
    """A session, and the progress that is shown as long as the block lasts."""
    # py4j logs an interruption with its stack; a root logger with a handler is not given another.
    logging.getLogger().addHandler(logging.NullHandler())
    with ProgressLine("looking for Spark and Java", every_s=0.0, quiet_s=0.0) as show:
        from tidings import pipeline

        progress = pipeline.Progress(show, every_s=0.0 if err.is_terminal else EVERY_S)
        with (
            pipeline.session(master=master, remote=remote, progress=progress) as spark,
            progress.following(spark),
        ):
            yield spark, progress
