"""One of those who search: it expands the states of a level and keeps those it saw first."""

import time
from collections.abc import Sequence

import msgspec

from tidings.lab.explore.branch import Branch, Property, Way
from tidings.lab.explore.expand import Explorer
from tidings.lab.explore.reactions import Expectation
from tidings.lab.explore.seen import Seen


class Worker:
    def __init__(self, explorer: Explorer, seen: Seen) -> None:
        self.explorer = explorer
        self.seen = seen
        self.level: list[Branch] = []
        self.next: list[Branch] = []
        self.found: dict[Property, Branch] = {}
        self.states = 0
        self.transitions = 0
        self.settled = 0

    def begin(self) -> None:
        for branch in self.explorer.first():
            self._keep(branch, self.level)

    def expand(self, seconds: float, room: int) -> bool:
        """Work on the level; True when it is done.

        It stops early when the time is up, or when it has added ``room`` states.
        """
        until = time.monotonic() + seconds
        most = self.states + room
        while self.level:
            self._expand(self.level.pop())
            if self.states >= most or time.monotonic() > until:
                return not self.level
        return True

    def _expand(self, branch: Branch) -> None:
        explorer = self.explorer
        if branch.is_quiet() and explorer.is_settled(branch):
            self.settled += 1
            for what in explorer.broken_at_the_end(branch):
                self._find(what, branch)
        for child in explorer.following(branch):
            self.transitions += 1
            if child.broken:
                for what in child.broken:
                    self._find(what, child)
            else:
                self._keep(child, self.next)

    def _keep(self, branch: Branch, where: list[Branch]) -> None:
        if self.seen.add(self.explorer.signatures.number(branch.total())):
            self.states += 1
            where.append(branch)

    def _find(self, what: Property, branch: Branch) -> None:
        """Of several ways to break something, keep one of the shortest, the same every time."""
        known = self.found.get(what)
        if known is None or _rank(branch) < _rank(known):
            self.found[what] = branch

    def turn(self) -> None:
        """The next level becomes the level; what was met first is expanded first."""
        self.level, self.next = self.next[::-1], []

    # --- sharing the work with others

    def become_one_of(self, workers: int, place: int) -> None:
        """Of what was done so far the first of them keeps account; the level is parted."""
        self.level = self.level[place::workers]
        if place > 0:
            self.found = {}
            self.states = self.transitions = self.settled = 0

    def give(self, count: int) -> list[Way]:
        """The ways to some states of the next level, which are somebody else's from now on."""
        self.states -= count
        return [self.next.pop().way() for _ in range(count)]

    def take(self, ways: Sequence[Way]) -> None:
        self.states += len(ways)
        self.next += map(self.explorer.at_the_end_of, ways)

    def expectations(self) -> list[Expectation]:
        """What has been assumed since this was last asked."""
        told, self.explorer.reactions.expectations = self.explorer.reactions.expectations, []
        return told


def _rank(branch: Branch) -> tuple[int, bytes]:
    return branch.length, msgspec.json.encode(branch.schedule_so_far())
