"""What is wrong with a source, in one line that names it and tells no secret.

Spark's readers fail in Java, each in its own way: some when a table is opened (``unread``), some
when its rows are read (``reading_of``), which is not before they are needed.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException

from tidings.core import DataError, TidingsError, UsageError, without_secrets

_NOT_THE_SOURCE = ("PythonException", "OutOfMemoryError", "No space left", "ExecutorLostFailure")
"""What Java reports, too, but is a mistake of ours or the end of somebody's means."""


def unread(name: str, form: str, fault: Exception) -> DataError | UsageError:
    """A table that cannot be opened."""
    words = str(getattr(fault, "java_exception", fault))
    if "PATH_NOT_FOUND" in words:
        return UsageError(f"{name}: no such file or folder")
    if "DATA_SOURCE_NOT_FOUND" in words or "ClassNotFoundException" in words:
        return UsageError(f"{name}: this Spark has no reader for {form!r} (see docs/pipeline.md)")
    if form == "parquet":
        return DataError(f"{name}: not a Parquet file, or a damaged one: {_reason(words)}")
    return DataError(f"{name}: cannot be read as {form}: {_reason(words)}")


@contextmanager
def reading_of(name: str) -> Iterator[None]:
    """Rows that cannot be read, of a source that could be opened."""
    try:
        yield
    except (AnalysisException, PythonException):
        raise
    except (PySparkException, Py4JJavaError) as fault:
        words = str(fault)
        if any(sign in words for sign in _NOT_THE_SOURCE):
            raise
        file = re.search(r"while reading file (\S+)\.(?:\s|$)", words)
        place = named_by_spark(file[1]) if file else ""
        is_all = Path(place).name in ("", Path(name).name)
        raise DataError(
            f"{name}: {'' if is_all else f'{place} '}cannot be read: {_reason(words)}"
        ) from None


def _reason(words: str) -> str:
    """What the innermost of Java's exceptions says, without its class and its stack."""
    causes = re.findall(r"^Caused by: (.*)", words, re.M)
    lines = [line for line in words.splitlines() if line.strip()]
    own = causes[-1:] or [one for one in lines if "An error occurred while calling" not in one]
    return re.sub(r"^[:\s]*([\w$]+\.)+[\w$]+: ", "", own[0]) if own else "no reason is given"


def named_by_spark(source: str) -> str:
    """A file by its path if it is here, otherwise by its URI."""
    return unquote(urlsplit(source).path) if source.startswith("file:") else unquote(source)


@contextmanager
def secrets_kept(options: Mapping[str, str]) -> Iterator[None]:
    """No password of a source is in what is raised here."""
    try:
        yield
    except Exception as fault:
        words = without_secrets(str(fault), options)
        if words == str(fault):
            raise
        if isinstance(fault, TidingsError):
            raise type(fault)(words) from None
        raise RuntimeError(f"{type(fault).__name__}: {words}") from None
