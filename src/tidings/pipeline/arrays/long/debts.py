"""Validity and Uniform Agreement of a long run: what was owed, and who did not deliver it."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tidings.pipeline.arrays.findings import Array, Found, joined
from tidings.pipeline.arrays.long.outline import Outline, RunPiece
from tidings.pipeline.arrays.long.slice import SliceFindings
from tidings.pipeline.arrays.long.tables import BELOW, Names, read_events
from tidings.pipeline.arrays.perform import Perform
from tidings.pipeline.arrays.rows import Directory


class Debts:
    """From what each process says that it did not deliver."""

    def __init__(
        self,
        outline: Outline,
        directory: Directory,
        parts: Sequence[SliceFindings],
        most: int | None,
        perform: Perform,
    ) -> None:
        self.outline = outline
        self.known = outline.known
        self.most = most
        self.missing = {who: bits for part in parts for who, bits in part.missing.items()}
        self.owing = {who: bits for part in parts for who, bits in part.owing.items()}
        self.sent = self._bits(parts[0].sent) if parts[0].sent else None
        self.validity_counts = self.agreement_counts = (0, 0, 0)
        self.validity = self.agreement = Found.joined([])
        if self.known.settled[0]:
            lost, owed = self._lost(), self._owed()
            look_up = partial(_look_up, outline=outline, directory=directory)
            self.validity = self._witnessed(lost, look_up, perform, is_agreement=False)
            self.agreement = self._witnessed(owed, look_up, perform, is_agreement=True)

    def _bits(self, packed: bytes) -> Array:
        """A flag for each message."""
        bits = np.frombuffer(zlib.decompress(packed), np.uint8)
        return np.unpackbits(bits, count=self.outline.messages).view(bool)

    def _lost(self) -> tuple[Array, Array]:
        """Messages that their own correct origin did not deliver, and the origin."""
        found = []
        due = 0
        for origin in np.flatnonzero(self.known.correct[0]).tolist():
            begin = int(self.outline.base[origin])
            mine = slice(begin, begin + int(self.outline.size[origin]))
            sent = np.ones(mine.stop - begin, bool) if self.sent is None else self.sent[mine]
            due += int(sent.sum())
            lost = begin + np.flatnonzero(self._bits(self.missing[origin])[mine] & sent)
            found.append((lost, np.full(len(lost), origin)))
        message, process = joined(found, 2)
        self.validity_counts = self._counts(due, len(message))
        return self._shown(message, process)

    def _owed(self) -> tuple[Array, Array]:
        """Messages that somebody delivered and a correct addressee did not, and who did not."""
        nowhere = np.ones(self.outline.messages, bool)
        for bits in self.missing.values():
            nowhere &= self._bits(bits)
        delivered = ~nowhere if self.sent is None else self.sent & ~nowhere
        survivors = np.flatnonzero(self.known.survivors[0]).tolist()
        owing = self.owing or {who: self.missing[who] for who in survivors}
        found = []
        for who, bits in owing.items():
            owed = np.flatnonzero(self._bits(bits) & delivered)
            found.append((owed, np.full(len(owed), who)))
        message, process = joined(found, 2)
        self.agreement_counts = self._counts(int(delivered.sum()), len(message))
        return self._shown(message, process)

    def _counts(self, due: int, violated: int) -> tuple[int, int, int]:
        """If the list has no majority left, nothing is owed: there is but one list then."""
        return (0, due, 0) if self.known.forsaken.any() else (due, 0, violated)

    def _shown(self, message: Array, process: Array) -> tuple[Array, Array]:
        """Those among which the first few are, by the order of broadcasts."""
        if self.known.forsaken.any():
            return message[:0], process[:0]
        if self.most is None or not self.outline.is_rising:
            return message, process
        among = np.isin(message, np.unique(message)[: self.most])
        return message[among], process[among]

    def _witnessed(
        self,
        missed: tuple[Array, Array],
        look_up: Callable[..., Any],
        perform: Perform,
        is_agreement: bool,
    ) -> Found:
        message, process = missed
        if not len(message):
            return Found.joined([])
        heard = perform(partial(look_up, wanted=np.unique(message)), self.outline.parts)
        who, index, is_broadcast, about, view = joined([one for some in heard for one in some], 5)
        is_delivery = is_broadcast == 0
        order = np.lexsort((index, who, is_delivery, about))
        who, index, about, view = who[order], index[order], about[order], view[order]
        # Of each message the broadcast comes first, then its first delivery at the first process.
        sent = np.searchsorted(about, message, side="left")
        witness = [(who[sent], index[sent])]
        names = Names(self.outline).of(message)
        if is_agreement:
            deliveries = np.flatnonzero(is_delivery[order])
            at = np.searchsorted(about[deliveries], message, side="left")
            seen = deliveries.take(at, mode="clip") if len(deliveries) else sent
            is_seen = (len(deliveries) > 0) & (about[seen] == message)
            witness.append(self._first_of(names, is_seen, who[seen], index[seen]))
        found = Found.of(process, index[sent], *names, witness)
        order = np.lexsort((self.known.rank[view[sent], process], index[sent], names[0]))
        return found.at(order).first(self.most)

    def _first_of(
        self, names: tuple[Array, Array], is_seen: Array, who: Array, index: Array
    ) -> tuple[Array, Array]:
        """The first delivery of each message: the one that was seen, or one that was cut off."""
        cuts = self.known.cuts
        if cuts is not None:
            who = np.where(is_seen, who, len(cuts.broadcast[0]))
            origin, seq = names
            for process in range(len(cuts.broadcast[0])):
                had = cuts.had_delivered(process, np.zeros_like(origin), origin, seq)
                is_first = had & (process <= who)
                who, index = np.where(is_first, process, who), np.where(is_first, BELOW, index)
        return who, index


def _look_up(
    part: RunPiece, wanted: Array, outline: Outline, directory: Directory
) -> list[tuple[Array, ...]]:
    """Every event of a piece about these messages: process, index, is_broadcast, message, view."""
    names = Names(outline)
    found = []
    columns = {"kind", "origin", "seq", "index", "view"}
    for process, events in read_events(part, columns, outline, directory):
        message, is_named = names.places(events)
        is_wanted = wanted.take(np.searchsorted(wanted, message), mode="clip") == message
        if is_named is not None:
            is_wanted &= is_named
        whose = np.full(len(message), process)
        about = (whose, events.index, events.is_broadcast, message, events.view)
        found.append(tuple(column[is_wanted].astype(np.int64) for column in about))
    return found
