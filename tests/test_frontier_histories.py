"""Digests of histories: the same for the same messages, and two under one name come to light."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_adversary import report_every_divergence
from tidings.core import (
    Broadcast,
    Effect,
    Halt,
    LinkUp,
    MessageId,
    Persist,
    Receive,
    Reject,
    Send,
    Start,
    take_first,
)
from tidings.core.state import copied, fingerprint
from tidings.lab.explore import Scope, explore
from tidings.protocols import factory
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier_chain import BLOCK, SHORT_BYTES, Chain, Histories, Mark
from tidings.protocols.frontier_packets import (
    Admitted,
    Batch,
    Chained,
    Data,
    Delivered,
    Forgotten,
    Holding,
    Push,
    Refusal,
    State,
    Stored,
    Upto,
)
from tidings.spec import Guarantee

MEMBERS = ("p1", "p2", "p3")
Written = tuple[bytes, tuple[int, ...]]
"""A text and its causes."""

texts = st.one_of(
    st.binary(max_size=3), st.just(b"x" * SHORT_BYTES), st.just(b"x" * (SHORT_BYTES + 1))
)
messages = st.lists(st.tuples(texts, st.sampled_from([(), (), (1,), (1, 2)])), max_size=60)


def chained(history: list[Written], sizes: list[int] = []) -> Chain:  # noqa: B006 - read only
    """In batches of these sizes at most; causes begin a new one, as at an origin."""
    chain, batch, room = Chain(), list[bytes](), list(sizes)
    causes: tuple[int, ...] = ()
    limit = room.pop() if room else 1
    for text, its_causes in history:
        if batch and (its_causes or len(batch) >= limit):
            chain, batch = chain.extended(batch, causes), []
            limit = room.pop() if room else 1
        if not batch:
            causes = its_causes
        batch.append(text)
    return chain.extended(batch, causes) if batch else chain


@given(messages, st.lists(st.integers(1, 40), max_size=20))
def test_a_digest_does_not_depend_on_batches(history: list[Written], sizes: list[int]) -> None:
    one_by_one, in_batches = chained(history), chained(history, sizes)
    assert one_by_one == in_batches
    assert one_by_one.count == len(history)


@given(messages.filter(bool), messages)
def test_different_histories_have_different_digests(
    one: list[Written], other: list[Written]
) -> None:
    ours, theirs = chained(one), chained(other)
    assert (ours.at(len(one)) == theirs.at(len(one))) == (one == other[: len(one)]) or (
        theirs.at(len(one)) == b""
    ), "or it is too long ago"


@given(messages, st.integers(0, 80))
def test_the_digest_within_the_last_block_is_known_and_no_other(
    history: list[Written], count: int
) -> None:
    chain = chained(history)
    known = 0 < count <= len(history) and count >= len(history) - len(history) % BLOCK
    assert bool(chain.at(count)) == known
    if known:
        assert chain.at(count) == chained(history[:count]).at(count)


@given(messages, st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_what_peers_said_is_compared_wherever_it_ends(
    history: list[Written], places: list[int]
) -> None:
    """A peer that has said something else is found when as much is held, and no other."""
    mine = Histories.of(["p1"], 4)
    for number, count in enumerate(places):
        digest = chained(history[:count]).at(count) if count <= len(history) else b"later"
        for peer, claimed in ((f"true{number}", digest), (f"false{number}", b"other")):
            assert mine.differs(peer, "p1", Mark(count, claimed)) is None
    differing: dict[str, Mark] = {}
    for text, causes in history:
        differing |= mine.extend("p1", [text], causes)
    reached = {f"false{number}" for number, count in enumerate(places) if count <= len(history)}
    assert set(differing) == reached
    assert len(mine.marks["p1"]) <= 4


def test_histories_are_plain_state() -> None:
    mine = Histories.of(MEMBERS, 4)
    twin = copied(mine)
    mine.extend("p1", [b"a"] * 40, (1, 2))
    assert twin == Histories.of(MEMBERS, 4), "a copy shares nothing that can change"
    assert fingerprint(mine) != fingerprint(twin)


# --- in the protocol


def process(me: str, *records: Any, **options: Any) -> Frontier:
    made = factory("frontier", options)(me, MEMBERS, take_first)
    assert isinstance(made, Frontier)
    made.step(Start(recovered=records or None))
    return made


def persisted(effects: list[Effect]) -> list[Any]:
    return [record for e in effects if isinstance(e, Persist) for record in e.records]


def said(effects: list[Effect], to: str) -> list[Any]:
    return [one.packet for one in effects if isinstance(one, Send) and to in one.to]


def data(first: int, *texts: bytes, causes: Upto | None = None) -> Data:
    return Data(Batch(MessageId("p1", first), texts, causes or Upto()))


def rejected(effects: list[Effect]) -> list[str]:
    return [one.peer for one in effects if isinstance(one, Reject)]


def hand_over(sender: Frontier, effects: list[Effect], receiver: Frontier) -> list[Effect]:
    answers: list[Effect] = []
    for packet in said(effects, receiver.me):
        answers += receiver.step(Receive(sender.me, packet))
    return answers


@pytest.mark.parametrize("count", [3, BLOCK, 3 * BLOCK + 5])
def test_a_restart_makes_the_same_digests_from_what_is_left(count: int) -> None:
    p2 = process("p2")
    disk = persisted(p2.step(Receive("p1", data(1, b"a", causes=Upto(all=(0, 0, 4))))))
    disk += persisted(p2.step(Receive("p3", Push((Batch(MessageId("p3", 1), (b"z",) * 4),)))))
    for seq in range(2, count + 1):
        disk += persisted(p2.step(Receive("p1", data(seq, b"%d" % seq))))
    p2.step(Receive("p3", Holding(Upto(some=(MessageId("p1", count), MessageId("p3", 4))))))
    assert p2.forgotten["p1"] == count
    checkpoint = p2.checkpoint()
    kept = [
        one
        for one in disk
        if isinstance(one, Stored) and one.batch.last > checkpoint.forgotten[one.batch.id.origin]
    ]
    assert len(kept) < BLOCK + 4, "only the last block is needed"
    for records in (disk, p2.compacted(disk), [*checkpoint.records, *kept]):
        again = process("p2", *records)
        assert again.histories.head("p1") == p2.histories.head("p1")
        assert again.histories.head("p3") == p2.histories.head("p3")


def test_a_log_from_before_there_were_digests_compares_nothing() -> None:
    old = (
        Delivered((20, 0, 0)),
        Forgotten((20, 0, 0)),
        Stored(Batch(MessageId("p1", 21), (b"x",))),
    )
    p2 = process("p2", *old)
    assert p2.held["p1"] == 21
    assert p2.histories.head("p1") == Mark(21, b"")
    checkpoint = p2.checkpoint()
    assert checkpoint.forgotten["p1"] == 20, "its log can still be shortened"
    again = process("p2", *checkpoint.records, old[-1])
    assert again.histories.head("p1") == Mark(21, b"")
    other = State((21, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0), digests=(b"other", b"", b""))
    assert rejected(again.step(Receive("p3", other))) == []


def test_an_origin_that_used_a_number_twice_is_refused_and_stops() -> None:
    p1, p2 = process("p1"), process("p2")
    p2.step(Receive("p1", data(1, b"before the copy was put back")))
    p1.step(Broadcast((b"after that",)))
    told = p2.step(LinkUp("p1", 0)), p1.step(LinkUp("p2", 0))
    at_p1 = hand_over(p2, told[0], p1)
    assert isinstance(at_p1[-1], Halt)
    assert at_p1[-1].reason.startswith("p1 used numbers twice")
    at_p2 = hand_over(p1, told[1], p2)
    assert rejected(at_p2) == ["p1"]
    assert said(p2.step(LinkUp("p1", 0)), "p1") == [Refusal("p1", 0, "two histories")], "again"


def test_two_holders_of_different_histories_both_report_their_origin() -> None:
    p2, p3 = process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old")))
    p3.step(Receive("p1", data(1, b"new", b"newer")))
    told = p2.step(LinkUp("p3", 0)), p3.step(LinkUp("p2", 0))
    assert rejected(hand_over(p2, told[0], p3)) == ["p1"], "p3 knows how its first one looks"
    hand_over(p3, told[1], p2)
    at_p2 = p2.step(Receive("p3", Push((Batch(MessageId("p1", 2), (b"newer",)),))))
    assert rejected(at_p2) == ["p1"], "p2 compares when it holds as much"
    assert "p3 holds others than p2, up to p1#2" in next(
        one.reason for one in at_p2 if isinstance(one, Reject)
    )


def test_an_origin_whose_histories_others_found_stops_although_its_links_last() -> None:
    """p1 does not know any more how its first message looked when p2 tells it."""
    p1, p2, p3 = process("p1"), process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old")))
    p1.step(Broadcast((b"new",) * (BLOCK + 1)))
    p3.step(Receive("p1", data(1, *(b"new",) * (BLOCK + 1))))
    at_p1 = hand_over(p2, p2.step(LinkUp("p1", 0)), p1)
    assert not any(isinstance(one, Halt) for one in at_p1)
    at_p2 = p2.step(Receive("p3", Chained("p1", p3.histories.head("p1"))))
    at_p2 += p2.step(Receive("p1", data(2, *(b"new",) * BLOCK)))
    assert rejected(at_p2) == ["p1"]
    assert any(isinstance(one, Halt) for one in hand_over(p2, at_p2, p1))


def test_two_histories_are_reported_although_their_origin_is_refused_already() -> None:
    p2, p3 = process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old")))
    p3.step(Receive("p1", data(1, b"new")))
    assert rejected(p2.step(Receive("p1", Refusal("p1", 0, "lost disk")))) == ["p1"]
    at_p2 = p2.step(Receive("p3", Chained("p1", p3.histories.head("p1"))))
    assert rejected(at_p2) == ["p1"], "for another reason"
    assert rejected(hand_over(p2, at_p2, p3)) == ["p1"]


def test_every_holder_of_another_history_is_told_once_per_link() -> None:
    group = (*MEMBERS, "p4")
    p2, p3, p4 = (Frontier(name, group) for name in group[1:])
    for member, text in ((p2, b"old"), (p3, b"new"), (p4, b"new")):
        member.step(Start())
        member.step(Receive("p1", data(1, text)))
    head = Chained("p1", p3.histories.head("p1"))
    for other in (p3, p4):
        at_p2 = p2.step(Receive(other.me, head))
        assert rejected(hand_over(p2, at_p2, other)) == ["p1"]
        assert said(p2.step(Receive(other.me, head)), other.me) == [], "it knows"
    ours = Chained("p1", p2.histories.head("p1"))
    assert ours in said(p2.step(LinkUp("p3", 0)), "p3"), "it may not have heard"


def test_members_whose_link_lasts_compare_what_a_restarted_origin_says_next() -> None:
    """p1 comes back with an older disk and is heard by p3 alone; p2 and p3 stay linked."""
    p1 = process("p1", Admitted())
    p2, p3 = process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old", b"older")))
    hand_over(p1, p1.step(LinkUp("p3", 0)), p3)
    hand_over(p3, p3.step(LinkUp("p1", 0)), p1)
    at_p3 = hand_over(p1, p1.step(Broadcast((b"new",))), p3)
    (chained_by_p3,) = [one for one in said(at_p3, "p2") if isinstance(one, Chained)]
    at_p2 = p2.step(Receive("p3", chained_by_p3))
    assert rejected(at_p2) == ["p1"]
    assert rejected(hand_over(p2, at_p2, p3)) == ["p1"]


def test_a_digest_too_old_to_compare_is_answered_with_a_newer_one() -> None:
    p2, p3 = process("p2", marks=2), process("p3")
    p2.step(Receive("p1", data(1, *(b"%d" % number for number in range(4 * BLOCK)))))
    p3.step(Receive("p1", data(1, b"other")))
    (answer,) = said(p2.step(Receive("p3", Chained("p1", p3.histories.head("p1")))), "p3")
    assert answer == Chained("p1", p2.histories.head("p1"))
    p3.step(Receive("p2", answer))
    rest = tuple(b"%d" % number for number in range(1, 4 * BLOCK))
    assert rejected(p3.step(Receive("p1", data(2, *rest)))) == ["p1"]


# --- older disks


def test_the_explorer_shows_the_rollback_that_slips_through() -> None:
    """p1 hears the one member that cannot know better; nothing short of waiting for all helps."""
    scope = Scope(
        protocol="frontier",
        options={"batch_ms": 0},
        broadcasts=2,
        crashes=1,
        restarts=1,
        rollbacks=1,
    )
    explored = explore(scope, workers=1)
    assert Guarantee.NO_CREATION in explored.found
    run = explored.found[Guarantee.NO_CREATION]
    names = [MessageId(row.origin, row.seq) for row in run.rows if row.kind == "broadcast"]
    assert names == [MessageId("p1", 1)] * 2


def test_older_disks_in_bad_company_never_diverge_in_silence() -> None:
    happened = report_every_divergence(range(400, 500))
    assert happened["rollbacks"] > 50
    assert happened["halts"] > 10
    assert happened["divergences"] > 0
