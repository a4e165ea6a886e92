"""What an operator asks of this member, and whether enough are there to get it done.

A canvass comes before anybody promises anything, and binds nobody: otherwise a group that was
delivering could be stopped for good. It needs a majority that lacks little of what the others hold,
the newcomer, and the member that was added last with its state: one newcomer at a time has none.
If that member is the one that is replaced, there is still only one. And somebody has to stay that
has its state, or nobody could give it to the newcomer any more.
"""

from collections.abc import Sequence

from tidings.core import Approve, Change, Deny, MessageId, Part, Send, ordered
from tidings.protocols.views.consensus import Acceptor, Proposer
from tidings.protocols.views.packets import NO_BALLOT, Canvass, Ready, View
from tidings.protocols.views.patience import Patience
from tidings.protocols.views.present import Present
from tidings.protocols.views.processing import Processing
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.wrapping import Effects


class Asking(Part):
    standing: Standing
    present: Present
    acceptor: Acceptor
    proposer: Proposer
    processing: Processing
    patience: Patience
    near: int
    """How many messages a member may lack of what the others hold."""
    wish: Change | None = None
    """What an operator asked of this member."""
    is_approved: bool = False

    def ask(self, change: Change, out: Effects) -> None:
        if reason := self._why_not(change):
            out.append(Deny(change, reason))
        else:
            self.wish = change
            self.canvass(out)

    def _why_not(self, change: Change) -> str:
        if not self.standing.is_member:
            return f"{self.me} is not in the group"
        if self.present.is_wedged:
            return f"the group is about to install view {self.standing.number + 1}"
        if self.wish is not None:
            return f"{self.me} is about to {self.wish}"
        if not self.present.is_admitted:
            # It may have lost its disk, and with that what it has promised.
            return self.present.frontier.gate.why_closed()
        return self.standing.why_never(change)

    def ask_again(self, out: Effects) -> None:
        """In a new view: somebody else's wish came first, or this very one."""
        wish, self.is_approved = self.wish, False
        if wish is None:
            return
        if (not wish.add or wish.add in self.members) and wish.remove not in self.members:
            self.wish = None
        elif reason := self.standing.why_never(wish):
            self.deny(reason, out)
        elif self.present.is_open:
            self._canvass_in_turn(out)

    def _canvass_in_turn(self, out: Effects) -> None:
        """If all whose wish has lost began at once, each would promise a ballot of its own again.

        Somebody without a wish would end that, and all of it begin from the start.
        """
        if turn := self.members.index(self.me):
            self.patience.wait(turn - 1)
        else:
            self.canvass(out)

    @property
    def is_waiting(self) -> bool:
        """Whether there is a wish whose turn has not come."""
        return self.wish is not None and self.present.is_open and not self.proposer.canvassing

    def deny(self, reason: str, out: Effects) -> None:
        self.proposer.canvassing = False
        if self.wish is not None:
            out.append(Deny(self.wish, reason))
        self.wish, self.is_approved = None, False

    # --- the canvass

    def canvass(self, out: Effects) -> None:
        early = [one for one in self.proposer.ready.items() if one[0] in self.others]
        for peer in [one for one, ready in early if not self._is_near(ready.held)]:
            self.proposer.lose(peer)
        self.proposer.canvass(self.acceptor.promised, self.processing.has_state)
        added = self.wish.add if self.wish is not None else ""
        asked = (*self.others, *([added] if added else []))
        if asked:
            promised = self.acceptor.promised.round
            out.append(Send(asked, Canvass(self.standing.number + 1, promised, added)))

    def hear(self, sender: str, ready: Ready) -> None:
        """It may come after the operator was told no, and counts when the same is asked again."""
        is_answer = self.standing.is_member and ready.number == self.standing.number + 1
        is_answer &= ready.asked == self.acceptor.promised.round
        if self.proposer.ballot != NO_BALLOT or not is_answer:
            return
        is_newcomer = sender not in self.members and not ready.round
        is_member = sender in self.members and len(ready.held) == len(self.members)
        if is_newcomer or (is_member and self._is_near(ready.held)):
            self.proposer.hear(sender, ready)

    def _is_near(self, held: Sequence[int]) -> bool:
        """Whether neither lacks much of what the other holds; those that are wedged must go on."""
        pairs = list(zip(self.present.held(), held, strict=True))
        lacking = max(sum(max(0, a - b) for a, b in pairs), sum(max(0, b - a) for a, b in pairs))
        return self.present.is_wedged or lacking <= self.near

    def is_done(self, out: Effects) -> bool:
        """Whether enough are ready: then what was asked for is approved."""
        if not self.proposer.canvassing or not self.proposer.are_enough_ready():
            return False
        if self.wish is not None and not self.is_approved and not self.who_else():
            self.is_approved = True
            out.append(Approve(self.wish))
        # Nobody has lost anything by waiting for a newcomer, unless the group is wedged.
        return self.wish is None or self.is_approved or self.present.is_wedged

    def who_else(self) -> str:
        """Who is missing beside a majority, in words."""
        if self.wish is None:
            return ""
        add, remove, furnished = self.wish.add, self.wish.remove, self.proposer.furnished
        if add and add not in self.proposer.ready:
            return f"{add} does not answer"
        last = self.standing.added_last()
        if add and last not in ("", remove, *furnished):
            return f"{last}, which was added last, is not known to have its state yet"
        if not any(one in furnished for one in self.members if one != remove):
            return f"nobody but {remove} is known to have the state of the group"
        return ""

    def give_up(self, out: Effects) -> None:
        """It has taken too long."""
        ready = [one for one in self.proposer.ready if one in self.members]
        few = (
            f"{len(ready)} of {len(self.members)} members are ready, and {self.proposer.needed} "
            "must be"
        )
        self.deny(few if len(ready) < self.proposer.needed else self.who_else(), out)

    # --- what it comes to

    def wished_view(self) -> View:
        """What was asked of this member; without a wish, or without its sense, no change."""
        number = self.standing.number + 1
        cut = tuple(sorted(MessageId(*one) for one in self.proposer.cut().items()))
        wish = self.wish
        if wish is None or not self.is_approved or self.standing.why_never(wish):
            return View(number, self.members, cut)
        rest = tuple(member for member in self.members if member != wish.remove)
        members = ordered((*rest, wish.add)) if wish.add else rest
        if not wish.add:
            return View(number, members, cut)
        return View(number, members, cut, wish.add, wish.address, self.present.met.get(wish.add, 0))
