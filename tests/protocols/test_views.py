"""Groups that change: random runs, explorations, and what each rule is there for.

The conversations of tests/scenarios/views-*.txt show the rules one by one.
"""

from collections.abc import Iterator
from functools import partial
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

import views_flaws
from tidings.core import (
    Approve,
    Broadcast,
    Change,
    Deny,
    Effect,
    Event,
    Halt,
    LinkDown,
    LinkUp,
    MessageId,
    Packet,
    Persist,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    Span,
    Start,
    Timeout,
    UsageError,
)
from tidings.explore import ALL, Reduction, Scope, explore
from tidings.explore.expand import Explorer
from tidings.explore.reactions import NotInertError
from tidings.guests.diagnosis import ProcessFault
from tidings.protocols.frontier.packets import Batch, Counts, Data, Holding, Pull, Push, Refusal
from tidings.protocols.views import Views
from tidings.protocols.views.packets import (
    Accepted,
    Ballot,
    Behind,
    Canvass,
    Decided,
    InView,
    Prepare,
    Promise,
    Propose,
    Ready,
    View,
    Vote,
)
from tidings.protocols.views.patience import CHANGE, PATIENCE
from tidings.simulator import World, choices
from tidings.simulator.play import until_quiet
from tidings.simulator.script import Script
from tidings.spec import Extra, Guarantee, Value, broken, judge
from views_flaws import FLAWS
from views_runs import ChangingRun, hold_everything, what_is_wrong

VOID = 907
"""A seed of which the run has a message that nobody ever delivers: its origin was removed."""


def test_random_runs_hold_everything() -> None:
    happened = hold_everything([*range(300), VOID])
    rare = ("rival proposals", "dead proposers", "sleepers through two views", "rebound messages")
    limits = ("packets that had no room", "recall", "replay", "checkpoints")
    for what in (*rare, *limits, "void messages", "no change", "newcomers", "left", "denied"):
        assert happened[what] > 0, f"no {what} in these runs"


# --- every order

SCOPES = {
    "one adds another": Scope(processes=1, broadcasts=1, changes=("p1 add p2",)),
    "one removes the other": Scope(processes=2, broadcasts=1, changes=("p1 remove p2",)),
    "one removes itself": Scope(processes=2, broadcasts=1, changes=("p1 remove p1",)),
    "a third one": Scope(processes=2, broadcasts=1, changes=("p1 add p3",)),
    "two rivals": Scope(processes=2, broadcasts=0, changes=("p1 remove p2", "p2 remove p1")),
    "one of three leaves": Scope(processes=3, broadcasts=0, changes=("p1 remove p3",)),
}


@pytest.mark.parametrize("name", SCOPES)
def test_small_groups_change_in_every_order(name: str) -> None:
    explored = explore(in_full(SCOPES[name]), workers=1)
    assert explored.cut == ""
    assert Extra.VIEWS in explored.properties
    assert {explored.verdict(what) for what in explored.properties} == {Value.HOLDS}
    assert (explored.pace.owed > 0) is (SCOPES[name].broadcasts > 0)


def in_full(scope: Scope, protocol: str = "views") -> Scope:
    usual: dict[str, Any] = {"options": {"batch_ms": 0}, "early_timeouts": 0}
    return msgspec.structs.replace(scope, protocol=protocol, **usual)


