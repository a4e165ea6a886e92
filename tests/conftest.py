"""What all tests share: signals that are heard, one Spark session, --rewrite of golden talks."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from finished_campaign import finish


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="rewrite the golden conversations as they come"
    )


def pytest_configure() -> None:
    """The options of this run are not for a pytest that a test starts.

    And bytecode is kept, even where that is switched off: hundreds of programs that tests start
    would each compile all that they import.
    """
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several workers one has Spark, and all that needs it; else whole files are dealt out."""
    for item in items:
        group = "spark" if needs_spark(item) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


def needs_spark(item: pytest.Item) -> bool:
    # What fails to connect to a cluster has started Java nevertheless, in one of these files.
    is_about_spark = hasattr(getattr(item, "module", None), "SparkSession")
    may_start_java = item.path.parent.name == "pipeline" and is_about_spark
    return may_start_java or "spark" in getattr(item, "fixturenames", ())


def pytest_collection_finish(session: pytest.Session) -> None:
    """With pytest 9.2, xdist 3.8 ignores the groups; then each worker starts Java, unnoticed."""
    is_worker = hasattr(session.config, "workerinput")
    if is_worker and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest and this pytest-xdist ignore groups of tests")


@pytest.fixture(scope="session", autouse=True)
def _programs_hear_signals() -> None:
    """Programs that tests start obey SIGINT and SIGTERM, even where the tests themselves do not.

    A background job of a shell without job control starts with SIGINT ignored, and everything that
    it starts inherits that. A handler is not inherited: with one that does nothing the tests go on
    as before, and their programs begin with the default.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


@pytest.fixture(autouse=True)
def _logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A command that runs in this process configures the logs for good."""
    from tidings.node import logs

    logger = logging.getLogger("tidings.node")
    handlers, level = logger.handlers[:], logger.level
    monkeypatch.setattr(logs, "_style", "console")
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logger.propagate = True


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests that need one: a JVM takes seconds to start."""
    from tidings.pipeline.spark.session import session

    with session(memory_gib=2) as started:
        yield started


@pytest.fixture(scope="session")
def finished(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that is complete; only to be read."""
    return finish(spark, tmp_path_factory.mktemp("campaign"))


@pytest.fixture(scope="session")
def example(finished: Path) -> Any:
    """The page of that campaign: every section has something."""
    from tidings.campaign.folder import opened
    from tidings.campaign.page import page_of

    return page_of(opened(finished), "tidings report out")


class Answer(NamedTuple):
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str


Tidings = Callable[..., Answer]


@pytest.fixture
def tidings(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> Tidings:
    """The command line in this process, in an empty folder; a test that asks for Spark shares it.

    It must say so, or each worker would start a Spark of its own.
    """
    from tidings import cli, pipeline

    def borrowed_session(**options: Any) -> Any:
        assert needs_spark(request.node), "write: @pytest.mark.usefixtures('spark')"
        return nullcontext(request.getfixturevalue("spark"))

    monkeypatch.setattr(pipeline, "session", borrowed_session)
    monkeypatch.setattr(pipeline, "abandon", lambda: None)  # the session is everybody's
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Answer:
        status = cli.main(words)
        return Answer(status, *capsys.readouterr())

    return run
