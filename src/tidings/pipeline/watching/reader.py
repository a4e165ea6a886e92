"""One reader against the histories of all origins: texts, and the order of causes."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidings.pipeline.watching.pieces import Events
from tidings.pipeline.watching.ranges import Array
from tidings.pipeline.watching.window import ORDER, TEXT, History
from tidings.spec import Guarantee

if TYPE_CHECKING:
    from tidings.pipeline.watching.judge import Judge

NEVER = 1 << 62
"""The place of what was not delivered: after everything."""
UNREAD = -1


class Blocker(NamedTuple):
    """The row of an origin beyond which a reader has not got."""

    row: int
    """Its index."""
    origin: int
    seq: int

    @classmethod
    def of(cls, events: Events, place: int) -> "Blocker":
        return cls(int(events.index[place]), int(events.origin[place]), int(events.seq[place]))


class Places:
    """Where rows with certain sequence numbers are; none of the numbers is there twice."""

    def __init__(self, seq: Array) -> None:
        self.seq = seq
        self.order: Array | None = None
        if len(seq) > 1 and not bool((seq[1:] > seq[:-1]).all()):
            self.order = np.argsort(seq, kind="stable")
            self.seq = seq[self.order]

    def find(self, seq: Array) -> tuple[Array, Array]:
        """Whether each number is there, and its place."""
        if not len(self.seq):
            return np.zeros(len(seq), bool), np.zeros(len(seq), np.int64)
        first, count = int(self.seq[0]), len(self.seq)
        if int(self.seq[-1]) - first == count - 1:
            at = seq - first
            is_there = (at >= 0) & (at < count)
            if not is_there.all():
                at = at.clip(0, count - 1)
        else:
            at = np.searchsorted(self.seq, seq).clip(max=count - 1)
            is_there = self.seq[at] == seq
        return is_there, at if self.order is None else self.order[at]


class Past:
    """Rows of an origin, and what can be known of them whoever reads."""

    def __init__(self, judge: "Judge", process: int, events: Events) -> None:
        self.events = events
        self._judge = judge
        self._groups = [(origin, at, events.seq[at]) for origin, at in events.by_origin()]
        self._addressed: dict[tuple[int, ...], list[Array]] = {}
        self._unread = [judge.are_unread(origin, seq) for origin, _, seq in self._groups]
        """Whose broadcast has not been read; or how it was moved to the view where it came."""
        if judge.is_changing and not judge.is_over:
            self._unread = self._and_moved(process)
        self.is_sure = np.ones(events.size, bool)
        """Whose broadcast is known."""
        if not judge.is_over:
            for (_, at, _), unread in zip(self._groups, self._unread, strict=True):
                self.is_sure[at[unread]] = False

    def _and_moved(self, process: int) -> list[Array]:
        history, events = self._judge.histories[process], self.events
        views = history.views_at(events.index, self._judge.first_view(process))
        return [
            unread | (~events.is_broadcast[at] & self._judge.are_elsewhere(origin, seq, views[at]))
            for (origin, at, seq), unread in zip(self._groups, self._unread, strict=True)
        ]

    def asked(self, reader: "Reader", begin: int) -> Array:
        """For each row from this place on, which place of the reader it asks for.

        That is the place of the reader's first delivery of the same message, counted from 1; 0 if
        that was long ago or the message is not for the reader.
        """
        asked = np.zeros(self.events.size - begin, np.int64)
        addressed = self._addressed_to(reader.views)
        for (origin, at, seq), are_for_it in zip(self._groups, addressed, strict=True):
            first = int(np.searchsorted(at, begin))
            places = reader.delivered(origin, seq[first:])
            asked[at[first:] - begin] = np.where(are_for_it[first:], places, 0)
        return asked

    def _addressed_to(self, views: tuple[int, ...]) -> list[Array]:
        """Of each group what is, or may be, addressed to members of these views."""
        if views not in self._addressed:
            self._addressed[views] = [
                self._judge.is_sent_in(views, origin, seq) | (unread & (not self._judge.is_over))
                for (origin, _, seq), unread in zip(self._groups, self._unread, strict=True)
            ]
        return self._addressed[views]


class Pasts:
    """The windows of all origins, looked at when they are needed, once for all readers."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._sent: dict[int, tuple[Places, Events]] = {}
        self._pasts: dict[int, tuple[int, Past]] = {}

    def find(self, origin: int, seq: Array) -> tuple[Array, Array, Array]:
        """Which of these have their first broadcast in the window, its index and digest."""
        if origin not in self._sent:
            history = self._judge.histories[origin]
            rows = history.events.at(np.flatnonzero(history.events.is_broadcast & history.is_first))
            self._sent[origin] = Places(rows.seq), rows
        return _found(*self._sent[origin], seq)

    def since(self, origin: int, index: int) -> tuple[Past, int]:
        """The rows of an origin, and the place from which on their index is not lower."""
        begin, past = self._pasts.get(origin, (index + 1, None))
        if past is None or index < begin:
            past = Past(self._judge, origin, self._judge.histories[origin].events.since(index))
            self._pasts[origin] = index, past
        return past, int(np.searchsorted(past.events.index, index))


