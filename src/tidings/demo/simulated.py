"""The demo's group: five processes, a lively conversation, two senders dead in mid-sentence."""

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET

from tidings.core import MessageId
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


def last_words(run: Run) -> Iterator[tuple[str, MessageId, int]]:
    """For each process that crashed: itself, its last message, and how many copies had left."""
    for process, history in run.histories.items():
        spoken = [row for row in history if row.kind == "broadcast"]
        if spoken and history[-1].kind == "crash":
            last = spoken[-1]
            copies = sum(
                row.kind == "send" and row.origin is not UNSET and row.message == last.message
                for row in history[last.index :]
            )
            yield process, last.message, copies
