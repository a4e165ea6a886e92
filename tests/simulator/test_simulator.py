"""The simulator: one seed is one run, and the faults it promises do happen."""

import os
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from tidings.core import UsageError
from tidings.protocols import factory
from tidings.simulator import Plan, World, choices, replay, schedule_of, walk
from tidings.simulator.choices import Link, PacketId
from tidings.trace import Run

HARSH = Plan(
    processes=5, broadcasts=15, crashes=2, duplicated=0.1, lost=0.1, partitions=1, mid_broadcast=0.6
)

WRITE_TWICE = """
import sys
from pathlib import Path
from tidings.simulator import Plan, walk
from tidings.trace import write_runs
plan = Plan(processes=5, broadcasts=30, crashes=2, duplicated=0.1, lost=0.1, partitions=2)
for form in ("jsonl", "parquet"):
    write_runs(Path(sys.argv[1]) / form, [walk(plan, 11)], form)
"""


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path) -> None:
    written = []
    for hash_seed in ("0", "1", "4242"):
        folder = tmp_path / hash_seed
        subprocess.run(
            [sys.executable, "-c", WRITE_TWICE, str(folder)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
        )
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        assert [path.name for path in files] == [
            "manifest.jsonl",
            "trace.jsonl",
            "manifest.jsonl",
            "trace.parquet",
        ]
        written.append([path.read_bytes() for path in files])
    assert written[0] == written[1] == written[2]


def test_another_seed_is_another_run() -> None:
    assert walk(HARSH, 1).manifest.run != walk(HARSH, 2).manifest.run
    assert list(walk(HARSH, 1).rows) != list(walk(HARSH, 2).rows)


@pytest.mark.parametrize("seed", range(5))
def test_a_stored_schedule_replays_the_run(seed: int) -> None:
    run = walk(HARSH, seed)
    world = World(run.manifest.run, run.manifest.views[0], factory("majority-relay"))
    rows = replay(world, schedule_of(run.manifest))
    by_place = sorted(rows, key=lambda row: (row.process, row.index))
    assert by_place == sorted(run.rows, key=lambda row: (row.process, row.index))


def what_happened(run: Run) -> Counter[str]:
    """Which faults a run really contained, read off its trace and its schedule."""
    happened: Counter[str] = Counter()
    for history in run.histories.values():
        received: dict[str, list[int]] = {}
        for row in history:
            if row.kind == "receive":
                received.setdefault(row.peer, []).append(row.packet)
        happened["reordered"] += any(order != sorted(order) for order in received.values())
        happened["duplicated"] += any(len(set(o)) < len(o) for o in received.values())
        last = [row for row in history if row.kind == "broadcast"][-1:]
        if history[-1].kind == "crash" and last:
            copies = [r for r in history if r.kind == "send" and r.origin == last[0].process]
            copies = [r for r in copies if r.seq == last[0].seq]
            happened["crashed mid-broadcast"] += 0 < len(copies) < len(run.manifest.members) - 1
    for step in schedule_of(run.manifest):
        happened["partitioned"] += isinstance(step.choice, choices.Cut)
        happened["lost with their sender"] += bool(getattr(step.choice, "lost", ()))
    return happened


def test_the_random_runs_do_contain_the_faults_they_promise() -> None:
    total: Counter[str] = Counter()
    for seed in range(100):
        total += what_happened(walk(HARSH, seed))
    assert total["crashed mid-broadcast"] >= 50, total
    assert total["reordered"] >= 100, total
    assert total["duplicated"] >= 100, total
    assert total["partitioned"] >= 90, total
    assert total["lost with their sender"] >= 20, total


def test_the_deliveries_of_random_runs_do_wait_for_their_causes() -> None:
    """Non-vacuity of causal order: without the check, these very runs break it."""
    from tidings.spec import Value, judge

    careless = msgspec.structs.replace(HARSH, protocol="flawed/careless", broadcasts=60)
    broken = [judge(walk(careless, seed))[4].value is Value.VIOLATED for seed in range(20)]
    assert sum(broken) >= 5


def test_lossy_links_lose_what_retrying_links_only_delay() -> None:
    lossy = msgspec.structs.replace(HARSH, links="lossy", crashes=0)
    run = walk(lossy, 3)
    drops = [s for s in schedule_of(run.manifest) if isinstance(s.choice, choices.Drop)]
    assert drops
    sent = sum(row.kind == "send" for row in run.rows)
    received = {(r.peer, r.process, r.packet) for r in run.rows if r.kind == "receive"}
    assert len(received) < sent
    patient = walk(msgspec.structs.replace(HARSH, crashes=0), 3)
    sent = sum(row.kind == "send" for row in patient.rows)
    received = {(r.peer, r.process, r.packet) for r in patient.rows if r.kind == "receive"}
    assert len(received) == sent


def test_a_run_over_budget_is_left_unsettled() -> None:
    run = walk(msgspec.structs.replace(HARSH, budget=30), 1)
    assert not any(row.kind == "settle" for row in run.rows)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"processes": 0}, "a group has 1 to 1,000 processes"),
        ({"processes": 1001}, "a group has 1 to 1,000 processes"),
        ({"crashes": 3}, "only a minority may crash: at most 2 of 5"),
        ({"crashes": -1}, "cannot crash"),
        ({"broadcasts": -1}, "a run has 0 to 1,000,000 broadcasts"),
        ({"lost": 1.0}, "share of lost"),
        ({"partitions": -1}, "fewer than 0 partitions"),
        ({"duplicated": 2.0}, "share of duplicated"),
        ({"mid_broadcast": -0.1}, "share of crashes"),
        ({"delay_ms_min": 30.0}, "shortest delay"),
        ({"gap_ms_mean": 0.0}, "gap between broadcasts"),
        ({"processes": 1, "crashes": 0}, "one process cannot be partitioned"),
    ],
)
def test_impossible_plans_are_refused(change, complaint) -> None:
    with pytest.raises(UsageError, match=complaint):
        walk(msgspec.structs.replace(HARSH, **change), 1)


