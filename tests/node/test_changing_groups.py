"""Groups that change while they run: on real links, with certificates, and on disk."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

import tidings
from changing import VIEWS, newcomer, speak
from real_groups import (
    MEMORY,
    everywhere_delivered,
    free_ports,
    go,
    group_file,
    hello_of,
    joined,
    linked,
    take,
    until,
)
from tidings.node.wire import GREETING, hello_frame
from tidings.protocols.views.standing import NOWHERE


def test_a_member_is_added_and_takes_part(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with joined(config) as groups, newcomer(config, "p4") as (p4, address):
            await linked(groups)
            await (await groups["p1"].broadcast(b"before")).delivered()
            assert p4.view.number == -1
            view = await groups["p1"].add("p4", address)
            assert (view.number, view.members) == (1, ("p1", "p2", "p3", "p4"))
            assert view.addresses["p4"] == address
            await until(lambda: p4.view == view)
            everybody = groups | {"p4": p4}
            await linked(everybody)
            await (await p4.broadcast(b"after")).stable()
            for group in groups.values():
                assert [one.text for one in await take(group, 2)] == [b"before", b"after"]
            assert [one.text for one in await take(p4, 1)] == [b"after"]
            assert p4.status().delivered == {"p1": 1, "p4": 1}

    go(scenario())


def test_a_member_is_removed_and_the_others_go_on(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = await stack.enter_async_context(joined(config, "p1", "p2"))
            p3 = tidings.join("p3", config)
            await p3.__aenter__()
            await linked(groups | {"p3": p3})
            await (await p3.broadcast(b"last words")).delivered()
            view = await groups["p1"].remove("p3")
            assert (view.number, view.members) == (1, ("p1", "p2"))
            with pytest.raises(tidings.Removed, match=r"p3 was removed in view 1.* is void"):
                await (await p3.broadcast(b"too late")).delivered()
            assert [one.text for one in await take(p3, 1)] == [b"last words"]
            with pytest.raises(tidings.Removed, match="p3 was removed in view 1"):
                await anext(p3)
            with pytest.raises(tidings.Halted, match="p3 was removed in view 1"):
                await p3.__aexit__(None, None, None)
            await (await groups["p2"].broadcast(b"without p3")).stable()
            await until(lambda: "p3" not in groups["p1"]._member.transport.peers)
            assert groups["p1"].status().missing == ()

    go(scenario())


def test_a_member_may_remove_itself(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)

    async def scenario() -> None:
        groups = {name: tidings.join(name, config) for name in config.members}
        for group in groups.values():
            await group.__aenter__()
        await linked(groups)
        view = await groups["p2"].remove("p2")
        assert view.members == ("p1", "p3")
        with pytest.raises(tidings.Removed):
            await anext(groups["p2"])
        with pytest.raises(tidings.Halted):
            await groups["p2"].__aexit__(None, None, None)
        for name in ("p1", "p3"):
            await groups[name].__aexit__(None, None, None)

    go(scenario())


def test_a_lost_member_is_replaced_over_tls(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, tls=True, newcomers=("p2+1",))

    async def scenario() -> None:
        async with joined(config, "p1", "p3") as groups:
            async with joined(config, "p2") as lost:
                await linked(groups | lost)
                await (await lost["p2"].broadcast(b"mine")).delivered()
            async with newcomer(config, "p2+1") as (p2, address):
                view = await groups["p3"].replace("p2", address)
                assert view.members == ("p1", "p2+1", "p3")
                everybody = groups | {"p2+1": p2}
                await linked(everybody)
                receipt = await p2.broadcast(b"here again")
                assert str(await receipt.stable()) == "p2+1#1"
                await everywhere_delivered(everybody, {"p2": 1, "p2+1": 1})

    go(scenario())


def test_without_a_majority_nothing_changes(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, "links.hello_ms = 300")

    async def scenario() -> None:
        async with joined(config, "p1", founding=True) as groups:
            with pytest.raises(tidings.ChangeDenied, match="1 of 3 members are ready, and 2 must"):
                await groups["p1"].remove("p2")
            assert groups["p1"].view.number == 0

    go(scenario())


def test_a_change_waits_for_a_member_that_is_about_to_come(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", founding=True) as groups:
            asked: list[str] = []
            removing = groups["p1"].remove("p3", progress=asked.append)
            change = asyncio.create_task(removing)
            engine = groups["p1"]._member.joined()
            await until(lambda: engine.process.asking.wish is not None)
            await until(lambda: engine.process.asking.wish is None)
            assert not change.done(), "it was denied once, and is asked for again"
            async with joined(config, "p2", founding=True):
                assert (await change).members == ("p1", "p2")
            assert asked == ["asked", "approved"]

    go(scenario())


def test_somebody_who_does_not_run_cannot_be_added(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS, "links.hello_ms = 300")

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            address = f"127.0.0.1:{free_ports(1)[0]}"
            with pytest.raises(tidings.ChangeDenied, match="Connection refused; a newcomer has to"):
                await groups["p1"].add("p3", address)
            assert groups["p1"]._member.transport.peers.keys() == {"p2"}

    go(scenario())


def test_a_change_that_is_denied_at_once_is_asked_for_now_and_then(tmp_path: Path) -> None:
    """p1 starts with nothing, and p2 and p3 are not there yet."""
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, "links.hello_ms = 500")

    async def scenario() -> None:
        async with joined(config, "p1") as groups:
            engine = groups["p1"]._member.joined()
            before = engine.ticks
            with pytest.raises(tidings.ChangeDenied, match="has yet to meet p2, p3"):
                await groups["p1"].remove("p3")
            assert 1 < engine.ticks - before < 100

    go(scenario())


def test_a_change_whose_turn_comes_after_its_member_has_failed_fails_too(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS, "links.hello_ms = 300")

    async def scenario() -> None:
        group = tidings.join("p1", config)
        await group.__aenter__()
        address = f"127.0.0.1:{free_ports(1)[0]}"
        first = asyncio.create_task(group.add("p3", address))
        second = asyncio.create_task(group.remove("p2"))
        engine = group._member.joined()
        await until(lambda: "p3" in engine.transport.peers)
        engine.fail(tidings.TidingsError("the disk is gone"))
        with pytest.raises(tidings.ChangeDenied, match="p3 at"):
            await first
        with pytest.raises(tidings.TidingsError, match="the disk is gone"):
            await second
        with pytest.raises(tidings.TidingsError, match="the disk is gone"):
            await group.__aexit__(None, None, None)

    go(scenario())


def test_a_name_is_used_once(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with joined(config, "p1", "p2") as groups:
            async with joined(config, "p3") as lost:
                await linked(groups | lost)
            await groups["p1"].remove("p3")
            with pytest.raises(tidings.ChangeDenied, match="p3 was a member in view 0"):
                await groups["p1"].add("p3", f"127.0.0.1:{free_ports(1)[0]}")

    go(scenario())


def test_somebody_new_under_a_used_name_is_turned_away_in_one_line_on_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = group_file(tmp_path, 2, *MEMORY, VIEWS)

    async def scenario() -> None:
        async with joined(config) as groups:
            async with newcomer(config, "p4") as (_, address):
                await linked(groups)
                await groups["p1"].add("p4", address)
            await groups["p1"].remove("p4")
            with pytest.raises(tidings.Halted, match="p4 was a member of this group before: its"):
                async with newcomer(config, "p4") as (again, _):
                    await anext(again)

    go(scenario())
    shown = [line for line in caplog.messages if "p4 was a member before" in line]
    assert 1 <= len(shown) <= 2, shown  # by whoever it called
    assert len(set(shown)) == len(shown), shown


def test_newcomers_are_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = group_file(tmp_path, 1, *MEMORY, VIEWS, "links.newcomers = 2")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = await stack.enter_async_context(joined(config))
            for name in ("a", "b", "c"):
                await stack.enter_async_context(newcomer(config, name))
            await until(lambda: any("2 newcomers are linked; 2 is the" in one for one in lines()))
            assert len(groups["p1"]._member.transport.peers) == 2

    def lines() -> list[str]:
        return caplog.messages

    go(scenario())


def test_a_newcomer_that_calls_again_is_linked_once(tmp_path: Path) -> None:
    """Its cable was pulled, and the end of its first connection has not been seen yet."""
    config = group_file(tmp_path, 1, *MEMORY, VIEWS)
    hello = msgspec.structs.replace(hello_of(config, "p2", "p1"), view=NOWHERE)
    call = GREETING + hello_frame(hello)

    async def scenario() -> None:
        async with joined(config) as groups:
            peers = groups["p1"]._member.transport.peers
            _, first = await asyncio.open_connection(*config.addresses["p1"])
            first.write(call)
            await until(lambda: "p2" in peers and peers["p2"].link is not None)
            replaced = peers["p2"].link
            _, second = await asyncio.open_connection(*config.addresses["p1"])
            second.write(call)
            await until(replaced.transport.is_closing)
            assert peers["p2"].link not in (None, replaced)
            assert peers["p2"].link.reader.limit == config.limits.packet_bytes, "it is a newcomer"
            second.close()
            await until(lambda: "p2" not in peers)
            first.close()

    go(scenario())


def test_a_newcomer_that_missed_its_own_view_hears_of_it_when_it_is_back(tmp_path: Path) -> None:
    """It is killed when enough are there to add it, and has never heard of any view."""
    config = group_file(tmp_path, 3, VIEWS)

    async def scenario() -> None:
        async with joined(config) as groups, AsyncExitStack() as stack:
            (port,) = free_ports(1)
            address = f"127.0.0.1:{port}"
            p4 = await stack.enter_async_context(tidings.join("p4", config, address=address))

            def kill(reached: str) -> None:
                if reached == "approved":
                    p4._member.joined().fail(tidings.Halted("killed"))

            view = await groups["p1"].add("p4", address, progress=kill)
            with pytest.raises(tidings.Halted, match="killed"):
                await stack.aclose()
            assert p4.view.number == NOWHERE
            async with tidings.join("p4", config, address=address) as again:
                await until(lambda: again.view == view)
                await (await again.broadcast(b"here")).stable()

    go(scenario())


def test_messages_flow_while_the_group_changes(tmp_path: Path) -> None:
    """Broadcasts wait for a change, and are never refused; everybody delivers the same."""
    config = group_file(tmp_path, 3, *MEMORY, VIEWS, "limits.window = 50")

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = await stack.enter_async_context(joined(config, listen=False))
            await linked(groups)
            is_over = asyncio.Event()
            talking = [asyncio.create_task(speak(group, is_over)) for group in groups.values()]
            for number in range(4, 8):
                entered = newcomer(config, f"p{number}", listen=False)
                group, address = await stack.enter_async_context(entered)
                view = await groups["p1"].add(f"p{number}", address)
                groups[f"p{number}"] = group
                talking.append(asyncio.create_task(speak(group, is_over)))
                assert view.number == number - 3
            await linked(groups)
            is_over.set()
            counts = await asyncio.gather(*talking)
            upto = dict(zip(groups, counts, strict=True))
            await everywhere_delivered(groups, upto)
            assert min(counts) > 0

    go(scenario())
