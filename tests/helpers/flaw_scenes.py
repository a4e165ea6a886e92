"""Where each flaw of the gallery shows: in random runs, by its costs, or in a scene by hand."""

from collections.abc import Iterator
from typing import Any

from tidings.explore import gallery
from tidings.simulator import Plan, walk
from tidings.simulator.script import Script, protocol_of
from tidings.trace import Run

COSTS: dict[str, tuple[dict[str, Any], int]] = {
    "flawed/forgetful-relay": ({"processes": 3, "broadcasts": 1}, 6),
    "flawed/storm": ({"processes": 3, "broadcasts": 2, "crashes": 1, "budget": 5000}, 40),
}
"""Flaws of cost: the scope, and how many packets the sound algorithm never exceeds there."""


SCENARIOS = {
    "flawed/copy-counting": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        duplicate p1->p2
        receive p1->p2
        crash p2
        crash p1
        settle
        """,
    "flawed/waiting-for-finack": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p2->p1
        receive p3->p1
        receive p1->p2 bcast-deliver
        crash p2
        crash p1
        settle
        """,
    "flawed/received-vector": """
        group p1 p2 p3
        broadcast p1 lost words
        broadcast p1 last words
        crash p1 keeping p1->p2 p1#2
        receive p1->p2
        broadcast p2 where is the rest?
        settle
        """,
    "flawed/skipping-only": """
        group p1 p2 p3
        broadcast p1 lost words
        join p4 via p2
        receive p4->p1
        broadcast p1 last words
        crash p1 keeping p1->p2 p1#2, p1->p4 p1#2
        settle
        """,
    "flawed/leaving-out": """
        group p1 p2 p3
        join p4 via p1
        receive p4->p1
        broadcast p1 welcome
        receive p1->p2
        broadcast p2 who is that?
        settle
        """,
    "flawed/frontier-asking-once": """
        group p1 p2 p3
        broadcast p1 one
        receive p1->p2
        receive p2->p3
        timeout p3 pull
        broadcast p1 two
        receive p1->p2
        timeout p2 batch
        receive p2->p3
        receive p1->p3 p1#1
        receive p3->p2 holding
        receive p3->p2 pull
        crash p1
        settle
        """,
    "flawed/frontier-restamping": """
        group p1 p2 p3
        broadcast p1 which way?
        receive p1->p2
        broadcast p2 that way
        receive p2->p1 holding
        receive p2->p1 data
        receive p2->p3 holding
        timeout p3 pull
        timeout p3 pull
        receive p3->p1 pull
        receive p1->p3 push
        settle
        """,
    "flawed/frontier-owing-nothing": """
        group p1 p2 p3
        broadcast p1 hello
        receive p1->p2
        receive p2->p1
        timeout p1 commit
        receive p1->p2 commit
        crash p1
        settle
        """,
    "flawed/frontier-not-answering": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p1->p4
        receive p1->p5
        receive p2->p1
        receive p3->p1
        receive p4->p1
        receive p5->p1
        crash p1 losing p1->p2
        settle
        """,
    "flawed/frontier-not-heeding": """
        group p1 p2 p3 p4 p5
        broadcast p1 hello
        receive p1->p2
        receive p1->p3
        receive p1->p4
        receive p1->p5
        timeout p2 ask
        receive p2->p3
        receive p2->p4
        receive p2->p5
        receive p2->p1 holding
        receive p3->p1
        receive p4->p1
        receive p5->p1
        crash p1 losing p1->p2
        settle
        """,
    "flawed/frontier-half-heeding": """
        group p1 p2 p3 p4 p5
        broadcast p1 one
        broadcast p1 two
        receive p1->p2
        receive p1->p2
        receive p1->p4
        receive p1->p4
        receive p1->p3
        receive p1->p5
        timeout p2 ask
        receive p2->p3 asking
        receive p2->p5 asking
        timeout p3 ask
        timeout p5 ask
        receive p1->p3
        receive p1->p5
        receive p2->p1 holding
        receive p2->p1 holding
        receive p3->p1 holding
        receive p3->p1 holding
        receive p4->p1 holding
        receive p4->p1 holding
        receive p5->p1 holding
        receive p5->p1 holding
        crash p4
        crash p1 losing p1->p2
        settle
        """,
}
"""Flaws so rare that chance hardly finds them: written by hand."""

SLOW = {"processes": 3, "broadcasts": 2, "delay_ms_max": 100.0, "gap_ms_mean": 60.0}

RANDOM_SCOPES: dict[str, dict[str, Any]] = {
    name: {"broadcasts": 1} | scope
    for name, scope in (
        *gallery.SCOPES.items(),
        *((name, plan) for name, (_, plan) in gallery.SEEDS.items()),
        # Chance needs more room than an explorer.
        ("flawed/repeating", {"processes": 3}),
        ("flawed/careless", SLOW),
        ("flawed/unordered", SLOW),
        ("flawed/relayers-vector", SLOW),
        ("flawed/single-pass", {"processes": 3, "broadcasts": 3}),
        ("flawed/frontier-overlooking-causes", SLOW),
        ("flawed/frontier-not-greeting", {"processes": 3, "restarts": 1}),
    )
    if name not in COSTS.keys() | SCENARIOS.keys()
}
"""Where random runs show a flaw sooner or later."""


def played(protocol: str, scenario: str) -> Run:
    script = Script("test")
    script.command(f"protocol {protocol}")
    for line in scenario.strip().splitlines():
        script.command(line.strip())
    return script.run()


def leaves_somebody_out(run: Run) -> bool:
    """Whether a message is not addressed to everybody whom its causes were addressed to."""
    lists = {
        row.message: set(run.manifest.views[row.view])
        for row in run.rows
        if row.kind == "broadcast"
    }
    for history in run.histories.values():
        known: set[str] = set()
        for row in history:
            if row.kind == "deliver":
                known |= lists[row.message]
            elif row.kind == "broadcast" and not known <= lists[row.message]:
                return True
    return False


def runs(protocol: str, scope: dict[str, Any], seeds: range) -> Iterator[tuple[int, Run]]:
    name, options = protocol_of(protocol)
    for seed in seeds:
        yield seed, walk(Plan(protocol=name, options=options, **scope), seed)


def packets(run: Run) -> int:
    return sum(row.kind == "send" for row in run.rows)
