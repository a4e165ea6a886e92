"""interval-history (the third note): whole histories in a few ranges, and a group that grows.

The idea. As in history_sets.py a message names its causal past, is relayed on the first copy, and
is delivered when enough processes hold it and its past is delivered. Two things are new. Ids are
kept as ranges of sequence numbers per origin, and ranges that touch melt into one: what arrives
roughly in order takes one range per origin, however long the history. And every message carries
the member list of its time: it is sent to that list alone, half of *that* list must hold it, and
the guarantees are owed to those it lists. Everybody else ignores it.

Joining. A newcomer starts with the list of any member and itself, and with no history. It sends
JOIN(list) to that list and may broadcast at once: its messages bring their list along, so nobody
needs to have heard of it first. A process merges lists by union, on JOIN and before each
delivery, and broadcasts to the merged list from then on. So along every causal chain lists only
grow, and newcomers who came at the same time through different members have incomparable lists
until somebody who knows both speaks. Nobody answers a JOIN: no guarantee needs it, for a message
is owed only to those whom its own list names. (The price: two such newcomers, in a group where
nobody else says a word, do not hear each other.)

What of the past concerns the reader. A newcomer can never deliver what was not addressed to it,
so it must not wait for it. The lists of one origin only grow. Therefore the first sequence number
of each of its lists says to whom each of its messages went, and a reader needs of that origin's
ranges only what comes after the first list that names the reader. A message carries these (first,
list) pairs for each origin in its past, and for its own. They are complete: a copy brings all
pairs of its origin so far, and its origin knows them first-hand.

Where a list grows under way. To skip is not always safe. Say p1 broadcasts x to p1 p2 p3, hears
of the newcomer p4, broadcasts m to all four and crashes, and every copy of x is lost. Now p4,
to whom x is nothing, counts half of the four and delivers m; p2 and p3 wait for x for ever. That
breaks Uniform Agreement though only one process has crashed. The note does not see it, and
skipping alone does not mend it. It takes two rules about the messages that the origin had not
delivered itself when it broadcast m; the lists of these, and that of m, are *under way*.
- A process relays m, and counts as a holder, when it holds those of them that went to a smaller
  list, as far as they are addressed to it.
- m is safe when of *every* list under way at least half hold it.
Then some correct member of each such list has relayed m, and therefore holds, and relays, what
went to that list before. What the origin had delivered needs no such care: it was safe already.
Usually one list is under way, and both rules say nothing new.

Why the guarantees hold, for a message whose list, with those in its past, keeps its majority.
- No Duplication: what is held is not taken again, and what is delivered waits no more.
- No Creation: a relay is the very packet that came; links do not invent.
- Validity: the correct members of each list under way receive all that its correct origin sent,
  so they relay, and they are enough. All that the origin names it delivers itself.
- Uniform Agreement: by induction over the past. Some correct member of each list under way has
  relayed the message; so it reaches all correct addressees, and so does, by the rules above, what
  they must hold to relay it; so each of them counts enough. Of the past they wait for what the
  origin had delivered, which all its correct addressees deliver, and for what was under way.
- Causal Order: the condition of delivery, minus what is not addressed to the reader. It is
  transitive, since a list contains the lists of everything in its past.

What it costs. n(n-1) packets and two delays for one broadcast, one packet per member for a JOIN.
At rest: two ranges per origin (held and delivered) and the pairs, one more at most per origin and
join. Until then `held` has a gap for every message that was overtaken, so with delays of any
length it may be as long as the explicit set; that is the note's own warning. What is *delivered*
has never a gap, because a message names its origin's earlier ones.

Where we differ from the note, besides the above. All that history_sets.py says applies. The note
waits for more than half of the list; at least half is enough. It has no JOIN. It keeps three sets
of ids; one's own broadcasts are the numbers up to ``seq`` and need no set.
"""

from collections.abc import Iterator

import msgspec

from tidings.core import (
    Accept,
    Broadcast,
    Choose,
    Deliver,
    Effect,
    Event,
    Held,
    Install,
    IntervalSet,
    Members,
    Message,
    MessageId,
    Packet,
    Receive,
    Send,
    Span,
    Start,
    listed,
    ordered,
    quorum,
    take_first,
)
from tidings.protocols.past import PastNaming

Ranges = tuple[tuple[int, int], ...]

Lists = dict[int, Members]
"""The member lists that one origin has used, each under the first message it was used for."""

_ALWAYS_THE_FIRST = ((1, 0),)


