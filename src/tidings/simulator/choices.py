"""What may happen next in a world: plain data, so that a schedule can be stored and replayed."""

from typing import NamedTuple

import msgspec

from tidings.core import MessageId


class Link(NamedTuple):
    """One direction between two processes. Prints as ``p1->p3``."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}"


class PacketId(NamedTuple):
    """A packet is named by its link and its number on it, counted from 1."""

    link: Link
    number: int


class _Choice(msgspec.Struct, frozen=True, array_like=True):
    @property
    def kind(self) -> str:
        """Its name in schedules and scenarios."""
        return str(self.__struct_config__.tag)


class UserBroadcast(_Choice, frozen=True, tag="broadcast"):
    """The user of a process broadcasts a text."""

    process: str
    text: bytes


class PacketArrival(_Choice, frozen=True, tag="receive"):
    """A packet in flight arrives."""

    packet: PacketId


class Duplicate(_Choice, frozen=True, tag="duplicate"):
    """A packet in flight arrives and stays in flight: it will arrive once more."""

    packet: PacketId


class Drop(_Choice, frozen=True, tag="drop"):
    """A lossy link loses a packet."""

    packet: PacketId


class TimerExpiry(_Choice, frozen=True, tag="timeout"):
    """A timer runs out."""

    process: str
    name: str


class Crash(_Choice, frozen=True, tag="crash"):
    """A process stops for good, and those of its packets in flight are gone with it."""

    process: str
    lost: tuple[PacketId, ...] = ()


class Doom(_Choice, frozen=True, tag="doom"):
    """A process will crash as soon as it has sent this many more packets: in mid-sentence.

    Or as soon as it begins this many more writes, of which the last does not reach the disk.
    """

    process: str
    sends: int
    writes: int = 0


class Recover(_Choice, frozen=True, tag="recover"):
    """A crashed process starts again with what it had persisted, or with nothing at all.

    Or with an older disk: somebody put back the last backup, or, if there is none, the disk as it
    was at the start.
    """

    process: str
    disk_lost: bool = False
    disk_old: bool = False


class Backup(_Choice, frozen=True, tag="backup"):
    """Somebody copies what a process has persisted so far."""

    process: str


class UserProcessed(_Choice, frozen=True, tag="take"):
    """The user of a process is done with what it was handed, up to these messages."""

    process: str
    upto: tuple[MessageId, ...]


class Join(_Choice, frozen=True, tag="join"):
    """A new process starts with the member list of a contact, and itself."""

    process: str
    contact: str


class ChangeRequest(_Choice, frozen=True, tag="change"):
    """An operator asks a member to add a process, which is started, to remove one, or both."""

    process: str
    add: str = ""
    remove: str = ""


class Cut(_Choice, frozen=True, tag="cut"):
    """These links carry nothing until healed."""

    links: tuple[Link, ...]


class Heal(_Choice, frozen=True, tag="heal"):
    """All links work again."""


class Sample(_Choice, frozen=True, tag="sample"):
    """Every process that is up notes how much it keeps."""


class Settle(_Choice, frozen=True, tag="settle"):
    """Load and faults are over and nothing more will come: every survivor notes it."""


Choice = (
    UserBroadcast
    | PacketArrival
    | Duplicate
    | Drop
    | TimerExpiry
    | Crash
    | Doom
    | Recover
    | Backup
    | UserProcessed
    | Join
    | ChangeRequest
    | Cut
    | Heal
    | Sample
    | Settle
)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A choice that was made: when, and what the processes drew while they reacted to it."""

    time_ns: int
    choice: Choice
    draws: tuple[int, ...] = ()


Schedule = list[Step]
