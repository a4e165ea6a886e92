"""The vocabulary: names, quorums, ids, and state that can be copied and compared."""

import msgspec
import pytest

from tidings.core import (
    Broadcast,
    Choose,
    Effect,
    Event,
    Members,
    Message,
    MessageId,
    Part,
    Process,
    Receive,
    Span,
    UsageError,
    is_name,
    majority,
    ordered,
    quorum,
    replacement,
    take_first,
)
from tidings.core.state import copied, fingerprint, shown
from tidings.protocols import PROTOCOLS, factory
from tidings.protocols.holdback import Stamped
from tidings.protocols.majority_relay import Copy


def test_members_are_in_the_order_a_person_expects() -> None:
    assert ordered(["p10", "p2", "p1", "p2", "anna"]) == ("anna", "p1", "p2", "p10")


@pytest.mark.parametrize("name", ["p1", "anna-b.c_d", "p2+1", "p2+999999999"])
def test_names_are_plain_words(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "1p", "a b", "ä", "p2+", "p2+0", "p2+01", "p2+1+1", "+1", "p2+1234567890"]
)
def test_what_could_be_mistaken_is_no_name(name: str) -> None:
    assert not is_name(name)


def test_a_replacement_has_the_next_number_that_nobody_had() -> None:
    used = ("p1", "p2", "p2+1", "p2+10", "p22", "p22+50")
    assert replacement("p2", ()) == "p2+1"
    assert replacement("p2", used) == replacement("p2+1", used) == "p2+11"
    assert ordered([replacement("p2", used), "p10", "p2", "p3"]) == ("p2", "p2+11", "p3", "p10")


@pytest.mark.parametrize("size", range(1, 12))
def test_a_quorum_always_includes_a_survivor_and_survivors_always_make_a_quorum(size: int) -> None:
    may_crash = size - majority(size)
    assert may_crash == quorum(size) - 1
    assert quorum(size) > may_crash
    assert size - may_crash >= quorum(size)


def test_a_message_id_reads_as_it_is_written() -> None:
    assert str(MessageId("p1", 4)) == "p1#4"
    assert MessageId.parse("p1#4") == MessageId("p1", 4)
    for wrong in ("p1", "#4", "p1#", "p1#x"):
        with pytest.raises(UsageError, match="is not a message"):
            MessageId.parse(wrong)


def test_a_span_reads_as_its_first_and_its_last_message() -> None:
    assert str(Span("p1", 3, 7)) == "p1#3..7"


def test_a_packet_knows_its_kind_and_what_it_is_about() -> None:
    copy = Copy(Stamped(MessageId("p1", 1), b"x", (0,)))
    assert (copy.kind, copy.about) == ("copy", MessageId("p1", 1))


def test_a_fingerprint_does_not_depend_on_the_order_of_insertion() -> None:
    one = {MessageId("p1", 1): {"a", "b"}, MessageId("p1", 2): set()}
    other = {MessageId("p1", 2): set(), MessageId("p1", 1): {"b", "a"}}
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint({MessageId("p1", 1): {"a"}})


def test_a_copy_shares_nothing_that_can_change() -> None:
    original = {"sets": [{1}, {2}], "dict": {"a": [1]}, "fixed": (1, b"x")}
    twin = copied(original)
    twin["sets"][0].add(9)
    twin["dict"]["a"].append(9)
    assert original == {"sets": [{1}, {2}], "dict": {"a": [1]}, "fixed": (1, b"x")}


def test_state_is_shown_in_plain_values() -> None:
    state = {MessageId("p1", 2): Message("p1", 2, b"\xff!"), "who": {"b", "a"}}
    assert shown({"messages": {MessageId("p1", 2): state[MessageId("p1", 2)]}}) == {
        "messages": {"p1#2": {"origin": "p1", "seq": 2, "text": "\\xff!"}}
    }
    assert shown(state["who"]) == ["a", "b"]


@pytest.fixture
def process() -> Process:
    return factory("majority-relay")("p1", ("p1", "p2", "p3"), take_first)


def test_a_fork_goes_its_own_way(process: Process) -> None:
    process.step(Broadcast((b"hello",)))
    twin = process.fork(take_first)
    assert twin == process
    assert twin.fingerprint() == process.fingerprint()
    twin.step(Receive("p2", Copy(Stamped(MessageId("p1", 1), b"hello", (0, 0, 0)))))
    assert twin != process
    assert twin.fingerprint() != process.fingerprint()
    assert process.describe()["delivered"] == {"p1": 0, "p2": 0, "p3": 0}
    assert twin.describe()["delivered"] == {"p1": 1, "p2": 0, "p3": 0}


class Tally(Part):
    counted: dict[str, int] = msgspec.field(default_factory=dict)


class Doubling(Part):
    tally: Tally
    factor: int


class OfParts(Process):
    """Two parts, of which one holds the other."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.tally = Tally(me, members)
        self.doubling = Doubling(me, members, self.tally, 2)

    def step(self, event: Event) -> list[Effect]:
        counted = self.doubling.tally.counted
        counted["p1"] = self.doubling.factor * counted.get("p1", 1)
        return []


def test_a_process_lists_the_fields_of_its_parts_once() -> None:
    made = OfParts("p1", ("p1", "p2"))
    assert made.state() == {"me": "p1", "members": ("p1", "p2"), "counted": {}, "factor": 2}
    assert made.describe()["counted"] == {}
    made.doubling.tally = made.tally = Tally("p1", ("p1", "p2"), {"p2": 1})
    assert made != OfParts("p1", ("p1", "p2"))


def test_a_fork_has_parts_of_its_own_that_hold_each_other() -> None:
    made = OfParts("p1", ("p1", "p2"))
    twin = made.fork(take_first)
    twin.step(Broadcast((b"x",)))
    assert twin.tally is twin.doubling.tally
    assert twin.state()["counted"] == {"p1": 2}
    assert made.state()["counted"] == {}
    twin.renew()
    assert twin.tally is twin.doubling.tally


def test_no_two_parts_have_a_field_of_the_same_name() -> None:
    made = OfParts("p1", ("p1", "p2"))
    made.spare = Tally("p1", ("p1", "p2"))
    with pytest.raises(AssertionError, match="counted"):
        made.state()


def test_options_of_older_files_are_understood() -> None:
    now = factory("frontier", {"until_processed": True})("p1", ("p1",), take_first)
    assert factory("frontier", {"confirmed": True})("p1", ("p1",), take_first) == now


def test_unknown_protocols_and_options_are_named() -> None:
    with pytest.raises(UsageError, match="unknown protocol 'urb'; known: majority-relay"):
        factory("urb")
    with pytest.raises(UsageError, match="majority-relay has no option 'fast'"):
        factory("majority-relay", {"fast": True})


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_can_be_made(name: str) -> None:
    made = factory(name)("p1", ("p1",), take_first)
    assert made.step(Broadcast((b"x",)))
