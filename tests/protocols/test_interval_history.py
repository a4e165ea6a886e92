"""interval-history: histories as ranges, and newcomers in the middle of traffic."""

from collections import Counter

import msgspec
import pytest

from steps import delivered
from tidings.core import (
    Broadcast,
    Deliver,
    Install,
    IntervalSet,
    Members,
    MessageId,
    Receive,
    Send,
    Start,
    UsageError,
    quorum,
)
from tidings.protocols.interval_history import CopyWithRanges, IntervalHistory, JoinRequest
from tidings.simulator import Plan, World, choices, replay, schedule_of, walk
from tidings.simulator.script import Script
from tidings.spec import Value, judge
from tidings.trace import Run

THREE = ("p1", "p2", "p3")
FOUR = ("p1", "p2", "p3", "p4")
FIVE = ("p1", "p2", "p3", "p4", "p5")


def copies(effects) -> list[CopyWithRanges]:
    return [
        e.packet for e in effects if isinstance(e, Send) and isinstance(e.packet, CopyWithRanges)
    ]


def written(process: IntervalHistory, text: bytes = b"x") -> CopyWithRanges:
    (copy,) = copies(process.step(Broadcast((text,))))
    return copy


def broken(run: Run) -> list[str]:
    return [v.guarantee.value for v in judge(run) if v.value is not Value.HOLDS]


# --- one process at a time


def test_one_process_alone_delivers_at_once() -> None:
    alone = IntervalHistory("p1", ("p1",))
    assert delivered(alone.step(Broadcast((b"a", b"a")))) == ["p1#1", "p1#2"]


def test_half_of_five_is_three_distinct_holders() -> None:
    copy = written(IntervalHistory("p1", FIVE))
    p2 = IntervalHistory("p2", FIVE)
    assert delivered(p2.step(Receive("p1", copy))) == []
    assert delivered(p2.step(Receive("p1", copy))) == [], "the same holder counted twice"
    assert delivered(p2.step(Receive("p4", copy))) == ["p1#1"]


def test_the_relay_is_the_same_packet_and_leaves_once_before_the_delivery() -> None:
    copy = written(IntervalHistory("p1", THREE))
    p2 = IntervalHistory("p2", THREE)
    effects = p2.step(Receive("p1", copy))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Send) < kinds.index(Deliver)
    assert Send(("p1", "p3"), copy) in effects
    assert p2.step(Receive("p3", copy)) == []


def test_the_past_is_reported_in_ranges_and_a_fixed_group_once() -> None:
    p1 = IntervalHistory("p1", ("p1", "p2"))
    p2 = IntervalHistory("p2", ("p1", "p2"))
    for _ in range(100):
        p2.step(Receive("p1", written(p1)))
    copy = written(p2)
    assert copy.past == (("p1", ((1, 100),)),)
    assert (copy.views, copy.since) == ((("p1", "p2"),), ())


def test_packets_survive_the_wire() -> None:
    p1 = IntervalHistory("p1", THREE)
    p1.step(Broadcast((b"\xff",)))
    p1.step(Receive("p4", JoinRequest(FOUR)))
    for packet in (written(p1), JoinRequest(FOUR)):
        encoded = msgspec.msgpack.encode(packet)
        assert msgspec.msgpack.decode(encoded, type=type(packet)) == packet


# --- joining, one process at a time


def test_a_newcomer_tells_the_list_it_starts_with() -> None:
    effects = IntervalHistory("p4", FOUR).step(Start(joining=True))
    assert effects == [Send(THREE, JoinRequest(FOUR))]
    assert IntervalHistory("p1", THREE).step(Start()) == []


def test_a_join_is_merged_and_not_answered() -> None:
    p1 = IntervalHistory("p1", ("p1", "p2", "p5"))
    assert p1.step(Receive("p4", JoinRequest(("p1", "p2", "p4")))) == [
        Install(("p1", "p2", "p4", "p5"))
    ]
    assert p1.step(Receive("p4", JoinRequest(("p1", "p2", "p4")))) == []


def test_lists_are_merged_before_the_delivery_completes() -> None:
    copy = written(IntervalHistory("p4", FOUR))
    p1 = IntervalHistory("p1", THREE)
    effects = p1.step(Receive("p4", copy))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Install) < kinds.index(Deliver)
    assert Send(("p2", "p3", "p4"), copy) in effects, "a copy goes to the message's own list"
    assert written(p1).views == (FOUR,)


