"""What a step of a frontier process leads to, while it is worked out."""

from tidings.core import (
    Deliver,
    Effect,
    Held,
    Members,
    Packet,
    Persist,
    Replay,
    Send,
    Span,
    Stable,
    TextSpan,
)
from tidings.protocols.frontier.packets import Batch
from tidings.protocols.frontier.records import Record


class Turn:
    """The effects of a step, sorted into the order in which they have to happen.

    First comes what must survive: all packets rely on it. What may be thrown away is written
    last, since nothing waits for that.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.answer: list[Effect] = []
        self.held: list[Span] = []
        self.replay: Replay | None = None
        self.delivered: list[TextSpan] = []
        self.outgoing: list[Effect] = []
        self.timers: list[Effect] = []
        self.stable: dict[str, int] = {}
        self.late_records: list[Record] = []
        # What the rules need to know about this step:
        self.data: Batch | None = None
        """Messages just broadcast."""
        self.grown: dict[str, None] = {}
        """Origins of which more is held than before."""
        self.touched: dict[str, None] = {}
        """Origins of which anything new is known."""
        self.answered: dict[str, str] = {}
        """Origins of which a PUSH brought something, and its sender."""
        self.vouch: dict[str, None] = {}
        """Origins to be acknowledged with a digest, although no more of them is held."""
        self.commit = False
        """Whether the time to wait for more acknowledgements is over."""
        self.tell_all = False
        """The same, for those that only tell what is stable."""
        self.lost_disk = False
        """Whether a member knows that this process held more than it does."""

    def send(self, to: Members, packet: Packet) -> None:
        if to:
            self.outgoing.append(Send(to, packet))

    def effects(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.records:
            effects.append(Persist(tuple(self.records)))
        effects += self.answer
        if self.held:
            effects.append(Held(tuple(self.held)))
        if self.replay is not None:
            effects.append(self.replay)
        if self.delivered:
            effects.append(Deliver(tuple(self.delivered)))
        effects += self.outgoing
        effects += self.timers
        if self.stable:
            effects.append(Stable(self.stable))
        if self.late_records:
            effects.append(Persist(tuple(self.late_records)))
        return effects
