"""The events of a member of a changing group, and what follows from each."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from tidings.core import (
    MOST_MEMBERS,
    Accept,
    Approve,
    Broadcast,
    CancelTimer,
    Change,
    Choose,
    Deliver,
    Deny,
    Event,
    Halt,
    Held,
    Install,
    Leave,
    LinkDown,
    LinkUp,
    Members,
    MessageId,
    Packet,
    Persist,
    Process,
    Rebind,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Span,
    Start,
    Timeout,
    UsageError,
    ordered,
    take_first,
)
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import REASONS, Data, Pull, Push, Refusal
from tidings.protocols.frontier.records import Delivered
from tidings.protocols.frontier.turn import Turn
from tidings.protocols.views import invariants
from tidings.protocols.views.beginning import begin, reread
from tidings.protocols.views.consensus import Acceptor, Gathering, Proposer
from tidings.protocols.views.packets import (
    Accepted,
    Ballot,
    Behind,
    Canvass,
    Decided,
    InView,
    Prepare,
    Promise,
    Propose,
    Ready,
    View,
    Vote,
)
from tidings.protocols.views.records import (
    Dropped,
    Installed,
    Newcomer,
    Preceded,
    Promised,
    Record,
    Recovered,
    Removed,
    Voted,
    Written,
)
from tidings.protocols.views.wrapping import Effects, in_order, in_view

CHANGE_MS = 300.0
"""How long a member waits for the others before it takes the next step towards a view itself."""
PATIENCE = 2
"""How many times longer it waits after anything has brought the next view nearer."""
NOWHERE = -1
"""The number of the view of a process that is in none yet."""
CHANGE = "change"
"""The one timer beside those of frontier."""


class Views(Process):
    changes = True
    recovers = True

    frontier_kind: ClassVar[type[Frontier]] = Frontier
    acceptor_kind: ClassVar[type[Acceptor]] = Acceptor
    proposer_kind: ClassVar[type[Proposer]] = Proposer

    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        mode: Literal["auto", "all", "origin"] = "auto",
        batch_ms: int = -1,
        stable_ms: int = 0,
        window: int = 10_000,
        log_limit: int = 10_000_000,
        early: int = 10_000,
        push: int = 10_000,
        push_bytes: int = 256 * 1024,
        near: int = 1_000,
    ) -> None:
        if near < 0:
            raise UsageError("near is 0 or more")
        super().__init__(me, members, choose)
        self.near = near
        self.options: dict[str, Any] = {
            "mode": mode,
            "batch_ms": batch_ms,
            "stable_ms": stable_ms,
            "window": window,
            "log_limit": log_limit,
            "early": early,
            "push": push,
            "push_bytes": push_bytes,
        }
        self.incarnation = 0
        self.lossy = False
        self.number = NOWHERE
        """The view that is installed here."""
        self.chain: tuple[View, ...] = ()
        """All views that were decided, from the first on; the last may not be installed yet."""
        self.current = self._frontier(members)
        """What this member holds and knows in its view."""
        self.formers: dict[int, Frontier] = {}
        """The same in views before, kept for members that have not got through them."""
        self.through: dict[str, int] = {}
        """The view up to which each process is known to have delivered all cuts."""
        self.wish: Change | None = None
        """What an operator asked of this member."""
        self.is_approved = False
        self.offer: Propose | None = None
        """A proposal that can be accepted once everything up to its cut is held."""
        self.has_left = False
        self.ahead: tuple[Receive, ...] = ()
        """Packets of views that are not installed here yet."""
        self.is_waiting = False
        """Whether the timer runs."""
        self.patience = 0
        """How often the timer may run out before this member begins again."""
        self._begin_next()

    def _frontier(self, members: Members) -> Frontier:
        members = members if self.me in members else ordered((*members, self.me))
        return self.frontier_kind(self.me, members, take_first, **self.options)

    def _begin_next(self) -> None:
        """Nothing is promised, accepted or proposed for the number after this one."""
        self.members = self.current.members
        self.acceptor = self.acceptor_kind(self.me, self.members)
        self.proposer = self.proposer_kind(self.me, self.members)
        self.gathering = Gathering(self.me, self.members)
        self.offer = None
        self.patience = 0

    # --- what is so

    @property
    def following(self) -> View | None:
        """The next view, if it is decided."""
        return next((view for view in self.chain if view.number == self.number + 1), None)

    @property
    def is_wedged(self) -> bool:
        """It takes no part in its view any more, but to get to the next one."""
        return self.acceptor.is_bound or self.following is not None or self.has_left

    @property
    def is_member(self) -> bool:
        return self.number != NOWHERE and not self.has_left

    def _lacks(self, cut: Mapping[str, int]) -> list[str]:
        held = self.current.log.held
        return [origin for origin, count in cut.items() if held[origin] < count]

    # --- events

    def step(self, event: Event) -> Effects:
        out: Effects = []
        match event:
            case Receive(sender, packet):
                self._receive(sender, packet, out)
            case Broadcast():
                self._broadcast(event, out)
            case Timeout(name):
                self._time_out(name, out)
            case Change():
                self._ask(event, out)
            case LinkUp(peer):
                self._link_up(peer, event, out)
            case LinkDown(peer):
                self._link_down(peer, event, out)
            case Start():
                self._start(event, out)
        self._keep_timer(out)
        return in_order(out)

    def _broadcast(self, event: Broadcast, out: Effects) -> None:
        if self.number == NOWHERE:
            out.append(Refuse(f"{self.me} is not in the group yet"))
        elif self.has_left:
            out.append(Refuse(self._farewell()))
        elif self.is_wedged:
            out.append(Refuse(f"the group is about to install view {self.number + 1}"))
        else:
            self._step_current(event, out)

    def _time_out(self, name: str, out: Effects) -> None:
        if name != CHANGE:
            if not self.is_wedged:
                self._step_current(Timeout(name), out)
            return
        self.is_waiting = False
        if self.patience:
            self.patience -= 1
            return
        self._gather(out, again=True)
        if self.following is not None:
            return  # all that is left to do is to get what is in its cut
        if self.is_wedged:
            self._canvass(out)
        elif self.proposer.canvassing:
            ready = [one for one in self.proposer.ready if one in self.members]
            self._deny(
                f"{len(ready)} of {len(self.members)} members are ready, and "
                f"{self.proposer.needed} must be",
                out,
            )

    def _keep_timer(self, out: Effects) -> None:
        is_wedged = self.is_wedged and not self.has_left
        wanted = self.proposer.canvassing or is_wedged
        if wanted and not self.is_waiting:
            out.append(SetTimer(CHANGE, CHANGE_MS))
        elif self.is_waiting and not wanted:
            out.append(CancelTimer(CHANGE))
        self.is_waiting = wanted

    def _link_up(self, peer: str, event: LinkUp, out: Effects) -> None:
        """Frontier exchanges what is held; a member that slept hears which view is the last."""
        if peer in self.members and not self.is_wedged and self.is_member:
            self._step_current(event, out)
        else:
            self.current.peers.down.discard(peer)
        if self.chain and self.chain[-1].number > 0:
            out.append(Send((peer,), Decided(self.chain[-1:], self.through[self.me])))

    def _link_down(self, peer: str, event: LinkDown, out: Effects) -> None:
        if peer in self.members and not self.is_wedged and self.is_member:
            self._step_current(event, out)
        else:
            self.current.peers.down.add(peer)

    def _step_current(self, event: Event, out: Effects) -> None:
        self.current.choose = self.choose
        out += in_view(self.number, self.current.step(event))
        self.current.choose = take_first

    # --- packets

    def _receive(self, sender: str, packet: Packet, out: Effects) -> None:
        match packet:
            case InView(number, inner):
                self._receive_in_view(sender, packet, number, inner, out)
            case Canvass(number, asked, added) if self.number == NOWHERE:
                if added == self.me:
                    out.append(Send((sender,), Ready(number, asked)))
            case Canvass() | Prepare() | Propose():
                self._receive_as_acceptor(sender, packet, out)
            case Ready(number, asked):
                is_answer = asked == self.acceptor.promised.round
                if number == self.number + 1 and is_answer and self.proposer.canvassing:
                    self._hear_ready(sender, packet, out)
            case Promise(number, ballot):
                if self._is_about_our_ballot(sender, number, ballot):
                    self._hear_promise(sender, packet, out)
            case Accepted(number, ballot):
                if self._is_about_our_ballot(sender, number, ballot):
                    self.proposer.accepted.add(sender)
                    self._see_whether_decided(out)
            case Decided(views, through):
                self._hear_decided(sender, views, through, out)
            case Behind(number):
                self._tell(sender, number, out)

    def _is_about_our_ballot(self, sender: str, number: int, ballot: Ballot) -> bool:
        is_ours = number == self.number + 1 and ballot == self.proposer.ballot
        return is_ours and sender in self.members

    def _receive_in_view(
        self, sender: str, packet: InView, number: int, inner: Packet, out: Effects
    ) -> None:
        if number in self.formers:
            if isinstance(inner, Pull):
                self._serve(self.formers[number], number, sender, inner, out)
        elif self.has_left:
            return
        elif number > self.number:
            self.ahead += (Receive(sender, packet),)
        elif number == self.number and sender in self.members:
            self._receive_now(sender, inner, out)

    def _receive_now(self, sender: str, packet: Packet, out: Effects) -> None:
        if not self.is_wedged:
            self._step_current(Receive(sender, packet), out)
            return
        # Wedged: what comes is stored, and counts for nothing.
        match packet:
            case Refusal():
                turn = Turn()
                self.current.peers.take_refusal(sender, packet, turn)
                out += in_view(self.number, turn.effects())
            case Pull():
                self._serve(self.current, self.number, sender, packet, out)
            case Data(batch) if packet.may_come_from(sender):
                self._hold([batch], out)
            case Push(batches):
                if self._hold(batches, out) and self._lacks(self.gathering.wanted):
                    self.gathering.asked.discard(sender)
                    self._gather(out, again=True)

    def _serve(self, frontier: Frontier, number: int, asker: str, pull: Pull, out: Effects) -> None:
        turn = Turn()
        frontier.fetching.push(asker, pull.wanted, turn)
        out += in_view(number, turn.effects())

    def _hold(self, batches: Sequence[Any], out: Effects) -> bool:
        turn = Turn()
        for batch in batches:
            if batch.id.origin != self.me:
                self.current.log.hold(batch, turn)
        out += in_view(self.number, turn.effects())
        if turn.grown:
            self.patience = PATIENCE
            self._go_on(out)
        return bool(turn.grown)

    def _go_on(self, out: Effects) -> None:
        """More is held: what waited for that can happen."""
        self._propose(out)
        self._accept(out)
        self._advance(out)

    # --- asking who is there

    def _ask(self, change: Change, out: Effects) -> None:
        if reason := self._why_not(change):
            out.append(Deny(change, reason))
            return
        self.wish = change
        self._canvass(out)

    def _why_not(self, change: Change) -> str:
        if not self.is_member:
            return f"{self.me} is not in the group"
        if self.is_wedged:
            return f"the group is about to install view {self.number + 1}"
        if self.wish is not None:
            return f"{self.me} is about to {self.wish}"
        return self._why_never(change)

    def _why_never(self, change: Change) -> str:
        add, remove = change.add, change.remove
        if not add and not remove:
            return "there is nothing to change"
        if remove and remove not in self.members:
            return f"{remove} is not a member"
        if reason := self._why_no_newcomer(add):
            return reason
        size = len(self.members) + bool(add) - bool(remove)
        if not 1 <= size <= MOST_MEMBERS:
            return f"a group has 1 to {MOST_MEMBERS:,} members"
        return ""

    def _why_no_newcomer(self, add: str) -> str:
        """A name is used once, so that no number of its messages is ever used twice."""
        for view in self.chain if add else ():
            if add in view.members:
                return f"{add} was a member in view {view.number}; it needs another name"
        return ""

    def _canvass(self, out: Effects) -> None:
        """Before anybody promises anything: are enough there to get it done?"""
        self.proposer.canvass(self.acceptor.promised)
        added = self.wish.add if self.wish is not None else ""
        asked = (*self.others, *([added] if added and not self.is_approved else []))
        if asked:
            out.append(Send(asked, Canvass(self.number + 1, self.acceptor.promised.round, added)))
        self._see_whether_ready(out)

    def _hear_ready(self, sender: str, ready: Ready, out: Effects) -> None:
        if sender in self.members and not self._is_near(ready.held):
            return
        self.proposer.ready[sender] = ready.round
        self._see_whether_ready(out)

    def _is_near(self, held: Sequence[int]) -> bool:
        """Whether neither lacks much of what the other holds; those that are wedged must go on."""
        ours = self.current.log.vector(self.current.log.held)
        pairs = list(zip(ours, held, strict=True))
        lacking = max(sum(max(0, a - b) for a, b in pairs), sum(max(0, b - a) for a, b in pairs))
        return self.is_wedged or lacking <= self.near

    def _see_whether_ready(self, out: Effects) -> None:
        if not self.proposer.are_enough_ready():
            return
        if self.wish is not None and not self.is_approved:
            if not self.wish.add or self.wish.add in self.proposer.ready:
                self.is_approved = True
                out.append(Approve(self.wish))
            elif not self.is_wedged:
                return  # nobody has lost anything by waiting for the newcomer
        self._prepare(out)

    def _deny(self, reason: str, out: Effects) -> None:
        self.proposer.give_up()
        if self.wish is not None:
            out.append(Deny(self.wish, reason))
        self.wish, self.is_approved = None, False

    # --- proposing

    def _prepare(self, out: Effects) -> None:
        self.patience = PATIENCE
        ballot = self.proposer.next_ballot()
        self._promise_ballot(Prepare(self.number + 1, ballot), out)
        self.proposer.promises[self.me] = self._promise()
        if self.others:
            out.append(Send(self.others, Prepare(self.number + 1, ballot)))
        self._see_whether_promised(out)

    def _hear_promise(self, sender: str, promise: Promise, out: Effects) -> None:
        if self.proposer.proposed is None:
            self.proposer.promises[sender] = promise
            self._see_whether_promised(out)

    def _see_whether_promised(self, out: Effects) -> None:
        if self.proposer.are_promises_enough():
            view = self.proposer.bound_view() or self._wished_view()
            self.proposer.proposed = Propose(Vote(self.proposer.ballot, view))
            self.gathering.want(dict(view.cut), self.proposer.holdings())
            self._propose(out)
            self._gather(out)

    def _wished_view(self) -> View:
        """What was asked of this member; without a wish, or without its sense, no change."""
        cut = tuple(sorted(MessageId(*one) for one in self.proposer.cut().items()))
        wish = self.wish
        if wish is None or not self.is_approved or self._why_never(wish):
            return View(self.number + 1, self.members, cut)
        rest = tuple(member for member in self.members if member != wish.remove)
        members = ordered((*rest, wish.add)) if wish.add else rest
        return View(self.number + 1, members, cut, wish.add)

    def _propose(self, out: Effects) -> None:
        """Once everything up to the cut is here, so that all others can get it from here."""
        proposal = self.proposer.proposed
        if proposal is None or self.proposer.is_sent or self._lacks(dict(proposal.vote.view.cut)):
            return
        self.proposer.is_sent, self.patience = True, PATIENCE
        if self.others:
            out.append(Send(self.others, proposal))
        self._take_offer(self.me, proposal, out)

    def _see_whether_decided(self, out: Effects) -> None:
        if self.proposer.is_decided():
            assert self.proposer.proposed is not None
            self._learn((self.proposer.proposed.vote.view,))
            self._advance(out)

    # --- accepting

    def _receive_as_acceptor(
        self, sender: str, packet: Canvass | Prepare | Propose, out: Effects
    ) -> None:
        if self.has_left or packet.number <= self.number or self.following is not None:
            # Whoever tries again asks first. What it sent before is answered by what it asks then.
            if isinstance(packet, Canvass) and self.through.get(sender, NOWHERE) < packet.number:
                self._tell(sender, packet.number - 1, out)
        elif packet.number > self.number + 1:
            self.ahead += (Receive(sender, packet),)
        elif sender in self.members and self.current.gate.admitted:
            match packet:
                case Canvass(number, asked):
                    self._yield_to(sender)
                    held = self.current.log.vector(self.current.log.held)
                    ready = Ready(number, asked, self.acceptor.promised.round, held)
                    out.append(Send((sender,), ready))
                case Prepare():
                    if self._promise_ballot(packet, out):
                        out.append(Send((sender,), self._promise()))
                case Propose():
                    self._take_offer(sender, packet, out)

    def _yield_to(self, sender: str) -> None:
        """All that are wedged try again; of those that ask at the same time, one should go on."""
        if self.is_wedged and self.members.index(sender) < self.members.index(self.me):
            self.proposer.canvassing = False
            self.patience = PATIENCE

    def _promise_ballot(self, prepare: Prepare, out: Effects) -> bool:
        ballot = prepare.ballot
        if not self.acceptor.may_promise(ballot):
            return False
        if ballot != self.acceptor.promised:
            self._stop_timers(out)
            self.acceptor.promised = ballot
            self.patience = PATIENCE
            if ballot.proposer != self.me:
                self.proposer.give_up()
            out.append(Persist((Promised(prepare.number, ballot),)))
        return True

    def _promise(self) -> Promise:
        held = self.current.log.vector(self.current.log.held)
        votes = () if self.acceptor.vote is None else (self.acceptor.vote,)
        return Promise(self.number + 1, self.acceptor.promised, held, votes)

    def _take_offer(self, sender: str, proposal: Propose, out: Effects) -> None:
        ballot, view = proposal.vote.ballot, proposal.vote.view
        if not self.acceptor.may_accept(ballot):
            return
        if ballot.round > self.acceptor.promised.round:
            self._promise_ballot(Prepare(view.number, ballot), out)
        if sender != self.me:
            self.proposer.give_up()  # a ballot of the same round finds no majority
        self.offer = proposal
        if sender != self.me:
            self.gathering.want(dict(view.cut), {sender: dict(view.cut)})
        self._accept(out)
        self._gather(out)

    def _accept(self, out: Effects) -> None:
        """Only with everything up to the cut: so a decision leaves somebody that holds it."""
        if self.offer is None or not self._may_vote(self.offer.vote):
            return
        self.patience = PATIENCE
        vote, self.offer = self.offer.vote, None
        self.acceptor.vote = vote
        out.append(Persist((Voted(vote),)))
        if vote.ballot.proposer == self.me:
            self.proposer.accepted.add(self.me)
            self._see_whether_decided(out)
        else:
            out.append(Send((vote.ballot.proposer,), Accepted(vote.view.number, vote.ballot)))

    def _may_vote(self, vote: Vote) -> bool:
        return self.acceptor.may_accept(vote.ballot) and not self._lacks(dict(vote.view.cut))

    # --- what is missing

    def _gather(self, out: Effects, *, again: bool = False) -> None:
        """Ask for what is missing; somebody else only if the first does not answer."""
        if self.gathering.asked and not again:
            return
        held = self.current.log.held
        for holder, origins in self.gathering.helpers(self._lacks(self.gathering.wanted)).items():
            if holder != self.me:
                wanted = self.gathering.wanted
                spans = tuple(Span(one, held[one] + 1, wanted[one]) for one in origins)
                out.append(Send((holder,), InView(self.number, Pull(spans))))

    # --- what is decided

    def _tell(self, peer: str, number: int, out: Effects) -> None:
        views = tuple(view for view in self.chain if view.number > number)
        if views:
            out.append(Send((peer,), Decided(views, self.through[self.me])))

    def _hear_decided(
        self, sender: str, views: tuple[View, ...], through: int, out: Effects
    ) -> None:
        self.through[sender] = max(self.through.get(sender, NOWHERE), through)
        before = self.chain
        self._learn(views)
        latest = self.chain[-1].number if self.chain else NOWHERE
        is_for_me = bool(self.chain) or (bool(views) and self.me in views[-1].members)
        if views and views[-1].number > latest and is_for_me:
            out.append(Send((sender,), Behind(latest)))
        if self.following is not None and through > self.number and not self.has_left:
            cut = dict(self.following.cut)
            self.gathering.want(cut, {sender: cut})
            self._gather(out)
        if self.chain != before:
            self._advance(out)
        self._release(out)

    def _learn(self, views: Sequence[View]) -> None:
        """They follow each other, and what is known already."""
        if not self.chain and not any(view.added == self.me for view in views):
            return  # a newcomer waits for its turn
        for view in views:
            if view.number == len(self.chain):
                self.chain += (view,)

    def _advance(self, out: Effects) -> None:
        """Deliver exactly the cut, then install the next view, and the next."""
        if self.number == NOWHERE:
            self._enter(out)
        while (view := self.following) is not None and not self.has_left:
            self._stop_timers(out)
            cut = dict(view.cut)
            is_removed = self.me not in self.chain[-1].members
            if cut.get(self.me, 0) > self.current.log.held[self.me]:
                out.append(Halt(REASONS["lost disk"].format(self.me)))
                return
            if self._lacks(cut):
                holders = {one: cut for one, last in self.through.items() if last > self.number}
                self.gathering.want(cut, holders)
                self._gather(out)
                if is_removed:
                    self._leave(out, complete=False)
                return
            self._deliver_cut(cut, out)
            if self.me in view.members:
                self._install(view, out)
            else:
                self._leave(out, complete=True)

    def _stop_timers(self, out: Effects) -> None:
        """Those of frontier: a member that is wedged says nothing more in its view."""
        timers = self.current.timers.running
        out += [CancelTimer(name) for name in sorted(timers)]
        timers.clear()

    def _deliver_cut(self, cut: dict[str, int], out: Effects) -> None:
        log = self.current.log
        delivered = log.deliver(cut)
        assert log.delivered == cut, f"{self.me} delivered {log.delivered}, and the cut is {cut}"
        if delivered:
            cursor = Delivered(log.vector(log.delivered))
            out += [Persist((Written(self.number, cursor),)), Deliver(tuple(delivered))]

    def _enter(self, out: Effects) -> None:
        """A newcomer begins at the cut of the first view that it is in."""
        view = next((view for view in self.chain if view.added == self.me), None)
        if view is not None:
            out.append(Persist((Preceded(self.chain[: view.number]),)))
            self._begin(view, self._starting_point(view), out)
            self._announce(view, view.members, out)
            self._catch_up(out)

    def _starting_point(self, view: View) -> dict[str, int]:
        return {origin: count for origin, count in view.cut if origin in view.members}

    def _install(self, view: View, out: Effects) -> None:
        old, mine = self.current, dict(view.cut)[self.me]
        self.formers[self.number] = old
        everybody = ordered((*old.members, *view.members))
        rest = old.log.texts[self.me][mine + 1 - old.log.first_in_memory(self.me) :]
        self._begin(view, self._starting_point(view), out)
        self._announce(view, everybody, out)
        if rest:
            # The same messages, under the same names. What caused them was delivered in the old
            # view, so it is in the cut, which everybody has delivered before any of this.
            carried = self.current.step(Broadcast(tuple(rest)))
            out.append(Rebind((Span(self.me, mine + 1, mine + len(rest)),)))
            out += in_view(
                view.number, [one for one in carried if not isinstance(one, Accept | Held)]
            )
        self._release(out)
        self._catch_up(out)
        self._wish_again(out)

    def _begin(self, view: View, cut: Mapping[str, int], out: Effects) -> None:
        old = self.current
        self.number = self.through[self.me] = view.number
        self.current = self._frontier(view.members)
        start = Start(self.incarnation, founding=True, lossy=self.lossy)
        written = [*self.current.step(start), Persist(begin(self.current, cut, old.peers))]
        out.append(Persist((Installed(view),)))
        out += in_view(view.number, written)
        before = {origin: last for one in self.chain[: view.number + 1] for origin, last in one.cut}
        out.append(Install(view.members, view.number, before))
        self._begin_next()

    def _announce(self, view: View, everybody: Members, out: Effects) -> None:
        """A newcomer hears of all views before, too: which names were used, and who was there."""
        to = tuple(one for one in everybody if one not in (self.me, view.added))
        if to:
            out.append(Send(to, Decided((view,), view.number)))
        if view.added not in ("", self.me):
            out.append(Send((view.added,), Decided(self.chain, view.number)))

    def _catch_up(self, out: Effects) -> None:
        """What came too early for the view before."""
        early, self.ahead = self.ahead, ()
        for one in early:
            self._receive(one.sender, one.packet, out)

    def _wish_again(self, out: Effects) -> None:
        """Somebody else's wish may have come first; then it is this one's turn."""
        if self.wish is None or self.following is not None or self.proposer.canvassing:
            return
        add, remove = self.wish.add, self.wish.remove
        if (not add or add in self.members) and remove not in self.members:
            self.wish, self.is_approved = None, False
        elif reason := self._why_never(self.wish):
            self._deny(reason, out)
        elif not self.is_wedged:
            self._canvass(out)

    # --- leaving, and what is kept for others

    @property
    def _removed_in(self) -> int:
        return 1 + max(view.number for view in self.chain if self.me in view.members)

    def _farewell(self) -> str:
        number = self._removed_in
        return f"{self.me} was removed in view {number}; it may join anew under another name"

    def _leave(self, out: Effects, *, complete: bool) -> None:
        """No member any more. What others may need is there until they have got it."""
        self.has_left = True
        self._deny(self._farewell(), out)
        later = tuple(view for view in self.chain if view.number > self.number)
        out += [Persist((Removed(later, complete),)), Leave(self._farewell(), self._removed_in)]
        if complete:
            self.formers[self.number] = self.current
            self.number = self.through[self.me] = later[0].number
            rest = [one for one in later[-1].members if one in self.members]
            behind = tuple(one for one in rest if self.through.get(one, NOWHERE) < self.number)
            self._announce(later[0], behind, out)
        self._release(out)

    def _release(self, out: Effects) -> None:
        """Drop what all have got that are still members and were so then."""
        for number, former in list(self.formers.items()):
            if self._is_over(number, former.members):
                del self.formers[number]
                out.append(Persist((Dropped(number),)))
        if self.has_left and not self.formers:
            out.append(Halt(self._farewell()))

    def _is_over(self, number: int, members: Members) -> bool:
        return all(
            self.through.get(one, NOWHERE) > number
            for one in self.chain[-1].members
            if one in members
        )

    # --- starting and coming back

    def _start(self, start: Start, out: Effects) -> None:
        self.incarnation, self.lossy = start.incarnation, start.lossy
        recovered = Recovered.of(start.recovered or ())
        if start.joining:
            out.append(Persist((Newcomer(),)))
        elif recovered.installed:
            self._come_back(start, recovered, out)
        elif not recovered.is_newcomer:
            view = View(0, self.members)
            self.chain = (view,)
            self.number = self.through[self.me] = 0
            out.append(Persist((Installed(view),)))
            recovered_nothing = None if start.recovered is None else ()
            first = Start(start.incarnation, recovered_nothing, start.founding, lossy=self.lossy)
            self._step_current(first, out)

    def _come_back(self, start: Start, recovered: Recovered, out: Effects) -> None:
        self.chain = (*recovered.before, *recovered.installed)
        self.number = self.through[self.me] = self.chain[-1].number
        is_wedged = bool(recovered.promised or recovered.voted or recovered.removed)
        for number, log in recovered.logs.items():
            frontier = self._frontier(recovered.members_of(number))
            if number == self.number:
                self.current = frontier
            else:
                self.formers[number] = frontier
            if number == self.number and not is_wedged:
                again = Start(start.incarnation, tuple(log), lossy=self.lossy)
                self._step_current(again, out)
            else:
                frontier.step(Start(start.incarnation, founding=True, lossy=self.lossy))
                reread(frontier, log)
        self._begin_next()
        if recovered.promised is not None:
            self.acceptor.promised = recovered.promised.ballot
        if recovered.voted is not None:
            self.acceptor.vote = recovered.voted.vote
            if recovered.voted.vote.ballot.round > self.acceptor.promised.round:
                self.acceptor.promised = recovered.voted.vote.ballot
        if recovered.removed is not None:
            self._stay_away(recovered.removed, is_kept=self.number in recovered.logs)
        self._release(out)

    def _stay_away(self, removed: Removed, is_kept: bool) -> None:
        self.chain += removed.views
        self.has_left = True
        if removed.complete:
            if is_kept:
                self.formers[self.number] = self.current
            self.number = self.through[self.me] = removed.views[0].number

    def compacted(self, records: Sequence[Any]) -> tuple[Record, ...]:
        return Recovered.of(records).records()

    # --- for holders

    def awaited(self) -> Members:
        return () if self.is_wedged else self.current.awaited()

    def why(self, message: MessageId) -> str:
        delivered = self.current.log.delivered.get(message.origin, message.seq)
        if self.is_member and self.is_wedged and delivered < message.seq:
            return f"{message} waits at {self.me} for view {self.number + 1} to be installed"
        return self.current.why(message)

    def state(self) -> dict[str, Any]:
        state = super().state()
        state["current"] = self.current.state()
        state["formers"] = {number: one.state() for number, one in self.formers.items()}
        return state

    def fork(self, choose: Choose) -> Self:
        twin = super().fork(choose)
        twin.current = self.current.fork(take_first)
        twin.formers = {number: one.fork(take_first) for number, one in self.formers.items()}
        return twin

    def _attributes(self) -> dict[str, Any]:
        own = super()._attributes()
        return {name: value for name, value in own.items() if name not in ("current", "formers")}

    def check(self, group: Mapping[str, Process]) -> None:
        invariants.check(self, {name: one for name, one in group.items() if isinstance(one, Views)})
