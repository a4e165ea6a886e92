"""Campaigns without Spark: loads and faults, plans and their mistakes, cells, runs, statistics."""

from collections import Counter

import msgspec
import pytest

from tidings.core import UsageError
from tidings.simulator import Plan, walk
from tidings.trace import Run

CALM = Plan(processes=5, broadcasts=40)


def spoken(run: Run) -> list[tuple[int, str]]:
    return sorted((row.time_ns, row.process) for row in run.rows if row.kind == "broadcast")


# --- loads and faults


def test_a_burst_is_many_broadcasts_at_one_moment() -> None:
    run = walk(msgspec.structs.replace(CALM, burst=8), 1)
    assert list(Counter(time for time, _ in spoken(run)).values()) == [8] * 5


def test_bursts_take_as_long_as_the_same_load_without_them() -> None:
    lasting = {
        burst: sum(
            spoken(walk(Plan(broadcasts=200, burst=burst), seed))[-1][0] for seed in range(9)
        )
        for burst in (1, 10)
    }
    assert lasting[10] == pytest.approx(lasting[1], rel=0.25)


def test_an_answer_follows_a_delivery_at_the_one_who_gives_it() -> None:
    run = walk(msgspec.structs.replace(CALM, replies=0.75), 2)
    assert len(spoken(run)) == 40
    unasked = 0
    for history in run.histories.values():
        heard = False
        for row in history:
            heard |= row.kind == "deliver" and row.origin != row.process
            unasked += row.kind == "broadcast" and not heard
    assert unasked <= 10


def test_everything_sent_to_or_by_a_slow_member_takes_longer() -> None:
    plan = msgspec.structs.replace(CALM, slow=1, delay_ms_min=1.0, delay_ms_max=1.0)
    run = walk(plan, 3)
    sent = {(r.process, r.peer, r.packet): r.time_ns for r in run.rows if r.kind == "send"}
    delays: dict[str, set[float]] = {}
    for row in run.rows:
        if row.kind == "receive":
            delay = (row.time_ns - sent[row.peer, row.process, row.packet]) / 1e6
            for end in (row.process, row.peer):
                delays.setdefault(end, set()).add(delay)
    assert sorted(map(sorted, delays.values())) == [[1.0, 10.0]] * 4 + [[10.0]]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"burst": 0}, "a burst has at least one"),
        ({"replies": 1.0}, "share of answers"),
        ({"slow": 6}, "6 of 5 processes cannot be slow"),
        ({"slow_factor": 0.0}, "factor"),
    ],
)
def test_impossible_loads_are_refused(change: dict[str, float], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        walk(msgspec.structs.replace(CALM, **change), 1)
