"""The operator's door: what it answers, whom it lets in, and what it endures."""

import asyncio
import os
import random
import re
import socket
import stat
import tempfile
from asyncio import StreamReader, to_thread
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

import tidings
from real_groups import MEMORY, free_ports, go, group_file, joined, linked, until
from strangers import fingerprints
from tidings.core import EnvironmentMissing, UsageError
from tidings.node import running as running_process
from tidings.node.config import Config
from tidings.node.control.asking import Broken, RunningMember, found, running
from tidings.node.control.door import Asked
from tidings.node.control.http import HttpFault, read_request
from tidings.node.control.place import SOCKET, bound, is_live, places
from tidings.node.errors import Halted
from tidings.node.group import Group
from tidings.node.metrics import Metrics

CHANGING = ('protocol = "views"', "trace.on = false")


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where members without a log have their sockets; short, whatever the test is called."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", f"{folder}/no")
        yield Path(folder) / "tidings"


@pytest.fixture
def folder() -> Iterator[Path]:
    """For a group: its paths are short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name:
        yield Path(name)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def shout(path: Path, data: bytes) -> bytes:
    """Say this, and hear everything that comes."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


# --- what is answered


@pytest.mark.parametrize("is_fast", [False, True])
def test_a_member_says_how_it_is_and_what_it_waits_for(folder: Path, is_fast: bool) -> None:
    config = group_file(folder, 3)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", founding=True) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"hello")).delivered()
            await until(lambda: groups["p2"].status().delivered == {"p1": 1})
            asked = RunningMember("p1", config.data / "p1" / SOCKET)
            report = await to_thread(asked.report)
            status = groups["p1"].status()
            assert {name: getattr(report, name) for name in status.__struct_fields__} == (
                msgspec.structs.asdict(status)
            )
            assert (report.group, report.pid) == ("chat", os.getpid())
            assert report.behind == {"p2": 0, "p3": 1}
            assert report.held_back == {"p1": 0, "p2": 0, "p3": 0}
            assert report.kept_for == "p3"
            assert report.log_limit_bytes == config.limits.log_bytes
            roster = await to_thread(asked.roster)
            assert roster.addresses == {one: str(config.addresses[one]) for one in config.members}
            assert (roster.group, roster.member, roster.linked) == ("chat", "p1", ("p2",))
            assert await to_thread(asked.why, "p1#1") == "p1 has delivered p1#1"
            assert await to_thread(asked.why) == ""
            with pytest.raises(UsageError, match="p9 is not in the group; its members: p1, p2, p3"):
                await to_thread(asked.why, "p9#1")
        assert await to_thread(running, config) == {}

    running_process.run(asyncio.wait_for(scenario(), 60), fast=is_fast)


def test_prometheus_learns_of_the_view_and_who_is_missing(folder: Path) -> None:
    async def scenario() -> str:
        config = group_file(folder, 4, *CHANGING)
        async with joined(config, "p1", "p2", "p3", founding=True) as groups:
            await linked(groups)
            before = generate_latest(Metrics(groups["p1"]._member).registry).decode()
            assert 'tidings_missing{member="p4"} 1.0' in before
            assert 'tidings_missing{member="p2"} 0.0' in before
            await groups["p1"].remove("p4")
            return generate_latest(Metrics(groups["p1"]._member).registry).decode()

    after = go(scenario())
    assert "tidings_view 1.0" in after
    assert "tidings_wedged_seconds 0.0" in after
    assert 'tidings_missing{member="p4"}' not in after


def test_a_plus_in_a_name_is_a_plus(folder: Path) -> None:
    async def scenario() -> None:
        async with joined(group_file(folder, 1, *CHANGING), founding=True):
            asked = RunningMember("p1", folder / "data" / "p1" / SOCKET)
            with pytest.raises(UsageError, match=r"p1\+1 is not in the group"):
                await to_thread(asked.why, "p1+1#3")

    go(scenario())


# --- where it is, and for whom


