"""The gallery of flaws, continued: frontier with one rule left out or read wrongly.

Each rule of frontier is there because without it one of these breaks something.
"""

from collections.abc import Mapping

from tidings.core import (
    Choose,
    Effect,
    Event,
    Members,
    MessageId,
    Process,
    Receive,
    Send,
    Span,
    quorum,
    take_first,
)
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.knowledge import Turn
from tidings.protocols.frontier.packets import Counts


class Flawed(Frontier):
    def check(self, group: Mapping[str, Process]) -> None:
        """What must be true of frontier need not be of these: others judge what comes of it."""


class QuorumOfF(Flawed):
    """Breaks Uniform Agreement: f holders, all of whom may crash, are taken for enough."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.quorum = max(1, quorum(len(members)) - 1)


class NeverFetching(Flawed):
    """Breaks Uniform Agreement: nobody asks for what it lacks, and its origin is gone."""

    def _pull(self, turn: Turn) -> None:
        self.asked = {origin: set(self.others) for origin in self._missing()}


class AskingOnce(Flawed):
    """Breaks Uniform Agreement: who was asked for one message is not asked for the next.

    So says the first description of the protocol; exploring it found the difference.
    """

    def _fetch(self, turn: Turn) -> None:
        asked = {origin: set(asked) for origin, asked in self.asked.items()}
        super()._fetch(turn)
        self.asked = asked | self.asked


class OverlookingCauses(Flawed):
    """Breaks Causal Order: what a message depends on is carried, and not looked at."""

    def _missing_causes(self, causes: Counts) -> list[MessageId]:
        return []


class SayingItOnce(Flawed):
    """Breaks Validity and Uniform Agreement: nothing is repeated, although links lose packets."""

    def _watch(self, turn: Turn) -> None:
        pass


class ForgettingEarly(Flawed):
    """Breaks Uniform Agreement: what is safe is forgotten, before all who need it have it."""

    def _needless(self, origin: str) -> int:
        return min(self.safe[origin], self.delivered[origin])


class AcknowledgingEarly(Flawed):
    """Breaks Uniform Agreement: what is received is acknowledged before it is on disk."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        if isinstance(event, Receive):
            # Sorting keeps the order of what it does not tell apart.
            effects.sort(key=lambda effect: not isinstance(effect, Send))
        return effects


class Restamping(Flawed):
    """Breaks Uniform Agreement: a message that is sent again names what followed from it.

    Who fetches a question is told that it depends on its answer, and waits for both for ever.
    """

    def _push(self, asker: str, wanted: tuple[Span, ...], turn: Turn) -> None:
        own = self.causes[self.me]
        self.causes[self.me] = own | dict.fromkeys(
            self.texts[self.me], Counts(all=self._vector(self.delivered | {self.me: 0}))
        )
        super()._push(asker, wanted, turn)
        self.causes[self.me] = own


class NotGreeting(Flawed):
    """Breaks Validity and Uniform Agreement: who comes back is told nothing, and tells nothing."""

    def _link_up(self, peer: str, incarnation: int, turn: Turn) -> None:
        self.down.discard(peer)


# --- mode origin


class _Origin(Flawed):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose, mode="origin")


class OwingNothing(_Origin):
    """Breaks Uniform Agreement: once a message is known to be safe, nobody is asked about it.

    Its origin may have died with the copy of one member, which then never hears of it.
    """

    def _owe(self, peer: str, origin: str, count: int) -> None:
        pass


class NotAnswering(_Origin):
    """Breaks Uniform Agreement: who knows a message to be safe keeps it to itself."""

    def _answer(self, asker: str, held: Counts, turn: Turn) -> None:
        for origin, count in held.of(self.members):
            if origin != self.me and count > self.safe[origin]:
                self._remember_asked(origin, count)


class NotHeeding(_Origin):
    """Breaks Uniform Agreement: who was asked too early forgets that somebody waits."""

    def _remember_asked(self, origin: str, count: int) -> None:
        pass


class HalfHeeding(_Origin):
    """Breaks Uniform Agreement: any word counts as an answer, even of less than was asked for.

    So says the first description of the protocol, which remembers origins and no numbers.
    """

    def _ask(self, turn: Turn) -> None:
        for origin in self._untold():
            self.heard.pop(origin, None)
        super()._ask(turn)
