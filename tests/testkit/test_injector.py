"""Faults above TCP: each shown by what comes out, and the same for the same seed."""

from collections import Counter
from typing import Any

import pytest

from tidings.core import MessageId, UsageError
from tidings.protocols.frontier.packets import Batch, Counts, Data, Holding
from tidings.testkit.injector import Fate, Injector

P1_P2 = ("p1", "p2")
P2_P1 = ("p2", "p1")
DATA = Data(Batch(MessageId("p1", 1), (b"one",), Counts(all=(0, 0))))
HOLDING = Holding(Counts(all=(1, 0)))


def passed(injector: Injector[Any], packets: list[Any], link: tuple[str, str] = P1_P2) -> list[Any]:
    """What comes of these, one by one, and of what was held back at the end."""
    come = [one for packet in packets for one in injector.pass_on(link, [packet])]
    return come + injector.release().get(link, [])


def test_without_faults_everything_passes_at_once() -> None:
    injector: Injector[int] = Injector()
    assert injector.pass_on(P1_P2, [1, 2, 3]) == [1, 2, 3]
    assert injector.release() == {}
    assert injector.counts[Fate.PASSED] == 3


# --- by order


def test_the_next_packets_of_a_kind_on_a_link_are_lost() -> None:
    injector: Injector[Data | Holding] = Injector()
    injector.order(Fate.LOST, 2, kind=DATA.kind, link=P1_P2)
    assert injector.pass_on(P2_P1, [DATA]) == [DATA], "another link"
    assert injector.pass_on(P1_P2, [HOLDING]) == [HOLDING], "another kind"
    assert injector.pass_on(P1_P2, [DATA, HOLDING, DATA, DATA]) == [HOLDING, DATA]
    assert injector.counts[Fate.LOST] == 2


def test_a_repeated_packet_comes_at_once_and_once_more_later() -> None:
    injector: Injector[int] = Injector(distance=1)
    injector.order(Fate.DUPLICATED)
    assert injector.pass_on(P1_P2, [1]) == [1]
    assert injector.pass_on(P1_P2, [2, 3]) == [2, 1, 3]


def test_a_packet_held_back_is_overtaken() -> None:
    injector: Injector[int] = Injector(distance=1)
    injector.order(Fate.HELD, 2)
    assert injector.pass_on(P1_P2, [1, 2, 3, 4]) == [1, 3, 2, 4], "1 by 2, which is held itself"


def test_orders_are_carried_out_in_turn() -> None:
    injector: Injector[int] = Injector()
    injector.order(Fate.PASSED, 2)
    injector.order(Fate.LOST)
    assert injector.pass_on(P1_P2, [1, 2, 3, 4]) == [1, 2, 4]


def test_an_order_leaves_the_luck_of_the_others() -> None:
    packets = list(range(1000))
    ordered: Injector[int] = Injector(3, lost=0.5)
    ordered.order(Fate.HELD, 10)
    by_chance = set(passed(Injector(3, lost=0.5), packets))
    assert set(passed(ordered, packets)) == by_chance | set(range(10))


# --- by chance


@pytest.mark.parametrize(
    ("share", "fate"),
    [("lost", Fate.LOST), ("duplicated", Fate.DUPLICATED), ("reordered", Fate.HELD)],
)
def test_a_share_of_packets_meets_its_fate(share: str, fate: Fate) -> None:
    packets = list(range(10_000))
    injector: Injector[int] = Injector(1, **{share: 0.1})  # type: ignore[arg-type]
    come = passed(injector, packets)
    assert 900 <= injector.counts[fate] <= 1100
    assert injector.counts[Fate.PASSED] == 10_000 - injector.counts[fate]
    copies = Counter(come)
    met = {
        "lost": sum(copies[packet] == 0 for packet in packets),
        "duplicated": sum(copies[packet] == 2 for packet in packets),
        "reordered": injector.counts[Fate.HELD] if come != sorted(come) else 0,
    }
    assert met[share] == injector.counts[fate]
    assert share == "lost" or set(come) == set(packets), "nothing else is lost"


