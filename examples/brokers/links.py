"""What a member sees of a broker, whichever it is."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

Handed = tuple[bytes, Callable[[], None]]
"""A message, and what tells the broker that it has been dealt with."""


class Link(ABC):
    """The connection of one member: what it publishes, everybody who is subscribed is handed."""

    is_ready = True
    """Whether the broker has confirmed the subscription, once ``connect`` has asked for it."""

    @abstractmethod
    def connect(self) -> None:
        """Connect and subscribe; also again, after the connection was lost."""

    @abstractmethod
    def socket(self) -> socket.socket:
        """Where messages come in: when it is readable, ``receive``."""

    @abstractmethod
    def receive(self) -> Iterator[Handed]:
        """What has come. To be dealt with one by one, each before the next is asked for."""

    @abstractmethod
    def publish(self, message: bytes) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


def nothing() -> None:
    """For brokers that do not want to know."""


def called(port: int) -> socket.socket:
    """A connection to a broker on this machine."""
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def more_of(connection: socket.socket) -> bytes:
    """What has come on a connection, at least one byte."""
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionError("the broker is gone")
    return data
