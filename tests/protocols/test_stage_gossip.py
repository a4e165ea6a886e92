"""stage-gossip, the fifth algorithm: who is told what, what it costs, what it guarantees."""

from functools import partial

import pytest

from random_runs import harsh, runs_that_hold
from steps import delivered, group_of, kept_after, stamped
from tidings.core import (
    Broadcast,
    Deliver,
    MessageId,
    Receive,
    Send,
    UsageError,
    quorum,
    take_first,
)
from tidings.protocols.stage_gossip import Gossip, StageGossip, StageNotice
from tidings.simulator import Plan, World, until_quiet, walk
from tidings.simulator.choices import Crash
from tidings.simulator.choices import UserBroadcast as Speak

FORMS = {"ring": StageGossip, "news": partial(StageGossip, form="news")}

both_forms = pytest.mark.parametrize("form", FORMS)


def process(me: str, size: int, form: str = "ring") -> StageGossip:
    return FORMS[form](me, group_of(size), take_first)


def sent(effects) -> list[tuple[str, tuple[str, ...], str]]:
    return [(e.packet.kind, e.to, e.packet.stages) for e in effects if isinstance(e, Send)]


HELLO = stamped("p1#1", 0, 0, 0)
HELLO_OF_FIVE = stamped("p1#1", 0, 0, 0, 0, 0)


# --- both forms


def test_an_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no form 'star'; it has: ring, news"):
        StageGossip("p1", ("p1",), form="star")


@both_forms
def test_one_process_alone_delivers_at_once(form: str) -> None:
    effects = process("p1", 1, form).step(Broadcast((b"a", b"a", b"")))
    assert delivered(effects) == ["p1#1", "p1#2", "p1#3"]


@both_forms
def test_half_of_five_is_three_that_hold_it_by_whosoever_word(form: str) -> None:
    p2 = process("p2", 5, form)
    assert delivered(p2.step(Receive("p1", Gossip(HELLO_OF_FIVE, "10000")))) == []
    assert delivered(p2.step(Receive("p1", Gossip(HELLO_OF_FIVE, "10000")))) == []
    assert delivered(p2.step(Receive("p3", StageNotice(HELLO_OF_FIVE.id, "00001")))) == ["p1#1"]


@both_forms
def test_one_delivery_frees_the_next_without_another_packet(form: str) -> None:
    p3 = process("p3", 3, form)
    second, answer = stamped("p1#2", 1, 0, 0), stamped("p2#1", 2, 0, 0)
    assert delivered(p3.step(Receive("p2", Gossip(answer, "010")))) == []
    assert delivered(p3.step(Receive("p1", Gossip(second, "100")))) == []
    assert delivered(p3.step(Receive("p1", Gossip(HELLO, "100")))) == ["p1#1", "p1#2", "p2#1"]


@both_forms
def test_the_vector_is_the_originators_whoever_passes_the_message_on(form: str) -> None:
    p2 = process("p2", 3, form)
    p2.step(Receive("p1", Gossip(HELLO, "100")))
    unrelated = stamped("p3#1", 0, 0, 0)
    relays = [e for e in p2.step(Receive("p3", Gossip(unrelated, "001"))) if isinstance(e, Send)]
    assert relays
    assert all(e.packet.message == unrelated for e in relays if isinstance(e.packet, Gossip))


@both_forms
def test_why_names_what_is_missing(form: str) -> None:
    p3 = process("p3", 5, form)
    message = stamped("p2#2", 1, 0, 0, 0, 0)
    assert p3.why(message.id) == "p3 does not hold p2#2"
    p3.step(Receive("p2", Gossip(message, "01000")))
    spoken = p3.why(message.id)
    assert "1 more of p1, p4, p5 to be known to hold it" in spoken
    assert "p2#1 to be delivered first" in spoken
    assert "its cause p1#1" in spoken


@both_forms
def test_what_is_finished_is_forgotten(form: str) -> None:
    world = World("memory", group_of(5), FORMS[form])
    rounds = (50, 450) if form == "ring" else (20, 80)
    early, late = (kept_after(world, count) for count in rounds)
    assert early == late
    assert all(one["ids"] == one["texts"] == 0 for one in early)


@both_forms
@pytest.mark.parametrize("size", range(1, 8))
def test_the_guarantees_hold_in_random_runs_with_every_fault(size: int, form: str) -> None:
    plan = harsh(size, broadcasts=10, texts=(b"", b"same", b"same"))
    seeds = range(60 if form == "ring" else 20)
    assert len(list(runs_that_hold(plan, seeds, FORMS[form]))) == len(seeds)


# --- ring


def test_the_text_goes_to_the_successors_and_a_notice_to_the_rest() -> None:
    effects = process("p4", 5).step(Broadcast((b"x",)))
    assert sent(effects) == [
        ("gossip", ("p5", "p1", "p2"), "00010"),
        ("notice", ("p3",), "00010"),
    ]


