"""Views that are over, kept for those that have yet to get through them.

What is below a cut is dropped when every member of the last view that was in the old one has said
that it is through, and the application here has processed it. A member that was removed serves it
until then, too.
"""

from collections.abc import Mapping

from tidings.core import Part, Persist, Recalled, Stable
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Pull
from tidings.protocols.views import serving
from tidings.protocols.views.beginning import ended
from tidings.protocols.views.records import Dropped
from tidings.protocols.views.standing import Standing
from tidings.protocols.views.wrapping import Effects


class Formers(Part):
    standing: Standing
    logs: dict[int, Log] = {}
    """What is kept of each view, up to the cut."""

    def keep(self, number: int, log: Log) -> None:
        self.logs[number] = ended(log, dict(self.standing.chain[number + 1].cut))

    def answer(self, number: int, asker: str, pull: Pull, out: Effects) -> None:
        serving.answer(self.logs[number], number, asker, pull, out)

    def push_recalled(self, recalled: Recalled, out: Effects) -> None:
        for number, log in self.logs.items():
            if serving.is_recalled_from(log, recalled):
                serving.answer_recalled(log, number, recalled, out)

    def process(self, upto: Mapping[str, int], out: Effects) -> None:
        for number, log in self.logs.items():
            serving.process(log, number, upto, out)

    def kept(self) -> int:
        """How many messages that are."""
        return sum(
            sum(log.held.values()) - sum(log.forgotten.values()) for log in self.logs.values()
        )

    def kept_for(self) -> str:
        """Whom the first of them is kept for."""
        number, log = next(iter(self.logs.items()))
        still = (one for one in self.standing.chain[-1].members if one in log.members)
        late = (one for one in still if self.standing.through_of(one) <= number)
        return next(late, "the application, which has not taken them")

    # --- dropping

    def release(self, stable: Mapping[str, int], out: Effects) -> None:
        """Drop what nobody needs. All members hold it now; perhaps ``stable`` says more already."""
        for number, log in list(self.logs.items()):
            if self.is_over(number, log):
                del self.logs[number]
                out.append(Persist((Dropped(number),)))
                cut = self.standing.chain[number + 1].cut
                held = {one: last for one, last in cut if last > 0 and one in stable}
                if news := {one: last for one, last in held.items() if last >= stable[one]}:
                    out.append(Stable(news))

    def is_over(self, number: int, log: Log) -> bool:
        return self.standing.is_over(number, log.members) and log.done() == log.delivered
