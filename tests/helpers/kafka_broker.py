"""A real Kafka broker on loopback, of one process, from Maven Central.

Spark's resolver fetches it, so nothing has to be installed. It ends with the block, like the
daemons of ``spark_cluster``.
"""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from connectors import BROKER, resolved
from spark_cluster import answers, daemon, free_port, wait_for
from tidings.pipeline.spark.java import find_java

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={data}
offsets.topic.replication.factor=1
num.partitions=3
"""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """The address at which it answers."""
    # What Spark has itself, its resolver leaves out.
    (scala,) = Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar")
    java = [str(find_java().program), "-cp", f"{resolved(BROKER, folder)}/*:{scala}"]
    port, controller = free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(PROPERTIES.format(port=port, controller=controller, data=folder / "data"))
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", f"-t={cluster}", "-c", str(settings)],
        check=True,
        capture_output=True,
    )
    command = [*java, "-Xmx512m", "kafka.Kafka", str(settings)]
    with daemon(command, folder / "broker.log", folder):
        wait_for(lambda: answers(port), "the broker answers")
        yield f"127.0.0.1:{port}"
