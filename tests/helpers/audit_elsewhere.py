"""An audit by a program of its own, on a Spark of its own: no process has more than one.

    python audit_elsewhere.py TRACE master spark://... pieces sql
    python audit_elsewhere.py TRACE remote sc://... grouped

It prints the verdicts, one line for each of the ways it was told. In the folder $WAIT_IN, if that
is set, the first task that has got parcels says which executor it runs on, and waits for its end.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from tidings import pipeline
from tidings.pipeline.arrays.limits import JudgingLimits
from tidings.pipeline.arrays.perform import Exchange, Parcel

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
    trace: Path, kind: str, place: str, *ways: str, wait_in: Path | None = None
) -> Iterator[Elsewhere]:
    """Start it; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(trace), kind, place, *ways],
        env=os.environ
        | {"PYSPARK_PYTHON": sys.executable}
        | ({"WAIT_IN": str(wait_in)} if wait_in else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Elsewhere(process)
        finally:
            process.kill()


class WaitingOnce:
    """Work at a place; the first that is asked for it waits until its executor is killed."""

    def __init__(self, work: Callable[..., Iterable[Parcel]], folder: str) -> None:
        self.work, self.folder = work, folder

    def __call__(self, place: int, contents: list[Any]) -> Iterable[Parcel]:
        with suppress(FileExistsError):
            Path(self.folder, "first").mkdir()
            # Python workers are children of a daemon, and that of the executor.
            parents = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
            executor = parents[1]
            Path(self.folder, "draft").write_text(executor)
            Path(self.folder, "draft").rename(Path(self.folder, "waiting"))
            while Path("/proc", executor).exists():
                time.sleep(0.05)
            sys.exit("the executor is gone")
        return self.work(place, contents)


def _wait_between_exchanges(folder: str) -> None:
    """The rows have been sent to their slabs, and some have arrived."""
    module = import_module("tidings.pipeline.judging")
    exchanging = module.exchanging

    def waiting(*about: Any) -> Exchange:
        exchange = exchanging(*about)

        def exchanged(items: Any, pack: Any, stages: Any) -> list[Parcel]:
            first = stages[0]._replace(work=WaitingOnce(stages[0].work, folder))
            return list(exchange(items, pack, [first, *stages[1:]]))

        return exchanged

    module.exchanging = waiting


def main(path: Path, kind: str, place: str, ways: list[str]) -> None:
    if folder := os.environ.get("WAIT_IN"):
        _wait_between_exchanges(folder)
    with pipeline.session(**{kind: place}) as spark:
        for way in ways:
            audited = pipeline.audit(spark, path, examples=None, **WAYS[way])
            print(msgspec.json.encode(audited.verdicts).decode(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4], sys.argv[4:])
