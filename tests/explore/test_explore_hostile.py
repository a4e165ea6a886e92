"""Processes made to mislead the explorer: each breaks something in a way that is easily missed."""

import signal
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Deliver,
    Effect,
    Halt,
    Message,
    MessageId,
    Packet,
    Persist,
    Process,
    Receive,
    Refuse,
    Replay,
    Send,
    SetTimer,
    Start,
    Timeout,
    UsageError,
)
from tidings.explore import ALL, Explored, Scope, crew, expand, explore, search
from tidings.explore.branch import Branch
from tidings.explore.expand import Explorer
from tidings.explore.reactions import NotInertError
from tidings.simulator import choices
from tidings.simulator.choices import Link, PacketId
from tidings.spec import Guarantee, Value

WAYS = [frozenset(ALL), frozenset()]
"""With every reduction, and without any."""

Explore = Callable[..., list[Explored]]


@pytest.fixture
def explored(monkeypatch: pytest.MonkeyPatch) -> Explore:
    def run(kind: type[Process], **scope: Any) -> list[Explored]:
        monkeypatch.setattr(expand, "factory", lambda name, options: kind)
        return [
            explore(
                Scope(protocol=kind.__name__, **scope),
                reductions=reductions,
                workers=1,
                keep_going=True,
            )
            for reductions in WAYS
        ]

    return run


def broken(results: list[Explored]) -> list[set[str]]:
    return [{what.value for what in result.found} for result in results]


def agreed(results: list[Explored]) -> set[str]:
    """What is found in both ways alike."""
    one, other = broken(results)
    assert one == other
    return one


class Word(Packet, frozen=True, tag="word"):
    id: MessageId
    text: bytes


class Tick(Packet, frozen=True, tag="tick"):
    number: int = 0


class Speaker(Process):
    """Names its messages; what it does with them is up to the others.

    What a class keeps beside that stands in its head, as it is at the start.
    """

    keeps: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **keeps: Any) -> None:
        cls.keeps = cls.keeps | keeps

    def __init__(self, me, members, choose):
        super().__init__(me, members, choose)
        self.seq = 0
        vars(self).update(self.keeps)

    def accepted(self, event: Broadcast) -> tuple[Message, list[Effect]]:
        self.seq += 1
        message = Message(self.me, self.seq, event.texts[0])
        return message, [Accept((message.id,))]

    def spoken(self, event: Broadcast) -> tuple[Message, Word, list[Effect]]:
        """The same, with the packet that carries the message."""
        message, effects = self.accepted(event)
        return message, Word(message.id, message.text), effects


# --- groups that never come to rest


class Toggling(Speaker, on=False):
    """Its timer turns something on and off for ever; nothing is ever delivered."""

    def step(self, event):
        match event:
            case Broadcast():
                return [*self.accepted(event)[1], SetTimer("t", 1.0)]
            case Timeout():
                self.on = not self.on
                return [SetTimer("t", 1.0)]
        return []


class PingPong(Speaker):
    """Its packets go to and fro for ever; nothing is ever delivered."""

    def step(self, event):
        match event:
            case Broadcast():
                return [*self.accepted(event)[1], Send(self.others, Tick())]
            case Receive(sender, packet):
                return [Send((sender,), packet)]
        return []


@pytest.mark.parametrize(("kind", "processes"), [(Toggling, 1), (PingPong, 2)])
def test_going_round_in_circles_is_no_delivery(explored: Explore, kind, processes) -> None:
    results = explored(kind, processes=processes, broadcasts=1)
    assert broken(results) == [{"validity"}, {"validity"}]


class Dicing(Speaker, message=None):
    """Draws until the dice let it deliver."""

    def step(self, event):
        match event:
            case Broadcast():
                self.message, effects = self.accepted(event)
                return [*effects, SetTimer("t", 1.0)]
            case Timeout():
                if self.choose("now", (1, 1)) == self.luck:
                    return [Deliver((self.message,))]
                return [SetTimer("t", 1.0)]
        return []


@pytest.mark.parametrize("luck", [0, 1])
def test_dice_may_yet_fall_otherwise(explored: Explore, luck: int) -> None:
    kind = type("Lucky", (Dicing,), {"luck": luck})
    for result in explored(kind, processes=1, broadcasts=1):
        assert not result.found
        assert result.verdict(Guarantee.NO_DUPLICATION) is Value.HOLDS
        assert result.verdict(Guarantee.VALIDITY) is not Value.VIOLATED


class Growing(Speaker):
    """Counts for ever."""

    def step(self, event):
        match event:
            case Broadcast():
                return [*self.accepted(event)[1], SetTimer("t", 1.0)]
            case Timeout():
                self.seq += 1
                return [SetTimer("t", 1.0)]
        return []


