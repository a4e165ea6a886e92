"""Processes written for AnySystem and dslab-mp run here, and ours run there."""

import copy
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tidings.compare import SOUND, Contender
from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    MessageId,
    Packet,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Start,
    Timeout,
    UsageError,
    take_first,
)
from tidings.guests import factory
from tidings.guests.anysystem.guest import fields_of, module_for, packets_of, tag_of
from tidings.guests.diagnosis import ProcessFault
from tidings.simulator import Plan, walk
from tidings.simulator.scenario import play_scenario
from tidings.spec import Guarantee, Value, judge
from tidings.trace import Run

ROOT = Path(__file__).parents[2]
MEMBERS = ("p1", "p2", "p3")

HEAD = """
from anysystem import Context, Message, Process


class Mine(Process):
    def __init__(self, proc_id, processes):
        self.id = proc_id
        self.everybody = processes
"""


class Here:
    """A folder in which a file of somebody else lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, source: str, *, choose: Any = take_first, **options: Any) -> Any:
        return factory(self.file(source), options)("p2", MEMBERS, choose)

    def file(self, source: str) -> str:
        (self.folder / "theirs.py").write_text(source)
        return "theirs.py"

    def run(self, source: str, seed: int = 1, *, options: Any = None, **plan: Any) -> Run:
        theirs = {"protocol": self.file(source), "options": options or {}}
        return walk(Plan(**theirs, **{"processes": 3, "broadcasts": 6, **plan}), seed)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path)


def methods(text: str) -> str:
    """A class with these methods, after the usual constructor."""
    return HEAD + "\n" + text


def violated(run: Run) -> set[Guarantee]:
    return {verdict.guarantee for verdict in judge(run) if verdict.value is Value.VIOLATED}


def sent(effects: list[Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (effect.to[0], effect.packet.kind, json.loads(effect.packet.data))
        for effect in effects
        if isinstance(effect, Send)
    ]


# --- what a process is told, and what it can do

ECHO = """
    def on_local_message(self, msg, ctx):
        for other in self.everybody:
            ctx.send(Message("COPY", {"text": msg["text"], "from": self.id}), other)

    def on_message(self, msg, sender, ctx):
        self.last = (msg.type, msg["text"], sender, msg.get("absent", 7), "text" in msg)
        ctx.send_local(Message("DELIVER", {"text": msg["text"]}))
"""


def test_a_send_is_a_broadcast_and_a_deliver_a_delivery(here: Here) -> None:
    p2 = here.process(methods(ECHO))
    accept, to_first, to_itself, to_last = p2.step(Broadcast((b"hello",)))
    assert accept == Accept((MessageId("p2", 1),))
    assert sent([to_first, to_last]) == [
        ("p1", "COPY", {"text": "p2#1 hello", "from": "1"}),
        ("p3", "COPY", {"text": "p2#1 hello", "from": "1"}),
    ]
    assert to_first.packet.about == MessageId("p2", 1)
    assert to_itself == SetTimer("to itself 1", 0.0)
    (deliver,) = p2.step(Receive("p3", to_last.packet))
    assert (deliver.messages[0].id, deliver.messages[0].text) == (MessageId("p2", 1), b"hello")
    assert p2.process.last == ("COPY", "p2#1 hello", "2", 7, True)


def test_a_message_to_oneself_comes_in_a_call_of_its_own(here: Here) -> None:
    p2 = here.process(methods(ECHO))
    for _ in range(2):
        p2.step(Broadcast((b"hello",)))
    assert p2.describe()["timers"] == ["to itself 1", "to itself 2"]
    (deliver,) = p2.step(Timeout("to itself 2"))
    assert deliver.messages[0].id == MessageId("p2", 2)
    assert p2.process.last[2] == "1"
    assert SetTimer("to itself 2", 0.0) in p2.step(Broadcast((b"the number is free again",)))


@pytest.mark.parametrize("ids", ["numbers", "names"])
def test_processes_are_called_as_in_the_frameworks_or_by_their_names(here: Here, ids: str) -> None:
    p2 = here.process(methods(ECHO), ids=ids)
    called = {"numbers": ["0", "1", "2"], "names": list(MEMBERS)}[ids]
    assert (p2.process.id, p2.process.everybody) == (called[1], called)
    packet = p2.step(Broadcast((b"hello",)))[1].packet
    p2.step(Receive("p3", packet))
    assert p2.process.last[2] == called[2]


TIMERS = """
    def on_start(self, ctx):
        self.printed = []
        ctx.set_timer("tick", 0.5)
        ctx.set_timer_once("tick", 3)
        ctx.set_timer_once("tock", 2)
        ctx.set_timer("gone", 1)
        ctx.cancel_timer("gone")
        ctx.cancel_timer("never set")

    def on_message(self, msg, sender, ctx):
        pass

    def on_timer(self, name, ctx):
        self.printed.append((name, ctx.time()))
        ctx.set_timer_once(name, 4)
