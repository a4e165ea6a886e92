"""What a member answers to those that try to have the next view decided.

It promises and accepts on disk before it says so. It accepts a view only when it holds everything
up to the cut: so a decision leaves a correct member that holds all of it.
"""

from tidings.core import Part, Persist, Send
from tidings.protocols.views.consensus import Acceptor, Proposer
from tidings.protocols.views.gathering import Gathering
from tidings.protocols.views.packets import (
    Accepted,
    Canvass,
    Prepare,
    Promise,
    Propose,
    Ready,
    Vote,
)
from tidings.protocols.views.patience import Patience
from tidings.protocols.views.present import Present
from tidings.protocols.views.processing import Processing
from tidings.protocols.views.records import Promised, Voted
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.wrapping import Effects


class Voting(Part):
    standing: Standing
    present: Present
    acceptor: Acceptor
    proposer: Proposer
    gathering: Gathering
    patience: Patience
    processing: Processing

    def receive(self, sender: str, packet: Canvass | Prepare | Propose, out: Effects) -> None:
        match packet:
            case Canvass(number, asked):
                self._yield_to(sender)
                promised, has_state = self.acceptor.promised.round, self.processing.has_state
                ready = Ready(number, asked, promised, self.present.held(), has_state)
                out.append(Send((sender,), ready))
            case Prepare():
                if self.promise(packet, out):
                    out.append(Send((sender,), self.promised()))
            case Propose():
                self.take_offer(sender, packet, out)

    def _yield_to(self, sender: str) -> None:
        """All that are wedged try again; of those that ask at the same time, one should go on."""
        is_first = self.members.index(sender) < self.members.index(self.me)
        is_yielding = self.present.is_wedged and is_first and self.patience.lets_go_first(sender)
        if is_yielding and self.proposer.canvassing:
            self.proposer.give_up()

    # --- promising

    def promise(self, prepare: Prepare, out: Effects) -> bool:
        ballot = prepare.ballot
        if not self.acceptor.may_promise(ballot):
            return False
        if ballot != self.acceptor.promised:
            self.acceptor.promised = ballot
            self.patience.renew()
            if ballot.proposer != self.me:
                self.proposer.give_up()
            out.append(Persist((Promised(prepare.number, ballot),)))
        return True

    def promised(self) -> Promise:
        votes = () if self.acceptor.vote is None else (self.acceptor.vote,)
        number, ballot = self.standing.number + 1, self.acceptor.promised
        return Promise(number, ballot, self.present.held(), votes)

    # --- accepting

    def take_offer(self, sender: str, proposal: Propose, out: Effects) -> None:
        ballot, view = proposal.vote.ballot, proposal.vote.view
        if not self.acceptor.may_accept(ballot):
            return
        if ballot.round > self.acceptor.promised.round:
            self.promise(Prepare(view.number, ballot), out)
        self.acceptor.offer = proposal
        if sender != self.me:
            self.proposer.give_up()  # a ballot of the same round finds no majority
            self.gathering.want(dict(view.cut), {sender: dict(view.cut)})
        self.accept(out)
        # An answer to an earlier ballot may be lost, and each ballot puts off the timer.
        self.gathering.ask(out, again=True)

    def accept(self, out: Effects) -> None:
        """Once everything up to the cut is held."""
        offer = self.acceptor.offer
        if offer is None or not self.may_vote(offer.vote):
            return
        self.patience.renew()
        vote = self.acceptor.vote = offer.vote
        self.acceptor.offer = None
        out.append(Persist((Voted(vote),)))
        if vote.ballot.proposer == self.me:
            self.proposer.accepted.add(self.me)
        else:
            out.append(Send((vote.ballot.proposer,), Accepted(vote.view.number, vote.ballot)))

    def may_vote(self, vote: Vote) -> bool:
        return self.acceptor.may_accept(vote.ballot) and not self.present.lacks(dict(vote.view.cut))
