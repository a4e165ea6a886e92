"""A member of a group of Tidings, through the public doors of whatever revision is on the path.

    python tidings_member.py FOLDER PLACE MEMBERS DOORS PROFILE LOOP

Doors: ``plain`` is ``await group.broadcast(text)`` and ``async for message in group``; ``many`` is
``group.broadcast_many(texts)`` and ``async for batch in group.batches()``.
"""

import asyncio
import cProfile
import sys
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import tidings
from load.member import Member, say
from load.member import run as run_on


class TidingsPort:
    def __init__(self, group: Any) -> None:
        self._group = group
        self.broadcast = group.broadcast

    def answered(self, receipt: Any) -> Awaitable[Any]:
        return receipt.delivered()  # type: ignore[no-any-return]

    def commits(self) -> int:
        # No public door says this without a metrics port.
        group = self._group  # of an older revision, perhaps
        engine = group._member.joined() if hasattr(group, "_member") else group._joined()
        disk = getattr(engine, "disk", None)
        return disk.commits if disk is not None else 0


class ManyPort(TidingsPort):
    async def broadcast_many(self, texts: list[bytes]) -> None:
        await self._group.broadcast_many(texts)


async def read(group: Any, member: Member) -> None:
    async for message in group:
        member.deliver(message.text)


async def read_batches(group: Any, member: Member) -> None:
    async for batch in group.batches():
        for text in batch.texts:
            member.deliver(text)


async def main(folder: Path, place: int, members: int, doors: str) -> None:
    member = Member(place, members)
    async with tidings.join(f"p{place + 1}", folder / "group.toml") as group:
        if doors == "many" and not hasattr(group, "broadcast_many"):
            raise SystemExit("this revision of tidings has no broadcast_many: use --doors plain")
        say(f"tidings {Path(tidings.__file__).parents[1]}")
        while len(group.status().linked) < members - 1 or group.status().awaited:
            await asyncio.sleep(0.01)
        async with asyncio.TaskGroup() as tasks:
            many = doors == "many"
            reading = tasks.create_task((read_batches if many else read)(group, member))
            await member.take_part(ManyPort(group) if many else TidingsPort(group))
            reading.cancel()


def run(work: Coroutine[Any, Any, None], loop: str) -> None:
    """As ``tidings.run`` does, if this revision has it, and there is no other loop to be tried."""
    if loop == "uvloop" and hasattr(tidings, "run"):
        tidings.run(work)
    else:
        run_on(work, loop)


if __name__ == "__main__":
    folder, place, members, doors, profile, loop = sys.argv[1:]
    work = main(Path(folder), int(place), int(members), doors)
    if profile == f"p{int(place) + 1}":
        with cProfile.Profile() as profiler:
            run(work, loop)
        profiler.dump_stats(f"{profile}.prof")
    else:
        run(work, loop)
