"""``tidings members`` and ``tidings status``: asked of real members, in one process."""

import json
import re
import signal
import sys
import tempfile
from asyncio import to_thread
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tidings as library
from programs import running
from real_groups import free_ports, go, group_file, joined, linked, until
from tidings import cli
from tidings.core import Exit
from tidings.node.authority import Authority
from tidings.node.config import read_config
from tidings.node.errors import Halted
from tidings.node.group import Group

VIEWS = ('protocol = "views"', "trace.on = false", "links.hello_ms = 500")


@pytest.fixture(autouse=True)
def _short_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@asynccontextmanager
async def three(folder: Path, *lines: str, tls: bool = False) -> AsyncIterator[dict[str, Group]]:
    config = group_file(folder, 3, *VIEWS, *lines, tls=tls)
    async with joined(config, founding=True) as groups:
        await linked(groups)
        yield groups


# --- members


def test_the_members_are_listed_as_one_of_them_knows_them(tmp_path: Path, tidings: Any) -> None:
    config = group_file(tmp_path, 3, *VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True) as groups:
            await linked(groups)
            shown = await to_thread(tidings, "members", "list")
            assert shown.status == 0, shown
            first, head, *rows = shown.out.splitlines()
            assert first == "chat, view 0, as p1 knows it"
            assert head.split() == ["member", "address", "link"]
            links = {"p1": "itself", "p2": "up", "p3": "down"}
            assert [row.split() for row in rows] == [
                [name, str(config.addresses[name]), link] for name, link in links.items()
            ]
            asked = await to_thread(tidings, "members", "list", "--member", "p2", "--json")
            roster = json.loads(asked.out)
            assert (roster["member"], roster["linked"]) == ("p2", ["p1"])

    go(scenario())


def test_a_member_is_added_and_removed_and_its_name_is_used_up(
    tmp_path: Path, tidings: Any
) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"

    async def scenario() -> None:
        async with three(tmp_path) as groups:
            absent = await to_thread(tidings, "members", "add", "p4", "--via", address)
            assert absent.status == 69
            assert absent.out.splitlines() == [
                "p4 has to run before it can be added; if it does not run yet:",
                "  copy to 127.0.0.1         group.toml",
                f"  start it there            tidings node p4 --address {address}",
            ]
            *steps, last = absent.err.splitlines()
            assert steps == [f"p4 is called at {address}"]
            assert last.startswith(f"tidings: add p4 at {address} is denied: p4 at {address} ")
            p4 = library.join("p4", groups["p1"].config, address=address)
            await p4.__aenter__()
            added = await to_thread(tidings, "members", "add", "p4", "--via", address)
            assert added.status == 0, added
            assert added.out.splitlines()[-1] == "view 1: p1, p2, p3, p4"
            assert added.err.splitlines()[1:] == [
                "p1 asks the others whether they are there",
                "ready: a majority is there and lacks little",
                "promised: broadcasts wait until everybody has the same",
            ]
            unknown = await to_thread(tidings, "status", "zebra")
            known = "zebra is not in the group; its members: p1, p2, p3, p4"
            assert (unknown.status, unknown.err) == (64, f"tidings: {known}\n")
            twice = await to_thread(tidings, "members", "add", "p4", "--via", address)
            assert (twice.status, twice.err) == (64, "tidings: p4 is in the group already\n")
            removed = await to_thread(tidings, "members", "remove", "p4", "--json")
            assert removed.status == 0
            assert json.loads(removed.out) == {
                "state": "installed",
                "view": 2,
                "members": ["p1", "p2", "p3"],
            }
            await until(lambda: p4._member.joined().error is not None)
            with pytest.raises(
                Halted, match=r"in view 2; it may join anew under another name$"
            ) as halted:
                await p4.__aexit__(None, None, None)
            assert halted.value.status == Exit.DATA, "a service does not start it again"
            again = await to_thread(tidings, "members", "add", "p4", "--via", address)
            assert again.status == 69
            assert "p4" in again.err.splitlines()[-1]

    go(scenario())


