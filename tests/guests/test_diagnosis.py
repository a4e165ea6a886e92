"""What a process may not do is told in one line, with its own lines and the way there."""

import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Held,
    Install,
    Message,
    MessageId,
    Packet,
    Persist,
    Process,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Stable,
    Start,
    UsageError,
)
from tidings.guests.diagnosis import ProcessFault, answer
from tidings.protocols import factory
from tidings.simulator import Plan, RunReplay, World, schedule_of, walk
from tidings.simulator import choices as may
from tidings.simulator.failure import ANOTHER_TIME, failed_run
from tidings.trace import read_runs, write_runs

ONE = MessageId("p1", 1)


class Word(Packet, frozen=True, tag="word"):
    id: MessageId = ONE
    text: Any = b""


class Untagged(Packet, frozen=True):
    text: bytes = b""


class Odd(Packet, frozen=True, tag="odd"):
    id: Any


class Stumbling(Process):
    """Sends each text to all; does something unheard-of when it receives one."""

    stumble: Callable[["Stumbling"], Any]

    def __init__(self, me: str, members: tuple[str, ...], choose: Any) -> None:
        super().__init__(me, members, choose)
        self.seq = 0

    def step(self, event: Event) -> list[Effect]:
        match event:
            case Broadcast((text,)):
                self.seq += 1
                message = MessageId(self.me, self.seq)
                return [Accept((message,)), Send(self.others, Word(message, text))]
            case Receive():
                return type(self).stumble(self)
        return []


def stumbling(stumble: Callable[[Stumbling], Any]) -> type[Stumbling]:
    return type("Stumbling", (Stumbling,), {"stumble": stumble, "__module__": __name__})


def fault_of(kind: Any, **plan: Any) -> ProcessFault:
    with pytest.raises(ProcessFault) as caught:
        walk(Plan(processes=3, broadcasts=2, **plan), seed=1, factory=kind)
    return caught.value


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (None, "step returns nothing; return a list of effects, [] for none"),
        (iter(()), "step returns a generator; return a list of what it yields"),
        ("effects", "step returns 'effects', not a list of effects"),
        ([3], "3 is not an effect"),
        ([None], "None is not an effect"),
        ([Send], "is not an effect"),
        ([Send("p2", Word())], "Send: 'p2' is not a tuple"),
        ([Send((2,), Word())], "Send: 2 is not a name"),
        ([Send(("p2",), "hello")], "Send: 'hello' is not a Packet"),
        ([Send(("p2",), Untagged())], "Untagged has no tag; write: class Untagged(Packet, frozen="),
        ([Send(("p2",), Word(text=[1]))], "Word can change after it was sent (unhashable type"),
        ([Send(("p2",), Word(text=object))], "Word cannot be written as bytes"),
        ([Send(("p2",), Word(text=2**70))], "Word cannot be written as bytes"),
        ([Send(("p2",), Odd(7))], "Send: 7 is not a MessageId, like MessageId('p1', 4)"),
        ([Send(("p9",), Word())], "it sends to p9; there are: p1, p2, p3"),
        ([Deliver((b"hello",))], "Deliver: b'hello' is not a Message"),
        ([Deliver(Message(*ONE, b""))], "is not a tuple"),
        ([Deliver((Message(7, 1, b""),))], "MessageId(origin=7, seq=1) is not a MessageId"),
        ([Deliver((Message(*ONE, "hello"),))], "the text 'hello' is not bytes"),
        ([Held((("p1", 1),))], "is not a MessageId"),
        ([Held((MessageId("p1", -1),))], "is not a MessageId"),
        ([Accept((ONE,))], "it accepts what nobody broadcast"),
        ([SetTimer("tick", -1)], "SetTimer: -1 is not a delay in milliseconds"),
        ([SetTimer("tick", float("nan"))], "SetTimer: nan is not a delay in milliseconds"),
        ([SetTimer("tick", "soon")], "SetTimer: 'soon' is not a delay in milliseconds"),
        ([SetTimer(7, 1)], "SetTimer: 7 is not a name"),
        ([CancelTimer(None)], "CancelTimer: None is not a name"),
        ([Persist("abc")], "Persist: 'abc' is not a tuple"),
        ([Stable(3)], "Stable: 3 is not a dict"),
        ([Install("p1")], "Install: 'p1' is not a tuple"),
        ([Refuse(None)], "Refuse: None is not a name"),
        ([CancelTimer("tick")] * 10_001, "10,001 effects at once; 10,000 are the most"),
        ([Send(("p2",) * 200, Word())] * 60, "12,000 packets at once; 10,000 are the most"),
    ],
)
def test_rubbish_is_distinguished_from_effects(returned: Any, complaint: str) -> None:
    fault = fault_of(stumbling(lambda process: returned))
    assert complaint in str(fault)
    assert str(fault).startswith(f"{fault.process} fails when it receives word ")


