"""A lost machine is set up again: p2+1 takes the place of p2, at its address.

One address then stands for two names. Whoever is called there has to be the one it is called as:
certificates say who it is, and in a plain group the words in which both say hello.
"""

import asyncio
import shutil
import signal
import tempfile
from asyncio import to_thread
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidings as library
from changing import VIEWS, newcomer
from programs import TIDINGS, running
from real_groups import (
    everywhere_delivered,
    free_ports,
    go,
    group_file,
    joined,
    linked,
    take,
    until,
)
from tidings.node.authority import Authority
from tidings.node.config import Config, read_config

UNTRACED = "trace.on = false"


@pytest.fixture(autouse=True)
def _short_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Control sockets have short names."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


def certified_group(folder: Path) -> Config:
    """With an authority beside it, as an operator has it."""
    authority = Authority.found(folder / "authority", "chat")
    for number in (1, 2, 3):
        authority.issue("chat", f"p{number}", folder / "certs" / f"p{number}")
    group_file(folder, 3, VIEWS, UNTRACED)
    path = folder / "group.toml"
    path.write_text(path.read_text().replace("tls.plain = true", 'tls.folder = "certs"'))
    return read_config(path)


def counting(state: list[bytes]) -> library.Snapshot:
    async def take_state(pieces: Any) -> None:
        state[:] = [piece async for piece in pieces]

    return library.Snapshot(lambda: iter(list(state)), take_state)


@pytest.mark.parametrize("has_snapshots", [False, True])
def test_a_lost_machine_is_replaced_at_its_address_by_three_commands(
    has_snapshots: bool, tmp_path: Path, tidings: Any
) -> None:
    config = certified_group(tmp_path)
    states: dict[str, list[bytes]] = {"p1": [], "p3": [], "p2+1": []}
    options = {
        name: {"snapshot": counting(state)} if has_snapshots else {}
        for name, state in states.items()
    }

    async def read(name: str, group: library.Group) -> None:
        async for message in group:
            states[name].append(message.text)

    async def scenario() -> None:
        async with (
            library.join("p1", config, **options["p1"]) as p1,
            library.join("p3", config, **options["p3"]) as p3,
        ):
            groups = {"p1": p1, "p3": p3}
            async with running(tmp_path, TIDINGS, "node", "p2") as p2:
                await until(lambda: all("p2" in one.status().linked for one in (p1, p3)))
                p2.type("from p2")
                await p2.says("p2#1 from p2")
                p2.process.send_signal(signal.SIGKILL)
                await p2.ends()
            shutil.rmtree(config.data / "p2")
            await (await p1.broadcast(b"meanwhile")).delivered()
            reading = [asyncio.create_task(read(*one)) for one in groups.items()]
            await until(lambda: len(states["p1"]) == len(states["p3"]) == 2)

            issued = await to_thread(tidings, "certs", "issue", "p2+1", "--newcomer")
            assert issued.status == 0, issued
            async with library.join("p2+1", config, **options["p2+1"]) as p2:
                replaced = await to_thread(tidings, "members", "replace", "p2")
                assert replaced.status == 0, replaced
                assert "  start it there            tidings node p2+1" in replaced.out.splitlines()
                assert replaced.out.splitlines()[-1] == "view 1: p1, p2+1, p3"
                assert p2.view.addresses["p2+1"] == str(config.addresses["p2"])
                groups["p2+1"] = p2
                reading.append(asyncio.create_task(read("p2+1", p2)))
                await linked(groups)
                await (await p2.broadcast(b"here again")).stable()
                await everywhere_delivered(groups, {"p1": 1, "p2": 1, "p2+1": 1})
                whole = {b"from p2", b"meanwhile", b"here again"}
                expected = whole if has_snapshots else {b"here again"}
                await until(lambda: set(states["p2+1"]) == expected)
                assert all(set(states[name]) == whole for name in ("p1", "p3"))
                for one in reading:
                    one.cancel()
                await asyncio.wait(reading)

    go(scenario())


def test_a_newcomer_is_not_alarmed_by_calls_for_the_one_that_it_replaces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED, tls=True, newcomers=("p2+1",))
    caplog.set_level("INFO", logger="tidings.node")

    def levels() -> set[str]:
        records = [one for one in caplog.records if one.getMessage().startswith("p2+1: no link")]
        assert all("it may look for somebody else here" in one.getMessage() for one in records)
        return {one.levelname for one in records}

    async def scenario() -> None:
        members = joined(config, "p1", "p3", founding=True, listen=False)
        async with library.join("p2+1", config, listen=False), members as groups:
            await until(lambda: levels() != set())
            await groups["p1"].replace("p2")

    go(scenario())
    assert levels() == {"INFO"}


