"""``tidings group`` and ``tidings certs``: what they write, and one line for every mistake."""

import errno
import json
import os
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from programs import TIDINGS, running
from real_groups import free_ports, go, until
from tidings import cli
from tidings.core import DataError
from tidings.disk import files
from tidings.disk.files import locked
from tidings.node import authority
from tidings.node.config import Address, read_config
from tidings.node.identity import Identity

THREE = ("p1=10.0.0.1:7001", "p2=[2001:db8::2]:7001", "p3=p3.example.org:7001")


def test_a_group_on_three_machines(tidings: Any, tmp_path: Path) -> None:
    answer = tidings("group", *THREE, "--days", "90")
    assert answer.status == 0, answer
    assert answer.out.splitlines() == [
        "group.toml: p1 on 10.0.0.1:7001, p2 on [2001:db8::2]:7001, p3 on p3.example.org:7001",
        "certs: a folder for each member; it needs its own, and group.toml",
        "authority: the key that signs certificates; keep it, and copy it to nobody",
    ]
    config = read_config(tmp_path / "group.toml")
    assert config.addresses["p2"] == Address("2001:db8::2", 7001)
    assert config.certificates == tmp_path / "certs"
    for member in config.members:
        files = {path.name for path in (tmp_path / "certs" / member).iterdir()}
        assert files == {"ca.pem", "cert.pem", "crl.pem", "key.pem"}
        Identity(tmp_path / "certs" / member, "group", member)


def test_a_plain_group_has_no_certificates(tidings: Any, tmp_path: Path) -> None:
    assert tidings("group", "p1", "p2", "--plain").status == 0
    assert read_config(tmp_path / "group.toml").certificates is None
    assert [path.name for path in tmp_path.iterdir()] == ["group.toml"]
    answer = tidings("certs", "show")
    assert (answer.status, answer.err) == (
        64,
        "tidings: group.toml says tls.plain = true: there are no certificates\n",
    )


