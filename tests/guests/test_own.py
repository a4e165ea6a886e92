"""Processes of one's own: their state, the files they are loaded from, and the commands."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec
import pytest

from guides import play
from tidings.core import (
    DataError,
    Effect,
    Event,
    MessageId,
    Process,
    Start,
    UsageError,
    take_first,
)
from tidings.core.anything import deep_fingerprint
from tidings.core.state import copied, fingerprint, measured, shown
from tidings.guests import factory
from tidings.simulator import Plan, walk
from tidings.simulator.scenario import play_scenario
from tidings.simulator.script import protocol_of
from tidings.spec import Guarantee, Value, judge
from tidings.trace import digest, read_runs

HERE = Path(__file__).parent

# --- whatever somebody keeps in attributes


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Box:
    items: set[Any] = field(default_factory=set)


class Node:
    def __init__(self, name: str) -> None:
        self.name = name
        self.peers: list[Node] = []


def odds_and_ends(words: list[str]) -> dict[Any, Any]:
    """The same contents, put in in the order of the words."""
    return {
        "sets": {frozenset((word, "x")) for word in words},
        "default": defaultdict(set, {word: {word, 7, None} for word in words}),
        "counter": Counter(words),
        "deque": deque(sorted(words), maxlen=9),
        "mixed keys": {**dict.fromkeys(words, 1), 7: 2, None: 3, (1, "a"): 4},
        "dataclass": Box(set(words)),
        "in a tuple": ({word: {1} for word in words}, [set(words)]),
        "named": Pair(1, 2),
        "large": 2**100,
        "lonely": "\ud800",
    }


def test_equal_contents_have_equal_fingerprints_in_any_order_of_insertion() -> None:
    prints = {fingerprint(odds_and_ends(list(words))) for words in permutations("abcd")}
    assert len(prints) == 1


def test_fingerprints_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from test_own import odds_and_ends, fingerprint;"
        "print(fingerprint(odds_and_ends(['a', 'b', 'c', 'd'])).hex())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": f"{HERE}:{HERE.parent / 'helpers'}",
            },
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert printed == {fingerprint(odds_and_ends(["d", "c", "b", "a"])).hex() + "\n"}


def test_objects_that_many_hold_are_visited_once() -> None:
    def held(depth: int, name: str) -> Node:
        node = Node(name)
        for number in range(depth):
            above = Node(str(number))
            above.peers = [node, node]
            node = above
        return node

    assert deep_fingerprint(held(60, "a")) == deep_fingerprint(held(60, "a"))
    assert deep_fingerprint(held(60, "a")) != deep_fingerprint(held(60, "b"))


def test_so_are_structs_that_many_hold() -> None:
    def held(depth: int, name: str) -> Sealed:
        sealed = Sealed(name)
        for _ in range(depth):
            sealed = Sealed((sealed, sealed))
        return sealed

    assert deep_fingerprint(held(60, "a")) == deep_fingerprint(held(60, "a"))
    assert deep_fingerprint(held(60, "a")) != deep_fingerprint(held(60, "b"))
    shared = Sealed("a")
    assert deep_fingerprint([shared, shared]) == deep_fingerprint([Sealed("a"), Sealed("a")])


def test_a_deep_fingerprint_tells_apart_what_behaves_differently() -> None:
    different = [
        [],
        (),
        set(),
        {},
        None,
        0,
        False,
        "",
        b"",
        deque(),
        {1: 2},
        {1: 3},
        OrderedDict([(1, 1), (2, 2)]),
        OrderedDict([(2, 2), (1, 1)]),
        Pair(1, 2),
        (1, 2),
        Box(),
        Box({1}),
    ]
    assert len({deep_fingerprint(value) for value in different}) == len(different)


def test_a_copy_shares_nothing_that_can_change() -> None:
    node = Node("a")
    node.peers.append(node)
    state = {**odds_and_ends(["a", "b"]), "node": node}
    twin = copied(state)
    assert fingerprint(twin) == fingerprint(state)
    before = fingerprint(state)
    twin["default"]["new"].add(1)
    twin["in a tuple"][1][0].add("new")
    twin["dataclass"].items.add("new")
    twin["node"].peers[0].name = "b"
    assert fingerprint(state) == before != fingerprint(twin)


class Record(msgspec.Struct):
    acks: set[str]


class Sealed(msgspec.Struct, frozen=True):
    acks: Any


class Waiting(NamedTuple):
    number: int


class Done(NamedTuple):
    number: int


class Asked(msgspec.Struct, frozen=True):
    number: int


class Answered(msgspec.Struct, frozen=True):
    number: int


class Bookkeeper(Process):
    """Holds the same record in an index and in a queue, and knows its own method."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        record = Record(set())
        self.index = {"m": record}
        self.queue = [record]
        self.handler = self.note

    def note(self, who: str) -> None:
        self.index["m"].acks.add(who)

    def step(self, event: Event) -> list[Effect]:
        self.handler("p2")
        return []


