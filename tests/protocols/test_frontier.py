"""frontier, the protocol Tidings runs: rule by rule, then what it costs, then in bad company."""

import importlib.util
import re
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from amounts import amount
from flaw_scenes import played
from frontier_adversary import survive
from frontier_links import survive_broken_links
from frontier_runs import CheckedWorld, adversarial_plan, hold_all_guarantees
from steps import delivered, group_of
from tidings.compare import SIZES as SIZES_TOLD
from tidings.compare import Contender, measure, named_bounds
from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Halt,
    Held,
    LinkDown,
    LinkUp,
    MessageId,
    Packet,
    Persist,
    Processed,
    Recall,
    Recalled,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    SetTimer,
    Span,
    Stable,
    Start,
    Timeout,
    UsageError,
    each_id,
    quorum,
    take_first,
)
from tidings.protocols import PROTOCOLS, factory
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.exchange import MOST_DOUBLINGS, REPEAT_MS
from tidings.protocols.frontier.histories import BLOCK, Chain
from tidings.protocols.frontier.packets import (
    Asking,
    Batch,
    Commit,
    Counts,
    Data,
    Holding,
    Known,
    Pull,
    Push,
    Refusal,
    State,
    counts_of,
)
from tidings.protocols.frontier.records import Admitted, Delivered, Forgotten, Pinned, Stored
from tidings.simulator import Plan, World, choices, until_quiet, walk
from tidings.simulator.script import Script
from tidings.spec import Value, judge
from tidings.trace import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frontier.md").read_text(encoding="utf-8")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load(ROOT / "bench" / "frontier.py")
stream_row = tables.stream_row


def rows_of(name: str) -> list[list[str]]:
    """The rows of a table on the page, cell by cell."""
    lines = PAGE.split(f"<!-- {name} -->")[1].strip().splitlines()
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def process(me: str, size: int, **options: Any) -> Frontier:
    made = factory("frontier", options)(me, group_of(size), take_first)
    assert isinstance(made, Frontier)
    made.step(Start())
    return made


def ids(*names: str) -> tuple[MessageId, ...]:
    return tuple(map(MessageId.parse, names))


def some(*names: str) -> Counts:
    return Counts(some=ids(*names))


def data(first: str, *texts: str, causes: Counts | None = None, held: Counts | None = None) -> Data:
    batch = Batch(
        MessageId.parse(first), tuple(text.encode() for text in texts), causes or Counts()
    )
    return Data(batch, held or Counts())


def sent(effects: list[Effect]) -> list[tuple[tuple[str, ...], Packet]]:
    return [(effect.to, effect.packet) for effect in effects if isinstance(effect, Send)]


def persisted(effects: list[Effect]) -> list[Any]:
    return [record for e in effects if isinstance(e, Persist) for record in e.records]


def timers(effects: list[Effect]) -> dict[str, float | None]:
    """Timers set, with their delays, and timers cancelled."""
    shown: dict[str, float | None] = {}
    for effect in effects:
        if isinstance(effect, SetTimer):
            shown[effect.name] = effect.delay_ms
        elif isinstance(effect, CancelTimer):
            shown[effect.name] = None
    return shown


def the_only(kind: type, effects: list[Effect]) -> Any:
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


# --- broadcasting and holding


def test_one_process_alone_delivers_at_once() -> None:
    assert delivered(process("p1", 1).step(Broadcast((b"a", b"a")))) == ["p1#1", "p1#2"]


def test_many_messages_leave_in_one_packet_and_are_acknowledged_by_one_number() -> None:
    p1, p2 = process("p1", 3), process("p2", 3)
    ((to, packet),) = sent(p1.step(Broadcast((b"a", b"b", b"c"))))
    assert to == ("p2", "p3")
    assert packet == data("p1#1", "a", "b", "c")
    ((to, packet),) = sent(p2.step(Receive("p1", packet)))
    assert to == ("p1", "p3")
    assert packet == Holding(some("p1#3"))


def test_an_acknowledgement_rides_on_the_next_message() -> None:
    p2 = process("p2", 5)
    p2.step(Receive("p1", data("p1#1", "a")))
    assert sent(p2.step(Receive("p1", data("p1#2", "b")))) == [], "the window is open"
    ((_, packet),) = sent(p2.step(Broadcast((b"x",))))
    assert packet == data("p2#1", "x", held=some("p1#2"))
    assert sent(p2.step(Timeout("batch"))) == [], "it has been told"


def test_acknowledgements_within_a_window_leave_together_when_it_ends() -> None:
    p2 = process("p2", 5, batch_ms=7)
    assert timers(p2.step(Receive("p1", data("p1#1", "a")))) == {"batch": 7}
    p2.step(Receive("p1", data("p1#2", "b")))
    p2.step(Receive("p3", data("p3#1", "c")))
    effects = p2.step(Timeout("batch"))
    ((_, packet),) = sent(effects)
    assert packet == Holding(Counts(all=(2, 0, 1, 0, 0)))
    assert timers(effects) == {"batch": 7}
    assert p2.step(Timeout("batch")) == []


def test_while_two_holders_are_enough_only_the_origin_is_answered_at_once() -> None:
    p2 = process("p2", 4, batch_ms=0, stable_ms=50)
    effects = p2.step(Receive("p1", data("p1#1", "a")))
    assert delivered(effects) == ["p1#1"], "p1 and p2 have it"
    assert sent(effects) == [(("p1",), Holding(some("p1#1")))]
    assert timers(effects) == {"stable": 50}
    effects = p2.step(Receive("p1", data("p1#2", "b")))
    assert sent(effects) == [(("p1",), Holding(some("p1#2")))]
    assert timers(effects) == {}, "it runs already"
    assert sent(p2.step(Timeout("stable"))) == [(("p3", "p4"), Holding(some("p1#2")))]
    assert p2.step(Timeout("stable")) == []


def test_what_only_tells_what_is_stable_tells_of_all_origins_or_rides_on_a_message() -> None:
    p2 = process("p2", 3, batch_ms=0, stable_ms=50)
    p2.step(Receive("p1", data("p1#1", "a")))
    p2.step(Receive("p3", data("p3#1", "c")))
    assert sent(p2.step(Timeout("stable"))) == [(("p1", "p3"), Holding(Counts(all=(1, 0, 1))))]
    p2.step(Receive("p1", data("p1#2", "b")))
    ((to, packet),) = sent(p2.step(Broadcast((b"x",))))
    assert to == ("p1", "p3")
    assert packet.held == some("p1#2")
    assert p2.step(Timeout("stable")) == []


def test_where_two_holders_are_not_enough_all_are_answered_at_once() -> None:
    p2 = process("p2", 5, batch_ms=0, stable_ms=50)
    effects = p2.step(Receive("p1", data("p1#1", "a")))
    assert sent(effects) == [(("p1", "p3", "p4", "p5"), Holding(some("p1#1")))]
    assert timers(effects) == {}


def test_of_an_origin_that_restarted_all_are_answered_at_once() -> None:
    p2 = process("p2", 3, batch_ms=0, stable_ms=50)
    restarted = msgspec.structs.replace(data("p1#1", "a"), restarted=True)
    ((to, packet),) = sent(p2.step(Receive("p1", restarted)))
    assert to == ("p1", "p3")
    assert [origin for origin, _ in packet.digests] == ["p1"]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_so_are_they_if_it_was_answered_before_it_restarted(size: int) -> None:
    p2 = process("p2", size, batch_ms=0, stable_ms=50)
    p2.step(Receive("p1", data("p1#1", "a")))
    other = msgspec.structs.replace(data("p1#1", "b"), restarted=True)
    ((to, packet), *_) = sent(p2.step(Receive("p1", other)))
    assert to == tuple(f"p{number}" for number in range(1, size + 1) if number != 2)
    assert [origin for origin, _ in packet.digests] == ["p1"]