"""


def test_timers_are_set_once_or_again_and_seconds_become_milliseconds(here: Here) -> None:
    p2 = here.process(methods(TIMERS))
    assert p2.step(Start()) == [
        SetTimer("tick", 500.0),
        SetTimer("tock", 2000.0),
        SetTimer("gone", 1000.0),
        CancelTimer("gone"),
    ]
    assert p2.step(Timeout("tock")) == [SetTimer("tock", 4000.0)]
    assert p2.step(Timeout("tick")) == [SetTimer("tick", 4000.0)]


def test_time_counts_events_and_the_timers_that_ran_out(here: Here) -> None:
    p2 = here.process(methods(TIMERS))
    p2.step(Start())
    p2.step(Timeout("tock"))
    p2.step(Timeout("tick"))
    assert p2.process.printed == [("tock", 2.002), ("tick", 2.503)]


def test_a_file_that_does_not_speak_of_time_has_no_clock(here: Here) -> None:
    """Or else nothing would ever be as it was, and a timer that recurs would never let it rest."""
    recurring = """
    def on_start(self, ctx):
        ctx.set_timer("again", 1)

    def on_message(self, msg, sender, ctx):
        pass

    def on_timer(self, name, ctx):
        ctx.set_timer("again", 1)
"""
    p2 = here.process(methods(recurring))
    p2.step(Start())
    before = p2.fingerprint()
    p2.step(Timeout("again"))
    assert p2.fingerprint() == before
    assert any(row.kind == "settle" for row in here.run(methods(recurring), broadcasts=0).rows)

    secretly = recurring.replace("ctx.set_timer(", "getattr(ctx, 'ti' + 'me')() or ctx.set_timer(")
    with pytest.raises(
        RuntimeError, match="only a process whose file speaks of 'time' has a clock"
    ):
        here.process(methods(secretly)).step(Start())


@pytest.mark.parametrize(
    ("imports", "base"),
    [
        ("from anysystem import Context, Message, Process", "(Process)"),
        ("from dslabmp import Context, Message, Process", "(Process)"),
        ("import dslabmp\nfrom dslabmp import Message, Process, StateMember", "(Process)"),
        ("from anysystem import Message", ""),
    ],
)
def test_any_of_the_usual_imports_will_do(here: Here, imports: str, base: str) -> None:
    source = f"""
{imports}