ENDS = {
    "two": Scope(processes=2, broadcasts=1, changes=("p1 remove p2",)),
    "two, and a crash": Scope(
        processes=3, broadcasts=0, crashes=1, changes=("p1 remove p3",), in_order=True
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_no_reduction_loses_a_way_in_which_a_changing_group_ends(name: str) -> None:
    whole = ends(in_full(ENDS[name]), frozenset())
    assert len(whole) > 3
    for reductions in (*(frozenset({one}) for one in ALL), frozenset(ALL)):
        assert ends(in_full(ENDS[name]), reductions) == whole


End = tuple[frozenset[str], tuple[tuple[str, int, object], ...]]
"""Who crashed or has left, who delivered what, and who is in which view."""


def ends(scope: Scope, reductions: frozenset[Reduction]) -> set[End]:
    lively: frozenset[str] = frozenset()
    while True:
        try:
            return set(each_end(Explorer(scope, reductions, lively)))
        except NotInertError as mistake:
            lively |= {mistake.kind}


def each_end(explorer: Explorer) -> Iterator[End]:
    seen: set[int] = set()
    waiting = list(explorer.first())
    while waiting:
        branch = waiting.pop()
        number = explorer.signatures.number(branch.total())
        if number not in seen:
            seen.add(number)
            waiting += explorer.following(branch)
            if explorer.is_settled(branch):
                up = (one for one in branch.everybody if one in branch.processes)
                members = ((one, branch.delivered[one], branch.view_of(one)) for one in up)
                yield frozenset((*branch.crashed, *branch.left)), tuple(members)


def test_an_exploration_needs_a_group_that_can_change() -> None:
    with pytest.raises(UsageError, match="frontier has a fixed group; nobody can change it"):
        explore(Scope(protocol="frontier", changes=("p1 remove p2",)), workers=1)
    with pytest.raises(UsageError, match="write a change as p1 add p4"):
        explore(Scope(protocol="views", changes=("p1 drop p2",)), workers=1)


# --- what each rule is there for


def flawed(kind: type[Views]) -> str:
    return f"{views_flaws.__file__}:{kind.__name__}"


EXPLORED = {
    views_flaws.StartingAbove: ("one adds another", Guarantee.UNIFORM_AGREEMENT),
    views_flaws.GoingOn: ("one removes the other", Extra.VIEWS),
    views_flaws.DecidingByQuorum: ("two rivals", Extra.VIEWS),
}


@pytest.mark.parametrize("kind", EXPLORED, ids=lambda kind: kind.__name__)
def test_exploring_finds_the_flaw(kind: type[Views]) -> None:
    name, what = EXPLORED[kind]
    assert what in explore(in_full(SCOPES[name], flawed(kind)), workers=1).found


SEEDS: dict[type[Views], int] = {
    views_flaws.NotWedging: 10,
    views_flaws.ForgettingPromises: 68,
    views_flaws.DroppingEarly: 101,
    views_flaws.ReusingNames: 294,
    views_flaws.LosingWhatIsAhead: 198,
}


@pytest.mark.parametrize("kind", SEEDS, ids=lambda kind: kind.__name__)
def test_a_random_run_finds_the_flaw(kind: type[Views]) -> None:
    assert is_wrong(SEEDS[kind], kind)
    assert not is_wrong(SEEDS[kind], Views)


def is_wrong(seed: int, kind: type[Views]) -> bool:
    try:
        return bool(what_is_wrong(ChangingRun(seed, kind).play()))
    except ProcessFault as fault:
        # It delivered more than the cut, and knows it.
        return "and the cut is" in str(fault)


FOUR_DECIDE = """
    group p1 p2 p3 p4
    change p1 remove p4
    change p3 remove p1
    receive p1->p2 canvass
    receive p3->p4 canvass
    receive p2->p1 ready
    receive p4->p3 ready
    receive p1->p2 prepare
    receive p3->p4 prepare
    receive p2->p1 promise
    receive p4->p3 promise
    receive p1->p2 propose
    receive p3->p4 propose
    receive p2->p1 accepted
    receive p4->p3 accepted
    """

LATE_WORD = """
    group p1 p2 p3 p4 p5
    broadcast p1 hello
    receive p1->p2 data
    change p3 remove p5
    receive p3->p4 canvass
    receive p3->p5 canvass
    receive p4->p3 ready
    receive p5->p3 ready
    receive p3->p4 prepare
    receive p3->p5 prepare
    receive p4->p3 promise
    receive p5->p3 promise
    receive p3->p4 propose
    receive p3->p5 propose
    receive p4->p3 accepted
    receive p5->p3 accepted
    receive p3->p1 decided
    receive p2->p1 holding
    crash p1
    """

ONE_HOLDER = """
    group p1 p2 p3 p4 p5
    broadcast p1 hello
    receive p1->p2
    change p2 remove p5
    receive p2->p3 canvass
    receive p2->p4 canvass
    receive p3->p2 ready
    receive p4->p2 ready
    receive p2->p3 prepare
    receive p2->p4 prepare
    receive p3->p2 promise
    receive p4->p2 promise
    receive p2->p3 propose
    receive p2->p4 propose
    receive p3->p2 accepted
    receive p4->p2 accepted
    crash p1
    crash p2
    """


def played(scene: str, protocol: str) -> Script:
    """Play what is possible of it, and let everything happen that then happens by itself."""
    script = Script("scene")
    first, *rest = [line.strip() for line in scene.strip().splitlines()]
    script.command(first)
    script.command(f"protocol {protocol} batch_ms=0")
    for line in rest:
        try:
            script.command(line)
        except UsageError as reason:
            if "nothing in flight fits" not in str(reason):
                raise
    for choice in islice(until_quiet(script.world), 1_000):
        script.rows += script.world.apply(choice, script.time_ns)
    script.rows += script.world.apply(choices.Settle(), script.time_ns)
    return script


def test_half_of_four_must_not_decide() -> None:
    assert broken(played(FOUR_DECIDE, flawed(views_flaws.DecidingByQuorum)).run(), Extra.VIEWS)
    sound = played(FOUR_DECIDE, "views").run()
    assert all(verdict.value is Value.HOLDS for verdict in judge(sound))


SCENES = {
    views_flaws.AcceptingWithoutTheCut: ONE_HOLDER,
    views_flaws.CountingAcrossViews: LATE_WORD,
}


@pytest.mark.parametrize("kind", SCENES, ids=lambda kind: kind.__name__)
def test_a_scene_shows_the_flaw(kind: type[Views]) -> None:
    """A cut that nobody can fetch any more; an acknowledgement that comes a view too late."""
    verdicts = judge(played(SCENES[kind], flawed(kind)).run())
    violated = {one.guarantee for one in verdicts if one.value is Value.VIOLATED}
    assert violated == {Guarantee.UNIFORM_AGREEMENT}
    sound = played(SCENES[kind], "views").run()
    assert all(verdict.value is Value.HOLDS for verdict in judge(sound))


@pytest.mark.parametrize("size", [2, 4])
def test_a_change_that_cannot_be_done_must_not_stop_the_group(size: int) -> None:
    names = [f"p{number}" for number in range(1, size + 1)]
    down = names[size // 2 :]
    scene = "\n".join(
        (
            f"group {' '.join(names)}",
            *(f"crash {name}" for name in down),
            f"change p1 remove {down[-1]}",
            *("receive p1->p2 canvass", "receive p2->p1 ready")[: 2 * (size > 2)],
        )
    )
    for protocol, goes_on in (("views", True), (flawed(views_flaws.NotCanvassing), False)):
        world = played(scene, protocol).world
        rows = world.apply(choices.UserBroadcast("p1", b"hello"))
        for choice in islice(until_quiet(world), 1_000):
            rows += world.apply(choice)
        assert any(row.kind == "deliver" for row in rows) is goes_on, protocol


def test_every_flaw_is_found() -> None:
    others = [views_flaws.NotCanvassing, views_flaws.AddingManyWithoutState]
    assert {*EXPLORED, *SEEDS, *SCENES, *others, views_flaws.LookingOnce} == {*FLAWS}


def test_the_guide_names_every_option() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "views.md").read_text(encoding="utf-8")
    for option in list(signature(Views).parameters)[3:]:
        assert f"`{option}`" in guide


# --- what is refused


@pytest.fixture
def member() -> Views:
    process = Views("p1", ("p1", "p2", "p3"))
    process.step(Start())
    return process


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(), "there is nothing to change"),
        (Change(remove="p9"), "p9 is not a member"),
        (Change(add="p4", address="x" * 301), "an address has 300 characters at most"),
        (Change(add="p4+0"), "'p4+0' is not a name"),
        (Change(add="p2"), "p2 was a member in view 0; it needs another name"),
        (Change(add="p3", remove="p3"), "p3 was a member in view 0; it needs another name"),
    ],
)
def test_a_senseless_change_is_denied(member: Views, change: Change, reason: str) -> None:
    assert member.step(change) == [Deny(change, reason)]