def test_of_two_members_neither_waits_to_speak_of_what_is_stable() -> None:
    p2 = process("p2", 2, batch_ms=0, stable_ms=50)
    effects = p2.step(Receive("p1", data("p1#1", "a")))
    assert sent(effects) == [(("p1",), Holding(Counts(all=(1, 0))))]
    assert timers(effects) == {}


def test_only_what_has_no_gap_before_it_is_acknowledged() -> None:
    p2 = process("p2", 3, batch_ms=0)
    early = p2.step(Receive("p1", data("p1#2", "b")))
    assert tuple(each_id(the_only(Held, early).ids)) == ids("p1#2")
    assert persisted(early) == [Stored(Batch(MessageId("p1", 2), (b"b",)))]
    assert sent(early) == []
    assert p2.why(MessageId("p1", 2)) == "p1#2 waits at p2 for p1#1 to arrive first"
    late = p2.step(Receive("p1", data("p1#1", "a")))
    assert sent(late) == [(("p1", "p3"), Holding(some("p1#2")))]
    assert delivered(late) == ["p1#1", "p1#2"]


def test_what_arrives_twice_is_held_once() -> None:
    p2 = process("p2", 3)
    p2.step(Receive("p1", data("p1#1", "a", "b")))
    assert p2.step(Receive("p1", data("p1#1", "a", "b"))) == []
    again = p2.step(Receive("p1", data("p1#2", "b", "c")))
    assert tuple(each_id(the_only(Held, again).ids)) == ids("p1#3")


def test_a_message_names_what_its_origin_has_delivered_since_its_last_one() -> None:
    p2 = process("p2", 5)
    p2.step(Receive("p1", data("p1#1", "a")))
    p2.step(Receive("p3", Holding(some("p1#1"))))
    ((_, first),) = sent(p2.step(Broadcast((b"x", b"y"))))
    assert first.batch.causes == some("p1#1")
    ((_, second),) = sent(p2.step(Broadcast((b"z",))))
    assert second.batch.causes == Counts(), "nothing was delivered in between"


def test_few_changes_are_named_and_many_are_a_vector() -> None:
    counts = dict.fromkeys(("p1", "p2", "p3", "p4", "p5", "p6"), 7)
    assert counts_of(["p2", "p1"], counts) == some("p1#7", "p2#7")
    assert counts_of(["p1", "p2", "p3"], counts) == Counts(all=(7,) * 6)
    assert not counts_of([], counts)
    assert dict(counts_of(["p1", "p2", "p3"], counts).of(tuple(counts))) == counts


@pytest.mark.parametrize(("size", "mode"), [(1, "all"), (7, "all"), (8, "origin"), (20, "origin")])
def test_the_mode_follows_from_the_size_of_the_group_unless_it_is_set(size: int, mode: str) -> None:
    assert process("p1", size).mode.name == mode
    assert process("p1", size, mode="origin").mode.name == "origin"


# --- delivering and forgetting


def test_a_message_is_delivered_when_half_of_the_members_hold_it() -> None:
    p1 = process("p1", 5)
    p1.step(Broadcast((b"a",)))
    assert delivered(p1.step(Receive("p2", Holding(some("p1#1"))))) == []
    assert delivered(p1.step(Receive("p2", Holding(some("p1#1"))))) == [], "counted twice"
    assert delivered(p1.step(Receive("p3", Holding(some("p1#1"))))) == ["p1#1"]


def test_an_answer_waits_for_its_question() -> None:
    p3 = process("p3", 3)
    answer = data("p2#1", "that way", causes=some("p1#1"))
    assert delivered(p3.step(Receive("p2", answer))) == []
    assert p3.why(MessageId("p2", 1)) == "p2#1 waits at p3 for its cause p1#1"
    assert p3.describe()["waiting"] == ["p2#1 waits at p3 for its cause p1#1"]
    assert delivered(p3.step(Receive("p1", data("p1#1", "which?")))) == ["p1#1", "p2#1"]


def test_what_everybody_holds_is_forgotten() -> None:
    p1 = process("p1", 3)
    p1.step(Broadcast((b"a", b"b")))
    p1.step(Receive("p2", Holding(some("p1#2"))))
    assert p1.log.texts["p1"] == [b"a", b"b"]
    effects = p1.step(Receive("p3", Holding(some("p1#1"))))
    assert the_only(Stable, effects).upto == {"p1": 1}
    assert p1.log.texts["p1"] == [b"b"]
    assert persisted(effects) == [Forgotten((1, 0, 0))]
    assert isinstance(effects[-1], Persist), "nothing waits for it"


def test_a_step_writes_first_then_delivers_then_speaks() -> None:
    p2 = process("p2", 3)
    kinds = [type(effect) for effect in p2.step(Receive("p1", data("p1#1", "a")))]
    assert kinds == [Persist, Held, Deliver, Send, SetTimer]
    kinds = [type(effect) for effect in process("p1", 2).step(Broadcast((b"a",)))]
    assert kinds == [Persist, Accept, Held, Deliver, Send]


def test_what_is_delivered_is_on_disk_before_it_is_handed_over() -> None:
    effects = process("p2", 3).step(Receive("p1", data("p1#1", "a")))
    assert persisted(effects) == [
        Stored(Batch(MessageId("p1", 1), (b"a",))),
        Delivered((1, 0, 0)),
    ]


# --- fetching


def missing_two(size: int = 5) -> Frontier:
    """p5, who knows that p2 holds two messages of p1."""
    p5 = process(f"p{size}", size)
    assert timers(p5.step(Receive("p2", Holding(some("p1#2"))))) == {"pull": 100}
    return p5


def test_what_another_holds_is_given_time_to_come_by_itself() -> None:
    p5 = missing_two()
    assert p5.why(MessageId("p1", 2)) == "p5 does not hold p1#2; p1, p2 could supply it"
    effects = p5.step(Receive("p1", data("p1#1", "a", "b")))
    assert timers(effects)["pull"] is None


def test_holders_are_asked_one_after_the_other_and_the_origin_last() -> None:
    p5 = missing_two()
    p5.step(Receive("p3", Holding(some("p1#1"))))
    first = p5.step(Timeout("pull"))
    assert sent(first) == [(("p2",), Pull((Span("p1", 1, 2),)))]
    assert timers(first) == {"pull": 100}
    assert sent(p5.step(Timeout("pull"))) == [(("p3",), Pull((Span("p1", 1, 1),)))]
    last = p5.step(Timeout("pull"))
    assert sent(last) == [(("p1",), Pull((Span("p1", 1, 2),)))]
    assert timers(last) == {}, "nobody is left to be asked"


def test_of_several_who_could_help_any_is_drawn() -> None:
    drawn = []

    def choose(label: str, weights: Any) -> int:
        drawn.append((label, len(weights)))
        return 1

    p5 = missing_two()
    p5.choose = choose
    p5.step(Receive("p3", Holding(some("p1#2"))))
    ((to, _),) = sent(p5.step(Timeout("pull")))
    assert to == ("p3",)
    assert drawn == [("holder", 2)]


def test_one_who_was_asked_for_one_message_is_asked_for_the_next_too() -> None:
    p5 = missing_two()
    p5.step(Timeout("pull"))
    p5.step(Receive("p1", data("p1#1", "a")))
    assert sent(p5.step(Timeout("pull"))) == [(("p2",), Pull((Span("p1", 2, 2),)))]


def test_only_the_gap_is_asked_for() -> None:
    p5 = missing_two()
    p5.step(Receive("p1", data("p1#2", "b")))
    assert sent(p5.step(Timeout("pull"))) == [(("p2",), Pull((Span("p1", 1, 1),)))]


def test_who_has_answered_is_asked_for_what_is_missing_after_all_that_came() -> None:
    """Asked for what came with the next packet, it would answer nothing new, and never again."""
    p5 = process("p5", 5)
    p5.step(Receive("p2", Holding(some("p1#9"))))
    p5.step(Receive("p1", data("p1#3", "c")))
    p5.step(Timeout("pull"))
    answer = Push((Batch(MessageId("p1", 1), (b"a",)),))
    packets = [packet for _, packet in sent(p5.steps([
        Receive("p2", answer),
        Receive("p1", data("p1#2", "b")),
    ]))]  # fmt: skip
    assert [one for one in packets if isinstance(one, Pull)] == [Pull((Span("p1", 4, 9),))]