class Mine{base}:
    def __init__(self, proc_id, processes):
        self.everybody = processes
{ECHO.replace(', "from": self.id', "")}
"""
    assert not violated(here.run(source, broadcasts=1))
    assert "anysystem" not in sys.modules
    assert "dslabmp" not in sys.modules


def test_a_file_beside_it_finds_the_framework_too(here: Here) -> None:
    (here.folder / "base_of_theirs.py").write_text(methods(ECHO).replace("Mine", "Base"))
    source = "from base_of_theirs import Base\nclass Mine(Base): ...\n"
    assert not violated(here.run(source, broadcasts=1))
    assert "anysystem" not in sys.modules


def test_an_import_in_a_handler_finds_the_framework_too(here: Here) -> None:
    source = methods(ECHO).replace("ctx.send_local(", "import anysystem\n        ctx.send_local(")
    assert not violated(here.run(source, broadcasts=1))


def test_messages_have_what_every_version_of_theirs_had() -> None:
    from tidings.guests.anysystem.api import AnySystemMessage

    message = AnySystemMessage.from_json("KIND", '{"a": 1, "b": [2]}')
    message["c"] = 3
    message.remove("a")
    message.remove("a")
    assert message.to_dict() == {"type": "KIND", "data": {"b": [2], "c": 3}}
    twin = AnySystemMessage.from_dict(message.to_dict())
    assert (twin.type, twin["b"], twin.data, twin._data["c"]) == ("KIND", [2], message.data, 3)
    assert repr(AnySystemMessage.from_inner_data("A", "{}")) == "Message('A', {})"


def test_what_is_sent_is_sent_as_it_was(here: Here) -> None:
    source = methods("""
    def on_local_message(self, msg, ctx):
        past = [1]
        ctx.send(Message("COPY", {"past": past, "pair": (1, 2)}), "0")
        past.append(2)

    def on_message(self, msg, sender, ctx):
        pass
""")
    effects = here.process(source).step(Broadcast((b"x",)))
    assert sent(effects) == [("p1", "COPY", {"past": [1], "pair": [1, 2]})]


# --- which message it is


def test_texts_that_repeat_are_distinguished(here: Here) -> None:
    run = here.run(methods(ECHO), texts=(b"same",), broadcasts=6)
    delivered = [(row.process, row.message) for row in run.rows if row.kind == "deliver"]
    assert len(set(delivered)) == len(delivered) == 18
    assert Guarantee.NO_DUPLICATION not in violated(run)


def test_a_text_that_is_not_utf_8_is_refused(here: Here) -> None:
    (refusal,) = here.process(methods(ECHO)).step(Broadcast((b"\xff",)))
    assert isinstance(refusal, Refuse)


@pytest.mark.parametrize("options", [{}, {"texts": "plain"}])
@pytest.mark.parametrize("text", ["of my own", "p1#7 of his", "p1#1 hallo", ""])
def test_a_text_that_nobody_broadcast_violates_no_creation(
    here: Here, options: dict[str, str], text: str
) -> None:
    source = methods(ECHO).replace('{"text": msg["text"]}))', f'{{"text": "{text}"}}))')
    run = here.run(source, broadcasts=1, texts=(b"hello",), options=options)
    assert Guarantee.NO_CREATION in violated(run)
    assert Guarantee.NO_DUPLICATION not in violated(run)


def test_plain_texts_are_as_the_user_wrote_them(here: Here) -> None:
    p2 = here.process(methods(ECHO), texts="plain")
    _, to_p1, *_ = p2.step(Broadcast((b"hello",)))
    assert sent([to_p1]) == [("p1", "COPY", {"text": "hello", "from": "1"})]
    assert to_p1.packet.about == MessageId("p2", 1)


def test_a_plain_text_is_the_broadcast_one_has_heard_of(here: Here) -> None:
    name = here.file(methods(ECHO))
    p1, p2, p3 = (factory(name, {"texts": "plain"})(me, MEMBERS, take_first) for me in MEMBERS)
    (_, *from_p1) = p1.step(Broadcast((b"same",)))
    (_, *from_p3) = p3.step(Broadcast((b"same",)))
    to_p2 = [
        (sender, effect.packet)
        for sender, effects in (("p3", from_p3), ("p1", from_p1))
        for effect in effects
        if isinstance(effect, Send) and effect.to == ("p2",)
    ]
    names = [p2.step(Receive(*packet))[0].messages[0].id for packet in [*to_p2, to_p2[0]]]
    assert names == [MessageId("p3", 1), MessageId("p1", 1), MessageId("p1", 1)]


def test_distinct_plain_texts_are_judged_as_marked_ones(here: Here) -> None:
    source = (ROOT / "examples" / "anysystem_causal.py").read_text()
    for seed in range(5):
        plan = {"processes": 5, "broadcasts": 12, "crashes": 2, "duplicated": 0.2}
        runs = [
            here.run(source, seed, options={"texts": how}, **plan) for how in ("marked", "plain")
        ]
        judged = [
            [(row.process, row.index, row.kind, row.origin, row.seq) for row in run.rows]
            for run in runs
        ]
        assert judged[0] == judged[1]
        assert not violated(runs[0]) | violated(runs[1])


# --- chance, time, unique names

CHANCE = """
    def on_local_message(self, msg, ctx):
        import random, time, uuid
        from random import choice
        deck = [1, 2, 3]
        random.seed(7)
        random.shuffle(deck)
        self.drawn = [
            random.random(), random.uniform(2, 4), random.randint(1, 6), random.randrange(10),
            random.randrange(0, 10, 5), random.choice("abc"), choice("abc"), random.getrandbits(40),
            random.choices("ab", weights=[0, 1], k=2), random.sample(range(5), 2), deck,
            random.Random(3).randint(1, 10**6),
        ]
        self.seen = [time.time(), time.monotonic(), ctx.time()]
        self.named = [str(uuid.uuid4()), str(uuid.uuid1())]

    def on_message(self, msg, sender, ctx):
        pass
