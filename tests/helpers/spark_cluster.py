"""A real Spark on loopback, from the pip package: a standalone cluster, or a Connect server.

Each of them is a process group of its own, which is killed at the end of the block, whatever
happens in it. Nothing is downloaded, and no port is anybody else's.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from tidings.pipeline.spark.java import find_java, launcher_home

HOME = Path(pyspark.__file__).parent
PATIENCE_S = 240
WORKERS = 2


class Cluster(NamedTuple):
    master: str
    workers: tuple[int, ...]
    """Their process ids."""

    def executors(self) -> list[int]:
        """The processes in which the workers let tasks run, of those that are alive."""
        return [child for worker in self.workers for child in _children(worker)]


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as until_done:

        def start(role: str, *words: str) -> "subprocess.Popen[bytes]":
            name = f"org.apache.spark.deploy.{role}"
            command = [str(HOME / "bin" / "spark-class"), name, "--host", "127.0.0.1", *words]
            log = folder / f"{role}-{len(words)}.log"
            return until_done.enter_context(daemon(command, log, folder))

        start("master.Master", "--port", str(port), "--webui-port", "0")
        wait_for(lambda: answers(port), "the master answers")
        resources = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
        workers = [
            start("worker.Worker", *resources, "--work-dir", str(folder / f"w{number}"), master)
            for number in range(WORKERS)
        ]
        yield Cluster(master, tuple(worker.pid for worker in workers))


@contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """A Spark Connect server whose tasks run on this master."""
    port = free_port()
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.connect.progress.reportInterval": "100ms",
        "spark.ui.enabled": "false",
    }
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", "1g"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(word for name, value in options.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    with daemon(command, folder / "connect.log", folder):
        wait_for(lambda: answers(port), "the Connect server answers")
        yield f"sc://127.0.0.1:{port}"


def environment(folder: Path) -> dict[str, str]:
    """What Spark's own scripts need to know, and nothing that could lead them elsewhere."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return ours | {
        "JAVA_HOME": str(launcher_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "512m",
        # Executors inherit it from their workers.
        "JDK_JAVA_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }


@contextmanager
def daemon(command: list[str], log: Path, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as spoken:
        process = subprocess.Popen(
            command,
            env=environment(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=spoken,
            stderr=spoken,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not after {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _children(pid: int) -> list[int]:
    threads = Path("/proc", str(pid), "task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]
