"""Who the other members are, whether they can be reached, and which of them are refused.

A member goes by its incarnation, which changes only with its disk. The first one that a peer shows
is pinned. A peer under another incarnation has lost its disk: it is refused, as is an origin that
used numbers twice.
"""

from tidings.core import Effect, Halt, MessageId, Part, Reject, Send
from tidings.protocols.frontier.packets import REASONS, Refusal, Twins, Why
from tidings.protocols.frontier.records import Pinned
from tidings.protocols.frontier.turn import Turn


class Peers(Part):
    incarnation: int = 0
    """Who this process is itself."""
    pinned: dict[str, int] = {}
    refused: dict[str, tuple[int, Why]] = {}
    """Members that cannot take part, as good as crashed: under which incarnation, and why."""
    down: set[str] = set()
    """Members whose links are down."""

    def start(self, incarnation: int) -> None:
        self.incarnation = incarnation
        if incarnation == 0:
            self.pinned = dict.fromkeys(self.others, 0)

    def unavailable(self) -> set[str]:
        return self.down | self.refused.keys()

    def recognise(self, peer: str, incarnation: int, turn: Turn) -> bool:
        """Whether the peer is who it was when it was first met."""
        if peer not in self.pinned:
            self.pinned[peer] = incarnation
            turn.records.append(Pinned(peer, incarnation))
        if self.pinned[peer] == incarnation:
            return True
        self._reject(peer, incarnation, "lost disk", turn)
        return False

    # --- refusing

    def _reject(self, member: str, incarnation: int, why: Why, turn: Turn) -> None:
        if self.refused.get(member, (None, why))[0] != incarnation:
            self.refused[member] = (incarnation, why)
            turn.outgoing.append(Reject(member, REASONS[why].format(member)))

    def refuse(self, peer: str, turn: Turn) -> None:
        turn.send((peer,), Refusal(peer, *self.refused[peer]))

    def refuse_twins(self, twins: Twins, turn: Turn) -> None:
        """The origin used numbers twice. It may be linked, and not know."""
        origin = twins.origin
        refused = self.refused.get(origin)
        if refused is not None and refused[1] == "two histories":
            return
        self.refused[origin] = (self.pinned.get(origin, self.incarnation), "two histories")
        if origin != self.me:
            self.refuse(origin, turn)
        holders = " and ".join(twins.holders)
        words = f"{holders} hold different ones up to {MessageId(origin, twins.count)}"
        reason = REASONS["two histories"].format(origin)
        turn.outgoing.append(Reject(origin, f"{reason} ({words})"))

    def take_refusal(self, sender: str, refusal: Refusal, turn: Turn) -> None:
        """It stops this very process, or announces that its sender stops. No other is meant."""
        member, incarnation, why = refusal.member, refusal.incarnation, refusal.why
        if member == self.me and incarnation == self.incarnation:
            turn.outgoing.append(Halt(REASONS[why].format(member)))
        elif member == sender and self.pinned.get(member, incarnation) == incarnation:
            self._reject(member, incarnation, why, turn)

    def leave(self, why: Why) -> list[Effect]:
        refusal = Refusal(self.me, self.incarnation, why)
        return [Send(self.others, refusal), Halt(REASONS[why].format(self.me))]
