"""MQTT 3.1.1, as much of it as is needed: one topic, three qualities of service.

https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html

With quality 2 a message is handed over when the broker releases it, as the client libraries do
(method A of section 4.3.3). What was received and not yet released is kept in memory only, as they
do too unless told otherwise.
"""

import socket
import struct
from collections.abc import Iterator
from enum import IntEnum

from links import Handed, Link, called, more_of, nothing

TOPIC = b"news"
DUPLICATE = 0x08
CLEAN_SESSION = 0x02


class Kind(IntEnum):
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9


def packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    """The kind and the flags, the length seven bits at a time, the body."""
    length, size = bytearray(), len(body)
    while True:
        size, seven = divmod(size, 128)
        length.append(seven | (0x80 if size else 0))
        if not size:
            return bytes([kind << 4 | flags]) + bytes(length) + body


def string(text: bytes) -> bytes:
    return struct.pack("!H", len(text)) + text


def number(body: bytes) -> int:
    """The packet identifier at the beginning of a body."""
    return int.from_bytes(body[:2])


class Mqtt(Link):
    """A session with one subscription; with quality 1 and 2 the broker keeps it for us."""

    def __init__(self, port: int, name: str, quality: int) -> None:
        self.port = port
        self.name = name.encode()
        self.quality = quality
        self._last = 0
        self._unconfirmed: dict[int, bytes] = {}
        """What we have sent, and must send again until the broker confirms it."""
        self._unreleased: dict[int, bytes] = {}
        """What the broker has sent with quality 2, and not yet released."""

    def connect(self) -> None:
        self._socket = called(self.port)
        self._unread = b""
        self.is_ready = False
        flags = 0 if self.quality else CLEAN_SESSION
        hello = string(b"MQTT") + bytes([4, flags]) + struct.pack("!H", 0) + string(self.name)
        wish = struct.pack("!H", self._new_number()) + string(TOPIC) + bytes([self.quality])
        # A client need not wait to be welcomed before it says more.
        self._socket.sendall(packet(Kind.CONNECT, hello))
        self._socket.sendall(b"".join(self._unconfirmed.values()))
        self._socket.sendall(packet(Kind.SUBSCRIBE, wish, flags=2))

    def _packets(self) -> Iterator[tuple[int, int, bytes]]:
        """Whatever is there as a whole: kind, flags, body."""
        while len(self._unread) >= 2:
            size = position = 0
            while True:
                position += 1
                if position >= len(self._unread):
                    return
                seven = self._unread[position]
                size |= (seven & 0x7F) << 7 * (position - 1)
                if seven < 0x80:
                    break
            begin, end = position + 1, position + 1 + size
            if len(self._unread) < end:
                return
            first, body = self._unread[0], self._unread[begin:end]
            self._unread = self._unread[end:]
            yield first >> 4, first & 0x0F, body

    def _new_number(self) -> int:
        self._last = self._last % 65535 + 1
        return self._last

    def socket(self) -> socket.socket:
        return self._socket

    def receive(self) -> Iterator[Handed]:
        self._unread += more_of(self._socket)
        for kind, flags, body in self._packets():
            match kind:
                case Kind.CONNACK if body[1]:
                    raise ConnectionError(f"refused: {body[1]}")
                case Kind.SUBACK:
                    self.is_ready = True
                case Kind.PUBLISH:
                    yield from self._published(flags >> 1 & 3, body)
                case Kind.PUBACK | Kind.PUBCOMP:
                    self._unconfirmed.pop(number(body), None)
                case Kind.PUBREC:
                    self._unconfirmed[number(body)] = packet(Kind.PUBREL, body[:2], flags=2)
                    self._socket.sendall(self._unconfirmed[number(body)])
                case Kind.PUBREL:
                    yield from self._released(body)

    def _published(self, quality: int, body: bytes) -> Iterator[Handed]:
        rest = body[2 + number(body) :]
        match quality:
            case 0:
                yield rest, nothing
            case 1:
                yield rest[2:], lambda: self._socket.sendall(packet(Kind.PUBACK, rest[:2]))
            case 2:
                self._unreleased[number(rest)] = rest[2:]
                self._socket.sendall(packet(Kind.PUBREC, rest[:2]))

    def _released(self, body: bytes) -> Iterator[Handed]:
        def complete() -> None:
            self._socket.sendall(packet(Kind.PUBCOMP, body[:2]))

        message = self._unreleased.pop(number(body), None)
        if message is None:
            complete()  # what we no longer know of is done
        else:
            yield message, complete

    def publish(self, message: bytes) -> None:
        flags = self.quality << 1
        if not self.quality:
            self._socket.sendall(packet(Kind.PUBLISH, string(TOPIC) + message, flags))
            return
        name = self._new_number()
        body = string(TOPIC) + struct.pack("!H", name) + message
        self._unconfirmed[name] = packet(Kind.PUBLISH, body, flags | DUPLICATE)
        self._socket.sendall(packet(Kind.PUBLISH, body, flags))

    def close(self) -> None:
        self._socket.close()
