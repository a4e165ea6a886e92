"""What members say to each other to agree on the next view, and in which view they say the rest.

Every packet names a view. One that belongs to a view that is not installed here yet waits until it
is. Of a view that is over, only PULLs are answered, as long as anything of it is kept. On links
that lose packets, one of an earlier view is answered with what came after it, and one of a later
view with the question for it.
"""

from itertools import accumulate
from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.core import MOST_MEMBERS, Members, MessageId, Packet, listed
from tidings.core.renaming import SortedIds, Vector
from tidings.protocols.frontier.packets import (
    Asking,
    Commit,
    Data,
    Holding,
    Pull,
    Push,
    Refusal,
    State,
    Twins,
)

MOST_CHARS = 300
"""How long an address may be."""
Address = Annotated[str, Meta(max_length=MOST_CHARS)]


class View(msgspec.Struct, frozen=True, array_like=True):
    """The members from here on, and where the view before ends.

    ``cut`` says of each origin of the view before how many of its messages are delivered in it.
    A newcomer starts there.
    """

    number: int
    members: Members
    cut: SortedIds = ()
    added: str = ""
    address: Address = ""
    """Where the newcomer can be reached, in words of the holders."""
    incarnation: int = 0
    """Who the newcomer was when it was asked: as somebody else it has lost its disk since."""

    def __str__(self) -> str:
        cut = listed(*(f"{origin}<={count}" for origin, count in self.cut if count))
        return f"view {self.number} of {' '.join(self.members)}" + (cut and f" after {cut}")


class Ballot(msgspec.Struct, frozen=True, array_like=True):
    """A try to agree on the next view; of two in one round, at most one finds a majority."""

    round: int
    proposer: str

    def __str__(self) -> str:
        return f"{self.round} by {self.proposer}"


NO_BALLOT = Ballot(0, "")


class Vote(msgspec.Struct, frozen=True, array_like=True):
    """A view that somebody accepted, and in which ballot."""

    ballot: Ballot
    view: View

    def __str__(self) -> str:
        return f"{self.view} in ballot {self.ballot}"


class InView(Packet, frozen=True, tag="in view"):
    """A packet of frontier, which counts in this view alone."""

    number: int
    packet: Asking | Commit | Data | Holding | Pull | Push | Refusal | State | Twins

    @property
    def kind(self) -> str:
        return self.packet.kind

    @property
    def about(self) -> MessageId | None:
        return self.packet.about

    def may_come_from(self, sender: str) -> bool:
        return self.packet.may_come_from(sender)

    def __str__(self) -> str:
        return f"{self.packet} in view {self.number}"


class Canvass(Packet, frozen=True, tag="canvass"):
    """Who would take part in agreeing on this view? The answer binds nobody."""

    number: int
    round: int
    """The last one that the sender has promised; the answer repeats it."""
    added: str = ""

    def __str__(self) -> str:
        added = f" with {self.added}" if self.added else ""
        return f"canvass for view {self.number}, round {self.round}{added}"


class Ready(Packet, frozen=True, tag="ready"):
    number: int
    asked: int
    """The round that was named: an answer to an earlier question counts no more."""
    round: int = 0
    """The last one that the sender has promised."""
    held: Vector = ()
    has_state: bool = True
    """Whether its application has the state to which all messages before its first view led."""

    def __str__(self) -> str:
        return listed(
            f"ready for view {self.number}",
            f"round {self.asked}",
            f"promised {self.round}",
            any(self.held) and f"held {self.held}",
            not self.has_state and "without its state",
        )


class Prepare(Packet, frozen=True, tag="prepare"):
    """Promise to accept nothing of an earlier round, and to acknowledge no more in the old view."""

    number: int
    ballot: Ballot

    def __str__(self) -> str:
        return f"prepare view {self.number}, ballot {self.ballot}"


class Promise(Packet, frozen=True, tag="promise"):
    number: int
    ballot: Ballot
    held: Vector
    votes: Annotated[tuple[Vote, ...], Meta(max_length=1)] = ()

    def __str__(self) -> str:
        held = f"held {self.held}" if any(self.held) else ""
        votes = f"accepted {listed(*self.votes)}" if self.votes else ""
        return listed(f"promise view {self.number}, ballot {self.ballot}", held, votes)


class Propose(Packet, frozen=True, tag="propose"):
    """The sender holds everything up to the cut of this view; accept it once you do, too."""

    vote: Vote

    @property
    def number(self) -> int:
        return self.vote.view.number

    def __str__(self) -> str:
        return f"propose {self.vote}"


class Accepted(Packet, frozen=True, tag="accepted"):
    number: int
    ballot: Ballot

    def __str__(self) -> str:
        return f"accepted view {self.number}, ballot {self.ballot}"


class Decided(Packet, frozen=True, tag="decided"):
    """These views were decided, one after the other."""

    views: Annotated[tuple[View, ...], Meta(max_length=10 * MOST_MEMBERS)]
    through: int
    """Up to this view the sender has delivered all cuts: it can send what is in them."""
    last: int
    """The last view that the sender knows, if there was no room for all of them."""

    def __str__(self) -> str:
        more = f", and more up to {self.last}" if self.last > self.views[-1].number else ""
        return f"decided {listed(*self.views)}{more}, through {self.through}"


class Behind(Packet, frozen=True, tag="behind"):
    """The sender knows no later view than this one, and should; a newcomer may know none."""

    number: Annotated[int, Meta(ge=-1)]

    def __str__(self) -> str:
        return f"behind view {self.number}"


class Missed(Packet, frozen=True, tag="missed"):
    """The sender had no room for what the receiver said in this view before it was installed there.

    So the two begin as if the link between them had been down.
    """

    number: int

    def __str__(self) -> str:
        return f"missed some of view {self.number}"


def as_many_as_fit(views: tuple[View, ...], names: int, most_bytes: int) -> tuple[View, ...]:
    """The first of them, with so many names of members and origins in all, but at least one."""
    sizes = accumulate(len(view.members) + len(view.cut) for view in views)
    some = views[: max(1, sum(size <= names for size in sizes))]
    lengths = accumulate(len(msgspec.msgpack.encode(view)) for view in some)
    return some[: max(1, sum(length <= most_bytes for length in lengths))]
