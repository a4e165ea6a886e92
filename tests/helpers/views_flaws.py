"""Changing groups with one rule left out or read wrongly: what each rule is there for."""

from collections.abc import Mapping

from tidings.core import Change, Effect, Event, Packet, Persist, Process, Receive, quorum
from tidings.protocols.frontier.packets import Holding
from tidings.protocols.views import Views
from tidings.protocols.views.consensus import Proposer
from tidings.protocols.views.packets import InView, View, Vote
from tidings.protocols.views.records import Promised, Voted
from tidings.protocols.views.wrapping import Effects


class Flawed(Views):
    def check(self, group: Mapping[str, Process]) -> None:
        """What must be true need not be here: others judge what comes of it."""


class _QuorumProposer(Proposer):
    @property
    def needed(self) -> int:
        return quorum(len(self.members))


class DecidingByQuorum(Flawed):
    """ceil(n/2) members decide, of which there are two without a common member if n is even."""

    proposer_kind = _QuorumProposer


class NotWedging(Flawed):
    """A member that has promised goes on to acknowledge in the old view."""

    @property
    def is_wedged(self) -> bool:
        return self.following is not None or self.has_left


class ForgettingPromises(Flawed):
    """What is promised and accepted is not written down."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        return [
            Persist(tuple(one for one in effect.records if not isinstance(one, Promised | Voted)))
            if isinstance(effect, Persist)
            else effect
            for effect in effects
        ]


class AcceptingWithoutTheCut(Flawed):
    """A member accepts a view although it lacks what its cut names."""

    def _may_vote(self, vote: Vote) -> bool:
        return self.acceptor.may_accept(vote.ballot)


class CountingAcrossViews(Flawed):
    """An acknowledgement counts in whatever view its receiver is when it comes."""

    def _receive_in_view(
        self, sender: str, packet: InView, number: int, inner: Packet, out: Effects
    ) -> None:
        if isinstance(inner, Holding) and number < self.number and self._can_read(sender, inner):
            self._step_current(Receive(sender, inner), out)
        else:
            super()._receive_in_view(sender, packet, number, inner, out)

    def _can_read(self, sender: str, holding: Holding) -> bool:
        named = {origin for origin, _ in holding.held.some}
        is_short = len(holding.held.all) in (0, len(self.members))
        return sender in self.members and named <= {*self.members} and is_short


class DroppingEarly(Flawed):
    """What is below the cut is dropped before all that need it have installed the next view."""

    def _is_over(self, number: int, members: tuple[str, ...]) -> bool:
        return True


class StartingAbove(Flawed):
    """A newcomer starts above the cut."""

    def _starting_point(self, view: View) -> dict[str, int]:
        cut = super()._starting_point(view)
        above = 1 if view.added == self.me else 0
        return {origin: count + above for origin, count in cut.items()}


class GoingOn(Flawed):
    """A member that was removed takes no notice."""

    def _leave(self, out: Effects, *, complete: bool) -> None:
        self.chain = self.chain[: self.number + 1]
        self._begin_next()


class NotCanvassing(Flawed):
    """Nobody asks whether enough members are there before it promises anything."""

    def _ask(self, change: Change, out: Effects) -> None:
        self.wish, self.is_approved = change, True
        self.proposer.canvass(self.acceptor.promised, self.has_state)
        self._prepare(out)


class ReusingNames(Flawed):
    """Somebody new may have the name of a member that has left, and begins at number 1."""

    def _why_no_newcomer(self, add: str) -> str:
        return f"{add} is a member" if add in self.members else ""


FLAWS = (
    DecidingByQuorum,
    NotWedging,
    ForgettingPromises,
    AcceptingWithoutTheCut,
    CountingAcrossViews,
    DroppingEarly,
    StartingAbove,
    GoingOn,
    NotCanvassing,
    ReusingNames,
)