def test_what_is_held_twice_is_one_thing_in_a_fork_too() -> None:
    process = Bookkeeper("p1", ("p1", "p2"), take_first)
    twin = process.fork(take_first).fork(take_first)
    twin.step(Start())
    assert twin.queue[0].acks == {"p2"}
    assert process.queue[0].acks == set()


@pytest.mark.parametrize(
    "hold",
    [
        lambda shared: Sealed(shared),
        lambda shared: (1, shared),
        lambda shared: Done(shared),
        lambda shared: Sealed((Sealed(shared),)),
    ],
    ids=["struct", "tuple", "named tuple", "struct in a struct"],
)
def test_what_is_frozen_outside_may_change_inside(hold: Any) -> None:
    shared: set[int] = set()
    twin = copied({"frozen": hold(shared), "shared": shared})
    twin["shared"].add(1)
    assert shared == set()
    assert twin["frozen"] == hold({1})


def test_what_cannot_change_is_not_copied() -> None:
    fixed = Sealed((Asked(1), MessageId("p1", 1), frozenset((1, 2))))
    assert copied(fixed) is fixed


def test_values_of_different_kinds_are_different_states() -> None:
    different: list[Any] = [
        [],
        set(),
        {},
        Waiting(1),
        Done(1),
        Asked(1),
        Answered(1),
        Sealed(Asked(1)),
        Sealed(Answered(1)),
        [Waiting(1)],
        [Done(1)],
        {Waiting(1)},
        {Done(1)},
        {Waiting(1): 1},
        {Done(1): 1},
    ]
    assert len({fingerprint({"value": value}) for value in different}) == len(different)


def test_sets_in_structs_and_of_sets_have_no_order() -> None:
    words = [f"word {number}" for number in range(20)]
    for one in (lambda some: Sealed(set(some)), lambda some: {frozenset((word,)) for word in some}):
        assert fingerprint(one(words)) == fingerprint(one(words[::-1]))


def test_a_copy_keeps_what_kind_of_dict_it_is() -> None:
    twin = copied({"acks": defaultdict(list)})
    twin["acks"]["p1"].append(1)
    assert twin["acks"] == {"p1": [1]}


def test_an_object_that_contains_itself_is_shown_and_measured_once() -> None:
    node = Node("a")
    node.peers.append(node)
    assert shown(node) == {"name": "a", "peers": [str(node)]}
    assert measured({"node": node})["bytes"] == len("node") + len("name") + len("a") + len("peers")


def test_other_peoples_values_are_shown_in_plain_words() -> None:
    assert shown({"b": deque([1, 2]), "a": {2, "x", None}, 7: MessageId("p1", 2)}) == {
        "7": "p1#2",
        "a": [2, "x", None],
        "b": [1, 2],
    }


def test_what_cannot_be_copied_is_no_state() -> None:
    with pytest.raises(DataError, match="a lock cannot be part of a process's state"):
        fingerprint({"lock": Lock()})


# --- files

