"""What the histories of a run say, gathered once for all five guarantees."""

from collections.abc import Iterator
from functools import cached_property

from tidings.core import Members, MessageId, majority, ordered
from tidings.spec.agreed import AgreedViews
from tidings.spec.verdict import BELOW_THE_CUT, Place
from tidings.trace import Row, Run


def place(row: Row) -> Place:
    return Place(row.process, row.index)


class Evidence:
    """A run, indexed. Only (process, index) order is used, never a clock or a sequence number.

    The one exception is the beginning of a history that was cut off: what it held is told by
    sequence numbers alone (``trace.Cut``), and came before everything that is left.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.views = run.manifest.views
        self.members = run.manifest.members
        self.cuts = run.manifest.cuts
        self.broadcasts: dict[MessageId, Row] = {}
        """The first under each name; none for a name that was used below the cut."""
        self.renamed: list[tuple[Place, Row]] = []
        self._rebound: dict[MessageId, int] = {}
        """The view to which each message was bound last, if not to that of its broadcast."""
        self.digests: dict[MessageId, set[str]] = {}
        self.deliveries: dict[str, dict[MessageId, Row]] = {}
        """Of each process the first of each message; none of what it delivered below its cut."""
        for process in self.processes:
            self._read(process)

    @cached_property
    def processes(self) -> Members:
        """Everybody who is owed a history: the members, and whoever else left one."""
        return ordered((*self.members, *self.run.histories))

    def history(self, process: str) -> list[Row]:
        """What the process broadcast and delivered, in its own order."""
        rows = self.run.histories.get(process, ())
        return [row for row in rows if row.kind in ("broadcast", "deliver")]

    def _read(self, process: str) -> None:
        delivered = self.deliveries[process] = {}
        for row in self.run.histories.get(process, ()):
            if row.kind == "rebind":
                if row.message in self.broadcasts:
                    assert isinstance(row.view, int)
                    self._rebound[row.message] = row.view
                continue
            if row.kind not in ("broadcast", "deliver"):
                continue
            if row.kind == "deliver":
                if not self.had_delivered(process, row.message):
                    delivered.setdefault(row.message, row)
                continue
            if self.is_given(row.message):
                self.renamed.append((Place(process, BELOW_THE_CUT), row))
                continue
            first = self.broadcasts.setdefault(row.message, row)
            if first is not row:
                self.renamed.append((place(first), row))
            self.digests.setdefault(row.message, set()).add(str(row.digest))

    # --- what was cut off

    def is_given(self, message: MessageId) -> bool:
        """Broadcast below the cut of its origin: when and with which text, nobody can say."""
        cut = self.cuts.get(message.origin)
        return cut is not None and cut.has_broadcast(message.seq)

    def had_delivered(self, process: str, message: MessageId) -> bool:
        """Delivered below the cut."""
        cut = self.cuts.get(process)
        return cut is not None and cut.has_delivered(*message)

    def has_delivered(self, process: str, message: MessageId) -> bool:
        """At any time."""
        return message in self.deliveries[process] or self.had_delivered(process, message)

    def first_delivery(self, process: str, message: MessageId) -> Place:
        """Where a process that delivered the message did so first."""
        row = self.deliveries[process].get(message)
        return place(row) if row is not None else Place(process, BELOW_THE_CUT)

    def seen(self, message: MessageId) -> Place | None:
        """Where the first process, by name, that delivered the message did so."""
        for process in self.processes:
            if self.has_delivered(process, message):
                return self.first_delivery(process, message)
        return None

    # --- what became of each process

    def has_settled(self, process: str) -> bool:
        """Up when the run settled; one that crashed and came back in time counts.

        One that left by agreement does not: whoever starts under its name is in no view.
        """
        return self._last_kind(process) == "settle" and not self.agreed.has_left(process)

    def is_correct(self, process: str) -> bool:
        """Settled, and not stranded in a view."""
        return self.has_settled(process) and process not in self._stranded

    def has_ended(self, process: str) -> bool:
        """Whether the history says, or the runner knew, what became of the process."""
        return self._reaches_the_end(process) or self.agreed.has_left(process)

    def _reaches_the_end(self, process: str) -> bool:
        fate = self.run.manifest.fates.get(process)
        if fate == "up":
            # A crash that was survived: the rows after the recovery are missing.
            return self._last_kind(process) == "settle"
        return fate is not None or self._last_kind(process) in ("settle", "crash", "leave")

    def _last_kind(self, process: str) -> str:
        rows = self.run.histories.get(process)
        return rows[-1].kind if rows else "nothing"

    @cached_property
    def doubt_about_histories(self) -> str:
        """Why not even the recorded past is known, if so. A prefix is a past; a hole is not."""
        for process in self.processes:
            if process in self.run.holed:
                return f"a part of {process}'s history is missing"
            # Even with a known fate: the history may be lost rather than empty.
            if process not in self.run.histories:
                return f"{process} left no history"
        return ""

    @cached_property
    def doubt_about_broadcasts(self) -> str:
        """Why something delivered may have been broadcast although nobody recorded it, if so."""
        if self.doubt_about_histories:
            return self.doubt_about_histories
        # Also of what was delivered below the cut before: who delivers it again must have it from
        # somewhere, and that its origin broadcast it is as unknown as for any other.
        for process in self.processes:
            for row in self.history(process):
                if row.kind == "deliver" and self._is_unreached(row.message):
                    return f"{row.message.origin}'s history does not reach {row.message}"
        return ""

    def _is_unreached(self, message: MessageId) -> bool:
        is_known = message in self.broadcasts or self.is_given(message)
        return not is_known and self._may_come_from(message.origin)

    def is_complete(self, process: str) -> bool:
        """Whether what is not in its history did not happen."""
        return self._reaches_the_end(process) and process in self.run.histories

    def _may_come_from(self, origin: str) -> bool:
        return origin in self.processes and not self.is_complete(origin)

    def was_invented(self, delivery: Row) -> bool:
        """Delivered, and broadcast by nobody, or with another text."""
        message = delivery.message
        if self.is_given(message):
            return False
        if message in self.broadcasts:
            return delivery.digest not in self.digests[message]
        return message.origin not in self.run.holed and not self._may_come_from(message.origin)

    @cached_property
    def doubt_about_the_end(self) -> str:
        """Why what is missing might still come, if so."""
        if self.doubt_about_histories:
            return self.doubt_about_histories
        for process in self.processes:
            if not self.has_ended(process):
                return f"{process} neither settled nor has a known fate"
        return ""

    # --- what is owed for each message

    @cached_property
    def agreed(self) -> AgreedViews:
        """False if the members did not agree on views."""
        run = self.run
        return AgreedViews(self.views, run.histories, self.processes, run.holed)

    def view_of(self, broadcast: Row) -> int:
        """To which list the message is addressed: that of its last binding."""
        assert isinstance(broadcast.view, int)
        return self._rebound.get(broadcast.message, broadcast.view)

    def addressees(self, broadcast: Row) -> Members:
        return self.views[self.view_of(broadcast)]

    def is_owed(self, broadcast: Row) -> bool:
        """The list of the message, and of everything in its causal past, kept its majority."""
        return not self._is_forsaken(broadcast)

    def _is_forsaken(self, broadcast: Row) -> bool:
        first = self._first_forsaken.get(broadcast.process)
        tainted = first is not None and first < broadcast.index
        return tainted or self.view_of(broadcast) in self.forsaken_views

    @cached_property
    def forsaken_views(self) -> set[int]:
        """The lists that lost their majority. Of agreed views: before that got through.

        A process that went on to a later view, or was removed by agreement, did not fail this one.
        """
        return {
            number
            for number, view in enumerate(self.views)
            if sum(self._has_not_failed(process, number) for process in view) < majority(len(view))
        }

    def _has_not_failed(self, process: str, view: int) -> bool:
        return self.has_settled(process) or self.agreed.has_got_through(process, view)

    @cached_property
    def _stranded(self) -> set[str]:
        """Those in a view after which another was decided on that lost its majority.

        Nobody may be left who knows it. But if a majority of their own view is up, they can get on.
        """
        if not self.agreed or not self.forsaken_views:
            return set()
        return set(filter(self._is_stranded, self.processes))

    def _is_stranded(self, process: str) -> bool:
        if not self.agreed.is_behind(process, self.forsaken_views):
            return False
        *_, last = self.agreed.stays(process)
        view = () if last.view is None else self.views[last.view]
        return sum(map(self.has_settled, view)) < majority(len(view))

    @property
    def spreads_loss(self) -> bool:
        """Whether a list without its majority forsakes what depends on its messages, too.

        Not where members agree on views: before anybody broadcasts in the next one it has
        delivered all that can be a cause from this one, and so have all others in it.
        """
        return bool(self.forsaken_views) and not self.agreed

    @cached_property
    def _first_forsaken(self) -> dict[str, int]:
        """Where each process first meets a forsaken message; all it broadcasts later depends on it.

        A fixpoint: a message is forsaken by its own list or by what its origin met before it.
        """
        self._first_forsaken = {}
        changed = self.spreads_loss
        while changed:
            changed = False
            for process in self.processes:
                met = next((row.index for row in self._forsaken_rows(process)), None)
                changed |= met != self._first_forsaken.get(process)
                if met is not None:
                    self._first_forsaken[process] = met
        return self._first_forsaken

    def _forsaken_rows(self, process: str) -> Iterator[Row]:
        for row in self.history(process):
            broadcast = self.broadcasts.get(row.message)
            if broadcast is not None and self._is_forsaken(broadcast):
                yield row
