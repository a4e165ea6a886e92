"""Processes of one's own: their state, the files they are loaded from, and the commands."""

import os
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from itertools import count, permutations
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pytest

from tidings.core import DataError, MessageId
from tidings.core.anything import deep_fingerprint
from tidings.core.state import copied, fingerprint, measured, shown

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
        "counting": count(5),
    }


def test_equal_contents_have_equal_fingerprints_in_any_order_of_insertion() -> None:
    prints = {fingerprint(odds_and_ends(list(words))) for words in permutations("abcd")}
    assert len(prints) == 1


def test_fingerprints_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from test_own import odds_and_ends, fingerprint;"
        "print(fingerprint(odds_and_ends(['a', 'b', 'c', 'd'])).hex())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert told == {fingerprint(odds_and_ends(["d", "c", "b", "a"])).hex() + "\n"}


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
        count(1),
        count(2),
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
    next(twin["counting"])
    assert fingerprint(state) == before != fingerprint(twin)


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
