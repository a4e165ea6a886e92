"""A message is what a user broadcast; a packet is what crosses the network."""

from typing import NamedTuple, Self

import msgspec

from tidings.core.errors import UsageError


class MessageId(NamedTuple):
    """Who broadcast it, and which of theirs it is, counted from 1. Prints as ``p1#4``."""

    origin: str
    seq: int

    def __str__(self) -> str:
        return f"{self.origin}#{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self:
        origin, mark, seq = text.partition("#")
        if not (origin and mark and seq.isdecimal()):
            raise UsageError(f"{text!r} is not a message; write it as p1#4")
        return cls(origin, int(seq))


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive messages of one origin, by name, both ends included. Prints as ``p1#3..7``."""

    origin: str
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.origin}#{self.first}" + (f"..{self.last}" if len(self) > 1 else "")


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Texts are bytes and need not be unique: the identity of a message is its id."""

    id: MessageId
    text: bytes


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """The base of every packet: one definition is the simulator's object and the wire's bytes.

    A protocol subclasses it once per kind and gives each a ``tag``, which names the kind in
    traces and conversations.
    """

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def about(self) -> MessageId | None:
        """The one message the packet speaks of, if there is one."""
        return getattr(self, "id", None)

    def may_come_from(self, sender: str) -> bool:
        """Whether this member may say this; whoever holds a process asks before handing it in."""
        return True

    def __str__(self) -> str:
        """One short line for conversations; a kind with contents shows them, too."""
        return f"{self.kind} {self.about}" if self.about else self.kind


def listed(*parts: object) -> str:
    """The parts that are not empty, with commas between them."""
    return ", ".join(str(part) for part in parts if part)
