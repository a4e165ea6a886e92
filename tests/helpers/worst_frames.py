"""Frames that are made to keep a member busy, and how long its loop is away for each of them.

    .venv/bin/python tests/helpers/worst_frames.py

A member with everything as it is by default, with a log and a trace, is sent each of them over a
real connection. What counts is the longest time between two turns of its event loop, as time that
passes and as time of the processor; the tests look at the latter, which does not depend on what
else the machine does.
"""

import asyncio
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from real_groups import group_file, hello_of, joined, until
from tidings.core import MessageId, Packet, Span
from tidings.node.config import Config, Limits
from tidings.node.wire import GREETING, Kind, body_of, framed, hello_frame
from tidings.protocols.frontier.packets import (
    MOST_BATCHES,
    Asking,
    Batch,
    Commit,
    Counts,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    State,
)

LIMITS = Limits()
ROOM = LIMITS.frame_bytes - 100
TEXTS = LIMITS.batch_messages
ID, FIRST = MessageId("p3", 5), MessageId("p2", 1)
encode = msgspec.msgpack.Encoder().encode


def frame(*packets: Packet | bytes, number: int = 1) -> bytes:
    """``number`` is that of the first packet on its link."""
    encoded = [one if isinstance(one, bytes) else encode(one) for one in packets]
    return framed(Kind.PACKETS, number, body_of(encoded))


def array(count: int) -> bytes:
    return b"\xdd" + struct.pack("!I", count)


def often(packet: Packet) -> Callable[[], bytes]:
    """As many as a frame may have."""
    return lambda: frame(*[encode(packet)] * LIMITS.frame_packets)


def data(first: int) -> Data:
    """As many texts as a packet may have, as short as possible."""
    return Data(Batch(MessageId("p2", first), (b"",) * TEXTS))


def pushed(seqs: Sequence[int], *causes: MessageId) -> Push:
    """As many batches as a packet may have."""
    return Push(tuple(Batch(MessageId("p2", seq), (b"",), Counts(some=causes)) for seq in seqs))


LEGAL: dict[str, Callable[[], bytes]] = {
    "10,000 acknowledgements of nothing": often(Holding(Counts())),
    "10,000 questions": often(Asking(Counts(some=(ID,)))),
    "10,000 states that ask": often(State((0,) * 3, (0,) * 3, (0,) * 3, (0,) * 3, asks=True)),
    "160,000 texts in 40 packets": lambda: frame(*[data(1 + n * TEXTS) for n in range(40)]),
    "the same, the last one first": lambda: frame(
        *[data(1 + n * TEXTS) for n in range(39, -1, -1)]
    ),
    "4,000 batches pushed": lambda: frame(pushed(range(1, TEXTS + 1), ID)),
    "4,000 batches, the last one first": lambda: frame(pushed(range(TEXTS, 0, -1), ID)),
    "two texts of 1 MB": lambda: frame(Data(Batch(FIRST, (bytes(10**6), bytes(10**6))))),
}
"""These are taken: a member could say so."""

HOSTILE: dict[str, Callable[[], bytes]] = {
    "10,000 requests for everything": often(Pull((Span("p1", 1, TEXTS),))),
    "a million empty packets": lambda: framed(
        Kind.PACKETS, 1, array(ROOM // 2 - 5) + b"\xc4\x00" * (ROOM // 2 - 5)
    ),
    "a million texts": lambda: frame(Data(Batch(FIRST, (b"",) * (ROOM // 2 - 50)))),
    "a million texts in 5,000 batches": lambda: frame(
        Push((Batch(FIRST, (b"",) * 200),) * (MOST_BATCHES - 1))
    ),
    "170,000 batches": lambda: frame(Push((Batch(FIRST, (b"",)),) * (ROOM // 12))),
    "400,000 causes": lambda: frame(
        Push((Batch(FIRST, (b"",), Counts(some=(ID,) * 1_000)),) * (ROOM // 5_020))
    ),
    "100,000 causes": lambda: frame(
        Push((Batch(FIRST, (b"",), Counts(some=(ID,) * 1_000)),) * (LIMITS.packet_bytes // 5_020))
    ),
    "400,000 ids in one vector": lambda: frame(Holding(Counts(some=(ID,) * (ROOM // 5)))),
    "two million numbers": lambda: frame(Holding(Counts(all=(1,) * (ROOM - 50)))),
    "350,000 ranges": lambda: frame(Pull((Span("p1", 1, 1),) * (ROOM // 6 - 5))),
    "250,000 commits": lambda: frame(Commit((Known("p1", 1, 1),) * (ROOM // 8 - 5))),
    "two million fields": lambda: frame(array(ROOM - 50) + b"\xa7holding" + bytes(ROOM - 59)),
    "arrays in arrays": lambda: frame(b"\x91" * (ROOM - 50) + b"\x00"),
    "a kind of two megabytes": lambda: frame(
        b"\x92\xdb" + struct.pack("!I", ROOM - 50) + b"x" * (ROOM - 50) + b"\x00"
    ),
    "a text that is too long": lambda: frame(Data(Batch(FIRST, (bytes(LIMITS.text_bytes + 1),)))),
}
"""These cost their sender the connection: most are refused, and no peer asks so often."""


class Absence:
    """The longest time between two turns of the loop, in seconds."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._at = (time.perf_counter(), time.thread_time())
        self._is_over = False

    def turn(self) -> None:
        wall_s, cpu_s = self._at
        self._at = (time.perf_counter(), time.thread_time())
        self.wall_s = max(self.wall_s, self._at[0] - wall_s)
        self.cpu_s = max(self.cpu_s, self._at[1] - cpu_s)
        if not self._is_over:
            self._loop.call_soon(self.turn)

    def end(self) -> None:
        self._is_over = True


async def absence(config: Config, spoken: bytes) -> tuple[Absence, bool]:
    """How long p1 is away when p2 says this; and whether p2 still has its link then."""
    async with joined(config, "p1", founding=True, listen=False) as one:
        p1 = one["p1"]
        _, writer = await asyncio.open_connection(*config.addresses["p1"])
        writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))
        await until(lambda: p1.status().linked == ("p2",))
        for _ in range(TEXTS):
            await p1.broadcast(b"")
        await until(lambda: p1.status().broadcast == TEXTS)
        peer, engine = p1._member.transport.peers["p2"], p1._member.joined()
        before = peer.bytes_received
        line = writer.get_extra_info("socket").dup()
        line.setblocking(True)
        measured = Absence()
        measured.turn()
        try:
            await asyncio.to_thread(line.sendall, spoken)
            await until(lambda: peer.link is None or peer.bytes_received - before >= len(spoken))
            await until(lambda: not engine.is_busy)
            measured.turn()
        finally:
            measured.end()
            line.close()
            writer.close()
        return measured, peer.link is not None


def main() -> None:
    for title, frames in (("legal", LEGAL), ("hostile", HOSTILE)):
        print(f"{title:40}{'away':>9}{'busy':>9}")
        for name, make in frames.items():
            with tempfile.TemporaryDirectory() as folder:
                spoken = make()
                measured, _ = asyncio.run(absence(group_file(Path(folder), 3), spoken))
            print(f"{name:40}{measured.wall_s * 1e3:6.0f} ms{measured.cpu_s * 1e3:6.0f} ms")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
