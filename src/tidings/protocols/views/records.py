"""What a member of changing groups writes to its disk, and what can be read from it."""

from collections.abc import Iterable

import msgspec

from tidings.core import Members
from tidings.protocols.frontier import records as frontier
from tidings.protocols.views.packets import Ballot, View, Vote


class Newcomer(msgspec.Struct, frozen=True, array_like=True, tag="newcomer"):
    """This process waits to be added to a group."""

    def __str__(self) -> str:
        return "newcomer"


class Preceded(msgspec.Struct, frozen=True, array_like=True, tag="preceded"):
    """The views before the first one that this process is in."""

    views: tuple[View, ...]

    def __str__(self) -> str:
        return f"{len(self.views)} views before"


class Installed(msgspec.Struct, frozen=True, array_like=True, tag="installed"):
    """All up to the cut is delivered, and this view is the current one."""

    view: View

    def __str__(self) -> str:
        return f"installed {self.view}"


class Written(msgspec.Struct, frozen=True, array_like=True, tag="written"):
    """A record of frontier, which belongs to this view."""

    number: int
    record: frontier.Record

    def __str__(self) -> str:
        return f"{self.record} in view {self.number}"


class Promised(msgspec.Struct, frozen=True, array_like=True, tag="promised"):
    """This process is wedged in the view before."""

    number: int
    ballot: Ballot

    def __str__(self) -> str:
        return f"promised view {self.number}, ballot {self.ballot}"


class Voted(msgspec.Struct, frozen=True, array_like=True, tag="voted"):
    vote: Vote

    def __str__(self) -> str:
        return f"accepted {self.vote}"


class Removed(msgspec.Struct, frozen=True, array_like=True, tag="removed"):
    """This process is not in these views, which were decided after its own."""

    views: tuple[View, ...]
    complete: bool
    """Whether it holds everything up to the cut of the first."""

    def __str__(self) -> str:
        return f"removed in view {self.views[0].number}"


class HasState(msgspec.Struct, frozen=True, array_like=True, tag="has state"):
    """The application of a newcomer has the state to which all before its first view has led."""

    def __str__(self) -> str:
        return "has its state"


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """Nobody will ask for anything of this view again."""

    number: int

    def __str__(self) -> str:
        return f"dropped view {self.number}"


Record = Newcomer | Preceded | Installed | Written | Promised | Voted | Removed | HasState | Dropped


class Recovered(msgspec.Struct):
    """What a disk says. The records of each view are still in the words of frontier."""

    before: tuple[View, ...] = ()
    installed: list[View] = []
    logs: dict[int, list[frontier.Record]] = {}
    promised: Promised | None = None
    voted: Voted | None = None
    removed: Removed | None = None
    is_newcomer: bool = False
    has_state: bool = False

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Recovered":
        found = cls()
        for record in records:
            match record:
                case Preceded(views):
                    found.before = views
                case Installed(view):
                    found.installed.append(view)
                    found.logs.setdefault(view.number, [])
                    found.promised = found.voted = None
                case Written(number, one):
                    found.logs.setdefault(number, []).append(one)
                case Promised():
                    found.promised = record
                case Voted():
                    found.voted = record
                case Removed():
                    found.removed = record
                case Dropped(number):
                    found.logs.pop(number, None)
                case HasState():
                    found.has_state = True
                case Newcomer():
                    found.is_newcomer = True
        return found

    def members_of(self, number: int) -> Members:
        return next(view.members for view in self.installed if view.number == number)

    def records(self) -> tuple[Record, ...]:
        """The same, as short as it can be said."""
        kept: list[Record] = [Newcomer()] if self.is_newcomer and not self.installed else []
        if self.before:
            kept.append(Preceded(self.before))
        if self.has_state:
            kept.append(HasState())
        for view in self.installed:
            kept.append(Installed(view))
            if view.number in self.logs:
                log = frontier.compacted(self.logs[view.number], view.members)
                kept += [Written(view.number, one) for one in log]
            else:
                kept.append(Dropped(view.number))
        for last in (self.promised, self.voted, self.removed):
            kept += [last] if last is not None else []
        return tuple(kept)
