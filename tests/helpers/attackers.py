"""Strangers that attack a group without a pause, all of them in one process of their own.

    with attackers(path, papers, recorded, calls_per_s=120) as attack:
        attack(True)
        attack(False)

They call at an even rate, which is what they cost: on few cores a measurement must not be of who
else computes. Calls go to all members in turn, in each of these ways in turn:

- a hello, a refusal, a false commit and a text under the name of a member, without TLS;
- the same after a handshake without a certificate, and with one of another authority;
- what a member once sent to another, byte by byte;
- the beginning of a handshake, and nothing more;
- nothing at all.

The last two stay connected until they are sent away, so each member has as many strangers as it
allows.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, product
from pathlib import Path

from strangers import Papers, forged, shout
from tidings.node.config import Config, read_config

WAYS = ("plain", "", "other_authority", "replayed", "half-open", "silent")
"""What is shown, if hands are shaken."""
SOURCE = "127.0.0.66"
"""Whence they call: members do not."""
ON, OFF = b"on\n", b"off\n"


@contextmanager
def attackers(
    path: Path, folder: Path, recorded: bytes, calls_per_s: float
) -> Iterator[Callable[[bool], None]]:
    """They attack the group of this file while they are told to; the folder is for their files."""
    (folder / "recorded").write_bytes(recorded)
    command = [sys.executable, __file__, str(path), str(folder), str(calls_per_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None

    def attack(on: bool) -> None:
        """Returns when they have begun, or are gone."""
        process.stdin.write(ON if on else OFF)
        process.stdin.flush()
        assert process.stdout.readline() == (ON if on else OFF)

    try:
        yield attack
    finally:
        process.kill()
        process.communicate()


async def call_on(config: Config, papers: Papers, recorded: bytes, calls_per_s: float) -> None:
    async def call(to: str, way: str) -> None:
        name = config.members[to == config.members[0]]
        spoken = {"replayed": recorded, "half-open": b"\x16\x03\x01", "silent": b""}
        context = papers.context(way) if way in ("", "other_authority") else None
        await shout(config, to, spoken.get(way, forged(config, name, to)), context, SOURCE)

    now_s = asyncio.get_running_loop().time
    due_s = now_s()
    async with asyncio.TaskGroup() as calls:
        for way, to in cycle(product(WAYS, config.members)):
            calls.create_task(call(to, way))
            due_s = max(due_s + 1 / calls_per_s, now_s())  # what was missed is not made up for
            await asyncio.sleep(due_s - now_s())


async def obey(path: str, folder: str, calls_per_s: str) -> None:
    config, papers = read_config(Path(path)), Papers(Path(folder) / "papers")
    recorded = (Path(folder) / "recorded").read_bytes()
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    calling: asyncio.Task[None] | None = None
    async for order in orders:
        if calling is not None:
            calling.cancel()
            with suppress(asyncio.CancelledError):
                await calling
            calling = None
        if order == ON:
            calling = asyncio.create_task(call_on(config, papers, recorded, float(calls_per_s)))
        print(order.decode(), end="", flush=True)


if __name__ == "__main__":
    asyncio.run(obey(*sys.argv[1:]))
