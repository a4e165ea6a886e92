"""What the other members have said and the process has not been handed yet.

What one member has said is taken in its order, and all members take turns, frame by frame. Time
that is up ends a turn, too: what is left of a frame is taken in the next tick.
"""

from collections import deque
from collections.abc import Generator, Iterator

from tidings.core import Event, LinkDown, LinkUp, Receive
from tidings.node.tick import Tick, TickTime
from tidings.node.wire import Came
from tidings.trace.segments import Packets

LinkNews = LinkUp | LinkDown | Iterator[Came]
"""A link came up or went down, or brought a frame; its packets are decoded as they are taken."""


class Incoming:
    def __init__(self) -> None:
        self._lanes: dict[str, deque[LinkNews]] = {}
        """What each member has said, the next in turn first."""
        self.incarnations: dict[str, int] = {}
        """As which each peer was last linked, as far as the process knows."""
        self.is_traced = False

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, peer: str, event: LinkNews) -> None:
        lane = self._lanes.get(peer)
        if lane is None:
            self._lanes[peer] = deque((event,))
        else:
            lane.append(event)

    def take(self, time: TickTime, tick: Tick) -> Iterator[Event]:
        """As much as there is time for; of whoever has said something, at least one packet."""
        lanes = self._lanes
        while lanes:
            peer = next(iter(lanes))
            lane = lanes.pop(peer)
            event = lane[0]
            if isinstance(event, LinkUp | LinkDown):
                if isinstance(event, LinkUp):
                    self.incarnations[peer] = event.incarnation
                yield event
                lane.popleft()
            elif (yield from self._take_packets(peer, event, time, tick)):
                lane.popleft()
            # Its next turn is after all others'; what came from it meanwhile is after the rest.
            lane += lanes.pop(peer, ())
            if lane:
                lanes[peer] = lane
            if time.is_up():
                return

    def _take_packets(
        self, peer: str, packets: Iterator[Came], time: TickTime, tick: Tick
    ) -> Generator[Event, None, bool]:
        """Whether all of them were taken before the time was up; at least one is."""
        for number, packet, size in packets:
            if self.is_traced:
                about = packet.about or ()
                tick.items.append(Packets("receive", ((peer, number),), packet.kind, size, *about))
            tick.bytes += size
            yield Receive(peer, packet)
            if time.is_up():
                return False
        return True
