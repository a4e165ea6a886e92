"""The demo's group: five processes, a lively conversation, two senders dead in mid-sentence."""

from typing import Literal

from tidings.protocols import DEFAULT
from tidings.simulator import Plan, walk
from tidings.trace import Run

Break = Literal["duplication", "creation", "validity", "agreement", "order"]

BREAKS: dict[Break, str] = {
    "duplication": "flawed/repeating",
    "creation": "flawed/embroidering",
    "validity": "flawed/falling-silent",
    "agreement": "flawed/hasty",
    "order": "flawed/careless",
}
"""What ``--break`` breaks, and the flawed protocol that does it."""


def demo_run(seed: int, broken: Break | None = None) -> Run:
    """A run with faults of every kind, in which both crashes strike between two sends."""
    plan = Plan(
        protocol=BREAKS[broken] if broken else DEFAULT,
        processes=5,
        broadcasts=200,
        crashes=2,
        mid_broadcast=1.0,
        duplicated=0.05,
        lost=0.02,
        partitions=1,
    )
    return walk(plan, seed)
