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
for long, and what it passes when it comes back is read again from the source (``rows``). If the
source no longer has it, the verdict is unknown, and says so. What stays open for too long leaves
the window all the same (``strays``).
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import msgspec
import numpy as np

from tidings.core import Members, ordered
from tidings.core.group import natural
from tidings.pipeline.watching.findings import Findings
from tidings.pipeline.watching.pieces import Events, Piece
from tidings.pipeline.watching.ranges import Array
from tidings.pipeline.watching.reader import Blocker, Pasts, Reader
from tidings.pipeline.watching.rows import Recall, Rows, gone
from tidings.pipeline.watching.strays import Strays
from tidings.pipeline.watching.views import AgreedSoFar, note_misbindings
from tidings.pipeline.watching.window import ORDER, History
from tidings.spec import BELOW_THE_CUT, Guarantee, Violation
from tidings.trace import SCHEMA_VERSION, Manifest

Standing = Mapping[str, tuple[int, bool]]
"""By process, where its history ends, and whether something is there behind a missing part."""
NOWHERE: Standing = MappingProxyType({})


class WatchLimits(msgspec.Struct, frozen=True):
    window_rows: int = 1_000_000
    """Broadcasts and deliveries that are kept, of all processes together."""
    waiting_rows: int = 500_000
    """With so many rows of its process after it, a delivery leaves the window, though open."""
    strays: int = 1_000
    """Such deliveries that are kept elsewhere; ranges of messages taken as never broadcast."""
    stray_ranges: int = 200_000
    """Ranges of what came before such deliveries, about so many with all of them together."""
    late_rows: int = 2_000_000
    """Rows that are kept behind a missing part."""
    chunk_rows: int = 1_000_000
    """How much is read again at once."""
    violations: int = 10_000
    """Violations that are kept. All are counted."""


