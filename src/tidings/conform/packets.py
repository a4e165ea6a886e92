"""Across members: what one received, another sent, with the same bytes and in the same order.

Of a connection the receiver sees a prefix: what is lost is lost at its end, or was said while there
was none. The numbers of packets tell: they go on by one as long as a connection lasts, and when
one begins, nothing is skipped that the sender said after it knew of the link. Where links lose and
reorder on purpose (an injector), only the bytes are compared.
"""

from array import array
from collections.abc import Iterator

import msgspec

from tidings.node.transport import LIFE_SHIFT
from tidings.trace.steps import DIGEST_BYTES


class Lane:
    """What one life of a member sent to one peer."""

    def __init__(self) -> None:
        self.digests = bytearray()
        self.links = array("Q")
        """How many packets were sent when each link came up; a kill may hide the last one."""

    def __len__(self) -> int:
        return len(self.digests) // DIGEST_BYTES

    def digest(self, place: int) -> bytes:
        return bytes(self.digests[DIGEST_BYTES * place : DIGEST_BYTES * (place + 1)])


class Connected:
    """What came over one connection, as its receiver has it."""

    def __init__(self, life: int, is_lossy: bool) -> None:
        self.life = life
        self.is_lossy = is_lossy
        self.numbers = array("Q")
        self.digests = bytearray()
        self.indexes = array("Q")
        """Of the rows."""


class Misfit(msgspec.Struct, frozen=True):
    """A packet that cannot have come so."""

    receiver: str
    life: int
    index: int
    words: str


class Packets:
    """Everything that was sent and received in a run."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str, int], Lane] = {}
        """By sender, receiver and life of the sender."""
        self.received: dict[tuple[str, str], list[Connected]] = {}
        """By receiver and sender, one connection after the other."""
        self.incomplete: dict[str, str] = {}
        """Of whom not everything is known, and why."""
        self.resends = False
        """Whether what was lost with a connection is sent again on the next."""

    def lane(self, sender: str, receiver: str, life: int) -> Lane:
        return self.sent.setdefault((sender, receiver, life), Lane())

    def connect(self, receiver: str, sender: str, life: int, is_lossy: bool) -> None:
        connections = self.received.setdefault((receiver, sender), [])
        connections.append(Connected(life, is_lossy))

    def misfits(self) -> Iterator[Misfit]:
        """The first on each link, if there is one."""
        for (receiver, sender), connections in self.received.items():
            misfit = next(_Link(self, receiver, sender).misfits(connections), None)
            if misfit is not None:
                yield misfit

    @property
    def count(self) -> int:
        return sum(len(one.numbers) for those in self.received.values() for one in those)


def base(sender: str, receiver: str, life: int) -> int:
    """Packets of a life are numbered after this; what a member sends itself, always from 1."""
    return 0 if sender == receiver else life << LIFE_SHIFT


class _Link:
    """One direction between two members, checked from its first packet to its last."""

    def __init__(self, packets: Packets, receiver: str, sender: str) -> None:
        self.packets = packets
        self.receiver = receiver
        self.sender = sender
        self.last = 0
        """The highest number so far."""
        self.link = (0, 0)
        """A life of the sender, and how many of its links are known to have ended by now."""

    def misfits(self, connections: list[Connected]) -> Iterator[Misfit]:
        for connection in connections:
            if self.sender == self.receiver:
                self.last = 0
            expected = 0
            for place, number in enumerate(connection.numbers):
                words = self._content(connection, place, number)
                if not words and not connection.is_lossy:
                    words = self._order(connection.life, number, expected)
                if words:
                    index = connection.indexes[place]
                    yield Misfit(self.receiver, connection.life, index, words)
                expected, self.last = number + 1, max(self.last, number)

    def _lane(self, life: int, number: int) -> tuple[Lane | None, int, int]:
        """What the sender sent in the life of this number; the place of the number there."""
        if self.sender != self.receiver:
            life = number >> LIFE_SHIFT
        lane = self.packets.sent.get((self.sender, self.receiver, life))
        return lane, life, number - base(self.sender, self.receiver, life) - 1

    def _content(self, connection: Connected, place: int, number: int) -> str:
        lane, _, sent = self._lane(connection.life, number)
        if lane is None or not 0 <= sent < len(lane):
            if self.sender in self.packets.incomplete:
                return ""
            return f"packet {number} of {self.sender}, which {self.sender} never sent"
        came = connection.digests[DIGEST_BYTES * place : DIGEST_BYTES * (place + 1)]
        if lane.digest(sent) != came:
            return f"packet {number} of {self.sender} with other bytes than {self.sender} sent"
        return ""

    def _order(self, life: int, number: int, expected: int) -> str:
        if expected and number != expected:
            return f"packet {number} of {self.sender} where packet {expected} comes next"
        if expected:
            return ""
        if number <= self.last:
            return f"packet {number} of {self.sender} once more: {self.last} had come before"
        lane, sender_life, place = self._lane(life, number)
        if self.packets.resends or self.sender == self.receiver:
            first = base(self.sender, self.receiver, sender_life) + 1
            awaited = max(self.last + 1, first)
            if number != awaited:
                return f"packet {number} of {self.sender} where packet {awaited} comes next"
        elif lane is not None and not self._could_begin(lane, sender_life, place):
            return (
                f"packet {number} of {self.sender} first, and {self.sender} had sent earlier ones "
                "after the link came up"
            )
        return ""

    def _could_begin(self, lane: Lane, life: int, place: int) -> bool:
        """Whether a connection of the sender, not used before, can begin with this packet."""
        used = self.link[1] if self.link[0] == life else 0
        while used < len(lane.links) and lane.links[used] < place:
            used += 1
        self.link = (life, used + 1)
        return used < len(lane.links) or self.sender in self.packets.incomplete
