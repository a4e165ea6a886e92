"""One decision for each number: which view follows, and where the old one ends.

This is single-decree consensus in two phases, of the members of the old view. A *majority*,
floor(n/2) + 1 of them, decides: two majorities have a member in common, which two quorums of
ceil(n/2) need not have when n is even. An acceptor writes down what it promises and accepts before
it says so. A proposer that hears of an accepted view proposes that one again; otherwise it is free.

Ballots are compared by their rounds alone. Two proposers may use one round: each acceptor promises
it to one of them, so at most one finds a majority and proposes anything.

What is here is counted and compared; who says it to whom stands in asking, proposing and voting.
"""

from tidings.core import Members, Part, majority
from tidings.protocols.views.packets import NO_BALLOT, Ballot, Promise, Propose, Ready, View, Vote


class Acceptor(Part):
    """What this member has promised and accepted for the next number. All of it is on disk."""

    promised: Ballot = NO_BALLOT
    vote: Vote | None = None
    offer: Propose | None = None
    """A proposal that can be accepted once everything up to its cut is held."""

    def begin(self, members: Members) -> None:
        """Nothing is promised for the number after this one."""
        self.members, self.promised, self.vote, self.offer = members, NO_BALLOT, None, None

    @property
    def is_bound(self) -> bool:
        """Whether it has promised anything: then it is wedged in the old view."""
        return self.promised.round != NO_BALLOT.round

    def may_promise(self, ballot: Ballot) -> bool:
        return ballot == self.promised or ballot.round > self.promised.round

    def may_accept(self, ballot: Ballot) -> bool:
        return ballot.round >= self.promised.round


class Proposer(Part):
    """A try to have the next view decided, from asking who is there to counting who accepts."""

    canvassing: bool = False
    ready: dict[str, Ready] = {}
    """Who would take part, in its own words."""
    furnished: set[str] = set()
    """Those of them whose applications have their state."""
    ballot: Ballot = NO_BALLOT
    """The ballot under way, once enough are ready."""
    promises: dict[str, Promise] = {}
    proposed: Propose | None = None
    is_sent: bool = False
    """Whether the proposal has left; before, its proposer gathers what is in the cut."""
    accepted: set[str] = set()

    @property
    def needed(self) -> int:
        """How many of the old members decide."""
        return majority(len(self.members))

    def begin(self, members: Members) -> None:
        self.members = members
        self.give_up()

    def canvass(self, promised: Ballot, has_state: bool) -> None:
        """Begin with nobody but this process; or go on, with all that have answered so far.

        Where disks or links are slow, answers do not all come between two of our questions.
        """
        if self.ballot != NO_BALLOT:
            self.give_up()
        self.canvassing = True
        self.hear(self.me, Ready(0, promised.round, promised.round, has_state=has_state))

    def hear(self, sender: str, ready: Ready) -> None:
        self.ready[sender] = ready
        if ready.has_state:
            self.furnished.add(sender)

    def lose(self, peer: str) -> None:
        """What it has answered counts no more."""
        self.ready.pop(peer, None)

    def give_up(self) -> None:
        self.canvassing, self.ready, self.furnished, self.ballot = False, {}, set(), NO_BALLOT
        self.promises, self.proposed, self.is_sent, self.accepted = {}, None, False, set()

    def are_enough_ready(self) -> bool:
        return sum(one in self.members for one in self.ready) >= self.needed

    def next_ballot(self) -> Ballot:
        ballot = Ballot(max(ready.round for ready in self.ready.values()) + 1, self.me)
        self.give_up()
        self.ballot = ballot
        return ballot

    def are_promises_enough(self) -> bool:
        return self.proposed is None and len(self.promises) >= self.needed

    def is_decided(self) -> bool:
        return self.is_sent and len(self.accepted) >= self.needed

    def holdings(self) -> dict[str, dict[str, int]]:
        """What those that promised hold, of each origin."""
        return {
            name: dict(zip(self.members, promise.held, strict=True))
            for name, promise in self.promises.items()
        }

    def bound_view(self) -> View | None:
        """What may have been decided already: the view accepted in the latest round."""
        votes = [vote for promise in self.promises.values() for vote in promise.votes]
        return max(votes, key=lambda vote: vote.ballot.round).view if votes else None

    def cut(self) -> dict[str, int]:
        """The most that any of them holds: whatever was delivered in the old view is in it.

        ceil(n/2) members hold what is delivered, and floor(n/2) + 1 promise: together n + 1.
        """
        held = self.holdings().values()
        return {origin: max(counts[origin] for counts in held) for origin in self.members}
