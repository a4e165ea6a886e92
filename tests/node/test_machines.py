"""Three members on three machines, as far as they can tell: addresses of their own, and TLS."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from machines import group_file, network_of
from namespaces import Network, unavailable
from requirements_met import require
from tidings.testkit.fleet import Fleet, Member
from tidings.trace import read_runs


def more(fleet: Fleet, count: int) -> None:
    """Until everybody who is up has delivered so many more."""
    goals = [(one, sum(one.report.delivered.values()) + count) for one in fleet.up]
    fleet.wait_for(
        lambda: all(sum(one.report.delivered.values()) >= goal for one, goal in goals),
        f"{count} more deliveries of everybody",
    )


def die_in_mid_broadcast(p1: Member, network: Network) -> None:
    """Its last messages reach p2, and not p3."""
    p1.hush()
    p1.wait_for(lambda: p1.is_idle, "to pause")
    network.down("p3")
    spoken = p1.report.offered + 3
    p1.publish(per_s=100)
    p1.wait_for(lambda: p1.report.accepted >= spoken, "to broadcast a little more")
    p1.kill()
    network.up("p3")


def test_three_machines_survive_a_kill_in_mid_broadcast(tmp_path: Path, tidings: Any) -> None:
    require("namespaces", not unavailable(), unavailable())
    network = network_of(["p1", "p2", "p3"])
    path = group_file(tmp_path, network, 'listen.p2 = "0.0.0.0:7001"')
    with network, Fleet(path, within=network.within) as fleet:
        for member in fleet:
            member.publish(per_s=100)
        more(fleet, 100)
        die_in_mid_broadcast(fleet["p1"], network)
        more(fleet, 100)
        fleet["p1"].start()
        fleet["p1"].publish(per_s=100)
        more(fleet, 100)
        assert fleet.settle()
    (run,) = read_runs(tmp_path / "trace")
    assert {row.incarnation for row in run.histories["p1"]} == {0, 1}
    answer = tidings("audit", "--local", "trace")
    assert answer.status == 0, answer
    assert answer.out.count("holds") >= 5


def test_whoever_only_runs_a_member_imports_nothing_that_signs() -> None:
    program = "import sys, tidings.node.group; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
