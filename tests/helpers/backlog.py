"""A program that did not read while the others spoke, and what its restart costs.

python backlog.py group.toml    is p1, reads everything, and tells what memory that took
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import tidings
from tidings.core import Exit, MessageId
from tidings.node.config import Config
from tidings.node.group import Group
from tidings.node.opening import opened_log
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch, Counts
from tidings.protocols.frontier.records import Delivered, Stored


class Restart(msgspec.Struct):
    """Bytes are the most that the process had until then."""

    base_bytes: int
    joined_bytes: int
    read_bytes: int
    joined_s: float
    read_s: float
    messages: int


def write_unread(config: Config, count: int, size: int) -> None:
    """The same log as if p2 and p3 had said so many texts each, in turn, one after the other."""
    log, _ = opened_log(config, "p1", Frontier, incarnation=1)
    log.begin_segment((), index=0)
    last = dict.fromkeys(config.members, 0)
    for number in range(2 * count):
        origin = ("p2", "p3")[number % 2]
        text = json.dumps(last).encode().ljust(size)
        causes = Counts(all=tuple(last.values()))
        last[origin] += 1
        message = Batch(MessageId(origin, last[origin]), (text,), causes)
        records = Stored(message), Delivered(tuple(last.values()))
        log.commit(records, b"", {origin: (last[origin],) * 2}, 1, {origin: last[origin]})
        if log.segment_size > config.limits.segment_bytes:
            log.begin_segment(records[1:], index=0)
    log.close()


def leave_unread(group_file: Path, count: int, size: int) -> None:
    """p2 and p3 say so many texts each, of this size, and p1 is handed none of them."""
    asyncio.run(_leave_unread(group_file, count, size))


async def _leave_unread(group_file: Path, count: int, size: int) -> None:
    async with (
        tidings.join("p1", group_file, founding=True) as p1,
        tidings.join("p2", group_file, founding=True) as p2,
        tidings.join("p3", group_file, founding=True) as p3,
    ):
        async with asyncio.TaskGroup() as tasks:
            for group in (p2, p3):
                tasks.create_task(_say(group, count, size))
                tasks.create_task(_read(group, 2 * count))
        while sum(p1.status().delivered.values()) < 2 * count:
            await asyncio.sleep(0.01)
        assert p1.status().unread == 2 * count


async def _say(group: Group, count: int, size: int) -> None:
    """Every text tells what was delivered before it."""
    for _ in range(count):
        past = json.dumps(group.status().delivered).encode()
        await group.broadcast(past.ljust(size, b" "))


async def _read(group: Group, count: int) -> None:
    for _ in range(count):
        await anext(group)


def restart(group_file: Path, timeout_s: float) -> Restart:
    """p1 in a process of its own; it reads everything and checks the order."""
    done = subprocess.run(
        [sys.executable, __file__, str(group_file)],
        stdout=subprocess.PIPE,
        timeout=timeout_s,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Restart)


async def _read_everything(path: Path) -> Restart:
    base, begin_s = _peak_bytes(), time.perf_counter()
    async with tidings.join("p1", path) as group:
        handed = dict.fromkeys(group.config.members, 0)
        first = await _next(group, handed)
        joined, joined_s = _peak_bytes(), time.perf_counter() - begin_s
        missing = group.status().unread
        assert type(first) is tidings.Replayed
        for _ in range(missing):
            await _next(group, handed)
        read_s = time.perf_counter() - begin_s
    return Restart(base, joined, _peak_bytes(), joined_s, read_s, missing + 1)


async def _next(group: Group, handed: dict[str, int]) -> Any:
    message = await anext(group)
    origin, seq = message.id
    assert seq == handed[origin] + 1, f"{message.id} after {handed}"
    past = json.loads(message.text)
    assert all(handed[one] >= last for one, last in past.items()), f"{message.id} before {past}"
    handed[origin] = seq
    return message


def _peak_bytes() -> int:
    """Of this program alone: what getrusage says includes who started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(Exit.USAGE)
    print(msgspec.json.encode(asyncio.run(_read_everything(Path(sys.argv[1])))).decode())
