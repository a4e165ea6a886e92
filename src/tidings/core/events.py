"""What can happen to a process. The holder (simulator, explorer, node) hands these in."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidings.core.message import MessageId, Packet


class Start(msgspec.Struct, frozen=True):
    """The first event of every life of a process.

    ``recovered`` is what earlier lives persisted, in order, or None for a process that starts
    with nothing. Who starts with nothing is somebody new: it gets an ``incarnation`` of its own
    and keeps it as long as it keeps its disk; 0 means that the whole group starts now and knows
    each other. ``founding`` says that nobody of the group ever lived before: a process that starts
    with nothing need not ask the others then. ``joining`` says that the group was there before it:
    its member list is a contact's list and itself. ``lossy`` says that links may lose a packet and
    tell nobody.
    """

    incarnation: int = 0
    recovered: tuple[Any, ...] | None = None
    founding: bool = False
    joining: bool = False
    lossy: bool = False


class Broadcast(msgspec.Struct, frozen=True):
    """The user broadcasts one or many texts, in this order."""

    texts: tuple[bytes, ...]


class Receive(msgspec.Struct, frozen=True):
    """A packet arrived; ``sender`` is who sent this copy of it, not who wrote the message."""

    sender: str
    packet: Packet


class Timeout(msgspec.Struct, frozen=True):
    """A timer set by this process ran out."""

    name: str


class LinkUp(msgspec.Struct, frozen=True):
    """The link to a peer works (again); what was in flight on it may be gone.

    The incarnation is the one the peer goes by, as in its Start.
    """

    peer: str
    incarnation: int


class LinkDown(msgspec.Struct, frozen=True):
    peer: str


class Recalled(msgspec.Struct, frozen=True):
    """The answer to a Recall: the records about these messages; others among them do no harm."""

    peer: str
    first: MessageId
    last: int
    records: tuple[Any, ...]


class Processed(msgspec.Struct, frozen=True):
    """The application has processed everything up to these sequence numbers.

    Of a newcomer to a group that was there before it: it has the state to which all messages before
    its first view have led, and perhaps some after.
    """

    upto: Mapping[str, int]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """An operator asks this member to change the group: add one, remove one, or replace one.

    The answer is an Approve or a Deny, which may take a while. ``address`` is where the newcomer
    can be reached: it means something to holders alone, and all members get it with the view.
    """

    add: str = ""
    remove: str = ""
    address: str = ""

    def __str__(self) -> str:
        add = f"add {self.add}" if self.add else ""
        remove = f"remove {self.remove}" if self.remove else ""
        return " ".join(filter(None, (add, remove))) or "no change"


Event = Start | Broadcast | Receive | Timeout | LinkUp | LinkDown | Processed | Recalled | Change
