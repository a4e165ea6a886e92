"""Which views there were, which of them this process is in, and how far the others are known to be.

All views are kept, one entry for each change that there ever was: so everybody knows which names
were used. A process that is in no view yet hears of all of them, from the first one on, until it
hears of the one that it is in.
"""

from collections.abc import Iterable, Mapping

from tidings.core import MOST_MEMBERS, Change, Members, Part, is_name
from tidings.protocols.views.packets import MOST_CHARS, View

NOWHERE = -1
"""The number of the view of a process that is in none yet."""


class Standing(Part):
    number: int = NOWHERE
    """The view that is installed here; of a process that was removed, the first without it."""
    chain: tuple[View, ...] = ()
    """All views that were decided, each at its number; the last may not be installed yet."""
    prelude: tuple[View, ...] = ()
    """The same at a process that is in none of them, as far as it has heard."""
    through: dict[str, int] = {}
    """The view up to which each process is known to have delivered all cuts."""
    has_left: bool = False
    has_stopped: bool = False
    """Whether it was removed, and neither others nor its application need it any more."""

    @property
    def following(self) -> View | None:
        """The next view, if it is decided."""
        place = self.number + 1
        return self.chain[place] if 0 < place < len(self.chain) else None

    @property
    def is_member(self) -> bool:
        return self.number != NOWHERE and not self.has_left

    @property
    def is_inside(self) -> bool:
        """Whether the view of that number has this process in it: it may know that it was removed
        later, and not have got so far."""
        return self.number != NOWHERE and self.me in self.chain[self.number].members

    @property
    def latest(self) -> int:
        """The number of the last view that this process has heard of."""
        return len(self.chain or self.prelude) - 1

    @property
    def first(self) -> View:
        """The first view that this process was in."""
        return next(view for view in self.chain if self.me in view.members)

    @property
    def removed_in(self) -> int:
        """The number of the first view without this process, which was in one."""
        return 1 + max(view.number for view in self.chain if self.me in view.members)

    @property
    def is_succeeded(self) -> bool:
        """Whether newcomers can hear of all views from somebody else than this process, which was
        removed. Of members that were there before, each knows what it has to know to get on."""
        last = self.chain[-1].members
        is_known = any(self.through_of(one) >= self.removed_in for one in last)
        return is_known or any(one in self.members for one in last)

    def farewell(self) -> str:
        number = self.removed_in
        return f"{self.me} was removed in view {number}; it may join anew under another name"

    # --- hearing of views

    def install(self, number: int) -> None:
        self.number = self.through[self.me] = number

    def learn(self, views: Iterable[View]) -> None:
        """They follow each other, and what is known already."""
        if self.number != NOWHERE:
            self.chain = _followed(self.chain, views)
            return
        self.prelude = _followed(self.prelude, views)
        if any(view.added == self.me for view in self.prelude):
            self.chain, self.prelude = self.prelude, ()

    def hear_through(self, peer: str, number: int) -> None:
        self.through[peer] = max(self.through_of(peer), number)

    def through_of(self, peer: str) -> int:
        return self.through.get(peer, NOWHERE)

    def is_over(self, number: int, members: Members) -> bool:
        """Whether all have got through a view that are still members, and were so then."""
        still = (one for one in self.chain[-1].members if one in members)
        return all(self.through_of(one) > number for one in still)

    def start(self, view: View) -> dict[str, int]:
        """Where a view begins, of the origins that are in it; newcomers among them at nothing."""
        return {origin: count for origin, count in view.cut if origin in view.members}

    def before(self, view: View) -> dict[str, int]:
        """What all have delivered that install this view, of every origin that there ever was."""
        views = self.chain[: view.number + 1]
        return {origin: last for one in views for origin, last in one.cut}

    def is_start_covered(self, upto: Mapping[str, int]) -> bool:
        """Whether this is all that came before the first view of this process."""
        return all(upto.get(origin, 0) >= count for origin, count in self.first.cut)

    # --- names

    def names(self) -> Iterable[str]:
        """Of all that ever were members."""
        return (one for view in self.chain for one in view.members)

    def added_last(self) -> str:
        """The newest member, if it still is one."""
        last = next((view.added for view in reversed(self.chain) if view.added), "")
        return last if last in self.members else ""

    def why_never(self, change: Change) -> str:
        """Why there can be no such change in this view; empty if there can."""
        add, remove = change.add, change.remove
        if not add and not remove:
            return "there is nothing to change"
        if remove and remove not in self.members:
            return f"{remove} is not a member"
        if add and (reason := self.why_no_newcomer(add)):
            return reason
        if len(change.address) > MOST_CHARS:
            return f"an address has {MOST_CHARS} characters at most"
        size = len(self.members) + bool(add) - bool(remove)
        if not 1 <= size <= MOST_MEMBERS:
            return f"a group has 1 to {MOST_MEMBERS:,} members"
        return ""

    def why_no_newcomer(self, add: str) -> str:
        """A name is used once, so that no number of its messages is ever used twice."""
        if not is_name(add):
            return f"{add!r} is not a name"
        for view in self.chain:
            if add in view.members:
                return f"{add} was a member in view {view.number}; it needs another name"
        return ""


def _followed(chain: tuple[View, ...], views: Iterable[View]) -> tuple[View, ...]:
    for view in views:
        if view.number == len(chain):
            chain += (view,)
    return chain