def test_a_run_in_which_nobody_asked_again_ends() -> None:
    """Found by the adversary, in 25,000 runs: a PUSH and what it left out came in one tick."""
    survive([1_010_071])


def test_what_is_asked_for_is_given_as_its_origin_broadcast_it() -> None:
    p2 = process("p2", 5)
    p2.step(Receive("p1", data("p1#1", "a", "b")))
    p2.step(Receive("p1", data("p1#3", "c", causes=some("p4#1"))))
    ((to, push),) = sent(p2.step(Receive("p5", Pull((Span("p1", 2, 9),)))))
    assert to == ("p5",)
    assert push == Push(
        (
            Batch(MessageId("p1", 2), (b"b",)),
            Batch(MessageId("p1", 3), (b"c",), some("p4#1")),
        )
    )


def test_what_is_forgotten_is_asked_for_by_nobody_but_late_packets() -> None:
    p1 = process("p1", 2)
    p1.step(Broadcast((b"a",)))
    p1.step(Receive("p2", Holding(some("p1#1"))))
    assert p1.step(Receive("p2", Pull((Span("p1", 1, 1),)))) == []


def test_a_long_history_is_fetched_in_pieces_one_at_a_time() -> None:
    p1, p2 = process("p1", 3, push_bytes=1_000), process("p2", 3)
    p1.step(Broadcast((b"x" * 500,) * 5))
    p2.step(Receive("p3", Holding(some("p1#5"))))
    p2.step(Timeout("pull"))
    ((to, packet),) = sent(p2.step(Timeout("pull")))
    pushes = 0
    while isinstance(packet, Pull):
        assert to == ("p1",)
        ((_, push),) = sent(p1.step(Receive("p2", packet)))
        pushes += 1
        answers = sent(p2.step(Receive("p1", push)))
        ((to, packet),) = [one for one in answers if isinstance(one[1], Pull)] or [((), None)]
    assert pushes == 3
    assert p2.log.held["p1"] == 5


# --- mode origin


def test_a_holder_tells_the_origin_and_the_origin_tells_everybody() -> None:
    p1, p2, p3 = (process(f"p{number}", 3, mode="origin") for number in (1, 2, 3))
    ((_, packet),) = sent(p1.step(Broadcast((b"a",))))
    assert sent(p2.step(Receive("p1", packet))) == [(("p1",), Holding(some("p1#1")))]
    first = p1.step(Receive("p2", Holding(some("p1#1"))))
    assert sent(first) == []
    assert timers(first) == {"commit": 5}, "the rest may be here in a moment"
    p3.step(Receive("p1", packet))
    second = p1.step(Receive("p3", Holding(some("p1#1"))))
    commit = Commit((Known("p1", 1, 1),))
    assert sent(second) == [(("p2", "p3"), commit)]
    assert timers(second) == {"commit": None}
    assert timers(p2.step(Receive("p1", commit))) == {"ask": None}


def test_an_origin_with_a_majority_does_not_wait_for_the_rest() -> None:
    p1 = process("p1", 3, mode="origin")
    p1.step(Broadcast((b"a",)))
    p1.step(Receive("p2", Holding(some("p1#1"))))
    assert sent(p1.step(Timeout("commit"))) == [
        (("p2", "p3"), Commit((Known("p1", 1, 0, 1, ("p3",)),)))
    ]


def test_what_is_safe_rides_on_the_next_message() -> None:
    p1 = process("p1", 3, mode="origin")
    p1.step(Broadcast((b"a",)))
    p1.step(Receive("p2", Holding(some("p1#1"))))
    effects = p1.step(Broadcast((b"b",)))
    ((_, packet),) = sent(effects)
    assert packet.commit == (Known("p1", 1, 0),)
    assert timers(effects) == {"commit": None}


def asked_by_p2(size: int = 5) -> Frontier:
    """p3, who holds a message of p1 and hears p2 ask about it."""
    p3 = process("p3", size, mode="origin")
    p3.step(Receive("p1", data("p1#1", "a")))
    assert sent(p3.step(Receive("p2", Asking(some("p1#1"))))) == []
    return p3


def test_a_member_that_hears_nothing_in_time_asks_everybody() -> None:
    p3 = process("p3", 5, mode="origin")
    assert timers(p3.step(Receive("p1", data("p1#1", "a")))) == {"ask": 200}
    ((to, packet),) = sent(p3.step(Timeout("ask")))
    assert to == ("p1", "p2", "p4", "p5")
    assert packet == Asking(some("p1#1"), p3.comparison.digests(["p1"]))
    assert p3.timers.running == set()


def test_who_knows_that_it_is_stable_says_so() -> None:
    p3 = process("p3", 5, mode="origin")
    p3.step(Receive("p1", data("p1#1", "a")))
    p3.step(Receive("p1", Commit((Known("p1", 1, 1),))))
    answer = sent(p3.step(Receive("p2", Asking(some("p1#1")))))
    assert answer == [(("p2",), Commit((Known("p1", 1, 1),)))]


def test_who_was_asked_too_early_asks_everybody_although_it_hears_of_it() -> None:
    p3 = asked_by_p2()
    assert timers(p3.step(Receive("p1", Commit((Known("p1", 1, 1),))))) == {}
    ((_, packet),) = sent(p3.step(Timeout("ask")))
    assert packet == Asking(some("p1#1"), p3.comparison.digests(["p1"]))
    assert p3.mode.heard == {}


def test_a_question_is_not_answered_by_holding_less() -> None:
    p3 = process("p3", 5, mode="origin")
    p3.step(Receive("p1", data("p1#1", "a")))
    p3.step(Receive("p2", Asking(some("p1#2"))))
    p3.step(Timeout("ask"))
    assert p3.mode.heard == {"p1": 2}
    p3.step(Receive("p1", data("p1#2", "b")))
    p3.step(Receive("p1", Commit((Known("p1", 2, 2),))))
    assert "ask" in p3.timers.running, "p2 waits to hear that two are held here"


# --- links


def test_when_a_link_comes_up_each_side_tells_all_it_knows() -> None:
    p1, p2 = process("p1", 3), process("p2", 3)
    p1.step(Broadcast((b"a",)))
    p1.step(Receive("p3", Holding(some("p1#1"))))
    ((to, state),) = sent(p1.step(LinkUp("p2", 0)))
    assert to == ("p2",)
    bare = msgspec.structs.replace(state, digests=())
    assert bare == State(held=(1, 0, 0), safe=(1, 0, 0), stable=(0, 0, 0), yours=(0, 0, 0))
    assert state.digests == (Chain().extended((b"a",)).at(1), b"", b"")
    assert timers(p2.step(Receive("p1", state))) == {"pull": 100}
    ((_, state),) = sent(p2.step(LinkUp("p1", 0)))
    assert sent(p1.step(Receive("p2", state))) == []


def test_a_member_that_repeats_its_state_learns_what_it_lacks() -> None:
    p1 = process("p1", 3)
    p1.step(Broadcast((b"a",)))
    p1.step(Receive("p3", Holding(some("p1#1"))))
    same = State((0, 0, 0), (1, 0, 0), (0, 0, 0), (1, 0, 0), asks=True)
    assert sent(p1.step(Receive("p2", same))) == []
    behind = State((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0), asks=True)
    assert sent(p1.step(Receive("p2", behind))) == [
        (("p2",), Holding(some("p1#1"))),
        (("p2",), Commit((Known("p1", 1, 0),))),
    ]


def test_who_was_asked_before_the_link_broke_is_asked_again() -> None:
    p5 = missing_two()
    p5.step(Timeout("pull"))
    p5.step(LinkDown("p2"))
    p5.step(Timeout("pull"))
    assert timers(p5.step(LinkUp("p2", 0))) == {"pull": 100}
    assert sent(p5.step(Timeout("pull"))) == [(("p2",), Pull((Span("p1", 1, 2),)))]


