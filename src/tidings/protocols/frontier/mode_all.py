"""Mode all: holders acknowledge to everybody.

Two delays, the fewest possible, and n(n-1) packets for a lone broadcast. Under load one packet
acknowledges many messages, or rides on the next message.
"""

from typing import ClassVar

from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.packets import Holding
from tidings.protocols.frontier.turn import Turn


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
            turn.send(self.others, Holding(*acknowledgements.of_origins(news)))
            if self.batch_ms:
                self.timers.start("batch", self.batch_ms, turn)
        else:
            return
        acknowledgements.vouch(news)
        acknowledgements.announce(news)
