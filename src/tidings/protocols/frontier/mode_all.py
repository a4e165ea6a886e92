"""Mode all: holders acknowledge to everybody.

Two delays, the fewest possible, and n(n-1) packets for a lone broadcast. Under load one packet
acknowledges many messages, or rides on the next message.

Of three or four members, two holders are enough: whoever has a message knows that it is safe, since
its origin has it, too. Only the origin waits for an acknowledgement; to the others it only tells
what is stable, so with ``stable_ms`` it leaves later, together with what else there is to tell.
"""

from collections.abc import Sequence
from typing import ClassVar

from tidings.core import Members
from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.packets import Holding
from tidings.protocols.frontier.turn import Turn

FEW = (3, 4)
"""How many members there are if an origin and one more are enough, and there are others."""


class AllMode(Mode):
    name: ClassVar[str] = "all"

    batch_ms: int
    """How long acknowledgements wait for more after one has left."""

    def speak(self, turn: Turn) -> None:
        """What is newly held goes with the next message, or at once if none has left just now."""
        acknowledgements = self.acknowledgements
        news = acknowledgements.news()
        if turn.data is not None:
            turn.send(self.others, acknowledgements.data(turn.data, news))
        elif news and "batch" not in self.timers.running:
            if self._may_wait(news, turn):
                return
            turn.send(self._receivers(news), Holding(*acknowledgements.of_origins(news)))
            if self.batch_ms:
                self.timers.start("batch", self.batch_ms, turn)
        else:
            return
        acknowledgements.vouch(news)
        acknowledgements.announce(news)

    def _may_wait(self, news: Sequence[str], turn: Turn) -> bool:
        """Whether nobody needs to hear it now, or whoever does has heard it."""
        return False

    def _receivers(self, news: Sequence[str]) -> Members:
        return self.others


class OriginsFirst(AllMode):
    """Only origins are acknowledged to at once."""

    stable_ms: int
    """How long acknowledgements wait that only tell what is stable."""
    answered: dict[str, int] = {}
    """Up to where each origin was answered about its own messages, before all others."""

    def time_out(self, name: str, turn: Turn) -> None:
        turn.tell_all |= name == "stable"

    def _may_wait(self, news: Sequence[str], turn: Turn) -> bool:
        """Not if an origin may have used numbers twice: then all compare what they hold."""
        acknowledgements, held = self.acknowledgements, self.log.held
        if turn.tell_all or any(origin in acknowledgements.restarted for origin in news):
            return False
        for origin in news:
            if self.answered.get(origin, 0) < held[origin]:
                turn.send((origin,), Holding(*acknowledgements.of_origins([origin])))
                self.answered[origin] = held[origin]
        if "stable" not in self.timers.running:
            self.timers.start("stable", self.stable_ms, turn)
        return True

    def _receivers(self, news: Sequence[str]) -> Members:
        """All; but not an origin that knows it already, if there is no other news of any kind."""
        origin = news[0]
        knows = self.answered.get(origin, 0) >= self.log.held[origin]
        if len(news) > 1 or not knows or origin in self.acknowledgements.restarted:
            return self.others
        return tuple(one for one in self.others if one != origin)