def test_who_is_not_listed_ignores_the_message() -> None:
    p4 = IntervalHistory("p4", FOUR)
    assert p4.step(Receive("p1", written(IntervalHistory("p1", THREE)))) == []
    assert p4.why(MessageId("p1", 1)) == "p4 does not hold p1#1"


def test_the_pairs_say_where_each_list_began() -> None:
    p1 = IntervalHistory("p1", ("p1", "p2"))
    p1.step(Broadcast((b"x", b"x")))
    p1.step(Receive("p3", JoinRequest(THREE)))
    copy = written(p1)
    assert copy.lists() == {"p1": {1: ("p1", "p2"), 3: THREE}}
    p3 = IntervalHistory("p3", THREE)
    assert delivered(p3.step(Receive("p1", copy))) == ["p1#3"], "p1#1 and p1#2 are not for p3"
    assert p3.why(MessageId("p1", 2)) == "p1#2 is not addressed to p3"


def list_grows_under_way() -> tuple[CopyWithRanges, CopyWithRanges]:
    """p1 broadcasts to three, hears of p4, and broadcasts to four."""
    p1 = IntervalHistory("p1", THREE)
    x = written(p1)
    p1.step(Receive("p4", JoinRequest(FOUR)))
    return x, written(p1)


def test_what_went_to_a_smaller_list_is_relayed_first() -> None:
    x, m = list_grows_under_way()
    p2 = IntervalHistory("p2", THREE)
    assert copies(p2.step(Receive("p1", m))) == []
    assert "p1#2 waits at p2" in p2.why(MessageId("p1", 2))
    effects = p2.step(Receive("p1", x))
    assert copies(effects) == [x, m]
    assert delivered(effects) == ["p1#1", "p1#2"]


def test_half_of_every_list_under_way_must_hold_a_message() -> None:
    _, m = list_grows_under_way()
    p4 = IntervalHistory("p4", FOUR)
    effects = p4.step(Receive("p1", m))
    assert copies(effects) == [m], "x is not for p4, so m need not wait for it"
    assert delivered(effects) == [], "half of the four, but only one of the three"
    assert p4.why(m.id) == "p1#2 waits at p4 for 1 more of p2, p3 to hold it"
    assert delivered(p4.step(Receive("p2", m))) == ["p1#2"]


def test_what_the_origin_had_delivered_is_no_longer_under_way() -> None:
    p1 = IntervalHistory("p1", THREE)
    p1.step(Receive("p2", written(p1)))
    p1.step(Receive("p4", JoinRequest(FOUR)))
    p4 = IntervalHistory("p4", FOUR)
    assert delivered(p4.step(Receive("p1", written(p1)))) == ["p1#2"]


def test_why_names_what_is_missing() -> None:
    p1, p2 = IntervalHistory("p1", FIVE), IntervalHistory("p2", FIVE)
    first = written(p1)
    for sender in ("p1", "p3"):
        p2.step(Receive(sender, first))
    p2.step(Broadcast((b"x",)))
    p4 = IntervalHistory("p4", FIVE)
    p4.step(Receive("p2", written(p2)))
    spoken = p4.why(MessageId("p2", 2))
    assert "1 more of p1, p3, p5 to hold it" in spoken
    assert "its cause p1#1, and for its cause p2#1" in spoken
    assert p4.why(MessageId("p9", 1)) == "p4 does not hold p9#1"
    assert p2.why(MessageId("p1", 1)) == "p2 has delivered p1#1"


# --- a newcomer between two dependent broadcasts


def play(text: str) -> Run:
    script = Script("test")
    script.command("group p1 p2 p3")
    script.command("protocol interval-history")
    for line in text.strip().splitlines():
        script.command(line.strip())
    return script.run()


def deliveries(run: Run, process: str) -> list[str]:
    return [str(row.message) for row in run.histories[process] if row.kind == "deliver"]


def view_of(run: Run, message: str) -> Members:
    rows = (row for row in run.rows if row.kind == "broadcast")
    (row,) = (row for row in rows if str(row.message) == message)
    assert isinstance(row.view, int)
    return run.manifest.views[row.view]


QUESTION_JOIN_ANSWER = """
    broadcast p1 question
    receive p1->p2
    join p4 via p2
    broadcast p2 answer
    receive p4->p2 join
    broadcast p2 and a second answer
    receive p2->p4 p2#2
    receive p2->p3 p2#2
    receive p2->p3 p2#1
    receive p3->p4 p2#2
"""