@pytest.mark.parametrize(
    ("meanwhile", "counts"),
    [
        (Timeout(CHANGE), True),
        (LinkDown("p3"), True),
        (LinkDown("p2"), False),
        (Broadcast((b"far", b"away")), False),
    ],
    ids=str,
)
def test_a_late_answer_counts_when_the_same_is_asked_again(meanwhile: Event, counts: bool) -> None:
    """It may take as long as two commits; without that, a slow group could never change.

    But a majority has to be there, and near: so somebody else may have to answer again.
    """
    member, change = Views("p1", ("p1", "p2", "p3"), near=1), Change(remove="p3")
    member.step(Start())
    assert not any(isinstance(one, Deny) for one in member.step(change))
    denied = Deny(change, "1 of 3 members are ready, and 2 must be")
    assert member.step(Timeout(CHANGE)) == [denied]
    for event in (Receive("p2", Ready(1, 0, held=(0, 0, 0))), meanwhile):
        assert not prepared(member.step(event))
    assert prepared(member.step(change)) is counts


def test_a_member_that_does_not_say_what_it_holds_has_not_answered(member: Views) -> None:
    """Only a newcomer has nothing to say; on the wire, nobody knows who is one."""
    member.step(Change(remove="p3"))
    assert member.step(Receive("p2", Ready(1, 0))) == []
    assert prepared(member.step(Receive("p2", Ready(1, 0, held=(0, 0, 0)))))


