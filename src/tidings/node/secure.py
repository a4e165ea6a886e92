"""TLS between a socket and a connection, the same on every loop.

To the socket it is a protocol, to the connection a transport; each sees only what it would see
without. So a stranger is counted from its first byte on, and not when it has shaken hands, and a
member that leaves can close one direction and read on, which no TLS transport of a loop offers.

Nothing is written before hands are shaken: the connection speaks first when it is ``proven``.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Protocol, cast

from tidings.node.identity import Identity, Proof, described
from tidings.node.wire import GREETING, WireFault, bye_frame

RECORD_BYTES = 16 * 1024
"""The most that is decrypted at a time: TLS has no longer records."""


class Guarded(Protocol):
    """The connection that is inside."""

    is_ours: bool
    """Whether we have called."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, fault: Exception | None) -> None: ...

    def proven(self, proof: Proof) -> None:
        """Hands are shaken; raises WireFault if this is not who it should be."""

    def unproven(self, words: str, reason: str) -> None:
        """There will be no connection."""


class Secure(asyncio.Transport, asyncio.BufferedProtocol):
    def __init__(
        self, inner: Guarded, identity: Identity, me: str, most_bytes: int, buffer: memoryview
    ) -> None:
        """``most_bytes`` is how long a handshake may be; ``buffer`` is for what was just read."""
        super().__init__()
        self._inner = inner
        self._buffer = buffer
        self._identity = identity
        self._me = me
        self._most_bytes = most_bytes
        self._is_open = False
        """Whether hands are shaken, so that something can be read and written."""
        self._is_done = False
        """Whether nothing more is read, whatever comes."""
        self._shaken_bytes = 0

    # --- for the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._inner.connection_made(self)
        if self._is_done:
            return  # there were too many callers, and this one costs nothing more
        identity, is_ours = self._identity, self._inner.is_ours
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = identity.calling if is_ours else identity.answering
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not is_ours)
        if is_ours and not self._raw.is_closing():
            self._shake_hands(b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_done:
            return
        data = self._buffer[:nbytes]
        self._incoming.write(data)
        if self._is_open:
            self._read()
        else:
            self._shake_hands(data)

    def eof_received(self) -> None:
        """Nobody says anything more, so the transport closes; what was said leaves."""

    def connection_lost(self, fault: Exception | None) -> None:
        self._is_done = True
        self._inner.connection_lost(fault)
        # Holding each other, they would keep 60 KB of TLS until the collector comes: seldom.
        del self._inner

    # --- shaking hands

    def _shake_hands(self, data: bytes | memoryview) -> None:
        is_plain = not self._shaken_bytes and data[:1] == GREETING[:1]
        self._shaken_bytes += len(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._shaken_bytes > self._most_bytes:
                words = f"a handshake of more than {self._most_bytes:,} bytes (hello_bytes)"
                self._inner.unproven(words, "tls")
        except ssl.SSLError as fault:
            if is_plain:
                self._answer_plainly()
            self._fail(fault)
        else:
            self._flush()
            self._begin()

    def _begin(self) -> None:
        """Encrypted from here on, if the other side is who it should be."""
        self._is_open = True
        try:
            self._inner.proven(self._identity.proof_of(self._tls))
        except WireFault as fault:
            self._inner.unproven(str(fault), fault.reason)
            return
        if not self._is_done:
            self._read()

    def _answer_plainly(self) -> None:
        """A member without certificates can be told why it is not heard."""
        words = f"{self._me}: the group file asks for TLS here, and there for plain TCP"
        self._outgoing.read()
        self._raw.write(GREETING + bye_frame(words))

    def _fail(self, fault: ssl.SSLError) -> None:
        """The other side learns it by an alert, if it speaks TLS at all."""
        self._is_done = True
        self._flush()
        self._inner.unproven(*described(fault))
        self._raw.close()

    # --- reading and writing

    def _read(self) -> None:
        """Hand over what can be decrypted, in one piece."""
        pieces: list[bytes] = []
        is_over = False
        try:
            while piece := self._tls.read(RECORD_BYTES):
                pieces.append(piece)
                if not self._incoming.pending and not self._tls.pending():
                    break
            else:
                is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_over = True
        except ssl.SSLError as fault:
            self._fail(fault)
            return
        if self._outgoing.pending:  # it may have asked for other keys
            self._flush()
        if pieces:
            self._inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_over:
            self._is_done = True
            self._raw.close()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def write(self, data: Any) -> None:
        if not self._is_open or self._is_done or self._raw.is_closing():
            return
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        self._raw.write(self._outgoing.read())

    def write_eof(self) -> None:
        """Nothing more from here; the other side may go on, and nobody reads it."""
        self._say_the_end()
        self._is_done = True
        self._raw.write_eof()

    def close(self) -> None:
        if not self._raw.is_closing():
            self._say_the_end()
        self._is_done = True
        self._raw.close()

    def _say_the_end(self) -> None:
        if self._is_open and not self._is_done:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    # --- as the socket does

    def abort(self) -> None:
        self._is_done = True
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)
