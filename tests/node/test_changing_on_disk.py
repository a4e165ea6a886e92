"""Groups that change, on disk: whoever is killed and starts again knows which view it was in."""

import shutil
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec
import pytest

import tidings
from changing import VIEWS, newcomer
from real_groups import (
    Members,
    assert_all_hold,
    everywhere_delivered,
    go,
    group_file,
    joined,
    linked,
    take,
    traced,
    until,
)
from tidings.core import Halt, MessageId
from tidings.node.config import Config
from tidings.node.group import Group
from tidings.node.keeping import Keeper
from tidings.node.tick import Tick
from tidings.protocols.views.packets import NO_BALLOT, View
from tidings.protocols.views.records import Promised
from tidings.trace import Manifest
from tidings.trace.segments import Packets

UNTRACED = "trace.on = false"


async def read_to_the_end(config: Config, name: str) -> None:
    async with tidings.join(name, config) as group:
        async for _ in group:
            pass


def test_a_newcomer_starts_again_and_need_not_say_where_it_is(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED, tls=True, newcomers=("p4",))

    async def scenario() -> None:
        async with joined(config, listen=False) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"before")).delivered()
            async with newcomer(config, "p4", listen=False) as (p4, address):
                await groups["p1"].add("p4", address)
                await (await p4.broadcast(b"first life")).stable()
            await (await groups["p2"].broadcast(b"meanwhile")).delivered()
            async with tidings.join("p4", config) as p4:
                assert p4.view.members == ("p1", "p2", "p3", "p4")
                everybody = groups | {"p4": p4}
                await linked(everybody)
                assert [one.text for one in await take(p4, 1)] == [b"meanwhile"]
                receipt = await p4.broadcast(b"second life")
                assert str(await receipt.stable()) == "p4#2"
                await everywhere_delivered(everybody, {"p1": 1, "p2": 1, "p4": 2})

    go(scenario())