def test_whose_link_goes_down_has_not_answered() -> None:
    """It may be gone; and without a majority, nobody may promise anything."""
    member = Views("p1", ("p1", "p2", "p3", "p4", "p5"))
    member.step(Start())
    member.step(Change(remove="p5"))
    for event in (Receive("p2", ready := Ready(1, 0, held=(0,) * 5)), LinkDown("p2")):
        member.step(event)
    assert not prepared(member.step(Receive("p3", ready)))
    assert prepared(member.step(Receive("p4", ready)))


def prepared(effects: list[Effect]) -> bool:
    return any(isinstance(one, Send) and isinstance(one.packet, Prepare) for one in effects)


def test_one_change_at_a_time(member: Views) -> None:
    member.step(Change(remove="p3"))
    (denied,) = member.step(Change(remove="p2"))
    assert denied == Deny(Change(remove="p2"), "p1 is about to remove p3")


def test_a_member_that_may_have_lost_its_disk_proposes_nothing() -> None:
    """As an acceptor it says nothing either: it may have promised something before."""
    member = Views("p1", ("p1", "p2", "p3"))
    member.step(Start(5))
    change = Change(remove="p3")
    reason = "p1 starts with nothing and has yet to meet p2, p3"
    assert member.step(change) == [Deny(change, reason)]
    assert not member.step(Receive("p2", Prepare(1, Ballot(1, "p2"))))


def test_the_last_member_cannot_be_removed() -> None:
    alone = Views("p1", ("p1",))
    alone.step(Start())
    (denied,) = alone.step(Change(remove="p1"))
    assert isinstance(denied, Deny)
    assert denied.reason == "a group has 1 to 1,000 members"


def changed(world: World, process: str, change: Change) -> list[Effect]:
    """Ask for it, let everything happen that then happens by itself, and say what came of it."""
    seen: list[Effect] = []
    world.watch = lambda _, one: seen.append(one) if isinstance(one, Approve | Deny) else None
    world.apply(choices.ChangeRequest(process, change.add, change.remove))
    for choice in islice(until_quiet(world), 1_000):
        world.apply(choice)
    return seen


def test_rivals_whose_wishes_lose_go_on_one_after_the_other() -> None:
    """Each of three promises a ballot of its own, and p1, which has no wish, ends that.

    If they began together after that, too, this would go on for ever.
    """
    members = ("p1", "p2", "p3", "p4")
    world = World("rivals", members, Views)
    for number, rival in enumerate(members[1:], start=5):
        world.apply(choices.ChangeRequest(rival, f"p{number}", ""))
    for choice in islice(until_quiet(world), 2_000):
        world.apply(choice)
    p1 = world.processes["p1"]
    assert isinstance(p1, Views)
    assert p1.chain[1].members == members, "nobody's wish came first"
    assert {f"p{number}" for number in range(1, 8)} == {*p1.members}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_one_newcomer_at_a_time_has_no_state(is_restarted: bool) -> None:
    world = World("states", ("p1", "p2"), Views, slow_newcomers=True)
    world.apply(choices.UserBroadcast("p1", b"before"))
    third, fourth = Change("p3"), Change("p4")
    assert changed(world, "p1", third) == [Approve(third)]
    reason = "p3, which was added last, is not known to have its state yet"
    assert changed(world, "p2", fourth) == [Deny(fourth, reason)]
    world.apply(choices.UserProcessed("p3", (MessageId("p2", 0),)))
    assert changed(world, "p3", fourth) == [Deny(fourth, reason)]
    world.apply(choices.UserProcessed("p3", (MessageId("p1", 1), MessageId("p2", 0))))
    if is_restarted:
        world.apply(choices.Crash("p3"))
        world.apply(choices.Recover("p3"))
    assert changed(world, "p2", fourth) == [Approve(fourth)]


def test_a_newcomer_that_is_lost_before_it_has_its_state_can_be_replaced() -> None:
    world = World("states", ("p1", "p2"), Views, slow_newcomers=True)
    world.apply(choices.UserBroadcast("p1", b"before"))
    third, instead, fourth = Change("p3"), Change("p3+1", "p3"), Change("p4")
    assert changed(world, "p1", third) == [Approve(third)]
    world.apply(choices.Crash("p3"))
    assert changed(world, "p2", instead) == [Approve(instead)]
    reason = "p3+1, which was added last, is not known to have its state yet"
    assert changed(world, "p2", fourth) == [Deny(fourth, reason)]


def test_without_that_rule_two_may_wait_for_each_others_state() -> None:
    kind = views_flaws.AddingManyWithoutState
    world = World("states", ("p1", "p2"), kind, slow_newcomers=True)
    for add in ("p3", "p4"):
        assert changed(world, "p1", Change(add)) == [Approve(Change(add))]
    (third, fourth) = (one for one in world.processes.values() if one.me in ("p3", "p4"))
    assert isinstance(third, Views)
    assert isinstance(fourth, Views)
    assert not third.processing.has_state
    assert not fourth.processing.has_state


