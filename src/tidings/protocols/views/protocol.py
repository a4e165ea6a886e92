"""The events of a member of a changing group, and what follows from each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from tidings.core import (
    Broadcast,
    Change,
    Checkpoint,
    Choose,
    Event,
    Found,
    Halt,
    LinkDown,
    LinkUp,
    Members,
    MessageId,
    Packet,
    Part,
    Persist,
    Process,
    Processed,
    Recalled,
    Receive,
    Refuse,
    Send,
    Start,
    Ticks,
    Timeout,
    UsageError,
    ordered,
    replacement,
    take_first,
)
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.packets import Batch, Data, Pull, Push, Refusal
from tidings.protocols.frontier.protocol import MIB
from tidings.protocols.views import explaining, invariants, recovering, serving, succession
from tidings.protocols.views.ahead import Ahead
from tidings.protocols.views.asking import Asking
from tidings.protocols.views.consensus import Acceptor, Proposer
from tidings.protocols.views.formers import Formers
from tidings.protocols.views.gathering import Gathering
from tidings.protocols.views.packets import (
    Accepted,
    Behind,
    Canvass,
    Decided,
    InView,
    Missed,
    Prepare,
    Promise,
    Propose,
    Ready,
    View,
)
from tidings.protocols.views.patience import CHANGE, Patience
from tidings.protocols.views.present import Present
from tidings.protocols.views.processing import Processing
from tidings.protocols.views.proposing import Proposing
from tidings.protocols.views.records import (
    Installed,
    Newcomer,
    Record,
    Recovered,
)
from tidings.protocols.views.standing import NOWHERE, Standing
from tidings.protocols.views.voting import Voting
from tidings.protocols.views.wrapping import Effects, in_order


class Views(Process):
    changes = True
    recovers = True

    frontier_kind: ClassVar[type[Frontier]] = Frontier
    standing_kind: ClassVar[type[Standing]] = Standing
    present_kind: ClassVar[type[Present]] = Present
    formers_kind: ClassVar[type[Formers]] = Formers
    proposer_kind: ClassVar[type[Proposer]] = Proposer
    asking_kind: ClassVar[type[Asking]] = Asking
    voting_kind: ClassVar[type[Voting]] = Voting
    ahead_kind: ClassVar[type[Ahead]] = Ahead

    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        near: int = 10_000,
        ahead: int = 10_000,
        ahead_bytes: int = 64 * MIB,
        tell: int = 10_000,
        tell_bytes: int = 256 * 1024,
        ticks: bool = False,
        mode: Literal["auto", "all", "origin"] = "auto",
        batch_ms: int = -1,
        stable_ms: int = 0,
        window: int = 10_000,
        log_limit: int = 10_000_000,
        memory: int = 0,
        memory_bytes: int = 0,
        early: int = 10_000,
        early_bytes: int = 64 * MIB,
        push: int = 10_000,
        push_bytes: int = 256 * 1024,
        strict: bool = False,
        until_processed: bool = False,
    ) -> None:
        if min(near, ahead, ahead_bytes) < 0 or tell < 1 or not 1 <= tell_bytes <= MIB // 4:
            raise UsageError(
                "near, ahead and ahead_bytes are 0 or more, tell 1 or more, "
                f"tell_bytes 1 to {MIB // 4:,}"
            )
        super().__init__(me, members, choose)
        self.tell, self.tell_bytes = tell, tell_bytes
        self.options: dict[str, Any] = {
            "mode": mode,
            "batch_ms": batch_ms,
            "stable_ms": stable_ms,
            "window": window,
            "log_limit": log_limit,
            "memory": memory,
            "memory_bytes": memory_bytes,
            "early": early,
            "early_bytes": early_bytes,
            "push": push,
            "push_bytes": push_bytes,
            "strict": strict,
            "until_processed": until_processed,
        }
        self.incarnation = 0
        self.lossy = False
        self.ticks = Ticks(me, members, ticks)
        standing = self.standing = self.standing_kind(me, members)
        acceptor = self.acceptor = Acceptor(me, members)
        proposer = self.proposer = self.proposer_kind(me, members)
        patience = self.patience = Patience(me, members, acceptor)
        frontier = self.frontier_of(members)
        present = self.present = self.present_kind(me, members, standing, acceptor, frontier)
        formers = self.formers = self.formers_kind(me, members, standing)
        processing = self.processing = Processing(me, members, standing, present, formers)
        gathering = self.gathering = Gathering(me, members, present)
        self.ahead = self.ahead_kind(me, members, ahead, ahead_bytes)
        about = (standing, present, acceptor, proposer)
        asking = self.asking = self.asking_kind(me, members, *about, processing, patience, near)
        voting = self.voting = self.voting_kind(
            me, members, *about, gathering, patience, processing
        )
        self.proposing = Proposing(
            me, members, standing, present, proposer, gathering, patience, asking, voting
        )

    def frontier_of(self, members: Members) -> Frontier:
        members = members if self.me in members else ordered((*members, self.me))
        return self.frontier_kind(self.me, members, take_first, **self.options)

    # --- events

    def step(self, event: Event) -> Effects:
        timer, events = self.ticks.gather(event)
        return [*timer, *self.steps(events)] if events else timer

    def steps(self, events: Iterable[Event]) -> Effects:
        """From events of the view that is installed, frontier concludes once for many."""
        out: Effects = []
        coming = iter(events)
        for event in coming:
            alone: Event | None = event
            if self.present.is_open and (inner := self._in_the_view(event)) is not None:
                run = _Run(inner, coming, self._in_the_view)
                self.present.steps(run, self.choose, out)
                if self.processing.snapshot:
                    self.processing.catch_up(self.choose, out)
                alone = run.next
            if alone is not None:
                out += self._step_alone(alone)
        return out

    def _in_the_view(self, event: Event) -> Event | None:
        """The event in the words of frontier, if that alone has to know of it."""
        if type(event) is Receive:
            packet = event.packet
            if type(packet) is not InView or packet.number != self.standing.number:
                return None
            is_ours = event.sender in self.members and type(packet.packet) is not Refusal
            is_ours &= not self.present.owes(event.sender, packet.packet)
            return Receive(event.sender, packet.packet) if is_ours else None
        match event:
            case Timeout(name):
                return event if name != CHANGE else None
            case Broadcast():
                return None if self.formers.logs else event
            case Processed(upto):
                is_here = not self.formers.logs and not self.processing.snapshot
                is_here &= self.processing.has_state and all(one in self.members for one in upto)
                return event if is_here else None
        return None

    def _step_alone(self, event: Event) -> Effects:
        out: Effects = []
        match event:
            case Receive(sender, packet):
                self.receive(sender, packet, out)
            case Broadcast(texts):
                self._broadcast(event, len(texts), out)
            case Timeout(name):
                self._time_out(name, out)
            case Change():
                self.asking.ask(event, out)
            case Processed(upto):
                self.processing.process(upto, self.choose, out)
            case Recalled():
                self._push_recalled(event, out)
            case LinkUp(peer):
                self.present.link_up(event, self.choose, out)
                if self.number != NOWHERE and self.standing.latest > 0:
                    succession.tell(self, peer, self.standing.latest - 1, out)
            case LinkDown(peer):
                self.present.link_down(event)
                self.proposer.lose(peer)
            case Start():
                self._start(event, out)
        self._conclude(out)
        return in_order(out)

    def _broadcast(self, event: Broadcast, count: int, out: Effects) -> None:
        if reason := self.why_not(count):
            out.append(Refuse(reason))
        else:
            self.present.step(event, self.choose, out)

    def _time_out(self, name: str, out: Effects) -> None:
        if name != CHANGE or not self.patience.is_over() or self.has_left:
            return
        self.gathering.ask(out, again=True)
        if self.standing.following is not None:
            # All that is left to do is to get what is in its cut.
            if self.gathering.missing() and not self.gathering.holders:
                out.append(Send(self.others, Behind(self.number)))  # the answers say who has it
            return
        if self.is_wedged or self.asking.is_waiting:
            self.asking.canvass(out)
        elif self.proposer.canvassing:
            self.asking.give_up(out)

    def _push_recalled(self, recalled: Recalled, out: Effects) -> None:
        if serving.is_recalled_from(self.present.log, recalled):
            self.present.push_recalled(recalled, self.choose, out)
        else:
            self.formers.push_recalled(recalled, out)

    # --- packets

    def receive(self, sender: str, packet: Packet, out: Effects) -> None:
        match packet:
            case InView(_, Refusal() as refusal):
                self.present.take_refusal(sender, refusal, out)
            case InView(number, inner):
                self._receive_in_view(sender, packet, number, inner, out)
            case Canvass(number, asked, added) if self.number == NOWHERE:
                if added == self.me:
                    out.append(Send((sender,), Ready(number, asked)))
            case Canvass() | Prepare() | Propose():
                self._receive_as_acceptor(sender, packet, out)
            case Ready():
                self.asking.hear(sender, packet)
            case Promise():
                self.proposing.hear_promise(sender, packet)
            case Accepted():
                self.proposing.hear_accepted(sender, packet)
            case Decided():
                succession.hear(self, sender, packet, out)
            case Behind(number):
                succession.tell(self, sender, number, out)
            case Missed(number):
                if number == self.number and sender in self.others and self.present.is_open:
                    self.present.exchange_with(sender, self.choose, out)

    def _receive_in_view(
        self, sender: str, packet: InView, number: int, inner: Packet, out: Effects
    ) -> None:
        if self.lossy:
            self._mend(sender, number, out)
        if number in self.formers.logs:
            if isinstance(inner, Pull):
                self.formers.answer(number, sender, inner, out)
        elif self.has_left:
            return
        elif number > self.number:
            self.ahead.add(sender, packet)
        elif number == self.number and sender in self.members:
            if self.present.is_open:
                self.present.step(Receive(sender, inner), self.choose, out)
                if self.present.owes(sender, inner):
                    self.present.exchange_with(sender, self.choose, out)
            else:
                self._receive_wedged(sender, inner, out)

    def _mend(self, sender: str, number: int, out: Effects) -> None:
        """One of the two has not heard of a view: what was said of it may be lost."""
        if number > self.standing.latest and not self.has_left:
            out.append(Send((sender,), Behind(self.standing.latest)))
        elif number < self.number:
            succession.tell(self, sender, number, out)

    def _receive_wedged(self, sender: str, packet: Packet, out: Effects) -> None:
        """What comes is stored, and counts for nothing."""
        match packet:
            case Pull():
                serving.answer(self.present.log, self.number, sender, packet, out)
            case Data(batch) if packet.may_come_from(sender):
                self._store([batch], out)
            case Push(batches):
                if self._store(batches, out):
                    self.gathering.go_on(sender, out)

    def _store(self, batches: Sequence[Batch], out: Effects) -> bool:
        """Whether more is held than before.

        Only what was missing in a cut brings the next view nearer: half of the members may go on
        in the old one, and whoever waited until they are silent would wait for ever.
        """
        missing = self.gathering.missing()
        grown = self.present.hold(batches, out)
        if any(origin in missing for origin in grown):
            self.patience.renew()
        return bool(grown)

    def _receive_as_acceptor(
        self, sender: str, packet: Canvass | Prepare | Propose, out: Effects
    ) -> None:
        standing = self.standing
        if self.has_left or packet.number <= self.number or standing.following is not None:
            # Whoever tries again asks first. What it sent before is answered by what it asks then.
            if isinstance(packet, Canvass) and standing.through_of(sender) < packet.number:
                succession.tell(self, sender, packet.number - 1, out)
        elif packet.number > self.number + 1:
            self.ahead.add(sender, packet)
        elif sender in self.members and self.present.is_admitted:
            self.voting.receive(sender, packet, out)

    # --- what follows

    def _conclude(self, out: Effects) -> None:
        """Go on towards the next view as far as what was heard and what is held allow."""
        is_moving = True
        while is_moving:
            if self.asking.is_done(out):
                self.proposing.prepare(out)
            self.proposing.go_on(out)
            self.voting.accept(out)
            if self.proposer.is_decided():
                assert self.proposer.proposed is not None
                self.standing.learn((self.proposer.proposed.vote.view,))
            is_moving = succession.advance(self, out)
        if self.is_wedged:
            self.close(out)
        self.gathering.end()
        if self.processing.snapshot:
            self.processing.catch_up(self.choose, out)
        self.formers.release(self.current.knowledge.stable if self.standing.is_member else {}, out)
        if self.has_left and not self.standing.has_stopped and self._is_needed_no_more():
            self.standing.has_stopped = True
            out.append(Halt(self.standing.farewell()))
        is_wedged = self.is_wedged and not self.has_left
        is_asking = self.proposer.canvassing or self.asking.is_waiting
        self.patience.keep(is_asking or is_wedged, out)

    def _is_needed_no_more(self) -> bool:
        """Of one that was removed: neither by others nor by its own application."""
        is_served = not self.formers.logs and self.standing.is_succeeded
        return is_served and self.present.is_processed

    def close(self, out: Effects) -> None:
        if not self.present.is_closed:
            self.present.close(self.frontier_of(self.members), out)

    def adopt(self, members: Members) -> None:
        """Nothing is promised, accepted or proposed for the number after this one."""
        self.members = members
        for part in vars(self).values():
            if isinstance(part, Part):
                part.members = members
        self.acceptor.begin(members)
        self.proposer.begin(members)
        self.gathering.begin(members)
        self.patience.begin()

    # --- starting and coming back

    def _start(self, start: Start, out: Effects) -> None:
        self.incarnation, self.lossy = start.incarnation, start.lossy
        self.current.peers.start(start.incarnation)
        recovered = Recovered.of(start.recovered or ())
        if start.joining:
            out.append(Persist((Newcomer(),)))
        elif recovered.installed:
            recovering.come_back(self, start, recovered, out)
        elif not recovered.is_newcomer:
            view = View(0, self.members)
            self.standing.chain = (view,)
            self.standing.install(0)
            out.append(Persist((Installed(view),)))
            recovered_nothing = None if start.recovered is None else ()
            first = Start(start.incarnation, recovered_nothing, start.founding, lossy=self.lossy)
            self.present.step(first, self.choose, out)

    def checkpoint(self) -> Checkpoint | None:
        return recovering.checkpoint(self)

    def messages_in(
        self, records: Iterable[Any], after: Mapping[str, int] = MappingProxyType({})
    ) -> Iterator[Found]:
        return recovering.messages_in(records, self.standing.chain, after)

    def compacted(self, records: Sequence[Any]) -> tuple[Record, ...]:
        return recovering.compacted(records)

    # --- what is so

    @property
    def number(self) -> int:
        """The view that is installed here; -1 in none yet."""
        return self.standing.number

    @property
    def chain(self) -> tuple[View, ...]:
        """All views that were decided, from the first on; the last may not be installed yet."""
        return self.standing.chain

    @property
    def current(self) -> Frontier:
        """What this member holds and knows in its view."""
        return self.present.frontier

    @property
    def is_wedged(self) -> bool:
        return self.present.is_wedged

    @property
    def has_left(self) -> bool:
        return self.standing.has_left

    def replacement_of(self, member: str) -> str:
        """Under which name somebody may replace this member."""
        return replacement(member, self.standing.names())

    def missing(self) -> Members:
        """Whom this member waits for on its way to the next view."""
        return explaining.missing(self)

    def awaited(self) -> Members:
        return self.current.awaited() if self.present.is_open else ()

    def why(self, message: MessageId) -> str:
        return explaining.why(self, message)

    def why_not(self, count: int = 1) -> str:
        """Why so many messages cannot be broadcast now; empty if they can."""
        return explaining.why_not(self, count)

    def kept_for(self) -> str:
        return self.formers.kept_for() if self.formers.logs else self.current.kept_for()

    def behind(self) -> Mapping[str, int]:
        return self.current.behind()

    def held_back(self) -> Mapping[str, int]:
        return self.current.held_back()

    def describe(self) -> dict[str, Any]:
        return super().describe() | explaining.described(self)

    def check(self, group: Mapping[str, Process]) -> None:
        invariants.check(self, {name: one for name, one in group.items() if isinstance(one, Views)})


class _Run:
    """Events that come one after the other and are of the view that is installed."""

    def __init__(
        self,
        first: Event,
        coming: Iterator[Event],
        in_the_view: Callable[[Event], Event | None],
    ) -> None:
        self._first = first
        self._coming = coming
        self._in_the_view = in_the_view
        self.next: Event | None = None
        """The first that is not."""

    def __iter__(self) -> Iterator[Event]:
        yield self._first
        in_the_view = self._in_the_view
        for event in self._coming:
            if (inner := in_the_view(event)) is None:
                self.next = event
                return
            yield inner
