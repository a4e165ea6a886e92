"""A fleet: members as processes of the operating system, and the runner who drives them."""

import socket
from pathlib import Path

import pytest

from real_groups import assert_all_hold, group_file
from tidings.core import Exit
from tidings.spec import Value, judge
from tidings.testkit.fleet import Fleet, FleetFault, percentile_s
from tidings.trace import Run, read_runs

FILE = "group.toml"


def run_of(fleet: Fleet) -> Run:
    (run,) = read_runs(fleet.config.trace_folder)
    return run


def test_a_fleet_says_settles_and_tells_the_fates(tmp_path: Path) -> None:
    group_file(tmp_path)
    with Fleet(tmp_path / FILE) as fleet:
        for member in fleet:
            member.say(10, "hello")
        fleet.wait_for(lambda: all(len(one.sent) == 10 for one in fleet), "all receipts")
        fleet["p3"].kill()
        fleet["p1"].say(5, "without p3")
        assert fleet.settle()
    run = run_of(fleet)
    assert_all_hold(run)
    assert run.manifest.fates == {"p1": "up", "p2": "up", "p3": "crashed"}
    assert fleet["p2"].got["p1"].ranges == ((1, 15),)
    assert fleet["p1"].latencies.total() == 15
    assert 0 < percentile_s(fleet.latencies(), 0.5) <= percentile_s(fleet.latencies(), 1) < 60
    assert not any(member.is_up for member in fleet)


def test_killed_and_started_again_it_is_handed_all_that_it_missed(tmp_path: Path) -> None:
    group_file(tmp_path)
    with Fleet(tmp_path / FILE) as fleet:
        p3 = fleet["p3"]
        for member in fleet:
            member.publish(per_s=500)
        fleet.wait_for(lambda: len(p3.sent) > 50, "a good start")
        p3.kill()
        known = len(p3.handed("p1"))
        fleet.wait_for(lambda: len(fleet["p1"].sent) > known + 100, "some more without p3")
        p3.start()
        p3.publish(per_s=500, count=20)
        fleet.wait_for(lambda: p3.report.assured == 20, "p3 to be heard again")
        assert fleet.settle()
        assert p3.lives == 2
        assert all(p3.handed(one.name) == fleet["p1"].handed(one.name) for one in fleet)
        assert not any(member.repeated for member in fleet)
    assert_all_hold(run_of(fleet))


def test_who_is_stopped_catches_up_when_resumed(tmp_path: Path) -> None:
    group_file(tmp_path)
    with Fleet(tmp_path / FILE) as fleet:
        p1, _, p3 = fleet
        p3.stop()
        p1.say(100, "p3 sleeps")
        fleet.wait_for(lambda: p1.report.assured == 100, "the majority to go on")
        assert not p3.got
        p3.resume()
        assert fleet.settle()
        assert len(p3.got["p1"]) == 100
    assert_all_hold(run_of(fleet))


def test_a_steady_rate_is_offered_and_every_text_is_another(tmp_path: Path) -> None:
    group_file(tmp_path, 2)
    with Fleet(tmp_path / FILE) as fleet:
        fleet["p1"].publish(per_s=2000, count=1000, text_bytes=50)
        fleet.wait_for(lambda: fleet["p1"].report.assured == 1000, "all of them")
        assert fleet.settle()
    texts = [row for row in run_of(fleet).rows if row.kind == "broadcast"]
    assert len({row.digest for row in texts}) == 1000
    offered_s = (texts[-1].time_ns - texts[0].time_ns) / 1e9
    assert 0.4 < offered_s < 30


def test_packets_are_lost_above_tcp_and_nothing_is(tmp_path: Path) -> None:
    group_file(tmp_path)
    faults = "seed=3 lost=0.2 duplicated=0.2 reordered=0.2"
    with Fleet(tmp_path / FILE, injector=faults) as fleet:
        for member in fleet:
            member.publish(per_s=200, count=100)
        fleet.wait_for(lambda: all(one.report.assured == 100 for one in fleet), "all receipts")
        assert fleet.settle()
        injected = [fleet[name].report.injected for name in fleet.config.members]
        assert all(one["lost"] and one["duplicated"] and one["held"] for one in injected)
    assert_all_hold(run_of(fleet))


def test_through_the_proxy_the_majority_goes_on_and_the_cut_is_healed(tmp_path: Path) -> None:
    group_file(tmp_path)
    with Fleet(tmp_path / FILE, proxied=True) as fleet:
        fleet.on_links(lambda links: links.part({"p1", "p2"}, {"p3"}))
        fleet["p1"].say(10, "without p3")
        fleet.wait_for(lambda: len(fleet["p1"].sent) == 10, "the majority to go on")
        assert not fleet["p3"].got
        assert fleet.settle()
        assert len(fleet["p3"].got["p1"]) == 10
    assert_all_hold(run_of(fleet))


def test_a_used_port_is_one_line_and_leaves_nobody_behind(tmp_path: Path) -> None:
    config = group_file(tmp_path)
    fleet = Fleet(tmp_path / FILE)
    with (
        socket.create_server(config.addresses["p2"]),
        pytest.raises(
            FleetFault, match=r"^p2 cannot listen on .*: Address already in use$"
        ) as answer,
        fleet,
    ):
        pass
    assert answer.value.status is Exit.ENVIRONMENT
    assert not any(member.is_up for member in fleet)


def test_a_command_that_cannot_be_carried_out_gets_one_line(tmp_path: Path) -> None:
    group_file(tmp_path, 2, "limits.text_bytes = 10")
    with Fleet(tmp_path / FILE) as fleet:
        p1 = fleet["p1"]
        p1.say(3, "hello")
        fleet.wait_for(lambda: len(p1.sent) == 3, "three receipts")
        p1.publish(per_s=100)
        with pytest.raises(FleetFault, match=r"^a text of 100 bytes"):
            fleet.wait_for(lambda: len(p1.sent) > 3, "another receipt")
        assert (p1.fate, p1.status, p1.offered) == ("crashed", Exit.USAGE, 3)


def test_who_stops_reporting_is_waited_for_only_so_long(tmp_path: Path) -> None:
    group_file(tmp_path, 2)
    with Fleet(tmp_path / FILE) as fleet:
        with pytest.raises(FleetFault, match=r"waited 0.1 s in vain for a miracle: p1: "):
            fleet.wait_for(lambda: False, "a miracle", timeout_s=0.1)
        fleet["p1"].stop()
    assert not any(member.is_up for member in fleet)


def test_what_never_comes_is_settled_all_the_same_and_found_by_the_judges(tmp_path: Path) -> None:
    group_file(tmp_path, 3, 'protocol = "flawed/falling-silent"', "durable = false")
    with Fleet(tmp_path / FILE) as fleet:
        fleet["p1"].say(3, "hello")
        fleet.wait_for(lambda: all(len(one.handed("p1")) == 3 for one in fleet), "the first three")
        fleet["p1"].say(1, "hello?")
        assert not fleet.settle(timeout_s=1)
    verdicts = judge(run_of(fleet))
    assert [one.guarantee.value for one in verdicts if one.value is Value.VIOLATED] == ["validity"]
