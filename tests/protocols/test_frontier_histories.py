"""Digests of histories: the same for the same messages, and two under one name come to light."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_adversary import RollbackWorld, report_every_divergence
from steps import group_of
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
from tidings.explore import Scope, explore
from tidings.protocols import factory
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.histories import (
    BLOCK,
    SHORT_BYTES,
    Chain,
    HistoryMark,
    OriginHistories,
    _hashed,
)
from tidings.protocols.frontier.packets import (
    Batch,
    Counts,
    Data,
    Holding,
    Push,
    Refusal,
    State,
    Twins,
    counts_of,
)
from tidings.protocols.frontier.records import Delivered, Forgotten, Stored
from tidings.simulator import choices, until_quiet
from tidings.simulator.choices import PacketId
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
def test_what_peers_reported_is_compared_wherever_it_ends(
    history: list[Written], places: list[int]
) -> None:
    """A peer that has said something else is found when as much is held, and no other."""
    mine = OriginHistories.of(["p1"], 4)
    for number, count in enumerate(places):
        digest = chained(history[:count]).at(count) if count <= len(history) else b"later"
        for peer, claimed in ((f"true{number}", digest), (f"false{number}", b"other")):
            assert mine.differs(peer, "p1", HistoryMark(count, claimed)) is None
    differing: dict[str, HistoryMark] = {}
    for text, causes in history:
        differing |= mine.extend("p1", [text], causes)
    reached = {f"false{number}" for number, count in enumerate(places) if count <= len(history)}
    assert set(differing) == reached
    assert len(mine.marks["p1"]) <= 4


def test_no_text_passes_for_the_digest_of_another() -> None:
    long = b"x" * (SHORT_BYTES + 1)
    assert Chain().extended([long]).at(1) != Chain().extended([_hashed(long)]).at(1)
    with_causes = Chain().extended([b"x"], (1,))
    assert with_causes.tail[0][1:] not in Chain().extended([with_causes.tail[0][1:]]).tail


@pytest.mark.parametrize("most", [2, 3, 64])
@pytest.mark.parametrize("lag", [0, 7, 100, 3_000])
def test_a_log_can_be_shortened_however_far_forgetting_lags_behind(most: int, lag: int) -> None:
    """What is kept beyond what is needed is a share of the lag, or a few blocks."""
    mine = OriginHistories.of(["p1"], most)
    for count in range(1, 4 * lag + 2_000):
        mine.extend("p1", [b"x"], ())
        mine.forget("p1", max(0, count - lag))
        assert len(mine.marks["p1"]) <= most
        forgotten = max(0, count - lag)
        kept = forgotten - mine.base("p1", forgotten).count
        assert kept <= max(4 * BLOCK, 8 * lag // most)


def test_histories_are_plain_state() -> None:
    mine = OriginHistories.of(MEMBERS, 4)
    twin = copied(mine)
    mine.extend("p1", [b"a"] * 40, (1, 2))
    assert twin == OriginHistories.of(MEMBERS, 4), "a copy shares nothing that can change"
    assert fingerprint(mine) != fingerprint(twin)


# --- in the protocol


def process(me: str, *records: Any, **options: Any) -> Frontier:
    made = factory("frontier", options)(me, MEMBERS, take_first)
    assert isinstance(made, Frontier)
    made.step(Start(recovered=records or None))
    return made


def persisted(effects: list[Effect]) -> list[Any]:
    return [record for e in effects if isinstance(e, Persist) for record in e.records]


def spoken(effects: list[Effect], to: str) -> list[Any]:
    return [one.packet for one in effects if isinstance(one, Send) and to in one.to]


def acknowledged(member: Frontier) -> Holding:
    """What it says of p1's messages."""
    return Holding(counts_of(["p1"], member.log.held), member.comparison.digests(["p1"]))


def data(first: int, *texts: bytes, causes: Counts | None = None) -> Data:
    return Data(Batch(MessageId("p1", first), texts, causes or Counts()))


