"""What crosses the network between two nodes, and what is refused before it is even decoded.

A connection begins with eight bytes on either side: who we are and which format we speak. Then
come frames:

    length    4 bytes, of what follows
    kind      1 byte
    number    8 bytes, what for depends on the kind
    body      msgpack

Everything that was said in one tick leaves in one frame per set of addressees; its body is
encoded once and is the same for all of them, only the number differs. A frame that is too long is
refused when its length is read, before anything is kept of it.

The body of a frame of packets is an array of byte strings, each of them a packet in msgpack. So a
frame is cut without a look inside its packets, and they are decoded one by one, when their turn
comes. What is refused is refused as early as possible: a frame by the count of its packets, a
packet by the length of an array in it (the types say what is possible at all), and what is left
by what this group can mean (plausible.py).
"""

import gc
import struct
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import CodeType, FunctionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union

import msgspec
from msgspec import Meta

from tidings.core import MOST_MEMBERS, Members, Packet, Process
from tidings.node.config import Limits, Links
from tidings.node.outline import outlined
from tidings.protocols.plausible import FOREIGN, LINE_CHARS, MOST, Bounds, MembersOf, fault_of
from tidings.protocols.views.packets import InView, Promise, Ready

T = TypeVar("T")
FORMAT = 3
GREETING = b"tidings" + bytes([FORMAT])
HELLO_BYTES = Links().hello_bytes
TLS_RECORDS = (b"\x15", b"\x16")
"""How somebody begins who shakes hands, or refuses to."""

LARGE_BYTES = 64 * 1024
"""Of a packet longer than this, decoding must not start the collector again and again."""

_HEAD = struct.Struct("!IBQ")
_HEAD_AFTER_LENGTH = _HEAD.size - 4
_COUNTS = {0xDC: struct.Struct("!xH"), 0xDD: struct.Struct("!xI")}
"""How many items a msgpack array has, if they are more than 15."""
PACKET_OVERHEAD = 5
FRAME_OVERHEAD = _HEAD.size + 5
"""What a frame, and each packet in it, take beside the packets themselves, at most."""


class Kind(IntEnum):
    HELLO = 1
    """Who I am, and which group I take us to be in."""
    PACKETS = 2
    """Packets; the number is that of the first one on this link."""
    ALIVE = 3
    """Nothing new; the number is that of the last packet that came from you."""
    BYE = 4
    """Why I hang up."""
    KNOCK = 5
    """Instead of a hello: I have just started, please call me."""
    SNAPSHOT = 6
    """A newcomer asks for a snapshot, or gets one."""


Name = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_.-]{0,63}(\+[1-9][0-9]{0,8})?\Z")]
"""As ``is_name`` wants them: what goes into our log must not look like a line of it."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Setting = bool | Count | Annotated[str, Meta(max_length=100)]


class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Both sides must mean the same group before a single packet counts."""

    name: Name
    to: Name
    """Whom the speaker takes the other side to be."""
    group: Name
    members: Annotated[tuple[Name, ...], Meta(max_length=MOST_MEMBERS)]
    """With whom the group began; a newcomer need not know."""
    protocol: Annotated[str, Meta(max_length=1_000)]
    options: Annotated[dict[str, Any], Meta(max_length=100)]
    settings: Annotated[dict[str, Setting], Meta(max_length=100)]
    """What else must be the same in every member's group file, by its name there."""
    incarnation: Count
    """Who the speaker is: somebody who starts with nothing is somebody new."""
    session: Count
    """Drawn at every start: two processes never have the same."""
    received: Count = 0
    """The number of the last packet that came from the other side, and from which of it."""
    received_from: Count = 0
    view: Annotated[int, Meta(ge=-1, le=2**62)] | None = None
    """The newest that the speaker has installed, -1 before its first; None where the group cannot
    change."""

    def quarrel(self, other: "Hello") -> str:
        """Why these two cannot talk, in words the other side can be told; empty if they can."""
        if other.group != self.group:
            return f"{other.name} is in group {other.group!r}, {self.name} in {self.group!r}"
        if other.to != self.name:
            return f"{other.name} looks for {other.to}, and here is {self.name}"
        if words := self._quarrel_about_members(other):
            return words
        if (other.protocol, other.options) != (self.protocol, self.options):
            return (
                f"{other.name} runs {_spelled(other.protocol, other.options)}, "
                f"{self.name} {_spelled(self.protocol, self.options)}"
            )
        for setting in {**self.settings, **other.settings}:
            theirs = _as_in_toml(other.settings.get(setting))
            if theirs != (ours := _as_in_toml(self.settings.get(setting))):
                return f"{other.name} has {setting} = {theirs}, {self.name} has {ours}"
        return ""

    def _quarrel_about_members(self, other: "Hello") -> str:
        """Where the group can change, who may speak is not decided here."""
        changes = None not in (self.view, other.view)
        is_same = other.members == self.members or (
            changes and not (other.members and self.members)
        )
        if not is_same:
            theirs, ours = ", ".join(other.members), ", ".join(self.members)
            verb = "began with" if changes else "is"
            return f"the group of {other.name} {verb} {theirs}; that of {self.name} {verb} {ours}"
        if other.name == self.name or not (changes or other.name in self.members):
            return f"{other.name} is no other member of {self.group!r}"
        return ""


