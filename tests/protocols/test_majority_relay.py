"""majority-relay, the first algorithm: what it says, what it costs, what it guarantees."""

import msgspec
import pytest

from random_runs import harsh, runs_that_hold
from steps import delivered, group_of, stamped
from tidings.core import (
    Broadcast,
    Deliver,
    MessageId,
    Receive,
    Send,
    SetTimer,
    Timeout,
    take_first,
)
from tidings.protocols import factory
from tidings.protocols.holdback import Stamped
from tidings.protocols.majority_relay import (
    PULL_MS,
    RELAY_MS,
    Copy,
    Notice,
    RelayPull,
    RelayPush,
    RelayState,
)
from tidings.simulator import Plan, walk


def process(me: str, size: int):
    return factory("majority-relay")(me, group_of(size), take_first)


def copy_of(message: str, *causes: int) -> Copy:
    return Copy(stamped(message, *causes))


def test_one_process_alone_delivers_at_once() -> None:
    assert delivered(process("p1", 1).step(Broadcast((b"a", b"a")))) == ["p1#1", "p1#2"]


def test_the_relay_leaves_before_the_delivery() -> None:
    effects = process("p2", 3).step(Receive("p1", copy_of("p1#1", 0, 0, 0)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Send) < kinds.index(Deliver)


def test_half_of_five_is_three_distinct_relayers() -> None:
    p2 = process("p2", 5)
    copy = copy_of("p1#1", 0, 0, 0, 0, 0)
    assert delivered(p2.step(Receive("p1", copy))) == []
    assert delivered(p2.step(Receive("p1", copy))) == [], "the same relayer counted twice"
    assert delivered(p2.step(Receive("p4", copy))) == ["p1#1"]


def test_a_late_copy_is_not_relayed_again() -> None:
    p2 = process("p2", 3)
    copy = copy_of("p1#1", 0, 0, 0)
    p2.step(Receive("p1", copy))
    assert p2.step(Receive("p3", copy)) == []


def test_why_names_what_is_missing() -> None:
    p3 = process("p3", 5)
    p3.step(Receive("p2", copy_of("p2#2", 1, 0, 0, 0, 0)))
    spoken = p3.why(MessageId("p2", 2))
    assert "1 more of p1, p4, p5 to relay it" in spoken
    assert "p2#1 to be delivered first" in spoken
    assert "its cause p1#1" in spoken
    assert p3.why(MessageId("p9", 1)) == "p9 is not a member"
    assert p3.why(MessageId("p1", 1)) == "p3 does not hold p1#1"
    alone = process("p1", 1)
    alone.step(Broadcast((b"x",)))
    assert alone.why(MessageId("p1", 1)) == "p1 has delivered p1#1"


# --- the proposals


def with_options(me: str, size: int, **options: bool):
    members = tuple(f"p{number}" for number in range(1, size + 1))
    return factory("majority-relay", options)(me, members, take_first)


def sent(effects) -> list[tuple[str, tuple[str, ...]]]:
    return [(e.packet.kind, e.to) for e in effects if isinstance(e, Send)]


def relayed_by(message: str, *relayers: str, size: int = 3) -> Copy:
    return Copy(Stamped(MessageId.parse(message), b"x", (0,) * size), relayers)


def test_enough_relayers_make_a_notice_of_the_relay() -> None:
    p3 = with_options("p3", 3, notice=True)
    effects = p3.step(Receive("p2", relayed_by("p1#1", "p1", "p2")))
    assert sent(effects) == [("notice", ("p1", "p2"))]
    assert delivered(effects) == ["p1#1"]


def test_the_relayers_are_tested_before_one_counts_oneself() -> None:
    p2 = with_options("p2", 3, notice=True)
    effects = p2.step(Receive("p1", relayed_by("p1#1", "p1")))
    assert sent(effects) == [("copy", ("p1", "p3"))]


def test_a_notice_counts_before_the_text_has_come() -> None:
    p5 = with_options("p5", 5, notice=True)
    assert p5.step(Receive("p4", Notice(MessageId("p1", 1), ("p1", "p2", "p3")))) == []
    effects = p5.step(Receive("p1", relayed_by("p1#1", "p1", size=5)))
    assert sent(effects)[0][0] == "notice"
    assert delivered(effects) == ["p1#1"]


def test_a_postponed_relay_survives_delivery() -> None:
    members = ("p1", "p2", "p3")
    p3 = factory("majority-relay", {"postpone": True})("p3", members, lambda label, weights: 1)
    copy = Copy(Stamped(MessageId("p1", 1), b"x", (0, 0, 0)), age=1)
    assert p3.step(Receive("p1", copy))[-1] == SetTimer("relay p1#1", RELAY_MS)
    assert delivered(p3.step(Receive("p2", copy))) == ["p1#1"]
    assert sent(p3.step(Timeout("relay p1#1"))) == [], "a second tails"
    assert sent(p3.step(Timeout("relay p1#1"))) == [], "a third"
    assert sent(p3.step(Timeout("relay p1#1"))) == [("copy", ("p1", "p2"))]
    assert p3.describe()["postponed"] == p3.describe()["relayers"] == {}


def test_what_another_has_delivered_and_one_lacks_is_pulled() -> None:
    p1, p3 = with_options("p1", 3, pull=True), with_options("p3", 3, pull=True)
    p1.step(Broadcast((b"x",)))
    p1.step(Receive("p2", relayed_by("p1#1")))
    (state,) = p1.step(Timeout("state"))
    assert p3.step(Receive("p1", state.packet)) == [SetTimer("pull", PULL_MS)]
    (pull,) = p3.step(Timeout("pull"))
    assert pull == Send(("p1",), RelayPull((MessageId("p1", 1),)))
    (push,) = p1.step(Receive("p3", pull.packet))
    assert push.to == ("p3",)
    effects = p3.step(Receive("p1", push.packet))
    assert sent(effects) == [("copy", ("p1", "p2"))]
    assert delivered(effects) == ["p1#1"]


def test_what_a_peer_has_delivered_is_safe_here_too() -> None:
    p2 = with_options("p2", 5, pull=True)
    copy = msgspec.structs.replace(relayed_by("p1#1", size=5), delivered=(0, 0, 0, 0, 0))
    assert delivered(p2.step(Receive("p1", copy))) == [], "p1 only holds it"
    assert "1 more of p3, p4, p5 to relay it" in p2.why(MessageId("p1", 1))
    assert delivered(p2.step(Receive("p5", RelayState((1, 0, 0, 0, 0))))) == ["p1#1"]


def test_what_a_peer_has_delivered_waits_for_its_causes_alone() -> None:
    p3 = with_options("p3", 3, pull=True)
    p3.step(Receive("p1", RelayState((0, 1, 0))))
    answer = Stamped(MessageId("p2", 1), b"x", (1, 0, 0))
    assert delivered(p3.step(Receive("p1", RelayPush((answer,))))) == []
    assert p3.why(MessageId("p2", 1)) == "p2#1 waits at p3 for its cause p1#1"


def test_a_text_is_kept_until_every_vector_covers_it() -> None:
    p1 = with_options("p1", 3, pull=True)
    p1.step(Broadcast((b"x",)))
    p1.step(Receive("p2", relayed_by("p1#1")))
    assert list(p1.describe()["log"]) == ["p1#1"]
    p1.step(Receive("p2", RelayState((1, 0, 0))))
    assert list(p1.describe()["log"]) == ["p1#1"]
    p1.step(Receive("p3", RelayState((1, 0, 0))))
    assert p1.describe()["log"] == {}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10])
def test_one_broadcast_costs_a_packet_from_everyone_to_everyone(size: int) -> None:
    run = walk(Plan(processes=size, broadcasts=1), seed=1)
    assert sum(row.kind == "send" for row in run.rows) == size * (size - 1)


def test_what_is_delivered_is_forgotten() -> None:
    p1 = process("p1", 1)
    p1.step(Broadcast(tuple(b"x" for _ in range(50))))
    small = len(p1.fingerprint())
    p1.step(Broadcast(tuple(b"x" for _ in range(50))))
    assert len(p1.fingerprint()) == small


@pytest.mark.parametrize("size", range(1, 8))
def test_the_guarantees_hold_in_random_runs_with_every_fault(size: int) -> None:
    plan = harsh(size)
    assert plan.protocol == "majority-relay"
    assert len(list(runs_that_hold(plan, range(60)))) == 60
