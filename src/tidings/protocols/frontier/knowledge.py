"""What a frontier process knows of everybody: who holds how much, what is safe, what is stable.

``held`` (of this process), ``known`` (of the others), ``safe`` and ``stable`` only grow, and each
of them is a fact: a packet is merged by taking the larger numbers, whenever and however often it
arrives.
"""

from tidings.core import Members, Part, quorum
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import Counts, Known
from tidings.protocols.frontier.turn import Turn


class Knowledge(Part):
    log: Log
    known: dict[str, dict[str, int]]
    """What each of the others is known to hold, of each origin, beyond what is stable."""
    safe: dict[str, int]
    stable: dict[str, int]
    doubts: dict[str, set[str]] = {}
    """Of each origin, the members that pass on as a fact that more of it was held here."""

    @classmethod
    def of(cls, me: str, members: Members, log: Log) -> "Knowledge":
        return cls(
            me,
            members,
            log,
            known={member: {} for member in members if member != me},
            safe=dict.fromkeys(members, 0),
            stable=dict.fromkeys(members, 0),
        )

    @property
    def quorum(self) -> int:
        return quorum(len(self.members))

    def held_by(self, member: str, origin: str) -> int:
        return self.known[member].get(origin, self.stable[origin])

    def holding(self, member: str) -> dict[str, int]:
        return self.stable | self.known[member]

    def know(self, member: str, origin: str, count: int, turn: Turn) -> None:
        """The member holds so many; and so does their origin, which held them before anybody."""
        for holder in (member, origin):
            if holder != self.me and count > self.held_by(holder, origin):
                self.known[holder][origin] = count
                turn.touched[origin] = None
        # Nobody holds what its origin does not, unless the origin has lost it.
        turn.lost_disk |= origin == self.me and count > self.log.held[origin]

    def know_all(self, member: str, counts: Counts, turn: Turn) -> None:
        for origin, count in counts.of(self.members):
            self.know(member, origin, count, turn)

    def learn(self, sender: str, known: Known, turn: Turn) -> None:
        """The sender knows how far an origin's messages have spread, so now we do."""
        origin, reached = known.origin, known.reached
        is_ours = origin == self.me or self.me not in known.lacking
        if is_ours and reached > self.log.held[origin]:
            self._doubt(sender, origin, turn)
        elif reached:
            for member in self.others:
                if member not in known.lacking:
                    self.know(member, origin, reached, turn)
        self.commit(sender, origin, known.safe, known.stable, turn)

    def commit(self, sender: str, origin: str, safe: int, stable: int, turn: Turn) -> None:
        """The sender knows so many to be safe and stable, so now we do."""
        if stable > self.log.held[origin]:
            self._doubt(sender, origin, turn)
            stable = 0
        if origin == self.me and safe > self.log.held[origin]:
            self._doubt(sender, origin, turn)
            safe = 0
        self.know(origin, origin, safe, turn)
        if safe > self.safe[origin]:
            self.safe[origin] = safe
            turn.touched[origin] = None
        if stable > self.stable[origin]:
            self._is_stable(origin, stable, turn)

    def _doubt(self, sender: str, origin: str, turn: Turn) -> None:
        """The sender passes on that this process held what it does not hold.

        Then its disk has lost it, or the sender errs. The origin knows; so does one of f + 1.
        """
        doubting = self.doubts.setdefault(origin, set())
        doubting.add(sender)
        turn.lost_disk |= sender == origin or len(doubting) >= self.quorum

    def count(self, turn: Turn) -> None:
        """What Q members hold is safe, what all hold is stable."""
        needed = self.quorum
        for origin in turn.touched:
            stable = self.stable[origin]
            known = [counts.get(origin, stable) for counts in self.known.values()]
            counts = sorted((*known, self.log.held[origin]))
            self.safe[origin] = max(self.safe[origin], counts[-needed])
            if counts[0] > stable:
                self._is_stable(origin, counts[0], turn)

    def _is_stable(self, origin: str, count: int, turn: Turn) -> None:
        """All hold so many; members that hold no more need not be remembered."""
        self.stable[origin] = turn.stable[origin] = count
        turn.touched[origin] = None
        for counts in self.known.values():
            if counts.get(origin, 0) <= count:
                counts.pop(origin, None)

    def needless(self, origin: str) -> int:
        """Up to where nobody needs anything: all hold it, and here it is done with."""
        return min(self.stable[origin], self.log.done()[origin])

    def missing(self) -> list[str]:
        """Origins of which somebody holds more; then the origin itself does."""
        return [one for one in self.others if self.held_by(one, one) > self.log.held[one]]

    def behind(self) -> dict[str, int]:
        """Of each peer, how many messages it is not known to hold that are held here."""
        held = self.log.held.items()
        return {
            peer: sum(max(0, count - self.held_by(peer, origin)) for origin, count in held)
            for peer in self.others
        }

    def come_back(self) -> None:
        """What the log of an earlier life shows."""
        self.safe = dict(self.log.delivered)
        self.stable = dict(self.log.forgotten)
        for origin in self.others:
            if self.log.held[origin] > self.stable[origin]:
                self.known[origin][origin] = self.log.held[origin]