@pytest.mark.parametrize(
    ("effects", "complaint"),
    [
        ([], "a Broadcast is answered by Accept, with the name of the message, or by Refuse"),
        ([Accept(())], "a Broadcast is answered by Accept"),
        ([Accept((ONE, MessageId("p1", 2)))], "2 names for 1 text"),
        ([Accept((ONE,)), Refuse("no")], "1 name for 1 text, and a Refuse"),
        ([Accept((ONE,)), Accept(())], "2 answers to one Broadcast; one Accept names all texts"),
        ([Refuse("no"), Refuse("no")], "a Broadcast is answered by Accept"),
        ([Accept((MessageId("p2", 1),))], "it accepts p2#1, but its messages are named p1#1"),
    ],
)
def test_a_broadcast_wants_one_answer(effects: list[Effect], complaint: str) -> None:
    class Silent(Stumbling):
        def step(self, event: Event) -> list[Effect]:
            return effects if isinstance(event, Broadcast) else []

    world = World("run", ("p1",), Silent)
    with pytest.raises(ProcessFault) as caught:
        world.apply(may.UserBroadcast("p1", b"hello"))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("p1 fails when its user broadcasts 'hello': ")


def test_refusing_is_an_answer() -> None:
    class Refusing(Stumbling):
        def step(self, event: Event) -> list[Effect]:
            return [Refuse("not now")] if isinstance(event, Broadcast) else []

    run = walk(Plan(processes=2, broadcasts=1), seed=1, factory=Refusing)
    assert {row.kind for row in run.rows} == {"state", "settle"}


# --- what it raises, and how long it takes


def divide(process: Stumbling) -> list[Effect]:
    return [1 / 0]  # the line to be shown


def leave(process: Stumbling) -> list[Effect]:
    raise SystemExit(3)


def loop(process: Stumbling) -> list[Effect]:
    while True:
        with suppress(Exception):  # even this does not hold it
            process.seq += 0


def test_an_exception_is_reported_with_the_lines_of_its_author() -> None:
    fault = fault_of(stumbling(divide))
    assert "ZeroDivisionError: division by zero" in str(fault)
    *_, place, line = fault.__notes__
    assert place.startswith(f"{__file__}:")
    assert place.endswith(", in divide")
    assert line == "    return [1 / 0]  # the line to be shown"
    assert all("src/tidings" not in note for note in fault.__notes__)


def fall(process: Stumbling) -> list[Effect]:
    return fall(process)


def test_a_bottomless_fall_is_reported_briefly() -> None:
    fault = fault_of(stumbling(fall))
    assert "RecursionError" in str(fault)
    assert " calls, and in them:" in fault.__notes__[0]
    assert fault.__notes__[1:] == [*fault.__notes__[1:3]] * 6


def test_a_long_complaint_is_cut_short() -> None:
    def shout(process: Stumbling) -> list[Effect]:
        raise ValueError("a" * 1_000)

    assert str(fault_of(stumbling(shout))).endswith("a" * 185 + "...")


def test_a_process_cannot_end_the_program() -> None:
    assert "SystemExit: 3" in str(fault_of(stumbling(leave)))


def test_a_step_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_STEP_SECONDS", "0.3")
    fault = fault_of(stumbling(loop))
    assert "it has not come back after 0.3 seconds (TIDINGS_STEP_SECONDS sets" in str(fault)
    assert any(note.endswith(", in loop") for note in fault.__notes__)