def test_the_door_is_for_the_members_user_alone(folder: Path, runtime: Path) -> None:
    """Whatever the umask says, and also in the moment in which it is made."""

    async def scenario(config: Config, place: Path) -> None:
        async with joined(config, "p1"):
            assert await to_thread(running, config) == {"p1": place}
            assert mode(place) == 0o600
        assert not place.exists()

    before = os.umask(0)
    try:
        go(scenario(group_file(folder, 2), folder / "data" / "p1" / SOCKET))
        assert not runtime.exists()
        config = group_file(folder, 2, *MEMORY)
        (place,) = (one for one in places(config, "p1") if runtime in one.parents)
        assert place.name.startswith("chat-")
        go(scenario(config, place))
        assert mode(runtime) == 0o700
    finally:
        os.umask(before)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else for a moment")
def test_another_user_cannot_connect(folder: Path) -> None:
    """Not even where it may look into the folder."""
    config = group_file(folder, 1)
    (folder / "data" / "p1").mkdir(parents=True)
    for one in (folder, folder / "data", folder / "data" / "p1"):
        one.chmod(0o755)
    listener, place = bound(config, "p1")
    with listener:
        listener.listen()
        assert [answer_to(uid, place) for uid in (0, 65534)] == ["live", "denied"]
        place.chmod(0o666)
        assert answer_to(65534, place) == "live", "it is the mode that kept it out"


def answer_to(uid: int, place: Path) -> str:
    """What somebody else finds there."""
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            os._exit(0 if is_live(place) else 1)
        except PermissionError:
            os._exit(2)
        finally:
            os._exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ["live", "dead", "denied", "failed"][status]


def test_groups_of_one_name_in_two_folders_do_not_meet(folder: Path) -> None:
    (folder / "other").mkdir()

    async def scenario() -> None:
        one, other = group_file(folder, 1, *MEMORY), group_file(folder / "other", 1, *MEMORY)
        async with joined(one), joined(other):
            here, there = await to_thread(running, one), await to_thread(running, other)
            assert here.keys() == there.keys() == {"p1"}
            assert here != there

    go(scenario())


def test_a_path_that_the_kernel_refuses_is_exchanged_for_a_shorter_one(
    folder: Path, runtime: Path
) -> None:
    deep = folder / ("x" * 100)
    deep.mkdir()

    async def scenario() -> None:
        config = group_file(deep, 1)
        async with joined(config):
            (place,) = (await to_thread(running, config)).values()
            assert place.parent == runtime
            assert (await to_thread(found(config).report)).member == "p1"

    go(scenario())