def test_what_a_snapshot_is_ahead_of_is_processed_when_it_is_delivered() -> None:
    world = World("ahead", ("p1", "p2"), partial(Views, until_processed=True), slow_newcomers=True)
    changed(world, "p1", Change("p3"))
    for text in (b"in the snapshot", b"after it"):
        world.apply(choices.UserBroadcast("p1", text))
    world.apply(choices.UserProcessed("p3", (MessageId("p1", 1), MessageId("p2", 0))))
    for choice in until_quiet(world):
        world.apply(choice)
    replayed: list[Replay] = []
    world.watch = lambda _, one: replayed.append(one) if isinstance(one, Replay) else None
    world.apply(choices.Crash("p3"))
    world.apply(choices.Recover("p3"))
    nothing = {"p2": 0, "p3": 0}
    assert replayed == [Replay({"p1": 1} | nothing, {"p1": 2} | nothing)]


def test_a_newcomer_that_is_removed_before_it_has_its_state_stops() -> None:
    kind = partial(Views, until_processed=True)
    world = World("states", ("p1", "p2"), kind, slow_newcomers=True)
    changed(world, "p1", Change("p3"))
    world.apply(choices.UserBroadcast("p1", b"hello"))
    assert changed(world, "p1", Change(remove="p3")) == [Approve(Change(remove="p3"))]
    newcomer = world.processes["p3"]
    assert isinstance(newcomer, Views)
    assert newcomer.standing.has_stopped


def test_a_change_that_adds_nobody_waits_for_no_state() -> None:
    world = World("states", ("p1", "p2"), Views, slow_newcomers=True)
    assert changed(world, "p1", Change("p3")) == [Approve(Change("p3"))]
    assert changed(world, "p1", Change(remove="p3")) == [Approve(Change(remove="p3"))]
    assert changed(world, "p1", Change("p4")) == [Approve(Change("p4"))]


def test_the_last_member_that_has_the_state_stays() -> None:
    world = World("states", ("p1",), Views, slow_newcomers=True)
    world.apply(choices.UserBroadcast("p1", b"before"))
    gone, instead = Change(remove="p1"), Change("p1+1", "p1")
    reason = "nobody but p1 is known to have the state of the group"
    assert changed(world, "p1", instead) == [Deny(instead, reason)]
    assert changed(world, "p1", Change("p2")) == [Approve(Change("p2"))]
    assert changed(world, "p2", gone) == [Deny(gone, reason)]
    world.apply(choices.UserProcessed("p2", (MessageId("p1", 1),)))
    assert changed(world, "p2", gone) == [Approve(gone)]


@pytest.mark.parametrize("is_wedged", [False, True])
def test_a_newcomer_that_comes_back_without_its_disk_is_refused(is_wedged: bool) -> None:
    """A member that is wedged refuses it, too: it may have forgotten what it promised."""
    alone = Views("p1", ("p1",))
    alone.step(Start(5))
    alone.step(LinkUp("p2", 7))
    alone.step(Change("p2"))
    alone.step(Receive("p2", Ready(1, 0)))
    assert alone.number == 1
    if is_wedged:
        alone.step(Receive("p2", Prepare(2, Ballot(1, "p2"))))
    assert alone.is_wedged is is_wedged
    (refused,) = [one for one in alone.step(LinkUp("p2", 8)) if isinstance(one, Send)]
    assert refused == Send(("p2",), InView(1, Refusal("p2", 8, "lost disk")))
    assert alone.step(Receive("p2", Behind(-1))) == []
    assert not any(isinstance(one, Reject) for one in alone.step(LinkUp("p2", 7)))
    assert alone.step(Receive("p2", Behind(-1))), "that is the true p2"
    again = Views("p2", ("p1", "p2"))
    again.step(Start(8, joining=True))
    (halted,) = again.step(Receive("p1", refused.packet))
    assert isinstance(halted, Halt)


def test_a_newcomer_counts_nobody_who_is_ready() -> None:
    """It asks nobody, and knows no group in which such an answer could make sense."""
    newcomer = Views("p4", ("p1", "p2", "p3"))
    newcomer.step(Start(joining=True))
    assert newcomer.step(Receive("p1", Ready(0, 0, 0, (0, 0, 0)))) == []


