"""Every flaw of the gallery that random runs find: shrunk to the smallest that exhaustive search
finds, from several long runs each, with the table of what that took.
"""

import time
from collections.abc import Iterator
from itertools import islice

import pytest

from smallest_scopes import SMALLEST
from tidings.explore import Scope, explore
from tidings.protocols import PROTOCOLS
from tidings.shrink import Charge, shrink
from tidings.simulator import Plan, RunReplay, schedule_of, walk
from tidings.spec import Extra, Guarantee
from tidings.trace import Run

RUNS = 3
MOST_SECONDS = 60
TOO_RARE = {"flawed/copy-counting", "flawed/skipping-only"}
"""What a minute of random runs does not find."""


def charges() -> Iterator[tuple[str, Charge]]:
    for name, scope in SMALLEST.items():
        for what in PROTOCOLS[name].breaks:
            if name not in TOO_RARE:
                is_extra = what in [extra.value for extra in Extra]
                packets = scope.get("max_packets")
                yield name, Charge(Extra(what) if is_extra else Guarantee(what), packets)


def long_failures(name: str, charge: Charge) -> Iterator[Run]:
    """Random runs of 200 events or more that break what the flaw breaks."""
    alone = name == "flawed/on-receipt-only"  # it shows in a group of one only
    plan = Plan(
        protocol=name,
        processes=1 if alone else 5,
        broadcasts=100 if alone else 20,
        texts=SMALLEST[name].get("texts", ()),
        crashes=0 if alone else 2,
        joiners=2 if PROTOCOLS[name].kind.grows else 0,
        duplicated=0.05,
        partitions=0 if alone else 1,
        budget=5_000,
    )
    for seed in range(20_000):
        run = walk(plan, seed)
        if len(list(run.rows)) >= 200 and charge.against(run):
            yield run


def size(run: Run) -> tuple[int, int, int]:
    broadcasts = sum(row.kind == "broadcast" for row in run.rows)
    return len(run.manifest.names), broadcasts, len(schedule_of(run.manifest))


def shortest(name: str, charge: Charge, small: Run) -> int:
    """The steps of a shortest run in the scope of a small one, by exhaustive search."""
    processes, broadcasts, _ = size(small)
    members = len(small.manifest.views[0])
    crashes = [name for name, fate in small.manifest.fates.items() if fate == "crashed"]
    scope = Scope(
        protocol=name,
        processes=members,
        joiners=processes - members,
        broadcasts=broadcasts,
        crashes=len(crashes),
        texts=SMALLEST[name].get("texts", ()),
        max_packets=charge.max_packets,
    )
    others = len(PROTOCOLS[name].breaks) > 1
    return len(schedule_of(explore(scope, keep_going=others).found[charge.what].manifest))


@pytest.mark.parametrize(
    ("name", "charge"), [*charges()], ids=lambda one: str(getattr(one, "what", one))
)
def test_a_long_run_shrinks_to_the_smallest(name: str, charge: Charge, capsys) -> None:
    known = SMALLEST[name]
    smallest = (known["processes"] + known.get("joiners", 0), known["broadcasts"])
    for run in islice(long_failures(name, charge), RUNS):
        began = time.monotonic()
        small = shrink(run, charge.what, max_packets=charge.max_packets)
        seconds = time.monotonic() - began
        steps = shortest(name, charge, small)
        with capsys.disabled():
            before = f"{len(list(run.rows)):>5} events, {size(run)}"
            after = f"{size(small)}, shortest {steps}, {seconds:.1f} s"
            print(f"\n{name:28} {charge.what:18} {before} -> {after}", end=" ", flush=True)
        assert seconds < MOST_SECONDS
        assert size(small)[:2] <= smallest
        assert size(small)[2] <= 1.5 * steps
        replay = RunReplay(small)
        assert len(list(replay)) == size(small)[2]
        assert charge.against(replay.so_far()) == charge.against(small)