"""


def drawing(seed: int) -> Any:
    dice = random.Random(seed)
    return lambda label, weights: dice.choices(range(len(weights)), weights)[0]


def test_chance_comes_from_the_seed_alone(here: Here) -> None:
    drawn = []
    for seed in (1, 1, 2):
        p2 = here.process(methods(CHANCE), choose=drawing(seed))
        p2.step(Broadcast((b"go",)))
        drawn.append(p2.process.drawn)
    assert drawn[0] == drawn[1] != drawn[2]


def test_chance_stays_within_its_bounds(here: Here) -> None:
    for seed in range(50):
        p2 = here.process(methods(CHANCE), choose=drawing(seed))
        p2.step(Broadcast((b"go",)))
        share, between, die, digit, five, *letters, bits, same, two, deck, million = (
            p2.process.drawn
        )
        assert 0 < share < 1
        assert 2 < between < 4
        assert 1 <= die <= 6
        assert 0 <= digit <= 9
        assert five in (0, 5)
        assert set(letters) <= set("abc")
        assert 0 <= bits < 2**40
        assert same == ["b", "b"]
        assert len(set(two)) == 2
        assert sorted(deck) == [1, 2, 3]
        assert 1 <= million <= 10**6


def test_time_and_unique_names_are_the_same_in_every_run(here: Here) -> None:
    printed = []
    for _ in range(2):
        p2 = here.process(methods(CHANCE))
        p2.step(Broadcast((b"go",)))
        printed.append((p2.process.seen, p2.process.named))
    assert printed[0] == printed[1]
    assert printed[0][0] == [0.001] * 3
    assert len(set(printed[0][1])) == 2


def test_the_explorer_can_see_every_draw(here: Here) -> None:
    asked = []

    def choose(label: str, weights: Any) -> int:
        asked.append((label, tuple(weights)))
        return len(weights) - 1

    source = methods("""
    def on_local_message(self, msg, ctx):
        import random
        self.side = random.choice(["heads", "tails"])

    def on_message(self, msg, sender, ctx):
        pass
""")
    p2 = here.process(source, choose=choose)
    p2.step(Broadcast((b"go",)))
    assert asked == [("random", (1, 1))]
    assert p2.process.side == "tails"


# --- state

KEEPING = """
    def on_local_message(self, msg, ctx):
        from collections import Counter, defaultdict, deque
        self.acks = defaultdict(set)
        self.acks[msg["text"]].update(self.everybody)
        self.queue = deque([msg])
        self.counts = Counter(self.everybody)

    def on_message(self, msg, sender, ctx):
        self.acks["more"].add(sender)
        self.queue[0]["text"] = "changed"