def on_lossy_links(me: str, size: int, **options: Any) -> Frontier:
    made = process(me, size, **options)
    made.step(Start(lossy=True))
    return made


def test_on_lossy_links_state_is_repeated_less_and_less_often() -> None:
    p1 = on_lossy_links("p1", 3)
    delays = [timers(p1.step(Broadcast((b"a",))))["repeat"]]
    p1.step(Receive("p2", Holding(some("p1#1"))))
    for _ in range(MOST_DOUBLINGS + 2):
        effects = p1.step(Timeout("repeat"))
        ((to, packet),) = sent(effects)
        assert to == ("p3",), "p2 is known to hold the same"
        assert packet.kind == "state"
        delays.append(timers(effects)["repeat"])
    assert delays == [REPEAT_MS * 2**n for n in (0, 1, 2, 3, 4, 5, 5, 5)]
    assert timers(p1.step(Receive("p3", Holding(some("p1#1"))))) == {"repeat": None}
    assert p1.exchange.doublings == 0


def test_links_that_are_down_are_not_probed() -> None:
    p1 = on_lossy_links("p1", 3)
    p1.step(Broadcast((b"a",)))
    p1.step(LinkDown("p2"))
    assert [to for to, _ in sent(p1.step(Timeout("repeat")))] == [("p3",)]
    assert timers(p1.step(LinkDown("p3"))) == {"repeat": None}


def test_news_brings_the_repetitions_forward() -> None:
    p1 = on_lossy_links("p1", 3)
    p1.step(Broadcast((b"a",)))
    for _ in range(4):
        p1.step(Timeout("repeat"))
    assert timers(p1.step(Broadcast((b"b",))))["repeat"] == REPEAT_MS


def test_on_links_that_lose_nothing_nothing_is_repeated() -> None:
    p1 = process("p1", 3)
    assert timers(p1.step(Broadcast((b"a",)))) == {}


# --- coming back


def reborn(records: list[Any], me: str = "p2", size: int = 3, incarnation: int = 0, **options: Any):
    made = factory("frontier", options)(me, group_of(size), take_first)
    return made, made.step(Start(incarnation, recovered=tuple(records)))


def life(one: Frontier, *events: Event) -> list[Any]:
    """What the process persisted, step by step."""
    return [record for event in events for record in persisted(one.step(event))]


EVENTS = (
    Receive("p1", data("p1#1", "a", "b")),
    Broadcast((b"x",)),
    Receive("p1", Holding(some("p2#1"))),
    Receive("p3", data("p3#2", "early")),
    Receive("p3", Holding(some("p1#1"))),
)


def test_a_restart_continues_where_the_disk_says() -> None:
    before = process("p2", 3)
    after, effects = reborn(life(before, *EVENTS))
    assert effects == []
    for name in ("held", "delivered", "texts", "early", "causes", "forgotten"):
        assert getattr(after.log, name) == getattr(before.log, name), name
    assert before.log.forgotten == {"p1": 1, "p2": 0, "p3": 0}
    after.step(Receive("p3", NOTHING_YET))
    ((_, packet),) = sent(after.step(Broadcast((b"y",))))
    assert packet.batch.id == MessageId("p2", 2)
    assert packet.batch.causes == some("p1#2"), "all of it: who knows what was said before"


def test_few_records_stand_for_all_of_them() -> None:
    before = process("p2", 3)
    records = life(before, *EVENTS)
    long, _ = reborn(records)
    short, _ = reborn(list(before.compacted(records)))
    assert short == long
    assert len(before.compacted(records * 3)) == len(before.compacted(records))


def test_a_checkpoint_and_the_messages_it_still_needs_stand_for_all_records() -> None:
    before = process("p2", 3, until_processed=True)
    records = life(before, *EVENTS, Processed({"p1": 1}), LinkUp("p1", 0))
    checkpoint = before.checkpoint()
    kept = [
        record
        for record in records
        if isinstance(record, Stored)
        and record.batch.last > checkpoint.forgotten[record.batch.id.origin]
    ]
    long, _ = reborn(records, until_processed=True)
    short, _ = reborn([*kept, *checkpoint.records], until_processed=True)
    assert short == long


def test_what_the_application_has_not_processed_is_handed_to_it_again() -> None:
    before = process("p2", 3, until_processed=True)
    records = life(
        before,
        Receive("p1", data("p1#1", "which way?")),
        Broadcast((b"that way",)),
        Receive("p1", data("p1#2", "thanks", causes=some("p2#1"))),
        Receive("p1", Holding(some("p2#1"))),
        Receive("p3", Holding(Counts(all=(2, 1, 0)))),
    )
    assert before.log.delivered == {"p1": 2, "p2": 1, "p3": 0}
    assert len(before.log.texts["p1"]) == 2, "stable, and still needed here"
    _, effects = reborn(records, until_processed=True)
    replay = the_only(Replay, effects)
    assert replay == Replay({"p1": 0, "p2": 0, "p3": 0}, {"p1": 2, "p2": 1, "p3": 0})
    assert delivered(effects) == []
    records += life(before, Processed({"p1": 1}))
    assert before.log.forgotten["p1"] == 1
    after, effects = reborn(records, until_processed=True)
    assert the_only(Replay, effects).after == {"p1": 1, "p2": 0, "p3": 0}
    records += life(after, Processed({"p1": 2, "p2": 7}))
    after, effects = reborn(records, until_processed=True)
    assert effects == [], "more cannot be taken than was handed over"
    assert after.log.processed == {"p1": 2, "p2": 1, "p3": 0}


def test_an_application_that_says_nothing_has_processed_everything() -> None:
    before = process("p2", 3)
    _, effects = reborn(life(before, Receive("p1", data("p1#1", "a")), Processed({"p1": 1})))
    assert effects == []


def test_what_was_acknowledged_is_still_held_after_a_crash_at_any_write() -> None:
    """Cut the life of p2 at every write: what it had said by then, it can still give."""
    for writes in range(1, 6):
        p2 = process("p2", 3, batch_ms=0)
        records: list[Any] = []
        acknowledged = 0
        for seq in range(1, 5):
            for effect in p2.step(Receive("p1", data(f"p1#{seq}", "x"))):
                if isinstance(effect, Persist):
                    writes -= 1
                    if writes == 0:
                        break
                    records += effect.records
                elif isinstance(effect, Send):
                    acknowledged = dict(effect.packet.held.of(p2.members))["p1"]
            if writes == 0:
                break
        after, _ = reborn(records)
        assert after.log.held["p1"] >= acknowledged


def test_who_comes_back_without_its_disk_is_refused_and_informed() -> None:
    p1 = process("p1", 3)
    effects = p1.step(LinkUp("p2", 1))
    reason = "p2 lost its disk; its name cannot return to this group"
    assert the_only(Reject, effects) == Reject("p2", reason)
    assert sent(effects) == [(("p2",), Refusal("p2", 1, "lost disk"))]
    assert p1.step(Receive("p2", Holding(some("p3#9")))) == [], "nothing it says counts"
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    p2.step(Start(incarnation=1))
    refusal = Refusal("p2", 1, "lost disk")
    assert the_only(Halt, p2.step(Receive("p1", refusal))) == Halt(reason)


def test_a_refusal_of_another_process_of_the_same_name_stops_nobody() -> None:
    """Somebody started p2 a second time in an empty folder; the true p2 has the link by now."""
    p2 = process("p2", 3)
    assert p2.step(Receive("p1", Refusal("p2", 77, "lost disk"))) == []
    p3 = process("p3", 3)
    assert p3.step(Receive("p2", Refusal("p2", 77, "lost disk"))) == [], "the true one is pinned"
    assert p3.step(Receive("p1", Refusal("p2", 0, "lost disk"))) == [], "p1 does not speak for p2"
    assert p3.peers.refused == {}