WORDY = """
from dataclasses import dataclass

from helper import SECRET
from tidings.core import Accept, Broadcast, Deliver, Message, MessageId, Packet, Process, Receive
from tidings.core import Send


class Word(Packet, frozen=True, tag="word"):
    message: Message


@dataclass
class Count:
    seq: int = 0


class Wordy(Process):
    def __init__(self, me, members, choose, *, echoes=1, loud=False, mode: "bool" = False):
        super().__init__(me, members, choose)
        self.count = Count()
        self.echoes = echoes
        self.loud = loud

    def step(self, event):
        match event:
            case Broadcast((text,)):
                self.count.seq += 1
                word = Word(Message(self.me, self.count.seq, text))
                return [Accept((word.message.id,)), *[Send(self.others, word)] * self.echoes]
            case Receive(_, Word(message)):
                return [Deliver((message,))]
        return []
"""


@pytest.fixture
def wordy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of one's own in the current folder, with another one that it imports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("SECRET = 42")
    (tmp_path / "wordy.py").write_text(WORDY)
    sys.modules.pop("helper", None)
    return tmp_path / "wordy.py"


MEMBERS = ("p1", "p2", "p3")


def test_a_class_in_a_file_is_a_protocol(wordy: Path) -> None:
    p1 = factory("wordy.py:Wordy", {"echoes": 2})("p1", MEMBERS, take_first)
    assert isinstance(p1, Process)
    assert (type(p1).__name__, p1.echoes) == ("Wordy", 2)
    run = walk(Plan(protocol="wordy.py:Wordy", processes=3, broadcasts=4), seed=1)
    assert run.manifest.protocol == "wordy.py:Wordy"
    assert sum(row.kind == "deliver" for row in run.rows) == 8


@pytest.mark.parametrize("name", ["wordy.py", "wordy.py:", "./wordy.py:Wordy"])
def test_the_only_class_needs_no_name(wordy: Path, name: str) -> None:
    assert type(factory(name)("p1", MEMBERS, take_first)).__name__ == "Wordy"


def test_the_same_file_is_loaded_once_and_a_changed_one_again(wordy: Path) -> None:
    def kind() -> type:
        return type(factory("wordy.py")("p1", MEMBERS, take_first))

    first = kind()
    assert kind() is first
    wordy.write_text(WORDY.replace("class Wordy", "class Chatty"))
    assert kind().__name__ == "Chatty"


