"""Who is in the group, who was, and where they are reached, as this member's process knows it.

A group of a protocol that cannot change has one view, which the group file names. In any other the
group file names the founding view, and the process knows all views that came after: a name that
stands in none of them may become a member, one that stands in an earlier one never again.
"""

from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from tidings.core import Change, Members, Process, UsageError, ordered, replacement
from tidings.node.config import Address, Config, parse_address
from tidings.protocols.views import Views
from tidings.protocols.views.packets import View


class Role(Enum):
    MEMBER = auto()
    FORMER = auto()
    """It was removed; its name is used up."""
    NEWCOMER = auto()
    """Nobody knows it, so it may be added."""


class GroupView(msgspec.Struct, frozen=True):
    """The members at one time, which all of them have agreed on."""

    number: int
    members: Members
    addresses: dict[str, str]
    """Where each is reached."""
    added: str = ""
    """Who came with it."""


class Membership:
    def __init__(self, process: Process, config: Config) -> None:
        self.me = process.me
        self._config = config
        self._views = process if isinstance(process, Views) else None
        self._fixed = View(0, config.members)

    @property
    def changes(self) -> bool:
        return self._views is not None

    @property
    def chain(self) -> Sequence[View]:
        """All views that this member knows, installed or not."""
        return self._views.chain if self._views is not None else (self._fixed,)

    @property
    def number(self) -> int | None:
        """Of the view that is installed here, -1 before the first; None if there is only one."""
        return self._views.number if self._views is not None else None

    @property
    def installed(self) -> View | None:
        """The newest view that is installed here, or without this member; none before the first."""
        number = self.number or 0
        return self.chain[number] if 0 <= number < len(self.chain) else None

    @property
    def members(self) -> Members:
        return self.installed.members if self.installed is not None else ()

    @property
    def founding(self) -> Members:
        return self.chain[0].members if self.chain else ()

    @property
    def is_wedged(self) -> bool:
        return self._views is not None and self._views.is_wedged

    @property
    def has_left(self) -> bool:
        return self._views is not None and self._views.has_left

    @property
    def removed_in(self) -> int:
        """Which view is the first without this member, that was one."""
        assert self._views is not None, "nobody can be removed here"
        return self._views.standing.removed_in

    @property
    def farewell(self) -> str:
        """The same in words."""
        assert self._views is not None, "nobody can be removed here"
        return self._views.standing.farewell()

    @property
    def has_state(self) -> bool:
        """Whether the program has what all messages before this member came have led to."""
        return self._views is None or self._views.processing.has_state

    def delivered_before(self, name: str) -> dict[str, int] | None:
        """What was delivered before this newcomer came; None if it is none."""
        first = next((view.number for view in self.chain if view.added == name), None)
        if first is None:
            return None
        cuts = (view.cut for view in self.chain[: first + 1])
        return {origin: last for cut in cuts for origin, last in cut if last}

    def members_of(self, number: int) -> Members | None:
        chain = self.chain
        return chain[number].members if 0 <= number < len(chain) else None

    def reachable(self) -> dict[str, Address]:
        """Everybody to have a link with: whoever is in the installed view, or the newest known.

        A newcomer that is in no view knows those in its group file. At an address that one member
        has from another there is only the one that came last.
        """
        addresses = self.addresses()
        last_at = {address: name for name, address in addresses.items()}
        chain = self.chain
        names = ordered((*self.members, *chain[-1].members)) if chain else tuple(addresses)
        return {
            name: addresses[name]
            for name in names
            if name in addresses and name != self.me and last_at[addresses[name]] == name
        }

    def who_is_at(self, address: Address) -> str:
        """Which member of the newest view is reached there; empty if none is."""
        addresses = self.addresses()
        members = self.chain[-1].members if self.chain else ()
        return next((one for one in members if addresses.get(one) == address), "")

    def addresses(self) -> dict[str, Address]:
        """Of everybody who ever was a member, in the order in which they came: founding ones are
        in the group file."""
        config = self._config
        known = {name: config.addresses[name] for name in config.members}
        for view in self.chain:
            if view.added and (address := parse_address(view.address)) is not None:
                known[view.added] = address
        if self.me in config.addresses:
            known.setdefault(self.me, config.addresses[self.me])
        return known

    def role_of(self, name: str) -> Role:
        """A member of the installed view, or of a later one, is a member."""
        chain = self.chain
        number = self.number or 0
        if any(name in view.members for view in chain[max(0, number) :]):
            return Role.MEMBER
        if any(name in view.members for view in chain):
            return Role.FORMER
        return Role.NEWCOMER

    def replacement_of(self, name: str) -> str:
        """Under which name somebody may take the place of this member."""
        if name not in self.members:
            raise UsageError(f"{name} is not in the group; its members: {', '.join(self.members)}")
        return replacement(name, (one for view in self.chain for one in view.members))

    def can_never(self, change: Change) -> bool:
        """Whether it is in vain to ask for this as long as the group is as it is."""
        assert self._views is not None, "nothing can change here"
        standing = self._views.standing
        return not standing.is_member or bool(standing.why_never(change))

    def view(self, number: int | None = None) -> GroupView:
        """What a program sees: of this number, or what is installed."""
        installed = self.chain[number] if number is not None else self.installed or View(-1, ())
        addresses = self.addresses()
        where = {one: str(addresses[one]) for one in installed.members if one in addresses}
        return GroupView(installed.number, installed.members, where, installed.added)
