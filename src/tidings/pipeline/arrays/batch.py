"""All runs of a batch judged at once, exactly as the specification judges them one by one.

Nothing but numpy. The events of a batch, its broadcasts and deliveries, stand in the order of
(run, process, index), so one number, the position of an event, says everything about order: of
two events of one process the later has the larger position, and "the first" by the specification's
order is the least. Messages are numbered in the same order, by their first broadcast; those that
nobody broadcast come after all others.

The readers are taken one after the other, process 0 of every run first. For one reader
``delivered`` holds the position of its first delivery of each message, NEVER if there is none.
Duplicates, missing deliveries and Causal Order all follow from this one array. For Causal Order
every event of an origin asks for a position in the reader's history: that of the reader's first
delivery of the same message. The largest position asked for so far is a running maximum; where
it reaches the position at which the reader delivered m itself, some cause of m came too late.
The maximum only grows, so the first such cause is found by binary search. Runs are kept apart
by adding to each history's positions more than the history before it can reach.

What was cut off a history has no position. It came before everything that is left, so BELOW, less
than any position, stands for it; a message that was broadcast there is among those that nobody
broadcast, but marked as given.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.arrays.causes import Losses, followed
from tidings.pipeline.arrays.findings import (
    FAULT,
    NOTHING,
    Array,
    Causes,
    Findings,
    Found,
    first_of_each_run,
    joined,
)
from tidings.pipeline.arrays.known import KnownRuns
from tidings.pipeline.arrays.views import Changing, PlacedEvents, ViewsJudge
from tidings.spec import BELOW_THE_CUT, Extra, Guarantee
from tidings.spec.verdict import MOST_CAUSES, Fault

BELOW = -2
"""The position of an event that was cut off."""

SPARSE = 4
"""A table addressed by sequence numbers may have this many places for each event."""


class Events(NamedTuple):
    """The broadcasts and deliveries of whole runs, by run, process and index.

    Runs and processes are numbers; ``view`` matters for broadcasts alone.
    """

    run: Array
    process: Array
    index: Array
    is_broadcast: Array
    origin: Array
    seq: Array
    digest: Array
    view: Array

    def at(self, places: Array) -> "Events":
        """Some of the events; a column that was not read stays empty."""
        return Events(*(column[places] if len(column) else column for column in self))


def judge(events: Events, known: KnownRuns, most: int | None = None) -> Findings:
    """The counts of every run, and of each guarantee its first ``most`` violations, or all."""
    if len(events.index):
        return _Batch(events, known, most).findings()
    found = Findings.of_nothing(len(known.settled))
    none = np.zeros(0, np.int64)
    found.counts[:, -1], of_views = _views(events, none, none, known, most)
    return found._replace(breaches={Extra.VIEWS: of_views})


def _views(
    events: Events, message: Array, is_sent: Array, known: KnownRuns, most: int | None
) -> tuple[Array, Found]:
    changing = [
        Changing(run, ending, rebinds)
        for run, (ending, rebinds) in sorted(known.changing.items())
        if ending.evidence.agreed
    ]
    columns = (events.run, events.process, events.index, events.is_broadcast)
    names = (events.origin, events.seq, events.view)
    placed = PlacedEvents(*columns, *names, message, is_sent)
    runs, width = known.correct.shape
    return ViewsJudge(changing, placed, width).found(runs, most)


class _Batch:
    def __init__(self, events: Events, known: KnownRuns, most: int | None) -> None:
        self.events = events
        self.known = known
        self.most = most
        self.runs, self.width = known.correct.shape
        self.never = len(events.index)
        """The position of what was not delivered: after everything."""
        self.history = events.run * self.width + events.process
        self._number_messages()
        self._rebind()
        self._judge_debts()

    # --- which message each event is about

    def _number_messages(self) -> None:
        events, cuts = self.events, self.known.cuts
        names, count = numbered(events.run * self.width + events.origin, events.seq)
        broadcasts = np.flatnonzero(events.is_broadcast)
        listed = broadcasts
        if cuts is not None:
            is_given = cuts.are_given(events.run, events.origin, events.seq)
            listed = broadcasts[~is_given[broadcasts]]
        firsts = _first_places(names[listed], listed, count, none=-1)
        is_first = firsts[names[broadcasts]] == broadcasts
        self.sent = broadcasts[is_first]
        """For each message the position of its first broadcast."""
        self.again = broadcasts[~is_first]
        """Broadcasts under a name that was taken."""
        numbers = np.full(count, -1)
        numbers[names[self.sent]] = np.arange(len(self.sent))
        strays = np.flatnonzero((np.bincount(names, minlength=count) > 0) & (numbers < 0))
        numbers[strays] = len(self.sent) + np.arange(len(strays))
        self.message = numbers[names]
        self.strays = len(strays)
        self.is_given = np.zeros(len(self.sent) + self.strays, bool)
        """Which messages were broadcast below the cut."""
        if cuts is not None:
            self.is_given[self.message[is_given]] = True
        self.sent_run = events.run[self.sent]
        self.sent_by = events.process[self.sent]
        self.sent_view = self.known.first_view[self.sent_run] + events.view[self.sent]

    def _rebind(self) -> None:
        """A message belongs to the view of its last binding."""
        rebound = {run: moved for run, (_, moved) in self.known.changing.items() if moved}
        if not rebound:
            return
        mine = np.flatnonzero(np.isin(self.sent_run, list(rebound)))
        seq = self.events.seq[self.sent[mine]]
        named = np.stack([self.sent_run[mine], self.sent_by[mine], seq], axis=1).tolist()
        message = {tuple(name): at for name, at in zip(named, mine.tolist(), strict=True)}
        for run, moved in rebound.items():
            for index, process, seq, view in moved:
                at = message.get((run, process, seq))
                if at is not None and self.events.index[self.sent[at]] < index:
                    self.sent_view[at] = self.known.first_view[run] + view

    @cached_property
    def example(self) -> Array:
        """For each message an event that is about it."""
        return _first_places(self.message, np.arange(self.never), len(self.is_given), none=0)

    # --- for which messages anything is owed

    def _judge_debts(self) -> None:
        """``forsaken``: the list of the message, or of one in its causal past, has no majority.

        A fixpoint over one number for each history: where it first meets a forsaken message.
        """
        known = self.known
        lost = known.forsaken[self.sent_view] & known.settled[self.sent_run]
        self.forsaken = lost
        if not lost.any():
            return
        doomed = np.bincount(self.sent_run[lost], minlength=self.runs) > 0
        met = np.flatnonzero(doomed[self.events.run] & (self.message < len(self.sent)))
        while True:
            bad = met[self.forsaken[self.message[met]]]
            since = _first_places(self.history[bad], bad, self.runs * self.width, none=self.never)
            tainted = since[self.history[self.sent]] < self.sent
            forsaken = lost | (tainted & (known.settled & known.spreads)[self.sent_run])
            if np.array_equal(forsaken, self.forsaken):
                return
            self.forsaken = forsaken

    # --- the verdicts

    def findings(self) -> Findings:
        self._read_all_readers()
        found = {
            Guarantee.NO_DUPLICATION: self._no_duplication(),
            Guarantee.NO_CREATION: self._no_creation(),
            Guarantee.VALIDITY: self._validity(),
            Guarantee.UNIFORM_AGREEMENT: self._uniform_agreement(),
            Guarantee.CAUSAL_ORDER: self._causal_order(),
        }
        roots = self._roots(*found.values())
        causes = self._causes(found, roots)
        counts = np.stack([each[0] for each in found.values()], axis=1)
        counts = np.concatenate([counts, causes.counts(self.runs)[:, :, None]], axis=2)
        breaches: dict[Guarantee | Extra, Found] = {
            guarantee: self._found(root, *each[1:])
            for root, (guarantee, each) in zip(roots, found.items(), strict=True)
        }
        is_sent = np.arange(len(self.is_given)) < len(self.sent)
        of_views, breaches[Extra.VIEWS] = _views(
            self.events, self.message, is_sent, self.known, self.most
        )
        counts = np.concatenate([counts, of_views[:, None]], axis=1)
        return Findings(counts, self._unreached(), breaches, causes.largest(MOST_CAUSES))

    def _read_all_readers(self) -> None:
        """One reader of every run after the other; what each of them shows is put together."""
        events = self.events
        deliveries = np.flatnonzero(~events.is_broadcast)
        by_reader = np.argsort(events.process[deliveries], kind="stable")
        ends = np.searchsorted(events.process[deliveries[by_reader]], np.arange(self.width + 1))
        self.deliveries = deliveries
        self.seen = np.full(len(self.sent), self.never)
        """For each message its delivery at the first process that has one, and who that is."""
        self.seen_by = np.full(len(self.sent), NOTHING)
        self.is_lost = np.zeros(len(self.sent), bool)
        """The origin itself did not deliver it."""
        self.repeats: list[tuple[Array, Array]] = []
        self.forgotten: list[tuple[Array, Array]] = []
        self.early: list[tuple[Array, Array, Array]] = []
        self.ordered = np.zeros(self.runs, np.int64)
        self.floor = self.history * (self.never + 2)
        for reader in range(self.width):
            self._read(reader, deliveries[by_reader[ends[reader] : ends[reader + 1]]])

    def _delivered(self, reader: int, mine: Array) -> Array:
        """For each message where the reader first delivered it, given all of its deliveries."""
        delivered = _first_places(
            self.message[mine], mine, len(self.sent) + self.strays, none=self.never
        )
        if self.known.cuts is not None:
            events, about = self.events, self.example
            columns = (events.run[about], events.origin[about], events.seq[about])
            delivered[self.known.cuts.had_delivered(reader, *columns)] = BELOW
        return delivered

    def _read(self, reader: int, mine: Array) -> None:
        message, known = self.message, self.known
        delivered = self._delivered(reader, mine)
        first = delivered[message[mine]]
        is_repeat = first != mine
        self.repeats.append((first[is_repeat], mine[is_repeat]))

        at = delivered[: len(self.sent)]
        is_unseen = self.seen == self.never
        self.seen = np.where(is_unseen, at, self.seen)
        self.seen_by[is_unseen] = reader
        is_missing = at == self.never
        self.is_lost |= is_missing & (self.sent_by == reader)
        messages = np.flatnonzero(is_missing & known.survivors[self.sent_view, reader])
        self.forgotten.append((messages, np.full(len(messages), reader)))

        if len(mine):
            self._order(reader, delivered)

    def _order(self, reader: int, delivered: Array) -> None:
        """Whether this reader delivered the causes of each message before the message itself."""
        known, at = self.known, delivered[: len(self.sent)]
        is_whole = known.is_whole[:, reader][self.sent_run]
        is_judged = is_whole & (at < self.never) & (at != BELOW)
        self.ordered += np.bincount(self.sent_run[is_judged], minlength=self.runs)
        is_addressed = known.members[self.sent_view, reader] & is_whole
        asked = np.zeros(len(self.sent) + self.strays, np.int64)
        asked[: len(at)] = np.where(is_addressed & (at != BELOW), at + 1, 0)
        if known.cuts is not None:
            self._ask_for_given(reader, delivered, asked)
        so_far = asked[self.message]
        so_far += self.floor
        np.maximum.accumulate(so_far, out=so_far)
        before = np.where(self.sent > 0, so_far[self.sent - 1], -1)
        reached = self.floor[self.sent] + at + 1
        early = np.flatnonzero(is_judged & (before >= reached))
        if len(early):
            causes = np.searchsorted(so_far, reached[early], side="left")
            self.early.append((early, at[early], causes))

    def _ask_for_given(self, reader: int, delivered: Array, asked: Array) -> None:
        """There is but one list of members where anything was cut off."""
        known = self.known
        given = np.flatnonzero(self.is_given & (delivered != BELOW))
        run = self.events.run[self.example[given]]
        is_asked = known.members[known.first_view[run], reader] & ~known.holed[run, reader]
        asked[given[is_asked]] = delivered[given[is_asked]] + 1

    # --- each guarantee: its counts, then positions for its witnesses, in the order of the spec

    def _no_duplication(self) -> Any:
        first, again = joined(self.repeats, 2)
        order = np.argsort(again, kind="stable")
        first, again = first[order], again[order]
        counts = self._counts(self.events.run[self.deliveries], self.events.run[again])
        return counts, self.events.process[again], again, (first, again)

    def _no_creation(self) -> Any:
        events = self.events
        invented = self._invented()
        found = np.concatenate([invented, self.again])
        is_renamed = np.arange(len(found)) >= len(invented)
        order = np.lexsort((found, is_renamed, events.run[found]))
        found, is_renamed = found[order], is_renamed[order]
        message = self.message[found]
        is_sent = message < len(self.sent)
        broadcast = np.where(self.is_given[message], BELOW, NOTHING)
        broadcast[is_sent] = self.sent[message[is_sent]]
        compared = self.deliveries
        if self.known.cuts is not None:
            compared = compared[~self.is_given[self.message[compared]]]
        counts = self._counts(events.run[compared], events.run[found])
        witness = (
            np.where(is_renamed, broadcast, found),
            np.where(is_renamed, found, broadcast),
        )
        return counts, events.process[found], found, witness

    def _invented(self) -> Array:
        """Deliveries of what nobody broadcast, or not with this text."""
        events = self.events
        is_stray = self.message[self.deliveries] >= len(self.sent)
        strays, others = self._untold(), self.deliveries[~is_stray]
        hidden = (self.known.holed | self.known.may_come)[events.run[strays], events.origin[strays]]
        other_text = others[events.digest[others] != events.digest[self.sent][self.message[others]]]
        if len(other_text) and len(self.again):
            # A name that was used twice: the text of any of its broadcasts will do.
            spoken = set(zip(self.message[self.again], events.digest[self.again], strict=True))
            heard = zip(self.message[other_text], events.digest[other_text], strict=True)
            other_text = other_text[np.array([one not in spoken for one in heard])]
        return np.sort(np.concatenate([strays[~hidden], other_text]))

    def _untold(self) -> Array:
        """Deliveries of what nobody broadcast, as far as anybody can tell."""
        strays = self.deliveries[self.message[self.deliveries] >= len(self.sent)]
        return strays[~self.is_given[self.message[strays]]]

    def _unreached(self) -> Array:
        """For each run its first delivery whose broadcast may still come, or NOTHING."""
        events = self.events
        strays = self._untold()
        waiting = strays[self.known.may_come[events.run[strays], events.origin[strays]]]
        first = _first_places(events.run[waiting], waiting, self.runs, none=NOTHING)
        names = np.stack([events.origin[first], events.seq[first]], axis=1)
        return np.where(first[:, None] == NOTHING, NOTHING, names)

    def _validity(self) -> Any:
        known = self.known
        is_promised = known.settled[self.sent_run] & known.correct[self.sent_run, self.sent_by]
        lost = np.flatnonzero(is_promised & ~self.forsaken & self.is_lost)
        at = self.sent[lost]
        counts = self._counts_of_debts(is_promised, self.sent_run[lost])
        return counts, self.sent_by[lost], at, (at,)

    def _uniform_agreement(self) -> Any:
        known = self.known
        is_delivered = known.settled[self.sent_run] & (self.seen < self.never)
        message, process = joined(self.forgotten, 2)
        is_owed = (is_delivered & ~self.forsaken)[message]
        message, process = message[is_owed], process[is_owed]
        order = np.lexsort((known.rank[self.sent_view[message], process], message))
        message, process = message[order], process[order]
        counts = self._counts_of_debts(is_delivered, self.sent_run[message])
        at = self.sent[message]
        return counts, process, at, (at, self.seen[message]), None, self.seen_by[message]

    def _causal_order(self) -> Any:
        message, at, cause = joined(self.early, 3)
        order = np.argsort(at, kind="stable")
        message, at, cause = message[order], at[order], cause[order]
        counts = self._counts(message[:0], self.sent_run[message])
        counts[:, 0] = self.ordered
        witness = (cause, self.sent[message], at)
        return counts, self.events.process[at], self.sent[message], witness, cause

    # --- what all that follows from: a message is a root at a process

    def _roots(self, repeated: Any, invented: Any, lost: Any, owed: Any, early: Any) -> list[Array]:
        """For each violation of each guarantee its root."""
        roots = [self.message[each[2]] for each in (repeated, invented, lost, owed, early)]
        count = len(self.is_given)
        lost_at, owed_at = (each[1] * count + self.message[each[2]] for each in (lost, owed))
        debts = np.unique(np.concatenate([lost_at, owed_at]))
        losses = self._losses(debts)
        roots[2:4] = (losses[np.searchsorted(debts, at)] for at in (lost_at, owed_at))
        _, process, about, _, cause, *_ = early
        if len(about):
            at = process * count
            ends = followed(at + self.message[about], at + self.message[cause])
            roots[4] = ends - at
            is_debt = np.isin(ends, debts)
            roots[4][is_debt] = losses[np.searchsorted(debts, ends[is_debt])]
        return roots

    def _losses(self, debts: Array) -> Array:
        """The roots of what is owed and never delivered."""
        roots = np.zeros_like(debts)
        if not len(debts):
            return roots
        events = self.events
        losses = Losses(
            self.message, self.history, events.is_broadcast, self.sent, self.runs, self.width
        )
        process, message = np.divmod(debts, len(self.is_given))
        for reader in np.unique(process).tolist():
            deliveries = self.deliveries[events.process[self.deliveries] == reader]
            is_delivered = self._delivered(reader, deliveries) != self.never
            mine = process == reader
            roots[mine] = losses.roots(message[mine], is_delivered)
        return roots

    def _causes(self, found: dict[Guarantee, Any], roots: list[Array]) -> Causes:
        """How many violations of each guarantee follow from each root."""
        process = np.concatenate([each[1] for each in found.values()])
        guarantee = np.repeat(np.arange(len(roots)), list(map(len, roots)))
        keys = process * len(self.is_given) + np.concatenate(roots)
        keys = keys * len(Fault) + FAULT[guarantee]
        causes, which = np.unique(keys, return_inverse=True)
        if not len(causes):
            return Causes.of_nothing()
        violated = np.bincount(which * len(roots) + guarantee, minlength=len(causes) * len(roots))
        process, message = np.divmod(causes // len(Fault), len(self.is_given))
        run, origin, seq = self._named(message)
        return Causes.of(run, process, origin, seq, violated.reshape(len(causes), -1))

    def _named(self, message: Array) -> tuple[Array, Array, Array]:
        """Run, origin and sequence number."""
        at = self.example[message]
        return self.events.run[at], self.events.origin[at], self.events.seq[at]

    # --- how it is told

    def _counts(self, judged: Array, violated: Array) -> Array:
        """From the runs of what was judged and of what was violated: judged, not owed, violated."""
        counts = np.zeros((self.runs, 3), np.int64)
        counts[:, 0] = np.bincount(judged, minlength=self.runs)
        counts[:, 2] = np.bincount(violated, minlength=self.runs)
        return counts

    def _counts_of_debts(self, is_due: Array, violated: Array) -> Array:
        counts = self._counts(self.sent_run[is_due & ~self.forsaken], violated)
        counts[:, 1] = np.bincount(self.sent_run[is_due & self.forsaken], minlength=self.runs)
        return counts

    def _found(
        self,
        root: Array,
        process: Array,
        about: Array,
        witness: tuple[Array, ...],
        cause: Array | None = None,
        whose: Array | None = None,
    ) -> Found:
        """``about``, ``cause`` and the witness are positions of events.

        ``whose`` event it is if one was cut off: of the process itself, unless it is said.
        """
        events = self.events
        shown = first_of_each_run(events.run[about], self.most)
        if not shown.any():
            return Found.joined([])
        about, owner = about[shown], (process if whose is None else whose)[shown]
        places = [
            (
                np.where(
                    at >= 0, events.process[at.clip(0)], np.where(at == BELOW, owner, NOTHING)
                ),
                np.where(at >= 0, events.index[at.clip(0)], BELOW_THE_CUT),
            )
            for at in (positions[shown] for positions in witness)
        ]
        of_cause = (NOTHING, NOTHING)
        if cause is not None:
            of_cause = events.origin[cause[shown]], events.seq[cause[shown]]
        run, names = events.run[about], (events.origin[about], events.seq[about])
        _, *of_root = self._named(root[shown])
        return Found.of(process[shown], about, *names, places, of_cause, run, tuple(of_root))


def numbered(group: Array, seq: Array) -> tuple[Array, int]:
    """A small number for each (group, sequence number), and how many places these numbers need.

    Sequence numbers are only names. Mostly they are dense, and then each group gets a stretch of
    a table; where they are not, a sort makes them so.
    """
    groups = int(group.max()) + 1
    lowest = np.full(groups, np.iinfo(np.int64).max)
    highest = np.full(groups, -1)
    np.minimum.at(lowest, group, seq)
    np.maximum.at(highest, group, seq)
    is_used = highest >= 0
    spread = np.where(is_used, highest - lowest, -1)
    # Added up in floating-point: a stranger's sequence numbers may be anything up to 2**63.
    if spread.astype(float).sum() > SPARSE * len(seq) + 1024:
        return _ranked(group, seq)
    sizes = spread + 1
    ends = np.cumsum(sizes)
    base = ends - sizes - np.where(is_used, lowest, 0)
    return base[group] + seq, int(ends[-1])


def _ranked(group: Array, seq: Array) -> tuple[Array, int]:
    order = np.lexsort((seq, group))
    group, seq = group[order], seq[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])
    ranks = np.cumsum(is_new) - 1
    names = np.empty(len(order), np.int64)
    names[order] = ranks
    return names, int(ranks[-1]) + 1


def _first_places(keys: Array, places: Array, count: int, none: int) -> Array:
    """For each key the first of its places, which come in ascending order."""
    first = np.full(count, none)
    # Of values assigned to one place the last one stays.
    first[keys[::-1]] = places[::-1]
    return first