def test_what_grows_for_ever_is_cut_not_judged(explored: Explore) -> None:
    for result in explored(Growing, processes=1, broadcasts=1, depth=20):
        assert not result.found
        assert result.verdict(Guarantee.VALIDITY) is Value.UNKNOWN


# --- order, and what is easily taken for it


class CopyCounting(Speaker, copies=0, answer=False):
    """p2 speaks up on the second of two equal packets; p3 then repeats itself."""

    def step(self, event):
        match event:
            case Broadcast():
                message, word, effects = self.spoken(event)
                to = (("p2",), ("p2",), ("p3",)) if self.me == "p1" else ()
                return [*effects, *(Send(one, word) for one in to), Deliver((message,))]
            case Receive(_, Word(name, text)) if self.me == "p2":
                self.copies += 1
                if self.copies == 1:
                    return [Deliver((Message(*name, text),))]
                return [Send(("p3",), Tick())]
            case Receive(_, Word(name, text)):
                delivery = Deliver((Message(*name, text),))
                again = [delivery] if self.answer else []
                return [delivery, Send(("p1",), Tick(9)), *again]
            case Receive(_, Tick()):
                self.answer = self.me == "p3"
        return []


def test_the_second_of_two_equal_packets_may_matter(explored: Explore) -> None:
    assert "no duplication" in agreed(explored(CopyCounting, processes=3, broadcasts=1))


class TalkingToItself(Speaker):
    """Goes on talking to itself, so that its word to the others always comes later."""

    def step(self, event):
        match event:
            case Broadcast():
                message, word, effects = self.spoken(event)
                return [*effects, Deliver((message,)), Send((self.me,), Tick()),
                        Send(self.others, word)]  # fmt: skip
            case Receive(_, Tick()):
                return [Send((self.me,), Tick())]
            case Receive(_, Word(name, text)):
                return [Deliver((Message(*name, text),) * 2)]
        return []


def test_nobody_is_kept_waiting_for_ever(explored: Explore) -> None:
    assert "no duplication" in agreed(explored(TalkingToItself, processes=2, broadcasts=1))


class Halting(Speaker):
    """p2 passes the word on to p3 and halts a little later; what it sent may be lost with it."""

    def step(self, event):
        match event:
            case Broadcast() if self.me != "p1":
                return [Refuse("only p1 speaks")]
            case Broadcast():
                message, word, effects = self.spoken(event)
                return [*effects, Send(("p2",), word), Deliver((message,))]
            case Receive(_, Word(name, text)) if self.me == "p2":
                word = Word(name, text)
                return [Deliver((Message(*name, text),)), Send(("p1",), Tick(1)),
                        Send(("p3",), word)]  # fmt: skip
            case Receive(_, Word(name, text)):
                return [Deliver((Message(*name, text),)), Send(("p1",), Tick(7))]
            case Receive(_, Tick(1)):
                return [Send(("p2",), Tick(2))]
            case Receive(_, Tick(2)):
                return [Halt("enough")]
        return []


def test_what_one_who_halts_had_sent_may_be_lost(explored: Explore) -> None:
    results = explored(Halting, processes=3, broadcasts=1)
    assert broken(results) == [{"uniform agreement"}, {"uniform agreement"}]
    for result in results:
        (run,) = result.found.values()
        assert "drop" in bytes(run.manifest.schedule).decode()


class Alarmed(Speaker, alarmed=False):
    """p3's alarm goes off at any moment; p2 repeats itself if it hears it before the word."""

    def step(self, event):
        match event:
            case Start() if self.me == "p3":
                return [SetTimer("alarm", 1.0)]
            case Timeout():
                return [Send(("p2",), Tick())]
            case Broadcast() if self.me != "p1":
                return [Refuse("only p1 speaks")]
            case Broadcast():
                message, word, effects = self.spoken(event)
                return [*effects, Deliver((message,)), Send(("p2",), word)]
            case Receive(_, Tick()):
                self.alarmed = True
            case Receive(_, Word(name, text)):
                return [Deliver((Message(*name, text),) * (2 if self.alarmed else 1))]
        return []


