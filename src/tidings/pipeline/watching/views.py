"""Agreed views while the group runs: what ``spec.views`` says, from ranges instead of rows.

Rows about views are few and all kept, so what was decided is for the specification to say. What a
process delivered during a stay is what it had delivered at its end and not at its beginning. Only
where that is beyond the bounds of the stay, or falls short of them, are rows looked at.

A decision stands with the first row, by process, that installs it. While not all of these have been
read, another row may stand for it, and an alarm name that one; the verdict at the end does not.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tidings.core import MessageId
from tidings.pipeline.watching.pieces import Events, Piece
from tidings.pipeline.watching.ranges import Array, Ranges, numbers_in
from tidings.pipeline.watching.window import ORDER, GoneError, History, Moved
from tidings.spec import Extra, Place, Value, Verdict, ViewRule, Violation
from tidings.spec.agreed import Decision, Stay
from tidings.spec.evidence import Evidence
from tidings.spec.verdict import decide
from tidings.spec.views import against, in_order
from tidings.trace import Row, Run

if TYPE_CHECKING:
    from tidings.pipeline.watching.judge import Judge

ALL = (1 << 63) - 1
GONE = -1
Raised = tuple[str, int, str, int, str]
"""What an alarm was about: the process, the row, the message, the rule."""


def note_misbindings(
    history: History, first_view: int | None, piece: Piece, events: Events, most: int
) -> None:
    """Rows of a piece that bind a message to a view that the process is not in.

    Whether that is wrong is known when anything tells of agreed views.
    """
    steps = [one for one in (*history.steps, *piece.steps) if one.kind != "leave"]
    begins = np.array([one.index for one in steps], np.int64)
    views = np.array([-1 if first_view is None else first_view, *(one.view for one in steps)])
    sent = events.at(np.flatnonzero(events.is_broadcast))
    is_wrong = sent.view != views[np.searchsorted(begins, sent.index)]
    wrong = list(zip(sent.index[is_wrong].tolist(), sent.seq[is_wrong].tolist(), strict=True))
    for one in piece.rebinds:
        if one.view != views[int(np.searchsorted(begins, one.index))]:
            wrong += [(one.index + at, one.first + at) for at in range(one.count)]
    history.misbindings += len(wrong)
    history.misbound += sorted(wrong)[: max(0, most - len(history.misbound))]


class AgreedSoFar:
    """One run with agreed views, as far as it has been read; nothing to judge in any other."""

    def __init__(self, judge: "Judge") -> None:
        self.judge = judge
        self.raised: set[Raised] = set()
        self.places: dict[tuple[int, int, int], int] = {}
        """Where a process first delivered what it should have elsewhere, by process, origin and
        number; GONE if the source no longer has the row."""
        self._unnamed = 0
        """Such deliveries that no violation names: there are too many, or their rows are gone."""
        self._decided: list[Decision] = []
        self._done: dict[str, int] = {}
        """How many stays of each process are over, and were as they should be."""

    # --- a message is bound to another view

    def readdress(self, origin: int, moved: Moved) -> None:
        """Newcomers have yet to deliver it; those who were removed need not."""
        judge = self.judge
        old, new = judge.inside[moved.old], judge.inside[moved.new]
        for reader in sorted(new - old):
            for process in range(len(judge.names)):
                self._go_back(reader, process, origin, moved)
        for one in judge.findings.kept:
            if one.process in old - new and one.cause is not None:
                of, seq = one.cause
                if of == origin and seq in moved.seqs:
                    cause, name = judge.findings.name_of(one.cause), judge.names[one.process]
                    judge.give_up(f"{cause} was moved to a view without {name}")

    def _go_back(self, reader: int, process: int, origin: int, moved: Moved) -> None:
        """To the first row of a process about these messages, if the reader has passed it.

        What the process delivered in the new view has waited for this.
        """
        judge, history = self.judge, self.judge.histories[process]
        got = history.got.get(origin, Ranges())
        rows = [*judge.rows.named(process, origin, numbers_in(moved.seqs & got)).values()]
        if process == origin:
            rows += judge.rows.named(process, origin, numbers_in(moved.seqs), True).values()
        places = np.array([index for index, _ in rows], np.int64)
        views = history.views_at(places, judge.first_view(process))
        places = places[views != moved.new]
        if not len(places):
            return
        first = int(places.min())
        judge.strays.go_back(reader, process, first)
        if first >= judge.passed[reader, process]:
            return
        judge.passed[reader, process] = first
        judge.blockers.pop((reader, process), None)
        if self._has_judged_after(reader, process, first):
            name, of = judge.names[reader], judge.names[origin]
            judge.give_up(f"{name} was judged before messages of {of} were moved to its view")

    def _has_judged_after(self, reader: int, process: int, index: int) -> bool:
        """Whether the order was decided of anything that the process broadcast after this row."""
        history, end = self.judge.histories[reader], self.judge.histories[process].end
        is_open = (history.open & ORDER > 0) & (history.events.origin == process)
        judged = history.got.get(process, Ranges()) - Ranges.of_numbers(history.events.seq[is_open])
        try:
            return bool(judged) and any(
                judged.has(events.seq[events.is_broadcast]).any()
                for events in self.judge.rows.between(process, index, end)
            )
        except GoneError:
            return True

    # --- what does not keep to the rules

    def steps(self) -> Mapping[str, list[Row]]:
        return {
            one.name: [step.row(one.name) for step in one.steps]
            for one in self.judge.histories
            if one.rows
        }

    def news(self) -> list[Violation]:
        """What was not raised before."""
        if not self.judge.is_changing:
            return []
        histories = self.steps()
        holed = frozenset(one.name for one in self.judge.histories if one.holed)
        evidence = Evidence(Run(self.judge.manifest(), histories, holed))
        decided = evidence.agreed.decisions
        if decided[: len(self._decided)] != self._decided:
            self._done = {}
        self._decided = decided
        fresh = [
            one for one in self._violations(evidence, self._done) if _key(one) not in self.raised
        ]
        self.raised.update(map(_key, fresh))
        return fresh

    def verdict(self, evidence: Evidence) -> Verdict:
        violations = self._violations(evidence, {})
        most = self.judge.limits.violations
        one = decide(
            Extra.VIEWS,
            judged=evidence.agreed.rows,
            violations=violations[:most],
            doubt=evidence.doubt_about_histories,
        )
        kept = sum(len(one.misbound) for one in self.judge.histories)
        more = sum(one.misbindings for one in self.judge.histories) - kept + self._unnamed
        if more and not violations:
            one = msgspec.structs.replace(one, value=Value.VIOLATED, reason="")
        return msgspec.structs.replace(one, violated=len(violations) + more)

    def _violations(self, evidence: Evidence, done: dict[str, int]) -> list[Violation]:
        self._unnamed = 0
        found = [
            against(one.row.process, MessageId(one.row.process, 0), one.rule, *one.witness)
            for one in evidence.agreed.missteps()
        ]
        for process in evidence.processes:
            history = self.judge.histories[self.judge.number(process)]
            if process not in evidence.run.holed:
                found += self._misbound(history, evidence)
                found += self._in_stays(history, evidence, done)
        return sorted(found, key=in_order)

    def _misbound(self, history: History, evidence: Evidence) -> Iterator[Violation]:
        stays = list(evidence.agreed.stays(history.name)) if history.misbound else []
        for index, seq in history.misbound:
            stay = next(one for one in stays if one.end is None or index < one.end)
            message = MessageId(history.name, seq)
            yield _at(history.name, index, message, ViewRule.ELSEWHERE, stay.entry)

    def _in_stays(
        self, history: History, evidence: Evidence, done: dict[str, int]
    ) -> Iterator[Violation]:
        begin = done.get(history.name, 0)
        below_the_cut = {one: Ranges.of([(1, last)]) for one, last in history.had.items() if last}
        by_then = [below_the_cut, *history.by_then, history.got]
        for number, stay in enumerate(evidence.agreed.stays(history.name)):
            if number < begin:
                continue
            before, after = by_then[number], by_then[number + 1]
            misplaced = {
                origin: seqs
                for origin in after
                if (seqs := self._beyond(stay, origin, before, after, evidence))
            }
            missing = list(self._left_out(history, stay, evidence))
            yield from self._misplaced(history, stay, misplaced, evidence)
            yield from missing
            is_over = stay.end is not None and evidence.agreed.following(stay) is not None
            if is_over and not misplaced and not missing and number == done.get(history.name, 0):
                done[history.name] = number + 1

    def _beyond(
        self,
        stay: Stay,
        origin: int,
        before: Mapping[int, Ranges],
        after: Mapping[int, Ranges],
        evidence: Evidence,
    ) -> Ranges:
        """What was delivered in a view to which it does not belong."""
        low, high = evidence.agreed.bounds(stay, self.judge.names[origin])
        bounds = Ranges.of([(low + 1, ALL if high is None else high)]) if high != low else Ranges()
        return after[origin] - before.get(origin, Ranges()) - bounds

    def _misplaced(
        self,
        history: History,
        stay: Stay,
        misplaced: Mapping[int, Ranges],
        evidence: Evidence,
    ) -> Iterator[Violation]:
        judge, following = self.judge, evidence.agreed.following(stay)
        for origin, seqs in misplaced.items():
            name = judge.names[origin]
            # Whether it was broadcast at all is another question.
            seqs = seqs & judge.histories[origin].all_sent
            some = numbers_in(seqs, judge.limits.violations)
            found = self._first_deliveries(judge.numbers[history.name], origin, some)
            self._unnamed += len(seqs) - len(found)
            low, _ = evidence.agreed.bounds(stay, name)
            for seq, index in found:
                is_own = seq <= low or following is None
                limit = stay.entry if is_own or following is None else following.place
                rule = ViewRule.MISPLACED
                yield _at(history.name, index, MessageId(name, seq), rule, limit)

    def _first_deliveries(self, process: int, origin: int, seqs: Array) -> list[tuple[int, int]]:
        """Those of which the row can be found, and its index. Nothing is looked for twice."""
        names = [(process, origin, seq) for seq in seqs.tolist()]
        fresh = [name for name in names if name not in self.places]
        rows = self.judge.rows.deliveries(
            process, origin, np.array(fresh, np.int64).reshape(-1, 3)[:, 2]
        )
        self.places |= {name: rows.get(name[2], (GONE, 0))[0] for name in fresh}
        return [(name[2], self.places[name]) for name in names if self.places[name] != GONE]

    def _left_out(self, history: History, stay: Stay, evidence: Evidence) -> Iterator[Violation]:
        """Of each origin the first message of the cut that is missing."""
        following = evidence.agreed.following(stay)
        if stay.end is None or stay.rank is None or following is None or following.place is None:
            return
        for name in following.upto:
            low, high = evidence.agreed.bounds(stay, name)
            assert high is not None
            got = history.got.get(self.judge.number(name), Ranges())
            due = Ranges.of([(low + 1, high)]) - got if high > low else Ranges()
            if due:
                message = MessageId(name, int(due.firsts[0]))
                rule = ViewRule.LEFT_OUT
                yield _at(history.name, stay.end, message, rule, following.place)


def _at(
    process: str, index: int, message: MessageId, rule: ViewRule, other: Place | None
) -> Violation:
    here = Place(process, index)
    return against(process, message, rule, *((here,) if other is None else (other, here)))


def _key(one: Violation) -> Raised:
    return one.process, one.witness[-1].index, *one.message, one.note
