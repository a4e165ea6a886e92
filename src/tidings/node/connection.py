"""Another member as its links show it, and one TCP connection with it.

A connection cuts what comes into frames and keeps count of what comes and goes; what a frame means
for the group, its transport decides.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from tidings.node.config import Address
from tidings.node.identity import Identity, Proof
from tidings.node.wire import (
    GREETING,
    Frame,
    FrameReader,
    Kind,
    Why,
    WireFault,
    bye_frame,
    hello_frame,
    knock_frame,
    read_bye,
    read_hello,
    read_knock,
    read_snapshot,
)

PACKETS = int(Kind.PACKETS)
"""Of most frames: to look it up in the enumeration takes as long as to compare it."""

if TYPE_CHECKING:
    from tidings.node.transport import Transport


class Peer:
    """Another member, over all connections with it."""

    def __init__(self, name: str, address: Address | None, first_number: int) -> None:
        self.name = name
        self.address = address
        """Where it is reached; None for a newcomer that has called us."""
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
        self.is_linked = asyncio.Event()
        """Set whenever a link comes up; whoever waits for the next one clears it first."""
        self.missed_s = 0.0
        """Since when we have called it in vain."""
        self.missed_because = ""
        """Why the last call was in vain."""
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


class Knock(asyncio.Protocol):
    """Asks a member to call us, and hangs up."""

    is_ours = True

    def __init__(self, me: str, name: str, *, is_plain: bool) -> None:
        self._me, self._name, self._is_plain = me, name, is_plain
        self._transport: asyncio.Transport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_plain:
            self._knock(self._transport)

    def _knock(self, transport: asyncio.Transport) -> None:
        transport.write(GREETING + knock_frame(self._me))
        transport.close()

    def proven(self, proof: Proof) -> None:
        if self._transport is not None and proof.member == self._name:
            self._knock(self._transport)
        else:
            self.abort()

    def unproven(self, words: str, reason: str) -> None:
        """It matters to nobody: when we are called, the reason is found again."""
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, fault: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Connection(asyncio.BufferedProtocol):
    """One TCP connection, from the first byte to the last.

    What comes is read into a buffer that is there already: asyncio would else make one of 256 KiB
    for every packet, which takes longer than to read the packet.
    """

    def __init__(self, owner: "Transport", peer: Peer | None) -> None:
        self.owner = owner
        self.peer = peer
        """Whom we called; for a caller of ours, known once it has said who it is."""
        self.is_ours = peer is not None
        self.identity: Identity | None = None
        """By which of our certificates and lists its own is checked; none in a plain group."""
        self.proof: Proof | None = None
        """What its certificate says, once hands are shaken; never in a plain group."""
        self.has_greeted = False
        """Whether we have called, and said who we are."""
        self.is_up = False
        self.is_refused = False
        """Whether one side will not talk to the other, before somebody changes something."""
        self.is_over = False
        """Whether what has come and was not taken is not wanted any more."""
        self.is_rejected = False
        """Whether the process takes the other side for somebody else than it was."""
        self.session = 0
        self.last_number = 0
        """Of the last packet that came."""
        self.waiting = 0
        """Bytes that have come and that the holder has not taken yet."""
        self.loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self.loop.create_future()
        self.greeted = asyncio.Event()
        """Set when the link is up, or when there is none to come."""
        self.reader = FrameReader(owner.config.links.hello_bytes)
        self.is_paused = False
        """Whether nothing is read from it for now."""
        self.has_sent = True
        """Whether we have said something in this round of keeping links alive."""
        self.silence_ms = 0.0
        """How long we have listened since we last heard something."""
        self.unconfirmed = 0
        """Bytes that came since we last said what we have."""
        self._patience: asyncio.TimerHandle | None = None
        """For the end of what we have said, if that was the last."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of other loops, such as uvloop's, do the same and are of another class.
        self.transport = cast(asyncio.Transport, transport)
        # The host; the port of a caller says nothing, and is another one at every call.
        self.where = str((transport.get_extra_info("peername") or ("?",))[0])
        if self.peer is None:
            self.owner.meet(self)
        elif self.owner.credentials.identity is None:
            self._greet(self.peer)

    def _greet(self, peer: Peer) -> None:
        self.has_greeted = True
        self.write(GREETING + hello_frame(self.owner.hello_to(peer)))

    def proven(self, proof: Proof) -> None:
        """Hands are shaken. Whoever is called must be who it was called as, to hear a hello."""
        self.proof = proof
        if self.peer is not None:
            self.check_name(self.peer.name)
            self._greet(self.peer)

    def check_name(self, name: str) -> None:
        if self.proof is not None and self.proof.member != name:
            raise WireFault(f"its certificate is that of {self.proof.member}, not {name}", "name")

    def unproven(self, words: str, reason: str) -> None:
        if self.is_up:  # somebody in between has altered what was said; the member is who it was
            self.owner.lost(self, WireFault(words))
            self.transport.abort()
        else:
            self.owner.refuse(self, words, reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self.owner.buffer[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
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
            self.owner.refuse(self, str(fault), fault.reason)

    def connection_lost(self, fault: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self.owner.lost(self, fault)
        self.lost.set_result(None)
        self.greeted.set()

    # --- frames

    def _take(self, frame: Frame) -> None:
        if self.transport.is_closing():
            return
        if not self.is_up and self.identity is not self.owner.credentials.identity:
            # Its certificate was checked before ours were read again: it has to show it once more.
            self.transport.abort()
            return
        if frame.kind == PACKETS and self.is_up:
            self.owner.packets(self, frame)
        elif frame.kind == Kind.BYE and (self.is_ours or self.is_up):
            self.owner.bye(self, read_bye(frame))
        elif frame.kind == Kind.KNOCK and not (self.is_ours or self.is_up):
            self.owner.knocked(self, read_knock(frame))
        elif not self.is_up:
            self.owner.greet(self, read_hello(frame))
        elif frame.kind == Kind.ALIVE:
            self.owner.alive(self, frame.number)
        elif frame.kind == Kind.SNAPSHOT:
            self.owner.heard(self, read_snapshot(frame))
        else:
            raise WireFault(f"a frame of kind {frame.kind}")

    def write(self, data: bytes) -> None:
        self.has_sent = True
        self.transport.write(data)
        if self.peer is not None:
            self.peer.bytes_sent += len(data)

    def hang_up(self, reason: str, why: Why = Why.WORDS, incarnation: int = 0) -> None:
        """Say why, and close when that has left; whoever does not read it is not waited for."""
        greeting = b"" if self.has_greeted or self.is_up else GREETING
        self.write(greeting + bye_frame(reason, why, incarnation))
        self.transport.close()
        delay_s = self.owner.config.links.close_ms / 1e3
        self._patience = self.loop.call_later(delay_s, self.transport.abort)
