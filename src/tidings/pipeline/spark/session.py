"""A Spark session that starts fast, keeps quiet, and stays on this machine unless told otherwise.

All that we set is a default: what the user has set for Spark stays as it is (``settings``), and so
does a session that is there already. ``with session() as spark:`` stops it at the end of the block.
"""

import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidings.core import EnvironmentMissing
from tidings.pipeline.spark.java import find_java, launcher_home
from tidings.pipeline.spark.settings import conf_folder, user_settings
from tidings.pipeline.spark.source import FILTERING

REACHED_WITHIN_S = 10
"""A cluster that does not even answer by then is not there. Spark itself asks for minutes."""

HERE = "local[*]"
ATTEMPTS = 3
"""At a task whose worker dies; on one machine Spark would give up at once."""
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPARKS_BATCH_ROWS = "10000"
_OUR_BATCH_ROWS = str(1 << 17)
"""Arrow functions get whole batches; Spark's own default is mostly overhead."""
_MASTERS = ("local", "spark://", "yarn", "k8s://")


def session(
    master: str | None = None,
    remote: str | None = None,
    memory_gib: int | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> SparkSession:
    """A session on a cluster (``master``), or on a Connect server (``remote``).

    Without either: the one that is active here; where ``spark-submit`` says, if it started us;
    where ``spark-defaults.conf`` says; otherwise on this machine.
    """
    if master is None and remote is None and (active := SparkSession.getActiveSession()):
        return active
    if remote is not None:
        progress(f"connecting to Spark at {remote}")
        return _remote_session(remote)
    if master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        progress("joining the Spark that started us")
        return _joined(SparkSession.builder)
    settings = user_settings()
    master = master or settings.get("spark.master") or HERE
    master = re.sub(r"^local\[([^],]+)\]$", rf"local[\1,{ATTEMPTS}]", master)
    if not master.startswith(_MASTERS):
        raise EnvironmentMissing(f"{master!r} is no Spark master; one is spark://host:port")
    address = _address(master)
    progress("looking for Java")
    java = find_java()
    progress(f"starting Spark on Java {java.version}")
    try:
        with _environment(
            JAVA_HOME=str(launcher_home(java)),
            SPARK_LOCAL_IP=address,
            # Workers on this machine have to know what this process knows, tidings itself above
            # all. Elsewhere, and here too if the user says so, the user knows better.
            PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON")
            or (sys.executable if _is_local(master) else None),
        ):
            options: dict[str, Any] = {
                name: value for name, value in _options(master).items() if name not in settings
            }
            if memory_gib is not None:
                options["spark.driver.memory"] = f"{memory_gib}g"
            return SparkSession.builder.master(master).config(map=options).getOrCreate()
    except (PySparkException, Py4JError) as fault:
        place = "" if _is_local(master) else f" with {master}"
        raise EnvironmentMissing(
            f"Spark did not start{place} on {java.program}: {_reason(fault)}"
        ) from fault


def _joined(builder: SparkSession.Builder) -> SparkSession:
    """A session that others have configured; nobody tells what they left as it was."""
    spark = builder.getOrCreate()
    if spark.conf.get(_BATCH_ROWS) == _SPARKS_BATCH_ROWS:
        spark.conf.set(_BATCH_ROWS, _OUR_BATCH_ROWS)
    spark.conf.set(FILTERING, "true")
    return spark


def is_here(spark: SparkSession) -> bool:
    """Whether everybody who works for this session sees the files of this machine."""
    return not is_remote(spark) and _is_local(spark.conf.get("spark.master") or "")


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has no class in common with the others."""
    return not isinstance(spark, SparkSession)


def _reason(fault: Exception) -> str:
    """What Java has to say, without its stack."""
    return str(getattr(fault, "java_exception", fault)).splitlines()[0]


def _remote_session(remote: str) -> SparkSession:
    # Without it pyspark takes the program for its own documentation test, and ends it.
    if find_spec("grpc") is None:
        raise EnvironmentMissing("Spark Connect needs: pip install 'pyspark[connect]'")
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        with DefaultChannelBuilder(remote).toChannel() as channel:
            grpc.channel_ready_future(channel).result(timeout=REACHED_WITHIN_S)
        return _joined(SparkSession.builder.remote(remote))
    except grpc.FutureTimeoutError as fault:
        raise EnvironmentMissing(
            f"no Spark Connect server answers at {remote} (tried for {REACHED_WITHIN_S} s)"
        ) from fault
    except (ImportError, PySparkException, grpc.RpcError) as fault:
        raise EnvironmentMissing(
            f"no Spark Connect session at {remote}: {_reason(fault)}"
        ) from fault


def _options(master: str) -> dict[str, str]:
    """What suits an audit where the user has said nothing."""
    log4j = conf_folder() / "log4j2.properties"
    if not log4j.is_file():
        log4j = Path(__file__).with_name("log4j2.properties")
    options = {
        "spark.app.name": "tidings",
        _BATCH_ROWS: _OUR_BATCH_ROWS,
        FILTERING: "true",
        "spark.driver.memory": f"{_memory_gib()}g",
        "spark.driver.extraJavaOptions": (
            f'-XX:+UseParallelGC "-Dlog4j2.configurationFile={log4j.absolute().as_uri()}"'
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Noting the line of Python behind every expression costs more than small audits do.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "tidings-warehouse"),
    }
    if _is_local(master):
        options |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    return options


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _address(master: str) -> str | None:
    """By which address the workers find this process: the one that looks towards the master."""
    if _is_local(master):
        return os.environ.get("SPARK_LOCAL_IP") or "127.0.0.1"
    ours = _reached(master) if master.startswith("spark://") else None
    return os.environ.get("SPARK_LOCAL_IP") or ours


def _reached(master: str) -> str | None:
    """Our end of a connection with the first of these masters that answers."""
    reason: object = "no such place"
    for place in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{place}")
            to = parts.hostname or "", parts.port or 0
            with socket.create_connection(to, timeout=REACHED_WITHIN_S) as connection:
                own = str(connection.getsockname()[0])
                return None if ":" in own else own
        except ValueError:
            reason = "a port is a number"
        except OSError as fault:
            reason = fault.strerror or fault
    raise EnvironmentMissing(f"no Spark master answers at {master}: {reason}")


def _memory_gib() -> int:
    """Half of what the machine has, and never less than Spark's own default."""
    return max(1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (2 << 30))


@contextmanager
def _environment(**wanted: str | None) -> Iterator[None]:
    """Variables for the Java process alone: what this process had comes back afterwards."""
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set_all(wanted)
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
