"""Spark with the connectors that fit it, and one trace to write everywhere.

``make connectors`` runs these tests once in each of its environments, which differ in their
pyspark. ``bench/everywhere.py`` does the same with a longer trace.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stored
from connectors import connected

EVENTS = 30_000


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with connected(tmp_path_factory.mktemp("connectors"), memory_gib=2) as started:
        yield started


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    stored.write_trace(folder, EVENTS)
    return folder
