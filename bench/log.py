"""How long a commit takes: one sqlite row, or one entry appended to a file.

    .venv/bin/python bench/log.py

Each commit is on disk when it returns. The last column is what one member could hold per second
if it did nothing else, at 100 bytes a text.
"""

import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tidings.core import MessageId
from tidings.core.ranks import percentile
from tidings.node.log import About, open_log
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch
from tidings.protocols.frontier.records import Stored

TEXT = b"a line of text" * 7
COMMITS = 300


Write = Callable[[tuple[Any, ...]], None]


def sqlite(folder: Path) -> Write:
    connection = sqlite3.connect(folder / "log.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("create table entries (number integer primary key, body blob)")

    def write(records: tuple[Any, ...]) -> None:
        body = msgspec.msgpack.encode(records)
        connection.execute("insert into entries (body) values (?)", (body,))

    return write


def segments(folder: Path) -> Write:
    about = About("bench", "p1", ("p1", "p2", "p3"), "frontier", traced=False)
    log, _ = open_log(folder, about, Frontier, incarnation=1)
    log.begin_segment((), index=0)
    return log.commit


def bare(folder: Path) -> Write:
    file = os.open(folder / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(records: tuple[Any, ...]) -> None:
        os.write(file, msgspec.msgpack.encode(records))
        os.fdatasync(file)

    return write


def measure(write: Write, texts: int) -> float:
    """The time of a commit in seconds: the tenth percentile, since other programs only add."""
    times = []
    for number in range(COMMITS):
        first = MessageId("p1", 1 + number * texts)
        records = (Stored(Batch(first, (TEXT,) * texts)),)
        begin = time.perf_counter()
        write(records)
        times.append(time.perf_counter() - begin)
    return percentile(10, sorted(times))


def main() -> None:
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{'texts a commit':>14} {'':<17} {'ms':>7} {'texts/s':>11}")
    for texts in (1, 10, 100, 1000):
        for name, make in {
            "sqlite, WAL, FULL": sqlite,
            "our segments": segments,
            "write, fdatasync": bare,
        }.items():
            with tempfile.TemporaryDirectory(dir=where) as folder:
                seconds = measure(make(Path(folder)), texts)
            print(f"{texts:>14} {name:<17} {seconds * 1e3:>7.3f} {texts / seconds:>11,.0f}")


if __name__ == "__main__":
    main()
