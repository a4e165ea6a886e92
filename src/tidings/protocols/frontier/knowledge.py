"""What a frontier process knows of everybody: who holds how much, what is safe, what is stable.

``held`` (of this process), ``known`` (of the others), ``safe`` and ``stable`` only grow, and each
of them is a fact: a packet is merged by taking the larger numbers, whenever and however often it
arrives.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tidings.core import (
    Choose,
    Deliver,
    Effect,
    Held,
    Members,
    Message,
    MessageId,
    Persist,
    Process,
    Replay,
    Stable,
    quorum,
    take_first,
)
from tidings.protocols.frontier.histories import BLOCK
from tidings.protocols.frontier.log import Log
from tidings.protocols.frontier.packets import NOTHING, Batch, Counts, Known, Why
from tidings.protocols.frontier.records import Record


class Turn:
    """What one step comes to, sorted into the order in which it has to happen.

    First what must survive is written: all that is said relies on it. What may be thrown away is
    written last, since nothing waits for that.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.answer: list[Effect] = []
        self.held: list[MessageId] = []
        self.replay: Replay | None = None
        self.delivered: list[Message] = []
        self.said: list[Effect] = []
        self.timers: list[Effect] = []
        self.stable: dict[str, int] = {}
        self.late_records: list[Record] = []
        # What the rules need to know about this step:
        self.data: Batch | None = None
        """Messages just broadcast."""
        self.grown: dict[str, None] = {}
        """Origins of which more is held than before."""
        self.touched: dict[str, None] = {}
        """Origins of which anything is known that was not."""
        self.asked: dict[str, str] = {}
        """Of what is still missing after a PUSH: who was asked to go on."""
        self.vouch: dict[str, None] = {}
        """Origins of which it is to be said what is held, although it is no more than before."""
        self.commit = False
        self.lost_disk = False
        """Whether somebody knows that this process held more than it does."""

    def effects(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.records:
            effects.append(Persist(tuple(self.records)))
        effects += self.answer
        if self.held:
            effects.append(Held(tuple(self.held)))
        if self.replay is not None:
            effects.append(self.replay)
        if self.delivered:
            effects.append(Deliver(tuple(self.delivered)))
        effects += self.said
        effects += self.timers
        if self.stable:
            effects.append(Stable(self.stable))
        if self.late_records:
            effects.append(Persist(tuple(self.late_records)))
        return effects


class Knowledge(Log):
    def __init__(
        self,
        me: str,
        members: Members,
        choose: Choose = take_first,
        *,
        confirmed: bool = False,
        most_marks: int = 64,
        block: int = BLOCK,
    ) -> None:
        super().__init__(
            me, members, choose, confirmed=confirmed, most_marks=most_marks, block=block
        )
        nothing = dict.fromkeys(members, 0)
        self.quorum = quorum(len(members))
        self.known: dict[str, dict[str, int]] = {member: {} for member in self.others}
        """What each of the others is known to hold, of each origin, beyond what is stable."""
        self.safe = dict(nothing)
        self.stable = dict(nothing)
        self.refused: dict[str, tuple[int, Why]] = {}
        """Members that cannot take part, as good as crashed: under which incarnation, and why."""
        self.doubts: dict[str, set[str]] = {}
        """Of each origin, the members that pass on as a fact that more of it was held here."""
        self.down: set[str] = set()
        """Whose links are down."""

    def _held_by(self, member: str, origin: str) -> int:
        return self.known[member].get(origin, self.stable[origin])

    def _holding(self, member: str) -> dict[str, int]:
        return self.stable | self.known[member]

    def _know(self, member: str, origin: str, count: int, turn: Turn) -> None:
        """The member holds so many; and so does their origin, which held them before anybody."""
        for holder in (member, origin):
            if holder != self.me and count > self._held_by(holder, origin):
                self.known[holder][origin] = count
                turn.touched[origin] = None
        # Nobody holds what its origin does not, unless the origin has lost it.
        turn.lost_disk |= origin == self.me and count > self.held[origin]

    def _know_all(self, member: str, counts: Counts, turn: Turn) -> None:
        for origin, count in counts.of(self.members):
            self._know(member, origin, count, turn)

    def _learn(self, sender: str, known: Known, turn: Turn) -> None:
        """The sender knows how far an origin's messages have spread, so now we do."""
        origin, reached = known.origin, known.reached
        is_ours = origin == self.me or self.me not in known.lacking
        if is_ours and reached > self.held[origin]:
            self._doubt(sender, origin, turn)
        elif reached:
            for member in self.others:
                if member not in known.lacking:
                    self._know(member, origin, reached, turn)
        self._commit(sender, origin, known.safe, known.stable, turn)

    def _commit(self, sender: str, origin: str, safe: int, stable: int, turn: Turn) -> None:
        """The sender knows so many to be safe and stable, so now we do."""
        if stable > self.held[origin]:
            self._doubt(sender, origin, turn)
            stable = 0
        if origin == self.me and safe > self.held[origin]:
            self._doubt(sender, origin, turn)
            safe = 0
        self._know(origin, origin, safe, turn)
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

    def _count(self, turn: Turn) -> None:
        """What Q members hold is safe, what all hold is stable."""
        for origin in turn.touched:
            stable = self.stable[origin]
            known = [counts.get(origin, stable) for counts in self.known.values()]
            counts = sorted((*known, self.held[origin]))
            self.safe[origin] = max(self.safe[origin], counts[-self.quorum])
            if counts[0] > stable:
                self._is_stable(origin, counts[0], turn)

    def _is_stable(self, origin: str, count: int, turn: Turn) -> None:
        """All hold so many; who holds no more need not be remembered."""
        self.stable[origin] = turn.stable[origin] = count
        turn.touched[origin] = None
        for counts in self.known.values():
            if counts.get(origin, 0) <= count:
                counts.pop(origin, None)

    def _needless(self, origin: str) -> int:
        """Up to where nobody needs anything: all hold it, and here it is over and done with."""
        return min(self.stable[origin], self._done()[origin])

    def _missing(self) -> list[str]:
        """Origins of which somebody holds more; then the origin itself does."""
        return [one for one in self.others if self._held_by(one, one) > self.held[one]]

    # --- explaining

    def why(self, message: MessageId) -> str:
        origin, seq = message
        if origin not in self.held:
            return f"{origin} is not a member"
        if seq < 1:
            return f"there is no {message}: numbers begin with 1"
        if seq <= self.delivered[origin]:
            return f"{self.me} has delivered {message}"
        if seq > self.held[origin]:
            return self._why_not_held(message)
        reasons = []
        if seq > self.safe[origin]:
            holders = [self.me, *(p for p in self.others if self._held_by(p, origin) >= seq)]
            counted = {*holders, *self.refused}
            rest = [member for member in self.members if member not in counted]
            missing = self.quorum - len(holders)
            reasons.append(f"{missing} more of {named(rest)} to be known to hold it")
        if seq > self.delivered[origin] + 1:
            reasons.append(f"{MessageId(origin, seq - 1)} to be delivered first")
        causes = self._missing_causes(self.causes[origin].get(seq, NOTHING))
        reasons += [f"its cause {cause}" for cause in causes]
        return f"{message} waits at {self.me} for " + ", and for ".join(reasons)

    def _why_not_held(self, message: MessageId) -> str:
        origin, seq = message
        holders = {peer for peer in self.others if self._held_by(peer, origin) >= seq}
        within_reach = holders - self.down - self.refused.keys()
        if within_reach:
            who = f"{named(within_reach)} could supply it"
        elif holders:
            who = f"{named(holders)} could, but cannot be reached"
        else:
            who = "nobody is known to hold it"
        if seq in self.early[origin]:
            first = MessageId(origin, self.held[origin] + 1)
            return f"{message} waits at {self.me} for {first} to arrive first"
        return f"{self.me} does not hold {message}; {who}"

    def describe(self) -> dict[str, Any]:
        """The state, and what the next message of each origin waits for."""
        following = [MessageId(origin, count + 1) for origin, count in self.delivered.items()]
        waiting = [one for one in following if one.seq <= self.held[one.origin]]
        return super().describe() | {"waiting": [self.why(one) for one in waiting]}

    # --- checking

    def check(self, group: Mapping[str, Process]) -> None:
        # Whoever came back as somebody else has lost what it held, and is or will be refused.
        counts = {
            name: one.held
            for name, one in group.items()
            if isinstance(one, Knowledge)
            and self.pinned.get(name, one.incarnation) == one.incarnation
        }
        lost = len(self.members) - len(counts)
        in_memory = (len(text) for texts in self.texts.values() for text in texts.values())
        assert self.text_bytes == sum(in_memory), f"{self.me} counts its texts wrong"
        for origin in self.members:
            held, delivered = self.held[origin], self.delivered[origin]
            safe, stable = self.safe[origin], self.stable[origin]
            everywhere = [count[origin] for count in counts.values()]
            for peer in counts.keys() - {self.me}:
                known = self._held_by(peer, origin)
                assert known <= counts[peer][origin], f"{self.me} overrates {peer}: {known}"
            holders = sum(count >= safe for count in everywhere) + lost
            assert holders >= self.quorum, f"{holders} hold {origin}#{safe}, safe at {self.me}"
            assert stable <= min(everywhere), f"{origin}#{stable} is not stable"
            assert delivered <= min(safe, held), f"{self.me} delivered {origin}#{delivered}"
            kept = range(self._first_in_memory(origin), held + 1)
            assert self.texts[origin].keys() == set(kept), f"{self.me} keeps too much or too little"
            assert self.forgotten[origin] == self._needless(origin)


def named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
