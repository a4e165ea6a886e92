"""What the two modes of frontier have in common.

A mode decides which members hear what is held, and when. A group has one mode for all.
"""

from typing import ClassVar

from tidings.core import Part
from tidings.protocols.frontier.acknowledgements import Acknowledgements
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Commit, Counts, Known
from tidings.protocols.frontier.peers import Peers
from tidings.protocols.frontier.timers import Timers
from tidings.protocols.frontier.turn import Turn


class Mode(Part):
    name: ClassVar[str]

    log: Log
    knowledge: Knowledge
    acknowledgements: Acknowledgements
    peers: Peers
    timers: Timers
    committed: Known
    """What everybody knows of this process's messages. Mode all sends no COMMIT: there it is what
    was known at the start of this life."""

    def speak(self, turn: Turn) -> None:
        """Send what is due at the end of a turn."""
        raise NotImplementedError

    def learn(self, sender: str, known: Known, turn: Turn) -> None:
        self.knowledge.learn(sender, known, turn)

    def answer(self, asker: str, held: Counts, turn: Turn) -> None:
        """Send what is safe; of the rest remember that somebody waits to hear who holds it."""
        answers = []
        for origin, count in held.of(self.members):
            if origin == self.me:
                continue  # everybody hears anyway how much of this process's messages is safe
            if count <= self.knowledge.safe[origin]:
                answers.append(self.known_of(origin))
            else:
                self.remember(origin, count)
        if answers:
            turn.send((asker,), Commit(tuple(answers)))

    def known_of(self, origin: str) -> Known:
        """How far the messages of an origin have spread, as far as is known here."""
        return Known(origin, self.knowledge.safe[origin], self.knowledge.stable[origin])

    def remember(self, origin: str, count: int) -> None:
        """Somebody asked who holds so many."""

    def link_up(self, peer: str) -> None:
        """A peer may have missed what was sent to it before."""

    def time_out(self, name: str, turn: Turn) -> None:
        """A timer of this mode has run out."""

    def come_back(self) -> None:
        self.committed = self.known_of(self.me)
