"""An audit by a program of its own, on a Spark of its own: no process has more than one.

    python audit_elsewhere.py TRACE master spark://... pieces sql
    python audit_elsewhere.py TRACE remote sc://... grouped

It prints the verdicts, one line for each of the ways it was told.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tidings import pipeline
from tidings.pipeline.arrays.limits import JudgingLimits

WAYS: dict[str, Any] = {
    "pieces": {"limits": JudgingLimits(batch_rows=20, least_tasks=2, slab_rows=15)},
    "grouped": {"limits": JudgingLimits(batch_rows=600)},
    "at once": {},
    "sql": {"checker": "sql"},
}


class Elsewhere:
    """Such a program while it runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def is_running(self) -> bool:
        return self.process.poll() is None

    def verdicts(self) -> list[Any]:
        """For each way what it found, once it is done."""
        out, err = self.process.communicate(timeout=500)
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def auditing(
    trace: Path, kind: str, place: str, *ways: str, python: Path = Path(sys.executable)
) -> Iterator[Elsewhere]:
    """Start it, with this Python on the workers; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(trace), kind, place, *ways],
        env=os.environ | {"PYSPARK_PYTHON": str(python)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Elsewhere(process)
        finally:
            process.kill()


def main(path: Path, kind: str, place: str, ways: list[str]) -> None:
    with pipeline.session(**{kind: place}) as spark:
        for way in ways:
            audited = pipeline.audit(spark, path, examples=None, **WAYS[way])
            print(msgspec.json.encode(audited.verdicts).decode(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4], sys.argv[4:])