class CopyWithRanges(Packet, frozen=True, tag="copy"):
    """A message, its past, and to whom the messages of its past were addressed.

    ``past`` is all that the origin had broadcast or delivered; of its own it had delivered the
    first ``settled``. ``views`` are the distinct lists. ``since`` has, for an origin, the first
    message of each list and the position of that list in ``views``; an origin that is left out
    has used the list at position 0 from the start, so a group that does not grow says it once.
    """

    id: MessageId
    text: bytes
    past: tuple[tuple[str, Ranges], ...]
    settled: int
    views: tuple[Members, ...]
    since: tuple[tuple[str, Ranges], ...] = ()

    def lists(self) -> dict[str, Lists]:
        """The lists of every origin in the past, and of the origin of this message."""
        since = dict(self.since)
        return {
            origin: {
                first: self.views[position]
                for first, position in since.get(origin, _ALWAYS_THE_FIRST)
            }
            for origin in (self.id.origin, *dict(self.past))
        }

    def __str__(self) -> str:
        lists = self.lists()
        *_, addressees = lists[self.id.origin].values()
        past = [Span(origin, *ends) for origin, ranges in self.past for ends in ranges]
        grown = [
            f"; {origin}#{first}.. to {' '.join(members)}"
            for origin, used in lists.items()
            for first, members in used.items()
        ]
        return "".join(
            (
                f"copy {self.id} to {' '.join(addressees)}",
                f" after {listed(*past)}" if past else "",
                f", settled {self.settled}" if self.settled else "",
                *(grown if self.since else ()),
            )
        )


