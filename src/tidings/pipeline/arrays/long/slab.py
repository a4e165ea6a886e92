"""A slab: of some messages every row there is, and of each process a part of its history.

Which slab a message belongs to depends on its name alone, and each row about it is there, among
the ``Home`` rows or in a ``Note``. So where each reader first delivered it, its first broadcast,
repeats, names used twice, altered texts, that nobody delivered it or its origin did not: all these
are facts of one slab, and each row is counted by exactly one. Four guarantees are judged here and
now; their counts add up over slabs, and their violations have one order that slabs can be merged
by. What the fifth, Causal Order, takes is in ``causes``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidings.pipeline.arrays.campaign import TooLongError
from tidings.pipeline.arrays.causes import Blamed, CountedCauses
from tidings.pipeline.arrays.findings import NOTHING, Array, Found, joined
from tidings.pipeline.arrays.long.messages import Messages
from tidings.pipeline.arrays.long.packing import (
    BELOW,
    Home,
    HomeRows,
    LongRun,
    Note,
    Part,
    unpacked,
)
from tidings.pipeline.arrays.long.texts import LANES, mixed
from tidings.spec import Guarantee

GUARANTEES = {
    "repeated": Guarantee.NO_DUPLICATION,
    "invented": Guarantee.NO_CREATION,
    "renamed": Guarantee.NO_CREATION,
    "lost": Guarantee.VALIDITY,
    "owed": Guarantee.UNIFORM_AGREEMENT,
}
"""What each kind of violation breaks."""

Owed = tuple[int, int, int]
"""How much was judged, not owed, violated."""


class SlabVerdicts(NamedTuple):
    """What one slab says of all but Causal Order."""

    counts: Counter[str]
    found: dict[str, Found]
    validity: Owed
    agreement: Owed
    unreached: tuple[int, int, int, int] | None
    """Reader, index, origin, seq of the first delivery whose broadcast may still come."""
    is_suspected: bool
    """A sum of texts is wrong: they have to be compared one by one."""
    last: Array
    """(process, reader): the index of the process's last broadcast that the reader delivers"""
    repeated: CountedCauses
    forged: CountedCauses
    """Without altered texts."""

    @property
    def has_debts(self) -> bool:
        return self.validity[2] + self.agreement[2] > 0


class Broadcasts(NamedTuple):
    """Some broadcasts of one process."""

    process: int
    message: Array
    index: Array
    text: Array