def test_a_second_start_is_no_founding_and_says_for_whom_it_waits() -> None:
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    p2.step(Start(incarnation=77, recovered=(), founding=True))
    refused = the_only(Refuse, p2.step(Broadcast((b"x",))))
    words = "p2 has restarted and waits for 1 of p1, p3 to say what they hold of its messages"
    assert refused.reason == words


def test_who_starts_with_nothing_meets_everybody_before_it_speaks() -> None:
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    p2.step(Start(incarnation=77))
    nothing = State((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0))
    assert persisted(p2.step(LinkUp("p1", 5))) == [Pinned("p1", 5)]
    p2.step(Receive("p1", nothing))
    refused = the_only(Refuse, p2.step(Broadcast((b"x",))))
    assert refused.reason == "p2 starts with nothing and has yet to meet p3"
    p2.step(LinkUp("p3", 6))
    assert persisted(p2.step(Receive("p3", nothing))) == [Admitted()]
    assert tuple(each_id(the_only(Accept, p2.step(Broadcast((b"x",)))).ids)) == ids("p2#1")


NOTHING_YET = State((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0))


def test_who_was_admitted_once_need_not_meet_everybody_again() -> None:
    p2, _ = reborn([Admitted()], incarnation=77)
    p2.step(Receive("p1", NOTHING_YET))
    assert tuple(each_id(the_only(Accept, p2.step(Broadcast((b"x",)))).ids)) == ids("p2#1")
    cursors = p2.checkpoint().records
    assert Admitted() in cursors
    half_met, _ = reborn([Pinned("p1", 5)], incarnation=77)
    assert isinstance(half_met.step(Broadcast((b"x",)))[0], Refuse)


@pytest.mark.parametrize("founding", [False, True])
@pytest.mark.parametrize(
    ("size", "strict", "answers"),
    [
        *[(1, False, 0), (2, False, 1), (3, False, 1), (4, False, 1), (5, False, 2), (7, False, 3)],
        *[(1, True, 0), (2, True, 1), (3, True, 2), (4, True, 3), (5, True, 3), (7, True, 4)],
    ],
)
def test_a_restarted_process_numbers_nothing_until_enough_others_have_spoken(
    size: int, strict: bool, answers: int, founding: bool
) -> None:
    members = tuple(f"p{number}" for number in range(1, size + 1))
    p1 = factory("frontier", {"strict": strict})("p1", members, take_first)
    p1.step(Start(incarnation=77, recovered=(Admitted(),), founding=founding))
    nothing = State(*((0,) * size,) * 4)
    for heard in range(answers):
        refused = the_only(Refuse, p1.step(Broadcast((b"x",))))
        assert f"p1 has restarted and waits for {answers - heard} of " in refused.reason
        p1.step(Receive(members[heard + 1], Holding(some(f"{members[-1]}#1"))))
        assert isinstance(p1.step(Broadcast((b"x",)))[0], Refuse), "only STATE says everything"
        p1.step(Receive(members[heard + 1], nothing))
    assert tuple(each_id(the_only(Accept, p1.step(Broadcast((b"x",)))).ids)) == ids("p1#1")


def test_a_process_waiting_for_answers_still_stores_acknowledges_and_answers() -> None:
    """A whole group may restart at once: only numbers wait."""
    p2, _ = reborn([Admitted()], incarnation=77)
    assert the_only(Send, p2.step(LinkUp("p1", 5))).packet.held == (0, 0, 0)
    effects = p2.step(Receive("p1", data("p1#1", "a")))
    assert the_only(Send, effects).packet == Holding(some("p1#1"))
    assert delivered(effects) == ["p1#1"]
    ((_, push),) = sent(p2.step(Receive("p3", Pull((Span("p1", 1, 1),)))))
    assert push == Push((Batch(MessageId("p1", 1), (b"a",)),))
    assert isinstance(p2.step(Broadcast((b"x",)))[0], Refuse)


def test_founders_have_no_earlier_life_that_anybody_could_remember() -> None:
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    assert persisted(p2.step(Start(incarnation=77, founding=True))) == [Admitted()]
    assert tuple(each_id(the_only(Accept, p2.step(Broadcast((b"x",)))).ids)) == ids("p2#1")


def test_on_lossy_links_newcomers_greet_until_they_are_answered() -> None:
    p1, p2 = (factory("frontier")(me, ("p1", "p2"), take_first) for me in ("p1", "p2"))
    assert timers(p2.step(Start(incarnation=77, lossy=True))) == {"repeat": REPEAT_MS}
    p1.step(Start(incarnation=66, founding=True, lossy=True))
    p2.step(LinkUp("p1", 66))
    p1.step(LinkUp("p2", 77))  # and what both say now is lost
    ((_, greeting),) = sent(p2.step(Timeout("repeat")))
    ((to, answer),) = sent(p1.step(Receive("p2", greeting)))
    assert to == ("p2",)
    assert timers(p2.step(Receive("p1", answer))) == {"repeat": None}
    assert sent(p1.step(Receive("p2", msgspec.structs.replace(greeting, greets=False)))) == []
    assert isinstance(p2.step(Broadcast((b"x",)))[1], Accept)


def test_the_true_one_is_let_in_after_an_impostor_was_refused() -> None:
    """Started once in a wrong folder, and then with its own disk."""
    p1 = process("p1", 3)
    p1.step(LinkUp("p2", 1))
    assert p1.step(Receive("p2", Holding(some("p3#9")))) == []
    p1.step(LinkDown("p2"))
    p1.step(LinkUp("p2", 0))
    p1.step(Receive("p2", data("p2#1", "it is me")))
    assert p1.log.held["p2"] == 1


def test_a_refusal_that_was_lost_is_stated_again_to_whoever_asks() -> None:
    p1 = on_lossy_links("p1", 3)
    (refusal,) = sent(p1.step(LinkUp("p2", 1)))
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    p2.step(Start(incarnation=1, lossy=True))
    p2.step(LinkUp("p1", 0))
    (to, greeting), _ = sent(p2.step(Timeout("repeat")))
    assert to == ("p1",)
    assert sent(p1.step(Receive("p2", greeting))) == [refusal]


def test_who_somebody_is_survives_a_restart() -> None:
    p2 = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    p2.step(Start(incarnation=77))
    records = persisted(p2.step(LinkUp("p1", 5)))
    again = factory("frontier")("p2", ("p1", "p2", "p3"), take_first)
    again.step(Start(incarnation=77, recovered=tuple(records)))
    assert the_only(Reject, again.step(LinkUp("p1", 6))).peer == "p1"


