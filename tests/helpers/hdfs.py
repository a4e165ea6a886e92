"""A real HDFS on loopback, of one process, from Maven Central: a name node and a data node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors import hadoop_version, resolved
from spark_cluster import HOME, daemon, free_port, wait_for
from tidings.pipeline.spark.java import find_java

PACKAGE = "org.apache.hadoop:hadoop-client-minicluster"


@contextmanager
def running_hdfs(folder: Path) -> Iterator[str]:
    """The URI of its root."""
    jars = resolved(f"{PACKAGE}:{hadoop_version()}", folder)
    port, is_up = free_port(), folder / "is-up"
    command = [
        *(str(find_java().program), "-Xmx512m", "-cp", f"{jars}/*:{HOME}/jars/*"),
        *("org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"),
        *("-nnport", str(port), "-httpport", "0", "-writeDetails", str(is_up)),
        *("-D", f"hdfs.minidfs.basedir={folder / 'blocks'}"),
    ]
    with daemon(command, folder / "hdfs.log", folder):
        wait_for(is_up.is_file, "HDFS is up")
        yield f"hdfs://127.0.0.1:{port}"
