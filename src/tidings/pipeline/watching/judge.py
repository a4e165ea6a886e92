"""The three safety guarantees on histories that grow, and how far each member has got.

The specification reads the past of an origin u once for each reader p, from where it was left:
what was delivered stays delivered. So does this. ``passed[p, u]`` is the index in the history of u
up to which p had delivered everything addressed to it; it is a number for each pair of processes,
and rows that all have passed are dropped. If p delivers m of u, then what u had before m and
beyond that index must have been delivered by p at a lower index.

As in ``arrays.batch`` every row of u asks for a place in the history of p: that of p's first
delivery of the same message. The running maximum of the places, compared with p's delivery of m,
is Causal Order. A row about a message whose broadcast has not been read yet may or may not be
addressed to p. Where it matters, the delivery stays open. So does one whose own broadcast has not
been read: the history of its origin may be late, and nothing shows that it ever ends.

Pieces come in any order; only what is contiguous is judged. The window holds what somebody has yet
to pass, but no more than ``window_rows``. Beyond that a pair is *behind*: its reader has been away
for long, and what it passes when it comes back is read again from the source (``Recall``). If the
source no longer has it, the verdict is unknown, and says so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tidings.core import Members, MessageId, ordered
from tidings.core.group import natural
from tidings.pipeline.watching.pieces import Events, Piece
from tidings.pipeline.watching.ranges import Array, Ranges
from tidings.pipeline.watching.reader import Blocker, Pasts, Reader
from tidings.pipeline.watching.views import AgreedSoFar, note_misbindings
from tidings.pipeline.watching.window import ORDER, GoneError, History
from tidings.spec import BELOW_THE_CUT, Guarantee, Place, Violation
from tidings.trace import SCHEMA_VERSION, Manifest

Recall = Callable[[str, str, int, int], Iterable[Piece] | None]
"""The pieces of a process in a run from one index up to another, in order; None if they are gone.
"""


Standing = Mapping[str, tuple[int, bool]]
"""By process, where its history ends, and whether something is there behind a missing part."""


def gone(run: str, process: str, begin: int, end: int) -> None:
    """The Recall of a source that cannot be read again."""
    return


class WatchLimits(msgspec.Struct, frozen=True):
    window_rows: int = 1_000_000
    """Broadcasts and deliveries that are kept, of all processes together."""
    waiting_rows: int = 500_000
    """With so many rows of its process after it, a delivery leaves the window, though open."""
    strays: int = 1_000
    """Such deliveries that are kept elsewhere."""
    late_rows: int = 2_000_000
    """Rows that are kept behind a missing part."""
    chunk_rows: int = 1_000_000
    """How much is read again at once."""
    violations: int = 10_000
    """Violations that are kept. All are counted."""


class Stray(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that has left the window, and whose broadcast has not been read."""

    process: int
    index: int
    origin: int
    seq: int
    digest: int
    is_first: bool


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A violation in numbers. ``text`` is the digest that a forged delivery has."""

    guarantee: Guarantee
    process: int
    message: tuple[int, int]
    witness: tuple[tuple[int, int], ...]
    cause: tuple[int, int] | None = None
    text: int | None = None


class Judge:
    """One run, as far as it has been read."""

    def __init__(
        self, manifest: Manifest, limits: WatchLimits | None = None, recall: Recall = gone
    ) -> None:
        self.run = manifest.run
        self.limits = limits or WatchLimits()
        self.recall = recall
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.histories: list[History] = []
        self.views: tuple[Members, ...] = ()
        self.passed = np.zeros((0, 0), np.int64)
        self.blockers: dict[tuple[int, int], Blocker] = {}
        self.strays: list[Stray] = []
        self.presumed: dict[tuple[int, int], int] = {}
        """Messages that were taken as never broadcast, and a reader for whom that mattered."""
        self.again: dict[tuple[int, int], list[int]] = {}
        """The texts of further broadcasts under one name."""
        self.found: list[Found] = []
        self.violated: dict[tuple[Guarantee, int], int] = {}
        self.ordered: dict[int, int] = {}
        """By reader, how many deliveries were judged for their order."""
        self.given = 0
        """Deliveries of what was broadcast below a cut."""
        self.given_up = ""
        """Why something can never be decided here, if so."""
        self.is_over = False
        self.agreed = AgreedSoFar(self)
        self._news: list[Found] = []
        self._fresh: set[int] = set()
        self.know(manifest)

    # --- who there is

    def know(self, manifest: Manifest) -> None:
        """What the manifest says now: it grows while the group runs."""
        for name in ordered(manifest.names):
            self.number(name)
        self.views = manifest.views
        self._inside = [frozenset(self.number(name) for name in view) for view in manifest.views]
        for name, cut in manifest.cuts.items():
            history = self.histories[self.number(name)]
            if not history.rows and history.begin != cut.index:
                delivered = {self.number(one): last for one, last in cut.delivered.items()}
                history.begin_at(cut, delivered)
                self.passed[:, self.number(name)] = cut.index

    def number(self, name: str) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
            self.histories.append(History(name))
            size = len(self.names)
            passed = np.zeros((size, size), np.int64)
            passed[:-1, :-1] = self.passed
            # A newcomer is addressed by nothing that everybody had passed before it came.
            passed[-1, :] = [history.base for history in self.histories]
            self.passed = passed
        return self.numbers[name]

    def manifest(self) -> Manifest:
        """As much of it as the judge remembers."""
        return Manifest(
            schema=SCHEMA_VERSION, run=self.run, names=tuple(self.names), views=self.views
        )

    @property
    def processes(self) -> list[int]:
        """Everybody who is owed a history: the members, and whoever else left one."""
        members = {number for inside in self._inside for number in inside}
        some = [
            number
            for number, history in enumerate(self.histories)
            if history.rows or number in members
        ]
        return sorted(some, key=lambda number: natural(self.names[number]))

    def is_addressed(self, reader: int, origin: int, seq: Array) -> Array:
        """Of the messages whose broadcast is known, which are for this reader."""
        return self.is_sent_in(self.views_of(reader), origin, seq)

    def views_of(self, reader: int) -> tuple[int, ...]:
        return tuple(view for view, inside in enumerate(self._inside) if reader in inside)

    def is_sent_in(self, views: Sequence[int], origin: int, seq: Array) -> Array:
        """Which of the messages are known to be broadcast to one of these views."""
        history = self.histories[origin]
        found = np.zeros(len(seq), bool)
        for view in views:
            if view in history.sent:
                found |= history.sent[view].has(seq)
        if history.given and 0 in views:
            found |= history.is_given(seq)
        return found

    # --- pieces come

    def take(self, pieces: Iterable[Piece]) -> list[Violation]:
        """What these show that was not known before."""
        for piece in pieces:
            self._take(piece)
        self._pass_all()
        self._look_for_strays()
        self._trim()
        news, self._news = self._news, []
        of_five = [self.named(one) for one in sorted(news, key=self.place_in_order)]
        return [*of_five, *self.agreed.news()]

    def _take(self, piece: Piece) -> None:
        history = self.histories[self.number(piece.process)]
        if piece.end <= history.end:
            return  # read before
        if piece.begin > history.end:
            history.late.append(piece)
            history.late.sort(key=lambda one: one.begin)
            if sum(one.rows for one in history.late) > self.limits.late_rows:
                self._skip_hole(history)
            return
        self._go_on(history, piece)
        self._take_late(history)

    def _take_late(self, history: History) -> None:
        while history.late and history.late[0].begin <= history.end:
            piece = history.late.pop(0)
            if piece.end > history.end:
                self._go_on(history, piece)

    def _skip_hole(self, history: History) -> None:
        """What is missing will not come: go on behind it."""
        history.holed = True
        history.end = history.late[0].begin
        self._take_late(history)

    def close(self) -> None:
        """Nothing more will come: what is missing is a hole, what was not read never happened."""
        self.is_over = True
        for history in self.histories:
            while history.late:
                self._skip_hole(history)
        self._pass_all()
        self._look_for_strays()

    @property
    def standing(self) -> Standing:
        """How far it has got, to be handed to ``wait_no_longer`` later."""
        return {one.name: (one.end, bool(one.late)) for one in self.histories if one.rows}

    def wait_no_longer(self, since: Standing) -> None:
        """Too long ago it had got that far: what was missing then is a hole now, and causes whose
        broadcasts were not read then are taken as never broadcast."""
        for name, (end, was_late) in since.items():
            history = self.histories[self.number(name)]
            if was_late and history.late and history.end == end:
                self._skip_hole(history)
                self._fresh.add(self.numbers[name])
            history.patience = max(history.patience, end)

    def _go_on(self, history: History, piece: Piece) -> None:
        piece = piece.since(history.end)
        events = piece.events
        numbers = np.array([self.number(name) for name in piece.origins], np.int32)
        events = events._replace(origin=numbers[events.origin])
        me = self.numbers[history.name]
        note_misbindings(history, self._first_view(me), piece, events, self.limits.violations)
        taken = history.take(piece, events, len(self.views))
        self._fresh.add(me)
        self._repeated(me, events.at(taken.repeated))
        for place in taken.renamed.tolist():
            self._renamed(me, events, place)
        for moved in taken.moved:
            self.agreed.address_anew(me, moved)

    def _first_view(self, process: int) -> int | None:
        """That of a founder; a newcomer has none before it joins."""
        return 0 if self._inside and process in self._inside[0] else None

    def _repeated(self, me: int, again: Events) -> None:
        for origin, places in again.by_origin():
            rows = self.deliveries(me, origin, again.seq[places])
            for place in places.tolist():
                seq = int(again.seq[place])
                first = rows.get(seq, (BELOW_THE_CUT, 0))[0]
                witness = ((me, first), (me, int(again.index[place])))
                self.report(Guarantee.NO_DUPLICATION, me, (origin, seq), witness)

    def _renamed(self, me: int, events: Events, place: int) -> None:
        """One name for two broadcasts: whoever delivers it cannot say which it is."""
        message, text = (me, int(events.seq[place])), int(events.digest[place])
        again = (me, int(events.index[place]))
        if self.histories[me].is_given(events.seq[place : place + 1])[0]:
            first = (me, BELOW_THE_CUT)
        else:
            rows = self.broadcasts(me, events.seq[place : place + 1])
            first = (me, rows.get(message[1], (BELOW_THE_CUT, 0))[0])
            self.again.setdefault(message, []).append(text)
            # The text of any of its broadcasts will do.
            self._withdraw(message, text)
        self.report(Guarantee.NO_CREATION, me, message, (first, again))

    @property
    def is_changing(self) -> bool:
        """Whether its members agree on views."""
        return any(history.steps for history in self.histories)

    @property
    def inside(self) -> "Sequence[frozenset[int]]":
        """The members of each view."""
        return self._inside

    def removed(self) -> frozenset[int]:
        """Those who were members, and are not in the newest view: they owe nothing any longer."""
        steps = [step for one in self.histories for step in one.steps if step.view is not None]
        if not steps:
            return frozenset()
        newest = max(steps, key=lambda step: step.number)
        return frozenset().union(*self._inside) - self._inside[newest.view or 0]

    # --- how far each reader has got

    def _pass_all(self) -> None:
        pasts = Pasts(self)
        for number in self.processes:
            if self.histories[number].rows and self._has_to_read(number):
                Reader(self, number, pasts).read_all()
        self._fresh.clear()

    def _has_to_read(self, reader: int) -> bool:
        if self.is_over or reader in self._fresh or self.histories[reader].open.any():
            return True
        return any(
            self.passed[reader, origin] < history.end and (reader, origin) not in self.blockers
            for origin, history in enumerate(self.histories)
        )

    def recalled(self, process: int, begin: int, end: int) -> Events | None:
        """These rows once more, from the source."""
        name = self.names[process]
        pieces = self.recall(self.run, name, begin, end)
        if pieces is None:
            return None
        found, at = [], begin
        for piece in pieces:
            if piece.begin > at and not self.histories[process].holed:
                return None
            numbers = np.array([self.number(one) for one in piece.origins], np.int32)
            events = piece.events
            events = events._replace(origin=numbers[events.origin])
            found.append(events.since(at).until(end))
            at = max(at, piece.end)
        return Events.joined(found) if at >= end else None

    def give_up(self, reason: str) -> None:
        self.given_up = self.given_up or reason

    # --- looking things up

    def deliveries(self, process: int, origin: int, seq: Array) -> dict[int, tuple[int, int]]:
        """By sequence number, index and digest of the first delivery of each of these.

        The process has delivered all of them; what it delivered below its cut is left out.
        """
        return self.rows_of(process, origin, seq[seq > self.histories[process].had.get(origin, 0)])

    def broadcasts(self, origin: int, seq: Array) -> dict[int, tuple[int, int]]:
        """The same of the first broadcast under each of these names."""
        return self.rows_of(origin, origin, seq, are_broadcasts=True)

    def rows_of(
        self, process: int, origin: int, seq: Array, are_broadcasts: bool = False
    ) -> dict[int, tuple[int, int]]:
        """All of them have been taken, but may have left the window, and the source too."""
        found: dict[int, tuple[int, int]] = {}
        wanted = np.unique(seq)
        if not len(wanted):
            return found
        for events in self._in_and_below_the_window(process):
            is_it = (events.is_broadcast == are_broadcasts) & (events.origin == origin)
            for place in np.flatnonzero(is_it & np.isin(events.seq, wanted)).tolist():
                row = int(events.index[place]), int(events.digest[place])
                found.setdefault(int(events.seq[place]), row)
            if len(found) == len(wanted):
                return found
        history = self.histories[process]
        self.give_up(f"{history.name}'s rows below {history.base:,} are gone")
        return found

    def _in_and_below_the_window(self, process: int) -> Iterator[Events]:
        """The window, then all rows below it; first ones below it come before those inside."""
        history = self.histories[process]
        kept = np.flatnonzero(history.is_first)
        yield history.events.at(kept)
        for begin in range(history.begin, history.base, self.limits.chunk_rows):
            end = min(begin + self.limits.chunk_rows, history.base)
            events = self.recalled(process, begin, end)
            if events is not None:
                yield events

    # --- what is found

    def report(
        self,
        guarantee: Guarantee,
        process: int,
        message: tuple[int, int],
        witness: tuple[tuple[int, int], ...],
        cause: tuple[int, int] | None = None,
        text: int | None = None,
    ) -> None:
        found = Found(guarantee, process, message, witness, cause, text)
        key = guarantee, process
        self.violated[key] = self.violated.get(key, 0) + 1
        self._news.append(found)
        if len(self.found) < self.limits.violations:
            self.found.append(found)

    def _withdraw(self, message: tuple[int, int], text: int) -> None:
        """Deliveries of this text were called forged, and now it was broadcast after all.

        That this happened under a name that was taken is a violation in their stead.
        """
        mistaken = [one for one in self.found if (one.message, one.text) == (message, text)]
        for one in mistaken:
            self.found.remove(one)
            self.violated[one.guarantee, one.process] -= 1
        self._news = [one for one in self._news if one not in mistaken]
        if sum(self.violated.values()) > self.limits.violations:
            self.give_up("there are too many violations to keep them all")

    def named(self, found: Found) -> Violation:
        origin, seq = found.message
        return Violation(
            guarantee=found.guarantee,
            process=self.names[found.process],
            message=MessageId(self.names[origin], seq),
            witness=tuple(Place(self.names[who], index) for who, index in found.witness),
            cause=found.cause and MessageId(self.names[found.cause[0]], found.cause[1]),
        )

    def name_of(self, message: tuple[int, int]) -> MessageId:
        return MessageId(self.names[message[0]], message[1])

    def place_in_order(self, found: Found) -> tuple[object, ...]:
        """The order in which the specification names violations."""
        is_renamed = found.witness[0][0] == found.process == found.message[0] and (
            found.guarantee is Guarantee.NO_CREATION and found.text is None
        )
        at = found.witness[0 if found.guarantee is Guarantee.NO_CREATION and not is_renamed else -1]
        return (
            [*Guarantee].index(found.guarantee),
            is_renamed,
            natural(self.names[found.process]),
            at[1],
        )

    # --- the window

    def _trim(self) -> None:
        # What a member that was removed might still read is read again, should it do so.
        removed = self.removed()
        readers = [
            one for one in self.processes if not self.histories[one].holed and one not in removed
        ]
        for origin, history in enumerate(self.histories):
            behind = [int(self.passed[reader, origin]) for reader in readers]
            needed = [index for index in behind if index >= history.base]
            index = min([*needed, history.first_open])
            self._note_blockers(origin, index)
            history.drop(index)
        self._lose_patience(
            [one.events.size - self.limits.waiting_rows for one in self.histories],
            [one.patience for one in self.histories],
        )
        total = sum(history.events.size for history in self.histories)
        if total > self.limits.window_rows:
            self._shorten()

    def _shorten(self) -> None:
        """Drop what is too much, from the longest windows on: those who need it are behind then."""
        lengths = sorted((one.events.size for one in self.histories), reverse=True)
        limit = _level(lengths, self.limits.window_rows)
        first = [max(one.events.size - limit, 0) for one in self.histories]
        self._lose_patience(first, [0] * len(first))
        for origin, (place, history) in enumerate(zip(first, self.histories, strict=True)):
            if place:
                is_all = place == history.events.size
                index = history.end if is_all else int(history.events.index[place])
                self._note_blockers(origin, index)
                history.drop(index)

    def _lose_patience(self, places: Sequence[int], indices: Sequence[int]) -> None:
        """Of each history, what is open before this place, or waits for causes before this index.

        A delivery whose broadcast is not read becomes a stray. One that waits for what may be its
        cause is judged without.
        """
        for number, history in enumerate(self.histories):
            is_old = np.arange(history.events.size) < places[number]
            is_older = history.events.index < indices[number]
            without = (history.open == ORDER) & (is_old | is_older)
            for origin in np.unique(history.events.origin[without]).tolist():
                self.presume(number, origin, self.histories[origin].events)
            if without.any():
                Reader(self, number, Pasts(self)).read_all()
            self._stray(number, np.flatnonzero((history.open > 0) & is_old))

    def _note_blockers(self, origin: int, index: int) -> None:
        """Of readers that have not passed this index, which row they wait at."""
        history = self.histories[origin]
        for reader in range(len(self.names)):
            passed = int(self.passed[reader, origin])
            if history.base <= passed < index:
                place = int(np.searchsorted(history.events.index, passed))
                if place == history.events.size:
                    self.passed[reader, origin] = index
                    continue
                blocker = Blocker.of(history.events, place)
                if blocker.row >= index:
                    self.passed[reader, origin] = index
                elif self.is_stuck(reader, blocker):
                    self.blockers[reader, origin] = blocker

    def is_stuck(self, reader: int, blocker: Blocker) -> bool:
        """Whether the row is about what is for the reader, and the reader has not delivered it."""
        _, origin, seq = blocker
        is_missing = not self.histories[reader].has_got(origin, np.array([seq]))[0]
        return is_missing and bool(self.is_addressed(reader, origin, np.array([seq]))[0])

    def is_known(self, origin: int, seq: int) -> bool:
        history = self.histories[origin]
        return bool(history.has_sent(np.array([seq]))[0]) or 1 <= seq <= history.given

    def _stray(self, process: int, places: Array) -> None:
        history = self.histories[process]
        for place in places.tolist():
            row, is_first = history.events.at(place), bool(history.is_first[place])
            history.open[place] = 0
            if len(self.strays) < self.limits.strays:
                index, origin, seq, digest = map(int, (row.index, row.origin, row.seq, row.digest))
                self.strays.append(Stray(process, index, origin, seq, digest, is_first))
            else:
                self.give_up(
                    f"{history.name}'s deliveries wait for {self.names[row.origin]}'s history "
                    "longer than the window lasts"
                )

    def presume(self, reader: int, origin: int, events: Events) -> None:
        """Take those of the messages that nobody broadcast so far as never broadcast."""
        for place in range(events.size):
            cause = int(events.origin[place]), int(events.seq[place])
            if not self.is_known(*cause):
                self.presumed[cause] = reader
        if len(self.presumed) > self.limits.strays:
            self.give_up("too many messages were delivered whose broadcasts are not read")

    def are_unread(self, origin: int, seq: Array) -> Array:
        """Which of the messages may still turn out to have been broadcast."""
        history = self.histories[origin]
        are = ~(history.has_sent(seq) | history.is_given(seq))
        if are.any():
            are &= ~np.isin(seq, [one for of, one in self.presumed if of == origin])
        return are

    # --- what was open for too long, and is decided after all

    def _look_for_strays(self) -> None:
        for cause, reader in list(self.presumed.items()):
            if self.is_known(*cause):
                del self.presumed[cause]
                if reader in self._inside[0] or len(self._inside) > 1:
                    name = self.name_of(cause)
                    self.give_up(f"{name} was read too late to say whether all came after it")
        waiting, self.strays = self.strays, []
        for stray in waiting:
            if not self.is_known(stray.origin, stray.seq) or not self._decide(stray):
                self.strays.append(stray)

    def _decide(self, stray: Stray) -> bool:
        """Whether it could be decided: what came too late, if anything, has been broadcast."""
        seq = np.array([stray.seq])
        if self.histories[stray.origin].is_given(seq)[0]:
            self.given += 1
            return True
        rows = self.broadcasts(stray.origin, seq)
        if not rows:
            return True
        index, text = rows[stray.seq]
        cause = None
        if stray.is_first and not self.histories[stray.process].holed:
            try:
                cause = self._first_late(stray, index)
            except GoneError as fault:
                self.give_up(str(fault))
                return True
            if cause is not None and not self.is_known(cause.origin, cause.seq):
                return False
            self.ordered[stray.process] = self.ordered.get(stray.process, 0) + 1
        message, at = (stray.origin, stray.seq), (stray.process, stray.index)
        if stray.digest != text and stray.digest not in self.again.get(message, ()):
            witness = (at, (stray.origin, index))
            self.report(Guarantee.NO_CREATION, stray.process, message, witness, text=stray.digest)
        if cause is not None:
            early = ((stray.origin, cause.row), (stray.origin, index), at)
            missing = (cause.origin, cause.seq)
            self.report(Guarantee.CAUSAL_ORDER, stray.process, message, early, missing)
        return True

    def _first_late(self, stray: Stray, before: int) -> Blocker | None:
        """The first cause, or what may be one, that a delivery came before: from the source."""
        reader = self.histories[stray.process]
        earlier = {origin: Ranges.of([(1, last)]) for origin, last in reader.had.items() if last}
        for events in self.all_rows(stray.process, reader.begin, stray.index):
            for origin, places in events.at(~events.is_broadcast).by_origin():
                seq = events.seq[~events.is_broadcast][places]
                earlier.setdefault(origin, Ranges()).add(seq)
        begin = self.histories[stray.origin].begin
        for events in self.all_rows(stray.origin, begin, before):
            is_missing = np.zeros(events.size, bool)
            for origin, chosen in events.by_origin():
                seq = events.seq[chosen]
                is_late = ~earlier.get(origin, Ranges()).has(seq)
                is_asked = self.is_addressed(stray.process, origin, seq)
                if not self.is_over:
                    is_asked |= self.are_unread(origin, seq)
                is_missing[chosen] = is_late & is_asked
            if is_missing.any():
                return Blocker.of(events, int(np.argmax(is_missing)))
        return None

    def all_rows(self, process: int, begin: int, end: int) -> Iterator[Events]:
        """In pieces, from the source and from the window."""
        history = self.histories[process]
        for at in range(begin, min(end, history.base), self.limits.chunk_rows):
            events = self.recalled(process, at, min(at + self.limits.chunk_rows, history.base, end))
            if events is None:
                raise GoneError(f"{history.name}'s rows from {at:,} on are gone")
            yield events
        yield history.events.since(begin).until(end)


def _level(lengths: Sequence[int], most: int) -> int:
    """Cut down to this length, the longest first, all together are no longer than ``most``."""
    for count, length in enumerate(lengths):
        others = sum(lengths[count:])
        if count and count * length + others <= most:
            return (most - others) // count
    return most // len(lengths)