class Judge:
    """One run, as far as it has been read."""

    def __init__(
        self, manifest: Manifest, limits: WatchLimits | None = None, recall: Recall = gone
    ) -> None:
        self.run = manifest.run
        self.limits = limits or WatchLimits()
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.histories: list[History] = []
        self.views: tuple[Members, ...] = ()
        self.passed = np.zeros((0, 0), np.int64)
        self.blockers: dict[tuple[int, int], Blocker] = {}
        self.in_doubt: dict[tuple[int, int], Blocker] = {}
        """The same, where it is not known whether the row is about what anybody broadcast."""
        self.rows = Rows(self, recall)
        self.strays = Strays(self)
        self.findings = Findings(self)
        self.agreed = AgreedSoFar(self)
        self.ordered: dict[int, int] = {}
        """By reader, how many deliveries were judged for their order."""
        self.given = 0
        """Deliveries of what was broadcast below a cut."""
        self.given_up = ""
        """Why something can never be decided here, if so."""
        self.are_members_listed = True
        """If not, whoever has rows is a member, and some may not have had any so far."""
        self.is_over = False
        self._fresh: set[int] = set()
        self.know(manifest)

    # --- who there is

    def know(self, manifest: Manifest) -> None:
        """What the manifest says now: it grows while the group runs."""
        for name in ordered(manifest.names):
            self.number(name)
        for before, now in zip(self.views, manifest.views, strict=False):
            # No manifest lists who is known by its rows alone; it was a member all along.
            for name in (name for name in now if name not in before):
                self.passed[self.numbers[name]] = [history.begin for history in self.histories]
        self.views = manifest.views
        self._inside = [frozenset(self.number(name) for name in view) for view in manifest.views]
        for name, cut in manifest.cuts.items():
            history = self.histories[self.number(name)]
            if not history.rows and history.begin != cut.index:
                delivered = {self.number(one): last for one, last in cut.delivered.items()}
                history.begin_at(cut, delivered)
                self.passed[:, self.number(name)] = cut.index
                self._take_late(history)

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

    def take(self, pieces: Iterable[Piece], since: Standing = NOWHERE) -> list[Violation]:
        """What these show that was not known before.

        ``since`` is how far it had got so long ago that nobody waits for what was missing then.
        """
        for piece in pieces:
            self._take(piece)
        self._wait_no_longer(since)
        self._pass_all()
        self.strays.look()
        about_views = self.agreed.news()  # while the window has the rows that it may look for
        self._trim()
        return [*self.findings.news(), *about_views]

    def _take(self, piece: Piece) -> None:
        history = self.histories[self.number(piece.process)]
        if piece.end <= history.end:
            return  # read before
        if piece.begin > history.end:
            insort(history.late, piece, key=attrgetter("begin"))
            history.late_rows += piece.rows
            if history.late_rows > self.limits.late_rows:
                self._skip_hole(history)
            return
        self._go_on(history, piece)
        self._take_late(history)

    def _take_late(self, history: History) -> None:
        while history.late and history.late[0].begin <= history.end:
            piece = history.late.pop(0)
            history.late_rows -= piece.rows
            if piece.end > history.end:
                self._go_on(history, piece)

    def _skip_hole(self, history: History) -> None:
        """What is missing will not come: go on behind it."""
        history.holed = True
        history.last_kind = "nothing"  # what came last is missing
        history.end = history.late[0].begin
        self._take_late(history)

    def close(self) -> None:
        """Nothing more will come: what is missing is a hole, what was not read never happened."""
        self.is_over = True
        for history in self.histories:
            while history.late:
                self._skip_hole(history)
        self._pass_all()
        self.strays.look()

    @property
    def standing(self) -> Standing:
        """How far it has got, to be handed to ``take`` later."""
        some = (one for one in self.histories if one.rows or one.late)
        return {one.name: (one.end, bool(one.late)) for one in some}

    def _wait_no_longer(self, since: Standing) -> None:
        """What was missing then, and has not come, is a hole now. Causes whose broadcasts were not
        read then are taken as never broadcast."""
        for name, (end, was_late) in since.items():
            history = self.histories[self.number(name)]
            if was_late and history.late and history.end == end:
                self._skip_hole(history)
                self._fresh.add(self.numbers[name])
            history.patience = max(history.patience, end)

    def _go_on(self, history: History, piece: Piece) -> None:
        piece = piece.since(history.end)
        events = self.numbered(piece)
        me = self.numbers[history.name]
        note_misbindings(history, self.first_view(me), piece, events, self.limits.violations)
        news = history.take(piece, events, len(self.views))
        self._fresh.add(me)
        self._repeated(me, events.at(news.repeated))
        self._renamed(me, events.at(news.renamed))
        for moved in news.moved:
            self.agreed.readdress(me, moved)

    def numbered(self, piece: Piece) -> Events:
        """Its rows, with origins as everywhere here."""
        numbers = np.array([self.number(name) for name in piece.origins], np.int32)
        events = piece.events
        return events._replace(origin=numbers[events.origin])

    def first_view(self, process: int) -> int | None:
        """That of a founder; a newcomer has none before it joins."""
        return 0 if self._inside and process in self._inside[0] else None

    def _repeated(self, me: int, again: Events) -> None:
        for origin, places in again.by_origin():
            seqs = again.seq[places]
            firsts = self.findings.first_deliveries(me, origin)
            other = seqs[~np.isin(seqs, list(firsts))]
            rows = self.rows.deliveries(me, origin, other, self.findings.are_all_kept)
            firsts |= {seq: index for seq, (index, _) in rows.items()}
            for place in places.tolist():
                seq = int(again.seq[place])
                first = firsts.get(seq, BELOW_THE_CUT)
                witness = ((me, first), (me, int(again.index[place])))
                self.findings.report(Guarantee.NO_DUPLICATION, me, (origin, seq), witness)

    def _renamed(self, me: int, again: Events) -> None:
        """One name for two broadcasts: whoever delivers it cannot say which it is."""
        if not again.size:
            return
        ours = again.at(~self.histories[me].is_given(again.seq))
        rows = self.rows.broadcasts(me, ours.seq)
        self.findings.explain(me, zip(ours.seq.tolist(), ours.digest.tolist(), strict=True))
        for seq, index in zip(again.seq.tolist(), again.index.tolist(), strict=True):
            first = rows.get(seq, (BELOW_THE_CUT, 0))[0]
            self.findings.report(Guarantee.NO_CREATION, me, (me, seq), ((me, first), (me, index)))

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

    def give_up(self, reason: str) -> None:
        self.given_up = self.given_up or reason

    # --- the window

    def _trim(self) -> None:
        if self.are_members_listed or self._has_waited():
            self._drop_what_all_have_passed()
        self._lose_patience(
            [one.events.size - self.limits.waiting_rows for one in self.histories],
            [one.patience for one in self.histories],
        )
        total = sum(history.events.size for history in self.histories)
        if total > self.limits.window_rows:
            self._shorten()

    def _has_waited(self) -> bool:
        """Whether nobody waits for more members any longer, who would need all there was."""
        return any(history.patience for history in self.histories)

    def _drop_what_all_have_passed(self) -> None:
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
            if without.any():
                pasts = Pasts(self)
                for causes in self._causes_of(history.events.at(without), pasts):
                    self.strays.presume(number, causes)
                Reader(self, number, pasts).read_all()
            self.strays.add(number, np.flatnonzero((history.open > 0) & is_old))

    def _causes_of(self, deliveries: Events, pasts: Pasts) -> Iterator[Events]:
        """What each origin had before the last of these, as far as the window has it."""
        for origin, places in deliveries.by_origin():
            is_there, index, _ = pasts.find(origin, deliveries.seq[places])
            if is_there.any():
                yield self.histories[origin].events.until(int(index[is_there].max()))

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

    def is_in_doubt(self, reader: int, blocker: Blocker) -> bool:
        """Whether that may be so, and nobody can say before more is read."""
        _, origin, seq = blocker
        one = np.array([seq])
        is_missing = not self.histories[reader].has_got(origin, one)[0]
        return is_missing and not self.is_over and bool(self.are_unread(origin, one)[0])

    def is_known(self, origin: int, seq: int) -> bool:
        return bool(self.are_known(origin, np.array([seq]))[0])

    def are_known(self, origin: int, seq: Array) -> Array:
        """Of which messages a broadcast was read, or lies below the cut."""
        history = self.histories[origin]
        return history.has_sent(seq) | history.is_given(seq)

    def are_unread(self, origin: int, seq: Array) -> Array:
        """Which of the messages may still turn out to have been broadcast."""
        are = ~self.are_known(origin, seq)
        if are.any():
            are &= ~self.strays.are_presumed(origin, seq)
        return are

    def are_elsewhere(self, origin: int, seq: Array, views: Array) -> Array:
        """Which of the messages are bound, as far as is known, to another view than these."""
        history = self.histories[origin]
        are = history.has_sent(seq)
        for view, sent in history.sent.items():
            are &= ~((views == view) & sent.has(seq))
        return are


def _level(lengths: Sequence[int], most: int) -> int:
    """Cut down to this length, the longest first, all together are no longer than ``most``."""
    for count, length in enumerate(lengths):
        others = sum(lengths[count:])
        if count and count * length + others <= most:
            return (most - others) // count
    return most // len(lengths)
