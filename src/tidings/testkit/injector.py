"""What TCP never does to packets, done on purpose above it: loss, repetition, another order.

A connection that lasts loses nothing and keeps the order, so no fault of the network shows how a
protocol behaves on worse links. An injector stands where packets have left the connection and the
process has not seen them yet; a transport that was given one asks it for each batch that comes:

    for packet in injector.pass_on((sender, receiver), packets):
        ...  # as if these had come, and in this order

and, so that nothing is held back for ever, now and then (a timer of 50 ms is often enough):

    for (sender, receiver), packets in injector.release().items():
        ...  # the same

When a connection breaks, ``forget`` its link: what was on the way is gone, and no later connection
may bring it. Where packets get lost, the process is told so once, by ``Start(lossy=True)``. That is
the whole hook. The injector is pure: it has no clock and no socket, and
takes packets for opaque objects. Only orders that name a kind of packet look at them, through
``kind_of``; a transport whose packets come in pairs or triples says there how to find it.

What happens is decided by chance or by order. Chance is drawn for each link apart, from the seed
and the names: the same packets on a link meet the same fates, whatever the other links do.
"""

import random
from collections.abc import Callable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import msgspec

from tidings.core import UsageError

T = TypeVar("T")
LinkName = tuple[str, str]
"""One direction between two members: who sends, who receives."""


class Fate(Enum):
    PASSED = "passed"
    LOST = "lost"
    DUPLICATED = "duplicated"
    """It passes, and a copy of it is held back."""
    HELD = "held"
    """It is held back until a few later ones have passed."""


class _Order(msgspec.Struct):
    """Do this to the next so many packets that fit."""

    fate: Fate
    left: int
    kind: str | None
    link: LinkName | None


class _Lane(Generic[T]):
    """One link: its dice, and what is held back on it."""

    def __init__(self, seed: int, link: LinkName) -> None:
        self.dice = random.Random(f"{seed} {'->'.join(link)}")
        self.come = 0
        self.held: list[tuple[int, T]] = []

    def ripe(self) -> list[T]:
        """Those that have been overtaken often enough, in the order in which they came."""
        ripe = [packet for until, packet in self.held if until <= self.come]
        self.held = [(until, packet) for until, packet in self.held if until > self.come]
        return ripe

    def take_held(self) -> list[T]:
        held, self.held = self.held, []
        return [packet for _, packet in held]


class Injector(Generic[T]):
    def __init__(
        self,
        seed: int = 0,
        *,
        lost: float = 0.0,
        duplicated: float = 0.0,
        reordered: float = 0.0,
        distance: int = 8,
        kind_of: Callable[[T], str] = attrgetter("kind"),
    ) -> None:
        """The shares of packets to which these things happen; each meets at most one of them.

        What is held back is overtaken by ``distance`` later packets at the most, so that never
        more than so many are kept of a link.
        """
        shares = {"lost": lost, "duplicated": duplicated, "reordered": reordered}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise UsageError(f"{name} is a share of packets, from 0 to 1, not {share}")
        if sum(shares.values()) > 1:
            raise UsageError("lost, duplicated and reordered are more than all packets together")
        if distance < 1:
            raise UsageError(f"distance is 1 packet or more, not {distance}")
        self.seed = seed
        self.counts = dict.fromkeys(Fate, 0)
        """How many packets have met each fate."""
        self._chances = [
            (Fate.LOST, lost),
            (Fate.DUPLICATED, lost + duplicated),
            (Fate.HELD, lost + duplicated + reordered),
        ]
        self._distance = distance
        self._kind_of = kind_of
        self._orders: list[_Order] = []
        self._lanes: dict[LinkName, _Lane[T]] = {}

    @classmethod
    def parse(cls, words: str, kind_of: Callable[[T], str] = attrgetter("kind")) -> Self:
        """From words that fit on a command line: ``seed=7 lost=0.1 reordered=0.2 distance=4``."""
        given: dict[str, Any] = {}
        shares = dict.fromkeys(("lost", "duplicated", "reordered"), float)
        known: dict[str, type[int | float]] = {"seed": int, "distance": int, **shares}
        for word in words.split():
            name, _, value = word.partition("=")
            if name not in known:
                raise UsageError(f"the injector knows no {word!r}; it knows {', '.join(known)}")
            try:
                given[name] = known[name](value)
            except ValueError:
                raise UsageError(f"{name} is a number, not {value!r}") from None
        return cls(**given, kind_of=kind_of)

    def order(
        self, fate: Fate, count: int = 1, *, kind: str | None = None, link: LinkName | None = None
    ) -> None:
        """This for the next so many packets, of this kind and on this link if they are named.

        Orders go before chance; of two that fit, the earlier one is carried out first.
        """
        if count < 1:
            raise UsageError(f"an order is for 1 packet or more, not {count}")
        self._orders.append(_Order(fate, count, kind, link))

    def heal(self) -> None:
        """From now on everything passes; what is held back does so at the next ``release``."""
        self._orders.clear()
        self._chances.clear()

    # --- the hook

    def pass_on(self, link: LinkName, packets: Sequence[T]) -> list[T]:
        """What comes now that these have come, and in which order."""
        lane = self._lane(link)
        passing: list[T] = []
        for packet in packets:
            lane.come += 1
            # Both are drawn for every packet, so that an order for one leaves the others' luck.
            roll, overtaken = lane.dice.random(), 1 + int(lane.dice.random() * self._distance)
            by_chance = (fate for fate, up_to in self._chances if roll < up_to)
            fate = self._ordered(link, packet) or next(by_chance, Fate.PASSED)
            self.counts[fate] += 1
            if fate in (Fate.PASSED, Fate.DUPLICATED):
                passing.append(packet)
            passing += lane.ripe()
            if fate in (Fate.HELD, Fate.DUPLICATED):
                lane.held.append((lane.come + overtaken, packet))
        return passing

    def release(self) -> dict[LinkName, list[T]]:
        """What is held back passes now, link by link."""
        held = {link: lane.take_held() for link, lane in self._lanes.items()}
        return {link: packets for link, packets in held.items() if packets}

    def forget(self, link: LinkName) -> None:
        """The connection has broken: what was held back on this link is lost with it."""
        self._lane(link).take_held()

    def _lane(self, link: LinkName) -> _Lane[T]:
        if link not in self._lanes:
            self._lanes[link] = _Lane(self.seed, link)
        return self._lanes[link]

    def _ordered(self, link: LinkName, packet: T) -> Fate | None:
        for order in self._orders:
            of_that_kind = order.kind is None or order.kind == self._kind_of(packet)
            if of_that_kind and order.link in (None, link):
                order.left -= 1
                if not order.left:
                    self._orders.remove(order)
                return order.fate
        return None
