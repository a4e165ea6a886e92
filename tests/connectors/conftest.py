"""Spark with the connectors that fit it, a broker for Kafka's, and one trace to write everywhere.

``make connectors`` runs these tests once in each of its environments, which differ in their
pyspark. ``TIDINGS_EVENTS=10e6`` makes the trace longer.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from connectors import ROOT, options
from kafka_broker import running_broker
from tidings.pipeline.spark.session import session
from tidings.trace import parquet

sys.path.append(str(ROOT / "bench"))

from rivals import generate

EVENTS = int(float(os.environ.get("TIDINGS_EVENTS", "3e4")))
PROCESSES = 5


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that a user has given connectors, as for any other program of Spark."""
    given = options(tmp_path_factory.mktemp("connectors"))
    words = [f'--conf "{name}={value}"' for name, value in given.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", " ".join([*words, "pyspark-shell"]))
        started = session(memory_gib=2)
    with started:
        yield started


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that nobody else uses."""
    with running_broker(tmp_path_factory.mktemp("broker")) as at:
        yield at


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long run in which p2 delivers an altered text, and two messages in the wrong order."""
    folder = tmp_path_factory.mktemp("trace")
    generate.long_run(folder, EVENTS, PROCESSES)
    path = folder / "p2.parquet"
    table = pq.read_table(path)
    of_p1 = np.flatnonzero(table["origin"].fill_null(-1).to_numpy() == 0)
    altered, one, other = np.random.default_rng(EVENTS).choice(of_p1, 3, replace=False)
    for name in ("seq", "digest"):
        values = table[name].fill_null(0).to_numpy().copy()
        values[[one, other]] = values[[other, one]]
        if name == "digest":
            values[altered] += 1
        column = pa.array(values, mask=np.asarray(table[name].is_null()))
        table = table.set_column(table.column_names.index(name), table.field(name), column)
    pq.write_table(table, path, row_group_size=parquet.ROWS_A_GROUP, **parquet.FORM)
    return folder
