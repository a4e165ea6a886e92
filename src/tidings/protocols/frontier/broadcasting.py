"""Broadcasting: numbers and causes for new messages, and why there may be none just now."""

from tidings.core import Accept, Members, MessageId, Part, Refuse, Span
from tidings.protocols.frontier.gate import Gate
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Batch, counts_of
from tidings.protocols.frontier.turn import Turn


class Broadcasting(Part):
    log: Log
    knowledge: Knowledge
    gate: Gate
    window: int
    """How many messages of this process may be unsafe."""
    log_limit: int
    """How many messages may be kept before broadcasts are refused."""
    stamped: dict[str, int]
    """What was delivered when this process last broadcast."""

    @classmethod
    def of(
        cls,
        me: str,
        members: Members,
        log: Log,
        knowledge: Knowledge,
        gate: Gate,
        window: int,
        log_limit: int,
    ) -> "Broadcasting":
        stamped = {member: 0 for member in members if member != me}
        return cls(me, members, log, knowledge, gate, window, log_limit, stamped)

    def broadcast(self, texts: tuple[bytes, ...], turn: Turn) -> None:
        if reason := self.why_not(len(texts)):
            turn.answer.append(Refuse(reason))
        elif not texts:
            turn.answer.append(Accept(()))
        else:
            self.accept(texts, turn)

    def accept(self, texts: tuple[bytes, ...], turn: Turn) -> None:
        delivered = self.log.delivered
        new = [origin for origin in self.others if delivered[origin] > self.stamped[origin]]
        first = MessageId(self.me, self.log.held[self.me] + 1)
        batch = Batch(first, texts, counts_of(new, delivered))
        for origin in new:
            self.stamped[origin] = delivered[origin]
        self.log.hold(batch, turn)
        turn.answer.append(Accept((Span(*first, batch.last),)))
        turn.data = batch

    def why_not(self, count: int) -> str:
        """Why so many messages cannot be broadcast now; empty if they can."""
        if reason := self.gate.why_closed():
            return reason
        most = min(self.window, self.log_limit)
        if count > most:
            return f"{count} messages at once are too many: {most} is the limit"
        unsafe = self.log.held[self.me] + count - self.knowledge.safe[self.me]
        if unsafe > self.window:
            return (
                f"{self.me} has {_messages(unsafe - count)} that {self.knowledge.quorum} members "
                f"are not known to hold yet, and {self.window} is the limit"
            )
        kept = sum(self.log.held.values()) - sum(self.log.forgotten.values())
        if kept + count > self.log_limit:
            keeps = f"it keeps {_messages(kept)} for {self.kept_for()}"
            return f"the log of {self.me} is full: {keeps}"
        return ""

    def kept_for(self) -> str:
        """Whom most of what is kept is kept for."""
        lack = self.knowledge.behind()
        last = max(self.others, key=lambda peer: lack[peer], default=self.me)
        if lack.get(last, 0) > 0:
            return last
        if self.log.delivered != self.log.done():
            return "the application, which has not taken them"
        return f"{self.me}, which cannot deliver them yet"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