def rejected(effects: list[Effect]) -> list[str]:
    return [one.peer for one in effects if isinstance(one, Reject)]


def hand_over(sender: Frontier, effects: list[Effect], receiver: Frontier) -> list[Effect]:
    answers: list[Effect] = []
    for packet in spoken(effects, receiver.me):
        answers += receiver.step(Receive(sender.me, packet))
    return answers


@pytest.mark.parametrize("count", [3, BLOCK, 3 * BLOCK + 5])
def test_a_restart_makes_the_same_digests_from_what_is_left(count: int) -> None:
    p2 = process("p2")
    disk = persisted(p2.step(Receive("p1", data(1, b"a", causes=Counts(all=(0, 0, 4))))))
    disk += persisted(p2.step(Receive("p3", Push((Batch(MessageId("p3", 1), (b"z",) * 4),)))))
    for seq in range(2, count + 1):
        disk += persisted(p2.step(Receive("p1", data(seq, b"%d" % seq))))
    p2.step(Receive("p3", Holding(Counts(some=(MessageId("p1", count), MessageId("p3", 4))))))
    assert p2.log.forgotten["p1"] == count
    checkpoint = p2.checkpoint()
    kept = [
        one
        for one in disk
        if isinstance(one, Stored) and one.batch.last > checkpoint.forgotten[one.batch.id.origin]
    ]
    assert len(kept) < BLOCK + 4, "only the last block is needed"
    for records in (disk, p2.compacted(disk), [*checkpoint.records, *kept]):
        again = process("p2", *records)
        assert again.comparison.histories.head("p1") == p2.comparison.histories.head("p1")
        assert again.comparison.histories.head("p3") == p2.comparison.histories.head("p3")


def test_a_log_from_before_there_were_digests_compares_nothing() -> None:
    old = (
        Delivered((20, 0, 0)),
        Forgotten((20, 0, 0)),
        Stored(Batch(MessageId("p1", 21), (b"x",))),
    )
    p2 = process("p2", *old)
    assert p2.log.held["p1"] == 21
    assert p2.comparison.histories.head("p1") == HistoryMark(21, b"")
    checkpoint = p2.checkpoint()
    assert checkpoint.forgotten["p1"] == 20, "its log can still be shortened"
    again = process("p2", *checkpoint.records, old[-1])
    assert again.comparison.histories.head("p1") == HistoryMark(21, b"")
    other = State((21, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0), digests=(b"other", b"", b""))
    assert rejected(again.step(Receive("p3", other))) == []


def test_an_origin_that_used_a_number_twice_is_refused_and_stops() -> None:
    p1, p2 = process("p1"), process("p2")
    p2.step(Receive("p1", data(1, b"before the copy was put back")))
    p1.step(Broadcast((b"after that",)))
    answer = p2.step(LinkUp("p1", 0)), p1.step(LinkUp("p2", 0))
    at_p1 = hand_over(p2, answer[0], p1)
    assert isinstance(at_p1[-1], Halt)
    assert at_p1[-1].reason.startswith("p1 used numbers twice")
    at_p2 = hand_over(p1, answer[1], p2)
    assert rejected(at_p2) == ["p1"]
    assert spoken(p2.step(LinkUp("p1", 0)), "p1") == [Refusal("p1", 0, "two histories")], "again"