"""


def test_a_fork_goes_its_own_way(here: Here) -> None:
    p2 = here.process(methods(KEEPING))
    p2.step(Broadcast((b"hello",)))
    twin = p2.fork(take_first)
    assert twin == p2
    before = p2.fingerprint()
    packet = here.process(methods(ECHO)).step(Broadcast((b"x",)))[1].packet
    twin.step(Receive("p3", packet))
    assert p2.fingerprint() == before != twin.fingerprint()
    assert "more" not in p2.process.acks
    assert p2.process.queue[0]["text"] == "p2#1 hello"


def test_its_state_is_shown_under_its_own_names(here: Here) -> None:
    p2 = here.process(methods(KEEPING))
    p2.step(Broadcast((b"hello",)))
    shown = p2.describe()
    assert shown["acks"] == {"p2#1 hello": ["0", "1", "2"]}
    assert shown["queue"] == [{"_type": "SEND", "_data": {"text": "p2#1 hello"}}]
    assert p2.kept()["bytes"] > 30


def test_it_can_be_pickled(here: Here) -> None:
    p2 = here.process(methods(KEEPING))
    p2.step(Broadcast((b"hello",)))
    assert pickle.loads(pickle.dumps(p2)) == p2


# --- what goes wrong


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('ctx.send(Message("A", {}), "9")', "there is no process '9'; there are: 0, 1, 2"),
        ('ctx.send(Message("A", {}), 1)', "there is no process 1"),
        ('ctx.send("A", "1")', "what is sent is a Message, not 'A'"),
        ('ctx.send(Message("", {}), "1")', "the type of a message is a short str"),
        ('ctx.send(Message("A", [1]), "1")', "the data of a message is a dict"),
        ('ctx.send(Message("A", {"a": {1}}), "1")', "Object of type set is not JSON serializable"),
        ('ctx.send_local(Message("DELIVERED", {"text": "a"}))', "a local message is DELIVER with"),
        ('ctx.send_local(Message("DELIVER", {"text": 1}))', "a local message is DELIVER with"),
        ('ctx.send_local(Message("DELIVER", {}))', "a local message is DELIVER with"),
        ("ctx.set_timer(7, 1)", "a timer's name is a str"),
        ('ctx.set_timer("to itself 1", 1)', "does not begin with 'to itself '"),
        ('ctx.set_timer("a", -1)', "a timer's delay is a number of seconds, 0 or more"),
        ('ctx.set_timer("a", "soon")', "a timer's delay is a number of seconds"),
        ('msg["tekst"]', "KeyError: 'tekst'"),
        ("import time; time.sleep(1)", "a process does not sleep: set a timer"),
        ('self.ctx = ctx if not hasattr(self, "ctx") else self.ctx.cancel_timer("a")', "returned"),
    ],
)
def test_a_mistake_is_shown_where_it_is_made(here: Here, line: str, complaint: str) -> None:
    source = methods(f"""
    def on_local_message(self, msg, ctx):
        {line}

    def on_message(self, msg, sender, ctx):
        pass
""")
    with pytest.raises(ProcessFault) as caught:
        here.run(source, broadcasts=12)
    assert complaint in str(caught.value)
    assert f"    {line}" in caught.value.__notes__
    assert caught.value.__notes__[0].startswith("theirs.py:12, in on_local_message")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"texts": "loud"}, "texts is marked or plain, not 'loud'"),
        ({"ids": 7}, "ids is numbers or names, not 7"),
        ({"size": 7}, "theirs.py has no option 'size'; it has: fanout, texts, ids"),
    ],
)
def test_options_are_its_own_and_the_adapters(
    here: Here, options: dict[str, Any], complaint: str
) -> None:
    source = methods(ECHO).replace("proc_id, processes)", "proc_id, processes, fanout=2)")
    source = source.replace("self.id = proc_id", "self.id, self.fanout = proc_id, fanout")
    assert here.process(source, fanout=3).process.fanout == 3
    with pytest.raises(UsageError) as caught:
        here.process(source, **options)
    assert str(caught.value) == complaint


# --- whole runs

HASTY = """
    def on_local_message(self, msg, ctx):
        for other in self.everybody:
            ctx.send(Message("COPY", {"text": msg["text"]}), other)

    def on_message(self, msg, sender, ctx):
        ctx.send_local(Message("DELIVER", {"text": msg["text"]}))
