"""Exchanging STATE: all that a process holds and knows, with digests.

Two members exchange it when the link between them comes up, after a cut or a restart. On links
that lose packets it is repeated, less and less often, to members that are not known to hold
exactly the same; such a STATE is answered with what its sender lacks.
"""

from tidings.core import Part
from tidings.protocols.frontier.acknowledgements import Acknowledgements
from tidings.protocols.frontier.comparison import HistoryComparison
from tidings.protocols.frontier.fetching import Fetching
from tidings.protocols.frontier.gate import Gate
from tidings.protocols.frontier.histories import HistoryMark
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.packets import Commit, Holding, Known, State
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.timers import Timers
from tidings.protocols.frontier.turn import Turn

REPEAT_MS = 200.0
MOST_DOUBLINGS = 5
"""On lossy links STATE is repeated after 200, 400, ... and at last every 6,400 ms."""


class Exchange(Part):
    log: Log
    knowledge: Knowledge
    acknowledgements: Acknowledgements
    peers: Peers
    timers: Timers
    comparison: HistoryComparison
    gate: Gate
    fetching: Fetching
    mode: Mode
    lossy: bool = False
    """Whether links may lose a packet in silence."""
    doublings: int = 0

    def link_up(self, peer: str, incarnation: int, turn: Turn) -> None:
        """Refuse a peer that comes back as somebody else; exchange everything with any other."""
        self.peers.down.discard(peer)
        self.comparison.link_up(peer)
        is_same = self.peers.recognise(peer, incarnation, turn)
        if not is_same or peer in self.comparison.twins:
            self.peers.refuse(peer, turn)
            return
        # Somebody else under its name was refused, not this one.
        self.peers.refused.pop(peer, None)
        self.fetching.may_ask_again(peer)
        # It does the same, so neither needs an answer.
        turn.send((peer,), self._state_for(peer, asks=False))
        self.mode.link_up(peer)

    def _state_for(self, peer: str, asks: bool) -> State:
        vector, histories = self.log.vector, self.comparison.histories
        return State(
            vector(self.log.held),
            vector(self.knowledge.safe),
            vector(self.knowledge.stable),
            vector(self.knowledge.holding(peer)),
            asks,
            greets=peer in self.gate.unheard,
            digests=tuple(histories.head(origin).digest for origin in self.members),
        )

    def take_state(self, sender: str, state: State, turn: Turn) -> None:
        theirs = zip(self.members, state.held, state.safe, state.stable, state.yours, strict=True)
        for origin, held, safe, stable, mine in theirs:
            turn.lost_disk |= mine > self.log.held[origin]
            self.knowledge.know(sender, origin, held, turn)
            self.knowledge.commit(sender, origin, safe, stable, turn)
        for origin, count, digest in zip(self.members, state.held, state.digests, strict=False):
            self.comparison.compare(sender, origin, HistoryMark(count, digest))
        self.gate.hear_from(sender, turn)
        if state.asks:
            # On lossy links: what we asked it for, or its answer, may be lost.
            self.fetching.may_ask_again(sender)
            self.knowledge.count(turn)
            self._complete(sender, state, turn)

    def _complete(self, sender: str, state: State, turn: Turn) -> None:
        """Send what the sender of a STATE does not know."""
        if state.greets:
            turn.send((sender,), self._state_for(sender, asks=False))
            return
        theirs = zip(self.members, state.safe, state.stable, state.yours, strict=True)
        held, known = [], []
        for origin, theirs_safe, theirs_stable, mine in theirs:
            safe, stable = self.knowledge.safe[origin], self.knowledge.stable[origin]
            if self.log.held[origin] > mine:
                held.append(origin)
            if safe > theirs_safe or stable > theirs_stable:
                known.append(Known(origin, safe, stable))
        if held:
            turn.send((sender,), Holding(*self.acknowledgements.of_origins(held)))
        if known:
            turn.send((sender,), Commit(tuple(known)))

    # --- on lossy links

    def watch(self, turn: Turn) -> None:
        """Repeat while somebody is not known to hold exactly the same."""
        behind = bool(self._behind())
        if turn.touched and self.doublings:
            self.doublings = 0
            self.timers.keep("repeat", False, REPEAT_MS, turn)
        self.timers.keep("repeat", behind, REPEAT_MS * 2**self.doublings, turn)
        if not behind:
            self.doublings = 0

    def _behind(self) -> list[str]:
        """Linked members not known to hold the same, no less and no more, or not heard yet."""
        unavailable = self.peers.unavailable()
        return [
            peer
            for peer in self.others
            if peer not in unavailable
            and (peer in self.gate.unheard or self.knowledge.holding(peer) != self.log.held)
        ]

    def repeat(self, turn: Turn) -> None:
        for peer in self._behind():
            turn.send((peer,), self._state_for(peer, asks=True))
        self.doublings = min(self.doublings + 1, MOST_DOUBLINGS)