@pytest.mark.parametrize(
    "claim",
    [
        State((0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0)),
        State((0, 1, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
        Commit((Known("p1", 1, 1),)),
        Holding(some("p2#1")),
        Push((Batch(MessageId("p2", 1), (b"what I am said to have said",)),)),
    ],
)
def test_a_member_that_hears_that_it_holds_what_it_lacks_knows_that_its_disk_has_aged(
    claim: Packet,
) -> None:
    """An old copy of the disk was put back: the name is right, but something is gone."""
    p2 = process("p2", 3)
    effects = p2.step(Receive("p1", claim))
    reason = "p2 lost its disk; its name cannot return to this group"
    refusal = Refusal("p2", 0, "lost disk")
    assert effects == [Send(("p1", "p3"), refusal), Halt(reason)]
    p1 = process("p1", 3)
    assert p1.step(Receive("p2", refusal)) == [Reject("p2", reason)]


@pytest.mark.parametrize("claim", [Known("p1", 9, 9), Known("p2", 9, 0)], ids=str)
def test_one_member_that_errs_about_others_halts_nobody_and_f_and_one_more_do(
    claim: Known,
) -> None:
    p2 = process("p2", 5)
    for peer in ("p3", "p4"):
        p2.step(Receive(peer, Commit((claim,))))
        assert p2.knowledge.stable == dict.fromkeys(p2.members, 0)
    assert isinstance(p2.step(Receive("p5", Commit((claim,))))[-1], Halt)


def test_new_messages_come_from_their_origin_alone() -> None:
    p2 = process("p2", 3)
    assert p2.step(Receive("p3", data("p1#1", "never said"))) == []
    assert p2.log.held["p1"] == 0


# --- what reviewers found


def test_what_is_kept_is_kept_for_whoever_lacks_it_whatever_else_that_one_holds() -> None:
    p1 = process("p1", 3, log_limit=2)
    p1.step(Broadcast((b"a", b"b")))
    p1.step(Receive("p2", Holding(some("p1#2", "p3#2"))))
    assert p1.why_not() == "the log of p1 is full: it keeps 2 messages for p3"


def test_what_waits_for_its_causes_is_kept_for_ourselves() -> None:
    p1 = process("p1", 3, log_limit=1)
    p1.step(Receive("p2", data("p2#1", "x", causes=some("p3#1"))))
    p1.step(Receive("p3", Holding(some("p2#1"))))
    reason = "the log of p1 is full: it keeps 1 message for p1, which cannot deliver them yet"
    assert p1.why_not() == reason


def test_a_process_counts_what_each_peer_lacks_and_what_it_holds_back_itself() -> None:
    p1 = process("p1", 3)
    p1.step(Broadcast((b"a", b"b")))
    p1.step(Receive("p2", Holding(some("p1#1"))))
    assert p1.behind() == {"p2": 1, "p3": 2}
    assert p1.held_back() == {"p1": 1, "p2": 0, "p3": 0}, "of three, two hold the first"
    p1.step(Receive("p2", data("p2#2", "too early")))
    assert p1.held_back() == {"p1": 1, "p2": 1, "p3": 0}
    assert p1.behind() == {"p2": 1, "p3": 2}, "what overtook its predecessor is not held"


@pytest.mark.parametrize("limit", [{"window": 2}, {"log_limit": 2}])
def test_more_at_once_than_any_limit_allows_is_refused_as_such(limit: dict[str, int]) -> None:
    p1 = process("p1", 3, **limit)
    (refused,) = p1.step(Broadcast((b"a", b"b", b"c")))
    assert refused == Refuse("3 messages at once are too many: 2 is the limit")
    assert the_only(Accept, p1.step(Broadcast((b"a", b"b"))))


def test_several_at_once_count_one_by_one_against_the_log() -> None:
    p1 = process("p1", 3, log_limit=3)
    p1.step(Broadcast((b"a", b"b")))
    assert the_only(Refuse, p1.step(Broadcast((b"c", b"d"))))
    assert the_only(Accept, p1.step(Broadcast((b"c",))))


def test_who_cannot_be_reached_is_not_expected_to_help() -> None:
    p1 = process("p1", 3)
    p1.step(Receive("p2", Holding(some("p2#1"))))
    wanted = MessageId("p2", 1)
    assert p1.why(wanted) == "p1 does not hold p2#1; p2 could supply it"
    p1.step(LinkDown("p2"))
    assert p1.why(wanted) == "p1 does not hold p2#1; p2 could, but cannot be reached"
    assert sent(p1.step(Timeout("pull"))) == [], "nor asked"
    p1.step(LinkUp("p2", 9))
    assert p1.why(wanted) == "p1 does not hold p2#1; p2 could, but cannot be reached"


def test_the_refused_are_not_waited_for() -> None:
    p1 = process("p1", 5)
    p1.step(Broadcast((b"a",)))
    p1.step(LinkUp("p2", 9))
    reason = "p1#1 waits at p1 for 2 more of p3, p4, p5 to be known to hold it"
    assert p1.why(MessageId("p1", 1)) == reason


def test_numbers_begin_with_one() -> None:
    assert process("p1", 3).why(MessageId("p2", 0)) == "there is no p2#0: numbers begin with 1"


def test_only_of_members_something_can_be_processed() -> None:
    with pytest.raises(UsageError, match="p9 is not a member"):
        process("p1", 3, until_processed=True).step(Processed({"p9": 1}))


def test_nobody_asks_about_what_is_younger_than_the_timer() -> None:
    """In a stream something is always not yet stable; only what has waited is asked about."""
    p2 = process("p2", 5, mode="origin")
    assert timers(p2.step(Receive("p1", data("p1#1", "a"))))["ask"] == 200
    p2.step(Receive("p1", data("p1#2", "b")))
    p2.step(Receive("p1", Commit((Known("p1", 1, 1),))))
    effects = p2.step(Timeout("ask"))
    assert sent(effects) == []
    assert timers(effects)["ask"] == 200
    ((to, packet),) = sent(p2.step(Timeout("ask")))
    assert to == ("p1", "p3", "p4", "p5")
    assert packet == Asking(some("p1#2"), p2.comparison.digests(["p1"]))


def test_the_message_that_closes_the_gap_is_kept_however_much_waits_for_it() -> None:
    p2 = process("p2", 3, early=3)
    p2.step(Receive("p1", data("p1#2", *"bcd")))
    p2.step(Receive("p1", data("p1#6", "too much")))
    assert list(p2.log.early["p1"]) == [2, 3, 4]
    p2.step(Receive("p1", data("p1#1", "at last")))
    assert p2.log.held["p1"] == 4


@pytest.mark.parametrize("limit", [{"early": 2}, {"early_bytes": 2}], ids=str)
def test_of_a_batch_only_what_there_is_room_for_waits_for_its_predecessor(
    limit: dict[str, int],
) -> None:
    p2 = process("p2", 3, **limit)
    p2.step(Receive("p1", data("p1#2", *"abcde")))
    assert list(p2.log.early["p1"]) == [2, 3]
    assert p2.fetching.wanted("p1", "p1") == Span("p1", 1, 1)
    p2.step(Receive("p1", data("p1#1", "0")))
    assert p2.fetching.wanted("p1", "p1") == Span("p1", 4, 6), "the rest is fetched"


def test_what_was_stored_is_held_after_a_restart_whatever_the_limits_are_by_then() -> None:
    """An early batch that was accepted whole must not be forgotten record by record."""
    p2 = process("p2", 3)
    disk = persisted(p2.step(Receive("p1", data("p1#2", *"bcdef"))))
    disk += persisted(p2.step(Receive("p1", data("p1#1", "a"))))
    assert p2.log.held["p1"] == 6
    again = factory("frontier", {"early": 1, "early_bytes": 1})("p2", p2.members, take_first)
    assert isinstance(again, Frontier)
    again.step(Start(recovered=tuple(disk)))
    assert again.log.held == p2.log.held
    assert again.log.early_bytes == 0


@pytest.mark.parametrize("limit", [{"push": 3}, {"push_bytes": 200}])
def test_what_is_asked_of_several_origins_is_answered_in_several_packets_if_it_is_much(
    limit: dict[str, int],
) -> None:
    """And each origin gets an answer: who got none would never ask this one again."""
    p1 = process("p1", 4, **limit)
    for origin in ("p2", "p3"):
        for seq in range(1, 6):
            p1.step(Receive(origin, data(f"{origin}#{seq}", "x" * 40)))
    wanted = tuple(Span(origin, 1, 5) for origin in ("p2", "p3"))
    pushes = [push for _, push in sent(p1.step(Receive("p4", Pull(wanted))))]
    assert [[batch.id for batch in push.batches] for push in pushes] == [
        [MessageId("p2", 1)],
        [MessageId("p3", 1)],
    ]
    roomy = process("p1", 4, push=10, push_bytes=2_000)
    for origin in ("p2", "p3"):
        roomy.step(Receive(origin, data(f"{origin}#1", "x")))
    ((_, push),) = sent(roomy.step(Receive("p4", Pull(wanted))))
    assert len(push.batches) == 2


def test_a_push_is_bounded_whatever_its_texts_and_causes_are() -> None:
    encode = msgspec.msgpack.Encoder().encode
    empty = process("p1", 3, window=10**9)
    empty.step(Broadcast((b"",) * 100_000))
    talk = process("p1", 8, window=10**9, mode="all", batch_ms=0)
    for seq in range(1, 5_001):
        held = some(f"p2#{seq}")
        talk.step(Receive("p2", data(f"p2#{seq}", "ok", held=some(f"p1#{seq - 1}"))))
        for peer in ("p3", "p4"):
            talk.step(Receive(peer, Holding(held)))
        talk.step(Broadcast((b"ok",)))
    for chatty in (empty, talk):
        assert chatty.log.limits.push_bytes == 256 * 1024
        ((_, push),) = sent(chatty.step(Receive("p3", Pull((Span("p1", 1, 10**9),)))))
        assert len(encode(push)) <= chatty.log.limits.push_bytes
        assert sum(len(batch.texts) for batch in push.batches) > 1_000, "but not too small"


# --- crossings


def assert_all_hold(run: Run) -> None:
    assert {
        verdict.guarantee for verdict in judge(run) if verdict.value is not Value.HOLDS
    } == set()


def test_a_state_that_crosses_what_became_stable_meanwhile_is_answered() -> None:
    """p2 said after its restart what it holds; the others hear that late, and know better by then.

    p1, the only one that would have told p2, dies, and its words to p2 are lost.
    """
    others = [f"p{number}" for number in (3, 4, 5)]
    meanwhile = [
        f"receive {words}"
        for one in others
        for words in (f"{one}->p2 state", f"p1->{one} data", f"{one}->p1 holding")
    ]
    run = played(
        "frontier mode=origin",
        "\n".join(
            [
                "group p1 p2 p3 p4 p5",
                "broadcast p1 hello",
                "receive p1->p2",
                "receive p2->p1",
                "crash p2",
                "recover p2",
                *meanwhile,
                *(f"receive p1->{one} commit" for one in others),
                "crash p1 losing p1->p2 state, p1->p2 commit",
                "settle",
            ]
        ),
    )
    assert_all_hold(run)


def test_on_lossy_links_everybody_is_asked_before_anybody_is_asked_again() -> None:
    """p1 is dead; asking it over and over would never bring the turn of p2, the origin."""
    run = played(
        "frontier",
        """
        group p1 p2 p3
        links lossy
        broadcast p2 hello
        receive p2->p1
        drop p2->p3
        receive p1->p3
        receive p1->p2
        crash p1
        settle
        """,
    )
    assert_all_hold(run)


# --- limits


def test_too_many_messages_of_ones_own_that_are_not_safe_are_refused() -> None:
    p1 = process("p1", 5, window=2)
    p1.step(Broadcast((b"a", b"b")))
    refused = the_only(Refuse, p1.step(Broadcast((b"c",))))
    assert refused.reason == (
        "p1 has 2 messages that 3 members are not known to hold yet, and 2 is the limit"
    )
    p1.step(Receive("p2", Holding(some("p1#2"))))
    p1.step(Receive("p3", Holding(some("p1#1"))))
    assert tuple(each_id(the_only(Accept, p1.step(Broadcast((b"c",)))).ids)) == ids("p1#3")
    assert p1.why_not(), "and again it is full"


def test_a_full_log_refuses_and_says_for_whom_it_waits() -> None:
    p1 = process("p1", 3, log_limit=2)
    p1.step(Broadcast((b"a", b"b")))
    p1.step(Receive("p2", Holding(some("p1#2"))))
    refused = the_only(Refuse, p1.step(Broadcast((b"c",))))
    assert refused.reason == "the log of p1 is full: it keeps 2 messages for p3"
    held = p1.step(Receive("p2", data("p2#1", "x")))
    assert delivered(held) == ["p2#1"], "what others say is never turned away"
    p1.step(Receive("p3", Holding(some("p1#2"))))
    assert tuple(each_id(the_only(Accept, p1.step(Broadcast((b"c",)))).ids)) == ids("p1#3")


def test_a_log_that_waits_for_its_own_application_says_so() -> None:
    p1 = process("p1", 1, log_limit=1, until_processed=True)
    p1.step(Broadcast((b"a",)))
    assert "for the application, which has not taken them" in p1.why_not()
    p1.step(Processed({"p1": 1}))
    assert p1.why_not() == ""


@pytest.mark.parametrize("limit", [{"memory": 2}, {"memory_bytes": 2}])
def test_what_is_done_with_here_can_be_left_to_the_disk_and_read_back(
    limit: dict[str, int],
) -> None:
    p1 = process("p1", 3, **limit)
    records = life(p1, Broadcast((b"a", b"b")), Broadcast((b"c",)))
    assert p1.log.texts["p1"] == [b"a", b"b", b"c"], "not yet delivered"
    records += life(p1, Receive("p2", Holding(some("p1#3"))))
    assert p1.log.texts["p1"] == []
    recall = the_only(Recall, p1.step(Receive("p3", Pull((Span("p1", 2, 3),)))))
    assert recall == Recall("p3", MessageId("p1", 2), 3)
    ((to, push),) = sent(p1.step(Recalled(*astuple(recall), tuple(records))))
    assert to == ("p3",)
    assert push == Push((Batch(MessageId("p1", 2), (b"b", b"c")),))
    p1.step(Receive("p3", Holding(some("p1#3"))))
    assert p1.log.forgotten["p1"] == 3


def astuple(recall: Recall) -> tuple[str, MessageId, int]:
    return (recall.peer, recall.first, recall.last)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 0},
        {"log_limit": 0},
        {"memory": -1},
        {"memory_bytes": -1},
        {"early": 0},
        {"early_bytes": 0},
        {"push_bytes": 0},
        {"push_bytes": 2**18 + 1},
        {"push": 0},
        {"marks": 1},
    ],
    ids=str,
)
def test_impossible_limits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"[012] or more"):
        process("p1", 3, **wrong)


