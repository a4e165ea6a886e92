"""What a process wants done. The holder performs the effects in the order of the list.

Effects that concern many things carry many: one object costs about as much as handling one
message. So wherever an effect names messages, a Span or a TextSpan stands for many in a row.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidings.core.events import Change
from tidings.core.group import Members
from tidings.core.message import Message, MessageId, Packet, Span, TextSpan


class Accept(msgspec.Struct, frozen=True):
    """The texts of the Broadcast event in hand are now these messages, in their order.

    The answer to a Broadcast is an Accept or a Refuse, never silence: the process alone knows
    its next sequence number (it may have recovered it), and the holder alone writes the trace.
    """

    ids: tuple[MessageId | Span, ...]


class Refuse(msgspec.Struct, frozen=True):
    """The Broadcast event in hand is not taken; the user learns why."""

    reason: str


class Send(msgspec.Struct, frozen=True):
    """One packet to many members: the simulator splits it, the node encodes it once."""

    to: tuple[str, ...]
    packet: Packet


class Held(msgspec.Struct, frozen=True):
    """The texts of these messages are stored here for the first time."""

    ids: tuple[MessageId | Span, ...]


class Deliver(msgspec.Struct, frozen=True):
    """Hand these messages to the user, in this order."""

    messages: tuple[Message | TextSpan, ...]


class Replay(msgspec.Struct, frozen=True):
    """Hand what comes after ``after`` to the user again, up to ``upto``, before anything new.

    Before a crash it got them, or was just about to: they were delivered then, and this is no
    second delivery. There may be more of them than fit into memory, so the holder reads them back
    from what was persisted, piece by piece (``Rereading``).
    """

    after: Mapping[str, int]
    upto: Mapping[str, int]


class Persist(msgspec.Struct, frozen=True):
    """A barrier: the effects after it, those of later events too, wait until it is on disk.

    Timers, Held, Stable and Refuse need not wait: nobody else can tell that they happened. So a
    holder may put off writing until an effect comes that has to wait.

    All of its records are written or none is. What is on disk has happened: the answers, the
    held texts and the deliveries that directly follow it count even if the process dies there.
    """

    records: tuple[Any, ...]


class Recall(msgspec.Struct, frozen=True):
    """Read back what was persisted of these messages of one origin, and hand it in as Recalled.

    A peer has asked for them, and they are no longer in memory.
    """

    peer: str
    first: MessageId
    last: int


class SetTimer(msgspec.Struct, frozen=True):
    """Raise Timeout(name) once, after a delay; a timer set again starts over."""

    name: str
    delay_ms: float


class CancelTimer(msgspec.Struct, frozen=True):
    name: str


class Stable(msgspec.Struct, frozen=True):
    """Every member holds everything up to these sequence numbers."""

    upto: Mapping[str, int]


class Install(msgspec.Struct, frozen=True):
    """From here on this process broadcasts to these members."""

    view: Members
    number: int | None = None
    """Where the members agree on one view after the other: which of them it is."""
    delivered: Mapping[str, int] = {}
    """What all of them have delivered before it: of each origin everything up to this message."""


class Rebind(msgspec.Struct, frozen=True):
    """These messages of this process belong to the view just installed, not to one before."""

    ids: tuple[MessageId | Span, ...]


class Approve(msgspec.Struct, frozen=True):
    """What an operator asked for will happen, unless this process dies before all rely on it."""

    change: Change


class Deny(msgspec.Struct, frozen=True):
    """It will not, for this reason, and nothing has changed."""

    change: Change
    reason: str


class Leave(msgspec.Struct, frozen=True):
    """This process is no member any more; it may go on for a while to serve those that are."""

    reason: str
    number: int | None = None
    """Which of the views that the members agreed on is the first without it."""


class Reject(msgspec.Struct, frozen=True):
    """This peer is not who it was: nothing it says counts, and the user is told why."""

    peer: str
    reason: str


class Halt(msgspec.Struct, frozen=True):
    """This process cannot go on under its name; the holder ends it and says why."""

    reason: str


Effect = (
    Accept
    | Refuse
    | Send
    | Held
    | Deliver
    | Replay
    | Persist
    | Recall
    | SetTimer
    | CancelTimer
    | Stable
    | Install
    | Rebind
    | Approve
    | Deny
    | Leave
    | Reject
    | Halt
)
