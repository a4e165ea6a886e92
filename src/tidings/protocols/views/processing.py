"""What the application of this member has processed, in whatever view it was delivered.

A newcomer starts at the cut, and its application has no part in what came before: it needs the
state to which that led. Somebody else's application hands over its own, and what that has processed
may be ahead of what was delivered here. Such messages count as processed when they are delivered.
"""

from collections.abc import Mapping

from tidings.core import Choose, MessageId, Part, Persist, UsageError
from tidings.protocols.views import serving
from tidings.protocols.views.formers import Formers
from tidings.protocols.views.present import Present
from tidings.protocols.views.records import HasState
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.wrapping import Effects


class Processing(Part):
    standing: Standing
    present: Present
    formers: Formers
    has_state: bool = True
    """Whether the application has the state to which all before its first view has led."""
    snapshot: dict[str, int] = {}
    """What is in that state beyond what was delivered here."""

    def process(self, upto: Mapping[str, int], choose: Choose, out: Effects) -> None:
        if unknown := upto.keys() - set(self.standing.names()):
            raise UsageError(f"{min(unknown)} is not a member")
        if not self.has_state and self.standing.is_start_covered(upto):
            self.has_state, self.snapshot = True, dict(upto)
            upto_ids = sorted(MessageId(*one) for one in upto.items())
            out.append(Persist((HasState(tuple(upto_ids)),)))
        self.formers.process(upto, out)
        self.present.process(upto, choose, out)
        self.catch_up(choose, out)

    def catch_up(self, choose: Choose, out: Effects) -> None:
        """What was delivered by now, and is in the snapshot, is processed."""
        if self.snapshot:
            delivered = self.present.log.delivered
            self.present.process(self.snapshot, choose, out)
            ahead = {one: last for one, last in self.snapshot.items() if one in delivered}
            self.snapshot = {one: last for one, last in ahead.items() if last > delivered[one]}

    def end(self, out: Effects) -> None:
        """This process was removed: without its state, its application never processes anything."""
        if not self.has_state:
            for number, log in (
                *self.formers.logs.items(),
                (self.present.number, self.present.log),
            ):
                serving.process(log, number, log.delivered, out)