def test_a_file_is_found_from_another_folder(wordy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = factory("wordy.py")("p1", MEMBERS, take_first)
    (wordy.parent / "beside").mkdir()
    monkeypatch.chdir(wordy.parent / "beside")
    assert type(factory("../wordy.py")("p1", MEMBERS, take_first)) is type(first)


def test_its_objects_can_be_pickled(wordy: Path) -> None:
    p1 = factory("wordy.py")("p1", MEMBERS, take_first)
    twin = pickle.loads(pickle.dumps(p1))
    assert twin == p1
    assert type(twin) is type(p1)


def test_scenario_files_know_it(wordy: Path) -> None:
    (wordy.parent / "file with spaces.py").write_text(WORDY)
    scenario = wordy.parent / "own.txt"
    for name in ("wordy.py:Wordy echoes=2", "file with spaces.py echoes=2"):
        scenario.write_text(f"group p1 p2\nprotocol {name}\nbroadcast p1 hi\nreceive all\n")
        played = play_scenario(scenario)
        assert played.conversation().count('p2 delivers p1#1 "hi"') == 2
        assert played.run.manifest.options == {"echoes": 2}


def test_a_name_with_spaces_is_distinguished_from_its_options() -> None:
    assert protocol_of("my file.py:Mine echoes=2 loud=yes") == (
        "my file.py:Mine",
        {"echoes": 2, "loud": True},
    )
    assert protocol_of("my file.py") == ("my file.py", {})


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("wordy.py", {"speed": 9}, "wordy.py has no option 'speed'; it has: echoes, loud, mode"),
        ("wordy.py", {"mode": 9}, "mode is yes or no, not 9"),
        ("absent.py", {}, "absent.py: no such file"),
        ("wordy.py:Worldly", {}, "wordy.py has no class 'Worldly'; it has: Wordy"),
        ("wordy.py:Word", {}, "Word in wordy.py is not a process"),
        ("wordy.py:SECRET", {}, "SECRET in wordy.py is not a process"),
        ("wordy.py:Process", {}, "Process in wordy.py has no step"),
        ("helper.py", {}, "helper.py has no process: no class derived from tidings.core.Process"),
        (".", {}, "unknown protocol '.'"),
    ],
)
def test_what_is_not_there_gets_one_line(
    wordy: Path, name: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        factory(name, options)
    assert complaint in str(caught.value)


def test_of_several_classes_one_is_named(wordy: Path) -> None:
    wordy.write_text(WORDY + "\n\nclass Other(Wordy): ...\n")
    with pytest.raises(UsageError, match="several processes; name one: Wordy, Other"):
        factory("wordy.py")
    assert factory("wordy.py:Other")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("class Mine(\n", "mine.py:1: syntax error: '(' was never closed"),
        ("\nimport no_such_module\n", "mine.py:2: cannot import: ModuleNotFoundError: No module"),
        ("from tidings.core import Nothing", "mine.py:1: cannot import: ImportError: cannot"),
        ("\n\n1 / 0\n", "mine.py:3: fails while it is loaded: ZeroDivisionError: division by"),
        ("exit(3)", "mine.py:1: fails while it is loaded: SystemExit: 3"),
        ("import random\nrandom.random()", "mine.py:2: fails while it is loaded: RuntimeError"),
        ("\0", "mine.py"),
        ("\xff", "mine.py:1: syntax error"),
    ],
)
def test_a_file_that_cannot_be_loaded_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    (tmp_path / "mine.py").write_bytes(source.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        factory("mine.py")
    assert complaint in str(caught.value)
    assert not [name for name in set(sys.modules) - before if name.startswith("tidings_own_mine")]


@pytest.mark.parametrize(
    ("constructor", "complaint"),
    [
        (
            "def __init__(self, me, members): ...",
            "own.py: Mine cannot be made for p1 of p1, p2, p3",
        ),
        (
            "def __init__(self, me, members, choose): ...",
            "own.py: its __init__ does not call super",
        ),
        ("def __init__(self, me, members, choose): 1 / 0", "own.py:3: Mine cannot be made for p1"),
        (
            "def __init__(self, *of):\n  super().__init__(*of)\n  self.f = open('own.py')",
            "own.py: not everything in a process's state can be copied: cannot pickle '_io.Text",
        ),
    ],
)
def test_a_constructor_that_fails_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constructor: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "from tidings.core import Process\nclass Mine(Process):\n "
    (tmp_path / "own.py").write_text(f"{head}{constructor}\n def step(self, event): return []\n")
    with pytest.raises(DataError) as caught:
        factory("own.py")("p1", MEMBERS, take_first)
    assert complaint in str(caught.value)


def test_a_process_that_draws_on_its_own_learns_how_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "from random import random\n"
        "from tidings.core import Process\n"
        "class Mine(Process):\n"
        " def step(self, event): return [random()]\n"
    )
    with pytest.raises(DataError, match=r"a Process draws with self\.choose"):
        walk(Plan(protocol="own.py"), seed=1)


# --- commands


def test_simulate_and_compare_take_a_class_of_ones_own(tidings, wordy: Path) -> None:
    simulated = tidings("simulate", "--process", "wordy.py:Wordy", "--seed", "1")
    assert simulated.status == 1
    assert "wordy.py:Wordy, 5 processes, 20 broadcasts" in simulated.out
    words = ("--process", "wordy.py", "--process", "wordy.py:Wordy echoes=3", "--protocol")
    compared = tidings("compare", *words, "majority-relay", "--sizes", "3")
    figures = dict(line.rsplit(maxsplit=1) for line in compared.out.splitlines()[2:6])
    assert figures == {
        "packets": "n=3",
        "majority-relay": "6",
        "wordy.py": "2",
        "wordy.py:Wordy echoes=3": "6",
    }


