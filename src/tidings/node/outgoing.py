"""What a member says: packets become frames, which are numbered, traced, and leave with their tick.

Whatever was said in one tick to the same members leaves in one frame, or in as few as the limits
allow.
"""

from collections import Counter

from tidings.core import Packet
from tidings.node.config import Limits
from tidings.node.errors import TooLong
from tidings.node.recording import Recorder
from tidings.node.tick import Outbound, Tick
from tidings.node.transport import Transport
from tidings.node.wire import FRAME_OVERHEAD, PACKET_OVERHEAD, body_of
from tidings.trace.segments import Packets


class Outgoing:
    def __init__(self, transport: Transport, limits: Limits, changes: bool) -> None:
        self.is_traced = False
        self.recorder: Recorder | None = None
        self.under_way: Counter[str] = Counter()
        """Bytes for each peer that wait for their tick to be done."""
        self._transport = transport
        self._limits = limits
        self._changes = changes
        """Whether somebody may be sent something whom not everybody knows."""

    def add(self, packet: Packet, encoded: bytes, to: tuple[str, ...], tick: Tick) -> None:
        asked, transport = to, self._transport
        if self._changes and not transport.peers.keys() >= set(to):
            # Of a newcomer only those know where it is that were asked to add it.
            to = tuple(peer for peer in to if peer in transport.peers)
        if not transport.resends:
            to = self._with_room_for(len(encoded), to, tick)
        if self.recorder is not None and asked != to:
            self.recorder.unsent([peer for peer in asked if peer not in to], encoded)
        if to:
            tick.packets.setdefault(to, []).append((packet, encoded, len(tick.items)))
            if self.is_traced:
                tick.items.append(None)

    def _with_room_for(self, size: int, to: tuple[str, ...], tick: Tick) -> tuple[str, ...]:
        """Who asks for more than may wait for it loses its link, before it costs us memory.

        What is not sent is lost as on any link that breaks, and made good in the same way.
        """
        under_way, most = self.under_way, self._limits.queue_bytes - size
        for peer in to:
            if under_way[peer] > most:
                self._transport.overflow(peer, under_way[peer] + size)
                to = tuple([one for one in to if one != peer])
            else:
                under_way[peer] += size
                tick.leaving[peer] = tick.leaving.get(peer, 0) + size
        return to

    def forget(self, peer: str) -> None:
        self.under_way.pop(peer, None)

    # --- the end of a tick

    def pack(self, tick: Tick) -> None:
        for to, packets in tick.packets.items():
            self._pack(to, packets, tick)

    def _pack(self, to: tuple[str, ...], packets: list[Outbound], tick: Tick) -> None:
        """Into as few frames as the limits allow, most often one; and number what is in them."""
        room = self._limits.frame_bytes - FRAME_OVERHEAD
        left, frame = room, list[Outbound]()
        for one in packets:
            size = len(one[1]) + PACKET_OVERHEAD
            if size > room:
                raise TooLong(
                    f"a {one[0].kind} of {len(one[1]):,} bytes does not fit into a frame; "
                    f"{self._limits.frame_bytes:,} is the limit (limits.frame_bytes, the same for "
                    "all members)"
                )
            if size > left or len(frame) == self._limits.frame_packets:
                self._close_frame(to, frame, tick)
                left, frame = room, []
            left -= size
            frame.append(one)
        self._close_frame(to, frame, tick)

    def _close_frame(self, to: tuple[str, ...], frame: list[Outbound], tick: Tick) -> None:
        number, count = self._transport.number, len(frame)
        firsts = [(peer, number(peer, count)) for peer in to]
        tick.frames.append((firsts, body_of([encoded for _, encoded, _ in frame]), count))
        if self.is_traced:
            for offset, (packet, encoded, place) in enumerate(frame):
                peers = tuple([(peer, first + offset) for peer, first in firsts])
                about = packet.about or ()
                tick.items[place] = Packets("send", peers, packet.kind, len(encoded), *about)

    def send(self, tick: Tick) -> None:
        """What the tick relies on is on disk, and in the trace."""
        for to, body, count in tick.frames:
            self._transport.send(to, body, count)
        for peer, size in tick.leaving.items():
            self.under_way[peer] -= size
