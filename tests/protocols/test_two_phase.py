"""two-phase, the fourth algorithm: what its two phases say, what it costs, what it guarantees."""

import pytest

from random_runs import harsh, runs_that_hold
from steps import delivered, group_of, kept_after, stamped
from tidings.core import Broadcast, Deliver, MessageId, Receive, Send, take_first
from tidings.protocols.two_phase import Ack, Bcast, BcastDeliver, TwoPhase
from tidings.simulator import Plan, World, walk


def process(me: str, size: int) -> TwoPhase:
    return TwoPhase(me, group_of(size), take_first)


def sent(effects) -> list[tuple[str, tuple[str, ...]]]:
    return [(e.packet.kind, e.to) for e in effects if isinstance(e, Send)]


HELLO = stamped("p1#1", 0, 0, 0)
HELLO_OF_FIVE = stamped("p1#1", 0, 0, 0, 0, 0)


def test_one_process_alone_delivers_at_once() -> None:
    assert delivered(process("p1", 1).step(Broadcast((b"a", b"a", b"")))) == [
        "p1#1",
        "p1#2",
        "p1#3",
    ]


def test_of_two_the_origin_asks_and_releases_in_one_breath() -> None:
    effects = process("p1", 2).step(Broadcast((b"x",)))
    assert sent(effects) == [("bcast", ("p2",)), ("bcast-deliver", ("p2",))]
    assert delivered(effects) == ["p1#1"]


def test_the_origin_releases_once_when_half_hold_the_message() -> None:
    p1 = process("p1", 5)
    assert sent(p1.step(Broadcast((b"x",)))) == [("bcast", p1.others)]
    ack = Ack(MessageId("p1", 1))
    assert sent(p1.step(Receive("p2", ack))) == []
    assert sent(p1.step(Receive("p2", ack))) == [], "the same process counted twice"
    assert sent(p1.step(Receive("p4", ack))) == [("bcast-deliver", p1.others)]
    assert p1.step(Receive("p3", ack)) == [], "released twice"


def test_a_message_is_acknowledged_to_its_origin_and_only_once() -> None:
    p2 = process("p2", 3)
    assert sent(p2.step(Receive("p1", Bcast(HELLO)))) == [("ack", ("p1",))]
    assert p2.step(Receive("p1", Bcast(HELLO))) == []


def test_a_release_is_relayed_whether_or_not_the_message_came_before() -> None:
    asked, surprised = process("p2", 5), process("p3", 5)
    asked.step(Receive("p1", Bcast(HELLO_OF_FIVE)))
    for member in (asked, surprised):
        effects = member.step(Receive("p1", BcastDeliver(HELLO_OF_FIVE)))
        assert sent(effects) == [("bcast-deliver", member.others)]
    assert surprised.step(Receive("p1", Bcast(HELLO_OF_FIVE))) == [], "the origin knows enough"


def test_half_of_five_is_three_distinct_relayers() -> None:
    p2 = process("p2", 5)
    release = BcastDeliver(HELLO_OF_FIVE)
    assert delivered(p2.step(Receive("p1", release))) == []
    assert delivered(p2.step(Receive("p1", release))) == [], "the same relayer counted twice"
    assert delivered(p2.step(Receive("p4", release))) == ["p1#1"]


def test_the_relay_leaves_before_the_delivery() -> None:
    kinds = [type(e) for e in process("p2", 3).step(Receive("p1", BcastDeliver(HELLO)))]
    assert kinds.index(Send) < kinds.index(Deliver)


@pytest.mark.parametrize("late", [Bcast(HELLO), BcastDeliver(HELLO), Ack(HELLO.id)])
def test_what_comes_after_the_delivery_changes_nothing(late) -> None:
    p2 = process("p2", 3)
    assert delivered(p2.step(Receive("p1", BcastDeliver(HELLO)))) == ["p1#1"]
    before = p2.fingerprint()
    assert p2.step(Receive("p3", late)) == []
    assert p2.fingerprint() == before


def test_an_answer_waits_for_its_question() -> None:
    p3 = process("p3", 3)
    answer = stamped("p2#1", 1, 0, 0)
    assert delivered(p3.step(Receive("p2", BcastDeliver(answer)))) == []
    assert delivered(p3.step(Receive("p1", BcastDeliver(HELLO)))) == ["p1#1", "p2#1"]


def test_why_names_the_phase_and_what_is_missing_in_it() -> None:
    message = HELLO_OF_FIVE.id
    p1, p2 = process("p1", 5), process("p2", 5)
    p1.step(Broadcast((b"x",)))
    assert p1.why(message) == "p1#1 waits at p1 for 2 more of p2, p3, p4, p5 to acknowledge it"
    assert p2.why(message) == "p2 does not hold p1#1"
    p2.step(Receive("p1", Bcast(HELLO_OF_FIVE)))
    assert p2.why(message) == "p1#1 waits at p2 for p1 to say that enough processes hold it"
    p2.step(Receive("p3", BcastDeliver(HELLO_OF_FIVE)))
    assert p2.why(message) == (
        "p1#1 waits at p2 for 1 more of p1, p4, p5 to say that enough processes hold it"
    )
    p2.step(Receive("p1", BcastDeliver(HELLO_OF_FIVE)))
    assert p2.why(message) == "p2 has delivered p1#1"


@pytest.mark.parametrize(
    ("size", "packets"), [(1, 0), (2, 4), (3, 10), (5, 28), (10, 108), (20, 418), (50, 2548)]
)
def test_one_broadcast_costs_three_rounds_and_a_relay_of_the_last(size: int, packets: int) -> None:
    # Equal delays: a BCAST that a BCAST_DELIVER overtakes would save its acknowledgement.
    plan = Plan(processes=size, broadcasts=1, delay_ms_min=1, delay_ms_max=1)
    run = walk(plan, seed=1, factory=TwoPhase)
    assert sum(row.kind == "send" for row in run.rows) == packets == (size - 1) * (size + 2)


def test_four_delays_pass_until_everybody_has_delivered() -> None:
    plan = Plan(processes=5, broadcasts=1, delay_ms_min=1, delay_ms_max=1)
    rows = list(walk(plan, seed=1, factory=TwoPhase).rows)
    spoken = next(row.time_ns for row in rows if row.kind == "broadcast")
    took_ms = [(row.time_ns - spoken) / 1e6 for row in rows if row.kind == "deliver"]
    assert took_ms == [4, 4, 4, 4, 4]


def test_what_is_finished_is_forgotten() -> None:
    world = World("memory", group_of(5), TwoPhase)
    early, late = kept_after(world, 50), kept_after(world, 450)
    assert world.processes["p1"].delivered == dict.fromkeys(world.up, 500)
    assert early == late
    assert all(one["ids"] == one["texts"] == 0 for one in early)


@pytest.mark.parametrize("size", range(1, 8))
def test_the_guarantees_hold_in_random_runs_with_every_fault(size: int) -> None:
    plan = harsh(size, texts=(b"", b"same", b"same"))
    assert len(list(runs_that_hold(plan, range(60), TwoPhase))) == 60
