"""A contestant of a race: a process of its own, measured from outside.

It starts from nothing, warms up, says that it is ready, and waits. From the word to go until it
says that it is done, time, CPU and memory are counted for it and all that descend from it: Java,
Python workers, and those that have ended by then.

A process that ended hands its CPU time to the one that waited for it, so what a family has used is
the sum over its living members of their own time and of that of the children they waited for. An
orphan would go to the init process and take its time along, so a contestant adopts its orphans; it
waits for none of them, and a zombie keeps its time.

Memory is looked at every ``GLANCE_S``. A page that several processes share counts for each by its
share, so nothing is counted twice; a peak between two glances is missed. Linux only.
"""

import ctypes
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")
GLANCE_S = 0.1
ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER, see prctl(2)."""

Judge = Callable[[Path], None]
Contestant = Callable[[], AbstractContextManager[Judge]]
"""A function at the top of a module, for the process finds it by name. What it imports and starts
inside counts as warming up."""


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mib: float


class ContestantFailedError(Exception):
    """With the words of the process itself, if it had any."""


def measured(contestant: Contestant, small: Path, trace: Path) -> Cost:
    """What it costs to judge a trace, after a small one to warm up with."""
    fresh = multiprocessing.get_context("spawn")
    ours, its = fresh.Pipe()
    process = fresh.Process(target=_take_part, args=(contestant, small, trace, its))
    process.start()
    its.close()
    assert process.pid is not None
    try:
        _hear(ours)
        peak = memory_mib(process.pid)
        used = cpu_s(process.pid)
        begin = time.perf_counter()
        ours.send("go")
        while not ours.poll(GLANCE_S):
            peak = max(peak, memory_mib(process.pid))
        wall = time.perf_counter() - begin
        _hear(ours)
        used = cpu_s(process.pid) - used
        return Cost(wall, used, max(peak, memory_mib(process.pid)))
    finally:
        ours.close()
        process.join()


def _hear(contestant: Connection) -> None:
    try:
        complaint = contestant.recv()
    except EOFError:
        complaint = "it ended without a word"
    if complaint:
        raise ContestantFailedError(complaint)


def _take_part(contestant: Contestant, small: Path, trace: Path, starter: Connection) -> None:
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        with contestant() as judge:
            judge(small)
            starter.send("")
            starter.recv()
            judge(trace)
            starter.send("")
            starter.poll(None)
    except EOFError:
        return
    except Exception:
        starter.send(traceback.format_exc())


# --- what a family uses


def cpu_s(pid: int) -> float:
    """What a process and all that ever descended from it have used so far."""
    # User and system, its own and that of the children it waited for.
    return sum(sum(map(int, stat[11:15])) for stat in family(pid).values()) / TICK


def memory_mib(pid: int) -> float:
    kib = 0
    for member in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()
            kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kib / 1024


def family(pid: int) -> dict[int, list[str]]:
    """A process and all that descend from it, zombies too, with what Linux says of each.

    These are the fields of /proc/PID/stat behind the name: state, parent, and so on.
    """
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                one, stat = int(entry.name), (entry / "stat").read_text().rsplit(")", 1)[1].split()
                stats[one] = stat
                children.setdefault(int(stat[1]), []).append(one)
    members = [pid] if pid in stats else []
    for member in members:
        members += children.get(member, [])
    return {member: stats[member] for member in members}
