"""Redis, as much of it as is needed: its protocol, publish/subscribe, and streams.

https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from links import Handed, Link, called, more_of, nothing

CHANNEL = "news"


class RedisError(Exception):
    """An answer that begins with a minus sign."""


class Connection:
    """Commands out, replies in."""

    def __init__(self, port: int) -> None:
        self.socket = called(port)
        self._unread = b""

    def send(self, *words: str | bytes) -> None:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        bulk = [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
        self.socket.sendall(b"*%d\r\n%s" % (len(parts), b"".join(bulk)))

    def call(self, *words: str | bytes) -> Any:
        """A command and its reply."""
        self.send(*words)
        while (reply := self._next()) is None:
            self._unread += more_of(self.socket)
        if isinstance(reply[0], RedisError):
            raise reply[0]
        return reply[0]

    def replies(self) -> Iterator[Any]:
        """Whatever has come, without having been asked for just now."""
        self._unread += more_of(self.socket)
        while (reply := self._next()) is not None:
            yield reply[0]

    def _next(self) -> tuple[Any] | None:
        """The first reply that is there as a whole."""
        try:
            value, end = _parsed(self._unread, 0)
        except IndexError:
            return None
        self._unread = self._unread[end:]
        return (value,)

    def close(self) -> None:
        self.socket.close()


def _parsed(data: bytes, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and where it ends; IndexError if it is still to come."""
    end = data.find(b"\r\n", start)
    if end < 0:
        raise IndexError
    kind, text, end = data[start : start + 1], data[start + 1 : end], end + 2
    match kind:
        case b"+":
            return text, end
        case b"-":
            return RedisError(text.decode()), end
        case b":":
            return int(text), end
        case b"$" if int(text) < 0:
            return None, end
        case b"$":
            after = end + int(text)
            if len(data) < after + 2:
                raise IndexError
            return data[end:after], after + 2
        case b"*" if int(text) < 0:
            return None, end
    values = []
    for _ in range(int(text)):
        value, end = _parsed(data, end)
        values.append(value)
    return values, end


class PubSub(Link):
    """SUBSCRIBE and PUBLISH: whoever listens hears it, nobody else ever will."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port

    def connect(self) -> None:
        self._commands, self._news = Connection(self.port), Connection(self.port)
        self._news.call("SUBSCRIBE", CHANNEL)

    def socket(self) -> socket.socket:
        return self._news.socket

    def receive(self) -> Iterator[Handed]:
        for _, _, message in self._news.replies():
            yield message, nothing

    def publish(self, message: bytes) -> None:
        self._commands.call("PUBLISH", CHANNEL, message)

    def close(self) -> None:
        self._commands.close()
        self._news.close()


class Streams(Link):
    """A stream, read by a consumer group for each member, so that every member gets everything.

    As the manual has it: first what was handed out before and never acknowledged, then what is
    new; XACK when a message has been dealt with.
    """

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name

    def connect(self) -> None:
        self._commands, self._news = Connection(self.port), Connection(self.port)
        with suppress(RedisError):  # the group is there already
            self._commands.call("XGROUP", "CREATE", CHANNEL, self.name, "0", "MKSTREAM")
        self._ask("0")

    def _ask(self, after: str) -> None:
        group = ("GROUP", self.name, self.name)
        self._news.send("XREADGROUP", *group, "BLOCK", "0", "STREAMS", CHANNEL, after)

    def socket(self) -> socket.socket:
        return self._news.socket

    def receive(self) -> Iterator[Handed]:
        for reply in self._news.replies():
            if isinstance(reply, RedisError):
                raise ConnectionError(str(reply))
            ((_, entries),) = reply
            for entry, (_, message) in entries:
                yield message, lambda entry=entry: self._acknowledge(entry)
            self._ask(">")

    def _acknowledge(self, entry: bytes) -> None:
        self._commands.call("XACK", CHANNEL, self.name, entry)

    def publish(self, message: bytes) -> None:
        self._commands.call("XADD", CHANNEL, "*", "message", message)

    def close(self) -> None:
        self._commands.close()
        self._news.close()
