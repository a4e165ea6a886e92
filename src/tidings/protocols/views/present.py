"""The view that is installed here: the Frontier that lives in it, until the member is wedged.

A member is wedged from the moment at which it promises anything: it never again acknowledges,
broadcasts or delivers in this view, but for the cut. What comes is stored and counts for nothing,
and what others ask for is sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidings.core import (
    Accept,
    CancelTimer,
    Choose,
    Deliver,
    Event,
    LinkDown,
    LinkUp,
    Packet,
    Part,
    Persist,
    Processed,
    Rebind,
    Recalled,
    Span,
    Start,
    take_first,
)
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Batch, Refusal, State
from tidings.protocols.frontier.records import Delivered
from tidings.protocols.frontier.turn import Turn
from tidings.protocols.views import serving
from tidings.protocols.views.beginning import begin, beyond, wedged
from tidings.protocols.views.consensus import Acceptor
from tidings.protocols.views.records import InNumber, Written
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.wrapping import Effects, in_view


class Present(Part):
    standing: Standing
    acceptor: Acceptor
    frontier: Frontier
    """What this member holds and knows in its view."""
    is_closed: bool = False
    """Whether nothing is left of that but what it holds."""
    met: dict[str, int] = {}
    """Under which incarnation each process was last linked, also one that is in no view yet."""
    linked: set[str] = set()
    """Whose links have come up and not gone down since."""
    owing: set[str] = set()
    """Those of them that were sent no STATE in this view: it was not installed here yet."""

    @property
    def number(self) -> int:
        return self.standing.number

    @property
    def log(self) -> Log:
        return self.frontier.log

    @property
    def is_wedged(self) -> bool:
        """It takes no part in its view any more, but to get to the next one."""
        standing = self.standing
        return self.acceptor.is_bound or standing.following is not None or standing.has_left

    @property
    def is_open(self) -> bool:
        return self.standing.is_member and not self.is_wedged

    @property
    def is_admitted(self) -> bool:
        """Whether nobody remembers more of this process than it knows itself."""
        return self.frontier.gate.admitted

    @property
    def is_processed(self) -> bool:
        """Whether the application is done with everything that was delivered in this view."""
        return self.log.done() == self.log.delivered

    def state(self) -> dict[str, Any]:
        return super().state() | {"frontier": self.frontier.state()}

    def held(self) -> tuple[int, ...]:
        return self.log.vector(self.log.held)

    def lacks(self, cut: Mapping[str, int]) -> list[str]:
        held = self.log.held
        return [origin for origin, count in cut.items() if held[origin] < count]

    # --- while it is open

    def step(self, event: Event, choose: Choose, out: Effects) -> None:
        self.steps((event,), choose, out)

    def steps(self, events: Iterable[Event], choose: Choose, out: Effects) -> None:
        self.frontier.choose = choose
        out += in_view(self.number, self.frontier.steps(events))
        self.frontier.choose = take_first

    def link_up(self, event: LinkUp, choose: Choose, out: Effects) -> None:
        self.met[event.peer] = event.incarnation
        self.linked.add(event.peer)
        self.owing.discard(event.peer)
        if self.is_open and event.peer in self.members:
            self.step(event, choose, out)
        elif self.standing.is_member and event.peer in self.members:
            self._recognise(event, out)
        else:
            self.frontier.peers.down.discard(event.peer)

    def _recognise(self, event: LinkUp, out: Effects) -> None:
        """A peer that lost its disk has forgotten what it promised: nobody tells it of a view."""
        turn, peers = Turn(), self.frontier.peers
        peers.down.discard(event.peer)
        is_same = peers.recognise(event.peer, event.incarnation, turn)
        refused = peers.refused.get(event.peer)
        if refused is not None and is_same and refused[1] == "lost disk":
            del peers.refused[event.peer]  # that was somebody else under its name
        elif refused is not None:
            peers.refuse(event.peer, turn)
        out += in_view(self.number, turn.effects())

    def link_down(self, event: LinkDown) -> None:
        self.linked.discard(event.peer)
        self.owing.discard(event.peer)
        self.frontier.peers.down.add(event.peer)

    def exchange_with(self, peer: str, choose: Choose, out: Effects) -> None:
        """Tell it what is held, as if the link had been down; it does the same."""
        incarnation = self.frontier.peers.pinned.get(peer, self.met.get(peer, 0))
        self.step(LinkUp(peer, incarnation), choose, out)
        self.owing.discard(peer)

    def owes(self, sender: str, packet: Packet) -> bool:
        """Whether the sender waits for a STATE that it would have got, had its link come up now."""
        return sender in self.owing and isinstance(packet, State) and packet.greets

    def process(self, upto: Mapping[str, int], choose: Choose, out: Effects) -> None:
        """The application is done with these, of whatever origins there are in this view."""
        if self.is_open:
            ours = {origin: last for origin, last in upto.items() if origin in self.members}
            self.step(Processed(ours), choose, out)
        else:
            serving.process(self.log, self.number, upto, out)

    def push_recalled(self, recalled: Recalled, choose: Choose, out: Effects) -> None:
        if self.is_open:
            records = tuple(InNumber(recalled.records, self.number))
            ours = Recalled(recalled.peer, recalled.first, recalled.last, records)
            self.step(ours, choose, out)
        else:
            serving.answer_recalled(self.log, self.number, recalled, out)

    # --- once it is wedged

    def close(self, fresh: Frontier, out: Effects) -> None:
        """Say nothing more in this view."""
        out += [CancelTimer(name) for name in sorted(self.frontier.timers.running)]
        self.frontier, self.is_closed = wedged(self.frontier, fresh), True

    def leave(self, fresh: Frontier) -> None:
        """What was here is kept elsewhere, for others."""
        self.frontier, self.is_closed = fresh, True

    def hold(self, batches: Sequence[Batch], out: Effects) -> Iterable[str]:
        """Store them; the origins of which more is held than before."""
        turn = Turn()
        for batch in batches:
            if batch.id.origin != self.me:
                self.log.hold(batch, turn)
        out += in_view(self.number, turn.effects())
        return turn.grown

    def take_refusal(self, sender: str, refusal: Refusal, out: Effects) -> None:
        turn = Turn()
        self.frontier.peers.take_refusal(sender, refusal, turn)
        out += turn.effects()

    def deliver_cut(self, cut: dict[str, int], out: Effects) -> None:
        log = self.log
        delivered = log.deliver(cut)
        assert log.delivered == cut, f"{self.me} delivered {log.delivered}, and the cut is {cut}"
        if delivered:
            cursor = Written(self.number, Delivered(log.vector(log.delivered)))
            out += [Persist((cursor,)), Deliver(tuple(delivered))]

    # --- the next view

    def begin(self, frontier: Frontier, cut: Mapping[str, int], start: Start, out: Effects) -> None:
        """In a view that has just been installed: nothing of the old one counts there."""
        out += in_view(self.number, frontier.steps((start,)))
        records = begin(frontier, cut, self.frontier.peers, self.met)
        out += in_view(self.number, [Persist(records)])
        self.frontier, self.members, self.is_closed = frontier, frontier.members, False
        self.owing = self.linked.intersection(frontier.others)

    def carry_over(self, old: Log, cut: int, out: Effects) -> None:
        """Broadcast again what is beyond the cut: the same messages, under the same names.

        What caused them was delivered in the old view, so it is in the cut, which everybody has
        delivered before any of this.
        """
        first = cut + 1
        for texts in beyond(old, cut):
            span = Span(self.me, first, first + len(texts) - 1)
            effects = self.frontier.broadcast_again(texts)
            assert Accept((span,)) in effects, f"{self.me} cannot carry over {span}: {effects}"
            out.append(Rebind((span,)))
            rest = [one for one in effects if not isinstance(one, Accept)]
            out += in_view(self.number, rest)
            first = span.last + 1
