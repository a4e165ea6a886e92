"""Mode all: holders acknowledge to everybody.

Two delays, the fewest possible, and n(n-1) packets for a lone broadcast. Under load one packet
acknowledges many messages, or rides on the next message.

Up to four members, two holders are enough: whoever has a message knows that it is safe, since its
origin has it, too. Only the origin waits for an acknowledgement; to the others it only tells what
is stable, so with ``stable_ms`` it leaves later, together with what else there is to tell them.
"""

from collections.abc import Sequence
from typing import ClassVar

from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.packets import Holding
from tidings.protocols.frontier.turn import Turn

ORIGIN_AND_ONE = 2


class AllMode(Mode):
    name: ClassVar[str] = "all"

    batch_ms: int
    """How long acknowledgements wait for more after one has left."""
    stable_ms: int
    """How long those wait that only tell what is stable."""
    answered: dict[str, int] = {}
    """Up to where each origin has an acknowledgement of its own messages, before all others do."""

    def speak(self, turn: Turn) -> None:
        """What is newly held goes with the next message, or at once if none has left just now."""
        acknowledgements = self.acknowledgements
        news = acknowledgements.news()
        if turn.data is not None:
            turn.send(self.others, acknowledgements.data(turn.data, news))
        elif news and "batch" not in self.timers.running:
            if not turn.tell_all and self._only_origins_wait(news):
                self._answer_origins(news, turn)
                return
            turn.send(self._receivers(news), Holding(*acknowledgements.of_origins(news)))
            if self.batch_ms:
                self.timers.start("batch", self.batch_ms, turn)
        else:
            return
        acknowledgements.vouch(news)
        acknowledgements.announce(news)
        self.answered.clear()

    def time_out(self, name: str, turn: Turn) -> None:
        turn.tell_all |= name == "stable"

    def _only_origins_wait(self, news: Sequence[str]) -> bool:
        """Not if an origin may have used numbers twice: then all compare what they hold."""
        are_enough = len(self.members) > 2 and self.knowledge.quorum <= ORIGIN_AND_ONE
        is_doubtful = any(origin in self.acknowledgements.restarted for origin in news)
        return self.stable_ms > 0 and are_enough and not is_doubtful

    def _answer_origins(self, news: Sequence[str], turn: Turn) -> None:
        for origin in news:
            if not self._is_answered(origin):
                turn.send((origin,), Holding(*self.acknowledgements.of_origins([origin])))
                self.answered[origin] = self.log.held[origin]
        if "stable" not in self.timers.running:
            self.timers.start("stable", self.stable_ms, turn)

    def _is_answered(self, origin: str) -> bool:
        return self.answered.get(origin, 0) >= self.log.held[origin]

    def _receivers(self, news: Sequence[str]) -> tuple[str, ...]:
        """All; but not an origin that has been answered, if there is no other news of any kind."""
        one_origin = news[0] if len(news) == 1 else ""
        if not self.answered.get(one_origin) or one_origin in self.acknowledgements.restarted:
            return self.others
        return tuple(one for one in self.others if one != one_origin)
