"""Whoever is not a member changes nothing: no state, no memory, no delivery."""

import asyncio
import gc
import ssl
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from real_groups import (
    MEMORY,
    everywhere_delivered,
    go,
    group_file,
    hello_of,
    joined,
    linked,
    until,
)
from strangers import Papers, fingerprints, forged, overheard, rss_bytes, shout
from tidings.node.config import Config
from tidings.node.identity import CERTIFICATE, KEY
from tidings.node.secure import Secure
from tidings.node.wire import GREETING, FrameReader, Kind, hello_frame, read_bye

TIMES = 25


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


def certified(tmp_path: Path, papers: Papers, *lines: str, size: int = 3) -> Config:
    config = group_file(tmp_path, size, "links.calls_per_s = 1000", *lines)
    return msgspec.structs.replace(config, certificates=papers.certs)


def old_client(papers: Papers) -> ssl.SSLContext:
    context = papers.new_context("certs/p2")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize(
    ("shown", "name", "reason", "line", "answer"),
    [
        ("", "p2", "certificate", "it has no certificate", "ALERT_CERTIFICATE_REQUIRED"),
        ("other_authority", "p2", "authority", "unable to get local issuer", "UNKNOWN_CA"),
        ("expired", "p2", "expired", "certificate has expired", "CERTIFICATE_EXPIRED"),
        ("not_yet_valid", "p2", "not_yet_valid", "certificate is not yet valid", "BAD_CERT"),
        ("revoked", "p2", "revoked", "certificate revoked", "CERTIFICATE_REVOKED"),
        ("self_signed", "p1", "authority", "self-signed certificate", "UNKNOWN_CA"),
        ("other_group", "p2", "group", "is for group 'other', and this is 'chat'", "bye"),
        ("no_member", "p2", "name", "its certificate is that of p9, not p2", "bye"),
        ("certs/p3", "p2", "name", "its certificate is that of p3, not p2", "bye"),
        ("old", "p2", "tls", "it speaks no TLS 1.3", "PROTOCOL_VERSION"),
        ("plain", "p2", "tls", "it does not speak TLS", "bye"),
    ],
)
def test_nobody_else_speaks_as_a_member(
    shown: str,
    name: str,
    reason: str,
    line: str,
    answer: str,
    papers: Papers,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A forged refusal, a false commit and a forged text, by anybody but the member itself."""
    config = certified(tmp_path, papers, *MEMORY, "options.stable_ms = 0")
    to = "p1" if name == "p2" else "p2"
    context = None if shown == "plain" else papers.context(_folder_of(shown, papers))
    if shown == "old":
        context = old_client(papers)

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await (await groups["p2"].broadcast(b"before")).stable()
            await until(lambda: all(not one.status().waiting for one in groups.values()))
            state = fingerprints(groups.values())
            heard, why = await shout(config, to, forged(config, name, to), context)
            memory = rss_bytes()
            for _ in range(TIMES):
                heard, why = await shout(config, to, forged(config, name, to), context)
                if answer == "bye":
                    assert line in bye_of(heard) or shown == "plain"
                else:
                    assert answer in why.upper()
            assert rss_bytes() < 1.1 * memory
            assert fingerprints(groups.values()) == state
            assert groups[to]._member.transport.refused[reason] == TIMES + 1
            await (await groups["p1"].broadcast(b"after")).delivered()
            await everywhere_delivered(groups, {"p1": 1, "p2": 1})

    go(scenario())
    lines = [one for one in caplog.messages if line in one]
    assert len(lines) == 1, caplog.messages  # once, however often it calls


@pytest.mark.parametrize("shown", ["", "other_authority", "plain", "certs/p3"])
def test_a_stranger_leaves_nothing_for_the_collector(
    shown: str, papers: Papers, tmp_path: Path
) -> None:
    """Its share of TLS is tens of KB, and members collect garbage seldom."""
    config = certified(tmp_path, papers, *MEMORY, size=2)
    context = None if shown == "plain" else papers.context(shown)

    def secured() -> int:
        return sum(isinstance(one, Secure) for one in gc.get_objects())

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            gc.collect()
            before = secured()
            assert before >= 2, "each side of the link has one"
            gc.disable()
            try:
                for _ in range(TIMES):
                    await shout(config, "p1", forged(config, "p2", "p1"), context)
                await until(lambda: secured() <= before, every_s=0.05)
            finally:
                gc.enable()
            assert groups["p1"]._member.transport.refused.total() == TIMES

    go(scenario())


def _folder_of(shown: str, papers: Papers) -> str:
    if shown == "self_signed":
        return self_signed(papers)
    return "" if shown in ("old", "plain") else shown


def self_signed(papers: Papers) -> str:
    """The authority of somebody else has signed itself: so it shows that, and its own key."""
    folder = papers.folder / "self_signed"
    folder.mkdir(exist_ok=True)
    (folder / CERTIFICATE).write_bytes((papers.folder / "theirs" / "ca.pem").read_bytes())
    (folder / KEY).write_bytes((papers.folder / "theirs" / KEY).read_bytes())
    return "self_signed"


def bye_of(heard: bytes) -> str:
    return read_bye(list(FrameReader().feed(heard))[-1]).reason


def test_a_plain_member_learns_that_the_group_asks_for_tls(
    papers: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the other way round: nobody talks a member out of TLS."""
    config = certified(tmp_path, papers, *MEMORY, "links.refused_ms_max = 100", size=2)
    plain = msgspec.structs.replace(config, certificates=None)

    async def scenario(one: Config, other: Config) -> None:
        async with joined(one, "p1") as first, joined(other, "p2") as second:
            refused = [*first.values(), *second.values()]
            await until(
                lambda: all(group._member.transport.refused["tls"] for group in refused[1:])
            )
            await until(lambda: len({line.split(":")[0] for line in caplog.messages}) == 2)
            assert all(group.status().linked == () for group in refused)

    go(scenario(plain, config))
    assert any("p1: no link: peer p2, reason refuses us: p2: the group file asks for TLS here" in
               line for line in caplog.messages)  # fmt: skip
    caplog.clear()
    go(scenario(config, plain))
    assert any("p2: no link" in one and "it speaks TLS, and the group file says" in one
               for one in caplog.messages)  # fmt: skip
    assert any("p1: no link: peer p2, reason it does not speak TLS" in one
               for one in caplog.messages)  # fmt: skip


@pytest.mark.parametrize("shown", ["other_authority", "certs/p3", "other_group", "revoked"])
def test_a_false_member_that_is_called_hears_nothing(
    shown: str, papers: Papers, tmp_path: Path
) -> None:
    """p1 calls p2, and somebody else listens there: not even a hello is said to it."""
    config = certified(tmp_path, papers, *MEMORY, size=2)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.folder / shown / CERTIFICATE, papers.folder / shown / KEY)
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            heard.append(await reader.read())
        writer.transport.abort()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, *config.addresses["p2"], ssl=context)
        async with server, joined(config, "p1") as groups:
            p1 = groups["p1"]
            await until(lambda: p1._member.transport.refused.total() >= 2)
            assert p1.status().linked == ()
            assert p1._member.transport.peers["p2"].bytes_received == 0

    go(scenario())
    kinds = {frame.kind for one in heard for frame in FrameReader().feed(one)}
    assert kinds <= {Kind.BYE}


