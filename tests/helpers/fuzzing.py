"""Bytes that no member would send, before and after a handshake, without a socket in between.

Each input is a connection of its own to a member that has joined. What a genuine caller would say
is cut, repeated, overwritten, or replaced by noise.
"""

import asyncio
import random
import ssl
from contextlib import suppress
from typing import Any

import msgspec

from real_groups import hello_of
from strangers import Papers, forged
from tidings.node.config import Config
from tidings.node.connection import Connection
from tidings.node.group import Group
from tidings.node.identity import Proof
from tidings.node.secure import Secure
from tidings.node.wire import GREETING, Kind, body_of, framed, hello_frame
from tidings.protocols.frontier.packets import Counts, Holding


class Line(asyncio.Transport):
    """What a loop would give to a protocol; what is written is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_over = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_over = True

    abort = write_eof = close

    def is_closing(self) -> bool:
        return self.is_over

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 9) if name == "peername" else default


class Caller:
    """A TLS client in memory, and the member that it talks to."""

    def __init__(self, group: Group, context: ssl.SSLContext) -> None:
        transport = group._member.transport
        self.connection = Connection(transport, None)
        identity = transport.credentials.identity
        assert identity is not None
        most_bytes = transport.config.links.hello_bytes
        self.connection.identity = identity
        self.secure = Secure(self.connection, identity, "p1", most_bytes, transport.buffer)
        self.line = Line()
        self.secure.connection_made(self.line)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing)

    def first_words(self) -> bytes:
        """How a handshake begins."""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        """As a loop hands over what it has read."""
        buffer = self.secure.get_buffer(-1)
        for place in range(0, len(data), len(buffer)):
            piece = data[place : place + len(buffer)]
            buffer[: len(piece)] = piece
            self.secure.buffer_updated(len(piece))

    def shake_hands(self) -> None:
        self.send(self.first_words())
        self._incoming.write(self.line.written)
        self.tls.do_handshake()
        self.send(self._outgoing.read())

    def say(self, data: bytes) -> None:
        if data and not self.line.is_over:
            self.tls.write(data)
            self.send(self._outgoing.read())

    def end(self) -> None:
        self.secure.connection_lost(None)


class Known:
    """The same behind its handshake, which takes most of the time."""

    def __init__(self, group: Group, name: str) -> None:
        self.connection = Connection(group._member.transport, None)
        self.connection.identity = group._member.transport.credentials.identity
        self.line = Line()
        self.connection.connection_made(self.line)
        self.connection.proven(Proof(name, 2.0**40))

    def say(self, data: bytes) -> None:
        if data and not self.line.is_over:
            self.connection.data_received(data)

    def end(self) -> None:
        self.connection.connection_lost(None)


def shaken(group: Group, papers: Papers, name: str, *, for_real: bool) -> Caller | Known:
    """Somebody with the certificate of this member."""
    if not for_real:
        return Known(group, name)
    caller = Caller(group, papers.context(f"certs/{name}"))
    caller.shake_hands()
    return caller


def altered(data: bytes, dice: random.Random) -> bytes:
    """A few of the ways in which bytes can be wrong."""
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 5])):
        place = dice.randrange(len(changed) + 1)
        match dice.choice(["flip", "cut", "noise", "repeat", "insert"]):
            case "flip" if place < len(changed):
                changed[place] ^= 1 << dice.randrange(8)
            case "cut":
                del changed[place:]
            case "noise":
                changed = bytearray(dice.randbytes(dice.choice([1, 9, 100, 3_000])))
            case "repeat":
                changed += changed[:place]
            case "insert":
                changed[place:place] = dice.randbytes(dice.choice([1, 4, 50]))
    return bytes(changed)


def before_the_handshake(group: Group, papers: Papers, dice: random.Random) -> None:
    caller = Caller(group, papers.context("certs/p2"))
    data = altered(caller.first_words(), dice)
    middle = dice.randrange(len(data) + 1)
    for piece in (data[:middle], data[middle:]):
        if piece:
            caller.send(piece)
    caller.end()


def instead_of_a_hello(caller: Caller | Known, config: Config, dice: random.Random) -> None:
    """With the certificate of a member, and nothing that says who it is."""
    hello = hello_of(config, dice.choice(["p1", "p3", "p9", "p2"]), dice.choice(["p2", "p3"]))
    caller.say(altered(GREETING + hello_frame(hello), dice))
    caller.end()


def after_a_hello(caller: Caller | Known, config: Config, dice: random.Random) -> None:
    """A member that has gone mad: its hello is right, and the rest is not."""
    hello = GREETING + hello_frame(hello_of(config, "p2", "p1"))
    caller.say(hello)
    nothing = framed(Kind.PACKETS, 1, body_of([msgspec.msgpack.encode(Holding(Counts()))]))
    rest = dice.choice([nothing, framed(Kind.ALIVE, 0), forged(config, "p2", "p1")[len(hello) :]])
    caller.say(altered(rest, dice))
    caller.end()
