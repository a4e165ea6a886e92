"""The verdicts on what has been read, and what each member still owes.

While the group runs, Validity and Uniform Agreement are unknown: what is missing may still come.
What is owed is known all the same, as ranges. Once the run is over, and its histories say how each
member ended, what is owed has become a violation.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tidings.core.group import natural
from tidings.pipeline.statement import doubt_about_broadcasts
from tidings.pipeline.watching.findings import Found
from tidings.pipeline.watching.judge import Judge
from tidings.pipeline.watching.ranges import Ranges, numbers_in
from tidings.pipeline.watching.stored import loaded, stored
from tidings.pipeline.watching.window import TEXT, GoneError
from tidings.spec import BELOW_THE_CUT, Guarantee, Verdict, from_the_cut_on
from tidings.spec.endings import Ending, Life, ending_of
from tidings.spec.verdict import decide
from tidings.trace import Manifest


class Debt(NamedTuple):
    """Messages of one origin that a member has yet to deliver."""

    process: int
    origin: int
    seqs: Ranges


def debts(judge: Judge) -> Iterator[Debt]:
    """What somebody delivered, or broadcast itself, and an addressee has not delivered so far."""
    seen, removed = _seen(judge), judge.removed()
    members = [process for process in judge.processes if process not in removed]
    for origin, sender in enumerate(judge.histories):
        for process in members:
            owed = Ranges()
            for view, sent in sender.sent.items():
                if judge.names[process] in judge.views[view]:
                    owed = owed | (sent if process == origin else sent & seen[origin])
            owed = owed - judge.histories[process].got.get(origin, Ranges())
            if owed:
                yield Debt(process, origin, owed)


def _seen(judge: Judge) -> list[Ranges]:
    """Of each origin, what anybody has delivered."""
    seen = [Ranges() for _ in judge.names]
    for process in judge.processes:
        for origin, got in judge.histories[process].got.items():
            seen[origin] = seen[origin] | got
    return seen


def ending(judge: Judge, manifest: Manifest, with_late: bool = False) -> Ending:
    """What the ends of the histories say so far; with what waits behind a missing part, or not."""
    late = {one.name: one.late[-1].last_kind for one in judge.histories if with_late and one.late}
    lives = {
        one.name: Life(one.rows, late.get(one.name, one.last_kind), one.holed)
        for one in judge.histories
        if one.rows or one.name in late
    }
    return ending_of(0, manifest, lives, judge.agreed.steps())


def has_ended(judge: Judge, manifest: Manifest) -> bool:
    """Whether every history says how it ended, and nothing is missing that is waited for."""
    evidence = ending(judge, manifest).evidence
    return not any(history.late for history in judge.histories) and all(
        process in evidence.run.histories and evidence.has_ended(process)
        for process in evidence.processes
    )


def has_ended_but_for_parts(judge: Judge, manifest: Manifest) -> bool:
    """The same if nothing missing comes: no part, and no row of a member whose fate is known."""
    evidence = ending(judge, manifest, with_late=True).evidence
    return all(map(evidence.has_ended, evidence.processes))


def verdicts(judge: Judge, manifest: Manifest) -> tuple[Verdict, ...]:
    """So far: safety on what could be decided, the rest unknown."""
    return _Statement(judge, manifest).five()


def final_verdicts(judge: Judge, manifest: Manifest) -> tuple[Verdict, ...]:
    """If nothing more comes. The judge itself stays as it is, for more may come after all."""
    closed = loaded(stored(judge), judge.limits, judge.rows.recall)
    closed.know(manifest)
    closed.close()
    return _Statement(closed, manifest).five()


class _Statement:
    def __init__(self, judge: Judge, manifest: Manifest) -> None:
        self.judge = judge
        self.manifest = manifest
        self.ending = ending(judge, manifest)
        evidence = self.ending.evidence
        self.the_end = evidence.doubt_about_the_end or judge.given_up
        if not judge.is_over:
            self.the_end = self.the_end or "the run is not over"
        if not self.the_end:
            try:
                self.forsaken = self._find_forsaken()
            except GoneError as fault:
                self.the_end = str(fault)

    def five(self) -> tuple[Verdict, ...]:
        evidence, judge = self.ending.evidence, self.judge
        # These look for rows. If they are gone, all the rest is in doubt.
        of_liveness = self._validity(), self._uniform_agreement()
        of_views = (judge.agreed.verdict(evidence),) if evidence.agreed else ()
        doubt = evidence.doubt_about_histories or judge.given_up
        invented, unreached = self._waiting() if judge.is_over else ([], None)
        broadcasts = doubt
        if unreached is not None and not broadcasts:
            names = tuple(judge.names)
            broadcasts = doubt_about_broadcasts(names, unreached.origin, unreached.seq)
        deliveries = sum(history.deliveries for history in judge.histories)
        five = (
            self._safety(Guarantee.NO_DUPLICATION, deliveries, doubt),
            self._safety(Guarantee.NO_CREATION, deliveries - judge.given, broadcasts, invented),
            *of_liveness,
            self._safety(Guarantee.CAUSAL_ORDER, self._ordered(), broadcasts),
        )
        cuts = {one.name: one.cut for one in judge.histories if one.cut is not None}
        return tuple(map(self._with_doubt, from_the_cut_on((*five, *of_views), cuts)))

    def _with_doubt(self, verdict: Verdict) -> Verdict:
        """A violation stays one, but there may be more."""
        if not self.judge.given_up:
            return verdict
        notes = (verdict.note, f"not all could be judged: {self.judge.given_up}")
        return msgspec.structs.replace(verdict, note="; ".join(filter(None, notes)))

    # --- safety

    def _safety(
        self, guarantee: Guarantee, judged: int, doubt: str, more: Sequence[Found] = ()
    ) -> Verdict:
        found = [one for one in self.judge.findings.kept if one.guarantee is guarantee]
        counted = sum(
            count
            for (what, process), count in self.judge.findings.violated.items()
            if what is guarantee and not self._is_excused(what, process)
        )
        found = [one for one in found if not self._is_excused(guarantee, one.process)]
        return self._verdict(guarantee, judged, [*found, *more], counted + len(more), doubt)

    def _is_excused(self, guarantee: Guarantee, process: int) -> bool:
        """What was out of order at a process may turn out to be explained by a hole."""
        return guarantee is Guarantee.CAUSAL_ORDER and self.judge.histories[process].holed

    def _ordered(self) -> int:
        return sum(
            count
            for process, count in self.judge.ordered.items()
            if not self.judge.histories[process].holed
        )

    def _waiting(self) -> tuple[list[Found], "Unreached | None"]:
        """Deliveries of what nobody broadcast: forged, and the first that may not be."""
        evidence, judge = self.ending.evidence, self.judge
        invented = []
        unreached = None
        for one in sorted(self._unread(), key=judge.findings.place_in_order):
            origin = judge.names[one.message[0]]
            if origin in evidence.processes and not evidence.is_complete(origin):
                unreached = unreached or Unreached(*one.message)
            elif origin not in evidence.run.holed:
                invented.append(one)
        return invented, unreached

    def _unread(self) -> Iterator[Found]:
        for process, history in enumerate(self.judge.histories):
            for place in np.flatnonzero(history.open & TEXT).tolist():
                row = history.events.at(place)
                yield _delivery(process, int(row.index), int(row.origin), int(row.seq))
        for stray in self.judge.strays.waiting:
            yield _delivery(stray.process, stray.index, stray.origin, stray.seq)

    # --- what is owed

    def _validity(self) -> Verdict:
        guarantee, judge = Guarantee.VALIDITY, self.judge
        if self.the_end:
            return decide(guarantee, judged=0, doubt=self.the_end)
        judged = not_owed = violated = 0
        found: list[Found] = []
        for process, history in enumerate(judge.histories):
            if not self._is_correct(process):
                continue
            promised = history.all_sent
            owed = promised - self.forsaken[process]
            judged, not_owed = judged + len(owed), not_owed + len(promised) - len(owed)
            lost = owed - history.got.get(process, Ranges())
            violated += len(lost)
            for seq, row in self._broadcasts(process, lost):
                found.append(Found(guarantee, process, (process, seq), ((process, row),)))
        found.sort(key=self._by_broadcast)
        return self._verdict(guarantee, judged, found, violated, not_owed=not_owed)

    def _uniform_agreement(self) -> Verdict:
        guarantee, judge = Guarantee.UNIFORM_AGREEMENT, self.judge
        if self.the_end:
            return decide(guarantee, judged=0, doubt=self.the_end)
        judged = not_owed = violated = 0
        found: list[Found] = []
        seen = _seen(judge)
        for origin, history in enumerate(judge.histories):
            for view, sent in history.sent.items():
                delivered = sent & seen[origin]
                owed = delivered - self.forsaken[origin]
                judged, not_owed = judged + len(owed), not_owed + len(delivered) - len(owed)
                for name in judge.views[view]:
                    process = judge.numbers[name]
                    if self._is_correct(process):
                        lost = owed - judge.histories[process].got.get(origin, Ranges())
                        violated += len(lost)
                        seen_at = self._seen_at(origin, lost)
                        for seq, row in self._broadcasts(origin, lost):
                            witness = ((origin, row), seen_at[seq])
                            found.append(Found(guarantee, process, (origin, seq), witness))
        found.sort(key=self._by_broadcast)
        return self._verdict(guarantee, judged, found, violated, not_owed=not_owed)

    def _by_broadcast(self, one: Found) -> tuple[object, ...]:
        return natural(self.judge.names[one.message[0]]), one.witness[0][1]

    def _broadcasts(self, origin: int, seqs: Ranges) -> Iterator[tuple[int, int]]:
        """The first of these, each with the index of its broadcast."""
        some = numbers_in(seqs, self.judge.limits.violations)
        rows = self.judge.rows.broadcasts(origin, some) if len(some) else {}
        for seq in some.tolist():
            yield seq, rows.get(seq, (BELOW_THE_CUT, 0))[0]

    def _seen_at(self, origin: int, seqs: Ranges) -> dict[int, tuple[int, int]]:
        """Where the first process, by name, that delivered each of these did so."""
        seen: dict[int, tuple[int, int]] = {}
        left = Ranges.of_numbers(numbers_in(seqs, self.judge.limits.violations))
        for process in self.judge.processes if left else ():
            here = numbers_in(left & self.judge.histories[process].got.get(origin, Ranges()))
            rows = self.judge.rows.deliveries(process, origin, here)
            for seq in here.tolist():
                seen[seq] = process, rows.get(seq, (BELOW_THE_CUT, 0))[0]
            left = left - Ranges.of_numbers(here)
        assert not left, f"nobody delivered {left}"
        return seen

    def _is_correct(self, process: int) -> bool:
        return self.ending.evidence.is_correct(self.judge.names[process])

    # --- what is not owed

    def _find_forsaken(self) -> list[Ranges]:
        """Of each origin the messages that lost their majority, or have such a cause."""
        judge, evidence = self.judge, self.ending.evidence
        doomed = evidence.forsaken_views
        forsaken = [Ranges() for _ in judge.names]
        for origin, history in enumerate(judge.histories):
            for view in doomed:
                forsaken[origin] = forsaken[origin] | history.sent.get(view, Ranges())
        if not evidence.spreads_loss or len(doomed) == len(judge.views):
            return forsaken
        # A message with a forsaken one in its past is forsaken, too: until nothing changes.
        while (more := [self._also(one, forsaken) for one in range(len(judge.names))]) != forsaken:
            forsaken = more
        return forsaken

    def _also(self, process: int, forsaken: list[Ranges]) -> Ranges:
        """What is forsaken of a process: also what it broadcasts after it has met such a one."""
        has_met = False
        before, after = Ranges(), Ranges()
        history = self.judge.histories[process]
        for events in self.judge.rows.between(process, history.begin, history.end):
            is_bad = np.zeros(events.size, bool)
            for origin, chosen in events.by_origin():
                is_bad[chosen] = forsaken[origin].has(events.seq[chosen])
            place = 0 if has_met else int(np.argmax(is_bad)) + 1 if is_bad.any() else events.size
            has_met |= bool(is_bad.any())
            begin, rest = events.at(slice(None, place)), events.at(slice(place, None))
            before.add(begin.seq[begin.is_broadcast])
            after.add(rest.seq[rest.is_broadcast])
        # Of a name that is used twice, the first broadcast counts.
        return forsaken[process] | (after - before)

    # --- how it is put

    def _verdict(
        self,
        guarantee: Guarantee,
        judged: int,
        found: Sequence[Found],
        violated: int,
        doubt: str = "",
        not_owed: int = 0,
    ) -> Verdict:
        if guarantee in (Guarantee.NO_DUPLICATION, Guarantee.NO_CREATION, Guarantee.CAUSAL_ORDER):
            found = sorted(found, key=self.judge.findings.place_in_order)
        named = [self.judge.findings.named(one) for one in found]
        one = decide(guarantee, judged=judged, violations=named, not_owed=not_owed, doubt=doubt)
        return msgspec.structs.replace(one, violated=violated)


class Unreached(NamedTuple):
    origin: int
    seq: int


def _delivery(process: int, index: int, origin: int, seq: int) -> Found:
    # Its text is of no account, but shows that it is a delivery.
    return Found(Guarantee.NO_CREATION, process, (origin, seq), ((process, index),), text=0)