class Hesitating(Speaker, answer=False):
    """p2 says nothing at once, but sets a timer, and p3 repeats itself if it hears it first."""

    def step(self, event):
        match event:
            case Broadcast() if self.me != "p1":
                return [Refuse("only p1 speaks")]
            case Broadcast():
                message, word, effects = self.spoken(event)
                return [*effects, Deliver((message,)), Send(self.others, word)]
            case Receive(_, Word(name, text)) if self.me == "p2":
                return [Deliver((Message(*name, text),)), SetTimer("soon", 1.0)]
            case Timeout():
                return [Send(("p3",), Tick())]
            case Receive(_, Tick()) if self.me == "p3":
                self.answer = True
            case Receive(_, Word(name, text)):
                times = 2 if self.answer else 1
                return [Deliver((Message(*name, text),) * times), Send(("p1",), Tick())]
        return []


@pytest.mark.parametrize("kind", [Alarmed, Hesitating])
def test_a_timer_may_run_out_before_a_packet_arrives(explored: Explore, kind) -> None:
    for found in broken(explored(kind, processes=3, broadcasts=1)):
        assert "no duplication" in found


class HandingOn(Speaker):
    """p1 speaks and dies; p2 hands on to p3, and nobody to p2: bad if only p3's packet arrives."""

    def step(self, event):
        match event:
            case Broadcast() if self.me != "p1":
                return [Refuse("only p1 speaks")]
            case Broadcast():
                _, word, effects = self.spoken(event)
                return [*effects, Send(self.others, word), Halt("last words")]
            case Receive(_, Word(name, text) as word) if self.seq < 2:
                self.seq = 2
                on = [Send(("p3",), word)] if self.me == "p2" else []
                return [*on, Deliver((Message(*name, text),))]
        return []


def test_a_packet_that_may_be_lost_is_not_waited_for(explored: Explore) -> None:
    results = explored(HandingOn, processes=3, broadcasts=1)
    assert broken(results) == [{"uniform agreement"}, {"uniform agreement"}]


# --- packets that seem to make no difference


class Sleeping(Speaker, awake=False):
    """p2 takes no notice of a word, until it is woken up: then it makes too much of it."""

    def step(self, event):
        match event:
            case Broadcast() if self.me != "p1":
                return [Refuse("only p1 speaks")]
            case Broadcast():
                message, word, effects = self.spoken(event)
                packet = word if self.seq == 1 else Tick()
                return [*effects, Deliver((message,)), Send(self.others, packet)]
            case Receive(_, Tick()):
                self.awake = True
            case Receive(_, Word(name, text)) if self.awake:
                return [Deliver((Message(*name, text),) * 2)]
        return []


def test_what_is_ignored_now_may_matter_later(explored: Explore) -> None:
    one, other = explored(Sleeping, processes=2, broadcasts=2)
    assert one.lively == ("word",)
    for found in broken([one, other]):
        assert "no duplication" in found


def test_what_one_assumes_all_are_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: list[int] = []
    share = crew.Crew._share_expectations

    def counted(self: crew.Crew, expectations: list[list[Any]]) -> None:
        answer.append(sum(map(len, expectations)))
        share(self, expectations)

    monkeypatch.setattr(crew.Crew, "_share_expectations", counted)
    monkeypatch.setattr(search, "ENOUGH_FOR_SEVERAL", 2)
    monkeypatch.setattr(crew, "TICK_SECONDS", 0.001)
    scope = Scope(processes=3, broadcasts=2)
    assert explore(scope, workers=2).pace.states == explore(scope, workers=1).pace.states
    assert sum(answer) > 10


def test_workers_end_in_a_program_that_has_its_own_use_for_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "ENOUGH_FOR_SEVERAL", 2)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        assert explore(Scope(processes=3, broadcasts=2), workers=2).cut == ""
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_assumption_of_another_is_checked_here() -> None:
    explorers = []
    for _ in range(2):
        explorer = Explorer(Scope(processes=2, broadcasts=2), frozenset())
        explorer.factory = Sleeping
        explorers.append(explorer)
    one, other = explorers
    (start,) = one.first()
    (spoken,) = start.after(choices.UserBroadcast("p1", b"1"))
    word = spoken.in_flight[PacketId(Link("p1", "p2"), 1)].content
    assert one.reactions.ignores(spoken.processes["p2"], "p1", word)

    (start,) = other.first()
    (spoken,) = start.after(choices.UserBroadcast("p1", b"1"))
    (again,) = spoken.after(choices.UserBroadcast("p1", b"2"))
    (_,) = again.after(choices.PacketArrival(PacketId(Link("p1", "p2"), 2)))
    with pytest.raises(NotInertError):
        other.reactions.learn(one.reactions.expectations)


class Whimsical(Speaker):
    """Whether it takes notice of a word is drawn; more often than not it does nothing."""

    def step(self, event):
        match event:
            case Broadcast():
                message, word, effects = self.spoken(event)
                return [*effects, Deliver((message,)), Send(self.others, word)]
            case Receive(_, Word(name, text)) if self.choose("whim", (9, 1)) == 1:
                return [Deliver((Message(*name, text),) * 2)]
        return []


