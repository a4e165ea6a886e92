"""Those who are not whom they claim to be, and a group that they call."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from real_groups import NAME, everywhere_delivered, hello_of, joined, linked
from tidings.core import MessageId
from tidings.node.authority import Authority
from tidings.node.config import Address, Config
from tidings.node.group import Group
from tidings.node.identity import CERTIFICATE, KEY
from tidings.node.wire import GREETING, Kind, body_of, framed, hello_frame
from tidings.protocols.frontier.packets import Batch, Commit, Data, Known, Refusal

NOW = datetime.now(UTC)


class Papers:
    """What a group trusts, and everything that somebody might show instead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.certs = folder / "certs"
        ours = Authority.found(folder / "authority", NAME)
        self.authority = ours
        ours.issue(NAME, "p2", folder / "revoked")
        ours.revoke("p2")
        for member in ("p1", "p2", "p3"):
            ours.issue(NAME, member, self.certs / member)
        ours.issue("other", "p2", folder / "other_group")
        ours.issue(NAME, "p2", folder / "expired", days=1, begins=NOW - timedelta(days=9))
        ours.issue(NAME, "p2", folder / "not_yet_valid", begins=NOW + timedelta(days=9))
        ours.issue(NAME, "p9", folder / "no_member")
        Authority.found(folder / "theirs", NAME).issue(NAME, "p2", folder / "other_authority")

    def context(self, shown: str) -> ssl.SSLContext:
        """A client that trusts everybody and shows this; nothing, if it is empty."""
        if shown not in self._contexts:
            self._contexts[shown] = self.new_context(shown)
        return self._contexts[shown]

    def new_context(self, shown: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if shown:
            folder = self.folder / shown
            context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
        return context


def forged(config: Config, name: str, to: str) -> bytes:
    """A hello, and then a refusal, a false commit and a text under the name of this member."""
    packets = [
        Refusal(to, 1, "lost disk"),
        Commit((Known(to, 900, 900),)),
        Data(Batch(MessageId(name, 1), (b"forged",))),
    ]
    frames = [
        framed(Kind.PACKETS, number, body_of([msgspec.msgpack.encode(packet)]))
        for number, packet in enumerate(packets, start=1)
    ]
    return GREETING + hello_frame(hello_of(config, name, to)) + b"".join(frames)


async def shout(
    config: Config,
    to: str,
    data: bytes,
    context: ssl.SSLContext | None,
    source: str = "127.0.0.1",
) -> tuple[bytes, str]:
    """Call a member, say this, and read to the end: what it answers, and why there is no more."""
    heard = b""
    try:
        options = {"ssl": context, "server_hostname": ""} if context is not None else {}
        reader, writer = await asyncio.open_connection(
            *config.addresses[to], local_addr=(source, 0), **options
        )
        try:
            writer.write(data)
            while piece := await reader.read(1 << 16):
                heard += piece
        finally:
            writer.transport.abort()
    except OSError as fault:
        return heard, getattr(fault, "reason", None) or str(fault)
    return heard, ""


@asynccontextmanager
async def tapped(
    config: Config, called: str, on_the_way: Callable[[bytes], bytes]
) -> AsyncIterator[Config]:
    """The group as somebody sees it who calls this member through us: we see all that it says."""

    async def tap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(*config.addresses[called])

        async def pump(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await one.read(1 << 16):
                    other.write(on_the_way(data) if other is forth else data)
            other.close()

        await asyncio.gather(pump(reader, forth), pump(back, writer))

    async with await asyncio.start_server(tap, "127.0.0.1", 0) as server:
        here = Address(*server.sockets[0].getsockname())
        yield msgspec.structs.replace(config, addresses=config.addresses | {called: here})


async def overheard(config: Config, p2: Group) -> bytes:
    """All that p1 sends to p2 from its call until it leaves, and one text is delivered by both."""
    recorded: list[bytes] = []

    def note(data: bytes) -> bytes:
        recorded.append(data)
        return data

    async with tapped(config, "p2", note) as seen, joined(seen, "p1") as first:
        both = {**first, "p2": p2}
        await linked(both)
        await (await first["p1"].broadcast(b"once")).delivered()
        await everywhere_delivered(both, {"p1": 1})
    return b"".join(recorded)


def fingerprints(groups: Iterable[Group]) -> list[bytes]:
    return [group._member.joined().process.fingerprint() for group in groups]


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