def _found(places: Places, rows: Events, seq: Array) -> tuple[Array, Array, Array]:
    """Whether they are among the rows, and their indices and digests."""
    is_there, at = places.find(seq)
    if not rows.size:
        return is_there, at, at
    return is_there, rows.index[at], rows.digest[at]


class Reader:
    """What it delivered and is not judged yet, and where it delivered what others ask for."""

    def __init__(self, judge: "Judge", number: int, pasts: Pasts) -> None:
        self.judge = judge
        self.number = number
        self.pasts = pasts
        self.views = judge.views_of(number)
        self.history = history = judge.histories[number]
        if history.holed:
            history.open &= ~ORDER  # what seems missing may be in the hole
        self.since = int(np.searchsorted(history.events.index, history.first_open))
        recent = history.events.at(slice(self.since, None))
        first = recent.at(np.flatnonzero(~recent.is_broadcast & history.is_first[self.since :]))
        self.recent = {
            origin: (Places(first.seq[mine]), first.index[mine] + 1)
            for origin, mine in first.by_origin()
        }
        """What it first delivered since its first open delivery, and where."""
        self.broadcast_at = np.full(history.events.size - self.since, UNREAD)
        """For each row since then, the index of the broadcast of its message, if it is known."""

    def read_all(self) -> None:
        for origin, history in enumerate(self.judge.histories):
            if history.rows:
                self._read(origin, history)
            elif history.given:
                self._resolve(origin)

    def _read(self, origin: int, history: History) -> None:
        judge, key = self.judge, (self.number, origin)
        if self.history.holed:
            judge.passed[key] = history.end
            judge.blockers.pop(key, None)
        if judge.passed[key] < history.base:
            self._catch_up(origin, history)
        self._resolve(origin)
        blocker = judge.blockers.get(key)
        if blocker is not None and judge.is_stuck(self.number, blocker):
            self._judge_behind(origin, blocker)
        elif judge.passed[key] >= history.base:
            self._pass(origin, *self.pasts.since(origin, int(judge.passed[key])), history.end)

    def _catch_up(self, origin: int, history: History) -> None:
        """Read again what the window no longer has, until the reader has passed it or is stuck."""
        judge, key = self.judge, (self.number, origin)
        size = judge.limits.chunk_rows
        while (begin := int(judge.passed[key])) < history.base:
            if self._has_to_wait(origin, begin):
                return
            end = min(begin + size, history.base)
            events = judge.rows.recalled(origin, begin, end)
            if events is None:
                judge.give_up(
                    f"{history.name}'s rows from {begin:,} to {history.base:,} are gone, and "
                    f"{self.history.name} came back to them"
                )
                judge.passed[key] = history.base
                judge.blockers.pop(key, None)
                return
            self._resolve_within(origin, events)
            self._pass(origin, Past(judge, origin, events), 0, end)
            if judge.passed[key] == begin and key not in judge.blockers:
                if end == history.base:
                    # What it waits for is in the window, or not read yet.
                    self._resolve(origin)
                    both = Past(judge, origin, Events.joined([events, history.events]))
                    self._pass(origin, both, 0, history.end)
                    return
                size *= 2

    def _has_to_wait(self, origin: int, passed: int) -> bool:
        """Whether it gets no further: to read that again would show nothing."""
        judge, key = self.judge, (self.number, origin)
        blocker = judge.blockers.get(key)
        if blocker is not None and judge.is_stuck(self.number, blocker):
            return True
        blocker = judge.in_doubt.get(key)
        if blocker is None or blocker.row != passed:
            return False
        return judge.is_in_doubt(self.number, blocker)

    # --- which broadcast each open delivery is about

    def _open_of(self, origin: int, what: int = TEXT | ORDER) -> Array:
        """Places, in its window, of deliveries from this origin of which that is open."""
        history = self.history
        is_open = (history.open[self.since :] & what) > 0
        return np.flatnonzero(is_open & (history.events.origin[self.since :] == origin))

    def _resolve(self, origin: int) -> None:
        """Find the broadcasts of what is open, and compare the texts."""
        events, judge = self.history.events, self.judge
        mine = self._open_of(origin)
        mine = mine[self.broadcast_at[mine] == UNREAD]
        if not len(mine):
            return
        sender = judge.histories[origin]
        seq = events.seq[self.since + mine]
        if sender.given:
            is_given = sender.is_given(seq)
            self._close_given(mine[is_given])
            mine, seq = mine[~is_given], seq[~is_given]
        is_there, index, digest = self.pasts.find(origin, seq)
        self._compare(mine[is_there], index[is_there], digest[is_there])
        is_below = ~is_there & sender.has_sent(seq)
        if is_below.any():
            self._compare_below(origin, mine[is_below], seq[is_below])

    def _compare_below(self, origin: int, mine: Array, seq: Array) -> None:
        """The same, with broadcasts that have left the window."""
        rows = self.judge.rows.broadcasts(origin, seq)
        is_gone = np.array([one not in rows for one in seq.tolist()])
        self.history.open[self.since + mine[is_gone]] = 0
        both = np.array([rows[one] for one in seq[~is_gone].tolist()], np.int64).reshape(-1, 2)
        self._compare(mine[~is_gone], both[:, 0], both[:, 1])

    def _resolve_within(self, origin: int, events: Events) -> None:
        """The same, with rows that are read again."""
        mine = self._open_of(origin)
        mine = mine[self.broadcast_at[mine] == UNREAD]
        if not len(mine):
            return
        is_given = self.judge.histories[origin].is_given(self.history.events.seq[self.since + mine])
        self._close_given(mine[is_given])
        mine = mine[~is_given]
        rows = events.at(np.flatnonzero(events.is_broadcast))
        rows = rows.at(np.sort(np.unique(rows.seq, return_index=True)[1]))
        seq = self.history.events.seq[self.since + mine]
        is_there, index, digest = _found(Places(rows.seq), rows, seq)
        self._compare(mine[is_there], index[is_there], digest[is_there])

    def _close_given(self, mine: Array) -> None:
        is_open = self.history.open[self.since + mine] & TEXT > 0
        self.judge.given += int(is_open.sum())
        self.history.open[self.since + mine] = 0

    def _compare(self, mine: Array, index: Array, digest: Array) -> None:
        self.broadcast_at[mine] = index
        history, at, findings = self.history, self.since + mine, self.judge.findings
        is_wrong = (history.open[at] & TEXT > 0) & (history.events.digest[at] != digest)
        for place in np.flatnonzero(is_wrong).tolist():
            row = history.events.at(int(at[place]))
            message, text = (int(row.origin), int(row.seq)), int(row.digest)
            if findings.is_forged(message, text):
                witness = ((self.number, int(row.index)), (message[0], int(index[place])))
                findings.report(Guarantee.NO_CREATION, self.number, message, witness, text=text)
        history.open[at] &= ~TEXT

    # --- whether its causes came first

    def delivered(self, origin: int, seq: Array) -> Array:
        """For each message the place of the first delivery, counted from 1; 0 is long ago."""
        if origin not in self.recent:
            return np.where(self.history.has_got(origin, seq), 0, NEVER)
        places, index = self.recent[origin]
        is_there, at = places.find(seq)
        found = index[at]
        if not is_there.all():
            other = ~is_there
            found[other] = np.where(self.history.has_got(origin, seq[other]), 0, NEVER)
        return found

    def _pass(self, origin: int, past: Past, begin: int, end: int) -> None:
        """Judge what is open by these rows of an origin, up to ``end``, and go as far as possible.

        They begin where the reader has got to.
        """
        judge, key = self.judge, (self.number, origin)
        events, is_sure = past.events.at(slice(begin, None)), past.is_sure[begin:]
        asked = past.asked(self, begin)
        so_far = np.maximum.accumulate(asked)
        self._judge(origin, events, end, so_far, is_sure)
        waiting = self._open_of(origin, ORDER)
        # What is still open may turn out to ask for less than was delivered since.
        least = NEVER
        if len(waiting):
            least = int(self.history.events.index[self.since + waiting[0]]) + 1
        place = int(np.searchsorted(so_far, least))
        judge.blockers.pop(key, None)
        judge.in_doubt.pop(key, None)
        if place == events.size:
            judge.passed[key] = end
            return
        judge.passed[key] = events.index[place]
        if asked[place] == NEVER:
            waits_at = judge.blockers if is_sure[place] else judge.in_doubt
            waits_at[key] = Blocker.of(events, place)

    def _judge(self, origin: int, events: Events, end: int, so_far: Array, is_sure: Array) -> None:
        mine = self._open_of(origin, ORDER)
        mine = mine[(self.broadcast_at[mine] != UNREAD) & (self.broadcast_at[mine] < end)]
        mine = self._without_strangers(origin, mine)
        if not len(mine):
            return
        history, at = self.history, self.since + mine
        place = np.searchsorted(events.index, self.broadcast_at[mine])
        before = so_far[place - 1] if events.size else np.zeros(len(mine), np.int64)
        delivered = history.events.index[at] + 1
        is_early = (place > 0) & (before >= delivered)
        early = np.flatnonzero(is_early)
        is_decided = np.ones(len(mine), bool)
        if len(early):
            causes = np.searchsorted(so_far, delivered[early])
            is_decided[early] = is_sure[causes]
            early, causes = early[is_sure[causes]], causes[is_sure[causes]]
            for one, cause in zip(early.tolist(), causes.tolist(), strict=True):
                self._came_early(int(mine[one]), Blocker.of(events, cause))
        self._close(at[is_decided])

    def _without_strangers(self, origin: int, mine: Array) -> Array:
        """Without what is addressed to views of others: it will be moved, and causes with it."""
        if not len(mine) or self.judge.is_over or not self.judge.is_changing:
            return mine
        events = self.history.events.at(self.since + mine)
        is_late = events.index < self.history.patience
        return mine[is_late | self.judge.is_addressed(self.number, origin, events.seq)]

    def _judge_behind(self, origin: int, blocker: Blocker) -> None:
        """Whatever was broadcast after what the reader lacks came too early."""
        mine = self._open_of(origin, ORDER)
        mine = self._without_strangers(origin, mine[self.broadcast_at[mine] != UNREAD])
        for place in mine[self.broadcast_at[mine] > blocker.row].tolist():
            self._came_early(place, blocker)
        self._close(self.since + mine)

    def _came_early(self, place: int, cause: Blocker) -> None:
        row = self.history.events.at(self.since + place)
        origin = int(row.origin)
        witness = (
            (origin, cause.row),
            (origin, int(self.broadcast_at[place])),
            (self.number, int(row.index)),
        )
        message, missing = (origin, int(row.seq)), (cause.origin, cause.seq)
        self.judge.findings.report(Guarantee.CAUSAL_ORDER, self.number, message, witness, missing)

    def _close(self, at: Array) -> None:
        self.judge.ordered[self.number] = self.judge.ordered.get(self.number, 0) + len(at)
        self.history.open[at] &= ~ORDER