def test_a_holder_speaks_once_and_before_it_delivers() -> None:
    p2 = process("p2", 3)
    effects = p2.step(Receive("p1", Gossip(HELLO, "100")))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Send) < kinds.index(Deliver)
    p4 = process("p4", 5)
    assert sent(p4.step(Receive("p1", Gossip(HELLO_OF_FIVE, "10000"))))
    assert sent(p4.step(Receive("p2", Gossip(HELLO_OF_FIVE, "11000")))) == []


def test_a_notice_is_never_answered_but_remembered_for_the_text() -> None:
    p5 = process("p5", 5)
    assert p5.step(Receive("p1", StageNotice(HELLO_OF_FIVE.id, "11000"))) == []
    assert p5.why(HELLO_OF_FIVE.id) == "p5 does not hold p1#1"
    effects = p5.step(Receive("p2", Gossip(HELLO_OF_FIVE, "01000")))
    assert delivered(effects) == ["p1#1"]
    assert sent(effects)[0] == ("gossip", ("p1", "p2", "p3"), "11001")


@pytest.mark.parametrize("late", [Gossip(HELLO, "111"), StageNotice(HELLO.id, "111")])
def test_what_comes_after_the_delivery_changes_nothing(late) -> None:
    p2 = process("p2", 3)
    assert delivered(p2.step(Receive("p1", Gossip(HELLO, "100")))) == ["p1#1"]
    before = p2.fingerprint()
    assert p2.step(Receive("p3", late)) == []
    assert p2.fingerprint() == before


@pytest.mark.parametrize(
    ("size", "packets"), [(1, 0), (2, 2), (3, 6), (5, 20), (10, 90), (20, 380), (50, 2450)]
)
def test_in_a_ring_everybody_says_one_thing_to_everybody(size: int, packets: int) -> None:
    run = walk(Plan(processes=size, broadcasts=1), seed=1, factory=StageGossip)
    sends = [row.packet_kind for row in run.rows if row.kind == "send"]
    assert len(sends) == packets
    assert sends.count("gossip") == (size * quorum(size) if size > 1 else 0)


# --- news


def test_only_news_is_forwarded_and_only_to_those_who_have_not_delivered() -> None:
    p2 = process("p2", 5, "news")
    first = p2.step(Receive("p1", Gossip(HELLO_OF_FIVE, "10000")))
    assert sent(first) == [("gossip", ("p1", "p3", "p4", "p5"), "11000")]
    assert p2.step(Receive("p1", Gossip(HELLO_OF_FIVE, "11000"))) == [], "nothing new in it"
    then = p2.step(Receive("p3", Gossip(HELLO_OF_FIVE, "10200")))
    assert sent(then) == [("notice", ("p3",), "12200"), ("gossip", ("p1", "p4", "p5"), "12200")]


def test_who_knows_that_all_have_delivered_forgets_and_is_not_reminded() -> None:
    p2 = process("p2", 3, "news")
    p2.step(Receive("p1", Gossip(HELLO, "100")))
    assert p2.kept()["ids"] > 0
    p2.step(Receive("p3", StageNotice(HELLO.id, "202")))
    assert p2.kept()["ids"] == 0
    for late in (Gossip(HELLO, "110"), StageNotice(HELLO.id, "110")):
        assert p2.step(Receive("p3", late)) == []
    assert p2.kept()["ids"] == 0


@pytest.mark.parametrize("size", [3, 5, 10])
def test_news_costs_about_the_cube_of_the_group(size: int) -> None:
    plan = Plan(processes=size, broadcasts=1, delay_ms_min=1, delay_ms_max=1)
    packets = sum(row.kind == "send" for row in walk(plan, 1, factory=FORMS["news"]).rows)
    assert size * (size - 1) < packets <= 1.5 * size**3


def test_a_crashed_member_keeps_messages_from_being_forgotten_but_stirs_no_storm() -> None:
    world = World("crash", group_of(3), FORMS["news"])
    world.apply(Crash("p3"))
    for number in range(1, 4):
        rows = world.apply(Speak("p1", b"x"))
        for choice in until_quiet(world):
            rows += world.apply(choice)
        assert [row.process for row in rows if row.kind == "deliver"] == ["p2", "p1"]
        assert sum(row.kind == "send" for row in rows) <= 1.5 * 3**3
        assert world.processes["p1"].kept()["texts"] == number


def test_a_message_whose_predecessor_died_is_reported_and_then_left_in_peace() -> None:
    world = World("orphan", group_of(3), FORMS["news"])
    world.apply(Speak("p1", b"lost"))
    lost = tuple(world.in_flight)
    world.apply(Speak("p1", b"orphan"))
    world.apply(Crash("p1", lost))
    rows = [row for choice in until_quiet(world) for row in world.apply(choice)]
    assert not [row for row in rows if row.kind == "deliver"]
    assert sum(row.kind == "send" for row in rows) <= 1.5 * 3**3
    assert world.processes["p2"].why(MessageId("p1", 2)) == (
        "p1#2 waits at p2 for p1#1 to be delivered first"
    )
