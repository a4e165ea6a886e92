"""What the members of a frontier group say to each other.

Every packet states facts that stay true: who holds how much, how much is known to be safe. So a
packet may come late, twice or after a newer one, and does no harm. docs/frontier.md has the rules.

What a packet may say depends on its sender. DATA comes from its origin alone, HOLDING, ASKING and
``held`` in STATE count for their sender alone, and a REFUSAL is about its sender or its receiver.
PUSH, TWINS, ``safe`` and ``stable`` are facts that anybody may pass on.

An origin that restarted may have used numbers twice, if its disk was an older copy. Its messages
are marked as such, and whoever gets one acknowledges not only how much it holds but also what, by
a digest. So two members that hold different messages under one name notice it by the very packets
without which neither would deliver them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.core import MOST_MEMBERS, Members, MessageId, Packet, Span, listed
from tidings.core.renaming import (
    Digests,
    NamedDigests,
    SortedIds,
    SortedNames,
    Vector,
)

Why = Literal["lost disk", "two histories"]
"""Why a member is refused."""

SHOWN = 4
"""How many characters of a digest are shown."""


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """How far, origin by origin: the few that matter, or else one number for every member."""

    some: SortedIds = ()
    all: Vector = ()

    def of(self, members: Members) -> Iterator[tuple[str, int]]:
        if self.all:
            yield from zip(members, self.all, strict=True)
        else:
            yield from self.some

    def __bool__(self) -> bool:
        return bool(self.some or self.all)

    def __str__(self) -> str:
        return (
            str(self.all) if self.all else listed(*(f"{one}<={count}" for one, count in self.some))
        )


NOTHING = Counts()


def counts_of(origins: Iterable[str], counts: Mapping[str, int]) -> Counts:
    """The counts of these origins; the counts of all when that takes less space.

    A pair takes about as much as three numbers, so a third of the members is the border. To say
    more than was asked for is harmless: it is true as well.
    """
    few = [MessageId(origin, counts[origin]) for origin in origins]
    if 3 * len(few) <= len(counts):
        return Counts(some=tuple(sorted(few)))
    return Counts(all=tuple(counts.values()))


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one origin in a row, from ``id`` on.

    ``causes`` is what the origin had newly delivered since its message before these. They were
    all broadcast together, so what the first one waits for is enough for all of them.
    """

    id: MessageId
    texts: tuple[bytes, ...]
    causes: Counts = NOTHING

    @property
    def last(self) -> int:
        return self.id.seq + len(self.texts) - 1

    def __str__(self) -> str:
        span = Span(*self.id, self.last)
        return f"{span} after {self.causes}" if self.causes else str(span)

    def ids(self) -> Iterator[MessageId]:
        origin, first = self.id
        for seq in range(first, first + len(self.texts)):
            yield MessageId(origin, seq)

    def since(self, seq: int) -> "Batch":
        """Without the messages before this one; their causes are the business of the first."""
        origin, first = self.id
        if seq <= first:
            return self
        return Batch(MessageId(origin, seq), self.texts[seq - first :])


class Known(msgspec.Struct, frozen=True, array_like=True):
    """Of this origin so many are safe (half of the members hold them), so many stable (all do)."""

    origin: str
    safe: int
    stable: int
    reached: int = 0
    """So many are held by all but those that are lacking."""
    lacking: SortedNames = ()

    def __str__(self) -> str:
        lacking = f" lacking {' '.join(self.lacking)}" if self.lacking else ""
        reached = f" reached {self.reached}{lacking}" if self.reached else ""
        return f"{self.origin} safe {self.safe} stable {self.stable}{reached}"


def _short(digest: tuple[str, bytes]) -> str:
    origin, head = digest
    return f"{origin}={head.hex()[:SHOWN]}"


# --- packets

MOST_BATCHES = 5_000
"""How many of them one PUSH may have. Each but the first has causes, so no more fit into the
largest ``push_bytes``."""