def test_two_holders_of_different_histories_both_report_their_origin() -> None:
    p2, p3 = process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old")))
    p3.step(Receive("p1", data(1, b"new", b"newer")))
    answer = p2.step(LinkUp("p3", 0)), p3.step(LinkUp("p2", 0))
    assert rejected(hand_over(p2, answer[0], p3)) == ["p1"], "p3 knows how its first one looks"
    hand_over(p3, answer[1], p2)
    at_p2 = p2.step(Receive("p3", Push((Batch(MessageId("p1", 2), (b"newer",)),))))
    assert rejected(at_p2) == ["p1"], "p2 compares when it holds as much"
    assert "p2 and p3 hold different ones up to p1#2" in next(
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
    at_p2 = p2.step(Receive("p3", acknowledged(p3)))
    at_p2 += p2.step(Receive("p1", data(2, *(b"new",) * BLOCK)))
    assert rejected(at_p2) == ["p1"]
    assert any(isinstance(one, Halt) for one in hand_over(p2, at_p2, p1))


def test_two_histories_are_reported_although_their_origin_is_refused_already() -> None:
    p2, p3 = process("p2"), process("p3")
    p2.step(Receive("p1", data(1, b"old")))
    p3.step(Receive("p1", data(1, b"new")))
    assert rejected(p2.step(Receive("p1", Refusal("p1", 0, "lost disk")))) == ["p1"]
    at_p2 = p2.step(Receive("p3", acknowledged(p3)))
    assert rejected(at_p2) == ["p1"], "for another reason"
    assert rejected(hand_over(p2, at_p2, p3)) == ["p1"]


def test_every_member_hears_once_per_link_that_there_are_two_histories() -> None:
    group = (*MEMBERS, "p4")
    p2, p3, p4 = (Frontier(name, group) for name in group[1:])
    for member, text in ((p2, b"old"), (p3, b"new"), (p4, b"new")):
        member.step(Start())
        member.step(Receive("p1", data(1, text)))
    at_p2 = p2.step(Receive("p3", acknowledged(p3)))
    report = Twins("p1", ("p2", "p3"), 1)
    for other in (p3, p4):
        assert report in spoken(at_p2, other.me), "also those that hold what somebody else holds"
        assert rejected(other.step(Receive("p2", report))) == ["p1"]
    assert report not in spoken(p2.step(Receive("p4", acknowledged(p4))), "p4"), "it knows"
    assert report in spoken(p2.step(LinkUp("p3", 0)), "p3"), "it may not have heard"


def test_a_member_that_has_gone_on_is_reported_by_the_one_that_compares_later() -> None:
    """p2 no longer knows how its first message looked; p3 will know how p2's last one does."""
    p2, p3 = process("p2", marks=2), process("p3")
    p2.step(Receive("p1", data(1, *(b"%d" % number for number in range(4 * BLOCK)))))
    p3.step(Receive("p1", data(1, b"other")))
    assert rejected(p2.step(Receive("p3", acknowledged(p3)))) == []
    assert rejected(p3.step(Receive("p2", acknowledged(p2)))) == []
    rest = tuple(b"%d" % number for number in range(1, 4 * BLOCK))
    at_p3 = p3.step(Receive("p1", data(2, *rest)))
    assert rejected(at_p3) == ["p1"]
    assert rejected(hand_over(p3, at_p3, p2)) == ["p1"]


# --- two histories in a group, as unluckily as can be


class Group:
    """A small world; every process that stays up is to report p1 in the end."""

    def __init__(self, size: int = 3, links: str = "retrying", **options: Any) -> None:
        self.world = RollbackWorld(
            "twins",
            group_of(size),
            factory("frontier", options),
            links=links,
            dice=random.Random(0),
        )

    def do(self, *wanted: choices.Choice) -> None:
        for choice in wanted:
            self.world.apply(choice)

    def under_way(self, sender: str, receiver: str, kind: str = "") -> list[PacketId]:
        packets = self.world.in_flight.items()
        return [
            packet
            for packet, flying in packets
            if packet.link == (sender, receiver) and kind in ("", flying.content.kind)
        ]

    def receive(self, sender: str, receiver: str, kind: str) -> None:
        self.do(choices.PacketArrival(self.under_way(sender, receiver, kind)[0]))

    def drop(self, sender: str, receiver: str, kind: str = "") -> None:
        self.do(*map(choices.Drop, self.under_way(sender, receiver, kind)))

    def crash(self, process: str, *deaf: str) -> None:
        """What it has said to these is lost."""
        lost = [packet for one in deaf for packet in self.under_way(process, one)]
        self.do(choices.Crash(process, tuple(lost)))

    def begin_again(self, text: bytes) -> None:
        """p1 comes back with its old disk, hears of p3 alone, and broadcasts."""
        self.do(choices.Recover("p1", disk_old=True))
        self.receive("p3", "p1", "state")
        self.do(choices.UserBroadcast("p1", text))

    def fetch(self, process: str, peer: str) -> None:
        """It asks for what it lacks, and is sent it."""
        self.do(choices.TimerExpiry(process, "pull"))
        self.receive(process, peer, "pull")
        self.receive(peer, process, "push")

    def all_report(self) -> bool:
        for choice in until_quiet(self.world):
            self.do(choice)
        texts = {one.comparison.histories.head("p1") for one in self.living()}
        assert len(texts) > 1, "there are two histories"
        return all((one.me, "p1") in self.world.rejected for one in self.living())

    def living(self) -> list[Frontier]:
        up = [self.world.processes[name] for name in self.world.up]
        return [one for one in up if isinstance(one, Frontier)]


modes = pytest.mark.parametrize("mode", ["all", "origin"])


@modes
def test_a_second_history_that_is_fetched_is_noticed(mode: str) -> None:
    """All that p1 said in its second life is lost; in its third, p3 asks it for what it lacks."""
    group = Group(mode=mode)
    group.do(choices.Backup("p1"), choices.UserBroadcast("p1", b"old"))
    group.receive("p1", "p2", "data")
    group.crash("p1", "p3")
    group.begin_again(b"new")
    group.crash("p1", "p2", "p3")
    group.do(choices.Recover("p1"))
    group.receive("p1", "p3", "state")
    group.fetch("p3", "p1")
    group.crash("p1", "p2")
    assert group.all_report()


@modes
def test_a_second_history_is_noticed_on_links_that_lose(mode: str) -> None:
    group = Group(links="lossy", mode=mode)
    group.do(choices.Backup("p1"), choices.UserBroadcast("p1", b"old"))
    group.drop("p1", "p3")
    group.receive("p1", "p2", "data")
    group.crash("p1")
    group.do(choices.Recover("p1", disk_old=True))
    group.drop("p1", "p2")
    group.drop("p2", "p1")
    group.receive("p3", "p1", "state")
    group.do(choices.UserBroadcast("p1", b"new"))
    group.drop("p1", "p2")
    group.receive("p1", "p3", "data")
    group.drop("p3", "p2")
    group.crash("p1")
    assert group.all_report()


@modes
def test_a_second_history_is_noticed_when_it_has_to_wait(mode: str) -> None:
    """p3 has no room for the first message of p1's second life when it comes."""
    group = Group(mode=mode, early=1, early_bytes=1)
    group.do(choices.UserBroadcast("p1", b"one"))
    group.receive("p1", "p2", "data")
    group.do(choices.Backup("p1"), choices.UserBroadcast("p1", b"old"))
    group.receive("p1", "p2", "data")
    group.crash("p1", "p3")
    group.begin_again(b"newer")
    group.receive("p1", "p3", "data")
    group.fetch("p3", "p1")
    group.crash("p1", "p2")
    assert group.all_report()


@modes
def test_an_origin_is_stopped_by_what_it_reported_in_an_earlier_life(mode: str) -> None:
    """Its old message was under way all the time, and arrives before its new one."""
    group = Group(2, mode=mode)
    group.do(choices.Backup("p1"), choices.UserBroadcast("p1", b"old"))
    group.crash("p1")
    group.do(choices.Recover("p1", disk_old=True))
    group.receive("p2", "p1", "state")
    group.do(choices.UserBroadcast("p1", b"new"))
    for choice in until_quiet(group.world):
        group.do(choice)
    assert "p1" in group.world.crashed
    assert ("p2", "p1") in group.world.rejected


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
    happened = report_every_divergence(range(800, 900))
    assert happened["rollbacks"] > 50
    assert happened["halts"] > 10
    assert happened["divergences"] > 0