def test_on_lossy_links_a_member_asks_who_has_what_is_missing_in_a_cut() -> None:
    """It has heard of the view from one that lacks the same; what the others said was lost."""
    three = ("p1", "p2", "p3")
    member = Views("p3", three)
    member.step(Start(lossy=True, founding=True))
    view = View(1, three, (MessageId("p1", 1), MessageId("p2", 0), MessageId("p3", 0)))
    member.step(Receive("p2", Decided((view,), 0, 1)))
    assert Send(("p1", "p2"), Behind(0)) in member.step(Timeout("change"))
    answered = member.step(Receive("p1", Decided((view,), 1, 1)))
    assert Send(("p1",), InView(0, Pull((Span("p1", 1, 1),)))) in answered
    again = member.step(Timeout("change"))
    assert not any(isinstance(one, Send) and one.packet == Behind(0) for one in again)


def test_a_replacement_has_a_name_that_nobody_had(member: Views) -> None:
    assert member.replacement_of("p2") == "p2+1"
    world = World("names", ("p1", "p2"), Views)
    for add, remove in (("p2+1", "p2"), ("p2+2", "p2+1"), ("p3", "p2+2")):
        assert changed(world, "p1", Change(add, remove)) == [Approve(Change(add, remove))]
    world.apply(choices.UserBroadcast("p1", b"hello"))
    (first,) = (one for one in [world.processes["p1"]] if isinstance(one, Views))
    assert [view.members[1] for view in first.chain] == ["p2", "p2+1", "p2+2", "p3"]
    assert first.replacement_of("p2+1") == "p2+3"
    assert first.replacement_of("p1") == "p1+1"


def test_the_address_of_a_newcomer_is_kept_with_its_view() -> None:
    alone = Views("p1", ("p1",))
    founded = alone.step(Start())
    alone.step(Change("p2", address="example:7001"))
    added = alone.step(Receive("p2", Ready(1, 0)))
    (sent,) = [one.packet for one in added if isinstance(one, Send)]
    assert isinstance(sent, Decided)
    assert sent.views[-1].address == "example:7001"
    written = [one for step in (founded, added) for one in step if isinstance(one, Persist)]
    again = Views("p1", ("p1",))
    again.step(Start(recovered=tuple(record for one in written for record in one.records)))
    assert again.chain == alone.chain


def of_p2(number: int, packet: Packet) -> Receive:
    return Receive("p2", InView(number, packet))  # type: ignore[arg-type]


def data(first: int, *texts: bytes) -> Data:
    return Data(Batch(MessageId("p2", first), texts))


def test_from_packets_that_come_together_a_member_concludes_once(member: Views) -> None:
    together = [of_p2(0, data(seq, b"hello")) for seq in (1, 2, 3)]
    (sent,) = [one for one in member.steps(together) if isinstance(one, Send)]
    assert sent.packet == InView(0, Holding(Counts(some=(MessageId("p2", 3),))))


@pytest.mark.parametrize("kind", [Views, views_flaws.LookingOnce])
def test_what_comes_together_with_a_promise_counts_before_it_or_not_at_all(
    kind: type[Views],
) -> None:
    member = kind("p1", ("p1", "p2", "p3"))
    member.step(Start())
    prepare = Receive("p3", Prepare(1, Ballot(1, "p3")))
    before, after = of_p2(0, data(1, b"before")), of_p2(0, data(2, b"after"))
    sent = [one.packet for one in member.steps([before, prepare, after]) if isinstance(one, Send)]
    acknowledged, promised, *more = sent
    assert acknowledged == InView(0, Holding(Counts(some=(MessageId("p2", 1),))))
    assert promised == Promise(1, Ballot(1, "p3"), (0, 1, 0))
    assert member.current.log.held["p2"] == 2
    assert bool(more) is (kind is views_flaws.LookingOnce)


def test_those_that_are_wedged_try_again_while_half_of_the_group_goes_on() -> None:
    """Nobody has heard p1 ask for promises but p2; p3 and p4 can deliver without the two."""
    members = ("p1", "p2", "p3", "p4")
    wedged = Views("p2", members)
    wedged.step(Start())
    wedged.step(Receive("p1", Prepare(1, Ballot(1, "p1"))))
    sent: list[Packet] = []
    for seq in range(1, 6):
        more = Data(Batch(MessageId("p3", seq), (b"on and on",)))
        for event in (Receive("p3", InView(0, more)), Timeout(CHANGE)):
            sent += [one.packet for one in wedged.step(event) if isinstance(one, Send)]
    assert Canvass(1, 1) in sent


def times_until_it_asks(wedged: Views, *first: Event) -> int:
    """How often the timer runs out, each time after this, before the member asks the others."""
    for times in range(1, 100):
        sent = [one for event in (*first, Timeout(CHANGE)) for one in wedged.step(event)]
        if any(isinstance(one, Send) and isinstance(one.packet, Canvass) for one in sent):
            return times
    raise AssertionError("it asks nobody")