def test_a_newcomer_skips_what_was_never_meant_for_it() -> None:
    run = play(QUESTION_JOIN_ANSWER + "settle")
    assert broken(run) == []
    assert view_of(run, "p2#1") == THREE
    assert view_of(run, "p2#2") == FOUR
    assert deliveries(run, "p4") == ["p2#2"]
    assert deliveries(run, "p3") == ["p1#1", "p2#1", "p2#2"]


def test_a_newcomer_skips_it_also_when_the_asker_crashes() -> None:
    run = play(QUESTION_JOIN_ANSWER + "crash p1\nsettle")
    assert broken(run) == []
    assert deliveries(run, "p4") == ["p2#2"]
    assert deliveries(run, "p3") == ["p1#1", "p2#1", "p2#2"]


ADDRESSED_AND_OVERTAKEN = """
    join p4 via p1
    receive p4->p1
    broadcast p1 question
    receive p1->p2
    receive p2->p1
    broadcast p2 answer
    receive p2->p4 p2#1
    receive p2->p3 p2#1
    receive p3->p4 p2#1
"""


@pytest.mark.parametrize("fate", ["", "crash p1", "crash p1 keeping p1->p4", "crash p2"])
def test_a_newcomer_waits_for_what_is_addressed_to_it(fate: str) -> None:
    """p2 heard of p4 by p1's question alone: the JOIN had not come when it answered."""
    run = play(ADDRESSED_AND_OVERTAKEN + fate + "\nsettle")
    assert broken(run) == []
    assert view_of(run, "p2#1") == FOUR
    assert deliveries(run, "p4") == ["p1#1", "p2#1"]


def test_newcomers_at_the_same_time_learn_of_each_other_from_who_knows_both() -> None:
    run = play("""
        join p4 via p1
        join p5 via p2
        broadcast p4 I am new
        broadcast p5 so am I
        receive all
        broadcast p3 welcome both
        receive all
        broadcast p4 thanks
        settle
    """)
    assert broken(run) == []
    assert view_of(run, "p4#1") == FOUR
    assert view_of(run, "p5#1") == ("p1", "p2", "p3", "p5")
    assert view_of(run, "p3#1") == view_of(run, "p4#2") == FIVE
    assert deliveries(run, "p5") == ["p5#1", "p3#1", "p4#2"]


def test_a_newcomer_that_dies_while_joining_does_no_harm() -> None:
    run = play("""
        join p4 via p1
        broadcast p4 I am
        crash p4 keeping p4->p3 join, p4->p2 copy
        receive p4->p3
        broadcast p3 who was that
        settle
    """)
    assert broken(run) == []
    assert view_of(run, "p3#1") == FOUR
    for survivor in THREE:
        assert sorted(deliveries(run, survivor)) == ["p3#1", "p4#1"]


LOST_UNDER_WAY = """
    broadcast p1 lost on its way to the old list
    join p4 via p1
    receive p4->p1
    broadcast p1 depends on it
    crash p1 losing p1->p2 p1#1, p1->p3 p1#1
    settle
"""


def test_a_newcomer_does_not_deliver_what_the_others_never_can() -> None:
    run = play(LOST_UNDER_WAY)
    assert broken(run) == []
    assert not any(row.kind == "deliver" for row in run.rows)


# --- cost


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 20, 50])
def test_one_broadcast_costs_a_packet_from_everyone_to_everyone(size: int) -> None:
    run = walk(Plan(processes=size, broadcasts=1), seed=1, factory=IntervalHistory)
    assert sum(row.kind == "send" for row in run.rows) == size * (size - 1)


def kept_after(messages: int) -> list[dict[str, int]]:
    """What each of five keeps when each has broadcast so many and all is delivered."""
    world = World("test", FIVE, IntervalHistory)
    for _ in range(messages):
        for process in FIVE:
            world.apply(choices.UserBroadcast(process, b"text"))
        while world.in_flight:
            world.apply(world.choices()[-1])
    return [world.processes[process].kept() for process in FIVE]


def test_a_long_history_takes_no_more_space_than_a_short_one() -> None:
    for few, many in zip(kept_after(50), kept_after(500), strict=True):
        assert few["ids"] == many["ids"] == 0
        assert few["ranges"] == many["ranges"] <= 15
        assert few["texts"] == many["texts"] == 0
        assert many["bytes"] < 1.02 * few["bytes"]