def test_a_newcomer_that_was_never_added_starts_again(tmp_path: Path) -> None:
    config = group_file(tmp_path, 2, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with joined(config) as groups:
            await linked(groups)
            async with newcomer(config, "p3") as (_, address):
                pass
            async with tidings.join("p3", config) as p3:
                view = await groups["p2"].add("p3", address)
                await until(lambda: p3.view == view)

    go(scenario())


def test_who_was_away_while_the_group_changed_gets_through_all_views(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            groups = await stack.enter_async_context(joined(config, "p1", "p2", listen=False))
            async with joined(config, "p3", listen=False) as third:
                await linked(groups | third)
                await (await third["p3"].broadcast(b"hello")).delivered()
            for name in ("p4", "p5"):
                entered = newcomer(config, name, listen=False)
                group, address = await stack.enter_async_context(entered)
                await (await groups["p1"].broadcast(name.encode())).delivered()
                await groups["p1"].add(name, address)
                groups[name] = group
            await groups["p4"].remove("p1")
            async with joined(config, "p3") as third:
                p3 = third["p3"]
                await until(lambda: p3.view.members == ("p2", "p3", "p4", "p5"))
                await linked(
                    {name: group for name, group in (groups | third).items() if name != "p1"}
                )
                receipt = await p3.broadcast(b"back")
                assert str(await receipt.stable()) == "p3#2"
                texts = [one.text for one in await take(p3, 3)]
                assert texts == [b"p4", b"p5", b"back"]

    with pytest.raises(tidings.Halted, match="p1 was removed in view 3"):
        go(scenario())


def test_who_was_removed_while_away_hears_it_and_stops_in_one_line(tmp_path: Path) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as groups:
            async with joined(config, "p3", listen=False) as third:
                await linked(groups | third)
                await (await third["p3"].broadcast(b"hello")).stable()
            await groups["p1"].remove("p3")
            for _ in range(2):  # it hears it once, and knows it the second time
                with pytest.raises(tidings.TidingsError, match="p3 was removed in view 1"):
                    await read_to_the_end(config, "p3")
            await (await groups["p2"].broadcast(b"fine")).stable()

    go(scenario())


def test_who_was_removed_and_is_still_needed_knows_it_when_it_starts_again(tmp_path: Path) -> None:
    """It serves p4, which is away; its program cannot wait for that."""
    config = group_file(tmp_path, 5, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", "p3", listen=False) as groups:
            async with joined(config, "p5", listen=False) as fifth:
                async with joined(config, "p4", listen=False) as fourth:
                    await linked(groups | fourth | fifth)
                    await (await fifth["p5"].broadcast(b"hello")).stable()
                await groups["p1"].remove("p5")
                await until(lambda: fifth["p5"]._member.joined().membership.has_left)
            async with joined(config, "p5", listen=False) as fifth:
                engine = fifth["p5"]._member.joined()
                await until(lambda: engine.membership.has_left)
                assert await fifth["p5"].receipt(1).delivered()
                with pytest.raises(tidings.Removed, match="p5 was removed in view 1"):
                    await fifth["p5"].broadcast(b"too late")
                with pytest.raises(tidings.Removed, match="p5 was removed in view 1"):
                    await fifth["p5"].remove("p4")
                assert engine.error is None

    go(scenario())


def test_a_lost_disk_is_refused_under_the_name_of_a_member_or_of_a_removed_one(
    tmp_path: Path,
) -> None:
    config = group_file(tmp_path, 3, VIEWS, UNTRACED)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as groups:
            async with joined(config, "p3", listen=False) as third:
                await linked(groups | third)
                await (await third["p3"].broadcast(b"hello")).stable()
            shutil.rmtree(config.data / "p3")
            way_out = (
                "p3 lost its disk; .* where another member runs, tidings members replace p3 helps"
            )
            with pytest.raises(tidings.TidingsError, match=way_out):
                await read_to_the_end(config, "p3")
            await groups["p1"].remove("p3")
            shutil.rmtree(config.data / "p3")
            with pytest.raises(tidings.TidingsError, match="p3 lost its disk"):
                await read_to_the_end(config, "p3")

    go(scenario())


def test_the_trace_of_a_removed_member_has_all_that_is_on_its_disk_and_no_more(
    tmp_path: Path,
) -> None:
    """It stops while one tick is being written, and the next one waits for that."""
    config = group_file(tmp_path, 3, VIEWS)

    def halt_later(group: Group) -> None:
        """As if packets had come just before, and the disk were slow."""
        engine = group._member.joined()
        halt = engine._perform[Halt]

        def late(effect: Halt, tick: Tick) -> None:
            for kind in ("written", "waiting"):
                row, record = Packets("receive", (("p1", 2**40),), kind, 1), Promised(0, NO_BALLOT)
                late_tick = Tick(records=[record], items=[row], is_due=True)
                tick.after.append(partial(engine._seal, late_tick))
            tick.after.append(partial(setattr, engine.disk, "_is_over", True))
            halt(effect, tick)

        engine._perform[Halt] = late

    async def removed(groups: Members) -> None:
        async with tidings.join("p3", config, listen=False) as p3:
            await linked(groups | {"p3": p3})
            await (await p3.broadcast(b"hello")).stable()
            halt_later(p3)
            await groups["p1"].remove("p3")
            await until(lambda: p3._member.joined().error is not None)

    async def scenario() -> None:
        async with joined(config, "p1", "p2", listen=False) as groups:
            with pytest.raises(tidings.Halted, match="p3 was removed in view 1"):
                await removed(groups)
            with pytest.raises(tidings.Removed, match="p3 was removed in view 1"):
                await read_to_the_end(config, "p3")
            await (await groups["p1"].broadcast(b"without p3")).stable()

    go(scenario())
    run = traced(config, up=("p1", "p2"))
    assert_all_hold(run)
    assert not run.holed
    kinds = [(row.kind, row.packet_kind) for row in run.histories["p3"]]
    assert ("receive", "written") in kinds
    assert ("receive", "waiting") not in kinds
    assert run.histories["p3"][-1].kind == "leave"


def test_a_view_that_never_got_to_the_disk_is_not_in_the_trace(tmp_path: Path) -> None:
    """A member that is alone decides at once; killed then, it may decide otherwise."""
    config = group_file(tmp_path, 1, VIEWS)
    first, lost = View(0, ("p1",)), View(1, ("p1", "p2"), (MessageId("p1", 0),), "p2")
    Keeper(config, "p1").know((first, lost))
    keeper = Keeper(config, "p1")
    keeper.know((first,))
    assert _views_in(keeper) == (("p1",), ("p1", "p2")), "it may still be there"
    keeper.know((first, View(1, ("p1", "p3"), (MessageId("p1", 0),), "p3")))
    assert _views_in(keeper) == (("p1",), ("p1", "p3"))


def _views_in(keeper: Keeper) -> tuple[tuple[str, ...], ...]:
    return msgspec.json.decode(keeper.path.read_bytes(), type=Manifest).views