@pytest.mark.parametrize("mode", ["all", "origin"])
def test_a_dead_minority_does_not_slow_the_rest(mode: str) -> None:
    """With a window of three, ten times three are taken, although two of five never answer."""
    members = ("p1", "p2", "p3", "p4", "p5")
    world = World("test", members, factory("frontier", {"mode": mode, "window": 3}))
    world.apply(choices.Crash("p4"))
    world.apply(choices.Crash("p5"))
    rows = []
    for _ in range(10):
        for _ in range(3):
            rows += world.apply(choices.UserBroadcast("p1", b"x"))
        for choice in until_quiet(world):
            rows += world.apply(choice)
    assert sum(row.kind == "broadcast" for row in rows) == 30
    assert sum(row.kind == "deliver" for row in rows) == 3 * 30


# --- why


def test_why_says_who_is_missing_and_who_could_help() -> None:
    p3 = process("p3", 5)
    p3.step(Receive("p2", data("p2#1", "b", "c", causes=some("p1#1"))))
    assert p3.why(MessageId("p2", 2)) == (
        "p2#2 waits at p3 for 1 more of p1, p4, p5 to be known to hold it, "
        "and for p2#1 to be delivered first"
    )
    assert "its cause p1#1" in p3.why(MessageId("p2", 1))
    assert p3.why(MessageId("p1", 1)) == "p3 does not hold p1#1; nobody is known to hold it"
    assert p3.why(MessageId("p9", 1)) == "p9 is not a member"
    alone = process("p1", 1)
    alone.step(Broadcast((b"x",)))
    assert alone.why(MessageId("p1", 1)) == "p1 has delivered p1#1"


# --- what it costs

SIZES = (1, 2, 3, 5, 10, 20, 50)


@pytest.mark.parametrize("size", SIZES)
def test_mode_all_takes_a_packet_from_everyone_to_everyone_and_two_delays(size: int) -> None:
    cost = measure(Contender("frontier", {"mode": "all"}), "one", size, 1)
    assert cost.packets == size * (size - 1)
    assert cost.delays == min(2, size - 1)


@pytest.mark.parametrize("size", SIZES)
def test_mode_origin_takes_three_packets_for_every_other_member_and_three_delays(size: int) -> None:
    cost = measure(Contender("frontier", {"mode": "origin"}), "one", size, 1)
    assert cost.packets == 3 * (size - 1)
    assert cost.delays == min(3, size - 1)