class Slab:
    def __init__(self, number: int, contents: list[Home | Note], run: LongRun) -> None:
        self.number, self.run, self.known = number, run, run.outline.known
        self.never = run.never
        if sum(one.size for one in contents) > run.limits.most_slab_rows:
            raise TooLongError
        self.parts = unpacked(contents, number, run.width)
        self.messages = Messages(number, self.parts, run)
        self.count = self.messages.count
        away = sum(int((~part.here).sum()) for part in self.parts if part.here is not None)
        if run.width * max(self.count, away) > run.limits.most_slab_cells:
            raise TooLongError
        # One more place for whatever is away: it was never broadcast, and asks for nothing.
        self.given = np.zeros(self.count + 1, bool)
        """Which messages were broadcast below a cut."""
        if self.known.cuts is not None:
            none = np.zeros_like(self.messages.origin)
            names = self.messages.origin, self.messages.seq
            self.given[:-1] = self.known.cuts.are_given(none, *names)
        self._note_broadcasts()
        self._note_deliveries()

    # --- what was broadcast, and who delivered it where

    def _note_broadcasts(self) -> None:
        self.sent_at = np.full(self.count + 1, NOTHING)
        """For each message the index of its first broadcast."""
        self.view = np.zeros(self.count + 1, np.int64)
        self.text = np.zeros(self.count + 1, np.int64)
        self.again: list[Broadcasts] = []
        """Under a name that was taken."""
        for part in self.parts:
            mine = part.broadcasts
            message, index, texts, views = part.sent, part.index[mine], part.texts, part.views
            if part.here is not None:
                here = part.here[mine]
                message, index, texts = message[here], index[here], texts[here]
                views = None if views is None else views[here]
            is_new = (self.sent_at[message] == NOTHING) & ~self.given[message]
            # Backwards: of several broadcasts under one name the first stays.
            fresh = message[is_new][::-1]
            self.sent_at[fresh] = index[is_new][::-1]
            self.text[fresh] = texts[is_new][::-1]
            if views is not None:
                self.view[fresh] = views[is_new][::-1]
            is_again = self.sent_at[message] != index
            if is_again.any():
                columns = (column[is_again] for column in (message, index, texts))
                self.again.append(Broadcasts(part.process, *columns))
        self.sent = np.flatnonzero(self.sent_at[:-1] != NOTHING)
        self.is_full = len(self.sent) == self.count
        """Every message of the table was broadcast."""

    def _note_deliveries(self) -> None:
        shape = (self.run.width, self.count + 1)
        self.delivered: Array = np.full(shape, self.never, self.run.index_type)
        """(reader, message): the index of its first delivery; BELOW if it was cut off"""
        self.delivered[:, -1] = BELOW
        self.counts: Counter[str] = Counter()
        self.repeats: list[Found] = []
        for reader in range(self.run.width):
            self._note_reader(reader, [part for part in self.parts if part.process == reader])

    def _note_reader(self, reader: int, parts: Sequence[Part]) -> None:
        delivered, cuts = self.delivered[reader], self.known.cuts
        had = np.zeros(self.count + 1, bool)
        if cuts is not None:
            none = np.zeros_like(self.messages.origin)
            had[:-1] = cuts.had_delivered(reader, none, self.messages.origin, self.messages.seq)
            delivered[had] = BELOW
        heard = 0
        for part in parts[::-1]:
            if cuts is None and part.heard is not None:
                for _, rows, messages in part.heard:
                    delivered[messages] = part.index[rows]
                    heard += rows.stop - rows.start
                continue
            message, index = self._heard(part)
            heard += len(message)
            if cuts is not None:
                self.counts["compared"] -= int(self.given[message].sum())
                is_new = ~had[message]
                message, index = message[is_new], index[is_new]
            delivered[message[::-1]] = index[::-1]
        self.counts["deliveries"] += heard
        self.counts["compared"] += heard
        if cuts is None and heard == self.count - int((delivered[:-1] == self.never).sum()):
            return  # each of them once
        for message, index in map(self._heard, parts):
            first = delivered[message]
            again = np.flatnonzero(first != index)
            names = self.messages.names(message[again])
            witness = [(reader, first[again]), (reader, index[again])]
            self.repeats.append(Found.of(reader, index[again], *names, witness))

    def _heard(self, part: Part) -> tuple[Array, Array]:
        """Message and index of the deliveries of our messages."""
        message, index = part.message[part.deliveries], part.index[part.deliveries]
        if part.here is None:
            return message, index
        here = part.here[part.deliveries]
        return message[here], index[here]

    # --- what that amounts to

    def verdicts(self) -> SlabVerdicts:
        found = {
            "repeated": Found.joined(self.repeats),
            "invented": self._invented(),
            "renamed": self._renamed(),
        }
        self.counts.update({kind: len(some.position) for kind, some in found.items()})
        validity, lost, agreement, owed = self.debts()
        shown = {
            kind: self.run.shown(GUARANTEES[kind], some.rooted(), f"slab-{self.number:06}-{kind}")
            for kind, some in found.items()
        }
        # What follows from another debt is known later, and written then.
        shown |= {
            "lost": lost.first(self.run.showing.most),
            "owed": owed.first(self.run.showing.most),
        }
        return SlabVerdicts(
            self.counts,
            shown,
            validity,
            agreement,
            self._unreached(),
            self._is_suspected(),
            self._last_delivered(),
            CountedCauses.of([_blamed(found["repeated"]), *[_NOBODY] * 4]),
            _forged(found["invented"], found["renamed"]),
        )

    def forged(self, altered: Found) -> CountedCauses:
        """The causes of No Creation, given the deliveries with another text."""
        return _forged(self._invented(), self._renamed(), altered)

    def _last_delivered(self) -> Array:
        last = np.full((self.run.width, self.run.width), NOTHING)
        for part in self.parts:
            message, index = self._sent(part)
            if not len(message):
                continue
            latest = index.argmax()
            here = last[part.process]
            is_delivered = self.delivered[:, message[latest]] != self.never
            here[is_delivered] = np.maximum(here[is_delivered], index[latest])
            for reader in np.flatnonzero(~is_delivered).tolist():
                some = index[self.delivered[reader, message] != self.never]
                here[reader] = max(here[reader], some.max(initial=NOTHING))
        return last

    def _sent(self, part: Part) -> tuple[Array, Array]:
        """Message and index of the broadcasts of our messages."""
        message, index = part.sent, part.index[part.broadcasts]
        if part.here is None:
            return message, index
        here = part.here[part.broadcasts]
        return message[here], index[here]

    def first_debts(self, reader: int, last: Array) -> Array:
        """(process, index and origin and seq): its first event after ``last`` about a debt"""
        first = np.full((self.run.width, 3), LATER)
        is_debt = np.zeros(self.count + 1, bool)
        is_debt[self.missing[0][self.missing[1] == reader]] = True
        for part in self.parts:
            met = np.flatnonzero(is_debt[part.message] & (part.index > last[part.process, reader]))
            if len(met):
                at = met[part.index[met].argmin()]
                name = self.messages.names(part.message[at])
                first[part.process] = min(tuple(first[part.process]), (part.index[at], *name))
        return first

    def _strays(self) -> Iterator[tuple[int, Array, Array]]:
        """Reader, message and index of deliveries of what nobody broadcast."""
        if self.is_full:
            return
        is_stray = (self.sent_at == NOTHING) & ~self.given
        for part in self.parts:
            message, index = self._heard(part)
            strays = np.flatnonzero(is_stray[message])
            if len(strays):
                yield part.process, message[strays], index[strays]

    def _invented(self) -> Found:
        hidden = (self.known.holed | self.known.may_come)[0]
        found = []
        for reader, message, index in self._strays():
            is_bad = ~hidden[self.messages.origin[message]]
            message, index = message[is_bad], index[is_bad]
            names = self.messages.names(message)
            found.append(Found.of(reader, index, *names, [(reader, index)]))
        return Found.joined(found)

    def _unreached(self) -> tuple[int, int, int, int] | None:
        may_come = self.known.may_come[0]
        first = []
        for reader, message, index in self._strays():
            waiting = np.flatnonzero(may_come[self.messages.origin[message]])
            if len(waiting):
                at = waiting[np.argmin(index[waiting])]
                origin, seq = self.messages.names(message[at])
                first.append((reader, int(index[at]), int(origin), int(seq)))
        return min(first, default=None)

    def _renamed(self) -> Found:
        found = []
        for process, message, index, _ in self.again:
            first = np.where(self.given[message], BELOW, self.sent_at[message])
            names = self.messages.names(message)
            found.append(Found.of(process, index, *names, [(process, first), (process, index)]))
        return Found.joined(found)

    # --- whether everybody heard the text that was broadcast

    def _is_suspected(self) -> bool:
        """Whether a sum is wrong; the few texts in notes are compared as they are."""
        lanes = self._mixed()
        begins = [np.append(np.uint64(0), np.cumsum(one)) for one in lanes]
        for part in self.parts:
            if not isinstance(part, HomeRows):
                if len(self._odd(part)):
                    return True
                continue
            by_label = part.by_label
            heard = by_label.some[by_label.some < self.run.width]
            if not len(heard):
                continue
            sums = np.zeros((self.run.width, LANES), np.uint64)
            if part.heard is not None:
                labels = [label for label, _, _ in part.heard]
                first, end = (
                    [getattr(messages, limit) for _, _, messages in part.heard]
                    for limit in ("start", "stop")
                )
                for lane, total in enumerate(begins if labels else ()):
                    sums[labels, lane] = total[end] - total[first]
            else:
                message = part.message[part.deliveries]
                for lane, numbers in enumerate(lanes):
                    sums[heard, lane] = np.add.reduceat(numbers[message], by_label.begins[heard])
            if (sums != part.home.sums).any():
                return True
        return False

    def _mixed(self) -> list[Array]:
        """Of the text of each message; 0 for what was given, and for what is away."""
        lanes = []
        for numbers in mixed(self.messages.seq, self.text[:-1], self.run.salt):
            numbers[self.given[:-1]] = 0
            lanes.append(np.append(numbers, np.uint64(0)))
        return lanes

    def _odd(self, part: Part) -> Array:
        """Deliveries with a text that no broadcast of the message had."""
        assert part.digest is not None
        rows = np.arange(part.size)[part.deliveries]
        if part.here is not None:
            rows = rows[part.here[rows]]
        message, text = part.message[rows], part.digest[rows]
        odd = rows[(text != self.text[message]) & (self.sent_at[message] != NOTHING)]
        if len(odd) and self.again:
            other = set[tuple[int, int]]()
            for _, names, _, texts in self.again:
                other.update(zip(names.tolist(), texts.tolist(), strict=True))
            pairs = zip(part.message[odd].tolist(), part.digest[odd].tolist(), strict=True)
            odd = odd[np.array([pair not in other for pair in pairs], bool)]
        return odd

    def altered(self) -> Found:
        """Every delivery with another text; the digests have to be there."""
        found = []
        for part in self.parts:
            odd = self._odd(part)
            message, index = part.message[odd], part.index[odd]
            names = self.messages.names(message)
            witness = [(part.process, index), (names[0], self.sent_at[message])]
            found.append(Found.of(part.process, index, *names, witness))
        return Found.joined(found)

    # --- what was not delivered

    def debts(self) -> tuple[Owed, Found, Owed, Found]:
        known, sent = self.known, self.sent
        nothing = Found.joined([])
        if not known.settled[0]:
            return (0, 0, 0), nothing, (0, 0, 0), nothing
        missing = self.delivered[:, :-1] == self.never
        if not self.is_full:
            missing = missing[:, sent]
        origin, view = self.messages.origin[sent], self.view[sent]
        is_promised = known.correct[0, origin]
        lost = np.flatnonzero(is_promised & missing[origin, np.arange(len(sent))])
        is_seen = ~missing.all(axis=0)
        owing = []
        for process in np.flatnonzero(known.correct[0]).tolist():
            if missing[process].any():
                is_owed = missing[process] & is_seen & known.survivors[view, process]
                debts = np.flatnonzero(is_owed)
                owing.append((debts, np.full(len(debts), process)))
        owed, process = joined(owing, 2)
        promised, seen = int(is_promised.sum()), int(is_seen.sum())
        if known.forsaken.any():
            # There is but one list, and it has no majority left: nothing is owed.
            return (0, promised, 0), nothing, (0, seen, 0), nothing
        self.missing = np.append(sent[lost], sent[owed]), np.append(origin[lost], process)
        """Message and reader of every debt."""
        return (
            (promised, 0, len(lost)),
            self._lost(sent[lost]),
            (seen, 0, len(owed)),
            self._owed(sent[owed], process),
        )

    def _lost(self, message: Array) -> Found:
        (origin, seq), at = self.messages.names(message), self.sent_at[message]
        found = Found.of(origin, at, origin, seq, [(origin, at)])
        return found.at(np.lexsort((at, origin)))

    def _owed(self, message: Array, process: Array) -> Found:
        (origin, seq), at = self.messages.names(message), self.sent_at[message]
        seen = (self.delivered[:, message] != self.never).argmax(axis=0)
        witness = [(origin, at), (seen, self.delivered[seen, message])]
        found = Found.of(process, at, origin, seq, witness)
        return found.at(np.lexsort((self.known.rank[self.view[message], process], at, origin)))


LATER = np.iinfo(np.int64).max
"""After every index."""

_NOBODY = Blamed.for_(Found.joined([]))


def _blamed(found: Found) -> Blamed:
    return Blamed.for_(found.rooted())


def _forged(*found: Found) -> CountedCauses:
    return CountedCauses.of([_NOBODY, _blamed(Found(*joined(found))), *[_NOBODY] * 3])


def in_order_of_broadcasts(parts: Sequence[Found]) -> Found:
    """Violations of Uniform Agreement from several slabs; those of one message are from one."""
    found = Found(*joined([Found.joined([]), *parts]))
    return found.at(np.lexsort((found.position, found.origin)))
