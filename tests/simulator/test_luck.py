"""Luck: what a seed decides, it decides by keys, so that runs of one seed can be compared."""

from collections import Counter
from statistics import fmean

import pytest

from tidings.simulator import Plan, walk
from tidings.simulator.luck import Luck
from tidings.trace import Run

LUCKS = [Luck(seed) for seed in range(4_000)]


def test_a_draw_depends_on_the_seed_and_its_key_and_on_nothing_else() -> None:
    hurried, calm = Luck(7), Luck(7)
    for number in range(100):
        hurried.share("delay", "p1", "p2", number)
        hurried.next_share("choice", "p1", "side")
    assert hurried.share("delay", "p3", "p1", 1) == calm.share("delay", "p3", "p1", 1)
    assert hurried.next_share("choice", "p2", "side") == calm.next_share("choice", "p2", "side")
    shares = {
        Luck(seed).share(*key)
        for seed in (1, 11)
        for key in (("a", "b", 1), ("a", "b", 11), ("ab", 1), ("a", "b1"), ("a", "b", "1"))
    }
    assert len(shares) == 10


def test_draws_are_spread_as_they_should_be() -> None:
    assert fmean(luck.share("x") for luck in LUCKS) == pytest.approx(0.5, abs=0.02)
    tenths = Counter(int(luck.share("x") * 10) for luck in LUCKS)
    assert all(300 < tenths[tenth] < 500 for tenth in range(10))
    ends = Counter(luck.between(3, 5, "x") for luck in LUCKS)
    assert set(ends) == {3, 4, 5}
    assert min(ends.values()) > 1_200
    assert fmean(luck.gap(5.0, "x") for luck in LUCKS) == pytest.approx(5.0, rel=0.05)
    again = Counter(luck.retries(0.5, "x") for luck in LUCKS)
    assert [again[times] / 4_000 for times in range(3)] == pytest.approx(
        [0.5, 0.25, 0.125], abs=0.03
    )
    assert fmean(luck.tail(3.0, "x") for luck in LUCKS) == pytest.approx(1.5, rel=0.05)


def test_what_has_no_weight_is_never_drawn_and_the_rest_by_its_weight() -> None:
    drawn = Counter(luck.weighted((0, 1, 0, 3, 0), "x") for luck in LUCKS)
    assert set(drawn) == {1, 3}
    assert drawn[3] / 4_000 == pytest.approx(0.75, abs=0.03)


def test_everybody_is_as_likely_among_some_as_anybody_else() -> None:
    chosen = Counter(name for luck in LUCKS for name in luck.some_of(("p1", "p2", "p3"), 2, "x"))
    assert all(count / 4_000 == pytest.approx(2 / 3, abs=0.03) for count in chosen.values())


def delays(run: Run) -> dict[tuple[object, ...], int]:
    """How long each packet took, by its link and its number."""
    sent: dict[tuple[object, ...], int] = {
        (row.process, row.peer, row.packet): row.time_ns for row in run.rows if row.kind == "send"
    }
    return {
        (row.peer, row.process, row.packet): row.time_ns - sent[row.peer, row.process, row.packet]
        for row in run.rows
        if row.kind == "receive"
    }


def test_two_protocols_under_one_seed_meet_the_same_load_delays_and_crashes() -> None:
    def under(protocol: str) -> Run:
        return walk(Plan(protocol=protocol, crashes=1, mid_broadcast=0.0, lost=0.2), seed=5)

    one, other = under("majority-relay"), under("two-phase")
    for kind in ("broadcast", "crash"):
        happened = [
            [(row.time_ns, row.process) for row in run.rows if row.kind == kind]
            for run in (one, other)
        ]
        assert happened[0] == happened[1] != []
    theirs = delays(other)
    common = [(took, theirs[packet]) for packet, took in delays(one).items() if packet in theirs]
    assert len(common) > 100
    assert [took for took, _ in common] == [took for _, took in common]
