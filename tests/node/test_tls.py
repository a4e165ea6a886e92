"""Members with certificates: links, renewals, revocations, on either loop."""

import asyncio
import shutil
import ssl
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from real_groups import (
    DEADLINE_S,
    MEMORY,
    assert_all_hold,
    everywhere_delivered,
    go,
    group_file,
    hello_of,
    joined,
    linked,
    take,
    traced,
    until,
)
from strangers import shout
from tidings.core import DataError, MessageId
from tidings.node import identity
from tidings.node.authority import Authority, certify
from tidings.node.config import Config
from tidings.node.credentials import ask_to_reload
from tidings.node.errors import Halted
from tidings.node.group import Group
from tidings.node.wire import GREETING, Kind, body_of, framed, hello_frame
from tidings.protocols.frontier.packets import Batch, Push

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> Run:
    """Runs to the end, or fails."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(asyncio.wait_for(coroutine, DEADLINE_S))

    return run


@pytest.mark.parametrize("protocol", ["frontier", "majority-relay"])
def test_members_with_certificates_talk(tmp_path: Path, on_loop: Run, protocol: str) -> None:
    durable = str(protocol == "frontier").lower()
    config = group_file(tmp_path, 3, f'protocol = "{protocol}"', f"durable = {durable}", tls=True)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            for group in groups.values():
                await group.broadcast(bytes(500_000))
                await group.broadcast(b"short")
            await everywhere_delivered(groups, {"p1": 2, "p2": 2, "p3": 2})
            for group in groups.values():
                assert len(await take(group, 6)) == 6
            for name, group in groups.items():
                assert set(group._member.transport.ends_s()) == set(groups), name

    on_loop(scenario())
    assert_all_hold(traced(config))


# --- renewing and revoking


def own_papers(tmp_path: Path, size: int = 3, *lines: str) -> tuple[Config, Authority]:
    """A group whose certificates a test may change."""
    config = group_file(tmp_path, size, *lines)
    config = msgspec.structs.replace(config, certificates=tmp_path / "certs")
    return config, certify(config, tmp_path / "authority")


async def speak(group: Group, until_set: asyncio.Event) -> int:
    """How many were broadcast until then."""
    count = 0
    while not until_set.is_set():
        await group.broadcast(b"%d" % (count := count + 1))
        await asyncio.sleep(0.001)
    return count


def test_certificates_are_renewed_under_traffic_and_nothing_is_lost(tmp_path: Path) -> None:
    config, authority = own_papers(tmp_path, 3, "links.alive_ms = 100")

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            enough = asyncio.Event()
            speaking = [asyncio.create_task(speak(one, enough)) for one in groups.values()]
            before = groups["p1"]._member.transport.ends_s()["p1"]
            for name, group in groups.items():
                authority.issue("chat", name, tmp_path / "certs" / name, days=700)
                asked = ask_to_reload(tmp_path / "certs" / name)
                await until(lambda asked=asked: not asked.exists())
                assert not group.reload()  # there is nothing new
                await linked(groups)
            enough.set()
            counts = [await one for one in speaking]
            assert min(counts) > 10
            upto = dict(zip(groups, counts, strict=True))
            await everywhere_delivered(groups, upto)
            for group in groups.values():
                ends = group._member.transport.ends_s()
                assert set(ends) == set(groups)
                assert min(ends.values()) > before + 300 * 24 * 3600

    go(scenario())
    assert_all_hold(traced(config))


def test_a_revoked_member_is_cut_off_and_comes_back_with_another_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, authority = own_papers(tmp_path, 3, "links.alive_ms = 100")

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await (await groups["p2"].broadcast(b"as long as it may")).stable()
            authority.revoke("p2")
            for name in ("p1", "p3"):
                authority.publish(tmp_path / "certs" / name)
                assert groups[name].reload()
            rest = {name: groups[name] for name in ("p1", "p3")}
            await linked(rest)
            await until(lambda: groups["p1"]._member.transport.refused["revoked"] > 0)
            assert all("p2" not in one.status().linked for one in rest.values())
            await groups["p2"].broadcast(b"kept until then")
            await (await groups["p1"].broadcast(b"without p2")).delivered()
            assert groups["p3"].status().delivered.get("p2") == 1
            authority.issue("chat", "p2", tmp_path / "certs" / "p2")
            assert groups["p2"].reload()
            await linked(groups)
            await everywhere_delivered(groups, {"p1": 1, "p2": 2})

    go(scenario())
    assert any("certificate revoked" in line for line in caplog.messages)
    assert_all_hold(traced(config))


def test_under_traffic_two_go_on_without_a_revoked_third_which_then_catches_up(
    tmp_path: Path,
) -> None:
    config, authority = own_papers(tmp_path, 3, "links.alive_ms = 100")

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            p1, p2, p3 = groups.values()
            await linked(groups)
            enough = asyncio.Event()
            speaking = [asyncio.create_task(speak(one, enough)) for one in groups.values()]
            await until(lambda: all(one.status().delivered.get("p2", 0) > 10 for one in (p1, p3)))
            authority.revoke("p2")
            for name in ("p1", "p3"):
                authority.publish(tmp_path / "certs" / name)
                assert groups[name].reload()
            await until(lambda: not any("p2" in one.status().linked for one in (p1, p3)))
            # What is numbered higher was said after that, and does not cross.
            ours, theirs = p1.status().broadcast, p2.status().broadcast
            await until(lambda: p2.status().broadcast > theirs + 10)
            await until(lambda: all(one.status().delivered["p1"] > ours + 50 for one in (p1, p3)))
            assert p2.status().delivered["p1"] <= ours
            assert all(one.status().delivered["p2"] <= theirs for one in (p1, p3))
            await until(lambda: all(one._member.transport.refused["revoked"] for one in (p1, p3)))
            authority.issue("chat", "p2", tmp_path / "certs" / "p2")
            assert p2.reload()
            await until(lambda: p2.status().delivered["p1"] > ours + 50)
            enough.set()
            counts = [await one for one in speaking]
            await everywhere_delivered(groups, dict(zip(groups, counts, strict=True)))

    go(scenario())
    assert_all_hold(traced(config))


def test_a_link_ends_with_the_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    config = group_file(tmp_path, 2, "links.alive_ms = 50", *MEMORY, tls=True)

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            transport = groups["p1"]._member.transport
            link = transport.peers["p2"].link
            link.proof = link.proof._replace(ends_s=time.time())
            await until(lambda: transport.refused["expired"] == 1)
            await linked(groups)  # what it shows now has not ended

    go(scenario())
    assert "p1: link down: peer p2, reason its certificate has ended" in caplog.messages


def test_a_member_warns_before_its_certificate_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, authority = own_papers(tmp_path, 1, *MEMORY)
    authority.issue("chat", "p1", tmp_path / "certs" / "p1", days=29)

    async def scenario() -> None:
        async with joined(config) as groups:
            await until(lambda: any("certificate ends" in line for line in caplog.messages))
            caplog.clear()
            authority.issue("chat", "p1", tmp_path / "certs" / "p1", days=31)
            assert groups["p1"].reload()

    go(scenario())
    assert not any("certificate ends" in line for line in caplog.messages)


@pytest.mark.parametrize("file", ["key.pem", "cert.pem", "ca.pem", "crl.pem"])
def test_what_is_no_certificate_is_named_and_the_old_one_stays(file: str, tmp_path: Path) -> None:
    config, _ = own_papers(tmp_path, 1, *MEMORY)
    folder = tmp_path / "certs" / "p1"

    async def scenario() -> None:
        async with joined(config) as groups:
            right = (folder / file).read_bytes()
            (folder / file).write_bytes(b"-----BEGIN NONSENSE-----\n")
            with pytest.raises(DataError, match="not what tidings certs writes"):
                groups["p1"].reload()
            (folder / file).write_bytes(right)
            await (await groups["p1"].broadcast(b"as before")).delivered()
        (folder / file).unlink()
        with pytest.raises(DataError, match=rf"{file}: no such file; copy the member's folder"):
            async with joined(config):
                pass

    go(scenario())


def test_papers_that_the_others_would_refuse_are_refused_at_the_start(tmp_path: Path) -> None:
    config, authority = own_papers(tmp_path, 2, *MEMORY)
    folder = tmp_path / "certs" / "p1"

    def refused(complaint: str) -> None:
        async def scenario() -> None:
            async with joined(config, "p1"):
                pass

        with pytest.raises(DataError, match=complaint):
            go(scenario())

    past = datetime.now(UTC) - timedelta(days=9)
    authority.issue("chat", "p1", folder, days=1, begins=past)
    refused(r"cert\.pem: certificate is refused: certificate has expired; tidings certs show")
    authority.issue("other", "p1", folder)
    refused(r"cert\.pem: for group 'other', and this is 'chat'")
    authority.issue("chat", "p2", folder)
    refused(r"cert\.pem: it is the certificate of p2, and this is p1")
    authority.issue("chat", "p1", folder)
    (folder / "key.pem").chmod(0o640)
    refused(r"key\.pem: others may read this key; write: chmod 600 .*key\.pem")


def test_a_request_whose_file_cannot_be_removed_is_obeyed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's folder, which a member may only read."""
    config, authority = own_papers(tmp_path, 1, "links.alive_ms = 20", *MEMORY)
    tried: list[bool] = []

    def refuse(path: Path, missing_ok: bool = False) -> None:
        tried.append(True)
        raise PermissionError(13, "Permission denied")

    async def scenario() -> None:
        async with joined(config) as groups:
            credentials = groups["p1"]._member.transport.credentials
            before = credentials.identity
            authority.issue("chat", "p1", tmp_path / "certs" / "p1")
            with monkeypatch.context() as patch:
                patch.setattr(Path, "unlink", refuse)
                ask_to_reload(tmp_path / "certs" / "p1")
                await until(lambda: len(tried) >= 3)
            assert credentials.identity is not before
            await (await groups["p1"].broadcast(b"alive")).delivered()

    go(scenario())