class JoinRequest(Packet, frozen=True, tag="join"):
    """The sender is new; this is the list it starts with."""

    members: Members

    def __str__(self) -> str:
        return f"join {' '.join(self.members)}"


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A message not delivered yet, and the lists under way when it was broadcast, its own last."""

    text: bytes
    lists: tuple[Members, ...]


class IntervalHistory(PastNaming):
    grows = True

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.held: dict[str, IntervalSet] = {}
        """Everything ever received or broadcast here, per origin."""
        self.delivered: dict[str, IntervalSet] = {}
        self.lists: dict[str, Lists] = {}
        self.waiting: dict[MessageId, Waiting] = {}
        self.kept_back: dict[MessageId, CopyWithRanges] = {}
        """Copies to relay as soon as what went to a smaller list is held."""
        self.missing: dict[MessageId, dict[str, IntervalSet]] = {}
        """Of each waiting message the past that concerns this process, as far as not struck off."""

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Start(joining=True):
                yield Send(self.others, JoinRequest(self.members))
            case Receive(_, JoinRequest(members)):
                yield from self._merge(members)
            case Broadcast(texts):
                for text in texts:
                    copy = self._write(text)
                    yield Accept((copy.id,))
                    yield from self._take(self.me, copy)
            case Receive(sender, CopyWithRanges() as copy):
                yield from self._take(sender, copy)

    def _merge(self, members: Members) -> Iterator[Effect]:
        """Broadcast to these too from now on."""
        if not set(members) <= set(self.members):
            self.members = ordered((*self.members, *members))
            yield Install(self.members)

    # --- writing

    def _write(self, text: bytes) -> CopyWithRanges:
        """The user's text as this process's next message."""
        past = {origin: numbers.ranges for origin, numbers in sorted(self.delivered.items())}
        settled = past[self.me][-1][1] if self.me in past else 0
        if self.seq > 0:
            past[self.me] = ((1, self.seq),)
        self.seq += 1
        mine = self.lists.setdefault(self.me, {})
        if self.members not in mine.values():
            mine[self.seq] = self.members
        views, since = self._addresses({self.me: (), **past})
        copy_id = MessageId(self.me, self.seq)
        return CopyWithRanges(copy_id, text, tuple(past.items()), settled, views, since)

    def _addresses(
        self, origins: dict[str, Ranges]
    ) -> tuple[tuple[Members, ...], tuple[tuple[str, Ranges], ...]]:
        """The lists of these origins, each distinct list once; see Copy."""
        positions: dict[Members, int] = {}
        since = {
            origin: tuple(
                (first, positions.setdefault(members, len(positions)))
                for first, members in self.lists[origin].items()
            )
            for origin in origins
        }
        named = (item for item in since.items() if item[1] != _ALWAYS_THE_FIRST)
        return tuple(positions), tuple(named)

    # --- holding and relaying

    def _take(self, sender: str, copy: CopyWithRanges) -> Iterator[Effect]:
        if copy.id in self.waiting:
            yield from self._count(copy.id, {sender})
        elif copy.id.seq not in self.held.get(copy.id.origin, ()):
            lists = copy.lists()
            if self.me in tuple(lists[copy.id.origin].values())[-1]:
                yield from self._hold(copy, lists)
                yield from self._relay_and_count(copy.id, {copy.id.origin, sender})

    def _hold(self, copy: CopyWithRanges, lists: dict[str, Lists]) -> Iterator[Effect]:
        origin = copy.id.origin
        self.held.setdefault(origin, IntervalSet()).add(copy.id.seq)
        self.lists.setdefault(origin, {}).update(lists[origin])
        self.waiting[copy.id] = Waiting(copy.text, lists_under_way(copy, lists[origin]))
        self.holders[copy.id] = set()
        self.missing[copy.id] = {
            origin: IntervalSet(ranges).since(first)
            for origin, ranges in copy.past
            if (first := first_for(self.me, lists[origin])) is not None
        }
        self.kept_back[copy.id] = copy
        yield Held((copy.id,))

    def _relay_and_count(self, message: MessageId, holders: set[str]) -> Iterator[Effect]:
        """What has just come may be what later messages of its origin were kept back for.

        All relays leave before the first delivery, and before anybody counts as a holder.
        """
        relayed = [one for one in sorted(self.kept_back) if self._may_relay(one, message.origin)]
        for one in relayed:
            addressees = self.waiting[one].lists[-1]
            others = tuple(member for member in addressees if member != self.me)
            yield Send(others, self.kept_back.pop(one))
        yield from self._count(message, holders)
        for one in relayed:
            yield from self._count(one, {self.me})

    def _may_relay(self, message: MessageId, origin: str) -> bool:
        return message.origin == origin and self._kept_back_for(message) <= self.held[origin]

    def _kept_back_for(self, message: MessageId) -> IntervalSet:
        """What was under way to smaller lists that name this process."""
        lists = self.lists[message.origin]
        first = first_for(self.me, lists)
        assert first is not None, f"{self.me} holds {message}, which is not addressed to it"
        begin = max(first, self.kept_back[message].settled + 1)
        end = max(since for since in lists if since <= message.seq) - 1
        return IntervalSet([(begin, end)] if begin <= end else [])

    # --- delivering

    def _is_safe(self, message: MessageId) -> bool:
        """Whether of every list under way one who holds it is bound to be correct."""
        holders = self.holders[message]
        return all(
            len(holders.intersection(members)) >= quorum(len(members))
            for members in self.waiting[message].lists
        )

    def _missing_cause(self, message: MessageId) -> MessageId | None:
        """One origin's messages are delivered in order: the last is the one to wait for."""
        missing = self.missing[message]
        for origin, numbers in list(missing.items()):
            if not numbers <= self.delivered.get(origin, IntervalSet()):
                return MessageId(origin, numbers.ranges[-1][1])
            del missing[origin]
        return None

    def _deliver(self, message: MessageId) -> Iterator[Effect]:
        delivered = self.delivered.setdefault(message.origin, IntervalSet())
        assert message.seq not in delivered, f"{self.me} would deliver {message} twice"
        delivered.add(message.seq)
        done = self.waiting.pop(message)
        del self.holders[message], self.missing[message]
        yield from self._merge(done.lists[-1])
        yield Deliver((Message(*message, done.text),))

    # --- for people

    def why(self, message: MessageId) -> str:
        if message.seq in self.delivered.get(message.origin, ()):
            return f"{self.me} has delivered {message}"
        if message not in self.waiting:
            first = first_for(self.me, self.lists.get(message.origin, {})) or 1
            if message.seq < first:
                return f"{message} is not addressed to {self.me}"
            return f"{self.me} does not hold {message}"
        reasons = [*self._lacks(message)]
        for origin, numbers in self.missing[message].items():
            lacking = (n for n in numbers if n not in self.delivered.get(origin, ()))
            reasons += [f"its cause {MessageId(origin, seq)}" for seq in lacking]
        return f"{message} waits at {self.me} for " + ", and for ".join(reasons)

    def _lacks(self, message: MessageId) -> Iterator[str]:
        holders = self.holders[message]
        for members in self.waiting[message].lists:
            lacking = quorum(len(members)) - len(holders.intersection(members))
            if lacking > 0:
                silent = ", ".join(member for member in members if member not in holders)
                yield f"{lacking} more of {silent} to hold it"


def first_for(reader: str, lists: Lists) -> int | None:
    """The first message that is addressed to the reader; all later ones are."""
    return next((first for first, members in lists.items() if reader in members), None)


def lists_under_way(copy: CopyWithRanges, lists: Lists) -> tuple[Members, ...]:
    """The lists of what its origin had not delivered when it broadcast this, and of this."""
    oldest = max(first for first in lists if first <= copy.settled + 1)
    return tuple(members for first, members in lists.items() if first >= oldest)
