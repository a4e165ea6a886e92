"""What effects mean, as rows of a trace and records on a disk.

What a process wants done is compared with what its member did by meaning: how many effects say it,
and how many items of a block, does not matter. So a deliver effect of seven messages, seven of one
message each and a span of seven are the same.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tidings.core import (
    Accept,
    Broadcast,
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Held,
    Install,
    MessageId,
    Persist,
    Rebind,
    Recall,
    Receive,
    Refuse,
    Send,
    SetTimer,
    Span,
    spans_of,
    text_spans_of,
)
from tidings.trace.schema import DIGESTS
from tidings.trace.segments import DIGEST_BYTES, Block, Mark, Messages, Packets
from tidings.trace.steps import digest_of, digests_of, encode


class MessageRows(msgspec.Struct, frozen=True):
    """What happened to consecutive messages of one origin."""

    kind: str
    origin: str
    first: int
    count: int
    digests: bytes
    view: int | None

    def __str__(self) -> str:
        return f"{self.kind} {Span(self.origin, self.first, self.first + self.count - 1)}"

    def without_first(self, count: int) -> "MessageRows":
        digests = self.digests[DIGEST_BYTES * count :]
        return replace(self, first=self.first + count, count=self.count - count, digests=digests)

    def only_first(self, count: int) -> "MessageRows":
        return replace(self, count=count, digests=self.digests[: DIGEST_BYTES * count])


class PacketRow(msgspec.Struct, frozen=True):
    """One packet to or from one peer; what it says, but for its number."""

    kind: str
    peer: str
    packet_kind: str
    size: int
    about: MessageId | None

    def __str__(self) -> str:
        about = f" {self.about}" if self.about is not None else ""
        way = "to" if self.kind == "send" else "from"
        return f"{self.kind} {self.packet_kind}{about}, {self.size:,} bytes, {way} {self.peer}"


class ViewRow(msgspec.Struct, frozen=True):
    """A view that is installed, and what was delivered before it."""

    number: int
    delivered: dict[str, int]

    def __str__(self) -> str:
        return f"installs view {self.number}"


Fact = MessageRows | PacketRow | ViewRow


class Rows:
    """The rows of one tick, taken one after the other."""

    def __init__(self, block: Block | None) -> None:
        self.index = block.index if block is not None else 0
        """Of the row that comes next."""
        self._facts = deque(_facts_of(block)) if block is not None else deque[tuple[Fact, int]]()

    @property
    def next(self) -> Fact | None:
        return self._facts[0][0] if self._facts else None

    def take_packet(self, would: PacketRow) -> int | None:
        """Take this packet, and return its number; None if something else comes next."""
        if self.next != would:
            return None
        self.index += 1
        return self._facts.popleft()[1]

    def take_view(self, would: ViewRow) -> bool:
        is_so = self.next == would
        if is_so:
            self._facts.popleft()
            self.index += 1
        return is_so

    def take_messages(self, would: MessageRows) -> MessageRows | None:
        """Take these, in as many pieces as they stand there; what is not there, if not all are."""
        while would.count:
            here = self.next
            if not isinstance(here, MessageRows):
                return would
            count = min(here.count, would.count)
            if here.only_first(count) != would.only_first(count):
                return would
            self._facts.popleft()
            if count < here.count:
                self._facts.appendleft((here.without_first(count), 0))
            self.index += count
            would = would.without_first(count)
        return None


def _facts_of(block: Block) -> Iterator[tuple[Fact, int]]:
    for item in block.items:
        match item:
            case Messages(kind, origin, first, count, digests, view):
                yield MessageRows(kind, origin, first, count, digests, view), 0
            case Packets(kind, peers, packet_kind, size, origin, seq):
                about = MessageId(origin, seq) if origin is not None and seq is not None else None
                for peer, number in peers:
                    yield PacketRow(kind, peer, packet_kind, size, about), number
            case Mark("view" | "join", view, delivered) if view is not None:
                yield ViewRow(view, delivered or {}), 0


class PacketToSend(msgspec.Struct, frozen=True):
    """One packet for these peers, in any order among them."""

    to: tuple[str, ...]
    packet_kind: str
    size: int
    about: MessageId | None
    digest: bytes

    def row(self, peer: str) -> PacketRow:
        return PacketRow("send", peer, self.packet_kind, self.size, self.about)


class Wanted(msgspec.Struct):
    """What one step comes to."""

    view: int
    """Which view is installed then."""
    facts: list[Fact | PacketToSend] = []
    """In the order of their rows."""
    records: bytes = b""
    """The digests of what is to be persisted."""
    timers: dict[str, bool] = {}
    """Which timers run from now on, and which no longer do."""
    recalls: list[Recall] = []


def wanted_by(events: Sequence[Event], effects: Iterable[Effect], digest: str, view: int) -> Wanted:
    """What a member does that hands these events to its process at once, and performs the effects.

    Of events handed over at once, those that brought a packet have their rows first. ``view`` is
    the one that is installed before.
    """
    wanted = Wanted(view)
    records = list[Any]()
    texts = deque(deque(event.texts) for event in events if isinstance(event, Broadcast))
    for event in events:
        if isinstance(event, Receive):
            packet, size = event.packet, len(encode(event.packet))
            row = PacketRow("receive", event.sender, packet.kind, size, packet.about)
            wanted.facts.append(row)
    for effect in effects:
        match effect:
            case Accept(ids):
                for span in spans_of(ids):
                    those = [_next_text(texts) for _ in range(len(span))]
                    wanted.facts.append(
                        _rows("broadcast", span, DIGESTS[digest](those), wanted.view)
                    )
            case Refuse() if texts:
                texts.popleft()
            case Held(ids):
                wanted.facts += [_rows("held", span) for span in spans_of(ids)]
            case Deliver(messages):
                for one in text_spans_of(messages):
                    span = Span(one.origin, one.first, one.last)
                    wanted.facts.append(_rows("deliver", span, DIGESTS[digest](one.texts)))
            case Send(to, packet):
                encoded = encode(packet)
                about = (packet.kind, len(encoded), packet.about, digest_of(encoded))
                wanted.facts.append(PacketToSend(to, *about))
            case Persist(more):
                records += more
            case SetTimer(name):
                wanted.timers[name] = True
            case CancelTimer(name):
                wanted.timers[name] = False
            case Recall():
                wanted.recalls.append(effect)
            case Install(_, number, delivered) if number is not None:
                wanted.view = number
                before = {origin: last for origin, last in delivered.items() if last}
                wanted.facts.append(ViewRow(number, before))
            case Rebind(ids):
                wanted.facts += [_rows("rebind", span, b"", wanted.view) for span in spans_of(ids)]
    wanted.records = digests_of(records)
    return wanted


def _rows(kind: str, span: Span, digests: bytes = b"", view: int | None = None) -> MessageRows:
    return MessageRows(kind, span.origin, span.first, len(span), digests, view)


def _next_text(texts: deque[deque[bytes]]) -> bytes:
    """The next one of the Broadcast in hand; more ids than texts show in the digests."""
    while texts and not texts[0]:
        texts.popleft()
    return texts[0].popleft() if texts else b""


def counts_after(counts: Mapping[str, int], facts: Iterable[Any]) -> dict[str, int]:
    """How many messages of each origin are delivered after these."""
    after = dict(counts)
    for fact in facts:
        if isinstance(fact, MessageRows) and fact.kind == "deliver":
            after[fact.origin] = fact.first + fact.count - 1
        elif isinstance(fact, ViewRow):
            after |= fact.delivered
    return after
