"""What all tests share: one Spark session, and the --rewrite of golden conversations."""

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="rewrite the golden conversations as they come"
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all pipeline tests: a JVM takes seconds to start."""
    from tidings import pipeline

    with pipeline.session() as session:
        yield session
