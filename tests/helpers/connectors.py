"""Which connectors go with which pyspark, and how to fetch them.

They come from Maven Central through Spark's own resolver, into ``.connectors/``, once for each
environment of ``make connectors``.
"""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_cluster import HOME, environment
from tidings.pipeline.spark.session import session

ROOT = Path(__file__).parents[2]
STORE = ROOT / ".connectors"
SETTINGS = ROOT / "tests" / "connectors" / "ivysettings.xml"

CONNECTORS = {
    "4.2.0": {
        "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
        "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    },
    "4.1.2": {
        "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.2",
    },
}
"""By pyspark: docs/pipeline.md lists these pairs."""
TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
TOKENS_VERSION = "4.1.0-preview1"
"""Kafka's connector needs it in its own version, which Maven Central does not always have."""
BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
CATALOG = "shelf"
"""Where the tables of Iceberg are."""
WAREHOUSE = f"spark.sql.catalog.{CATALOG}.warehouse"

RESOLVING = """
import sys
from pyspark.sql import SparkSession

names = ("spark.jars.packages", "spark.jars.ivy", "spark.jars.ivySettings")
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config(map=dict(zip(names, sys.argv[1:]))).getOrCreate().stop()
"""


def fitting() -> dict[str, str]:
    """The connectors for the pyspark that is installed here."""
    if pyspark.__version__ not in CONNECTORS:
        raise pytest.UsageError(f"no connectors for pyspark {pyspark.__version__}: make connectors")
    return CONNECTORS[pyspark.__version__]


def hadoop_version() -> str:
    """That of the Hadoop in pyspark."""
    (jar,) = HOME.glob("jars/hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def connected(folder: Path, memory_gib: int) -> SparkSession:
    """A session that a user has given connectors, as for any other program of Spark."""
    words = [f'--conf "{name}={value}"' for name, value in options(folder).items()]
    with patch.dict(os.environ, PYSPARK_SUBMIT_ARGS=" ".join([*words, "pyspark-shell"])):
        return session(memory_gib=memory_gib)


def options(folder: Path) -> dict[str, str]:
    """What a session has to be given to use them; ``folder`` is for temporary files."""
    found = fitting()
    (tokens,) = resolved(f"{TOKENS}:{TOKENS_VERSION}", folder).glob("*spark-token-provider*.jar")
    given = {
        "spark.jars": str(tokens),
        "spark.jars.excludes": TOKENS,
        "spark.jars.ivy": str(STORE / f"jars-{pyspark.__version__}"),
        "spark.jars.ivySettings": str(SETTINGS),
        "spark.jars.packages": ",".join(found.values()),
        "spark.sql.extensions": ",".join(EXTENSIONS[one] for one in found if one in EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    if "iceberg" in found:
        given |= {
            f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{CATALOG}.type": "hadoop",
            WAREHOUSE: str(folder / "iceberg"),
        }
    return given


def resolved(package: str, folder: Path) -> Path:
    """The folder with the jars of a package and of what it needs, but for what Spark has."""
    jars = STORE / package.replace(":", "_") / "jars"
    if not jars.is_dir():
        subprocess.run(
            [sys.executable, "-c", RESOLVING, package, str(jars.parent), str(SETTINGS)],
            check=True,
            env=environment(folder),
        )
    return jars