def wedged_member(rounds: int) -> Views:
    member = Views("p2", ("p1", "p2", "p3", "p4"))
    member.step(Start())
    member.step(Receive("p3", Prepare(1, Ballot(rounds, "p3"))))
    return member


def test_answers_that_come_one_by_one_count_together() -> None:
    """Each comes between two other questions: links and disks may be slower than the timer."""
    members = ("p1", "p2", "p3", "p4", "p5")
    member = Views("p2", members)
    member.step(Start())
    member.step(Receive("p3", Prepare(1, Ballot(1, "p3"))))
    times_until_it_asks(member)
    assert not prepared(member.step(Receive("p4", Ready(1, 1, held=(0,) * 5))))
    member.step(Timeout(CHANGE))
    assert prepared(member.step(Receive("p5", Ready(1, 1, 1, held=(0,) * 5))))


def test_a_member_does_not_wait_for_ever_for_one_that_asks_and_gets_no_further() -> None:
    """p1 comes first, and is linked with nobody but p2: the others are a majority without it."""
    ask = Receive("p1", Canvass(1, 1))
    assert times_until_it_asks(wedged_member(1)) == PATIENCE + 1
    assert times_until_it_asks(wedged_member(1), ask) == PATIENCE + 2


@pytest.mark.parametrize(("rounds", "times"), [(1, 3), (2, 4), (3, 6), (10, 34)])
def test_after_ballots_that_came_to_nothing_a_member_waits_longer(rounds: int, times: int) -> None:
    """Where links and disks are slow, each ballot would end the one before, for ever."""
    assert times_until_it_asks(wedged_member(rounds)) == times


@pytest.mark.parametrize("is_linked", [True, False])
def test_who_was_removed_hears_of_later_views_while_it_is_linked(is_linked: bool) -> None:
    """It may wait for p1, which is removed now, and hear it from nobody else."""
    p3 = Views("p3", ("p1", "p2", "p3"))
    p3.step(Start())
    p3.step(LinkUp("p2", 1))
    if not is_linked:
        p3.step(LinkDown("p2"))
    nothing = {name: MessageId(name, 0) for name in p3.members}
    first = View(1, ("p1", "p3"), tuple(nothing.values()))
    p3.step(Receive("p1", Decided((first,), 1, 1)))
    assert (p3.number, dict(p3.formers.logs)) == (1, {})
    second = View(2, ("p3", "p4"), (nothing["p1"], nothing["p3"]), "p4")
    effects = p3.step(Receive("p1", Decided((second,), 1, 2)))
    assert p3.number == 2
    to_whom = [one.to for one in effects if isinstance(one, Send) and type(one.packet) is Decided]
    assert any("p2" in to for to in to_whom) is is_linked


def test_what_is_missing_in_a_cut_is_waited_for() -> None:
    """Whoever begins a new ballot before it has come makes everybody begin anew."""
    wedged = Views("p1", ("p1", "p2", "p3"))
    wedged.step(Start())
    cut = (MessageId("p1", 0), MessageId("p2", 5), MessageId("p3", 0))
    offer = Propose(Vote(Ballot(1, "p2"), View(1, ("p1", "p2"), cut)))
    wedged.step(Receive("p2", offer))
    sent: list[Packet] = []
    for seq in range(1, 6):
        push = Push((Batch(MessageId("p2", seq), (b"in the cut",)),))
        for event in (of_p2(0, push), Timeout(CHANGE), Timeout(CHANGE)):
            sent += [one.packet for one in wedged.step(event) if isinstance(one, Send)]
    assert Accepted(1, Ballot(1, "p2")) in sent
    assert not any(isinstance(one, Canvass) for one in sent)


def test_what_is_missing_is_asked_for_in_every_ballot() -> None:
    """The first answer was lost with a link, and the next ballot comes before the timer is over."""
    member = wedged_member(1)
    cut = (MessageId("p1", 0), MessageId("p2", 0), MessageId("p3", 1), MessageId("p4", 0))
    for rounds in (2, 3):
        member.step(Receive("p1", Prepare(1, Ballot(rounds, "p1"))))
        offer = Propose(Vote(Ballot(rounds, "p1"), View(1, ("p1", "p2", "p4"), cut)))
        (asked,) = [one for one in member.step(Receive("p1", offer)) if isinstance(one, Send)]
        assert asked == Send(("p1",), InView(0, Pull((Span("p3", 1, 1),))))


