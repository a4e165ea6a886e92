"""A Spark session that starts fast, stays on this machine and keeps quiet.

``with session() as spark:`` stops it at the end of the block.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidings.core import EnvironmentMissing
from tidings.pipeline.java import find_java, launcher_home

_GIB = 1 << 30


def session(
    master: str = "local[*]",
    remote: str | None = None,
    memory_gib: int | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> SparkSession:
    """A session on this machine, on a cluster (``master``), or on a Connect server (``remote``)."""
    if remote is not None:
        progress(f"connecting to Spark at {remote}")
        return _remote_session(remote)
    builder = SparkSession.builder.appName("tidings").master(master)
    for option, value in _options(master, memory_gib or _memory_gib()).items():
        builder = builder.config(option, value)
    progress("looking for Java")
    java = find_java()
    progress(f"starting Spark on Java {java.version}")
    try:
        with _environment(
            JAVA_HOME=str(launcher_home(java)),
            SPARK_LOCAL_IP=_address(master),
            PYSPARK_PYTHON=_python(master),
        ):
            return builder.getOrCreate()
    except PySparkException as fault:
        raise EnvironmentMissing(f"Spark did not start on {java.program}: {fault}") from fault


def _remote_session(remote: str) -> SparkSession:
    # Without it pyspark takes the program for its own documentation test, and ends it.
    if find_spec("grpc") is None:
        raise EnvironmentMissing("Spark Connect needs: pip install 'pyspark[connect]'")
    try:
        return SparkSession.builder.appName("tidings").remote(remote).getOrCreate()
    except (ImportError, PySparkException) as fault:
        raise EnvironmentMissing(f"no Spark Connect session at {remote}: {fault}") from fault


def _options(master: str, memory_gib: int) -> dict[str, str]:
    log4j = Path(str(files("tidings.pipeline") / "log4j2.properties"))
    options = {
        "spark.driver.memory": f"{memory_gib}g",
        "spark.driver.extraJavaOptions": (
            f'-XX:+UseParallelGC "-Dlog4j2.configurationFile={log4j.as_uri()}"'
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Arrow functions get whole batches; the default of 10,000 rows is mostly overhead.
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 17),
        # Noting the line of Python behind every expression costs more than small audits do.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "tidings-warehouse"),
    }
    if _is_local(master):
        options |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # The default of 200 tasks for every shuffle is for clusters.
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    return options


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _address(master: str) -> str | None:
    return "127.0.0.1" if _is_local(master) else None


def _python(master: str) -> str | None:
    """Workers on this machine have to know what this process knows, ``tidings`` itself above all.

    Elsewhere, and here too if the user says so, the user knows better.
    """
    told = os.environ.get("PYSPARK_PYTHON")
    return told or (sys.executable if _is_local(master) else None)


def _memory_gib() -> int:
    """Half of what the machine has, and never less than Spark's own default."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, physical // (2 * _GIB))


@contextmanager
def _environment(**wanted: str | None) -> Iterator[None]:
    """Variables for the Java process alone: what this process had comes back afterwards."""
    before = {name: os.environ.get(name) for name in wanted}
    _set_all(wanted)
    try:
        yield
    finally:
        _set_all(before)


def _set_all(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def abandon() -> None:
    """End what this process started for Spark: interrupted, it may leave a Java behind."""
    for pid in _descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    """Children before their parents, so that nobody is orphaned unseen; Linux only."""
    for children in Path("/proc", str(pid), "task").glob("*/children"):
        with suppress(FileNotFoundError):
            for child in map(int, children.read_text().split()):
                yield from _descendants(child)
                yield child
