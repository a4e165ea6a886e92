"""Rows that were judged before: in the window, or once more from the source."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.watching.pieces import Events, Piece
from tidings.pipeline.watching.ranges import Array
from tidings.pipeline.watching.window import GoneError

if TYPE_CHECKING:
    from tidings.pipeline.watching.judge import Judge

Recall = Callable[[str, str, int, int], Iterable[Piece] | None]
"""The pieces of a process in a run from one index up to another, in order; None if they are gone.
"""


def gone(run: str, process: str, begin: int, end: int) -> None:
    """The Recall of a source that cannot be read again."""
    return


class Rows:
    def __init__(self, judge: "Judge", recall: Recall) -> None:
        self._judge = judge
        self.recall = recall

    def recalled(self, process: int, begin: int, end: int) -> Events | None:
        """These rows once more, from the source."""
        judge = self._judge
        pieces = self.recall(judge.run, judge.names[process], begin, end)
        if pieces is None:
            return None
        found, at = [], begin
        for piece in pieces:
            if piece.begin > at and not judge.histories[process].holed:
                return None
            found.append(judge.numbered(piece).since(at).until(end))
            at = max(at, piece.end)
        return Events.joined(found) if at >= end else None

    def between(self, process: int, begin: int, end: int) -> Iterator[Events]:
        """In pieces, from the source and from the window."""
        history, size = self._judge.histories[process], self._judge.limits.chunk_rows
        for at in range(begin, min(end, history.base), size):
            events = self.recalled(process, at, min(at + size, history.base, end))
            if events is None:
                raise GoneError(f"{history.name}'s rows from {at:,} on are gone")
            yield events
        yield history.events.since(begin).until(end)

    # --- by names

    def deliveries(
        self, process: int, origin: int, seq: Array, are_single: bool = False
    ) -> dict[int, tuple[int, int]]:
        """By sequence number, index and digest of the first delivery of each of these.

        The process has delivered all of them; what it delivered below its cut is left out. If none
        was delivered twice before, ``are_single``, it is looked for from the newest rows on.
        """
        had = self._judge.histories[process].had.get(origin, 0)
        return self.named(process, origin, seq[seq > had], are_single=are_single)

    def broadcasts(self, origin: int, seq: Array, since: int = 0) -> dict[int, tuple[int, int]]:
        """The same of the first broadcast under each of these names; none is below ``since``."""
        again = self._judge.findings.again
        are_single = not any((origin, one) in again for one in seq.tolist())
        return self.named(origin, origin, seq, True, since=since, are_single=are_single)

    def named(
        self,
        process: int,
        origin: int,
        seq: Array,
        are_broadcasts: bool = False,
        since: int = 0,
        are_single: bool = False,
    ) -> dict[int, tuple[int, int]]:
        """All of them have been taken, but may have left the window, and the source too."""
        found: dict[int, tuple[int, int]] = {}
        wanted = np.unique(seq)
        if not len(wanted):
            return found
        for events in self._in_and_below_the_window(process, since, are_single):
            is_it = (events.is_broadcast == are_broadcasts) & (events.origin == origin)
            for place in np.flatnonzero(is_it & np.isin(events.seq, wanted)).tolist():
                row = int(events.index[place]), int(events.digest[place])
                found.setdefault(int(events.seq[place]), row)
            if len(found) == len(wanted):
                return found
        history = self._judge.histories[process]
        self._judge.give_up(f"{history.name}'s rows below {history.base:,} are gone")
        return found

    def _in_and_below_the_window(
        self, process: int, since: int, is_backwards: bool
    ) -> Iterator[Events]:
        """The window, then what is below it; first ones below it come before those inside."""
        history, size = self._judge.histories[process], self._judge.limits.chunk_rows
        yield history.events.at(np.flatnonzero(history.is_first))
        begins = range(max(since, history.begin), history.base, size)
        for begin in reversed(begins) if is_backwards else begins:
            events = self.recalled(process, begin, min(begin + size, history.base))
            if events is not None:
                yield events