def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_STEP_SECONDS", "soon")
    with pytest.raises(UsageError, match="TIDINGS_STEP_SECONDS is a number of seconds"):
        walk(Plan(), seed=1, factory=stumbling(lambda process: []))


def test_outside_the_main_thread_a_step_takes_as_long_as_it_likes() -> None:
    ended: list[Any] = []
    kind = stumbling(lambda process: [])
    thread = threading.Thread(target=lambda: ended.append(walk(Plan(), seed=1, factory=kind)))
    thread.start()
    thread.join()
    assert ended


def test_our_own_protocols_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_STEP_SECONDS", "soon")  # whoever is watched trips over this
    assert walk(Plan(), seed=1).histories
    p1 = factory("majority-relay")("p1", ("p1", "p2"), lambda label, weights: 0)
    assert answer(p1, Broadcast((b"hello",)))


def test_who_speaks_at_its_start_may_speak_to_anybody() -> None:
    class Polite(Stumbling):
        def step(self, event: Event) -> list[Effect]:
            if isinstance(event, Start):
                return [Send(self.others, Word(MessageId(self.me, 1)))]
            return [Refuse("not now")] if isinstance(event, Broadcast) else []

    run = walk(Plan(processes=3, broadcasts=1), seed=1, factory=Polite)
    greetings = [(row.process, row.peer) for row in run.rows if row.kind == "send"][:6]
    assert greetings == list(permutations(("p1", "p2", "p3"), 2))


# --- whether it does the same twice

OUTSIDE: list[str] = []
"""What a process keeps where nobody looks."""


def deliver_every_other_time(process: Stumbling) -> list[Effect]:
    OUTSIDE.append(process.me)
    return [Deliver((Message(*ONE, b"1"),))] if len(OUTSIDE) % 2 else []


def copy_from_outside(process: Stumbling) -> list[Effect]:
    OUTSIDE.append(process.me)
    process.seq = len(OUTSIDE)
    return []


def draw_as_often_as_it_was_called(process: Stumbling) -> list[Effect]:
    OUTSIDE.append(process.me)
    for _ in OUTSIDE:
        process.choose("side", (1, 1))
    return []


def fail_the_second_time(process: Stumbling) -> list[Effect]:
    OUTSIDE.append(process.me)
    return [] if len(OUTSIDE) < 2 else divide(process)


@pytest.mark.parametrize(
    ("hidden", "difference"),
    [
        (deliver_every_other_time, "has other effects"),
        (copy_from_outside, "comes into another state"),
        (draw_as_often_as_it_was_called, "draws something else"),
        (fail_the_second_time, "raises ZeroDivisionError"),
    ],
)
def test_what_is_kept_outside_of_the_attributes_is_noticed(hidden: Any, difference: str) -> None:
    OUTSIDE.clear()
    fault = fault_of(stumbling(hidden))
    assert f"it does not do the same twice: a copy of it, in the same state, {difference} " in (
        str(fault)
    )


def test_what_it_draws_the_copy_draws_too() -> None:
    def toss(process: Stumbling) -> list[Effect]:
        process.seq += 10 * process.choose("side", (1, 1))
        return [SetTimer(f"after {process.choose('number', (1, 2, 3))}", 1.0)]

    runs = [walk(Plan(processes=3, broadcasts=4), seed=1, factory=stumbling(toss)) for _ in "ab"]
    draws = [[step.draws for step in schedule_of(run.manifest)] for run in runs]
    assert draws[0] == draws[1]
    assert max(map(len, draws[0])) == 2
    assert len(set(draws[0])) > 3


def test_the_order_in_which_a_set_is_iterated_is_nobodys_fault() -> None:
    class Unordered(Stumbling):
        def __init__(self, *about: Any) -> None:
            super().__init__(*about)
            self.heard: set[int] = set()

        def step(self, event: Event) -> list[Effect]:
            if isinstance(event, Broadcast):
                self.heard.update(range(100))
                for number in {*range(100)} - {5, 8}:
                    self.heard.discard(number)
            return [CancelTimer(str(number)) for number in self.heard] + (
                [Refuse("no")] if isinstance(event, Broadcast) else []
            )

    world = World("run", ("p1",), Unordered)
    for _ in range(3):
        world.apply(may.UserBroadcast("p1", b"hello"))
    heard = world.processes["p1"].heard
    assert list(heard) != list(heard.copy()), "this set is to show that a copy has another order"