def test_who_is_revoked_between_handshake_and_hello_gets_no_link(tmp_path: Path) -> None:
    """p1 calls p2, and a thief with p2's key waits with his hello until p1 has reloaded."""
    papers = Papers(tmp_path / "papers")
    config = certified(tmp_path, papers, *MEMORY, size=2)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = papers.certs / "p2"
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY)

    async def scenario() -> None:
        shaken, reloaded, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def thief(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(len(GREETING))
            shaken.set()
            await reloaded.wait()
            with suppress(OSError):
                writer.write(GREETING + hello_frame(hello_of(config, "p2", "p1")))
                await reader.read()
            over.set()

        server = await asyncio.start_server(thief, *config.addresses["p2"], ssl=context)
        async with server, joined(config, "p1") as groups:
            p1 = groups["p1"]
            await shaken.wait()
            papers.authority.revoke("p2")
            papers.authority.publish(papers.certs / "p1")
            assert p1.reload()
            reloaded.set()
            await over.wait()
            await until(lambda: p1._member.transport.refused["revoked"] > 0)  # it calls again
            assert p1._member.transport.refused.keys() == {"revoked"}
            assert p1._member.transport.peers["p2"].incarnation is None, "there was a link"

    go(scenario())


def test_what_was_recorded_cannot_be_replayed(papers: Papers, tmp_path: Path) -> None:
    config = certified(tmp_path, papers, *MEMORY, size=2)

    async def scenario() -> None:
        async with joined(config, "p2") as second:
            p2 = second["p2"]
            whole = await overheard(config, p2)
            await until(lambda: not p2.status().linked)
            state = fingerprints([p2])
            assert len(whole) > 1_000
            assert b"once" not in whole
            heard, _ = await shout(config, "p2", whole, None)
            assert b"chat" not in heard
            assert p2._member.transport.refused.total() == 1
            assert fingerprints([p2]) == state
            assert p2.status().delivered == {"p1": 1}

    go(scenario())
