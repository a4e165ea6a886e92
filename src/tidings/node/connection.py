"""Another member as its links show it, and one TCP connection with it.

A connection cuts what comes into frames and keeps count of what comes and goes; what a frame means
for the group, its transport decides.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from tidings.node.config import Address
from tidings.node.wire import (
    GREETING,
    Frame,
    FrameReader,
    Kind,
    Why,
    WireFault,
    bye_frame,
    hello_frame,
    read_bye,
    read_hello,
    read_knock,
)

if TYPE_CHECKING:
    from tidings.node.transport import Transport


class Peer:
    """Another member, over all connections with it."""

    def __init__(self, name: str, address: Address, first_number: int) -> None:
        self.name = name
        self.address = address
        self.link: Connection | None = None
        self.incarnation: int | None = None
        self.sent = first_number
        self.received = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self.kept: deque[tuple[int, bytes]] = deque()
        """Frames that it has not yet said to have, each behind the number of its last packet."""
        self.kept_bytes = 0
        self.has_knocked = asyncio.Event()
        """It has started since we last called it, and wants to be called."""
        self.missed_s = 0.0
        """Since when we have called it in vain."""
        self.has_left = False
        """Whether it said good-bye, and has not come back."""
        self.crashed: Why | None = None
        """Why it counts as crashed, if it does."""

    def keep(self, last: int, frame: bytes) -> None:
        self.kept.append((last, frame))
        self.kept_bytes += len(frame)

    def forget_up_to(self, number: int) -> None:
        while self.kept and self.kept[0][0] <= number:
            self.kept_bytes -= len(self.kept.popleft()[1])


class Connection(asyncio.Protocol):
    """One TCP connection, from the first byte to the last."""

    def __init__(self, owner: "Transport", peer: Peer | None) -> None:
        self.owner = owner
        self.peer = peer
        """Whom we called; for a caller of ours, known once it has said who it is."""
        self.is_ours = peer is not None
        self.is_up = False
        self.is_refused = False
        """Whether one side will not talk to the other, before somebody changes something."""
        self.is_over = False
        """Whether what has come and was not taken is not wanted any more."""
        self.is_rejected = False
        """Whether the process takes the other side for somebody else than it was."""
        self.session = 0
        self.waiting = 0
        """Bytes that have come and that the holder has not taken yet."""
        self.loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self.loop.create_future()
        self.greeted = asyncio.Event()
        """Set when the link is up, or when there is none to come."""
        self.reader = FrameReader()
        self.last_sent_s = self.loop.time()
        self.silence_ms = 0.0
        """How long we have listened since we last heard something."""
        self.unconfirmed = 0
        """Bytes that came since we last said what we have."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of other loops, such as uvloop's, do the same and are of another class.
        self.transport = cast(asyncio.Transport, transport)
        # The host; the port of a caller says nothing, and is another one at every call.
        self.where = str((transport.get_extra_info("peername") or ("?",))[0])
        if self.peer is not None:
            self.write(GREETING + hello_frame(self.owner.hello_to(self.peer)))
        else:
            self.owner.meet(self)

    def data_received(self, data: bytes) -> None:
        if self.owner.is_closing:
            return  # we have said good-bye, and only wait for the end
        self.silence_ms = 0.0
        self.unconfirmed += len(data)
        if self.peer is not None:
            self.peer.bytes_received += len(data)
        try:
            for frame in self.reader.feed(data):
                self._take(frame)
        except WireFault as fault:
            self.owner.refuse(self, str(fault))

    def connection_lost(self, fault: Exception | None) -> None:
        self.owner.lost(self, fault)
        self.lost.set_result(None)
        self.greeted.set()

    # --- frames

    def _take(self, frame: Frame) -> None:
        if self.transport.is_closing():
            return
        if frame.kind == Kind.BYE and (self.is_ours or self.is_up):
            self.owner.bye(self, read_bye(frame))
        elif frame.kind == Kind.KNOCK and not (self.is_ours or self.is_up):
            self.owner.knocked(self, read_knock(frame))
        elif not self.is_up:
            self.owner.greet(self, read_hello(frame))
        elif frame.kind == Kind.PACKETS:
            self.owner.packets(self, frame)
        elif frame.kind == Kind.ALIVE:
            self.owner.alive(self, frame.number)
        else:
            raise WireFault(f"a frame of kind {frame.kind}")

    def write(self, data: bytes) -> None:
        self.last_sent_s = self.loop.time()
        self.transport.write(data)
        if self.peer is not None:
            self.peer.bytes_sent += len(data)

    def hang_up(self, reason: str, why: Why = Why.WORDS, incarnation: int = 0) -> None:
        """Say why, and close when that has left."""
        greeting = b"" if self.is_ours or self.is_up else GREETING
        self.write(greeting + bye_frame(reason, why, incarnation))
        self.transport.close()