def test_a_state_that_cannot_be_copied_is_reported_with_its_owner() -> None:
    def lock(process: Stumbling) -> list[Effect]:
        process.door = threading.Lock()
        return []

    fault = fault_of(stumbling(lock))
    assert str(fault).startswith(f"{fault.process} fails when it receives word ")
    assert "its attribute 'door': a lock cannot be part of a process's state" in str(fault)
    assert fault.__notes__ == ["in Stumbling of test_diagnosis.py"]


# --- the way there


STUMBLING_FILE = """
from tidings.core import Accept, Broadcast, MessageId, Packet, Process, Receive, Send


class Word(Packet, frozen=True, tag="word"):
    id: MessageId


class Late(Process):
    def __init__(self, me, members, choose, *, patience=3):
        super().__init__(me, members, choose)
        self.patience = patience
        self.seq = 0
        self.heard = set()

    def step(self, event):
        match event:
            case Broadcast():
                self.seq += 1
                word = MessageId(self.me, self.seq)
                return [Accept((word,)), Send(self.others, Word(word))]
            case Receive(sender, word):
                self.heard.add(word.id)
                if len(self.heard) > self.patience and self.choose("patience", (2, 1)):
                    raise OverflowError("too much")
        return []
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "late.py").write_text(STUMBLING_FILE)
    monkeypatch.chdir(tmp_path)
    return "late.py:Late"


def fault_and_run(late: str, seed: int = 1) -> tuple[ProcessFault, Any]:
    plan = Plan(protocol=late, options={"patience": 4}, processes=3, crashes=1, links="lossy")
    with pytest.raises(ProcessFault) as caught:
        walk(plan, seed)
    fault = caught.value
    return fault, failed_run(fault, seed=seed, plan=msgspec.to_builtins(plan))


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_stored_run_leads_to_the_same_fault(late: str, tmp_path: Path, seed: int) -> None:
    fault, run = fault_and_run(late, seed)
    write_runs(tmp_path / "fault", [run])
    (stored,) = read_runs(tmp_path / "fault")
    assert stored.manifest.protocol == late
    assert stored.manifest.options == {"patience": 4}
    assert schedule_of(stored.manifest) == fault.schedule
    with pytest.raises(ProcessFault) as again:
        list(RunReplay(stored))
    assert str(again.value) == str(fault)
    assert again.value.__notes__ == fault.__notes__
    assert again.value.schedule == fault.schedule


def test_the_last_row_is_of_the_fatal_event(late: str) -> None:
    fault, run = fault_and_run(late)
    last = run.histories[fault.process][-1]
    assert last.kind == "receive"
    assert last.message == fault.event.packet.id


def test_a_fault_travels_between_workers(late: str) -> None:
    fault, _ = fault_and_run(late)
    twin = pickle.loads(pickle.dumps(fault))
    assert str(twin) == str(fault)
    assert (twin.schedule, twin.__notes__, twin.world) == (fault.schedule, fault.__notes__, None)


def test_a_fault_at_the_start_has_no_way_there() -> None:
    class Stillborn(Stumbling):
        def step(self, event: Event) -> list[Effect]:
            raise ValueError("no")

    with pytest.raises(ProcessFault, match="p1 fails at its start: ValueError: no") as caught:
        World("run", ("p1", "p2"), Stillborn)
    assert failed_run(caught.value) is None


def test_a_process_that_does_not_repeat_itself_is_found_out() -> None:
    lives = []

    def fickle(process: Stumbling) -> list[Effect]:
        lives.append(process.me)
        if len(lives) < 3:
            return [Send(("p1",), Word())]
        raise ValueError("not this time")

    fault = fault_of(stumbling(fickle))
    assert failed_run(fault) is None
    assert fault.__notes__[-1] == ANOTHER_TIME