"""


def test_a_hasty_process_breaks_agreement_and_order(here: Here) -> None:
    broken = set()
    for seed in range(10):
        broken |= violated(
            here.run(methods(HASTY), seed, processes=5, crashes=2, broadcasts=20, mid_broadcast=1.0)
        )
    assert broken == {Guarantee.UNIFORM_AGREEMENT, Guarantee.CAUSAL_ORDER}


def test_a_process_that_counts_copies_breaks_no_duplication(here: Here) -> None:
    run = here.run(methods(HASTY), duplicated=1.0, broadcasts=2)
    assert Guarantee.NO_DUPLICATION in violated(run)


def test_the_example_keeps_every_guarantee(here: Here) -> None:
    source = (ROOT / "examples" / "anysystem_causal.py").read_text()
    crashed = 0
    for seed in range(20):
        plan = {"crashes": 2, "mid_broadcast": 0.8, "duplicated": 0.2, "partitions": 1}
        run = here.run(source, seed, processes=5, broadcasts=15, texts=(b"same",), **plan)
        assert not violated(run), seed
        crashed += sum(row.kind == "crash" for row in run.rows)
    assert crashed == 40


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        words = ["simulate", "--process", "examples/anysystem_causal.py", "--seed", "7"]
        subprocess.run(
            [Path(sys.executable).with_name("tidings"), *words, "--trace", tmp_path / hash_seed],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        traces.add((tmp_path / hash_seed / "trace.jsonl").read_bytes())
    assert len(traces) == 1


def test_a_scenario_tells_packets_by_their_types(here: Here) -> None:
    name = here.file(methods(HASTY))
    scenario = here.folder / "own.txt"
    scenario.write_text(
        f"group p1 p2\nprotocol {name}\nbroadcast p1 hi\n----\n"
        "p1 sets timer to itself 1, 0 ms\np1 -> p2  COPY p1#1\n\n"
        'timeout p1 to itself 1\n----\np1 delivers p1#1 "hi"\n\n'
        'receive p1->p2 COPY p1#1\n----\np2 receives COPY p1#1 from p1\np2 delivers p1#1 "hi"\n'
    )
    assert play_scenario(scenario).surprise() is None


# --- ours there


class TheirMessage:
    def __init__(self, message_type: str, data: dict[str, Any]) -> None:
        self._type = message_type
        self._data = data

    @property
    def type(self) -> str:
        return self._type

    def __getitem__(self, key: str) -> Any:
        return self._data[key]


class TheirContext:
    """What a handler asked for; in that framework everything crosses as JSON."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self.local: list[str] = []
        self.timers: dict[str, float | None] = {}

    def send(self, msg: TheirMessage, to: str) -> None:
        self.sent.append((msg.type, json.dumps(msg._data), to))

    def send_local(self, msg: TheirMessage) -> None:
        assert msg.type == "DELIVER"
        self.local.append(msg["text"])

    def set_timer(self, timer_name: str, delay: float) -> None:
        assert len(timer_name) <= 50
        self.timers[timer_name] = delay

    def cancel_timer(self, timer_name: str) -> None:
        self.timers[timer_name] = None

    def time(self) -> float:
        return 0.0


class TheirProcess:
    pass


