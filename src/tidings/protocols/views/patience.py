"""When a member takes the next step towards a view itself: on a timer, and not in a hurry.

All that are wedged wait for the same; whoever begins again makes the others begin anew. So a member
waits longer after anything that has brought the next view nearer, and longer still after a ballot
that came to nothing: perhaps links and disks are slower than it thought. Those whose wish has lost
to another try again one after the other, in the order of members.

Of several that begin again, one lets another go first that comes before it in the group, but only
once in each ballot: that one may not be linked with enough, and then would ask for ever.
"""

from tidings.core import CancelTimer, Part, SetTimer
from tidings.protocols.views.consensus import Acceptor
from tidings.protocols.views.wrapping import Effects

CHANGE = "change"
"""The one timer beside those of frontier."""
CHANGE_MS = 300.0
"""How long a member waits for the others."""
PATIENCE = 2
"""How many times longer it waits after anything has brought the next view nearer."""
MOST_DOUBLINGS = 5
"""After ballots that came to nothing it waits 2, 3, 5, 9, ... times longer, at last 33: 10 s."""


class Patience(Part):
    acceptor: Acceptor
    is_waiting: bool = False
    """Whether the timer runs."""
    patience: int = 0
    """How often it may run out before this member begins again."""
    let_go_first: set[str] = set()
    """Who was let go first in this ballot."""

    def begin(self) -> None:
        """Nothing is under way."""
        self.patience, self.let_go_first = 0, set()

    def renew(self) -> None:
        """Something has brought the next view nearer."""
        failed = max(0, self.acceptor.promised.round - 1)
        self.patience = PATIENCE - 1 + 2 ** min(failed, MOST_DOUBLINGS)
        self.let_go_first = set()

    def lets_go_first(self, other: str) -> bool:
        """Whether to wait for what the other one gets done: longer than the other one waits."""
        before = self.let_go_first
        if other in before:
            return False
        self.renew()
        self.patience += 1
        self.let_go_first = {*before, other}
        return True

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
