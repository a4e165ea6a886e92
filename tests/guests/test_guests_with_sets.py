"""Files of other people keep sets, and send them as lists: that is no luck, and is not refused.

A copy of a set may have another order than the set itself. Generated guests keep sets of several
shapes, with a past of additions and removals that leaves them in such an order; real luck is
still found.
"""

import os
import random
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidings.core import Effect, Event, Members, MessageId, Packet, Process, Send, Timeout
from tidings.explore import Scope, explore
from tidings.guests.diagnosis import ProcessFault, answer
from tidings.simulator import Plan, walk
from tidings.spec import Value, judge


class Word(Packet, frozen=True, tag="word"):
    text: str

    @property
    def about(self) -> MessageId | None:
        return None


class Shelf:
    """An object of the guest's own, with a set in it."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: set[Any] = set()


class Drawer(set[Any]):
    """A guest's own kind of set."""


Change = tuple[bool, int]
"""Whether something is added or removed, and which."""


class Guest(Process):
    """Keeps sets of one shape, changes them on every event and tells everybody what is in them."""

    def __init__(self, me: str, members: Members, choose: Any, shape: str, past: Any) -> None:
        super().__init__(me, members, choose)
        self.shape = shape
        self.past: list[list[Change]] = [list(changes) for changes in past]
        self.shelf = Shelf()
        self.drawer = Drawer()
        self.nested: dict[str, dict[int, set[Any]]] = {"sets": {}}
        self.plain: set[Any] = set()
        self.stack: list[set[Any]] = [set(), set()]

    def step(self, event: Event) -> list[Effect]:
        for is_added, number in self.past.pop(0):
            for kept in self._places(number):
                (kept.add if is_added else kept.discard)(ELEMENTS[self.shape](number))
        return [Send(self.others, Word(repr(list(map(list, self._all()))))), *self._greetings()]

    def _greetings(self) -> Iterable[Effect]:
        return [Send((self.others[0],), Word(str(one))) for one in self.plain]

    def _places(self, number: int) -> list[set[Any]]:
        nested = self.nested["sets"].setdefault(number % 3, set())
        return [self.plain, self.shelf.kept, self.drawer, nested, self.stack[number % 2]]

    def _all(self) -> list[set[Any]]:
        nested = self.nested["sets"].values()
        return [self.plain, self.shelf.kept, self.drawer, *nested, *self.stack]


ELEMENTS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda number: number,
    "names": lambda number: f"m{number}",
    "texts": lambda number: b"%d" % number,
    "pairs": lambda number: (f"p{number % 5}", number),
    "nested pairs": lambda number: (f"p{number % 5}", (number, "x")),
    "groups": lambda number: frozenset({f"p{number}", f"p{number + 1}"}),
    "messages": lambda number: MessageId(f"p{number % 5}", number),
}

pasts = st.lists(
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=80), min_size=1, max_size=5
)

ALL_BUT_TWO: list[list[Change]] = [
    [(True, number) for number in range(61)],
    [(False, number) for number in range(61) if number not in (5, 8)],
    [],
]
"""Few are left of many: in the large table 5 is before 8, in a small one after it."""


@pytest.mark.parametrize("shape", ELEMENTS)
@example(past=ALL_BUT_TWO)
@settings(max_examples=20, deadline=None)
@given(past=pasts)
def test_sets_of_any_shape_may_be_sent_as_lists(shape: str, past: list[list[Change]]) -> None:
    guest = Guest("p1", ("p1", "p2", "p3"), lambda label, weights: 0, shape, past)
    for _ in past:
        answer(guest, Timeout("any"))


def test_a_process_goes_on_with_what_it_knows_of_itself() -> None:
    """Its own objects may refer to it: they do so still when its state has been copied."""

    class Owned(Guest):
        def __init__(self, *about: Any) -> None:
            super().__init__(*about)
            self.methods = [self.step, self._greetings]
            self.me_too = self

    owned = Owned("p1", ("p1", "p2"), lambda label, weights: 0, "names", ALL_BUT_TWO)
    for _ in ALL_BUT_TWO:
        answer(owned, Timeout("any"))
    assert owned.me_too is owned
    assert all(method.__self__ is owned for method in owned.methods)


class Gambler(Process):
    """Says what it drew on its own."""

    def __init__(self, luck: Callable[[], Any]) -> None:
        super().__init__("p1", ("p1", "p2"))
        self.draw = luck

    def step(self, event: Event) -> list[Effect]:
        return [Send(("p2",), Word(str(self.draw())))]


@pytest.mark.parametrize(
    "luck",
    [
        lambda: random.SystemRandom().random(),
        lambda: random.Random().random(),
        lambda: secrets.token_hex(8),
        lambda: os.urandom(8),
    ],
)
def test_luck_that_nobody_seeded_is_still_refused(luck: Callable[[], Any]) -> None:
    with pytest.raises(ProcessFault, match=r"it does not do the same twice: .* has other effects"):
        answer(Gambler(luck), Timeout("any"))


# --- a whole file, in runs and in the explorer

RELAYING_WITH_SETS = """
from anysystem import Context, Message, Process


class Relay(Process):
    '''Relays each message once, delivers it when half have; tells all it has ever seen.'''

    def __init__(self, proc_id, processes):
        self.id = proc_id
        self.everybody = processes
        self.count = 0
        self.seen = set()
        self.delivered = set()
        self.holders = {}
        self.waiting = {}

    def on_local_message(self, msg, ctx):
        self.count += 1
        past = list(self.delivered)
        self.take((self.id, self.count), msg["text"], past, self.id, ctx)

    def on_message(self, msg, sender, ctx):
        past = [tuple(one) for one in msg["past"]]
        self.take(tuple(msg["name"]), msg["text"], past, sender, ctx)

    def take(self, name, text, past, sender, ctx):
        if name in self.delivered:
            return
        self.holders.setdefault(name, {self.id, sender}).add(sender)
        self.holders[name].add(name[0])
        if name not in self.seen:
            self.seen.add(name)
            self.waiting[name] = (text, past)
            about = {"name": name, "text": text, "past": past, "holders": list(self.holders[name])}
            for other in set(self.everybody) - {self.id}:
                ctx.send(Message("COPY", about), other)
        while any(self.deliver(one, ctx) for one in set(self.waiting)):
            pass

    def deliver(self, name, ctx):
        text, past = self.waiting[name]
        earlier = {(name[0], number) for number in range(1, name[1])}
        ready = earlier.union(past) <= self.delivered
        if not ready or 2 * len(self.holders[name]) < len(self.everybody):
            return False
        del self.waiting[name]
        del self.holders[name]
        self.delivered.add(name)
        ctx.send_local(Message("DELIVER", {"text": text}))
        return True
"""


def test_a_sound_file_that_lists_its_sets_holds_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("relay.py").write_text(RELAYING_WITH_SETS)
    plan = Plan(protocol="relay.py", processes=5, broadcasts=12, crashes=2, duplicated=0.1)
    for seed in range(5):
        assert all(verdict.value is Value.HOLDS for verdict in judge(walk(plan, seed))), seed
    explored = explore(Scope(protocol="relay.py", processes=3, broadcasts=1, crashes=1), workers=1)
    assert not explored.cut
    assert all(explored.verdict(what) is Value.HOLDS for what in explored.properties)