FATAL = """
from tidings.core import Broadcast, Process

class Fatal(Process):
    def step(self, event):
        return [1 / 0] if isinstance(event, Broadcast) else []
"""


def test_a_first_step_that_is_fatal_can_be_replayed(tidings, tmp_path: Path) -> None:
    (tmp_path / "fatal.py").write_text(FATAL)
    failed = tidings("simulate", "--process", "fatal.py", "--seed", "1", "--processes", "2")
    *_, way = failed.err.splitlines()
    again = tidings(*way.partition("tidings ")[2].split())
    assert (failed.status, again.status) == (65, 65)
    assert "ZeroDivisionError" in again.err
    assert again.err.splitlines()[:3] == failed.err.splitlines()[:3]


def test_a_stored_run_is_found_again_when_its_file_has_moved(tidings, wordy: Path) -> None:
    stored = tidings("simulate", "--process", "wordy.py", "--seed", "1", "--trace", "t")
    assert stored.status == 1
    (wordy.parent / "elsewhere").mkdir()
    wordy.rename(wordy.parent / "elsewhere" / "moved.py")
    lost = tidings("replay", "t")
    assert lost.status == 65
    assert f"wordy.py: no such file in {wordy.parent}; --process FILE:CLASS says" in lost.err
    replayed = tidings("replay", "t", "--process", "elsewhere/moved.py:Wordy")
    assert replayed.status == 1, replayed.err
    assert "byte for byte" in replayed.out
    shrunk = tidings("shrink", "t", "--process", "elsewhere/moved.py", "--out", "small")
    assert shrunk.status == 1, shrunk.err
    (test,) = (wordy.parent / "small").glob("test_*.py")
    assert '\nPROTOCOL = "elsewhere/moved.py"\n' in test.read_text()
    assert '(here / "..").resolve()' in test.read_text()


def test_a_process_given_again_is_a_class_in_a_file(tidings, wordy: Path) -> None:
    tidings("simulate", "--process", "wordy.py", "--seed", "1", "--trace", "t")
    assert tidings("replay", "t", "--process", "majority-relay").status == 64


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "--process", "\udcff.py"],
        ["simulate", "--option", "notice=\udcff"],
        ["explore", "--option", "notice=\udcff"],
        ["adapt", "majority-relay", "--option", "notice=\udcff"],
    ],
)
def test_64_when_a_name_or_an_option_is_not_utf_8(tidings, words: list[str]) -> None:
    spoken = tidings(*words)
    assert spoken.status == 64
    assert "is not UTF-8, as names and options have to be" in spoken.err


def test_any_bytes_are_a_text(tidings, tmp_path: Path) -> None:
    words = ("--protocol", "flawed/hasty", "--crashes", "1", "--workers", "1", "--out", "found")
    assert tidings("explore", *words, "--text", "\udcff").status == 1
    (run,) = read_runs(tmp_path / "found" / "uniform-agreement")
    assert digest(b"\xff") in {row.digest for row in run.rows}


NOISY = """
from tidings.core import Accept, Broadcast, Deliver, Message, MessageId, Process

print("loaded")

class Noisy(Process):
    def __init__(self, *about):
        super().__init__(*about)
        print("made")

    def step(self, event):
        print("step", type(event).__name__)
        if isinstance(event, Broadcast):
            message = Message(self.me, 1, *event.texts)
            return [Accept((message.id,)), Deliver((message,))]
        return []
"""


@pytest.mark.parametrize(
    "command",
    [
        "simulate --processes 1 --broadcasts 1 --seed 1",
        "explore --processes 1 --workers 1",
        "compare --sizes 1",
    ],
)
def test_what_a_process_prints_is_no_result(tidings, tmp_path: Path, command: str) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    spoken = tidings(*command.split(), "--process", "noisy.py", "--json")
    assert spoken.status == 0, spoken.err
    assert json.loads(spoken.out)
    assert {"loaded", "made", "step Broadcast"} <= set(spoken.err.splitlines())


