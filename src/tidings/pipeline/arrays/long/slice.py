"""Some neighbouring processes of a long run, as readers of everything and as origins.

The whole trace is read twice, one piece after the other: first to fill the tables, then, in
``order``, to ask them.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import NOTHING, Array, Found, joined
from tidings.pipeline.arrays.long.order import Early, Order, Strays, Texts
from tidings.pipeline.arrays.long.outline import Outline
from tidings.pipeline.arrays.long.tables import BELOW, Tables, read_events
from tidings.pipeline.arrays.rows import Directory


class SliceFindings(NamedTuple):
    """What one slice says of its processes."""

    counts: Counter[str]
    """Deliveries; those compared with a broadcast that can be known, those judged for Causal Order;
    and how many there are of each kind of violation."""
    found: dict[str, Found]
    """The first violations, or all, by kind: repeated, invented, renamed, early."""
    unreached: tuple[int, ...] | None
    """Process, index, origin and seq of the first delivery whose broadcast may still come."""
    missing: dict[int, bytes]
    """For each of its processes the messages it did not deliver, as packed bits."""
    owing: dict[int, bytes]
    """Those among them that are addressed to it; empty where everybody is addressed alike."""
    sent: bytes
    """The messages that were broadcast, as packed bits; empty if all were."""


def judge_slice(
    mine: Sequence[int], outline: Outline, directory: Directory, most: int | None
) -> SliceFindings:
    """Judge some neighbouring processes, as readers of everything and as origins."""
    return _Slice(mine, outline, directory, most).findings()


class _Slice:
    def __init__(
        self, mine: Sequence[int], outline: Outline, directory: Directory, most: int | None
    ) -> None:
        self.mine = mine
        self.outline = outline
        self.directory = directory
        self.most = most
        self.tables = Tables(mine, outline)
        self.names = self.tables.names
        self.known = outline.known
        begin, end = min(mine), max(mine)
        self.begin = int(outline.base[begin])
        self.end = int(outline.base[end] + outline.size[end])
        """The messages of our own origins stand between these two."""
        self.has_strays = False
        self.kept: list[tuple[int, Array, Array]] | None = [] if outline.is_read_once else None
        """What the second reading needs, while there is nothing unusual to look at."""
        self.repeats: list[Found] = []
        self.deliveries = 0

    def findings(self) -> SliceFindings:
        order, tables = self._order(self._listen()), self.tables
        strays = Strays(*joined(order.strays, len(Strays._fields)))
        is_given = self._are_given(strays)
        found = {
            "repeated": Found.joined([*self.repeats, self._repeated(strays)]),
            "invented": Found.joined(
                [self._invented(strays, is_given), self._altered(order.texts)]
            ),
            "renamed": Found.joined(order.renamed),
            "early": self._with_causes(order.early),
        }
        counts = Counter({kind: len(one.position) for kind, one in found.items()})
        counts["early"] = sum(len(one.message) for one in order.early)
        counts["deliveries"], counts["ordered"] = self.deliveries, order.judged
        counts["compared"] = self.deliveries - int(is_given.sum())
        owing = {reader: tables.owing(reader) for reader in self.mine}
        return SliceFindings(
            counts=counts,
            found={kind: one.first(self.most) for kind, one in found.items()},
            unreached=self._unreached(strays, is_given),
            missing={reader: packed(tables.missing(reader)) for reader in self.mine},
            owing={reader: packed(flags) for reader, flags in owing.items() if flags is not None},
            sent=b"" if tables.sent_at is None else packed(tables.sent_at != NOTHING),
        )

    # --- the first reading: who delivered what, and where; what everybody heard

    def _listen(self) -> Array:
        """Fill the tables; the messages, if any, of which not everybody heard the same text."""
        heard = np.zeros(self.end - self.begin, np.int64)
        suspects: list[Array] = []
        for process, events in self._events("digest", "view", own=("index",)):
            message, is_named = self.names.places(events)
            if is_named is not None:
                self.kept = None
                if process in self.tables.delivered:
                    self.has_strays = True
                    self.deliveries += int((~is_named & ~events.is_broadcast).sum())
                events, message = events.at(is_named), message[is_named]
            elif self.kept is not None:
                broadcasts = np.flatnonzero(events.is_broadcast)
                self.kept.append((process, message.astype(np.int32), broadcasts))
            self._hear(heard, message, events.digest, suspects)
            self.tables.note_broadcasts(message, events)
            if process in self.tables.delivered:
                self._note_deliveries(process, message, events)
        return np.unique(np.concatenate([np.zeros(0, np.int64), *suspects]))

    def _hear(self, heard: Array, message: Array, digest: Array, suspects: list[Array]) -> None:
        if len(heard) < self.outline.messages:
            is_ours = (message >= self.begin) & (message < self.end)
            message, digest = message[is_ours], digest[is_ours]
        place = message - self.begin
        first_heard = heard[place]
        if (first_heard == 0).any():
            is_new = first_heard == 0
            heard[place[is_new]] = digest[is_new]
            first_heard = heard[place]
        is_odd = first_heard != digest
        if not digest.all():
            # A text whose digest is 0 looks like one not heard yet: look at it more closely.
            is_odd |= digest == 0
        if is_odd.any():
            suspects.append(np.unique(message[is_odd]))

    def _note_deliveries(self, reader: int, message: Array, events: Events) -> None:
        is_delivery = ~events.is_broadcast
        message = message[is_delivery]
        index = events.index[is_delivery]
        delivered = self.tables.delivered[reader]
        self.deliveries += len(index)
        is_new = delivered[message] == self.tables.never
        if is_new.all():
            delivered[message[::-1]] = index[::-1]
        else:
            delivered[message[is_new][::-1]] = index[is_new][::-1]
        first = delivered[message]
        again = np.flatnonzero(first != index)
        if len(again):
            witness = [(reader, first[again]), (reader, index[again])]
            names = self.names.of(message[again])
            self.repeats.append(Found.of(reader, index[again], *names, witness))

    # --- the second reading: whether the causes came first

    def _order(self, suspects: Array) -> Order:
        order = Order(self.mine, self.tables, suspects)
        if self.kept is not None and not len(suspects):
            for process, message, broadcasts in self.kept:
                order.ask(process, message, None, broadcasts)
            self.kept = None
            return order
        closely = ("index", "digest") if len(suspects) else ()
        own = ("index",) if self.has_strays or self.tables.sent_at is not None else ()
        for process, events in self._events(*closely, own=own):
            message, is_named = self.names.places(events)
            order.read(process, events, message, is_named)
        return order

    def _with_causes(self, early: list[Early]) -> Found:
        """Early deliveries, the first of them or all, each with its first missing cause."""
        reader, origin, message, at = joined(early, 4)
        shown = np.lexsort((at, reader))[: self.most]
        reader, origin, message, at = reader[shown], origin[shown], message[shown], at[shown]
        sent_at = np.full(len(shown), NOTHING)
        cause = np.full((len(shown), 3), NOTHING)
        largest: dict[tuple[int, int], int] = {}
        for process, events in self._events("index", only=set(origin.tolist())):
            names, is_named = self.names.places(events)
            mine = np.flatnonzero(origin == process)
            _note_places(sent_at, mine, message, names, events)
            for one in set(reader[mine].tolist()):
                so_far = self.tables.so_far(
                    one, names, is_named, largest.get((one, process), NOTHING)
                )
                largest[one, process] = int(so_far[-1]) if len(so_far) else NOTHING
                open_ones = mine[(reader[mine] == one) & (cause[mine, 0] == NOTHING)]
                at_event = np.searchsorted(so_far, at[open_ones], side="left")
                is_found = at_event < len(so_far)
                found, at_event = open_ones[is_found], at_event[is_found]
                columns = (events.index, events.origin, events.seq)
                cause[found] = np.stack([column[at_event] for column in columns], axis=1)
        witness = [(origin, cause[:, 0]), (origin, sent_at), (reader, at)]
        return Found.of(reader, at, *self.names.of(message), witness, (cause[:, 1], cause[:, 2]))

    # --- what strays and suspects amount to

    def _are_given(self, strays: Strays) -> Array:
        """Which of these were broadcast below the cut of their origin."""
        if self.known.cuts is None:
            return np.zeros(len(strays.index), bool)
        return self.known.cuts.are_given(np.zeros_like(strays.origin), strays.origin, strays.seq)

    def _invented(self, strays: Strays, is_given: Array) -> Found:
        hidden = (self.known.holed | self.known.may_come)[0]
        reader, index, origin, seq, _ = strays.at(~hidden[strays.origin] & ~is_given)
        return Found.of(reader, index, origin, seq, [(reader, index)])

    def _repeated(self, strays: Strays) -> Found:
        """Repeated deliveries of what has no place in the table; the others are known by now."""
        strays = strays.at(~strays.is_named)
        in_order = np.lexsort((strays.index, strays.seq, strays.origin, strays.reader))
        reader, index, origin, seq, _ = strays.at(in_order)
        is_first = np.ones(len(index), bool)
        is_first[1:] = np.any([one[1:] != one[:-1] for one in (reader, origin, seq)], axis=0)
        first = index[np.maximum.accumulate(np.where(is_first, np.arange(len(index)), 0))]
        again = ~is_first
        if self.known.cuts is not None:
            had = self.known.cuts.had_delivered(reader, np.zeros_like(origin), origin, seq)
            first, again = np.where(had, BELOW, first), again | had
        reader, index = reader[again], index[again]
        witness = [(reader, first[again]), (reader, index)]
        return Found.of(reader, index, origin[again], seq[again], witness)

    def _unreached(self, strays: Strays, is_given: Array) -> tuple[int, ...] | None:
        waiting = strays.at(self.known.may_come[0, strays.origin] & ~is_given)
        first = waiting.at(np.lexsort((waiting.index, waiting.reader))[:1])
        return tuple(int(column[0]) for column in first) if len(first.index) else None

    def _altered(self, texts: Sequence[Texts]) -> Found:
        """Deliveries of a suspected message with a text that none of its broadcasts had."""
        process, is_sent, message, index, digest = joined(texts, len(Texts._fields))
        names, name = np.unique(message, return_inverse=True)
        kinds, kind = np.unique(digest, return_inverse=True)
        text = name * len(kinds) + kind
        sent_at = np.full(len(names), np.iinfo(np.int64).max)
        np.minimum.at(sent_at, name[is_sent], index[is_sent])
        is_bad = (
            ~is_sent & (sent_at[name] != np.iinfo(np.int64).max) & ~np.isin(text, text[is_sent])
        )
        if self.tables.given is not None:
            is_bad &= ~self.tables.given[message]
        bad = np.flatnonzero(is_bad)
        origin, seq = self.names.of(message[bad])
        witness = [(process[bad], index[bad]), (origin, sent_at[name[bad]])]
        return Found.of(process[bad], index[bad], origin, seq, witness)

    # --- reading

    def _events(
        self, *columns: str, own: Sequence[str] = (), only: set[int] | None = None
    ) -> Iterator[tuple[int, Events]]:
        """The events of every process, or of ``only`` some, piece by piece in reading order.

        Always read is what says which message it is; ``own`` columns for our processes only.
        """
        ours = set(self.mine)
        for part in self.outline.parts:
            if only is not None and only.isdisjoint(part.owners):
                continue
            wanted = {"kind", "origin", "seq", *columns}
            if not ours.isdisjoint(part.owners) or self.tables.sent_at is not None:
                wanted.update(own)
            if self.outline.views == 1:
                wanted.discard("view")
            yield from read_events(part, wanted, self.outline, self.directory)


def _note_places(
    sent_at: Array, wanted: Array, message: Array, names: Array, events: Events
) -> None:
    """Note where the wanted messages were first broadcast, if it was among these events."""
    broadcasts = np.flatnonzero(events.is_broadcast)
    wanted = wanted[sent_at[wanted] == NOTHING]
    if not len(broadcasts) or not len(wanted):
        return
    order = np.argsort(names[broadcasts], kind="stable")
    sent = names[broadcasts][order]
    place = np.searchsorted(sent, message[wanted], side="left")
    is_here = sent.take(place, mode="clip") == message[wanted]
    sent_at[wanted[is_here]] = events.index[broadcasts[order[place[is_here]]]]


def packed(flags: Array) -> bytes:
    return zlib.compress(np.packbits(flags).tobytes(), level=1)