def test_overtaking_leaves_gaps_in_what_is_held_and_none_in_what_is_delivered() -> None:
    p1, p2 = IntervalHistory("p1", FIVE), IntervalHistory("p2", FIVE)
    sent = [written(p1) for _ in range(9)]
    for copy in sent[::2]:
        for sender in ("p1", "p3"):
            p2.step(Receive(sender, copy))
    assert len(p2.held["p1"].ranges) == 5
    assert p2.delivered["p1"] == IntervalSet([(1, 1)])
    for copy in sent[1::2]:
        for sender in ("p1", "p3"):
            p2.step(Receive(sender, copy))
    assert p2.held["p1"] == p2.delivered["p1"] == IntervalSet([(1, 9)])


# --- random runs


HARSH = Plan(
    protocol="interval-history",
    broadcasts=12,
    texts=(b"", b"same", b"same", b"\xff"),
    gap_ms_mean=2.0,
    duplicated=0.2,
    lost=0.1,
    mid_broadcast=0.6,
)


def plan(size: int, joiners: int) -> Plan:
    return msgspec.structs.replace(
        HARSH,
        processes=size,
        joiners=joiners,
        crashes=quorum(size) - 1,
        partitions=1 if size > 1 else 0,
    )


@pytest.mark.parametrize("size", range(1, 8))
def test_the_guarantees_hold_in_random_runs_with_every_fault(size: int) -> None:
    for seed in range(40):
        verdicts = judge(walk(plan(size, joiners=0), seed, factory=IntervalHistory))
        assert all(v.value is Value.HOLDS for v in verdicts), f"seed {seed}: {verdicts}"


class Recording(IntervalHistory):
    """Remembers, for all processes of a run, which list each message carried."""

    carried: dict[MessageId, Members]

    def _write(self, text: bytes) -> CopyWithRanges:
        copy = super()._write(text)
        self.carried[copy.id] = tuple(copy.lists()[self.me].values())[-1]
        return copy


def contents(run: Run) -> Counter[str]:
    found: Counter[str] = Counter()
    new = {row.process for row in run.rows if row.kind == "join"}
    lists = {
        run.manifest.views[row.view]
        for row in run.rows
        if row.kind == "broadcast" and isinstance(row.view, int)
    }
    found["incomparable lists"] += any(
        not set(one) <= set(other) and not set(other) <= set(one)
        for one in lists
        for other in lists
    )
    for process in sorted(new):
        kinds = [row.kind for row in run.histories[process]]
        found["joined"] += 1
        found["spoke at once"] += (
            "broadcast" in kinds and "receive" not in kinds[: kinds.index("broadcast")]
        )
        found["joined and crashed"] += "crash" in kinds
        found["delivered by newcomers"] += kinds.count("deliver")
    return found


@pytest.mark.parametrize("joiners", [1, 2, 3])
def test_the_guarantees_hold_while_newcomers_join(joiners: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(84):
        carried: dict[MessageId, Members] = {}
        recording = type("Recording", (Recording,), {"carried": carried})
        run = walk(plan(seed % 7 + 1, joiners), seed, factory=recording)
        verdicts = judge(run)
        assert all(v.value is Value.HOLDS for v in verdicts), f"seed {seed}: {verdicts}"
        assert not any(v.not_owed for v in verdicts), f"seed {seed}: a list lost its majority"
        for row in run.rows:
            if row.kind == "broadcast":
                assert run.manifest.views[row.view] == carried[row.message], f"seed {seed}"
        found += contents(run)
    assert found["joined"] >= 78 * joiners, found
    assert found["spoke at once"] >= 30 * joiners, found
    assert found["joined and crashed"] >= 6 * joiners, found
    assert found["delivered by newcomers"] >= 180 * joiners, found
    assert found["incomparable lists"] >= (12 if joiners > 1 else 0), found


def test_impossible_joins_are_refused() -> None:
    with pytest.raises(UsageError, match="fewer than 0 processes cannot join"):
        walk(Plan(joiners=-1), 1)
    with pytest.raises(UsageError, match="this protocol has a fixed group"):
        walk(Plan(joiners=1), 1)


def test_a_run_with_newcomers_is_decided_by_its_seed_and_replays() -> None:
    run = walk(plan(5, joiners=3), 7, factory=IntervalHistory)
    assert list(run.rows) == list(walk(plan(5, joiners=3), 7, factory=IntervalHistory).rows)
    world = World(run.manifest.run, run.manifest.views[0], IntervalHistory)
    rows = replay(world, schedule_of(run.manifest))
    by_place = sorted(rows, key=lambda row: (row.process, row.index))
    assert by_place == sorted(run.rows, key=lambda row: (row.process, row.index))
    assert world.views == list(run.manifest.views)
