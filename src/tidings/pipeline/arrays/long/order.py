"""The second reading of a long run: whether the causes of each message came first.

The history of every origin is gone through, and each reader is asked for the causes; the running
maximum is carried from piece to piece. What is unusual on the way is noted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.batch import Events
from tidings.pipeline.arrays.findings import NOTHING, Array, Found
from tidings.pipeline.arrays.long.tables import BELOW, Tables


class Strays(NamedTuple):
    """Deliveries of what nobody broadcast."""

    reader: Array
    index: Array
    origin: Array
    seq: Array
    is_named: Array
    """Whether it has a place in the table all the same."""

    def at(self, places: Array) -> "Strays":
        return Strays(*(column[places] for column in self))


class Texts(NamedTuple):
    """Events about messages whose text is in question."""

    process: Array
    is_broadcast: Array
    message: Array
    index: Array
    digest: Array


class Early(NamedTuple):
    """Messages that a reader delivered before one of their causes, and where."""

    reader: Array
    origin: Array
    message: Array
    at: Array


class Order:
    def __init__(self, mine: Sequence[int], tables: Tables, suspects: Array) -> None:
        self.tables = tables
        self.suspects = suspects
        """Messages whose text is in question, in order."""
        self.readers = [reader for reader in mine if tables.known.is_whole[0, reader]]
        self.largest: dict[tuple[int, int], int] = {}
        self.judged = 0
        self.early: list[Early] = []
        self.strays: list[Strays] = []
        self.renamed: list[Found] = []
        self.texts: list[Texts] = []

    def read(self, process: int, events: Events, message: Array, is_named: Array | None) -> None:
        tables = self.tables
        sent_at = tables.sent_at
        if process in tables.delivered:
            self._note_strays(process, events, message, is_named)
        if len(self.suspects):
            self._note_texts(process, events, message, is_named)
        broadcasts = np.flatnonzero(events.is_broadcast)
        if sent_at is not None:
            is_first = sent_at[message[broadcasts]] == events.index[broadcasts]
            if process in tables.delivered:
                self._note_renamed(process, events, message, broadcasts[~is_first])
            broadcasts = broadcasts[is_first]
        self.ask(process, message, is_named, broadcasts)

    def ask(self, process: int, message: Array, is_named: Array | None, broadcasts: Array) -> None:
        """Go through some of an origin's history, with every reader of ours."""
        tables = self.tables
        if not len(message):
            return
        for reader in self.readers:
            before = self.largest.get((reader, process), NOTHING)
            so_far = tables.so_far(reader, message, is_named, before)
            self.largest[reader, process] = int(so_far[-1])
            at = tables.delivered[reader][message[broadcasts]]
            asked = so_far[broadcasts - 1]
            if len(broadcasts) and broadcasts[0] == 0:
                asked[0] = before
            is_judged = (at != tables.never) & (at != BELOW)
            self.judged += int(is_judged.sum())
            early = np.flatnonzero(is_judged & (asked >= at))
            if len(early):
                whose = np.full((2, len(early)), [[reader], [process]])
                found = message[broadcasts[early]]
                self.early.append(Early(whose[0], whose[1], found, at[early].astype(np.int64)))

    def _note_strays(
        self, reader: int, events: Events, message: Array, is_named: Array | None
    ) -> None:
        if is_named is None:
            is_named = np.ones(len(message), bool)
            if self.tables.sent_at is None:
                return
        is_stray = ~is_named
        if self.tables.sent_at is not None:
            is_stray |= self.tables.sent_at[message] == NOTHING
        strays = np.flatnonzero(is_stray & ~events.is_broadcast)
        if len(strays):
            whose = np.full(len(message), reader)
            columns = Strays(whose, events.index, events.origin, events.seq, is_named)
            self.strays.append(columns.at(strays))

    def _note_renamed(self, origin: int, events: Events, message: Array, again: Array) -> None:
        assert self.tables.sent_at is not None
        if len(again):
            first, index = self.tables.sent_at[message[again]], events.index[again]
            witness = [(origin, first), (origin, index)]
            self.renamed.append(
                Found.of(origin, index, events.origin[again], events.seq[again], witness)
            )

    def _note_texts(
        self, process: int, events: Events, message: Array, is_named: Array | None
    ) -> None:
        place = np.searchsorted(self.suspects, message)
        is_suspect = self.suspects.take(place, mode="clip") == message
        if is_named is not None:
            is_suspect &= is_named
        if is_suspect.any():
            whose = np.full(len(message), process)
            columns = Texts(whose, events.is_broadcast, message, events.index, events.digest)
            self.texts.append(Texts(*(column[is_suspect] for column in columns)))