class TheirSystem:
    """A group in that framework: whatever is possible happens in random order.

    As in its model checker, processes are stored by pickling their attributes now and then.
    """

    def __init__(self, kind: type, size: int, seed: int) -> None:
        random.seed(seed)
        self.dice = random.Random(seed)
        self.ids = [str(number) for number in range(size)]
        self.processes: dict[str, Any] = {one: kind(one, list(self.ids)) for one in self.ids}
        self.crashed: set[str] = set()
        self.flying: list[tuple[str, str, str, str]] = []
        self.timers: set[tuple[str, str]] = set()
        self.histories: dict[str, list[str]] = {one: [] for one in self.ids}

    def broadcast(self, who: str, text: str) -> None:
        self.histories[who].append(text)
        self.call(who, "on_local_message", TheirMessage("SEND", {"text": text}))

    def call(self, who: str, handler: str, *about: Any) -> None:
        if who in self.crashed:
            return
        ctx = TheirContext()
        getattr(self.processes[who], handler)(*about, ctx)
        self.flying += [(kind, data, who, to) for kind, data, to in ctx.sent]
        self.histories[who] += [f"delivered {text}" for text in ctx.local]
        for name, delay in ctx.timers.items():
            (self.timers.discard if delay is None else self.timers.add)((who, name))
        self.store(who)

    def store(self, who: str) -> None:
        process = copy.deepcopy(self.processes[who])
        stored = {name: pickle.dumps(value) for name, value in vars(process).items()}
        vars(process).update((name, pickle.loads(value)) for name, value in stored.items())
        self.processes[who] = process

    def crash(self, who: str) -> None:
        """With any of its packets, and all that were on their way to it."""
        self.crashed.add(who)
        self.flying = [
            packet for packet in self.flying if packet[2] != who or self.dice.random() < 0.5
        ]

    def step(self) -> bool:
        timers = sorted(timer for timer in self.timers if timer[0] not in self.crashed)
        if self.flying and (not timers or self.dice.random() < 0.9):
            kind, data, sender, to = self.flying.pop(self.dice.randrange(len(self.flying)))
            self.call(to, "on_message", TheirMessage(kind, json.loads(data)), sender)
        elif timers:
            timer = self.dice.choice(timers)
            self.timers.discard(timer)
            self.call(timer[0], "on_timer", timer[1])
        return bool(self.flying or timers)

    def run(self, broadcasts: int, crashes: int) -> None:
        victims = self.dice.sample(self.ids, crashes)
        for number in range(broadcasts):
            self.broadcast(self.dice.choice(self.ids), f"text {number} ✓")
            for _ in range(self.dice.randrange(8)):
                self.step()
            if victims and self.dice.random() < 0.5:
                self.crash(victims.pop())
        for who in victims:
            self.crash(who)
        for _ in range(20_000):
            if not self.step():
                return
        raise AssertionError("it does not come to rest")


def delivered(history: Sequence[str]) -> list[str]:
    return [entry.removeprefix("delivered ") for entry in history if entry.startswith("delivered ")]


def check_as_their_test_programs_do(system: TheirSystem) -> None:
    spoken = {text for past in system.histories.values() for text in past if text[0] == "t"}
    everywhere = {text for past in system.histories.values() for text in delivered(past)}
    correct = [one for one in system.ids if one not in system.crashed]
    assert everywhere <= spoken, "no creation"
    for who, past in system.histories.items():
        mine = delivered(past)
        assert len(set(mine)) == len(mine), f"no duplication at {who}"
        if who in correct:
            assert {text for text in past if text in spoken} <= set(mine), f"validity at {who}"
            assert set(mine) == everywhere, f"uniform agreement at {who}"
    for past in system.histories.values():
        for place, text in enumerate(past):
            if text in spoken:
                causes = {entry.removeprefix("delivered ") for entry in past[:place]}
                for who in system.ids:
                    theirs = delivered(system.histories[who])
                    if text in theirs:
                        before = set(theirs[: theirs.index(text)])
                        assert causes <= before, f"causal order at {who}"


