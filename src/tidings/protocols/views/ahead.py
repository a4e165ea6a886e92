"""Packets of views that are not installed here yet. They wait, as long as there is room for them.

What there is no room for is lost, as on a link that breaks, and made good in the same way: as soon
as the view is installed, both sides tell each other what they hold. Only what is said about views
of which the one before is not installed here is dropped for good: whoever says it tries again.
"""

from collections.abc import Sequence

from tidings.core import Members, Packet, Part, Receive
from tidings.protocols.frontier.log import size_of
from tidings.protocols.frontier.packets import Data, Push
from tidings.protocols.plausible import MOST, Bounds, fault_of
from tidings.protocols.views.packets import InView, View

NO_VIEW = -1
"""The number of the view that packets are about which name several, or none."""
PACKET_BYTES = 200
"""What a packet without texts takes in memory, about."""


class Ahead(Part):
    most: int
    most_bytes: int
    """How many may wait, and about how long they may be together."""
    ahead: tuple[Receive, ...] = ()
    ahead_bytes: int = 0
    overlooked: dict[str, int] = {}
    """Members of which something was dropped, and the last view of which it was."""

    def add(self, sender: str, packet: Packet) -> None:
        size = _size(packet)
        if len(self.ahead) < self.most and self.ahead_bytes + size <= self.most_bytes:
            self.ahead += (Receive(sender, packet),)
            self.ahead_bytes += size
        elif isinstance(packet, InView):
            self.overlooked[sender] = max(packet.number, self.overlooked.get(sender, 0))

    def take(self, chain: Sequence[View]) -> list[Receive]:
        """All of them, to look whether their time has come.

        When they came, nobody here knew who is in their views. So only now is it seen whether
        somebody means these members.
        """
        early, self.ahead, self.ahead_bytes = self.ahead, (), 0
        return [one for one in early if _is_meant_for(chain, one.packet)]

    def to_exchange(self, number: int) -> list[str]:
        """With whom to exchange everything, now that this view is installed."""
        those = [one for one in sorted(self.overlooked) if one in self.members]
        rest = self.overlooked.items()
        self.overlooked = {one: last for one, last in rest if last > number}
        return those


def _is_meant_for(chain: Sequence[View], packet: Packet) -> bool:
    def members_of(number: int) -> Members | None:
        return chain[number].members if 0 <= number < len(chain) else None

    number = packet.number if isinstance(packet, InView) else NO_VIEW
    inner = packet.packet if isinstance(packet, InView) else packet
    return not fault_of(inner, Bounds(members_of(number), MOST, MOST, members_of))


def _size(packet: Packet) -> int:
    match packet:
        case InView(_, Data(batch)):
            return PACKET_BYTES + size_of(batch)
        case InView(_, Push(batches)):
            return PACKET_BYTES + sum(map(size_of, batches))
    return PACKET_BYTES
