"""The timers of a frontier process. One that is not needed would be one more thing to explore."""

from tidings.core import CancelTimer, Part, SetTimer
from tidings.protocols.frontier.turn import Turn


class Timers(Part):
    running: set[str] = set()

    def start(self, name: str, delay_ms: float, turn: Turn) -> None:
        self.running.add(name)
        turn.timers.append(SetTimer(name, delay_ms))

    def keep(self, name: str, wanted: bool, delay_ms: float, turn: Turn) -> None:
        """Have it run while it is wanted, and no longer."""
        if wanted and name not in self.running:
            self.start(name, delay_ms, turn)
        elif not wanted and name in self.running:
            self.running.discard(name)
            turn.timers.append(CancelTimer(name))
