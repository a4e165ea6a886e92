"""Churn: groups whose operators add, remove and replace members while the load runs."""

from collections import Counter

import msgspec
import pytest

from churn_runs import churned, plan_for, sound, what_happened
from tidings.core import UsageError
from tidings.simulator import Plan, walk
from tidings.simulator.play import RunReplay
from tidings.spec import Extra, judge

SEEDS = range(80)


def test_groups_that_change_hold_everything() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        run = churned(seed)
        happened += sound({f"seed {seed}": judge(run)}) + what_happened(run)
    assert happened["runs with something owed in the end"] > 0.9 * len(SEEDS)
    rare = ("rival proposals", "dead proposers", "sleepers through two views", "rebound messages")
    for what in (*rare, "void messages", "newcomers", "left", "replacements"):
        assert happened[what] > 0, f"no {what} in these runs: {happened}"


def test_a_run_with_changes_is_replayed_row_by_row() -> None:
    plan = Plan(protocol="views", processes=3, broadcasts=8, changes=3, crashes=1, restarts=1)
    run = walk(plan, 5)
    assert len(run.manifest.views) > 1
    replay = RunReplay(run)
    for _ in replay:
        pass
    assert replay.so_far().manifest.views == run.manifest.views


def test_without_changes_nothing_is_drawn_for_them() -> None:
    plan = Plan(protocol="views", processes=3, broadcasts=5)
    assert walk(plan, 1) == walk(msgspec.structs.replace(plan, rivals=0.3), 1)
    assert Extra.VIEWS not in {verdict.guarantee for verdict in judge(walk(plan, 1))}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"protocol": "frontier"}, "frontier has a fixed group; nobody can change it"),
        ({"changes": -1}, "a group cannot change fewer than 0 times"),
        ({"rivals": 2.0}, "the share of rivals is from 0 to 1"),
        ({"joiners": 1}, "by agreement, or processes join by themselves, not both"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, object], complaint: str) -> None:
    plan = msgspec.structs.replace(plan_for(1), **fields)
    with pytest.raises(UsageError, match=complaint):
        walk(plan, 1)