@pytest.fixture
def their_framework(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("anysystem")
    vars(module).update(Message=TheirMessage, Context=TheirContext, Process=TheirProcess)
    monkeypatch.setitem(sys.modules, "anysystem", module)
    return module


def exported(contender: Contender) -> type:
    """The class that their test program finds in the file."""
    source = module_for(contender.protocol, contender.options, command="tidings adapt")
    namespace: dict[str, Any] = {"__name__": "solution"}
    exec(compile(source, "solution.py", "exec"), namespace)
    kind = namespace["BroadcastProcess"]
    assert isinstance(kind, type)
    return kind


@pytest.mark.parametrize("contender", SOUND, ids=str)
def test_our_protocols_keep_their_promises_there(
    contender: Contender, their_framework: ModuleType
) -> None:
    kind = exported(contender)
    heard = 0
    for seed in range(12):
        size = 1 + seed % 5
        system = TheirSystem(kind, size, seed)
        system.run(broadcasts=5, crashes=seed % ((size + 1) // 2))
        check_as_their_test_programs_do(system)
        heard += sum(len(delivered(past)) for past in system.histories.values())
    assert heard > 100


def test_the_check_can_fail(their_framework: ModuleType) -> None:
    system = TheirSystem(exported(Contender("flawed/hasty")), size=5, seed=1)
    system.run(broadcasts=5, crashes=2)
    with pytest.raises(AssertionError, match="uniform agreement"):
        check_as_their_test_programs_do(system)


@pytest.mark.parametrize("contender", SOUND, ids=str)
def test_there_and_back_again(contender: Contender, here: Here) -> None:
    """Our protocol as a class of theirs, and that class as a protocol of ours."""
    source = module_for(contender.protocol, contender.options, command="tidings adapt")
    crashed = 0
    for seed in range(2):
        run = here.run(source, seed, processes=5, broadcasts=10, crashes=2, duplicated=0.1)
        assert [verdict.value for verdict in judge(run)] == [Value.HOLDS] * 5, seed
        crashed += sum(row.kind == "crash" for row in run.rows)
    assert crashed == 4


def test_there_and_back_again_is_the_same_conversation(here: Here) -> None:
    source = module_for("majority-relay", {"notice": True}, command="tidings adapt")
    plan = {"processes": 4, "broadcasts": 8, "crashes": 1, "duplicated": 0.2}
    there = here.run(source, 3, **plan)
    ours = walk(Plan(protocol="majority-relay", options={"notice": True}, **plan), 3)
    printed = [
        [
            (row.process, row.kind, row.peer, row.packet, row.packet_kind, row.time_ns)
            for row in run.rows
            if row.kind in ("broadcast", "deliver", "send", "receive", "crash")
        ]
        for run in (there, ours)
    ]
    assert printed[0] == printed[1]


@pytest.mark.parametrize("contender", SOUND, ids=str)
def test_every_packet_survives_the_way_through_json(contender: Contender) -> None:
    process = factory(contender.protocol, contender.options)("p1", MEMBERS, take_first)
    packets = packets_of(type(process))
    seen = set()

    def weigh(packet: Packet) -> int:
        data = json.loads(json.dumps(fields_of(packet)))
        tag = tag_of(type(packet))
        values = [tag, *(data[name] for name in packet.__struct_fields__)]
        assert msgspec.convert(values, packets[tag]) == packet
        seen.add(tag)
        return 1

    protocol = {"protocol": contender.protocol, "options": contender.options}
    for seed in range(3):
        texts = (b"\xff\x00", b"")
        walk(Plan(**protocol, processes=4, texts=texts, crashes=1), seed, weigh=weigh)
    assert seen


def test_adapt_writes_a_module_once(tidings, tmp_path: Path) -> None:
    words = ("adapt", "majority-relay", "--option", "notice=yes", "--out", "solution.py")
    answer = tidings(*words)
    assert (answer.status, answer.out) == (0, "module solution.py: class BroadcastProcess\n")
    written = (tmp_path / "solution.py").read_text()
    assert "majority-relay notice=True" in written
    assert tidings("adapt", "majority-relay", "--option", "notice=yes").out == written
    again = tidings(*words)
    assert (again.status, again.err) == (
        64,
        "tidings: solution.py is there already; choose another\n",
    )
    simulated = tidings("simulate", "--process", "solution.py", "--seed", "1", "--crashes", "2")
    assert simulated.status == 0, simulated.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["gossip"], "unknown protocol 'gossip'"),
        (["two-phase", "--option", "notice=yes"], "two-phase has no option 'notice'"),
    ],
)
def test_adapt_refuses_what_does_not_exist(tidings, words: list[str], complaint: str) -> None:
    answer = tidings("adapt", *words)
    assert answer.status == 64
    assert complaint in answer.err
