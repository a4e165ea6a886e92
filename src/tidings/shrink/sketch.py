"""A schedule read loosely, so that it still means something when parts of it are gone.

In a schedule a packet is named by its link and its number, and numbers shift as soon as anything
before is left out. In a sketch a packet is the one that a certain move sent, or else the oldest
that looks like it; timers likewise.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from tidings.core import Members, ordered
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Link, Schedule


class SketchedPacket(NamedTuple):
    """A packet by where it comes from, and by what it looks like."""

    move: int
    link: Link
    position: int
    """Which one it is of those that the move sent on this link."""
    kind: str
    about: int | None
    """The move that broadcast the message of which it speaks."""


class Alarm(NamedTuple):
    """A timer by where it comes from."""

    move: int
    process: str
    position: int


class SketchedChoice(NamedTuple):
    """A choice of a sketch; ``id`` stays the same, whatever is left out around it."""

    id: int
    choice: Choice
    draws: tuple[int, ...] = ()
    parcels: tuple[SketchedPacket, ...] | None = None
    """What arrives or is dropped, or what a crash loses; None: as the choice says."""
    kept: tuple[SketchedPacket, ...] = ()
    """What a crash does not lose."""
    loses_others: bool = False
    """Whether a crash loses what is in neither list."""
    alarm: Alarm | None = None
    messages: tuple[int, ...] = ()
    """The moves that broadcast what a user takes to heart."""

    @property
    def actor(self) -> str:
        """To whom it happens, or nobody."""
        match self.choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                return packet.link.receiver
            case choices.Cut() | choices.Heal() | choices.Sample() | choices.Settle():
                return ""
            case _:
                return self.choice.process

    def concerns(self, process: str) -> bool:
        """Whether it has no meaning without the process."""
        match self.choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                return process in packet.link
        return self.actor == process


class Sketch(NamedTuple):
    members: Members
    moves: tuple[SketchedChoice, ...]

    def without(self, moves: Collection[int]) -> "Sketch":
        return Sketch(self.members, tuple(move for move in self.moves if move.id not in moves))

    def among(self, processes: Collection[str]) -> "Sketch":
        """Only what concerns nobody but these processes."""
        joined = {move.actor for move in self.moves if isinstance(move.choice, choices.Join)}
        gone = {*self.members, *joined}.difference(processes)
        return Sketch(
            tuple(member for member in self.members if member not in gone),
            tuple(move for move in self.moves if not any(map(move.concerns, gone))),
        )

    def with_moves(self, *moves: SketchedChoice) -> "Sketch":
        return Sketch(self.members, moves)

    def renamed(self, names: Mapping[str, str]) -> "Sketch":
        """The same under other names; two names may become one."""
        return Sketch(
            ordered(names[member] for member in self.members),
            tuple(_renamed(move, names) for move in self.moves),
        )


def sketch_of(members: Members, schedule: Schedule) -> Sketch:
    """A schedule as it stands; but a settling follows from itself, and is left out."""
    return Sketch(
        members,
        tuple(
            SketchedChoice(number, step.choice, step.draws)
            for number, step in enumerate(schedule, start=1)
            if not isinstance(step.choice, choices.Settle)
        ),
    )


def _renamed(move: SketchedChoice, names: Mapping[str, str]) -> SketchedChoice:
    def link(one: Link) -> Link:
        return Link(names[one.sender], names[one.receiver])

    def parcels(some: tuple[SketchedPacket, ...]) -> tuple[SketchedPacket, ...]:
        return tuple(parcel._replace(link=link(parcel.link)) for parcel in some)

    choice = move.choice
    match choice:
        case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
            choice = type(choice)(packet._replace(link=link(packet.link)))
        case choices.Crash(process):
            choice = choices.Crash(names[process])
        case choices.Join(process, contact):
            choice = choices.Join(names[process], names[contact])
        case choices.Cut(links):
            apart = map(link, links)
            choice = choices.Cut(tuple(one for one in apart if one.sender != one.receiver))
        case choices.Heal() | choices.Sample() | choices.Settle():
            pass
        case _:
            choice = msgspec.structs.replace(choice, process=names[choice.process])
    return move._replace(
        choice=choice,
        parcels=parcels(move.parcels or ()),
        kept=parcels(move.kept),
        alarm=move.alarm and move.alarm._replace(process=names[move.alarm.process]),
    )
