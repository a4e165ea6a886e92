"""Rereading: whatever pieces the disk gives, each origin in its order, and causes first."""

import random

import pytest

from tidings.core import Causes, Found, Message, MessageId, Rereading

MEMBERS = ("p1", "p2", "p3", "p4")


def delivered(dice: random.Random, count: int) -> list[Found]:
    """A random history, in an order in which it may have been delivered."""
    last = dict.fromkeys(MEMBERS, 0)
    history: list[Found] = []
    for _ in range(count):
        origin = dice.choice(MEMBERS)
        others = [one for one in MEMBERS if last[one] and dice.random() < 0.4]
        causes = tuple(MessageId(one, dice.randint(1, last[one])) for one in others)
        last[origin] += 1
        history.append((Message(origin, last[origin], b"text"), causes))
    return history


def counts(history: list[Found]) -> dict[str, int]:
    return dict.fromkeys(MEMBERS, 0) | {one.id.origin: one.id.seq for one, _ in history}


def piece(dice: random.Random, history: list[Found], wanted: MessageId, size: int) -> list[Found]:
    """The wanted message with whatever stands beside it, and something else from elsewhere."""
    place = next(place for place, (one, _) in enumerate(history) if one.id == wanted)
    first = max(0, place - dice.randint(0, size))
    return dice.sample(history, size) + history[first : first + size + 1]


@pytest.mark.parametrize("seed", range(40))
def test_everything_comes_once_each_origin_in_order_and_causes_first(seed: int) -> None:
    dice = random.Random(seed)
    history = delivered(dice, 120)
    on_disk = [history[place] for place in sorted(range(120), key=lambda n: n + dice.random() * 30)]
    begin = dice.randint(0, 60)
    handed, upto = counts(history[:begin]), counts(history[:100])
    most_bytes, size = dice.choice([1, 2_000, 20_000]), dice.choice([1, 5, 40])
    rereading = Rereading(dict(handed), upto, most_bytes)
    again: list[Message] = []
    while not rereading.is_over:
        wanted = rereading.wanted()
        rereading.add(wanted, iter(piece(dice, on_disk, wanted, size)))
        assert rereading.in_memory <= len(MEMBERS) * (2 + rereading.share // 200)
        again += rereading.take()
    assert sorted(one.id for one in again) == sorted(one.id for one, _ in history[begin:100])
    causes: dict[MessageId, Causes] = {one.id: causes for one, causes in history}
    for origin, seq in (one.id for one in again):
        assert handed[origin] == seq - 1
        assert all(handed[cause] >= last for cause, last in causes[MessageId(origin, seq)])
        handed[origin] = seq


def test_of_origins_of_which_nothing_is_wanted_nothing_is_waited_for() -> None:
    rereading = Rereading({"p1": 0}, {"p1": 1}, 1_000)
    caused = (Message("p1", 1, b"text"), (MessageId("p9", 4),))
    rereading.add(MessageId("p1", 1), [(Message("p9", 4, b"text"), ()), caused])
    assert [one.id for one in rereading.take()] == [MessageId("p1", 1)]


def test_texts_and_causes_in_memory_are_limited_in_bytes() -> None:
    first = MessageId("p1", 1)
    texts: list[Found] = [(Message("p2", seq, b"." * 100), (first,)) for seq in range(1, 1_000)]
    handed = dict.fromkeys(MEMBERS, 0)
    rereading = Rereading(handed, handed | {"p1": 1, "p2": 900}, most_bytes=20_000)
    assert rereading.wanted() == first
    rereading.add(first, [(Message(*first, b""), (MessageId("p2", 1),)), *texts])
    assert 2 < rereading.in_memory <= 2 + 20_000 / len(MEMBERS) / 300
    rereading.skip({"p1": 1})
    assert {one.id.origin for one in rereading.take()} == {"p2"}
    assert rereading.in_memory == 0


def test_messages_that_stand_far_apart_are_read_a_share_at_a_time() -> None:
    """Two origins that answer each other, and were caught up with one after the other."""
    on_disk: dict[str, list[Found]] = {"p1": [], "p2": []}
    for seq in range(1, 1_001):
        before = (MessageId("p2", seq - 1),) if seq > 1 else ()
        on_disk["p1"].append((Message("p1", seq, b""), before))
        on_disk["p2"].append((Message("p2", seq, b""), (MessageId("p1", seq),)))
    rereading = Rereading({"p1": 0, "p2": 0}, {"p1": 1_000, "p2": 1_000}, 2 * 50 * 300)
    times = received = 0
    while not rereading.is_over:
        wanted = rereading.wanted()
        rereading.add(wanted, on_disk[wanted.origin][wanted.seq - 1 :])
        received += len(rereading.take())
        times += 1
    assert received == 2_000
    assert times <= 2 * 1_000 / 50 + 2, "each origin fifty at a time"


def test_what_was_processed_meanwhile_is_left_out_and_waited_for_by_nobody() -> None:
    handed = {"p1": 0, "p2": 0}
    rereading = Rereading(handed, {"p1": 3, "p2": 1}, most_bytes=10_000)
    found: list[Found] = [(Message("p1", seq, b""), ()) for seq in (2, 3)]
    found.append((Message("p2", 1, b""), (MessageId("p1", 2),)))
    rereading.skip({"p1": 1})
    rereading.add(rereading.wanted(), found)
    rereading.skip({"p1": 2})
    assert rereading.in_memory == 2
    assert [str(one.id) for one in rereading.take()] == ["p1#3", "p2#1"]
    assert rereading.is_over
    rereading.skip({"p1": 9})
    assert handed == {"p1": 9, "p2": 1}
    assert rereading.is_over


def test_what_should_be_on_disk_and_is_not_is_reported() -> None:
    rereading = Rereading({"p1": 4}, {"p1": 9}, most_bytes=10_000)
    later: Found = (Message("p1", 6, b""), ())
    with pytest.raises(AssertionError, match=r"p1#5 is not processed, and not kept"):
        rereading.add(rereading.wanted(), [later])
