"""How many broadcasts a group of three carries per second: three OS processes on loopback.

    .venv/bin/python bench/node.py             in memory
    .venv/bin/python bench/node.py --durable   on disk before anything is acknowledged

All three publish texts of 100 bytes with an awaited ``broadcast`` and read with ``async for``, with
the trace on. Every member checks every message: its text, its place in the order of its origin,
and that there is no second. A broadcast counts once, when the slowest member has delivered it.
"""

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tidings
from tidings.node.group import Group
from tidings.testkit.fleet import free_ports
from tidings.trace.schema import DIGEST, DIGESTS

MEMBERS = ("p1", "p2", "p3")
SIZE = 100


NAMES = {name: name.encode() for name in MEMBERS}


def text_of(origin: str, seq: int) -> bytes:
    return (b"%b %d " % (NAMES[origin], seq)).ljust(SIZE, b".")


async def publish(group: Group, count: int) -> None:
    for seq in range(1, count + 1):
        await group.broadcast(text_of(group.name, seq))


async def read(group: Group, count: int) -> float:
    """Check every message; how long after the epoch the last one came."""
    last = dict.fromkeys(MEMBERS, 0)
    missing = count * len(MEMBERS)
    async for message in group:
        origin, seq = message.id
        assert seq == last[origin] + 1, f"{message.id} after {last[origin]}"
        assert message.text == text_of(origin, seq), f"{message.id} is {message.text!r}"
        last[origin] = seq
        missing -= 1
        if not missing:
            break
    return time.time()


async def member(name: str, folder: Path, count: int, profile: str) -> None:
    async with tidings.join(name, folder / "group.toml") as group:
        while len(group.status().linked) < len(MEMBERS) - 1:
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        gc.collect()
        gc.freeze()
        profiler: Any = None
        if profile == name:
            import cProfile

            profiler = cProfile.Profile()
            profiler.enable()
        begin = time.time()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read(group, count))
            tasks.create_task(publish(group, count))
        if profiler is not None:
            profiler.disable()
            profiler.dump_stats(f"{name}.prof")
        engine = group._joined()
        used = resource.getrusage(resource.RUSAGE_SELF)
        result = {
            "begin": begin,
            "end": reading.result(),
            "cpu_s": used.ru_utime + used.ru_stime,
            "rss_mib": used.ru_maxrss / 1024,
            "ticks": engine.ticks,
            "commits": engine.disk.commits if engine.disk is not None else 0,
        }
        print(json.dumps(result), flush=True)
        # The others may still need us: leave when told to.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def group_file(asked: argparse.Namespace) -> str:
    addresses = zip(MEMBERS, free_ports(len(MEMBERS)), strict=True)
    return "\n".join(
        [
            'name = "bench"',
            f"durable = {str(asked.durable).lower()}",
            f"limits.window = {asked.window}",
            f"trace.on = {str(not asked.untraced).lower()}",
            f"trace.conform = {str(asked.conform).lower()}",
            f'trace.digest = "{asked.digest}"',
            "[members]",
            *(f'{name} = "127.0.0.1:{port}"' for name, port in addresses),
        ]
    )


def run(folder: Path, asked: argparse.Namespace) -> dict[str, float]:
    (folder / "group.toml").write_text(group_file(asked))
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, __file__, "--member", name, "--folder", str(folder)),
                *("--count", str(asked.count), "--profile", asked.profile),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in MEMBERS
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        _tell(processes, "go")
        results = [json.loads(process.stdout.readline()) for process in processes]  # type: ignore[union-attr]
        _tell(processes, "leave")
        for process in processes:
            assert process.wait(30) == 0
    finally:
        for process in processes:
            process.kill()
    seconds = max(one["end"] for one in results) - min(one["begin"] for one in results)
    total = asked.count * len(MEMBERS)
    figures = {
        "broadcasts_per_s": total / seconds,
        "seconds": seconds,
        "cpu_us_per_broadcast_and_member": sum(one["cpu_s"] for one in results) / total / 3 * 1e6,
        "rss_mib": max(one["rss_mib"] for one in results),
        "broadcasts_per_tick": total * 3 / sum(one["ticks"] for one in results),
    }
    if asked.durable:
        figures["broadcasts_per_commit"] = total * 3 / sum(one["commits"] for one in results)
    return figures


def _tell(processes: list[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(word + "\n")
        process.stdin.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--untraced", action="store_true")
    parser.add_argument("--conform", action="store_true", help="record the steps")
    parser.add_argument("--digest", default=DIGEST, choices=DIGESTS)
    parser.add_argument("--count", type=int, default=200_000, help="broadcasts of each member")
    parser.add_argument("--window", type=int, default=10_000)
    parser.add_argument("--disk", type=Path, help="where the logs go")
    parser.add_argument("--profile", default="", help="a member to profile, into p1.prof")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.member:
        asyncio.run(member(asked.member, asked.folder, asked.count, asked.profile))
        return
    with tempfile.TemporaryDirectory(dir=asked.disk) as folder:
        for name, value in run(Path(folder), asked).items():
            print(f"{name:<32} {value:>12,.1f}")


if __name__ == "__main__":
    main()
