"""Changing groups with one rule left out or read wrongly: what each rule is there for."""

from collections.abc import Iterable, Mapping

from tidings.core import Effect, Event, Packet, Persist, Process, Receive, quorum
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Holding
from tidings.protocols.views import Views
from tidings.protocols.views.ahead import Ahead
from tidings.protocols.views.asking import Asking
from tidings.protocols.views.consensus import Proposer
from tidings.protocols.views.formers import Formers
from tidings.protocols.views.packets import InView, View, Vote
from tidings.protocols.views.present import Present
from tidings.protocols.views.records import Promised, Voted
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.voting import Voting
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


class _OpenPresent(Present):
    @property
    def is_wedged(self) -> bool:
        return self.standing.following is not None or self.standing.has_left


class NotWedging(Flawed):
    """A member that has promised goes on to acknowledge in the old view."""

    present_kind = _OpenPresent


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


class _HastyVoting(Voting):
    def may_vote(self, vote: Vote) -> bool:
        return self.acceptor.may_accept(vote.ballot)


class AcceptingWithoutTheCut(Flawed):
    """A member accepts a view although it lacks what its cut names."""

    voting_kind = _HastyVoting


class CountingAcrossViews(Flawed):
    """An acknowledgement counts in whatever view its receiver is when it comes."""

    def _receive_in_view(
        self, sender: str, packet: InView, number: int, inner: Packet, out: Effects
    ) -> None:
        if isinstance(inner, Holding) and number < self.number and self._can_read(sender, inner):
            self.present.step(Receive(sender, inner), self.choose, out)
        else:
            super()._receive_in_view(sender, packet, number, inner, out)

    def _can_read(self, sender: str, holding: Holding) -> bool:
        named = {origin for origin, _ in holding.held.some}
        is_short = len(holding.held.all) in (0, len(self.members))
        return sender in self.members and named <= {*self.members} and is_short


class _ForgetfulFormers(Formers):
    def is_over(self, number: int, log: Log) -> bool:
        return True


class DroppingEarly(Flawed):
    """What is below the cut is dropped before all that need it have installed the next view."""

    formers_kind = _ForgetfulFormers


class _HighStanding(Standing):
    def start(self, view: View) -> dict[str, int]:
        cut = super().start(view)
        above = 1 if view.added == self.me else 0
        return {origin: count + above for origin, count in cut.items()}


class StartingAbove(Flawed):
    """A newcomer starts above the cut."""

    standing_kind = _HighStanding


class GoingOn(Flawed):
    """A member that was removed takes no notice."""

    def _conclude(self, out: Effects) -> None:
        following = self.standing.following
        if following is not None and self.me not in following.members:
            self.standing.chain = self.standing.chain[: self.number + 1]
            self.adopt(self.members)
        super()._conclude(out)


class _NoAsking(Asking):
    def is_done(self, out: Effects) -> bool:
        if not self.proposer.canvassing or self.present.is_wedged:
            return super().is_done(out)
        self.is_approved = True
        return True


class NotCanvassing(Flawed):
    """Nobody asks whether enough members are there before it promises anything."""

    asking_kind = _NoAsking


class _CarelessStanding(Standing):
    def why_no_newcomer(self, add: str) -> str:
        return f"{add} is a member" if add in self.members else ""


class ReusingNames(Flawed):
    """Somebody new may have the name of a member that has left, and begins at number 1."""

    standing_kind = _CarelessStanding


class _AskingForNoState(Asking):
    def who_else(self) -> str:
        self.proposer.furnished |= {self.standing.added_last()}
        return super().who_else()


class AddingManyWithoutState(Flawed):
    """A newcomer is added although the one before it has no state yet."""

    asking_kind = _AskingForNoState


class _LosingAhead(Ahead):
    def to_exchange(self, number: int) -> list[str]:
        return []


class LosingWhatIsAhead(Flawed):
    """What there was no room for before a view was installed is never made good."""

    ahead_kind = _LosingAhead


class LookingOnce(Flawed):
    """Of events that come together, those after a promise still count in the old view."""

    def steps(self, events: Iterable[Event]) -> list[Effect]:
        out: Effects = []
        was_open = self.present.is_open
        for event in events:
            inner = self._in_the_view(event) if was_open else None
            if inner is None:
                out += self._step_alone(event)
            else:
                self.present.step(inner, self.choose, out)
        return out


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
    AddingManyWithoutState,
    LosingWhatIsAhead,
    LookingOnce,
)
