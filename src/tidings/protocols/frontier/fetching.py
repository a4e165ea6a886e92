"""Fetching what is missing: it replaces all relaying.

A member that hears that another holds what it lacks waits a little, then asks for it (PULL). The
holder answers with the messages as their origin broadcast them (PUSH).
"""

from tidings.core import Choose, MessageId, Part, Recall, Recalled, Span
from tidings.protocols.frontier.acknowledgements import Acknowledgements
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Batch, Pull, Push
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.timers import Timers
from tidings.protocols.frontier.turn import Turn

PULL_MS = 100.0
"""How long what is missing may take to come by itself, and an answer to a PULL."""


class Fetching(Part):
    log: Log
    knowledge: Knowledge
    acknowledgements: Acknowledgements
    peers: Peers
    timers: Timers
    asked: dict[str, set[str]] = {}
    """Of what is missing: the members that were asked for it."""

    # --- asking

    def fetch(self, turn: Turn) -> None:
        """Give what is missing time to come by itself, while there is somebody left to ask."""
        for origin in turn.grown:
            # What is missing now is something else, which nobody was asked for before this turn.
            self.asked.pop(origin, None)
        self._go_on(turn)
        helpless = not any(map(self._helpers, self.knowledge.missing()))
        self.timers.keep("pull", not helpless, PULL_MS, turn)

    def _go_on(self, turn: Turn) -> None:
        """Whoever has answered, and holds more, is asked for what is missing after this turn.

        What was missing when its answer came may have come with the next packet: an answer to
        that would bring nothing, and nobody would be asked again.
        """
        wanted: dict[str, list[Span]] = {}
        for origin, holder in turn.answered.items():
            if self.knowledge.held_by(holder, origin) > self.log.held[origin]:
                self.asked[origin] = {holder}
                wanted.setdefault(holder, []).append(self.wanted(origin, holder))
        for holder, spans in wanted.items():
            turn.send((holder,), Pull(tuple(spans)))

    def pull(self, choose: Choose, turn: Turn) -> None:
        """Ask one holder for each thing that is missing.

        Nobody is asked twice for the same: a member that lives answers. Only where packets get
        lost, or after the link was down, the question is repeated.
        """
        wanted: dict[str, list[Span]] = {}
        for origin in self.knowledge.missing():
            helpers = self._helpers(origin)
            if helpers:
                draw = len(helpers) > 1
                holder = helpers[choose("holder", (1,) * len(helpers)) if draw else 0]
                self.asked.setdefault(origin, set()).add(holder)
                wanted.setdefault(holder, []).append(self.wanted(origin, holder))
        for holder, spans in wanted.items():
            turn.send((holder,), Pull(tuple(spans)))

    def _helpers(self, origin: str) -> list[str]:
        """Holders of more that were not asked yet; the origin, which has most to do, comes last."""
        unavailable = self.asked.get(origin, set()) | self.peers.unavailable()
        held = self.log.held[origin]
        holders = [
            peer
            for peer in self.others
            if self.knowledge.held_by(peer, origin) > held and peer not in unavailable
        ]
        return [peer for peer in holders if peer != origin] or holders

    def may_ask_again(self, peer: str) -> None:
        self.asked = {one: rest for one, asked in self.asked.items() if (rest := asked - {peer})}

    def wanted(self, origin: str, holder: str) -> Span:
        held, gap = self.log.held[origin], self.log.gap(origin)
        last = self.knowledge.held_by(holder, origin)
        return Span(origin, held + 1, min(last, gap) if gap > 0 else last)

    # --- answering

    def push(self, asker: str, wanted: tuple[Span, ...], turn: Turn) -> None:
        for answer in self.log.answers(wanted):
            if isinstance(answer, Span):
                first = MessageId(answer.origin, answer.first)
                turn.outgoing.append(Recall(asker, first, answer.last))
            else:
                self._send_push(asker, answer, turn)

    def push_recalled(self, recalled: Recalled, turn: Turn) -> None:
        span = Span(recalled.first.origin, recalled.first.seq, recalled.last)
        self._send_push(recalled.peer, self.log.recalled(span, recalled.records), turn)

    def _send_push(self, asker: str, batches: list[Batch], turn: Turn) -> None:
        if batches:
            marked = self.acknowledgements.marked(batches)
            turn.send((asker,), Push(tuple(batches), marked))

    # --- being answered

    def take_push(self, sender: str, push: Push, turn: Turn) -> None:
        """Hold what came; if the sender holds more, it is asked for that, too."""
        before, held = dict(self.log.held), self.log.held
        for batch in push.batches:
            origin = batch.id.origin
            if origin in push.restarted:
                self.acknowledgements.hear_of_restart(origin, batch.last, turn)
            if origin != self.me:
                self.log.hold(batch, turn)
            self.knowledge.know(sender, origin, batch.last, turn)
        turn.answered |= {one: sender for one in turn.grown if held[one] > before[one]}
