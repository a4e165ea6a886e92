"""What is to be explored: how large a group, how much load, how many faults of each kind."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from tidings.core import Members, UsageError, ordered, quorum
from tidings.simulator.choices import ChangeRequest
from tidings.simulator.script import change_request

MOST_MEMBERS = 9
"""Nobody has ever seen the end of a larger group."""


class Reduction(StrEnum):
    """What need not be looked at, because something else stands for it."""

    INERT = "inert"
    """A receipt that changes nothing, neither now nor later, is made at once."""
    ORDER = "order"
    """Receipts at different processes, of which none can hear of the other, in one order only."""
    CRASH = "crash"
    """A process crashes right after something happened to it, or at the start: what happens to
    others in between would not be different."""
    SYMMETRY = "symmetry"
    """Members exchange their names, where the protocol declares that it treats them alike."""


ALL = tuple(Reduction)


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every run within these bounds is explored; each fault strikes at any moment, or never."""

    protocol: str = "majority-relay"
    """This is what manifests leave out; commands name theirs."""
    options: dict[str, Any] = {}
    processes: int = 3
    broadcasts: int = 1
    """How many in all: each by any process, at any moment."""
    crashes: int = 0
    joiners: int = 0
    """How many join, each through any member."""
    changes: tuple[str, ...] = ()
    """What operators ask, each once at any moment, as in ``p1 add p4`` or ``p2 remove p3``."""
    duplicates: int = 0
    """How many packets arrive twice."""
    restarts: int = 0
    """How many of the crashed come back."""
    rollbacks: int = 0
    """How many of those come back with the disk as it was at the start."""
    texts: tuple[bytes, ...] = ()
    """What each process says, in turn; without any, each says 1, 2, 3."""
    max_packets: int | None = None
    """The sixth property: no run sends more packets than this."""
    early_timeouts: int | None = None
    """How many timers run out while something is under way; without a number, any. All others wait
    until nothing is: of members that try again, there is no end otherwise."""
    in_order: bool = False
    """Whether packets of one process to another arrive in the order in which they were sent, as on
    a TCP connection; of what a dead process sent, then, the first arrive, or none."""
    depth: int | None = None
    """How many choices a run has at most; deeper ones are cut, and the verdict is unknown."""

    @property
    def members(self) -> Members:
        return tuple(f"p{number}" for number in range(1, self.processes + 1))

    @property
    def newcomers(self) -> Members:
        first = self.processes + 1
        return tuple(f"p{number}" for number in range(first, first + self.joiners))

    @property
    def requests(self) -> tuple[ChangeRequest, ...]:
        return tuple(map(change_request, self.changes))

    @property
    def everybody(self) -> Members:
        added = (request.add for request in self.requests if request.add)
        return ordered((*self.members, *self.newcomers, *added))

    def text(self, number: int) -> bytes:
        """What a process says in its n-th broadcast, counted from 0."""
        return self.texts[number % len(self.texts)] if self.texts else b"%d" % (number + 1)

    def check(self) -> None:
        most = quorum(self.processes) - 1
        complaints = [
            (
                not 1 <= self.processes <= MOST_MEMBERS,
                f"groups of 1 to {MOST_MEMBERS} processes can be explored",
            ),
            (self.broadcasts < 0, "a run cannot have fewer than 0 broadcasts"),
            (self.crashes < 0, "fewer than 0 processes cannot crash"),
            (
                self.crashes > most,
                f"only a minority may crash: at most {most} of {self.processes}",
            ),
            (self.joiners < 0, "fewer than 0 processes cannot join"),
            (
                self.early_timeouts is not None and self.early_timeouts < 0,
                "fewer than 0 timers cannot run out early",
            ),
            (
                len(self.everybody) > MOST_MEMBERS,
                f"with those who join, at most {MOST_MEMBERS} processes can be explored",
            ),
            (self.duplicates < 0, "fewer than 0 packets cannot arrive twice"),
            (self.restarts < 0, "fewer than 0 processes cannot come back"),
            (
                self.restarts > self.crashes,
                f"{self.restarts} cannot come back where {self.crashes} crash",
            ),
            (
                not 0 <= self.rollbacks <= self.restarts,
                f"{self.rollbacks} cannot come back with an older disk where {self.restarts} "
                "come back",
            ),
            (
                self.max_packets is not None and self.max_packets < 0,
                "a run cannot send fewer than 0 packets",
            ),
            (self.depth is not None and self.depth < 0, "the depth is 0 or more"),
        ]
        for wrong, complaint in complaints:
            if wrong:
                raise UsageError(complaint)


def reductions_without(names: Iterable[str]) -> frozenset[Reduction]:
    """All reductions but the named ones; ``all`` names every one of them."""
    left_out = list(names)
    for name in left_out:
        if name not in (*ALL, "all"):
            raise UsageError(f"there is no reduction {name!r}; there are: {', '.join(ALL)}, all")
    return frozenset(one for one in ALL if not {one, "all"}.intersection(left_out))