@pytest.mark.parametrize("squatter", ["open", "link", "file"])
def test_a_member_without_a_safe_place_goes_on_and_says_so(
    squatter: str, folder: Path, runtime: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else may wait in a folder that is not ours alone, so nobody is asked there."""
    match squatter:
        case "open":
            runtime.mkdir(mode=0o755)
        case "link":
            (folder / "elsewhere").mkdir(mode=0o700)
            runtime.symlink_to(folder / "elsewhere")
        case "file":
            runtime.touch()

    async def scenario() -> None:
        config = group_file(folder, 1, *MEMORY)
        async with joined(config, founding=True) as groups:
            await (await groups["p1"].broadcast(b"still here")).delivered()
            assert await to_thread(running, config) == {}

    go(scenario())
    (line,) = (one for one in caplog.messages if "no control socket" in one)
    assert line.startswith("p1: no control socket: reason ")


def test_what_a_dead_process_left_is_replaced(folder: Path) -> None:
    config = group_file(folder, 1)
    place = folder / "data" / "p1" / SOCKET
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
        dead.listen()
    assert place.exists()
    assert not is_live(place)

    async def scenario() -> None:
        async with joined(config):
            assert await to_thread(running, config) == {"p1": place}

    go(scenario())


def test_a_file_that_is_no_socket_stays(folder: Path, runtime: Path) -> None:
    config = group_file(folder, 1)
    place = folder / "data" / "p1" / SOCKET
    place.parent.mkdir(parents=True)
    place.write_text("mine")

    async def scenario() -> None:
        async with joined(config):
            (other,) = (await to_thread(running, config)).values()
            assert other.parent == runtime

    go(scenario())
    assert place.read_text() == "mine"


def test_a_live_one_is_refused(folder: Path) -> None:
    """Even if it listens to the others elsewhere."""
    config, other = group_file(folder, 1, *MEMORY), group_file(folder, 1, *MEMORY)
    assert config.addresses != other.addresses

    async def scenario() -> None:
        async with joined(config) as groups:
            before = await to_thread(running, config)
            with pytest.raises(EnvironmentMissing, match="another process is p1 already"):
                await tidings.join("p1", other).__aenter__()
            assert await to_thread(running, config) == before
            assert (await to_thread(found(config).report)).member == groups["p1"].name

    go(scenario())


def test_a_member_of_somebody_else_is_not_called_absent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = group_file(folder, 2)

    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tidings.node.control.place.is_live", denied)
    with pytest.raises(EnvironmentMissing, match="ask as the user that its member runs as"):
        found(config)


# --- what it endures

GET = b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes) -> bytes:
    head = b"POST /members HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


BAD = {
    "no HTTP": (b"hello\r\n\r\n", 400),
    "HTTP/1.0": (b"GET /status HTTP/1.0\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET /status HTTP/1.1\r\n\r\n", 400),
    "header twice": (GET[:-2] + b"Host: y\r\n\r\n", 400),
    "header with a space": (GET[:-2] + b"A : b\r\n\r\n", 400),
    "folded header": (GET[:-2] + b"A: b\r\n c\r\n\r\n", 400),
    "bare line feeds": (GET[:-2] + b"A: b\nC: d\r\n\r\n", 400),
    "bad length": (GET[:-2] + b"Content-Length: -1\r\n\r\n", 400),
    "body for GET": (GET[:-2] + b"Content-Length: 1\r\n\r\n!", 400),
    "unknown query": (b"GET /status?a=b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no such message": (b"GET /why?message=p1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "unknown path": (b"GET /stop HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "unknown method": (b"DELETE /members HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "POST to status": (post(b"").replace(b"/members", b"/status"), 405),
    "POST without a length": (b"POST /members HTTP/1.1\r\nHost: x\r\n\r\n", 411),
    "chunks": (post(b"")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", 501),
    "long body": (post(b"x" * 513), 413),
    "long head": (GET[:-2] + b"A: " + b"b" * 600 + b"\r\n\r\n", 431),
    "head without an end": (b"x" * 2000, 431),
    "a body that never comes": (post(b"abc")[:-1], 408),
    "no JSON": (post(b"remove p1"), 400),
    "not a change": (post(b'{"stop": "p1"}'), 400),
    "nothing to change": (post(b"{}"), 400),
    "a newcomer without an address": (post(b'{"add": "p4"}'), 400),
    "an address of nobody": (post(b'{"remove": "p1", "address": "x:1"}'), 400),
}


def test_what_is_wrong_is_refused_with_one_line_and_changes_nothing(folder: Path) -> None:
    limits = ("control.request_bytes = 512", "control.request_ms = 200")
    config = group_file(folder, 1, *CHANGING, *limits)

    async def scenario() -> None:
        async with joined(config, founding=True) as groups:
            await (await groups["p1"].broadcast(b"hello")).stable()
            before = fingerprints(groups.values())
            for name, (data, code) in BAD.items():
                answer = await shout(config.data / "p1" / SOCKET, data)
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 %d " % code), (name, answer)
                refusal = msgspec.json.decode(body)
                assert refusal["error"], name
                assert refusal["status"] == 64, name
            assert fingerprints(groups.values()) == before
            assert (await to_thread(found(config).report)).view == 0

    go(scenario())


def test_only_so_many_are_answered_at_once_and_nobody_stays_for_ever(folder: Path) -> None:
    limits = ("control.connections = 2", "control.request_ms = 500")
    config = group_file(folder, 1, *limits)
    place = config.data / "p1" / SOCKET

    async def scenario() -> None:
        async with joined(config):
            tasks = len(asyncio.all_tasks())
            idle = [await asyncio.open_unix_connection(place) for _ in range(2)]
            for _, writer in idle:
                writer.write(GET[:5])
            await until(lambda: len(asyncio.all_tasks()) == tasks + 2)
            with pytest.raises(EnvironmentMissing, match="2 others are being answered; ask again"):
                await to_thread(RunningMember("p1", place).report)
            for reader, writer in idle:
                assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
                writer.close()
            await until(lambda: len(asyncio.all_tasks()) == tasks)
            assert (await to_thread(found(config).report)).member == "p1"

    go(scenario())


def test_whoever_goes_away_in_the_middle_leaves_nothing(folder: Path) -> None:
    config = group_file(folder, 1)

    async def scenario() -> None:
        async with joined(config):
            tasks = len(asyncio.all_tasks())
            for data in (b"", GET[:7], GET, post(b"abc")[:-1]):
                _, writer = await asyncio.open_unix_connection(config.data / "p1" / SOCKET)
                writer.write(data)
                writer.close()
            await until(lambda: len(asyncio.all_tasks()) == tasks)
            assert (await to_thread(found(config).report)).member == "p1"

    go(scenario())


def test_whoever_hangs_up_does_not_wait_for_a_change_that_never_ends(folder: Path) -> None:
    """Its majority is lost once it is approved; operators look into the member all the same."""
    config = group_file(folder, 3, *CHANGING, "control.connections = 2")
    reports = []

    async def scenario() -> None:
        async with joined(config, founding=True) as groups:
            await linked(groups)

            def lose_the_majority(reached: str) -> None:
                if reached == "approved":
                    for name in ("p2", "p3"):
                        groups[name]._member.joined().fail(Halted("gone"))

            endless = asyncio.create_task(groups["p1"].remove("p3", progress=lose_the_majority))
            await until(lambda: groups["p1"]._member.joined().membership.is_wedged)
            place = config.data / "p1" / SOCKET
            door = groups["p1"]._member._control
            assert door is not None
            for _ in range(3):
                _, writer = await asyncio.open_unix_connection(place)
                writer.write(post(b'{"remove": "p3"}'))
                await until(lambda: bool(door._under_way))
                writer.close()
                await until(lambda: not door._under_way)
            reports.append(await to_thread(RunningMember("p1", place).report))
            endless.cancel()

    with pytest.raises(Halted, match="gone"):
        go(scenario())
    assert reports[0].view == 0


def test_any_bytes_are_a_request_or_are_refused() -> None:
    dice = random.Random(7)
    seeds = [data for data, _ in BAD.values()] + [GET, post(b'{"remove": "p2"}')]
    outcomes = set()

    async def read(data: bytes) -> None:
        reader = StreamReader(limit=512)
        reader.feed_data(data)
        reader.feed_eof()
        try:
            request = await read_request(reader, 512)
            outcomes.add("read")
            assert len(request.body) <= 512
        except HttpFault as fault:
            outcomes.add(fault.code.value)
        except EOFError:
            outcomes.add("ended")

    async def scenario() -> None:
        for _ in range(3000):
            data = bytearray(dice.choice(seeds))
            for _ in range(dice.choice([0, 1, 1, 2, 5])):
                place = dice.randrange(len(data) + 1)
                data[place : place + dice.choice([0, 1, 3])] = dice.randbytes(dice.choice([0, 1]))
            await read(bytes(data))

    go(scenario())
    assert {"read", "ended", 400, 411, 413, 431, 501} <= outcomes


# --- changes


@asynccontextmanager
async def until_removed(group: Group) -> AsyncIterator[None]:
    """A member that will be removed stops, and says so when it is left."""
    await group.__aenter__()
    yield
    await until(lambda: group._member.joined().error is not None)
    with pytest.raises(Halted, match=f"{re.escape(group.name)} was removed in view"):
        await group.__aexit__(None, None, None)


def place_for(name: str, config: Config) -> tuple[Group, str]:
    """Somebody who waits to be added, and where."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    return tidings.join(name, config, address=address), address


async def asked_for(config: Config, asked: Asked, member: str = "p1") -> list[dict[str, Any]]:
    asks = await to_thread(found, config, member)
    return [dict(one) for one in await to_thread(lambda: list(asks.change(asked)))]


def test_a_group_is_changed_over_the_socket_step_by_step(folder: Path) -> None:
    config = group_file(folder, 3, *CHANGING)

    async def scenario() -> None:
        p3 = tidings.join("p3", config, founding=True)
        async with joined(config, "p1", "p2", founding=True) as groups, until_removed(p3):
            await linked(groups | {"p3": p3})
            p4, address = place_for("p4", config)
            async with until_removed(p4):
                lines = await asked_for(config, Asked(add="p4", address=address))
                states = ["calling", "asked", "ready", "promised", "installed"]
                assert [one["state"] for one in lines] == states
                members = ["p1", "p2", "p3", "p4"]
                assert lines[-1] == {"state": "installed", "view": 1, "members": members}
                roster = await to_thread((await to_thread(found, config, "p1")).roster)
                assert (roster.view, roster.addresses["p4"]) == (1, address)
                assert roster.replacements["p4"] == "p4+1"
                lines = await asked_for(config, Asked(remove="p4"))
                assert [one["state"] for one in lines] == states[1:]
            newcomer, address = place_for("p3+1", config)
            async with newcomer:
                lines = await asked_for(config, Asked("p3+1", "p3", address))
                assert lines[-1]["members"] == ["p1", "p2", "p3+1"]
                assert {"p1", "p2", "p3+1"} <= (await to_thread(running, config)).keys()

    go(scenario())


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        (Asked(remove="p9"), 69, "p9 is not a member"),
        (Asked("p9", "p2", "127.0.0.1:1"), 64, "whoever replaces p2 is p2+1"),
        (Asked(add="p 4", address="127.0.0.1:1"), 64, "'p 4' is not a name"),
        (Asked(add="p4", address="nowhere"), 64, "'nowhere' is not an address"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_denied_with_the_reason(
    asked: Asked, status: int, reason: str, folder: Path
) -> None:
    config = group_file(folder, 2, *CHANGING)

    async def scenario() -> None:
        async with joined(config, founding=True) as groups:
            await linked(groups)
            last = (await asked_for(config, asked))[-1]
            assert (last["state"], last["status"]) == ("denied", status), last
            assert reason in last["reason"]
            assert groups["p1"].view.number == 0

    go(scenario())


@pytest.mark.parametrize(
    ("size", "up", "way_out"),
    [
        (2, ("p1",), "a group of two changes only while both are up: start p2 again, or begin a"),
        (4, ("p1", "p2"), "3 of 4 must be up, and 2 are: start p3 or p4 again"),
    ],
)
def test_without_a_majority_the_way_out_is_named(
    size: int, up: tuple[str, ...], way_out: str, folder: Path
) -> None:
    config = group_file(folder, size, *CHANGING, "links.hello_ms = 500")

    async def scenario() -> None:
        async with joined(config, *up, founding=True) as groups:
            await linked(groups)
            *_, last = await asked_for(config, Asked(remove=f"p{size}"))
            assert (last["state"], last["status"]) == ("denied", 69)
            assert way_out in last["reason"]
            await (await groups["p1"].broadcast(b"nothing has changed")).delivered()

    go(scenario())


def test_a_group_that_keeps_its_members_says_so(folder: Path) -> None:
    async def scenario() -> None:
        config = group_file(folder, 2, "trace.on = false", 'protocol = "frontier"')
        async with joined(config):
            (last,) = await asked_for(config, Asked(remove="p2"))
            assert (last["state"], last["status"]) == ("denied", 64)
            assert "cannot change" in last["reason"]

    go(scenario())


def test_an_answer_that_breaks_off_is_no_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member stops while it waits for the others."""
    config = group_file(folder, 2, *CHANGING)

    begun = asyncio.Event()

    async def for_ever(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with joined(config, founding=True) as groups:
            await linked(groups)
            monkeypatch.setattr(groups["p1"]._member, "change", for_ever)
            asking = asyncio.create_task(asked_for(config, Asked(remove="p2")))
            await begun.wait()
        with pytest.raises(Broken, match="p1 stopped before it had answered"):
            await asking

    go(scenario())