def test_a_command_and_a_program_name_the_same_run_alike(tidings, wordy: Path) -> None:
    words = ("--process", "wordy.py", "--processes", "3", "--broadcasts", "4", "--seed", "1")
    printed = json.loads(tidings("simulate", *words, "--json").out)["run"]
    plan = Plan(protocol="wordy.py", processes=3, broadcasts=4, mid_broadcast=float("0.5"))
    assert walk(plan, seed=1).manifest.run == printed


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["simulate", "--process", "two-phase"], "--process takes a class in a file: my_file.py:"),
        (["compare", "--process", "two-phase"], "--process takes a class in a file: my_file.py:"),
        (["simulate", "--process", "wordy.py", "--protocol", "two-phase"], "leave --protocol out"),
        (["simulate", "--process", "wordy.py", "--option", "fast=yes"], "has no option 'fast'"),
        (["simulate", "crash.txt", "--process", "wordy.py"], "a scenario file says everything"),
        (["simulate", "--process", "absent.py:Mine"], "absent.py: no such file"),
    ],
)
def test_64_when_the_class_is_wrongly_named(
    tidings, wordy: Path, words: list[str], complaint: str
) -> None:
    answer = tidings(*words)
    assert answer.status == 64
    assert complaint in answer.err
    assert answer.err.count("\n") == 1


TRIPPING = WORDY.replace("                return [Deliver((message,))]", "                1 / 0")


@pytest.mark.parametrize("folder", [None, "mine"])
def test_65_when_it_fails_with_its_own_lines_and_the_way_there(
    tidings, wordy: Path, folder: str | None
) -> None:
    wordy.write_text(TRIPPING)
    where = ["--trace", folder] if folder else []
    answer = tidings("simulate", "--process", "wordy.py", "--seed", "1", *where)
    assert answer.status == 65
    first, *notes, last = answer.err.splitlines()
    assert first.startswith("tidings: p")
    assert first.endswith(": ZeroDivisionError: division by zero")
    line = TRIPPING.splitlines().index("                1 / 0") + 1
    assert notes == [f"  wordy.py:{line}, in step", "      1 / 0"]
    stored = last.rpartition("tidings replay ")[2]
    assert folder is None or stored == folder
    assert stored.startswith(folder or "runs/fault-")
    again = tidings("replay", stored)
    assert again.status == 65
    assert again.err.splitlines() == [first, *notes]


def test_65_when_it_fails_in_a_scenario_or_a_comparison(tidings, wordy: Path) -> None:
    wordy.write_text(TRIPPING)
    (wordy.parent / "trip.txt").write_text(
        "group p1 p2\nprotocol wordy.py\nbroadcast p1 hi\nreceive all\n"
    )
    for words in (["simulate", "trip.txt"], ["compare", "--process", "wordy.py", "--sizes", "3"]):
        answer = tidings(*words)
        assert answer.status == 65
        stored = answer.err.splitlines()[-1].rpartition("tidings replay ")[2]
        assert tidings("replay", stored).err.splitlines()[:3] == answer.err.splitlines()[:3]


# --- the guide

GUIDE = HERE.parents[1] / "docs" / "bring-your-own.md"


def test_the_guide_shows_what_the_commands_print(tidings, request) -> None:
    ran = play(GUIDE, tidings, rewrite=request.config.getoption("--rewrite"))
    assert ran == [("simulate", 1), ("simulate", 1), ("adapt", 0), ("simulate", 65)]


def test_the_example_of_a_relay_breaks_what_it_says(tmp_path: Path) -> None:
    relay = HERE.parents[1] / "examples" / "relay.py"
    (tmp_path / "dies.txt").write_text(
        f"group p1 p2 p3\nprotocol {relay}:Relay\nbroadcast p1 hello\ncrash p1\nsettle\n"
    )
    died = play_scenario(tmp_path / "dies.txt").run
    lively = walk(Plan(protocol=str(relay), broadcasts=30), seed=1)
    broken = [
        {verdict.guarantee for verdict in judge(run) if verdict.value is Value.VIOLATED}
        for run in (died, lively)
    ]
    assert broken == [{Guarantee.UNIFORM_AGREEMENT}, {Guarantee.CAUSAL_ORDER}]
