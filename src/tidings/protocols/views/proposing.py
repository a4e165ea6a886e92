"""How a member has the next view decided: it asks for promises, proposes, and counts who accepts.

The proposer takes, of each origin, the most that any promise holds; or, if a promise names an
accepted view, that view. It fetches what is in the cut before it proposes, so that all others can
get it from there.
"""

from tidings.core import Part, Send
from tidings.protocols.views.asking import Asking
from tidings.protocols.views.consensus import Proposer
from tidings.protocols.views.gathering import Gathering
from tidings.protocols.views.packets import Accepted, Ballot, Prepare, Promise, Propose, Vote
from tidings.protocols.views.patience import Patience
from tidings.protocols.views.present import Present
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.voting import Voting
from tidings.protocols.views.wrapping import Effects


class Proposing(Part):
    standing: Standing
    present: Present
    proposer: Proposer
    gathering: Gathering
    patience: Patience
    asking: Asking
    voting: Voting

    def prepare(self, out: Effects) -> None:
        self.patience.renew()
        prepare = Prepare(self.standing.number + 1, self.proposer.next_ballot())
        self.voting.promise(prepare, out)
        self.proposer.promises[self.me] = self.voting.promised()
        if self.others:
            out.append(Send(self.others, prepare))

    def hear_promise(self, sender: str, promise: Promise) -> None:
        if self._is_ours(sender, promise.number, promise.ballot) and not self.proposer.proposed:
            self.proposer.promises[sender] = promise

    def hear_accepted(self, sender: str, accepted: Accepted) -> None:
        if self._is_ours(sender, accepted.number, accepted.ballot):
            self.proposer.accepted.add(sender)

    def _is_ours(self, sender: str, number: int, ballot: Ballot) -> bool:
        is_ours = number == self.standing.number + 1 and ballot == self.proposer.ballot
        return is_ours and sender in self.members

    def go_on(self, out: Effects) -> None:
        """What follows from what was heard, and from what is held by now."""
        proposer = self.proposer
        if proposer.are_promises_enough():
            view = proposer.bound_view() or self.asking.wished_view()
            proposer.proposed = Propose(Vote(proposer.ballot, view))
            self.gathering.want(dict(view.cut), proposer.holdings())
            proposer.promises = {}  # all that they say is in the proposal
            self._propose(out)
            self.gathering.ask(out)
        else:
            self._propose(out)

    def _propose(self, out: Effects) -> None:
        proposal = self.proposer.proposed
        if proposal is None or self.proposer.is_sent:
            return
        if not self.present.lacks(dict(proposal.vote.view.cut)):
            self.proposer.is_sent = True
            self.patience.renew()
            if self.others:
                out.append(Send(self.others, proposal))
            self.voting.take_offer(self.me, proposal, out)
