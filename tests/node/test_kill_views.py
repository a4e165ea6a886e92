"""Groups that change under load while members are killed: processes, certificates, disks.

A change is asked for again if it was denied, as an operator would. The specification judges what
all members wrote, whoever of them was removed or lost its disk.
"""

import random
import shutil
from pathlib import Path

import pytest

from real_groups import assert_all_hold, group_file
from test_views import VIEWS
from tidings.testkit.fleet import Fleet, Member
from tidings.trace import Run, read_runs

PER_S = 300


def altered(fleet: Fleet, member: Member, add: Member | None = None, remove: str = "") -> None:
    """Ask until it is so; whoever is asked is not killed."""

    def is_so() -> bool:
        members = member.report.members
        return (add is None or add.name in members) and remove not in members

    for _ in range(20):
        before = member.report.altered + len(member.report.denied)
        member.alter(add=add, remove=remove)
        fleet.wait_for(
            lambda b=before: member.report.altered + len(member.report.denied) > b, "an answer"
        )
        if is_so():
            return
    raise AssertionError(f"denied again and again: {member.report.denied[-1]}")


def published(fleet: Fleet, *members: Member) -> None:
    """They go on talking: each is assured of more than before."""
    before = {one.name: one.report.assured for one in members}
    fleet.wait_for(
        lambda: all(one.report.assured > before[one.name] + 20 for one in members), "more receipts"
    )


def judged(fleet: Fleet) -> Run:
    for member in fleet:
        assert not member.repeated, f"{member.name} was handed something twice, unmarked"
    (run,) = read_runs(fleet.config.trace_folder)
    assert_all_hold(run)
    return run


def test_members_come_go_and_are_replaced_under_load(tmp_path: Path) -> None:
    group_file(tmp_path, 3, VIEWS, tls=True, newcomers=("p4", "p2+1"))
    with Fleet(tmp_path / "group.toml", report_ms=5) as fleet:
        for member in fleet:
            member.publish(PER_S)
        published(fleet, *fleet)
        p4 = fleet.newcomer("p4")
        altered(fleet, fleet["p1"], add=p4)
        p4.publish(PER_S)
        published(fleet, *fleet)
        altered(fleet, fleet["p1"], remove="p3")
        fleet.wait_for(lambda: not fleet["p3"].is_up, "p3 to end")
        assert fleet["p3"].report.removed
        fleet["p2"].kill()
        shutil.rmtree(fleet.config.data / "p2")
        second = fleet.newcomer("p2+1")
        altered(fleet, p4, add=second, remove="p2")
        second.publish(PER_S)
        published(fleet, fleet["p1"], p4, second)
        assert fleet.settle()
    run = judged(fleet)
    assert run.manifest.views[-1] == ("p1", "p2+1", "p4")
    assert fleet["p1"].report.view == 3


@pytest.mark.parametrize("seed", range(3))
def test_a_minority_is_killed_around_every_change(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    newcomers = ("p4", "p5", "p3+1")
    group_file(tmp_path, 3, VIEWS, "limits.segment_bytes = 20000", newcomers=newcomers, tls=True)
    with Fleet(tmp_path / "group.toml", report_ms=5) as fleet:
        for member in fleet:
            member.publish(PER_S)
        published(fleet, *fleet)
        changes = [("p4", ""), ("p5", ""), ("", "p2"), ("p3+1", "p3")]
        for add, remove in changes:
            asked = fleet["p1"]
            inside = [one for one in fleet.inside if one.name not in ("p1", remove)]
            victim = dice.choice(inside)
            newcomer = fleet.newcomer(add) if add else None
            asked.alter(add=newcomer, remove=remove)
            fleet.comes_true(lambda: False, dice.uniform(0, 0.05))  # at any moment of it
            victim.kill()
            victim.start(report_ms=5)
            altered(fleet, asked, newcomer, remove)
            if newcomer is not None:
                newcomer.publish(PER_S)
            victim.publish(PER_S)
            fleet.wait_for(fleet.are_linked, "all to be linked")
            published(fleet, *fleet.inside)
        assert fleet.settle()
    run = judged(fleet)
    assert run.manifest.views[-1] == ("p1", "p3+1", "p4", "p5")
