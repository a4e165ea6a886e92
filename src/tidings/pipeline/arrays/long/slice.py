"""Some neighbouring processes of a long run, as readers of everything and as origins.

The whole trace is read twice, one piece after the other: first to fill the tables, then, in
``order``, to ask them.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import NOTHING
from tidings.pipeline.arrays.long.found import FoundViolations
from tidings.pipeline.arrays.long.order import Early, Order, Strays, Texts
from tidings.pipeline.arrays.long.outline import Outline
from tidings.pipeline.arrays.long.reading import read_events, where
from tidings.pipeline.arrays.long.tables import BELOW, Tables
from tidings.pipeline.arrays.rows import Directory

Array = Any


class SliceFindings(NamedTuple):
    """What one slice says of its processes."""

    deliveries: int
    compared: int
    """How many of them are of messages whose broadcast can be known."""
    repeats: FoundViolations
    repeated: int
    invented: FoundViolations
    inventions: int
    renamed: FoundViolations
    renamings: int
    early: FoundViolations
    earliness: int
    ordered: int
    """How many deliveries were judged for Causal Order."""
    unreached: tuple[int, int, int, int] | None
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
        self.kept: list[_Kept] | None = [] if outline.is_read_once else None
        """What the second reading needs, while there is nothing unusual to look at."""
        self.repeats: list[FoundViolations] = []
        self.deliveries = 0

    def findings(self) -> SliceFindings:
        suspects = self._listen()
        order = self._order(suspects)
        strays, renamed, texts = order.strays, FoundViolations.joined(order.renamed), order.texts
        altered, alterations = self._altered(texts)
        strange = FoundViolations.joined([*self._invented(strays)])
        invented = FoundViolations.joined([strange, altered])
        repeats = FoundViolations.joined([*self.repeats, *self._repeated(strays)])
        early = order.early
        return SliceFindings(
            deliveries=self.deliveries,
            compared=self.deliveries - sum(int(self._given(one).sum()) for one in strays),
            repeats=repeats.first(self.most),
            repeated=len(repeats.position),
            invented=invented.first(self.most),
            inventions=len(strange.position) + alterations,
            renamed=renamed.first(self.most),
            renamings=len(renamed.position),
            early=self._with_causes(early),
            earliness=sum(len(one.message) for one in early),
            ordered=order.judged,
            unreached=self._unreached(strays),
            missing={reader: packed(self.tables.missing(reader)) for reader in self.mine},
            owing=self._owing(),
            sent=b"" if self.tables.sent_at is None else packed(self.tables.sent_at != NOTHING),
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
                self._count_strays(process, events, is_named)
                events, message = where(events, is_named), message[is_named]
            elif self.kept is not None:
                self.kept.append(_Kept.of(process, message, events.is_broadcast))
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
            self.repeats.append(FoundViolations.of(reader, index[again], *names, witness))

    def _count_strays(self, process: int, events: Events, is_named: Array) -> None:
        if process in self.tables.delivered:
            self.has_strays = True
            self.deliveries += int((~is_named & ~events.is_broadcast).sum())

    # --- the second reading: whether the causes came first

    def _order(self, suspects: Array) -> Order:
        order = Order(self.mine, self.tables, suspects)
        if self.kept is not None and not len(suspects):
            for one in self.kept:
                order.ask(one.process, one.message, None, one.broadcasts)
            self.kept = None
            return order
        closely = ("index", "digest") if len(suspects) else ()
        own = ("index",) if self.has_strays or self.tables.sent_at is not None else ()
        for process, events in self._events(*closely, own=own):
            message, is_named = self.names.places(events)
            order.read(process, events, message, is_named)
        return order

    def _with_causes(self, early: list[Early]) -> FoundViolations:
        """Early deliveries, the first of them or all, each with its first missing cause."""
        if not early:
            return FoundViolations.joined([])
        reader = np.concatenate([np.full(len(one.message), one.reader) for one in early])
        origin = np.concatenate([np.full(len(one.message), one.origin) for one in early])
        message = np.concatenate([one.message for one in early])
        at = np.concatenate([one.at for one in early])
        shown = np.lexsort((at, reader))[: self.most]
        reader, origin, message, at = reader[shown], origin[shown], message[shown], at[shown]
        sent_at = np.full(len(shown), NOTHING)
        cause = np.full((len(shown), 3), NOTHING)
        largest: dict[tuple[int, int], int] = {}
        suspected = set(origin.tolist())
        for process, events in self._events("index", only=suspected):
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
                cause[found, 0] = events.index[at_event]
                cause[found, 1] = events.origin[at_event]
                cause[found, 2] = events.seq[at_event]
        witness = [(origin, cause[:, 0]), (origin, sent_at), (reader, at)]
        return FoundViolations.of(
            reader, at, *self.names.of(message), witness, (cause[:, 1], cause[:, 2])
        )

    # --- what strays and suspects amount to

    def _invented(self, strays: Sequence[Strays]) -> Iterator[FoundViolations]:
        hidden = self.known.holed[0] | self._may_come()
        for stray in strays:
            shown = ~hidden[stray.origin] & ~self._given(stray)
            index = stray.index[shown]
            witness = [(stray.reader, index)]
            yield FoundViolations.of(
                stray.reader, index, stray.origin[shown], stray.seq[shown], witness
            )

    def _given(self, stray: Strays) -> Array:
        """Which of these were broadcast below the cut of their origin."""
        cuts = self.known.cuts
        if cuts is None:
            return np.zeros(len(stray.index), bool)
        return cuts.are_given(np.zeros_like(stray.origin), stray.origin, stray.seq)

    def _repeated(self, strays: Sequence[Strays]) -> Iterator[FoundViolations]:
        """Repeated deliveries of what has no place in the table; the others are known by now."""
        for reader in self.mine:
            mine = [stray for stray in strays if stray.reader == reader]
            if not mine:
                continue
            index, origin, seq, is_named = (
                np.concatenate([stray[column] for stray in mine]) for column in (1, 2, 3, 4)
            )
            index, origin, seq = index[~is_named], origin[~is_named], seq[~is_named]
            order = np.lexsort((index, seq, origin))
            index, origin, seq = index[order], origin[order], seq[order]
            is_first = np.ones(len(index), bool)
            is_first[1:] = (origin[1:] != origin[:-1]) | (seq[1:] != seq[:-1])
            first = index[np.maximum.accumulate(np.where(is_first, np.arange(len(index)), 0))]
            again = ~is_first
            if self.known.cuts is not None:
                had = self.known.cuts.had_delivered(reader, np.zeros_like(origin), origin, seq)
                first, again = np.where(had, BELOW, first), again | had
            witness = [(reader, first[again]), (reader, index[again])]
            yield FoundViolations.of(reader, index[again], origin[again], seq[again], witness)

    def _unreached(self, strays: Sequence[Strays]) -> tuple[int, int, int, int] | None:
        may_come = self._may_come()
        waiting = [
            (stray.reader, int(stray.index[at]), int(stray.origin[at]), int(stray.seq[at]))
            for stray in strays
            for at in np.flatnonzero(may_come[stray.origin] & ~self._given(stray))[:1]
        ]
        return min(waiting, default=None)

    def _may_come(self) -> Array:
        return (self.known.present & ~self.known.is_complete)[0]

    def _altered(self, texts: Sequence[Texts]) -> tuple[FoundViolations, int]:
        """Deliveries of a suspected message with a text that none of its broadcasts had.

        The first few, or all, and how many there are.
        """
        if not texts:
            return FoundViolations.joined([]), 0
        process = np.concatenate([np.full(len(part.index), part.process) for part in texts])
        is_sent, message, index, digest = (
            np.concatenate([part[column] for part in texts]) for column in (1, 2, 3, 4)
        )
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
        count = len(bad)
        bad = bad[np.lexsort((index[bad], process[bad]))][: self.most]
        origin, seq = self.names.of(message[bad])
        witness = [(process[bad], index[bad]), (origin, sent_at[name[bad]])]
        return FoundViolations.of(process[bad], index[bad], origin, seq, witness), count

    # --- what was not delivered

    def _owing(self) -> dict[int, bytes]:
        owing = {reader: self.tables.owing(reader) for reader in self.mine}
        return {reader: packed(flags) for reader, flags in owing.items() if flags is not None}

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


class _Kept(NamedTuple):
    """Events of one process: which message each is about, and which are broadcasts."""

    process: int
    message: Array
    broadcasts: Array

    @classmethod
    def of(cls, process: int, message: Array, is_broadcast: Array) -> "_Kept":
        return cls(process, message.astype(np.int32), np.flatnonzero(is_broadcast))


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
