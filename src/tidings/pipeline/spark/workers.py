"""Spark as a pool of workers: run this function over these items, and give me the results.

Nothing that Spark Connect lacks: a table with one row for each item, and an Arrow function over
it. What the function needs travels with it, but for ``tidings`` itself: each worker has its own.
"""

import pickle
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidings import __version__
from tidings.core import EnvironmentMissing
from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.perform import Perform
from tidings.pipeline.arrays.rows import BadRowsError, UnreadableError


class UnseenError(Exception):
    """A worker cannot open a file that is there for us; ``path`` says which."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


EXPECTED = (BadRowsError, UnreadableError, TooLongError, UnseenError, EnvironmentMissing)
"""What is wrong with the trace or with a worker, and not with us: it travels back as a result."""


def performing(spark: SparkSession) -> Perform:
    """The workers of a session."""

    def perform(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if not items:
            return []
        items = list(items)
        version = __version__

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield packed(number, task, items[number], version)

        return results(spark.range(0, len(items), 1, len(items)).mapInArrow(work, RESULT))

    return perform


RESULT = "number bigint, result binary"


def packed(number: int, task: Callable[[Any], Any], item: Any, version: str) -> Any:
    """What came of a task, or what is wrong with the trace, as a row of RESULT.

    The version is that of whoever asks; a worker that has another may not know the task.
    """
    try:
        expect_version(version)
        result = task(item)
    except EXPECTED as fault:
        result = as_it_is_seen(fault)
    columns = {"number": [number], "result": [pickle.dumps(result, protocol=5)]}
    return pa.RecordBatch.from_pydict(columns)


def expect_version(version: str) -> None:
    if version != __version__:
        raise EnvironmentMissing(f"{_here()} has tidings {__version__}, and not {version}")


def as_it_is_seen(fault: Exception) -> Exception:
    """What cannot even be opened is not corrupt."""
    cause = fault.__cause__
    if isinstance(fault, UnreadableError) and isinstance(
        cause, FileNotFoundError | PermissionError
    ):
        return UnseenError(fault.path, f"{_here()} says: {cause.strerror}")
    return fault


def _here() -> str:
    return f"the worker on {socket.gethostname()}"


def results(packed: DataFrame) -> list[Any]:
    """The results in the order of their numbers; the first thing that is wrong is raised."""
    with workers_faults_named():
        table = packed.toArrow().sort_by("number")
    unpacked = [pickle.loads(result.as_buffer()) for result in table["result"]]
    for result in unpacked:
        if isinstance(result, EXPECTED):
            raise result
    return unpacked


@contextmanager
def workers_faults_named() -> Iterator[None]:
    """A worker that cannot even begin has no way to say so but a stack trace."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        words = str(fault)
        if "Python worker exited unexpectedly" in words:
            raise EnvironmentMissing(
                "the Python of a worker died, and did so again: it was killed, or out of memory"
            ) from fault
        for sign, reason in _WORKERS_FAULTS.items():
            if found := re.search(sign, words):
                raise EnvironmentMissing(
                    f"the Python of a worker {reason.format(*found.groups())}; install the same "
                    "there, and let PYSPARK_PYTHON name it (see docs/pipeline.md)"
                ) from fault
        raise


_WORKERS_FAULTS = {
    "PYTHON_VERSION_MISMATCH": "is another version of Python than ours",
    r"No module named '([^'.]+)[^']*'": "has no {}",
    "Can't get attribute|cannot import name": "has another version of tidings than ours",
    r'Cannot run program "([^"]+)"': "cannot be started: {}",
}
"""What is the matter, by the words of a stack trace."""