@pytest.mark.parametrize("file", ["key.pem", "cert.pem", "ca.pem", "crl.pem"])
def test_a_file_that_vanishes_during_a_reload_is_named_and_the_member_goes_on(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is there when the member looks, and gone when OpenSSL opens it."""
    config, authority = own_papers(tmp_path, 1, "links.alive_ms = 20", *MEMORY)
    folder = tmp_path / "certs" / "p1"
    as_before = identity._digest

    def digest_and_lose(folder: Path) -> bytes:
        digest = as_before(folder)
        (folder / file).unlink()
        return digest

    async def scenario() -> None:
        async with joined(config) as groups:
            authority.issue("chat", "p1", folder)
            with monkeypatch.context() as patch:
                patch.setattr(identity, "_digest", digest_and_lose)
                ask_to_reload(folder)
                await until(lambda: any("not reloaded" in line for line in caplog.messages))
            await (await groups["p1"].broadcast(b"as before")).delivered()

    go(scenario())
    (line,) = (line for line in caplog.messages if "not reloaded" in line)
    named = "cert.pem" if file == "key.pem" else file  # OpenSSL reads these two as one
    assert f"{folder / named}: No such file or directory; try again" in line


def test_a_new_authority_takes_over_while_members_run(tmp_path: Path) -> None:
    """The old one has ended or its key is stolen: new folders for all, one reload after another."""
    config, _ = own_papers(tmp_path, 3)
    elsewhere = msgspec.structs.replace(config, certificates=tmp_path / "new" / "certs")

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await groups["p1"].broadcast(b"before")
            certify(elsewhere, tmp_path / "new" / "authority")
            for name, group in groups.items():
                copy = tmp_path / "certs" / name
                shutil.copytree(tmp_path / "new" / "certs" / name, copy, dirs_exist_ok=True)
                assert group.reload()
                await group.broadcast(b"meanwhile")
            await linked(groups)
            await everywhere_delivered(groups, {"p1": 2, "p2": 1, "p3": 1})

    go(scenario())
    assert_all_hold(traced(config))


def test_a_member_that_calls_speaks_no_tls_1_2(tmp_path: Path) -> None:
    """Whoever listens has a certificate of the group, but an old TLS."""
    own_papers(tmp_path, 2, *MEMORY)
    folder = tmp_path / "certs" / "p2"
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = identity.Identity(tmp_path / "certs" / "p1", "chat", "p1").calling
    caller = calling.wrap_bio(back, there)
    with pytest.raises(ssl.SSLWantReadError):
        caller.do_handshake()
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        old.wrap_bio(there, back, server_side=True).do_handshake()
    with pytest.raises(ssl.SSLError) as fault:
        caller.do_handshake()
    assert identity.described(fault.value).words.endswith("our TLS: protocol version")


def test_a_member_makes_up_a_message_of_another_and_its_origin_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asked p2 for p3#1: p1 believes it, until it compares with p3."""
    config, _ = own_papers(tmp_path, 3, *MEMORY)
    folder = tmp_path / "certs" / "p2"
    as_p2 = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    as_p2.check_hostname, as_p2.verify_mode = False, ssl.CERT_NONE
    as_p2.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    push = Push((Batch(MessageId("p3", 1), (b"made up",)),))
    packets = framed(Kind.PACKETS, 1, body_of([msgspec.msgpack.encode(push)]))
    spoken = GREETING + hello_frame(hello_of(config, "p2", "p1")) + packets

    async def scenario() -> None:
        async with joined(config, "p1", "p3", listen=False, founding=True) as groups:
            await linked(groups)
            p1, p3 = groups["p1"], groups["p3"]
            with monkeypatch.context() as patch:
                patch.setattr(p3._member.transport, "send", lambda to, body, count: None)
                await p3.broadcast(b"the truth")
                await until(lambda: p3.status().waiting == 1)
                lying = asyncio.create_task(shout(config, "p1", spoken, as_p2))
                await until(lambda: p1.status().delivered.get("p3") == 1)
                lying.cancel()
            p1._member.transport._take_down(p1._member.transport.peers["p3"], "cut")
            await until(lambda: any(named in line for line in caplog.messages))

    named = "reason p3 used numbers twice"
    with pytest.raises(Halted, match="p3 used numbers twice"):
        go(scenario())
