"""A counter that all members share, exact to the last one whoever is killed, and whenever.

    tidings group p1 p2 p3
    python examples/counter.py p1 1000

and the same for p2 and p3, each in a terminal of its own. Each member adds 1 a thousand times, and
prints the total as it grows. Kill any of them with ``kill -9``, all at once if you like, and start
them again with the same words: in the end all of them say 3000, and none has ever said more.

Exactly once takes two halves:

* Who counts stores the total together with the number of the last message counted, in one
  transaction. What it is handed again after a restart it finds counted.
* Who adds must know how often it has added before it was killed. Its messages are numbered and
  outlive it, so the number of its last one says so: ``group.status().own``.
"""

import asyncio
import sqlite3
import sys
from contextlib import suppress

import tidings

TABLE = "create table if not exists counted (origin text primary key, seq integer, sum integer)"
COUNT = """
    insert into counted values (?, ?, ?)
    on conflict do update set seq = excluded.seq, sum = sum + excluded.sum
    where excluded.seq > seq
"""


class Total:
    """Of each member one row: its last message counted, and what its messages add up to."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)  # every statement a transaction
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = full")
        self.db.execute(TABLE)

    def count(self, message: tidings.Message) -> int:
        self.db.execute(COUNT, (*message.id, int(message.text)))
        (total,) = self.db.execute("select sum(sum) from counted").fetchone()
        return int(total)


async def count(group: tidings.Group, total: Total) -> None:
    async for message in group:
        print("total", total.count(message), flush=True)


async def main(name: str, times: int) -> None:
    total = Total(f"{name}.db")
    async with asyncio.TaskGroup() as tasks, tidings.join(name, "group.toml") as group:
        counting = tasks.create_task(count(group, total))
        for _ in range(group.status().own, times):
            receipt = await group.broadcast(b"1")
            await receipt.delivered()
        await counting


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdecimal():
        print("usage: python examples/counter.py NAME TIMES", file=sys.stderr)
        sys.exit(64)
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