@pytest.mark.parametrize("last", ["authority/crl.pem", "certs/p2/key.pem"])
def test_a_group_that_has_no_room_is_made_once_there_is_some(
    last: str, tidings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, **_: bool) -> None:
        if path == Path(f"{last}.open"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(files, "sync", fill)
        answer = tidings("group", *THREE)
    assert (answer.status, answer.err) == (69, f"tidings: {last}: No space left on device\n")
    assert [*tmp_path.iterdir()] == []
    assert tidings("group", *THREE).status == 0


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("group", "p1=10.0.0.1:1", "--plain"), 64, "members.p1: 10.0.0.1:1 is not on loopback"),
        (("group", "p1=7001"), 64, "members.p1: '7001' is not an address like 127.0.0.1:7001"),
        (("group", "p1="), 64, "'p1=': write an address like p1=10.0.0.1:7001"),
        (("group", "p1='x':1"), 64, "write an address like p1=10.0.0.1:7001"),
        (("group", "p1=a:1", "p2=a:1"), 64, "members.p2: a:1 is the address of p1 already"),
        (("group", "p1", "p1=a:1"), 64, "p1 is there twice"),
        (("group", "p1", "--group", "other.toml"), 64, "authority is there already; it stays"),
        (("certs", "issue", "p9"), 64, "p3; for one that is to be added: --newcomer"),
        (("certs", "issue", "p1"), 64, "p1 has a certificate; tidings certs renew p1 renews it"),
        (("certs", "renew", "p1", "--days", "0"), 64, "Invalid value for '--days'"),
        (("certs", "renew", "p1", "--authority", "x"), 64, "x/key.pem: no such file; certificates"),
        (
            ("certs", "show", "--group", "no.toml"),
            64,
            "directory; --group says where the group file is",
        ),
        (("certs", "reload", "p1"), 69, "p1 does not run with certs/p1, or hangs"),
        (("certs", "mend"), 64, "No such command 'mend'. (see tidings certs --help)"),
        (("node", "p1", "--group", "old.toml"), 65, "old.toml:1: tls: nothing says how members"),
    ],
)
def test_a_mistake_gets_one_line(
    words: tuple[str, ...],
    status: int,
    line: str,
    tidings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli.certs, "PATIENCE_S", 0.0)
    if words[0] != "group" or "other.toml" in words:
        assert tidings("group", *THREE).status == 0
    (tmp_path / "old.toml").write_text('name = "old"\nmembers.p1 = "127.0.0.1:7001"\n')
    answer = tidings(*words)
    assert answer.status == status
    assert line in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_folder_that_may_not_be_read_is_not_called_empty(
    tidings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tidings("group", *THREE).status == 0

    def forbidden(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", forbidden)
    answer = tidings("certs", "reload")
    assert (answer.status, answer.err) == (69, "tidings: certs: Permission denied\n")


def test_whoever_has_no_certificate_here_or_several_learns_what_to_do(
    tidings: Any, tmp_path: Path
) -> None:
    assert tidings("group", *THREE).status == 0
    words = "tidings: which member is this? certs has certificates of"
    assert tidings("node").err == (
        f"{words} p1, p2, p3; name it, as in tidings node p1, or delete those of others\n"
    )
    shutil.rmtree(tmp_path / "certs")
    assert tidings("node").err == (
        f"{words} nobody; copy certs/NAME here from where the group was made\n"
    )
    (tmp_path / "certs" / "p4").mkdir(parents=True)
    answer = tidings("status")
    assert answer.status == 69
    assert answer.err.endswith("or start it: tidings node p4\n")


def test_a_file_that_is_no_key_is_named_and_not_shown(tidings: Any, tmp_path: Path) -> None:
    assert tidings("group", *THREE).status == 0
    (tmp_path / "authority/key.pem").write_text("a secret, but no key")
    answer = tidings("certs", "renew", "p1")
    assert (answer.status, answer.err) == (
        65,
        "tidings: authority/key.pem: not what an authority writes there\n",
    )


def test_certificates_from_the_first_to_the_last(tidings: Any, tmp_path: Path) -> None:
    def states() -> list[tuple[str, str]]:
        shown = json.loads(tidings("certs", "show", "--json").out)
        return [(one["member"], one["state"]) for one in shown]

    assert tidings("group", *THREE).status == 0
    assert states() == [("p1", "valid"), ("p2", "valid"), ("p3", "valid")]
    assert tidings("certs", "renew", "p1").status == 0
    assert states()[:2] == [("p1", "valid")] * 2  # the old one stays valid until it ends
    revoked = tidings("certs", "revoke", "p1", "p2")
    assert revoked.out.count("is revoked") == 3
    assert states() == [("p1", "revoked")] * 2 + [("p2", "revoked"), ("p3", "valid")]
    lists = {path.read_bytes() for path in tmp_path.rglob("crl.pem")}
    assert len(lists) == 1, "every folder here has the new list"
    assert tidings("certs", "issue", "p2", "--days", "7").status == 0
    assert sorted(states())[-3:] == [("p2", "revoked"), ("p2", "valid"), ("p3", "valid")]
    assert tidings("certs", "show").out.splitlines()[0].startswith("member")


def test_whoever_was_revoked_before_keeps_nobody_from_being_revoked(
    tidings: Any, tmp_path: Path
) -> None:
    """And to revoke once more publishes what a killed command did not."""
    assert tidings("group", *THREE).status == 0
    lists = [tmp_path / "certs" / member / "crl.pem" for member in ("p1", "p2", "p3")]
    assert tidings("certs", "revoke", "p3").status == 0
    old = lists[0].read_bytes()
    answer = tidings("certs", "revoke", "p2", "p3")
    assert answer.status == 0
    assert answer.out.splitlines()[1] == "p3: everything was revoked before"
    new = (tmp_path / "authority/crl.pem").read_bytes()
    assert {one.read_bytes() for one in lists} == {new} != {old}
    lists[0].write_bytes(old)
    answer = tidings("certs", "revoke", "p2")
    assert (answer.status, answer.out.splitlines()[0]) == (0, "p2: everything was revoked before")
    assert lists[0].read_bytes() == new


def test_who_has_no_certificate_is_named_before_anything_is_revoked(
    tidings: Any, tmp_path: Path
) -> None:
    assert tidings("group", *THREE).status == 0
    (issued,) = (tmp_path / "authority/issued").glob("p3-*.pem")
    issued.unlink()
    old = (tmp_path / "authority/crl.pem").read_bytes()
    answer = tidings("certs", "revoke", "p2", "p3")
    assert (answer.status, answer.err) == (64, "tidings: p3 has no certificate of authority\n")
    assert (tmp_path / "authority/crl.pem").read_bytes() == old


def test_what_was_revoked_stays_revoked_without_its_file(tidings: Any, tmp_path: Path) -> None:
    assert tidings("group", *THREE).status == 0
    assert tidings("certs", "revoke", "p2").status == 0
    (issued,) = (tmp_path / "authority/issued").glob("p2-*.pem")
    issued.unlink()
    assert tidings("certs", "revoke", "p3").status == 0
    with pytest.raises(DataError, match="certificate revoked"):
        Identity(tmp_path / "certs/p2", "group", "p2")


def test_two_do_not_sign_at_once(tidings: Any, tmp_path: Path) -> None:
    assert tidings("group", *THREE).status == 0
    file = locked(tmp_path / "authority", "")
    try:
        for words in (("revoke", "p2"), ("renew", "p2")):
            answer = tidings("certs", *words)
            assert answer.status == 69
            assert f"authority/lock: in use by process {os.getpid()}" in answer.err
    finally:
        os.close(file)
    assert tidings("certs", "revoke", "p2").status == 0


def test_an_authority_that_has_ended_signs_nothing(
    tidings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tidings("group", *THREE, "--authority-days", "10").status == 0
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)
    monkeypatch.setattr(authority, "_now", lambda: later)
    for words in (("renew", "p1"), ("issue", "p1"), ("revoke", "p1")):
        answer = tidings("certs", *words)
        assert answer.status == 65
        assert answer.err.startswith("tidings: authority/ca.pem: ended on ")
        assert answer.err.endswith("make a new authority (docs/node.md, Three machines)\n")


def test_a_key_is_never_written_into_a_file_of_somebody_else(tidings: Any, tmp_path: Path) -> None:
    """A draft is left over, which others may read, or which is a way to another file."""
    assert tidings("group", *THREE).status == 0
    other = tmp_path / "other"
    other.write_text("not a key")
    (tmp_path / "certs/p1/key.pem.open").symlink_to(other)
    draft = tmp_path / "certs/p2/key.pem.open"
    draft.touch()
    draft.chmod(0o644)
    assert tidings("certs", "renew", "p1", "p2").status == 0
    assert other.read_text() == "not a key"
    for member in ("p1", "p2"):
        assert not (tmp_path / "certs" / member / "key.pem").is_symlink()
        Identity(tmp_path / "certs" / member, "group", member)  # refuses what others may read


def test_a_renewal_that_was_cut_short_names_the_way_out(tidings: Any, tmp_path: Path) -> None:
    """The key is new, and the certificate is not."""
    assert tidings("group", *THREE).status == 0
    certificate = tmp_path / "certs/p1/cert.pem"
    old = certificate.read_bytes()
    assert tidings("certs", "renew", "p1").status == 0
    certificate.write_bytes(old)
    with pytest.raises(
        DataError, match=r"cert\.pem: not for the key\.pem beside it; .* certs renew"
    ):
        Identity(tmp_path / "certs/p1", "group", "p1")
    assert tidings("certs", "renew", "p1").status == 0
    Identity(tmp_path / "certs/p1", "group", "p1")


def test_help_has_examples(tidings: Any) -> None:
    assert "Example: tidings certs renew p1" in tidings("certs", "--help").out
    for command in cli.certs.app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"Example: tidings certs {name}" in tidings("certs", name, "--help").out


def test_a_running_member_reloads_when_it_is_asked(tidings: Any, tmp_path: Path) -> None:
    """By the command, and by SIGHUP; it is linked again, and goes on."""
    (port,) = free_ports(1)
    assert tidings("group", "p1", "p2", "--port", str(port)).status == 0

    async def scenario() -> None:
        async with (
            running(tmp_path, TIDINGS, "node", "p1", "--founding") as p1,
            running(tmp_path, TIDINGS, "node", "p2", "--founding") as p2,
        ):
            await until(lambda: any("link up" in line for line in p1.err))
            assert tidings("certs", "renew", "p1", "p2").status == 0
            async with running(tmp_path, TIDINGS, "certs", "reload") as asking:
                assert await asking.ends() == 0, asking.err
                assert asking.out == [
                    f"{one} reads its certificates again; if it refuses them, its log says why"
                    for one in ("p1", "p2")
                ]
            for one in (p1, p2):
                await until(
                    lambda one=one: any("certificates reloaded" in line for line in one.err)
                )
            assert tidings("certs", "renew", "p2").status == 0
            p2.process.send_signal(signal.SIGHUP)
            await until(lambda: sum("certificates reloaded" in line for line in p2.err) == 2)
            p1.type("still here")
            await p2.says("p1#1 still here")
            for one in (p1, p2):
                one.process.send_signal(signal.SIGTERM)
                assert await one.ends() == 0, one.err

    go(scenario())


def test_members_reload_although_one_of_them_is_revoked(tidings: Any, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert tidings("group", "p1", "p2", "p3", "--port", str(port)).status == 0

    async def scenario() -> None:
        async with (
            running(tmp_path, TIDINGS, "node", "p1", "--founding") as p1,
            running(tmp_path, TIDINGS, "node", "p3", "--founding") as p3,
        ):
            for one in (p1, p3):
                await until(lambda one=one: any("link up" in line for line in one.err))
            assert tidings("certs", "revoke", "p2").status == 0
            async with running(tmp_path, TIDINGS, "certs", "reload") as asking:
                assert await asking.ends() == 65
                assert [line.split()[0] for line in asking.out] == ["p1", "p3"]
                (line,) = asking.err
                assert line.startswith("tidings: certs/p2/cert.pem: certificate is refused")
            for one in (p1, p3):
                await until(
                    lambda one=one: any("certificates reloaded" in line for line in one.err)
                )
                one.process.send_signal(signal.SIGTERM)
                assert await one.ends() == 0, one.err

    go(scenario())
