"""One tick of a member: what it comes to, and how long it may take."""

from collections.abc import Callable
from time import monotonic, thread_time
from typing import Any

import msgspec

from tidings.core import Checkpoint, Packet
from tidings.node.log import Ranges

Outbound = tuple[Packet, bytes, int]
"""A packet, the same encoded, and its place among the items of the trace."""


class Tick(msgspec.Struct):
    """What one tick comes to; everything in it waits until its records are on disk."""

    records: list[Any] = []
    held: Ranges = {}
    """Which messages stand in the records, and how many they are."""
    messages: int = 0
    delivered: dict[str, int] = {}
    items: list[Any] = []
    """Of the trace; a packet that is sent keeps its place with None until it has a number."""
    block: bytes = b""
    """The items, as they will stand in the trace."""
    packets: dict[tuple[str, ...], list[Outbound]] = {}
    """By addressees."""
    frames: list[tuple[list[tuple[str, int]], bytes, int]] = []
    """To whom under which number, what, and how many packets that is."""
    leaving: dict[str, int] = {}
    """How many bytes of packets are for each peer."""
    after: list[Callable[[], None]] = []
    """What comes last: the answers, and what the application is handed."""
    checkpoint: Checkpoint | None = None
    """With which a new segment of the log begins after this tick, if so."""
    index: int = 0
    """Which place in the history of the member comes next after it."""
    bytes: int = 0
    """About how long the records are: as long as what came in."""
    is_due: bool = False
    """Whether something waits for its records, or for those before them."""


class TickTime:
    """How long a tick may take, in processor time.

    To ask for that is a system call. The wall clock is none, and never behind: as long as it says
    that there is time, there is.
    """

    __slots__ = ("_until_cpu_s", "_until_s")

    def __init__(self, seconds: float) -> None:
        self._until_s = monotonic() + seconds
        self._until_cpu_s = thread_time() + seconds

    def is_up(self) -> bool:
        return monotonic() >= self._until_s and thread_time() >= self._until_cpu_s