class Data(Packet, frozen=True, tag="data"):
    """New messages of the sender; with them goes what there is to acknowledge or to commit."""

    batch: Batch
    held: Counts = NOTHING
    commit: Annotated[tuple[Known, ...], Meta(max_length=1)] = ()
    """What is known of the sender's earlier messages, if that is new."""
    digests: NamedDigests = ()
    """Of what is acknowledged, where it matters."""
    restarted: bool = False
    """Whether the sender has restarted, and nothing that it broadcast since is stable."""

    @property
    def about(self) -> MessageId:
        return self.batch.id

    def may_come_from(self, sender: str) -> bool:
        return self.batch.id.origin == sender and all(one.origin == sender for one in self.commit)

    def __str__(self) -> str:
        return listed(
            f"data {self.batch}",
            self.held and f"holding {self.held}",
            *map(_short, self.digests),
            *(f"commit {known}" for known in self.commit),
            self.restarted and "restarted",
        )


class Holding(Packet, frozen=True, tag="holding"):
    """An acknowledgement: the sender holds everything up to these."""

    held: Counts
    digests: NamedDigests = ()

    def __str__(self) -> str:
        return listed(f"{self.kind} {self.held}", *map(_short, self.digests))


class Asking(Packet, frozen=True, tag="asking"):
    """The same, from a member that has not heard that they are stable, and wants to know."""

    held: Counts
    digests: NamedDigests = ()

    __str__ = Holding.__str__


class Commit(Packet, frozen=True, tag="commit"):
    known: Annotated[tuple[Known, ...], Meta(max_length=MOST_MEMBERS)]

    def __str__(self) -> str:
        return f"commit {listed(*self.known)}"


class Pull(Packet, frozen=True, tag="pull"):
    """The sender lacks these and asks for them."""

    wanted: Annotated[tuple[Span, ...], Meta(max_length=MOST_MEMBERS)]

    def __str__(self) -> str:
        return f"pull {listed(*self.wanted)}"


class Push(Packet, frozen=True, tag="push"):
    """What was asked for, as its origins broadcast it."""

    batches: Annotated[tuple[Batch, ...], Meta(max_length=MOST_BATCHES)]
    restarted: SortedNames = ()
    """Origins that may have used numbers twice, as far as the sender knows."""

    def __str__(self) -> str:
        return listed(
            f"push {listed(*self.batches)}", *(f"{one} restarted" for one in self.restarted)
        )


class State(Packet, frozen=True, tag="state"):
    """All that the sender knows; if it asks, it is answered with what it lacks, if anything."""

    held: Vector
    safe: Vector
    stable: Vector
    yours: Vector
    """What the sender knows the receiver to hold."""
    asks: bool = False
    greets: bool = False
    """The sender has just started and has to hear from the receiver, whatever it knows."""
    digests: Digests = ()
    """Of what the sender holds, origin by origin; empty where it is not known."""

    def __str__(self) -> str:
        vectors = {"held": self.held, "safe": self.safe, "stable": self.stable, "yours": self.yours}
        counts = listed(*(f"{name} {vector}" for name, vector in vectors.items() if any(vector)))
        digests = listed(*(digest.hex()[:SHOWN] or "-" for digest in self.digests))
        return "state " + listed(
            counts or "nothing",
            any(self.digests) and f"digests ({digests})",
            self.asks and "asks",
            self.greets and "greets",
        )


class Twins(Packet, frozen=True, tag="twins"):
    """These two hold different messages of an origin, under the same names, up to this count."""

    origin: str
    holders: SortedNames
    count: int

    def __str__(self) -> str:
        return f"twins {self.origin}<={self.count} at {' '.join(self.holders)}"


class Refusal(Packet, frozen=True, tag="refusal"):
    """A member under this incarnation cannot take part: the sender itself, or the receiver.

    Any other process of the same name is not meant: a program that was started twice must not
    stop the one that was there before.
    """

    member: str
    incarnation: int
    why: Why

    def __str__(self) -> str:
        return f"refusal {self.member} incarnation {self.incarnation}, {self.why}"


REASONS: dict[Why, str] = {
    "lost disk": "{} lost its disk; its name cannot return to this group",
    "two histories": "{} used numbers twice, so that members hold different messages under one "
    "name; its name cannot return to this group",
}
"""What a member is refused for, in our own words and never in those of a peer."""
