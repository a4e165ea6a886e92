"""When a member takes the next step towards a view itself: on a timer, and not in a hurry.

All that are wedged wait for the same; whoever begins again makes the others begin anew. So a member
waits longer after anything that has brought the next view nearer. Those whose wish has lost to
another try again one after the other, in the order of members.
"""

from tidings.core import CancelTimer, Part, SetTimer
from tidings.protocols.views.wrapping import Effects

CHANGE = "change"
"""The one timer beside those of frontier."""
CHANGE_MS = 300.0
"""How long a member waits for the others."""
PATIENCE = 2
"""How many times longer it waits after anything has brought the next view nearer."""


class Patience(Part):
    is_waiting: bool = False
    """Whether the timer runs."""
    patience: int = 0
    """How often it may run out before this member begins again."""

    def renew(self) -> None:
        self.patience = PATIENCE

    def wait(self, times: int) -> None:
        """Let the timer run out so often before."""
        self.patience = times

    def is_over(self) -> bool:
        """The timer has run out: whether it is time to do something about it."""
        self.is_waiting = False
        if self.patience:
            self.patience -= 1
            return False
        return True

    def keep(self, wanted: bool, out: Effects) -> None:
        if wanted and not self.is_waiting:
            out.append(SetTimer(CHANGE, CHANGE_MS))
        elif self.is_waiting and not wanted:
            out.append(CancelTimer(CHANGE))
        self.is_waiting = wanted
