"""A message is what a user broadcast; a packet is what crosses the network."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count, repeat
from typing import ClassVar, NamedTuple, Self

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

    def __iter__(self) -> Iterator[MessageId]:
        return map(MessageId, repeat(self.origin), range(self.first, self.last + 1))


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Texts are bytes and need not be unique: the identity of a message is its id.

    It is made for every message that a program reads, so it holds nothing that has to be made
    first, nor anything that the garbage collector would have to look at.
    """

    origin: str
    seq: int
    text: bytes

    @property
    def id(self) -> MessageId:
        return MessageId(self.origin, self.seq)


class TextSpan(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive messages of one origin, with their texts; iterating over it makes messages."""

    kind: ClassVar[type[Message]] = Message

    origin: str
    first: int
    texts: tuple[bytes, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.texts) - 1

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Message]:
        return map(self.kind, repeat(self.origin), count(self.first), self.texts)

    def __str__(self) -> str:
        return str(Span(self.origin, self.first, self.last))


def each_id(those: Iterable[MessageId | Span]) -> Iterator[MessageId]:
    """Every id by itself, in order."""
    for one in those:
        if isinstance(one, Span):
            yield from one
        else:
            yield one


def each_message(those: Iterable[Message | TextSpan]) -> Iterator[Message]:
    """Every message by itself, in order."""
    for one in those:
        if isinstance(one, TextSpan):
            yield from one
        else:
            yield one


def spans_of(those: Iterable[MessageId | Span]) -> list[Span]:
    """Ids in their order, those that follow each other as one."""
    found: list[Span] = []
    for one in those:
        span = one if isinstance(one, Span) else Span(*one, one.seq)
        if found and found[-1].origin == span.origin and found[-1].last + 1 == span.first:
            span = Span(span.origin, found.pop().first, span.last)
        found.append(span)
    return found


def text_spans_of(those: Iterable[Message | TextSpan]) -> list[TextSpan]:
    """Messages in their order, single ones that follow each other as one span."""
    found: list[TextSpan] = []
    texts: list[bytes] = []
    origin, following = "", 0

    def end() -> None:
        if texts:
            found.append(TextSpan(origin, following - len(texts), tuple(texts)))
            texts.clear()

    for one in those:
        if isinstance(one, TextSpan):
            end()
            found.append(one)
            continue
        if (one.origin, one.seq) != (origin, following):
            end()
            origin, following = one.origin, one.seq
        texts.append(one.text)
        following += 1
    end()
    return found


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """The base of every packet: one definition is the simulator's object and the wire's bytes.

    A protocol subclasses it once per kind and gives each a ``tag``, which names the kind in
    traces and conversations.
    """

    @property
    def kind(self) -> str:
        return _kind_of(type(self))

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


@cache
def _kind_of(packet: type[Packet]) -> str:
    return str(packet.__struct_config__.tag)


def listed(*parts: object) -> str:
    """The parts that are not empty, with commas between them."""
    return ", ".join(str(part) for part in parts if part)
