"""One of those who search: it expands the states of a level and keeps those it saw first."""

import time
from collections.abc import Sequence

import msgspec

from tidings.explore.branch import Branch, Property, Way
from tidings.explore.expand import Explorer, RestlessError
from tidings.explore.reactions import Expectation
from tidings.explore.seen import Seen


class Worker:
    def __init__(self, explorer: Explorer, seen: Seen) -> None:
        self.explorer = explorer
        self.seen = seen
        self.level: list[Branch] = []
        self.next: list[Branch] = []
        self.fresh: set[int] = set()
        """The numbers of the states of the next level, as far as they were first seen here."""
        self.found: dict[Property, Branch] = {}
        self.states = 0
        self.transitions = 0
        self.settled = 0
        self.pruned = False
        """Whether states were not expanded because something was broken in them."""
        self.restless = False
        """Whether there are states of which nobody can say that they come to rest."""

    def begin(self) -> None:
        for branch in self.explorer.first():
            self._take_in(branch, self.level)

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
        is_settled = self.explorer.is_settled(branch)
        if is_settled:
            self._settle(branch)
        leads_back = False
        for child in self.explorer.following(branch):
            self.transitions += 1
            leads_back |= not self._take_in(child, self.next)
        if leads_back and not is_settled:
            self._look_for_a_circle(branch)

    def _settle(self, branch: Branch) -> None:
        self.settled += 1
        for what in self.explorer.broken_at_the_end(branch):
            self._find(what, branch)

    def _look_for_a_circle(self, branch: Branch) -> None:
        """Every circle of states has one that leads back to this level, or an earlier one."""
        try:
            circle = self.explorer.circle_after(branch)
        except RestlessError:
            self.restless = True
        else:
            if circle is not None:
                self._settle(circle)

    def _take_in(self, branch: Branch, where: list[Branch]) -> bool:
        """Whether the state is new, or at least of the next level; or broken, and so an end."""
        if branch.broken:
            self.pruned = True
            for what in branch.broken:
                self._find(what, branch)
            return True
        number = self.explorer.signatures.number(branch.total())
        if self.seen.add(number):
            self.states += 1
            self.fresh.add(number)
            where.append(branch)
            return True
        return number in self.fresh

    def _find(self, what: Property, branch: Branch) -> None:
        """Of several ways to break something, keep one of the shortest, the same every time."""
        known = self.found.get(what)
        if known is None or _rank(branch) < _rank(known):
            self.found[what] = branch

    def turn(self) -> None:
        """The next level becomes the level; what was met first is expanded first."""
        self.level, self.next = self.next[::-1], []
        self.fresh.clear()

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
        expected, self.explorer.reactions.expectations = self.explorer.reactions.expectations, []
        return expected


def _rank(branch: Branch) -> tuple[int, bytes]:
    return branch.length, msgspec.json.encode(branch.schedule_so_far())
