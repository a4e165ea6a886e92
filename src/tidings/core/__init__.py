"""What a process is: messages, packets, events, effects, and the step between them."""

from tidings.core.effects import (
    Accept,
    CancelTimer,
    Deliver,
    Effect,
    Held,
    Install,
    Persist,
    Refuse,
    Send,
    SetTimer,
    Stable,
)
from tidings.core.errors import DataError, EnvironmentMissing, Exit, TidingsError, UsageError
from tidings.core.events import (
    Broadcast,
    Event,
    LinkDown,
    LinkUp,
    Processed,
    Receive,
    Start,
    Timeout,
)
from tidings.core.group import Members, is_name, majority, ordered, quorum
from tidings.core.intervals import IntervalSet
from tidings.core.message import Message, MessageId, Packet
from tidings.core.process import Choose, Process, take_first

__all__ = [
    "Accept",
    "Broadcast",
    "CancelTimer",
    "Choose",
    "DataError",
    "Deliver",
    "Effect",
    "EnvironmentMissing",
    "Event",
    "Exit",
    "Held",
    "Install",
    "IntervalSet",
    "LinkDown",
    "LinkUp",
    "Members",
    "Message",
    "MessageId",
    "Packet",
    "Persist",
    "Process",
    "Processed",
    "Receive",
    "Refuse",
    "Send",
    "SetTimer",
    "Stable",
    "Start",
    "TidingsError",
    "Timeout",
    "UsageError",
    "is_name",
    "majority",
    "ordered",
    "quorum",
    "take_first",
]
