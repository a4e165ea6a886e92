"""Whether this process may give numbers to messages, after a start.

Its disk may have held more than it does now: then it would use numbers twice. So it first hears
from others what they know of it. Everything else goes on meanwhile.
"""

from tidings.core import Members, Part, Start
from tidings.protocols.frontier.knowledge import Knowledge
from tidings.protocols.frontier.records import Admitted
from tidings.protocols.frontier.turn import Turn


class Gate(Part):
    knowledge: Knowledge
    strict: bool
    admitted: bool = False
    """Whether it is certain that nobody remembers this process from before its disk."""
    answers: int = 0
    """How many others have to answer before the gate opens."""
    unheard: set[str] = set()
    """Members that might remember more of this process than it does, and have not answered in
    this life. Empty once enough of them have."""

    def start(self, start: Start, turn: Turn) -> None:
        self.admitted |= not start.incarnation
        self.answers = self._answers_needed(start)
        self.unheard = set(self.others) if self.answers else set()
        self._be_admitted(turn)

    def _answers_needed(self, start: Start) -> int:
        """How many others must say what they know before this process numbers anything.

        A process that starts with nothing may have lost its disk, and any other member could be
        the only one that remembers. A process that comes back may have an older copy. Q - 1
        others are as many as can be waited for while f members are dead; with ``strict`` they are
        so many that one of them has seen whatever was delivered.
        """
        if not self.admitted and not start.founding:
            return len(self.others)
        if start.recovered is None:
            return 0
        if self.strict:
            return min(len(self.others), len(self.members) // 2 + 1)
        return min(len(self.others), max(1, self.knowledge.quorum - 1))

    def hear_from(self, peer: str, turn: Turn) -> None:
        if peer in self.unheard:
            self.unheard.discard(peer)
            self.answers -= 1
            if not self.answers:
                self.unheard.clear()
            self._be_admitted(turn)

    def _be_admitted(self, turn: Turn) -> None:
        """Once all that might object were heard, and nobody did."""
        if not self.unheard and not self.admitted:
            self.admitted = True
            turn.records.append(Admitted())

    def awaited(self) -> Members:
        return tuple(one for one in self.others if one in self.unheard)

    def why_closed(self) -> str:
        """Empty if it is open."""
        names = ", ".join(sorted(self.unheard))
        if not names:
            return ""
        if not self.admitted and self.answers == len(self.unheard):
            return f"{self.me} starts with nothing and has yet to meet {names}"
        return (
            f"{self.me} has restarted and waits for {self.answers} of {names} "
            "to say what they hold of its messages"
        )
