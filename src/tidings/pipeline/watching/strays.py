"""What was open for longer than the window lasts, or than anybody has patience.

A delivery whose broadcast is not read becomes a *stray*. What its process had delivered before it,
and how far that had got through the history of the origin, is noted then, and the latter again
whenever more of the origin comes. So what decides it is in the window, and no history is ever read
again as a whole.

A message that nobody has broadcast so far, and that may be a cause, is *presumed* never to have
been broadcast; should it be after all, what was judged without it is in doubt.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from tidings.pipeline.watching.pieces import Events
from tidings.pipeline.watching.ranges import Array, Ranges
from tidings.pipeline.watching.reader import Blocker
from tidings.pipeline.watching.window import GoneError, History
from tidings.spec import Guarantee

if TYPE_CHECKING:
    from tidings.pipeline.watching.judge import Judge


class Stray(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that has left the window, and whose broadcast has not been read."""

    process: int
    index: int
    origin: int
    seq: int
    digest: int
    is_first: bool
    earlier: dict[int, list[tuple[int, int]]]
    """By origin, what the process had delivered before it, as ranges."""
    since: int
    """What the origin had below this index came in time."""
    waits_for: tuple[int, int] | None = None
    """What may be the first cause that it came before, if only that is not known."""


class Strays:
    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self.waiting: list[Stray] = []
        self.presumed: dict[int, dict[int, Ranges]] = {}
        """By origin, what was taken as never broadcast, by the reader for whom that mattered."""

    def add(self, process: int, places: Array) -> None:
        """Deliveries of a process, by their places in its window, that leave it though open."""
        if not len(places):
            return
        judge = self._judge
        history = judge.histories[process]
        room = self._room(history)
        kept, lost = places[:room], places[room:]
        for place, earlier in zip(kept.tolist(), self._earlier(process, kept), strict=True):
            row = history.events.at(place)
            index, origin, seq, digest = map(int, (row.index, row.origin, row.seq, row.digest))
            since = int(judge.passed[process, origin])
            is_first = bool(history.is_first[place])
            stray = Stray(process, index, origin, seq, digest, is_first, earlier, since)
            self.waiting.append(stray)
        if len(lost):
            origin = int(history.events.origin[lost[0]])
            judge.give_up(
                f"{history.name}'s deliveries wait for {judge.names[origin]}'s history "
                "longer than the window lasts"
            )
        history.open[places] = 0

    def _room(self, history: History) -> int:
        """How many more of its deliveries can be kept, each with all that came before it."""
        limits = self._judge.limits
        ranges = sum(len(pairs) for one in self.waiting for pairs in one.earlier.values())
        of_each = sum(len(seqs.firsts) for seqs in history.got.values())
        left = max(0, limits.stray_ranges - ranges) // max(1, of_each)
        return max(0, min(limits.strays - len(self.waiting), left))

    def _earlier(self, process: int, places: Array) -> list[dict[int, list[tuple[int, int]]]]:
        """What had been delivered before each of these: all, but for what the window has since."""
        history = self._judge.histories[process]
        is_new = history.is_first & ~history.events.is_broadcast
        left = dict(history.got)
        found, end = [], history.events.size
        for place in reversed(places.tolist()):
            later = history.events.at(place + np.flatnonzero(is_new[place:end]))
            for origin, at in later.by_origin():
                left[origin] = left[origin] - Ranges.of_numbers(later.seq[at])
            found.append({origin: seqs.pairs for origin, seqs in left.items()})
            end = place
        return found[::-1]

    def go_back(self, process: int, origin: int, index: int) -> None:
        """What the origin had from this index on may be for the process after all."""
        self.waiting = [
            msgspec.structs.replace(one, since=min(one.since, index), waits_for=None)
            if (one.process, one.origin) == (process, origin)
            else one
            for one in self.waiting
        ]

    # --- causes that never come

    def presume(self, reader: int, events: Events) -> None:
        """Take those of the messages that nobody broadcast so far as never broadcast."""
        for origin, places in events.by_origin():
            seq = events.seq[places]
            unread = seq[~self._judge.are_known(origin, seq)]
            if len(unread):
                by_reader = self.presumed.setdefault(origin, {})
                by_reader.setdefault(reader, Ranges()).add(unread)
        every = [seqs for by_reader in self.presumed.values() for seqs in by_reader.values()]
        if sum(len(seqs.firsts) for seqs in every) > self._judge.limits.strays:
            self._judge.give_up("too many messages were delivered whose broadcasts are not read")
            # No verdict rests on it now: take all between the first and the last so, too.
            for seqs in every:
                seqs.firsts, seqs.lasts = seqs.firsts[:1], seqs.lasts[-1:]

    def are_presumed(self, origin: int, seq: Array) -> Array:
        found = np.zeros(len(seq), bool)
        for seqs in self.presumed.get(origin, {}).values():
            found |= seqs.has(seq)
        return found

    # --- what is decided after all

    def look(self) -> None:
        judge = self._judge
        for origin, by_reader in self.presumed.items():
            known = judge.histories[origin].all_named
            for reader, seqs in by_reader.items():
                if not (come := seqs & known):
                    continue
                by_reader[reader] = seqs - come
                if reader in judge.inside[0] or len(judge.inside) > 1:
                    name = judge.findings.name_of((origin, int(come.firsts[0])))
                    judge.give_up(f"{name} was read too late to say whether all came after it")
        ready = list(filter(self._is_ready, self.waiting))
        self.waiting = [one for one in self.waiting if not self._is_ready(one)]
        for origin in sorted({one.origin for one in ready}):
            self._decide(origin, [one for one in ready if one.origin == origin])
        self.waiting = list(map(self._advanced, self.waiting))

    def _is_ready(self, stray: Stray) -> bool:
        judge, cause = self._judge, stray.waits_for
        is_stuck = cause is not None and not judge.is_over and not judge.is_known(*cause)
        return not is_stuck and judge.is_known(stray.origin, stray.seq)

    def _advanced(self, stray: Stray) -> Stray:
        """What has just come of its origin is in the window, and later it may not be."""
        history = self._judge.histories[stray.origin]
        if not history.base <= stray.since < history.end or not self._has_order(stray):
            return stray
        events = history.events.since(stray.since)
        if self._first_in(events.at(slice(1)), stray) is not None:
            return stray
        late = self._first_in(events, stray)
        since = history.end if late is None else late.row
        return msgspec.structs.replace(stray, since=since)

    def _decide(self, origin: int, strays: Sequence[Stray]) -> None:
        """Those of one origin: its broadcasts have been read."""
        judge = self._judge
        is_given = judge.histories[origin].is_given(np.array([one.seq for one in strays]))
        judge.given += int(is_given.sum())
        strays = [one for one, given in zip(strays, is_given.tolist(), strict=True) if not given]
        if not strays:
            return
        names = np.array([one.seq for one in strays])
        rows = judge.rows.broadcasts(origin, names, since=min(one.since for one in strays))
        asked = [_Asked(one, *rows[one.seq]) for one in strays if one.seq in rows]
        try:
            causes = self._first_late(origin, asked)
        except GoneError as fault:
            judge.give_up(str(fault))
            return
        for one, cause in zip(asked, causes, strict=True):
            if cause is not None and not judge.is_known(cause.origin, cause.seq):
                missing = (cause.origin, cause.seq)
                again = msgspec.structs.replace(one.stray, since=cause.row, waits_for=missing)
                self.waiting.append(again)
            else:
                self._conclude(one, cause)

    def _first_late(self, origin: int, asked: "Sequence[_Asked]") -> list[Blocker | None]:
        """Of each the first cause, or what may be one, that it came before."""
        found: list[Blocker | None] = [None] * len(asked)
        left = [place for place, one in enumerate(asked) if self._has_order(one.stray)]
        if not left:
            return found
        begin = min(asked[place].stray.since for place in left)
        end = max(asked[place].row for place in left)
        for events in self._judge.rows.between(origin, begin, end):
            for place in left:
                stray, index, _ = asked[place]
                found[place] = self._first_in(events.since(stray.since).until(index), stray)
            left = [place for place in left if found[place] is None]
        return found

    def _has_order(self, stray: Stray) -> bool:
        return stray.is_first and not self._judge.histories[stray.process].holed

    def _first_in(self, events: Events, stray: Stray) -> Blocker | None:
        judge = self._judge
        is_missing = np.zeros(events.size, bool)
        for origin, chosen in events.by_origin():
            seq = events.seq[chosen]
            is_late = ~Ranges.of(stray.earlier.get(origin, ())).has(seq)
            is_asked = judge.is_addressed(stray.process, origin, seq)
            if not judge.is_over:
                is_asked |= judge.are_unread(origin, seq)
            is_missing[chosen] = is_late & is_asked
        return Blocker.of(events, int(np.argmax(is_missing))) if is_missing.any() else None

    def _conclude(self, asked: "_Asked", cause: Blocker | None) -> None:
        judge, (stray, index, text) = self._judge, asked
        message, at = (stray.origin, stray.seq), (stray.process, stray.index)
        if self._has_order(stray):
            judge.ordered[stray.process] = judge.ordered.get(stray.process, 0) + 1
        if stray.digest != text and judge.findings.is_forged(message, stray.digest):
            judge.findings.report(
                Guarantee.NO_CREATION,
                stray.process,
                message,
                (at, (stray.origin, index)),
                text=stray.digest,
            )
        if cause is not None:
            early = ((stray.origin, cause.row), (stray.origin, index), at)
            missing = (cause.origin, cause.seq)
            judge.findings.report(Guarantee.CAUSAL_ORDER, stray.process, message, early, missing)


class _Asked(NamedTuple):
    """A stray, and where and with which text it was broadcast."""

    stray: Stray
    row: int
    text: int