def test_a_lost_member_is_replaced_by_the_next_of_its_name(tmp_path: Path, tidings: Any) -> None:
    """With certificates: the command says how to make one, and that works."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    authority = Authority.found(tmp_path / "authority", "chat")
    for number in (1, 2, 3):
        authority.issue("chat", f"p{number}", tmp_path / "certs" / f"p{number}")

    group_file(tmp_path, 3, *VIEWS)
    path = tmp_path / "group.toml"
    path.write_text(path.read_text().replace("tls.plain = true", 'tls.folder = "certs"'))
    config = read_config(path)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True) as groups:
            await linked(groups)
            words = ("members", "replace", "p3", "--via", address)
            absent = await to_thread(tidings, *words)
            assert absent.status == 69
            issue = "tidings certs issue p3+1 --newcomer"
            assert f"  where the authority is    {issue}" in absent.out.splitlines()
            issued = await to_thread(tidings, *issue.split()[1:])
            assert (issued.status, issued.err) == (0, "")
            async with library.join("p3+1", config, address=address):
                replaced = await to_thread(tidings, *words)
                assert replaced.status == 0, replaced
                assert "certs issue" not in replaced.out, "it is here already"
                assert replaced.out.splitlines()[-1] == "view 1: p1, p2, p3+1"
                renewed = await to_thread(tidings, "certs", "renew", "p3+1")
                assert renewed.status == 0, renewed

    go(scenario())


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("add", "p4"), 64, "Missing option '--via'"),
        (("add", "p4", "--via", "here"), 64, "--via: 'here' is not an address like 10.0.0.4:7001"),
        (("add", "p4", "--via", "10.0.0.4:1"), 64, "--via: 10.0.0.4:1 is not on loopback; plain"),
        (("add", "p 4", "--via", "127.0.0.1:1"), 64, "'p 4' is not a name"),
        (("remove", "pp3"), 64, "pp3 is not in the group; did you mean p3?"),
        (("remove", "zebra"), 64, "zebra is not in the group; its members: p1, p2, p3"),
        (("replace", "p33", "--via", "127.0.0.1:1"), 64, "did you mean p3?"),
        (("list", "--member", "p11"), 64, "p11 is not in the group; did you mean p1?"),
        (("list", "--member", "p3"), 69, "p3 does not run on this machine; ask where one does"),
        (("ad", "p4"), 64, "No such command 'ad'"),
        (("list", "--group", "no.toml"), 64, "no.toml: No such file or directory"),
    ],
    ids=str,
)
def test_a_mistake_gets_one_line(
    words: tuple[str, ...], status: int, line: str, tmp_path: Path, tidings: Any
) -> None:
    config = group_file(tmp_path, 3, *VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True) as groups:
            await linked(groups)
            answer = await to_thread(tidings, "members", *words)
            assert answer.status == status, answer
            assert line in answer.err
            assert len(answer.err.splitlines()) == 1
            assert groups["p1"].view.number == 0

    go(scenario())


@pytest.mark.parametrize("words", [("members", "list"), ("status",), ("members", "remove", "p2")])
def test_69_where_nobody_runs(words: tuple[str, ...], tmp_path: Path, tidings: Any) -> None:
    group_file(tmp_path, 2, *VIEWS)
    answer = tidings(*words)
    way_out = "ask where one does, or start it: tidings node p1"
    assert (answer.status, answer.err) == (
        69,
        f"tidings: no member of chat runs on this machine; {way_out}\n",
    )


def test_of_two_members_the_dead_one_cannot_be_removed_and_the_way_out_is_named(
    tmp_path: Path, tidings: Any
) -> None:
    config = group_file(tmp_path, 2, *VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", founding=True):
            answer = await to_thread(tidings, "members", "remove", "p2", "--json")
            assert answer.status == 69
            assert json.loads(answer.out)["state"] == "denied"
            last = answer.err.splitlines()[-1]
            assert last.startswith("tidings: remove p2 is denied: ")
            assert last.endswith(
                "a group of two changes only while both are up: start p2 again, or begin a new "
                "group (docs/node.md, A lost disk)"
            )

    go(scenario())


# --- status


def test_the_status_shows_links_progress_the_log_and_what_is_stuck(
    tmp_path: Path, tidings: Any
) -> None:
    config = group_file(tmp_path, 3, *VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", founding=True) as groups:
            await groups["p1"].broadcast(b"is anybody there?")
            await until(lambda: bool(groups["p1"].status().stuck))
            shown = await to_thread(tidings, "status", "p1")
            assert shown.status == 0, shown
            first, head, *rest = shown.out.splitlines()
            assert re.fullmatch(r"p1 of chat, view 0, process \d+", first)
            assert head.split() == [
                *("member", "link", "delivered", "stable", "held", "back", "lacks")
            ]
            assert [row.split() for row in rest[:3]] == [
                ["p1", "itself", "0", "0", "1"],
                ["p2", "down", "0", "0", "0", "1"],
                ["p3", "down", "0", "0", "0", "1"],
            ]
            about = dict(row.split(maxsplit=1) for row in rest[3:])
            assert about["own"] == "1 in all, 0 not numbered yet, 1 not delivered yet"
            assert re.fullmatch(r"\d+ bytes, 0% of limits.log_bytes, most for p2", about["log"])
            assert about["missing"] == "p2, p3"
            stuck = "p1#1 waits at p1 for 1 more of p2, p3 to be known to hold it"
            assert about["stuck"] == stuck
            (report,) = json.loads((await to_thread(tidings, "status", "--json")).out)
            assert (report["member"], report["stuck"]) == ("p1", stuck)
            assert report["behind"] == {"p2": 1, "p3": 1}

    go(scenario())


def test_all_members_of_a_machine_are_shown_one_below_the_other(
    tmp_path: Path, tidings: Any
) -> None:
    async def scenario() -> None:
        async with three(tmp_path):
            shown = await to_thread(tidings, "status")
            assert re.findall(r"^(p\d) of chat", shown.out, re.MULTILINE) == ["p1", "p2", "p3"]

    go(scenario())


WATCHING = """
import sys, tidings.cli.status
from tidings import cli
tidings.cli.status.EVERY_S = 0.01
sys.exit(cli.main(["status", "--watch"]))
"""


def test_a_watched_member_may_stop_and_come_back(tmp_path: Path) -> None:
    config = group_file(tmp_path, 1, *VIEWS)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(AsyncExitStack())
            await first.enter_async_context(joined(config, founding=True))
            watching = running(tmp_path, sys.executable, "-u", "-c", WATCHING)
            program = await stack.enter_async_context(watching)
            await until(lambda: any("p1 of chat" in line for line in program.out), 0.01)
            await first.aclose()
            await program.says("nobody runs here")
            async with joined(config):
                seen = len(program.out)
                await until(lambda: any("p1 of" in line for line in program.out[seen:]), 0.01)
                program.process.send_signal(signal.SIGINT)
                assert await program.ends() == 0, program.err

    go(scenario())


def test_every_verb_explains_itself_by_an_example(tidings: Any) -> None:
    for command in cli.members.app.registered_commands:
        answer = tidings("members", str(command.name or command.callback.__name__), "--help")
        assert answer.status == 0
        assert f"Example: {str(command.epilog).removeprefix('Example: ')}" in answer.out
    assert "Example: tidings members add p4 --via 10.0.0.4:7001" in tidings("members", "--help").out
