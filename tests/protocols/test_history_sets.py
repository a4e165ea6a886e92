"""history-sets: every message names its past, in full."""

from collections import Counter

import pytest

from random_runs import harsh, runs_that_hold
from steps import delivered, group_of
from tidings.core import Broadcast, Deliver, MessageId, Receive, Send
from tidings.protocols.history_sets import CopyWithPast, HistorySets
from tidings.simulator import Plan, walk
from tidings.trace import Run


def process(me: str, size: int) -> HistorySets:
    return HistorySets(me, group_of(size))


def copy_of(message: str, *past: str) -> CopyWithPast:
    return CopyWithPast(MessageId.parse(message), b"x", tuple(map(MessageId.parse, past)))


def copies(effects) -> list[CopyWithPast]:
    return [e.packet for e in effects if isinstance(e, Send) and isinstance(e.packet, CopyWithPast)]


def test_one_process_alone_delivers_at_once() -> None:
    assert delivered(process("p1", 1).step(Broadcast((b"a", b"a")))) == ["p1#1", "p1#2"]


def test_a_message_names_what_its_origin_broadcast_and_what_it_delivered() -> None:
    p2 = process("p2", 3)
    p2.step(Broadcast((b"mine",)))
    p2.step(Receive("p1", copy_of("p1#1")))
    (copy,) = copies(p2.step(Broadcast((b"next",))))
    assert [str(one) for one in copy.past] == ["p1#1", "p2#1"]
    assert p2.why(MessageId("p2", 1)) == "p2#1 waits at p2 for 1 more of p1, p3 to hold it"


def test_half_of_five_is_three_distinct_holders() -> None:
    p2 = process("p2", 5)
    copy = copy_of("p1#1")
    assert delivered(p2.step(Receive("p1", copy))) == []
    assert delivered(p2.step(Receive("p1", copy))) == [], "the same holder counted twice"
    assert delivered(p2.step(Receive("p4", copy))) == ["p1#1"]


def test_the_origin_holds_its_message_though_its_own_copy_never_came() -> None:
    assert delivered(process("p2", 5).step(Receive("p4", copy_of("p1#1")))) == ["p1#1"]


def test_the_relay_leaves_before_the_delivery_and_only_once() -> None:
    p2 = process("p2", 3)
    kinds = [type(effect) for effect in p2.step(Receive("p1", copy_of("p1#1")))]
    assert kinds.index(Send) < kinds.index(Deliver)
    assert p2.step(Receive("p3", copy_of("p1#1"))) == []
    assert p2.step(Receive("p1", copy_of("p1#1"))) == []


def test_one_delivery_frees_a_whole_chain() -> None:
    p3 = process("p3", 3)
    assert delivered(p3.step(Receive("p2", copy_of("p2#2", "p1#1", "p2#1")))) == []
    assert delivered(p3.step(Receive("p2", copy_of("p2#1", "p1#1")))) == []
    last = p3.step(Receive("p1", copy_of("p1#1")))
    assert delivered(last) == ["p1#1", "p2#1", "p2#2"]


def test_why_names_what_is_missing() -> None:
    p3 = process("p3", 5)
    p3.step(Receive("p2", copy_of("p2#2", "p1#1", "p2#1")))
    spoken = p3.why(MessageId("p2", 2))
    assert "1 more of p1, p4, p5 to hold it" in spoken
    assert "its cause p1#1, and for its cause p2#1" in spoken
    assert p3.why(MessageId("p1", 1)) == "p3 does not hold p1#1"
    alone = process("p1", 1)
    alone.step(Broadcast((b"x",)))
    assert alone.why(MessageId("p1", 1)) == "p1 has delivered p1#1"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 20, 50])
def test_one_broadcast_costs_a_packet_from_everyone_to_everyone(size: int) -> None:
    run = walk(Plan(processes=size, broadcasts=1), seed=1, factory=HistorySets)
    assert sum(row.kind == "send" for row in run.rows) == size * (size - 1)


def test_the_kept_history_grows_with_every_message() -> None:
    p1 = process("p1", 1)
    for _ in range(2):
        p1.step(Broadcast((b"x",) * 50))
    assert p1.kept() | {"bytes": 0} == {"ids": 200, "ranges": 0, "texts": 0, "bytes": 0}


def contents(run: Run) -> Counter[str]:
    """Deliveries without the origin's own copy, and deliveries that waited for a cause."""
    found: Counter[str] = Counter()
    for me, history in run.histories.items():
        senders: dict[MessageId, set[str]] = {}
        last = None
        for row in history:
            if row.kind == "receive":
                senders.setdefault(row.message, set()).add(row.peer)
                last = row.message
            elif row.kind == "deliver" and row.origin != me:
                found["without the origin's copy"] += row.origin not in senders[row.message]
                found["held back"] += row.message != last
        found["crashed"] += history[-1].kind == "crash"
    return found


@pytest.mark.parametrize("size", range(1, 8))
def test_the_guarantees_hold_in_random_runs_with_every_fault(size: int) -> None:
    plan = harsh(size, texts=(b"", b"same", b"same", b"\xff"), gap_ms_mean=2.0)
    found: Counter[str] = Counter()
    for run in runs_that_hold(plan, range(40), HistorySets):
        found += contents(run)
    if size >= 3:
        assert found["crashed"] >= 30, found
        assert found["without the origin's copy"] >= 5, found
        assert found["held back"] >= 100, found
