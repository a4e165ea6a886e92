"""``tidings watch`` as a process of its own, which a test may kill."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Driver = subprocess.Popen[bytes]


@contextmanager
def watching(trace: Path, checkpoint: Path, *words: str) -> Iterator[Driver]:
    """It and its Java are dead when the block ends."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tidings", "watch", trace, "--checkpoint", checkpoint, "--json",
         *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield driver
    finally:
        kill(driver)


def kill(driver: Driver) -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