def test_what_makes_a_difference_if_the_dice_will_is_not_ignored(explored: Explore) -> None:
    for found in broken(explored(Whimsical, processes=2, broadcasts=1)):
        assert "no duplication" in found


# --- what belongs to a state


class Refusing(Speaker, phase=0):
    """Refuses, or lets two timers pass: then it is in the same state, but may not speak again."""

    def step(self, event):
        match event:
            case Start():
                return [SetTimer("a", 1.0), SetTimer("b", 1.0)]
            case Broadcast() if self.phase == 0:
                self.phase = 2
                return [Refuse("no"), CancelTimer("a"), CancelTimer("b")]
            case Broadcast():
                message, effects = self.accepted(event)
                return [*effects, *([Deliver((message,))] if self.phase == 1 else [])]
            case Timeout("a"):
                self.phase = 1
            case Timeout("b") if self.phase == 1:
                self.phase = 2
            case Timeout("b"):
                return [SetTimer("b", 1.0)]
        return []


def test_who_was_refused_has_spoken_all_the_same(explored: Explore) -> None:
    results = explored(Refusing, processes=1, broadcasts=1)
    assert broken(results) == [{"validity"}, {"validity"}]


class Forgetful(Speaker):
    """Keeps no account of anything but a timer, a packet, a record."""

    recovers = True

    def step(self, event):
        match event:
            case Broadcast((b"timer",)):
                return [Refuse("no"), SetTimer("t", 1.0)]
            case Broadcast((b"packet",)):
                return [Refuse("no"), Send(self.others, Tick())]
            case Broadcast((b"record",)):
                return [Refuse("no"), Persist(("written",))]
            case Broadcast((text,)):
                return [Accept((MessageId(self.me, int(text)),))]
            case Receive(_, Word(name, text)):
                return [Deliver((Message(*name, text),))]
        return []


def state_after(*moves: choices.Choice, **scope: Any) -> Branch:
    explorer = Explorer(Scope(protocol="frontier", processes=3, **scope), frozenset())
    explorer.factory = Forgetful
    (branch,) = explorer.first()
    for move in moves:
        (branch,) = branch.after(move)
    return branch


def says(text: bytes, process: str = "p1") -> choices.UserBroadcast:
    return choices.UserBroadcast(process, text)


def arrives(number: int, link: Link = Link("p1", "p2")) -> choices.PacketArrival:  # noqa: B008
    return choices.PacketArrival(PacketId(link, number))


@pytest.mark.parametrize("what", [b"timer", b"packet", b"record"])
def test_timers_packets_and_records_belong_to_a_state(what: bytes) -> None:
    scope = {"crashes": 1, "restarts": 1} if what == b"record" else {}
    one, other = (state_after(says(text), **scope) for text in (what, b"1"))
    assert one.processes == other.processes
    assert one.total() - one.judged != other.total() - other.judged


def test_how_many_packets_were_sent_belongs_to_a_state_where_they_are_limited() -> None:
    both = [arrives(1), arrives(1, Link("p1", "p3"))]
    totals = {}
    for limit in (None, 9):
        idle, busy = (
            state_after(says(b"timer"), *moves, max_packets=limit)
            for moves in ([], [says(b"packet"), *both])
        )
        totals[limit] = (idle.total() - idle.judged, busy.total() - busy.judged)
    assert totals[None][0] == totals[None][1]
    assert totals[9][0] != totals[9][1]


def test_how_many_packets_came_twice_belongs_to_a_state() -> None:
    twice = [choices.Duplicate(PacketId(Link("p1", "p2"), 1)), arrives(1)]
    one, other = (state_after(says(b"packet"), *moves) for moves in ([arrives(1)], twice))
    assert one.total() != other.total()


def test_what_a_message_depends_on_belongs_to_a_state() -> None:
    """p1 speaks before, or after, it has spoken once already."""
    one, other = (state_after(says(a), says(b)) for a, b in ((b"1", b"2"), (b"2", b"1")))
    assert one.processes == other.processes
    assert one.digests.keys() == other.digests.keys()
    assert one.total() != other.total()


def test_whether_a_packet_may_be_lost_belongs_to_a_state() -> None:
    scope = {"crashes": 1, "restarts": 1}
    ends = [choices.Crash("p1"), choices.Recover("p1")]
    early, late = (
        state_after(*moves, **scope)
        for moves in ([says(b"packet"), *ends], [*ends, says(b"packet")])
    )
    assert early.processes == late.processes
    assert early.total() != late.total()


