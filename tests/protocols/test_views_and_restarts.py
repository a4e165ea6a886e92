"""Members of changing groups that come back, or lose their disk, at an awkward moment."""

from collections.abc import Iterable
from functools import partial
from itertools import combinations

import msgspec
import pytest

from tidings.core import (
    Broadcast,
    Change,
    Deliver,
    Deny,
    Effect,
    Event,
    Halt,
    LinkDown,
    LinkUp,
    MessageId,
    Packet,
    Persist,
    Rebind,
    Receive,
    Send,
    Span,
    Start,
    Timeout,
)
from tidings.node.config import Limits
from tidings.node.wire import Codec
from tidings.protocols.views import Views
from tidings.protocols.views.packets import Decided, View, as_many_as_fit
from tidings.simulator import World, choices
from tidings.simulator.play import until_quiet

MEMBERS = ("p1", "p2", "p3")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_who_comes_back_in_a_view_before_the_others_install_it_goes_on(size: int) -> None:
    """It has decided alone; the links came up while the others were not there yet."""
    names = tuple(f"p{number}" for number in range(1, size + 1))
    world = World("late", names, partial(Views, batch_ms=0))
    _calm(world)
    change = ("p1", "", names[-1]) if size > 2 else ("p1", f"p{size + 1}", "")
    world.apply(choices.ChangeRequest(*change))
    while world.processes["p1"].number < 1:
        world.apply(next(c for c in world.choices() if isinstance(c, choices.PacketArrival)))
    unheard = tuple(one for one in world.in_flight if one.link.sender == "p1")
    world.apply(choices.Crash("p1", unheard))
    world.apply(choices.Recover("p1"))
    _calm(world)
    assert {world.processes[name].number for name in world.up} == {1}
    assert world.processes["p1"].why_not() == ""


def _calm(world: World) -> None:
    for choice in until_quiet(world):
        world.apply(choice)


class Group:
    """Processes, links that are cut and made again, and everything that arrives in order."""

    def __init__(self) -> None:
        self.processes: dict[str, Views] = {}
        self.incarnations: dict[str, int] = {}
        self.links: set[frozenset[str]] = set()
        self.under_way: list[tuple[str, str, Packet]] = []
        self.effects: dict[str, list[Effect]] = {}

    def start(self, name: str, incarnation: int, *, joining: bool = False) -> None:
        members = (*MEMBERS, name) if joining else MEMBERS
        self.processes[name] = Views(name, members, batch_ms=0)
        self.incarnations[name] = incarnation
        self.effects[name] = []
        self.hand(name, Start(incarnation, None, founding=not joining, joining=joining))

    def hand(self, name: str, event: Event) -> None:
        if any(isinstance(one, Halt) for one in self.effects[name]):
            return
        for effect in self.processes[name].step(event):
            self.effects[name].append(effect)
            if isinstance(effect, Send):
                linked = [one for one in effect.to if frozenset((name, one)) in self.links]
                self.under_way += [(name, one, effect.packet) for one in linked]

    def link(self, one: str, other: str) -> None:
        self.links.add(frozenset((one, other)))
        self.hand(one, LinkUp(other, self.incarnations[other]))
        self.hand(other, LinkUp(one, self.incarnations[one]))

    def cut(self, one: str, other: str) -> None:
        self.links.discard(frozenset((one, other)))
        self.under_way = [each for each in self.under_way if {one, other} != {*each[:2]}]
        self.hand(one, LinkDown(other))
        self.hand(other, LinkDown(one))

    def calm(self, rounds: int = 8) -> None:
        """Everything arrives, and every timer runs out so many times."""
        for _ in range(rounds):
            while self.under_way:
                sender, to, packet = self.under_way.pop(0)
                self.hand(to, Receive(sender, packet))
            for name in self.processes:
                self.hand(name, Timeout("change"))

    def of(self, name: str, kind: type[Effect]) -> list[Effect]:
        return [one for one in self.effects[name] if isinstance(one, kind)]


def test_a_newcomer_without_its_disk_is_refused_by_those_who_never_met_it_before() -> None:
    """p1 and p4 are half of four, and p4 forgets what it held; p2 and p3 must not count it."""
    group = Group()
    for number, name in enumerate(MEMBERS, 11):
        group.start(name, number)
    for pair in combinations(MEMBERS, 2):
        group.link(*pair)
    group.start("p4", 14, joining=True)
    group.link("p1", "p4")
    group.calm()
    group.hand("p1", Change("p4", "", "h:1"))
    group.calm()
    assert group.processes["p4"].number == 1
    for name in ("p2", "p3"):
        group.cut("p1", name)
    group.hand("p1", Broadcast((b"hello",)))
    group.calm()
    assert group.of("p1", Deliver)

    group.cut("p1", "p4")
    group.start("p4", 99, joining=True)
    for name in ("p2", "p3"):
        group.link("p4", name)
    group.calm()
    (halted,) = group.of("p4", Halt)
    assert "p4 lost its disk" in str(halted)
    group.hand("p2", Change("", "p1"))
    group.calm()
    assert group.of("p2", Deny)
    assert {group.processes[name].number for name in MEMBERS} == {1}


@pytest.mark.parametrize("limit", ["window", "log_limit"])
def test_what_was_accepted_is_carried_over_whatever_the_limit_is_now(limit: str) -> None:
    disk: list[object] = []

    def stepped(process: Views, event: Event) -> list[Effect]:
        effects = process.step(event)
        disk.extend(one for each in effects if isinstance(each, Persist) for one in each.records)
        return effects

    process = Views("p1", MEMBERS, batch_ms=0, **{limit: 10})  # type: ignore[arg-type]
    stepped(process, Start(1, None, founding=True))
    stepped(process, Broadcast((b"text",) * 8))
    process = Views("p1", MEMBERS, batch_ms=0, **{limit: 5})  # type: ignore[arg-type]
    stepped(process, Start(1, tuple(disk)))
    nothing = tuple(MessageId(name, 0) for name in MEMBERS)
    effects = stepped(process, Receive("p2", Decided((View(1, MEMBERS, nothing),), 1, 1)))
    assert Rebind((Span("p1", 1, 8),)) in effects


def test_a_packet_about_views_is_short_enough_to_be_read() -> None:
    """With names and addresses as long as those of containers."""
    views = tuple(_long_chain(3_000))
    known, codec = 0, Codec(Views, None, Limits())
    while known < len(views) - 1:
        some = as_many_as_fit(views[known + 1 :], 10_000, 256 * 1024)
        packet = Decided(some, len(views) - 1, len(views) - 1)
        came = codec.decode(1, memoryview(msgspec.msgpack.encode(packet)), "p1")
        assert came.packet == packet
        known = some[-1].number
    assert as_many_as_fit(views, 10_000, 1) == views[:1]


def _long_chain(count: int) -> Iterable[View]:
    names = [f"orders-eu-west-1-replica-{number:06}" for number in range(count + 3)]
    yield View(0, tuple(names[:3]))
    for number in range(1, count):
        cut = tuple(MessageId(name, 10**7) for name in names[number - 1 : number + 2])
        members = tuple(names[number : number + 3])
        address = f"{members[-1]}.orders.production.svc.cluster.local:7001"
        yield View(number, members, cut, members[-1], address, 2**62)