@pytest.fixture
def world() -> World:
    return World("test", ("p1", "p2", "p3"), factory("majority-relay"))


def test_a_world_says_what_may_happen_next(world: World) -> None:
    assert world.choices() == []
    world.apply(choices.UserBroadcast("p1", b"x"))
    assert world.choices() == [
        choices.PacketArrival(PacketId(Link("p1", receiver), 1)) for receiver in ("p2", "p3")
    ]


def test_a_cut_link_holds_its_packets_back_until_it_is_healed(world: World) -> None:
    world.apply(choices.UserBroadcast("p1", b"x"))
    world.apply(choices.Cut((Link("p1", "p2"),)))
    assert world.choices() == [choices.PacketArrival(PacketId(Link("p1", "p3"), 1))]
    with pytest.raises(UsageError, match="the link p1->p2 is cut"):
        world.apply(choices.PacketArrival(PacketId(Link("p1", "p2"), 1)))
    world.apply(choices.Heal())
    assert len(world.choices()) == 2


def test_a_lossy_link_that_is_cut_loses_what_it_carried() -> None:
    world = World("test", ("p1", "p2", "p3"), factory("majority-relay"), links="lossy")
    world.apply(choices.UserBroadcast("p1", b"x"))
    world.apply(choices.Cut((Link("p1", "p2"),)))
    world.apply(choices.Heal())
    assert world.choices() == [choices.PacketArrival(PacketId(Link("p1", "p3"), 1))]


def test_a_doomed_process_dies_between_two_sends(world: World) -> None:
    world.apply(choices.Doom("p1", 1))
    rows = world.apply(choices.UserBroadcast("p1", b"x"))
    assert [(row.kind, row.peer or None) for row in rows] == [
        ("broadcast", None),
        ("held", None),
        ("send", "p2"),
        ("crash", None),
    ]
    assert world.up == ("p2", "p3")


def test_a_crash_loses_packets_on_cut_links_too(world: World) -> None:
    world.apply(choices.UserBroadcast("p1", b"x"))
    world.apply(choices.Cut((Link("p1", "p2"),)))
    world.apply(choices.Crash("p1", (PacketId(Link("p1", "p2"), 1),)))
    world.apply(choices.Heal())
    assert world.choices() == [choices.PacketArrival(PacketId(Link("p1", "p3"), 1))]


def test_every_choice_that_changes_the_future_changes_the_fingerprint(world: World) -> None:
    seen = {world.fingerprint()}
    for choice in (
        choices.UserBroadcast("p1", b"x"),
        choices.Cut((Link("p1", "p2"),)),
        choices.Doom("p2", 1),
        choices.Crash("p3"),
    ):
        world.apply(choice)
        assert world.fingerprint() not in seen, choice
        seen.add(world.fingerprint())


def test_as_many_packets_arrive_twice_as_the_plan_says() -> None:
    run = walk(Plan(processes=5, broadcasts=40, duplicated=0.3), 1)
    received = Counter(
        (row.peer, row.process, row.packet) for row in run.rows if row.kind == "receive"
    )
    share = sum(count == 2 for count in received.values()) / len(received)
    assert 0.25 < share < 0.35


def test_a_process_of_ones_own_is_named_in_the_manifest() -> None:
    from tidings.protocols.two_phase import TwoPhase

    assert walk(Plan(broadcasts=1), 1, factory=TwoPhase).manifest.protocol == "TwoPhase"


def test_a_crash_takes_only_its_own_packets(world: World) -> None:
    world.apply(choices.UserBroadcast("p1", b"x"))
    with pytest.raises(UsageError, match="p2 cannot lose p1->p3"):
        world.apply(choices.Crash("p2", (PacketId(Link("p1", "p3"), 1),)))


def test_impossible_choices_are_refused(world: World) -> None:
    world.apply(choices.Crash("p3"))
    for choice, complaint in [
        (choices.UserBroadcast("p9", b""), "there is no p9"),
        (choices.Crash("p3"), "p3 has crashed"),
        (choices.Recover("p1"), "p1 has not crashed"),
        (choices.Doom("p1", 0), "at least one send"),
        (choices.PacketArrival(PacketId(Link("p1", "p2"), 1)), "no packet number 1"),
        (choices.Join("p1", "p2"), "p1 is a member already"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            world.apply(choice)


def test_schedules_are_plain_data() -> None:
    schedule = schedule_of(walk(HARSH, 5).manifest)
    again = msgspec.json.decode(msgspec.json.encode(schedule), type=list[choices.Step])
    assert again == schedule
    kinds = {type(step.choice) for step in schedule}
    assert {choices.UserBroadcast, choices.PacketArrival, choices.Settle} <= kinds