@pytest.mark.parametrize(
    ("mode", "packets", "json_bytes"), [("all", 40, 6500), ("origin", 65, 4500)]
)
def test_a_stream_from_twenty_costs_little_and_leaves_nothing(
    mode: str, packets: int, json_bytes: int
) -> None:
    """Fifty messages from each of twenty; of fewer, as much is left, but for the last blocks."""
    contender = Contender("frontier", {"mode": mode})
    stream = measure(contender, "stream", 20, 1000)
    assert not stream.cut
    assert stream.packets <= packets
    assert stream.json_bytes <= json_bytes
    assert stream.bytes <= 0.65 * stream.json_bytes
    assert stream_row(str(contender), stream) in rows_of("stream"), "see bench/frontier.py"
    fewer = measure(contender, "stream", 20, 100)
    assert abs(stream.kept_bytes - fewer.kept_bytes) < 20 * BLOCK * 32


def test_the_page_tells_the_packets_of_one_broadcast_as_they_are() -> None:
    shown = {row[0]: row[1:-1] for row in rows_of("one broadcast")}
    measured = {
        f"`{one}`, {until}": [f"{count:,.0f}" for count in packets]
        for one in tables.CONTENDERS
        for until, packets in tables.counted(
            one, [measure(one, "one", size, 1) for size in SIZES_TOLD[:-1]]
        ).items()
    }
    assert shown.keys() == {*measured, *(f"at least {name}" for name in named_bounds())}
    for name, packets in measured.items():
        assert shown[name][:-1] == packets
    for name, bound in named_bounds().items():
        least = [bound(size, quorum(size) - 1) for size in SIZES_TOLD]
        assert shown[f"at least {name}"] == [f"{count:,}" for count in least]


def test_the_page_names_every_option_and_every_flaw() -> None:
    for option in list(signature(Frontier).parameters)[3:]:
        assert f"\n`{option}` |" in PAGE
    flaws = {name for name in PROTOCOLS if name.startswith("flawed/frontier-")}
    assert set(re.findall(r"`(flawed/frontier-[a-z-]+)`", PAGE)) == flaws


def test_only_numbers_are_left_of_what_is_stable() -> None:
    run = walk(Plan(protocol="frontier", processes=3, broadcasts=40), 1)
    texts = [row.value for row in run.rows if row.kind == "state" and row.name == "texts"]
    assert texts
    assert max(texts) <= 3 * (BLOCK + 2), "a block that is not full, and digests, of each origin"


# --- in bad company


def test_adversarial_runs_hold_all_guarantees() -> None:
    runs = amount(250, full=1000)
    happened = hold_all_guarantees(range(runs))
    for what, least in {
        "packets lost": 2500,
        "packets duplicated": 1000,
        "partitions": 250,
        "crashes in mid-broadcast": 100,
        "restarts in mid-broadcast": 50,
        "crashes at a write": 250,
        "recover": 1000,
        "pull packets": 250,
        "push packets": 250,
        "asking packets": 250,
        "state packets": 2500,
    }.items():
        assert happened[what] >= least * runs / 1000, f"{what}: {happened}"


def test_what_processes_believe_is_true_after_every_step() -> None:
    hold_all_guarantees(range(10_000, 10_100), CheckedWorld)


def test_a_belief_that_is_not_true_is_found() -> None:
    world = World("test", ("p1", "p2", "p3"), factory("frontier"))
    world.apply(choices.UserBroadcast("p1", b"x"))
    p2 = world.processes["p2"]
    assert isinstance(p2, Frontier)
    p2.step(Receive("p3", Holding(some("p1#1"))))
    with pytest.raises(AssertionError, match="p2 overrates p3"):
        p2.check(world.processes)


class KeptWorld(World):
    """Remembers how it ended."""

    last: World

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        KeptWorld.last = self


@pytest.mark.parametrize("mode", ["all", "origin"])
@pytest.mark.parametrize("seed", range(15))
def test_once_all_is_stable_nothing_is_sent_and_no_timer_runs(mode: str, seed: int) -> None:
    plan = Plan(
        protocol="frontier",
        options={"mode": mode},
        links="lossy",
        lost=0.2,
        partitions=1,
        restarts=seed % 3,
    )
    assert all(verdict.value is Value.HOLDS for verdict in judge(walk(plan, seed, world=KeptWorld)))
    world = KeptWorld.last
    assert world.in_flight == {}
    assert world.timers == {}
    for one in world.processes.values():
        assert isinstance(one, Frontier)
        assert one.knowledge.stable == one.log.held


def test_with_a_member_down_only_that_member_is_probed() -> None:
    script = Script("test")
    for line in ("group p1 p2 p3", "protocol frontier", "links lossy", "crash p3"):
        script.command(line)
    script.command("broadcast p1 hello")
    script.command("settle")
    before = len(script.rows)
    script.command("timeout p1 repeat")
    script.command("timeout p2 repeat")
    probes = [(row.process, row.peer, row.packet_kind) for row in script.rows[before:]]
    assert probes == [("p1", "p3", "state"), ("p2", "p3", "state")]


# --- a disk that is lost


def test_one_who_lost_its_disk_is_stopped_and_the_others_go_on() -> None:
    script = Script("test")
    for line in (
        "group p1 p2 p3",
        "protocol frontier",
        "broadcast p2 before",
        "receive all",
        "crash p2",
        "recover p2 without its disk",
        "broadcast p2 under an old name",
        "broadcast p1 after",
        "settle",
    ):
        script.command(line)
    run = script.run()
    assert [row.kind for row in run.histories["p2"]][-1] == "crash"
    assert sum(row.kind == "broadcast" for row in run.histories["p2"]) == 1, "it was refused"
    assert all(verdict.value is Value.HOLDS for verdict in judge(run))
    assert "p1#1" in [str(r.message) for r in run.histories["p3"] if r.kind == "deliver"]


def test_a_lost_disk_on_top_of_everything_else_breaks_nothing() -> None:
    """p1 loses its disk whenever it comes back; nobody else crashes for good."""

    class LosingADisk(World):
        lost = 0

        def _make(self, choice: choices.Choice) -> None:
            match choice:
                case choices.Recover("p1") if "p1" in self.disks:
                    LosingADisk.lost += 1
                    super()._make(choices.Recover("p1", disk_lost=True))
                case choices.Recover("p1"):
                    pass
                case _:
                    super()._make(choice)

    for seed in range(120):
        plan = msgspec.structs.replace(adversarial_plan(seed), restarts=4, crashes=0)
        run = walk(plan, seed, world=LosingADisk)
        assert not any(verdict.value is Value.VIOLATED for verdict in judge(run)), seed
        kinds = [row.kind for row in run.histories.get("p1", ())]
        assert "recover" not in kinds or kinds[-1] == "crash", seed
    assert LosingADisk.lost >= 40


def test_an_adversary_without_a_clock_breaks_nothing() -> None:
    runs = amount(50, full=150)
    happened = survive(range(runs))
    for what in ("Drop", "Duplicate", "Recover", "Crash", "Doom", "UserProcessed", "Cut"):
        assert happened[what] >= 100 * runs / 150, f"{what}: {happened}"


def test_links_that_break_break_nothing_else() -> None:
    runs = amount(40, full=100)
    happened = survive_broken_links(range(runs))
    assert min(happened["links down"], happened["links up"], happened["Recover"]) >= runs


def test_everybody_dies_at_once_and_nothing_that_was_delivered_is_lost() -> None:
    script = Script("test")
    for line in (
        "group p1 p2 p3",
        "protocol frontier",
        "broadcast p1 hello",
        "receive p1->p2",
        "crash p1",
        "crash p2",
        "crash p3",
        "recover p3",
        "recover p2",
        "recover p1",
        "settle",
    ):
        script.command(line)
    run = script.run()
    assert all(verdict.value is Value.HOLDS for verdict in judge(run))
    for history in run.histories.values():
        assert [str(row.message) for row in history if row.kind == "deliver"] == ["p1#1"]