def test_nobody_is_overtaken_by_more_than_the_distance() -> None:
    come = passed(Injector(1, reordered=0.5, distance=4), list(range(1000)))
    late = [max(come[:place], default=0) - packet for place, packet in enumerate(come)]
    assert max(late) == 4


def test_the_same_seed_means_the_same_fates() -> None:
    def run(seed: int) -> list[int]:
        injector: Injector[int] = Injector(seed, lost=0.1, duplicated=0.1, reordered=0.1)
        return passed(injector, list(range(1000)))

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_the_luck_of_a_link_does_not_depend_on_the_others() -> None:
    quiet: Injector[int] = Injector(7, lost=0.3)
    busy: Injector[int] = Injector(7, lost=0.3)
    packets = list(range(100))
    passed(busy, packets, P2_P1)
    assert passed(busy, packets) == passed(quiet, packets)
    assert passed(Injector(7, lost=0.3), packets, P2_P1) != passed(quiet, packets)


# --- the hook


def test_batches_or_one_by_one_is_the_same() -> None:
    packets = list(range(500))
    injector: Injector[int] = Injector(5, lost=0.2, duplicated=0.2, reordered=0.2)
    whole = injector.pass_on(P1_P2, packets) + injector.release().get(P1_P2, [])
    assert whole == passed(Injector(5, lost=0.2, duplicated=0.2, reordered=0.2), packets)


def test_what_is_held_back_is_released_once() -> None:
    injector: Injector[int] = Injector()
    injector.order(Fate.HELD, 2)
    assert injector.pass_on(P1_P2, [1]) == []
    assert injector.pass_on(P2_P1, [2]) == []
    assert injector.release() == {P1_P2: [1], P2_P1: [2]}
    assert injector.release() == {}


def test_a_broken_connection_takes_along_what_was_held_back() -> None:
    injector: Injector[int] = Injector()
    injector.order(Fate.HELD, 2)
    injector.pass_on(P1_P2, [1])
    injector.pass_on(P2_P1, [2])
    injector.forget(P1_P2)
    assert injector.release() == {P2_P1: [2]}


def test_healed_it_lets_everything_pass() -> None:
    injector: Injector[int] = Injector(1, lost=0.9)
    injector.order(Fate.HELD)
    assert injector.pass_on(P1_P2, [1]) == []
    injector.order(Fate.LOST, 10)
    injector.heal()
    assert injector.release() == {P1_P2: [1]}
    assert injector.pass_on(P1_P2, [2, 3, 4]) == [2, 3, 4]


def test_packets_may_come_with_their_numbers() -> None:
    injector: Injector[tuple[int, Data | Holding]] = Injector(kind_of=lambda one: one[1].kind)
    injector.order(Fate.LOST, kind=HOLDING.kind)
    assert injector.pass_on(P1_P2, [(7, DATA), (8, HOLDING)]) == [(7, DATA)]


# --- words


def test_an_injector_from_words() -> None:
    injector: Injector[int] = Injector.parse("seed=7 lost=0.25 reordered=0.5 distance=4")
    same: Injector[int] = Injector(7, lost=0.25, reordered=0.5, distance=4)
    assert passed(injector, list(range(100))) == passed(same, list(range(100)))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("lost=much", "lost is a number, not 'much'"),
        ("delayed=0.1", "the injector knows no 'delayed=0.1'; it knows seed, distance, lost"),
        ("lost=1.5", "lost is a share of packets, from 0 to 1, not 1.5"),
        ("lost=nan", "lost is a share of packets, from 0 to 1, not nan"),
        ("lost=0.9 duplicated=0.2", "more than all packets together"),
        ("distance=0", "distance is 1 packet or more, not 0"),
    ],
)
def test_words_that_make_no_injector(words: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Injector.parse(words)


def test_an_order_for_no_packet_is_refused() -> None:
    with pytest.raises(UsageError, match="an order is for 1 packet or more, not 0"):
        Injector().order(Fate.LOST, 0)
