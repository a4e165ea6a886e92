"""The client protocol of NATS over asyncio, and nothing beside it.

https://docs.nats.io/reference/reference-protocols/nats-protocol. What is written in one turn of
the loop leaves in one piece, and all messages of a piece that arrives are handed over at once.
"""

import asyncio
from collections.abc import Callable
from typing import Self, cast

OnMessage = Callable[[bytes], None]


class NatsError(Exception):
    """The server refuses something."""


class NatsLink(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._out: list[bytes] = []
        self._handlers: dict[bytes, OnMessage] = {}
        self._greeted = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """With an error when the server refuses us or goes."""

    @classmethod
    async def to(cls, port: int) -> Self:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(cls, "127.0.0.1", port)
        link._write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        await link._greeted
        return link

    def subscribe(self, subject: bytes, handler: OnMessage) -> None:
        number = b"%d" % (len(self._handlers) + 1)
        self._handlers[number] = handler
        self._write(b"SUB %b %b\r\n" % (subject, number))

    def publish(self, subject: bytes, text: bytes, reply: bytes = b"") -> None:
        self._write(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(text), text))

    def _write(self, data: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._out))
        self._out = []

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or NatsError("the server has closed the connection"))

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        place = 0
        try:
            while (end := data.find(b"\r\n", place)) >= 0:
                words = data[place:end].split()
                if words[0] not in (b"MSG", b"HMSG"):
                    self._control(words)
                    place = end + 2
                    continue
                start, size = end + 2, int(words[-1])
                if len(data) < start + size + 2:
                    break
                # Of a message with headers only the text: what follows its headers.
                skip = int(words[-2]) if words[0] == b"HMSG" else 0
                self._handlers[words[2]](data[start + skip : start + size])
                place = start + size + 2
        except Exception as error:
            self._fail(error)
        self._rest = data[place:]

    def _control(self, words: list[bytes]) -> None:
        if words[0] == b"PING":
            self._write(b"PONG\r\n")
        elif words[0] == b"PONG":
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif words[0] == b"-ERR":
            raise NatsError(b" ".join(words).decode())
