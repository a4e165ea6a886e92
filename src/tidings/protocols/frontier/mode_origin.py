"""Mode origin: holders acknowledge to the origin, which informs everybody.

Three delays, 3(n-1) packets. If the origin dies, a holder that does not hear in time that all hold
what it holds asks everybody (ASKING). A member that is asked either knows that it is safe and says
so, or remembers the question, and will itself ask everybody as soon as it holds as much, whatever
it hears until then. So the asker gets one answer, or hears from every correct member.

The origin names the members that are not known to hold what is safe. They may hear of it from
nobody else, so each holder owes them a question, too.
"""

from collections.abc import Sequence
from typing import ClassVar

from tidings.core import MessageId
from tidings.protocols.frontier.mode import Mode
from tidings.protocols.frontier.packets import Asking, Commit, Counts, Holding, Known
from tidings.protocols.frontier.turn import Turn

COMMIT_MS = 5.0
"""How long an origin that has a majority waits for the rest before it sends COMMIT."""
ASK_MS = 200.0
"""How long a holder waits to hear from the origin that all hold what it holds."""


class OriginMode(Mode):
    name: ClassVar[str] = "origin"

    reached: dict[str, int]
    """So many all members hold, except those that are owed a question about it."""
    pending: dict[str, int] = {}
    """What was held, and not announced, when the ask timer was set."""
    heard: dict[str, int] = {}
    """Up to where somebody asked who holds it, and was not answered yet."""
    owed: dict[str, dict[str, int]] = {}
    """By member and origin, what it may lack, or may know more about."""

    def speak(self, turn: Turn) -> None:
        self._commit(turn)
        acknowledgements, held = self.acknowledgements, self.log.held
        for origin in turn.grown | turn.vouch:
            if origin != self.me:
                turn.send((origin,), Holding(*acknowledgements.of_origins([origin])))
                acknowledgements.vouch([origin])
        for origin in acknowledgements.news():
            # Nobody needs to be asked: all hold it but those owed, and nobody waits to hear of it.
            if held[origin] <= self._spread(origin) and origin not in self.heard:
                acknowledgements.announce([origin])
        news = acknowledgements.news()
        if not news or "ask" not in self.timers.running:
            self.pending = {origin: held[origin] for origin in news}
        self.timers.keep("ask", bool(news or self._debts()), ASK_MS, turn)

    def _spread(self, origin: str) -> int:
        """So many are held by all members, except for those that are owed a question."""
        return max(self.knowledge.stable[origin], self.reached[origin])

    def time_out(self, name: str, turn: Turn) -> None:
        match name:
            case "commit":
                turn.commit = True
            case "ask":
                self.ask(turn)

    # --- as an origin

    def _commit(self, turn: Turn) -> None:
        known = self._own_known(is_riding=turn.data is not None)
        due = known != self.committed
        if turn.data is not None:
            commit = [known] if due else []
            turn.send(self.others, self.acknowledgements.data(turn.data, (), *commit))
        elif due and (turn.commit or self._is_complete()):
            turn.send(self.others, Commit((known,)))
        else:
            self.timers.keep("commit", due, COMMIT_MS, turn)
            return
        self.committed = known
        self.timers.keep("commit", False, COMMIT_MS, turn)

    def _own_known(self, is_riding: bool) -> Known:
        """How far this process's messages have spread.

        With a new message goes what holds of all that can be reached, so that it names few.
        """
        safe, stable = self.knowledge.safe[self.me], self.knowledge.stable[self.me]
        holding = {one: self.knowledge.held_by(one, self.me) for one in self.others}
        lacking = [one for one in self.others if holding[one] < safe]
        if is_riding:
            unavailable = self.peers.unavailable()
            lacking = [one for one in lacking if one in unavailable]
        if not lacking:
            return Known(self.me, safe, stable)
        reached = min([safe, *(holding[one] for one in self.others if one not in lacking)])
        return Known(self.me, safe, stable, reached, tuple(lacking))

    def _is_complete(self) -> bool:
        """Whether all that can be reached hold everything."""
        unavailable, held = self.peers.unavailable(), self.log.held[self.me]
        return self.knowledge.safe[self.me] == held and all(
            self.knowledge.held_by(one, self.me) == held
            for one in self.others
            if one not in unavailable
        )

    # --- as a holder

    def learn(self, sender: str, known: Known, turn: Turn) -> None:
        super().learn(sender, known, turn)
        origin, reached = known.origin, known.reached
        is_for_us = origin != self.me and self.me not in known.lacking
        if is_for_us and reached > self.reached[origin]:
            self.reached[origin] = reached
            for peer in known.lacking:
                self.owe(peer, origin, reached)

    def link_up(self, peer: str) -> None:
        """The peer may not have heard the last question, or not remember it."""
        for origin in self.others:
            if self.log.held[origin] > self.knowledge.stable[origin]:
                self.owe(peer, origin, self.log.held[origin])

    def owe(self, peer: str, origin: str, count: int) -> None:
        """A debt only grows: a packet about less may come later."""
        if peer != origin:
            owed = self.owed.setdefault(peer, {})
            owed[origin] = max(owed.get(origin, 0), count)

    def _debts(self) -> dict[str, list[str]]:
        """By member, the origins it is to be asked about, if it can be reached."""
        unavailable = self.peers.unavailable()
        debts: dict[str, list[str]] = {}
        for peer, owed in list(self.owed.items()):
            for origin, count in list(owed.items()):
                if count <= self.knowledge.stable[origin]:
                    del owed[origin]
            if not owed:
                del self.owed[peer]
            elif peer not in unavailable:
                debts[peer] = list(owed)
        return debts

    def ask(self, turn: Turn) -> None:
        """Everybody about what has waited since the timer was set; others what they are owed."""
        held = self.log.held
        overdue = [
            origin
            for origin in self.acknowledgements.news()
            if origin in self.heard or self.pending.get(origin, 0) > self._spread(origin)
        ]
        if overdue:
            turn.send(self.others, self._question(overdue))
        self.acknowledgements.announce(overdue)
        for origin in overdue:
            if self.heard.get(origin, 0) <= held[origin]:
                self.heard.pop(origin, None)
        for peer, origins in self._debts().items():
            rest = [origin for origin in origins if origin not in overdue]
            if rest:
                turn.send((peer,), self._question(rest))
            del self.owed[peer]

    def _question(self, origins: Sequence[str]) -> Asking:
        ids = sorted(MessageId(origin, self.log.held[origin]) for origin in origins)
        digests = self.acknowledgements.comparison.digests(origins)
        return Asking(Counts(some=tuple(ids)), digests)

    def known_of(self, origin: str) -> Known:
        reached, known = self.reached[origin], super().known_of(origin)
        if reached <= known.stable:
            return known
        others = self.others
        lacking = (one for one in others if self.knowledge.held_by(one, origin) < reached)
        return Known(origin, known.safe, known.stable, reached, tuple(lacking))

    def remember(self, origin: str, count: int) -> None:
        if count > self.acknowledgements.announced[origin]:
            self.heard[origin] = max(self.heard.get(origin, 0), count)