def test_a_message_waits_for_the_view_and_for_those_that_are_missing(member: Views) -> None:
    member.step(of_p2(0, data(1, b"hello")))
    assert member.missing() == ()
    member.step(Change(remove="p3"))
    assert member.missing() == ("p2", "p3")
    member.step(Receive("p2", Ready(1, 0, held=(0, 0, 0))))
    member.step(of_p2(0, data(2, b"later")))
    assert member.missing() == ("p2", "p3")
    assert member.why(MessageId("p2", 1)) == "p1 has delivered p2#1"
    why = "p2#2 waits at p1 for view 1; it has yet to hear from p2, p3"
    assert member.why(MessageId("p2", 2)) == why
    described = member.describe()
    assert described["view"] == "view 0 of p1 p2 p3"
    assert described["missing"] == ["p2", "p3"]
    assert described["waiting"] == [why]


def test_why_speaks_of_members_that_are_gone() -> None:
    world = World("gone", ("p1", "p2"), Views)
    world.apply(choices.UserBroadcast("p2", b"hello"))
    changed(world, "p1", Change("p3", "p2"))
    words = [world.processes[one].why(MessageId("p2", 1)) for one in ("p1", "p3")]
    assert words == ["p1 has delivered p2#1", "p2#1 was delivered before p3 came"]
    void = "p2#2 is void: p2 was removed in view 1 before it"
    assert world.processes["p1"].why(MessageId("p2", 2)) == void
    assert world.processes["p1"].why(MessageId("p9", 1)) == "p9 is not a member"


def test_views_that_are_over_count_for_the_limit_of_the_log() -> None:
    world = World("full", ("p1", "p2"), partial(Views, log_limit=2))
    world.apply(choices.UserBroadcast("p1", b"hello"))
    world.apply(choices.UserBroadcast("p1", b"hello"))
    world.apply(choices.Crash("p2"))
    member = world.processes["p1"]
    assert isinstance(member, Views)
    cut = (MessageId("p1", 2), MessageId("p2", 0))
    member.step(Receive("p2", Decided((View(1, ("p1", "p2"), cut),), 0, 1)))
    (refused,) = member.step(Broadcast((b"more",)))
    assert refused == Refuse("the log of p1 is full: it keeps 2 messages for p2")


def test_a_removed_member_stops_when_the_one_it_waits_for_is_removed_too() -> None:
    world = World("removed", ("p1", "p2", "p3", "p4", "p5"), Views)
    world.apply(choices.Crash("p4"))
    changed(world, "p1", Change(remove="p5"))
    member = world.processes["p5"]
    assert isinstance(member, Views)
    assert member.has_left
    assert not member.standing.has_stopped, "p4 may need what it keeps"
    changed(world, "p1", Change(remove="p4"))
    assert member.standing.has_stopped


def test_a_newcomer_waits_for_its_view() -> None:
    newcomer = Views("p4", ("p1", "p4"))
    newcomer.step(Start(joining=True))
    assert newcomer.step(Broadcast((b"hello",))) == [Refuse("p4 is not in the group yet")]
    (denied,) = newcomer.step(Change(add="p5"))
    assert denied == Deny(Change(add="p5"), "p4 is not in the group")


def test_a_member_that_missed_a_view_asks_for_it(member: Views) -> None:
    late = View(2, ("p1", "p2"), (), "")
    (asking,) = member.step(Receive("p2", Decided((late,), 2, 2)))
    assert asking.packet == Behind(0)
    assert member.number == 0


@pytest.mark.parametrize(
    ("change", "late"), [("remove p2", "p3"), ("remove p2", "p2"), ("add p4", "p4")]
)
def test_where_packets_get_lost_a_member_hears_of_a_view_with_the_next_packet(
    change: str, late: str
) -> None:
    """Nobody says twice that a view was decided: what comes later shows who has not heard it."""
    script = Script("lossy")
    for line in ("group p1 p2 p3", "protocol views", "links lossy", f"change p1 {change}"):
        script.command(line)
    world = script.world
    for choice in islice(until_quiet(world), 1_000):
        if isinstance(choice, choices.PacketArrival) and choice.packet.link.receiver == late:
            kind = world.in_flight[choice.packet].content.kind
            is_lost = kind in ("prepare", "propose", "decided")
            choice = choices.Drop(choice.packet) if is_lost else choice
        world.apply(choice)
    process = world.processes[late]
    assert isinstance(process, Views)
    assert process.number < 1
    world.apply(choices.UserBroadcast("p2" if late == "p2" else "p1", b"hello"))
    for choice in islice(until_quiet(world), 1_000):
        world.apply(choice)
    assert process.number == 1
    assert process.has_left == (late == "p2")
    assert late == "p2" or process.present.log.delivered["p1"] == 1
