"""What a member of changing groups writes to its disk, and what can be read from it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tidings.core import listed
from tidings.core.renaming import SortedIds
from tidings.protocols.frontier import records as frontier
from tidings.protocols.views.packets import NO_BALLOT, Ballot, View, Vote


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
    """The application of a newcomer has the state to which all up to these has led."""

    upto: SortedIds

    def __str__(self) -> str:
        upto = listed(*(f"{origin}<={count}" for origin, count in self.upto if count))
        return "has its state" + (upto and f" up to {upto}")


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag="dropped"):
    """Nobody will ask for anything of this view again."""

    number: int

    def __str__(self) -> str:
        return f"dropped view {self.number}"


Record = Newcomer | Preceded | Installed | Written | Promised | Voted | Removed | HasState | Dropped


class InNumber:
    """The records of one view among those of all, in the words of frontier.

    They may be more than fit into memory: they are looked for whenever somebody goes through them.
    """

    def __init__(self, records: Iterable[Any], number: int) -> None:
        self._records = records
        self._number = number

    def __iter__(self) -> Iterator[frontier.Record]:
        for record in self._records:
            if isinstance(record, Written) and record.number == self._number:
                yield record.record


class Recovered(msgspec.Struct):
    """What a disk says, but for the records of each view. It may say a thing twice."""

    before: tuple[View, ...] = ()
    installed: dict[int, View] = {}
    dropped: set[int] = set()
    promised: Promised | None = None
    voted: Voted | None = None
    removed: Removed | None = None
    state: HasState | None = None
    is_newcomer: bool = False

    @classmethod
    def of(cls, records: Iterable[Any]) -> "Recovered":
        found = cls()
        for record in records:
            match record:
                case Preceded(views):
                    found.before = views
                case Installed(view):
                    found.installed[view.number] = view
                case Promised():
                    found.promised = record
                case Voted():
                    found.voted = record
                case Removed():
                    found.removed = record
                case HasState():
                    found.state = record
                case Dropped(number):
                    found.dropped.add(number)
                case Newcomer():
                    found.is_newcomer = True
        return found

    @property
    def last(self) -> View:
        return self.installed[max(self.installed)]

    @property
    def promise(self) -> Ballot:
        """What was promised for the number after the last view."""
        ballot = NO_BALLOT
        if self.promised is not None and self.promised.number == self.last.number + 1:
            ballot = self.promised.ballot
        if self.vote is not None and self.vote.ballot.round > ballot.round:
            ballot = self.vote.ballot
        return ballot

    @property
    def vote(self) -> Vote | None:
        """The same of what was accepted."""
        vote = self.voted.vote if self.voted is not None else None
        return vote if vote is not None and vote.view.number == self.last.number + 1 else None

    def live(self) -> list[View]:
        """Views of which something is kept, in order."""
        return [self.installed[one] for one in sorted(self.installed) if one not in self.dropped]

    def records(self, of: Callable[[View], Iterable[frontier.Record]]) -> tuple[Record, ...]:
        """As short as it can be said; ``of`` says what is kept of a view."""
        if not self.installed:
            return (Newcomer(),) if self.is_newcomer else ()
        kept: list[Record] = [Preceded(self.before)] if self.before else []
        kept += [Installed(self.installed[one]) for one in sorted(self.installed)]
        kept += [Dropped(one) for one in sorted(self.dropped)]
        kept += [Written(view.number, one) for view in self.live() for one in of(view)]
        if self.promise != NO_BALLOT:
            kept.append(Promised(self.last.number + 1, self.promise))
        if self.vote is not None:
            kept.append(Voted(self.vote))
        return (*kept, *(one for one in (self.state, self.removed) if one is not None))
