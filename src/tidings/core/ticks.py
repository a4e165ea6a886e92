"""Packets that are taken together, as a holder does that hands over what came since its last tick.

The tick is a timer that may run out at any time, so an explorer tries all groupings.
"""

import msgspec

from tidings.core.effects import CancelTimer, Effect, SetTimer
from tidings.core.events import Event, Receive, Timeout
from tidings.core.part import Part

TICK = "tick"


class Ticks(Part):
    ticks: bool
    """Whether there are any: otherwise every packet is taken at once."""
    arrived: list[Receive] = msgspec.field(default_factory=list)
    """What has come since the last one."""

    def gather(self, event: Event) -> tuple[list[Effect], list[Event]]:
        """What to do about the timer, and which events to take now."""
        if not self.ticks:
            return [], [event]
        if isinstance(event, Receive):
            self.arrived.append(event)
            return ([SetTimer(TICK, 0.0)] if len(self.arrived) == 1 else []), []
        events: list[Event] = [*self.arrived]
        self.arrived = []
        if event == Timeout(TICK):
            return [], events
        return ([CancelTimer(TICK)] if events else []), [*events, event]
