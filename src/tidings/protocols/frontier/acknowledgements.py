"""What this process has acknowledged, and how.

Usually an acknowledgement is a count. An origin that restarted may have used numbers twice, if its
disk was an older copy. Its messages are marked, and acknowledged with a digest, too, so that
members that hold different ones notice it.
"""

from collections.abc import Iterable, Sequence

from tidings.core import Members, Part
from tidings.core.renaming import NamedDigests, SortedNames
from tidings.protocols.frontier.comparison import HistoryComparison
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Batch, Counts, Data, Known, counts_of
from tidings.protocols.frontier.turn import Turn


class Acknowledgements(Part):
    log: Log
    comparison: HistoryComparison
    announced: dict[str, int]
    """What all members know to be held here; in mode origin, or need not know."""
    restarted: dict[str, int] = {}
    """Origins that may have used numbers twice: when so many are held, a digest is sent."""
    vouched: dict[str, int] = {}
    """The same, and it was sent."""

    @classmethod
    def of(
        cls, me: str, members: Members, log: Log, comparison: HistoryComparison
    ) -> "Acknowledgements":
        announced = {member: 0 for member in members if member != me}
        return cls(me, members, log, comparison, announced)

    def news(self) -> list[str]:
        """Origins of which more is held than was announced."""
        held = self.log.held
        return [origin for origin in self.others if held[origin] > self.announced[origin]]

    def announce(self, origins: Iterable[str]) -> None:
        for origin in origins:
            self.announced[origin] = self.log.held[origin]

    def of_origins(self, origins: Sequence[str]) -> tuple[Counts, NamedDigests]:
        """How much is held of these; and what, of those that may have used numbers twice."""
        doubtful = [origin for origin in origins if origin in self.restarted]
        return counts_of(origins, self.log.held), self.comparison.digests(doubtful)

    def data(self, batch: Batch, news: Sequence[str] = (), *commit: Known) -> Data:
        held, digests = self.of_origins(news)
        return Data(batch, held, commit, digests, self.me in self.restarted)

    # --- origins that restarted

    def hear_of_restart(self, origin: str, count: int, turn: Turn) -> None:
        """Up to so many, others may hold something else."""
        if origin == self.me or count <= self.vouched.get(origin, 0):
            return
        self.restarted[origin] = max(count, self.restarted.get(origin, 0))
        if count <= self.announced[origin]:
            self.announced[origin] = count - 1
            turn.vouch[origin] = None

    def vouch(self, origins: Iterable[str]) -> None:
        """Digests of what is held of these were sent."""
        for origin in origins:
            if origin in self.restarted and self.restarted[origin] <= self.log.held[origin]:
                self.vouched[origin] = self.restarted.pop(origin)

    def marked(self, batches: Sequence[Batch]) -> SortedNames:
        """Of the origins of these, those that may have used numbers twice."""
        origins = {batch.id.origin for batch in batches}
        return tuple(sorted(origins & (self.restarted.keys() | self.vouched.keys())))

    def come_back(self) -> None:
        """All members hear what is held when links come up."""
        self.announce(self.others)
        self.restarted[self.me] = self.log.held[self.me] + 1

    def end_restart(self, stable: int) -> None:
        """Once a message of this life is stable, this process has not used its number twice."""
        if stable >= self.restarted.get(self.me, 0):
            self.restarted.pop(self.me, None)
