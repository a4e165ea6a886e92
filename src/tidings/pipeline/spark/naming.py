"""What the jobs of a session are called in Spark's own pages: after the stage that runs them.

tidings: 1,227 rows of 1 run in 1 file: all at once
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from pyspark.sql import SparkSession

from tidings.pipeline.progress import Progress, Show, silent
from tidings.pipeline.spark.session import is_remote

P = ParamSpec("P")
T = TypeVar("T")

_DESCRIPTION = "spark.job.description"


def naming_jobs(function: Callable[P, T]) -> Callable[P, T]:
    """For functions of a session, or of something that has one, with a ``progress``."""

    @wraps(function)
    def named(*args: P.args, **kwargs: P.kwargs) -> T:
        given = signature(function).bind(*args, **kwargs)
        first = next(iter(given.arguments.values()))
        show = given.arguments.get("progress", silent)
        with jobs_named(getattr(first, "spark", first), show) as progress:
            given.arguments["progress"] = progress
            return function(*given.args, **given.kwargs)

    return named


@contextmanager
def jobs_named(spark: SparkSession, show: Show = silent) -> Iterator[Progress]:
    """A Progress whose stages give their names to the jobs that follow, as long as this lasts."""
    progress = Progress.of(show)
    before = progress.name_jobs
    with _names(spark) as progress.name_jobs:
        try:
            yield progress
        finally:
            progress.name_jobs = before


@contextmanager
def _names(spark: SparkSession) -> Iterator[Show]:
    if is_remote(spark):
        with _tags(spark) as name:
            yield name
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    try:
        yield lambda stage: context.setLocalProperty(_DESCRIPTION, f"tidings: {stage}")
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


@contextmanager
def _tags(spark: SparkSession) -> Iterator[Show]:
    """On Connect, jobs have tags instead, and no commas in them."""
    tags: list[str] = []

    def name(stage: str) -> None:
        clear()
        tags.append(f"tidings: {stage}".replace(",", ""))
        spark.addTag(tags[0])

    def clear() -> None:
        while tags:
            spark.removeTag(tags.pop())

    try:
        yield name
    finally:
        clear()