class DrawingAtTheStart(Speaker, good=True):
    """Whether it delivers is drawn as it starts."""

    def step(self, event):
        match event:
            case Start():
                self.good = self.choose("good", (1, 1)) == 0
                return []
            case Broadcast():
                message, effects = self.accepted(event)
                return [*effects, *([Deliver((message,))] if self.good else [])]
        return []


@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_drawn_at_the_start_is_drawn_in_every_way(explored: Explore, processes) -> None:
    for found in broken(explored(DrawingAtTheStart, processes=processes, broadcasts=1)):
        assert "validity" in found


class DrawingTooEarly(Speaker):
    def __init__(self, me, members, choose):
        super().__init__(me, members, choose)
        self.good = choose("good", (1, 1)) == 0

    def step(self, event):
        return []


def test_what_is_drawn_before_the_start_cannot_be_explored(explored: Explore) -> None:
    with pytest.raises(UsageError, match="draw at its Start"):
        explored(DrawingTooEarly, processes=1, broadcasts=0)


class BrokenFromTheStart(Speaker):
    def step(self, event):
        match event:
            case Start():
                return [Deliver((Message("p9", 1, b"x"),))]
        return []


def test_the_first_state_is_judged_too(explored: Explore) -> None:
    results = explored(BrokenFromTheStart, processes=1, broadcasts=0)
    assert broken(results) == [{"no creation"}, {"no creation"}]


class Repeating(Speaker):
    """Delivers its own message twice, and tells nobody."""

    def step(self, event):
        if isinstance(event, Broadcast):
            message, effects = self.accepted(event)
            return [*effects, Deliver((message, message))]
        return []


def test_what_was_not_looked_at_is_unknown(explored: Explore) -> None:
    for result in explored(Repeating, processes=2, broadcasts=1):
        assert result.verdict(Guarantee.NO_DUPLICATION) is Value.VIOLATED
        assert result.verdict(Guarantee.UNIFORM_AGREEMENT) is Value.UNKNOWN


# --- those who come back


class Returning(Speaker):
    recovers = True


class TwoLives(Returning, copies=0, done=False):
    """Needs two copies to arrive; after a crash it sends one, equal to those of its first life."""

    def step(self, event):
        match event:
            case Start(recovered=records) if records:
                self.seq, self.done = 1, len(records) > 1
                return [Send(self.others, Word(MessageId(self.me, 1), b"1"))]
            case Broadcast() if self.me != "p1" or self.seq:
                return [Refuse("no")]
            case Broadcast():
                message, effects = self.accepted(event)
                send = Send(self.others, Word(message.id, message.text))
                return [Persist(("said",)), *effects, send, send]
            case Receive(sender, Word()):
                self.copies += 1
                return [Send((sender,), Tick())] if self.copies >= 2 else []
            case Receive(_, Tick()) if not self.done:
                self.done = True
                return [Persist(("done",)), Deliver((Message(self.me, 1, b"1"),))]
        return []


def test_a_packet_of_an_earlier_life_may_be_lost_and_its_equal_arrive(explored: Explore) -> None:
    scope = {"processes": 3, "broadcasts": 1, "crashes": 1, "restarts": 1}
    assert "validity" in agreed(explored(TwoLives, **scope))


class WritingFirst(Returning):
    """[Persist, Accept, Send, Deliver]: who dies after the Send never delivers its own."""

    def step(self, event):
        match event:
            case Start(recovered=records) if records:
                self.seq = len(records)
                return [Replay({}, {self.me: self.seq})]
            case Broadcast():
                message, effects = self.accepted(event)
                send = Send(self.others, Word(message.id, message.text))
                persist = Persist(((message.id, message.text),))
                return [persist, *effects, send, Deliver((message,))]
            case Receive(_, Word(name, text)):
                return [Deliver((Message(*name, text),))]
        return []


def test_who_comes_back_may_have_died_between_any_two_effects(explored: Explore) -> None:
    scope = {"processes": 3, "broadcasts": 1, "crashes": 1, "restarts": 1}
    for found in broken(explored(WritingFirst, **scope)):
        assert "validity" in found


class OddRecords(Returning):
    """What is written down need not be hashable."""

    def step(self, event):
        if isinstance(event, Broadcast):
            message, effects = self.accepted(event)
            return [Persist(([1],)), *effects, Deliver((message,)), Halt("done")]
        return []


def test_any_records_will_do_and_who_halts_is_not_torn_for_ever(explored: Explore) -> None:
    scope = {"processes": 3, "broadcasts": 1, "crashes": 1, "restarts": 1}
    one, other = broken(explored(OddRecords, **scope))
    assert one == other
