"""The gallery of flaws, continued: frontier with one rule left out or read wrongly.

Each rule of frontier is there because without it one of these breaks something. A flaw is a part
that is wrong, and a process that has it.
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
    take_first,
)
from tidings.protocols.frontier.exchange import Exchange
from tidings.protocols.frontier.fetching import Fetching
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.mode_origin import OriginMode
from tidings.protocols.frontier.packets import Counts
from tidings.protocols.frontier.protocol import Frontier
from tidings.protocols.frontier.turn import Turn


class Flawed(Frontier):
    def check(self, group: Mapping[str, Process]) -> None:
        """What must be true of frontier need not be of these: others judge what comes of it."""


class _SmallQuorum(Knowledge):
    @property
    def quorum(self) -> int:
        return max(1, super().quorum - 1)


class QuorumOfF(Flawed):
    """Breaks Uniform Agreement: f holders, all of whom may crash, are taken for enough."""

    knowledge_kind = _SmallQuorum


class _NoPull(Fetching):
    def pull(self, choose: Choose, turn: Turn) -> None:
        self.asked = {origin: set(self.others) for origin in self.knowledge.missing()}


class NeverFetching(Flawed):
    """Breaks Uniform Agreement: nobody asks for what it lacks, and its origin is gone."""

    fetching_kind = _NoPull


class _OnePull(Fetching):
    def fetch(self, turn: Turn) -> None:
        asked = {origin: set(asked) for origin, asked in self.asked.items()}
        super().fetch(turn)
        self.asked = asked | self.asked


class AskingOnce(Flawed):
    """Breaks Uniform Agreement: a member that was asked for one message is not asked for the next.

    So says the first description of the protocol; exploring it found the difference.
    """

    fetching_kind = _OnePull


class _WithoutCauses(Log):
    def missing_causes(self, causes: Counts) -> list[MessageId]:
        return []


class OverlookingCauses(Flawed):
    """Breaks Causal Order: what a message depends on is carried, and not looked at."""

    log_kind = _WithoutCauses


class _NoRepetition(Exchange):
    def watch(self, turn: Turn) -> None:
        pass


class SayingItOnce(Flawed):
    """Breaks Validity and Uniform Agreement: nothing is repeated, although links lose packets."""

    exchange_kind = _NoRepetition


class _SafeIsNeedless(Knowledge):
    def needless(self, origin: str) -> int:
        return min(self.safe[origin], self.log.delivered[origin])


class ForgettingEarly(Flawed):
    """Breaks Uniform Agreement: what is safe is forgotten, before all who need it have it."""

    knowledge_kind = _SafeIsNeedless


class AcknowledgingEarly(Flawed):
    """Breaks Uniform Agreement: what is received is acknowledged before it is on disk."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        if isinstance(event, Receive):
            # Sorting keeps the order of what it does not tell apart.
            effects.sort(key=lambda effect: not isinstance(effect, Send))
        return effects


class _NewCauses(Fetching):
    def push(self, asker: str, wanted: tuple[Span, ...], turn: Turn) -> None:
        log, me = self.log, self.me
        causes = log.causes[me]
        now = Counts(all=log.vector(log.delivered | {me: 0}))
        in_memory = range(log.first_in_memory(me), log.held[me] + 1)
        log.causes[me] = causes | dict.fromkeys(in_memory, now)
        super().push(asker, wanted, turn)
        log.causes[me] = causes


class Restamping(Flawed):
    """Breaks Uniform Agreement: a message that is sent again names what followed from it.

    A member that fetches a question hears that it depends on its answer, and waits for both for
    ever.
    """

    fetching_kind = _NewCauses


class _NoGreeting(Exchange):
    def link_up(self, peer: str, incarnation: int, turn: Turn) -> None:
        self.peers.down.discard(peer)


class NotGreeting(Flawed):
    """Breaks Validity and Uniform Agreement: nothing is exchanged with a member that comes back."""

    exchange_kind = _NoGreeting


# --- mode origin


class _Origin(Flawed):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose, mode="origin")


class _NoDebts(OriginMode):
    def owe(self, peer: str, origin: str, count: int) -> None:
        pass


class OwingNothing(_Origin):
    """Breaks Uniform Agreement: once a message is known to be safe, nobody is asked about it.

    Its origin may have died with the copy of one member, which then never hears of it.
    """

    origin_mode_kind = _NoDebts


class _NoAnswers(OriginMode):
    def answer(self, asker: str, held: Counts, turn: Turn) -> None:
        for origin, count in held.of(self.members):
            if origin != self.me and count > self.knowledge.safe[origin]:
                self.remember(origin, count)


class NotAnswering(_Origin):
    """Breaks Uniform Agreement: a member that knows a message to be safe keeps it to itself."""

    origin_mode_kind = _NoAnswers


class _NoMemory(OriginMode):
    def remember(self, origin: str, count: int) -> None:
        pass


class NotHeeding(_Origin):
    """Breaks Uniform Agreement: a member that was asked too early forgets that somebody waits."""

    origin_mode_kind = _NoMemory


class _ShortMemory(OriginMode):
    def ask(self, turn: Turn) -> None:
        for origin in self.acknowledgements.news():
            self.heard.pop(origin, None)
        super().ask(turn)


class HalfHeeding(_Origin):
    """Breaks Uniform Agreement: any word counts as an answer, even of less than was asked for.

    So says the first description of the protocol, which remembers origins and no numbers.
    """

    origin_mode_kind = _ShortMemory