@pytest.mark.parametrize("tls", [False, True])
def test_the_old_one_that_comes_back_there_hears_that_it_was_removed_and_stops(
    tls: bool, tmp_path: Path
) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED, tls=tls, newcomers=("p2+1",))

    async def scenario() -> None:
        async with joined(config, "p1", "p3", listen=False) as groups:
            async with joined(config, "p2", listen=False) as old:
                await linked(groups | old)
                await (await old["p2"].broadcast(b"from p2")).stable()
                way_out = r"p2\+1 cannot listen .* reached elsewhere, start it with --address HOST"
                with pytest.raises(library.EnvironmentMissing, match=way_out):
                    await library.join("p2+1", config).__aenter__()
            async with library.join("p2+1", config, listen=False) as second:
                await groups["p1"].replace("p2")
                await linked(groups | {"p2+1": second})
                with pytest.raises(library.EnvironmentMissing, match="p2 cannot listen on 127"):
                    await library.join("p2", config).__aenter__()
            with pytest.raises(library.TidingsError, match="p2 was removed in view 1"):
                async with library.join("p2", config, listen=False) as old_one:
                    await until(lambda: old_one._member.joined().error is not None)
            async with library.join("p2+1", config, listen=False) as second:
                await linked(groups | {"p2+1": second})
                assert str(await (await second.broadcast(b"back")).stable()) == "p2+1#1"
            assert groups["p1"].view.number == 1

    go(scenario())


def test_nobody_gets_the_address_of_a_member_that_stays(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)
    used, lost = str(config.addresses["p1"]), str(config.addresses["p3"])

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as groups:
            await linked(groups)
            for change in (groups["p2"].add("p4", used), groups["p2"].replace("p3", used)):
                with pytest.raises(library.UsageError, match=f"p1 is reached at {used}, and is"):
                    await change
            with pytest.raises(library.UsageError, match=f"p3 is reached at {lost}, and is not"):
                await groups["p1"].add("p4", lost)
            assert groups["p1"].view.number == 0

    go(scenario())


def test_the_address_of_a_removed_member_is_free(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)
    address = str(config.addresses["p3"])

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False, founding=True) as groups:
            await linked(groups)
            await groups["p1"].remove("p3")
            async with library.join("p4", config, address=address) as p4:
                await groups["p2"].add("p4", address)
                await linked(groups | {"p4": p4})
                await (await groups["p1"].broadcast(b"hello")).stable()
                assert [one.text for one in await take(p4, 1)] == [b"hello"]
                view = groups["p1"].view
                assert view.addresses["p4"] == address

    go(scenario())


def test_a_replacement_elsewhere_comes_back_to_where_it_was(tmp_path: Path) -> None:
    """Its log knows the address; that of p2 is for those who named none."""
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with joined(config, "p1", "p3", listen=False, founding=True) as groups:
            await linked(groups)
            async with newcomer(config, "p2+1", listen=False) as (_, address):
                await groups["p1"].replace("p2", address)
            async with library.join("p2+1", config, listen=False) as again:
                assert str(again.config.listens_on("p2+1")) == address
                await linked(groups | {"p2+1": again})

    go(scenario())


def test_a_replacement_listens_and_tells_metrics_where_the_lost_one_did(tmp_path: Path) -> None:
    outside, inside, metrics = (f"127.0.0.1:{port}" for port in free_ports(3))
    group_file(tmp_path, 2, VIEWS, f'listen.p2 = "{inside}"', f'metrics.p2 = "{metrics}"')
    config = read_config(tmp_path / "group.toml")
    second = config.with_newcomer("p2+1", "")
    assert second.addresses["p2+1"] == config.addresses["p2"]
    assert str(second.listens_on("p2+1")) == inside
    assert str(second.metrics["p2+1"]) == metrics
    elsewhere = config.with_newcomer("p2+1", outside)
    assert str(elsewhere.listens_on("p2+1")) == outside
    assert "p2+1" not in elsewhere.metrics
    assert config.with_newcomer("p4", "") is config