def _as_in_toml(value: Setting | None) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "nothing" if value is None else str(value).lower()


def _spelled(protocol: str, options: Mapping[str, Any]) -> str:
    return " ".join([protocol, *(f"{name}={value}" for name, value in options.items())])


class Why(IntEnum):
    """Why somebody hangs up, where it makes a difference to the other side."""

    WORDS = 0
    """As the words say: it leaves, or the two cannot talk."""
    TAKEN = 1
    """Another process is linked under this name; that may change at any time."""
    FORGETFUL = 2
    LATE = 3
    USED = 4
    """The name was a member's before, and the speaker is somebody new."""


CAST_OUT = {
    Why.FORGETFUL: "it kept nothing of its earlier life",
    Why.LATE: "it has missed more than may be kept for it",
}
"""Why a process cannot go on. It stops with these words, never with those of somebody else."""


class Bye(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    reason: str
    """In words, for a log and nothing else."""
    why: Why = Why.WORDS
    incarnation: Count = 0
    """Whom it is meant for, if it cannot go on."""


class SnapshotWish(msgspec.Struct, frozen=True, array_like=True, tag="wish"):
    """Send pieces up to this number, or, if it is 0, no more; the serial tells one try from
    another."""

    serial: Count
    upto: Count


class SnapshotPiece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    serial: Count
    number: Count
    piece: bytes


class SnapshotEnd(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """All pieces were sent; the messages up to this vector are in them."""

    serial: Count
    pieces: Count
    digest: Annotated[bytes, Meta(max_length=64)]
    vector: Annotated[dict[Name, Count], Meta(max_length=10 * MOST_MEMBERS)]


class SnapshotDenied(msgspec.Struct, frozen=True, array_like=True, tag="denied"):
    serial: Count
    reason: str


SnapshotWords = SnapshotWish | SnapshotPiece | SnapshotEnd | SnapshotDenied


def one_line(words: str) -> str:
    """What the other side had a hand in, fit for a log: no line ends, no controls, not for ever."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in words[:LINE_CHARS]
    )


class WireFault(Exception):  # noqa: N818 - what the other side did, not an error of ours
    """The other side does not speak as it must; the text says how, in one line."""

    def __init__(self, words: str, reason: str = "frame") -> None:
        super().__init__(one_line(words))
        self.reason = reason
        """What the metrics count it as."""


class Frame(NamedTuple):
    kind: int
    number: int
    body: memoryview | bytes


class Came(NamedTuple):
    """A packet that has come: its number on its link, and its length in bytes."""

    number: int
    packet: Packet
    size: int

    @property
    def kind(self) -> str:
        return self.packet.kind


def framed(kind: Kind, number: int, body: bytes = b"") -> bytes:
    return _HEAD.pack(_HEAD_AFTER_LENGTH + len(body), kind, number) + body


def head_of_packets(number: int, body: bytes) -> bytes:
    """What goes before a body that many peers get; only this differs from peer to peer."""
    return _HEAD.pack(_HEAD_AFTER_LENGTH + len(body), Kind.PACKETS, number)


class FrameReader:
    """Cuts what arrives into frames; raises WireFault as soon as it cannot become one."""

    def __init__(self, limit: int = HELLO_BYTES) -> None:
        """``limit`` is the longest frame that is accepted, until somebody changes it."""
        self.limit = limit
        self._rest = bytearray()
        self._needed = len(GREETING)
        self._greeted = False

    def feed(self, came: bytes | memoryview) -> Iterator[Frame]:
        """The frames that are complete now, one by one: a hello changes the limit for the next.

        What came is copied first, once: its buffer is somebody else's.
        """
        data: bytes | bytearray
        if self._rest:
            self._rest += came
            if len(self._rest) < self._needed:
                return
            data, self._rest = self._rest, bytearray()
        else:
            data = bytes(came)
        start = 0 if self._greeted else self._greeting(bytes(data[: len(GREETING)]))
        view = memoryview(data)
        while self._greeted:
            self._needed = _HEAD.size
            if len(data) - start < self._needed:
                break
            length, kind, number = _HEAD.unpack_from(data, start)
            self._check(length)
            self._needed = 4 + length
            if len(data) - start < self._needed:
                break
            end = start + self._needed
            yield Frame(kind, number, view[start + _HEAD.size : end])
            start = end
        if start < len(data):
            self._rest += view[start:]

    def _greeting(self, begin: bytes) -> int:
        """Recognise the first eight bytes; how many of them are dealt with."""
        if begin[:1] in TLS_RECORDS:
            raise WireFault("it speaks TLS, and the group file says tls.plain = true", "tls")
        if not GREETING[:-1].startswith(begin[:-1]):
            raise WireFault("it does not speak our language")
        if len(begin) < len(GREETING):
            return 0
        if begin != GREETING:
            raise WireFault(f"it speaks format {begin[-1]}, this tidings speaks {FORMAT}")
        self._greeted = True
        return len(begin)

    def _check(self, length: int) -> None:
        if length < _HEAD_AFTER_LENGTH:
            raise WireFault(f"a frame of {length} bytes is too short")
        if length > self.limit:
            raise WireFault(f"a frame of {length:,} bytes, and {self.limit:,} is the limit")


class Codec:
    """What bytes say, in the packets of one protocol and in one group."""

    def __init__(
        self,
        kind: type[Process],
        members: Members | None,
        limits: Limits,
        views: MembersOf = lambda number: None,
    ) -> None:
        """``members`` is None where they change: then ``views`` knows them."""
        self._limits = limits
        self._bounds = Bounds(members, limits.text_bytes, limits.batch_messages, views)
        self._views = views
        self._bounds_in: dict[int, Bounds] = {}
        """Of the views that are known; they stay what they are."""
        types = packet_types(kind)
        # A protocol without packets exists: a group of one needs none.
        union = Union[types] if types else None  # noqa: UP007 - made of a tuple
        self._decode: Callable[[memoryview], Packet] = msgspec.msgpack.Decoder(union).decode
        self._texts_in = dict(map(outlined, types))
        shapes = Union[tuple(self._texts_in)] if types else None  # noqa: UP007
        self._decode_outline = msgspec.msgpack.Decoder(shapes).decode

    def cut(self, frame: Frame) -> list[memoryview]:
        """The packets of a frame, not decoded yet: how many there are is seen at once."""
        if frame.number > MOST:
            raise WireFault(f"packet {frame.number}, and nobody counts that far")
        count, most = _count(frame.body), self._limits.frame_packets
        if count > most:
            raise WireFault(f"a frame of {count:,} packets; {most:,} is the limit (frame_packets)")
        try:
            packets = _cut(frame.body)
        except msgspec.MsgspecError as fault:
            raise WireFault(f"a frame that makes no sense: {fault}") from None
        if not packets:
            raise WireFault("a frame without packets")
        return packets

    def decode(self, number: int, encoded: memoryview, sender: str) -> Came:
        """One packet of a frame, if this sender can say it in this group."""
        size = encoded.nbytes
        try:
            if size > self._limits.packet_bytes:
                self._check_outline(encoded)
            packet = self._decode(encoded) if size <= LARGE_BYTES else self._decode_large(encoded)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as fault:
            raise WireFault(f"a packet that makes no sense: {fault}") from None
        # What is said in a view is judged without its cover: there is a lot of it.
        inner = packet.packet if type(packet) is InView else packet
        if words := fault_of(inner, self._bounds_for(packet)):
            raise WireFault(f"a {packet.kind} {words}")
        if not inner.may_come_from(sender):
            of = f" of {packet.about.origin}" if packet.about is not None else ""
            raise WireFault(f"a {packet.kind}{of}, and it is {sender}")
        return Came(number, packet, size)

    def _bounds_for(self, packet: Packet) -> Bounds:
        """Names and vectors are those of the view that a packet is about."""
        if type(packet) is InView:
            number = packet.number
        elif self._bounds.members is None and isinstance(packet, Ready | Promise):
            number = packet.number - 1
        else:
            return self._bounds
        return self._bounds_in.get(number) or self._bounds_of(number, packet)

    def _bounds_of(self, number: int, packet: Packet) -> Bounds:
        if not -1 <= number <= MOST or (number < 0 and isinstance(packet, InView)):
            raise WireFault(f"a {packet.kind} {FOREIGN}")
        members = self._views(number)
        bounds = self._bounds._replace(members=members)
        if members is not None:
            self._bounds_in[number] = bounds
        return bounds

    def _check_outline(self, encoded: memoryview) -> None:
        """Most of a long packet is texts."""
        outline = self._decode_outline(encoded)
        kind, most = type(outline), self._limits.packet_bytes
        beside = encoded.nbytes - self._texts_in[kind](outline)
        if beside > most:
            raise WireFault(
                f"a {kind.__struct_config__.tag} with {beside:,} bytes beside its texts; "
                f"{most:,} is the limit (packet_bytes)"
            )

    def _decode_large(self, encoded: memoryview) -> Packet:
        """Nothing of it can be garbage yet: to look for some meanwhile takes twice the time."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            return self._decode(encoded)
        finally:
            if was_on:
                gc.enable()


def _count(body: memoryview | bytes) -> int:
    """How many items a msgpack array announces; 0 for what is none."""
    first = body[0] if body else 0
    if first >> 4 == 0x9:
        return first & 0xF
    head = _COUNTS.get(first)
    return int(head.unpack_from(body)[0]) if head and len(body) >= head.size else 0


_cut = msgspec.msgpack.Decoder(list[memoryview]).decode
_encode = msgspec.msgpack.Encoder().encode
body_of: Callable[[list[bytes]], bytes] = _encode
"""Encoded packets, as the body of a frame."""


def hello_frame(hello: Hello) -> bytes:
    return framed(Kind.HELLO, 0, _encode(hello))


def knock_frame(name: str) -> bytes:
    return framed(Kind.KNOCK, 0, _encode(name))


def bye_frame(reason: str, why: Why = Why.WORDS, incarnation: int = 0) -> bytes:
    return framed(Kind.BYE, 0, _encode(Bye(reason[:LINE_CHARS], why, incarnation)))


HUNG_UP = "it hangs up before it says who it is; it may look for somebody else here"


def read_hello(frame: Frame) -> Hello:
    if frame.kind == Kind.BYE:
        # Why, it has said, too; but anybody may say anything, and this goes into our log.
        raise WireFault(HUNG_UP)
    if frame.kind != Kind.HELLO:
        raise WireFault(f"it begins with a frame of kind {frame.kind} instead of a hello")
    return _read(frame, Hello, "hello")


def read_knock(frame: Frame) -> str:
    return _read(frame, Name, "knock")


def read_bye(frame: Frame) -> Bye:
    bye = _read(frame, Bye, "farewell")
    return msgspec.structs.replace(bye, reason=one_line(bye.reason))


def snapshot_frame(words: SnapshotWords) -> bytes:
    return framed(Kind.SNAPSHOT, 0, _encode(words))


def read_snapshot(frame: Frame) -> SnapshotWords:
    words: SnapshotWords = _read(frame, SnapshotWords, "words about a snapshot")  # type: ignore[arg-type]
    if isinstance(words, SnapshotDenied):
        return SnapshotDenied(words.serial, one_line(words.reason))
    return words


def _read(frame: Frame, kind: type[T], called: str) -> T:
    try:
        return msgspec.msgpack.decode(frame.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise WireFault(f"its {called} makes no sense: {fault}") from None


# --- what a protocol can say


def packet_types(kind: type[Process]) -> tuple[type[Packet], ...]:
    """The packets that a protocol can send: those that its methods name.

    All packets of a module would be too many: the gallery of flaws has a ``copy`` of several
    protocols in one file. Of two with the same tag, the class uses the one it names itself, and
    not the one that a class it derives from named.
    """
    by_tag: dict[Any, type[Packet]] = {}
    for each in kind.__mro__:
        for member in vars(each).values():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            for packet in _named_in(function, set()):
                by_tag.setdefault(packet.__struct_config__.tag, packet)
    return tuple(by_tag.values())


def _named_in(function: Any, seen: set[Any]) -> Iterator[type[Packet]]:
    """The packets that a function names, itself or through functions of its module."""
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, type):
            if issubclass(value, Packet) and value.__struct_config__.tag is not None:
                yield value
        elif getattr(value, "__module__", None) == function.__module__:
            yield from _named_in(value, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
