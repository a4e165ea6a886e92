"""What holds of a group that changes by agreement, beside the five guarantees.

- There is one decision for each number: all that install a view install the same one, with the same
  cut, each of them its next.
- A message belongs to one view: between the cut of that view and the cut of the next. It is
  delivered there and nowhere else; so a newcomer delivers from the cut on, and nobody delivers
  anything of a removed origin beyond the cut, not even one that crashed or the origin itself.
- A process that installs a view has delivered all of its cut, from the view on in which it began.
- A message is bound to the view that its origin is in.

All of it is judged on any prefix, like the safety guarantees.
"""

from collections.abc import Iterator

from tidings.core import MessageId
from tidings.core.group import natural
from tidings.spec.agreed import Stay
from tidings.spec.evidence import Evidence, place
from tidings.spec.verdict import Extra, Place, Verdict, ViewRule, Violation, decide
from tidings.trace import Row
from tidings.trace.schema import BINDING


def agreed_views(run: Evidence) -> Verdict:
    """All that get through a view have delivered the same in it, and go on to the same one."""
    violations = [
        against(step.row.process, MessageId(step.row.process, 0), step.rule, *step.witness)
        for step in run.agreed.missteps()
    ]
    for process in run.processes:
        if process not in run.run.holed:  # what seems missing may be in the hole
            for stay in run.agreed.stays(process):
                violations += _in(stay, run)
    return decide(
        Extra.VIEWS,
        judged=run.agreed.rows,
        violations=sorted(violations, key=in_order),
        doubt=run.doubt_about_histories,
    )


def _in(stay: Stay, run: Evidence) -> Iterator[Violation]:
    rows = run.run.histories.get(stay.process, ())
    end = rows[-1].end if stay.end is None and rows else stay.end or 0
    for row in rows:
        if stay.begin <= row.index < end:
            if row.kind in BINDING and row.view != stay.view:
                yield _at(row, ViewRule.ELSEWHERE, stay.entry)
            elif row.kind == "deliver" and row.message in run.broadcasts:
                yield from _misplaced(row, stay, run)
    if stay.end is not None and stay.rank is not None:
        yield from _left_out(stay, Place(stay.process, stay.end), run)


def _misplaced(row: Row, stay: Stay, run: Evidence) -> Iterator[Violation]:
    if run.deliveries[row.process][row.message] is not row:
        return  # a repetition is none of our concern
    low, high = run.agreed.bounds(stay, row.message.origin)
    following = run.agreed.following(stay)
    if row.message.seq <= low:
        yield _at(row, ViewRule.MISPLACED, stay.entry)
    elif high is not None and row.message.seq > high:
        yield _at(row, ViewRule.MISPLACED, following.place if following else stay.entry)


def _left_out(stay: Stay, end: Place, run: Evidence) -> Iterator[Violation]:
    """For each origin the first message that is missing."""
    following = run.agreed.following(stay)
    if following is None or following.place is None:
        return
    seqs: dict[str, set[int]] = {}
    for origin, seq in run.deliveries[stay.process]:
        seqs.setdefault(origin, set()).add(seq)
    for origin in following.upto:
        low, high = run.agreed.bounds(stay, origin)
        assert high is not None
        here = {seq for seq in seqs.get(origin, ()) if low < seq <= high}
        if len(here) < high - low:
            missing = next(seq for seq in range(low + 1, high + 1) if seq not in here)
            witness = (following.place, end)
            yield against(stay.process, MessageId(origin, missing), ViewRule.LEFT_OUT, *witness)


def _at(row: Row, rule: ViewRule, other: Place | None) -> Violation:
    witness = (place(row),) if other is None else (other, place(row))
    return against(row.process, row.message, rule, *witness)


def against(process: str, message: MessageId, rule: ViewRule, *witness: Place) -> Violation:
    """What breaks a rule, at which process."""
    return Violation(
        guarantee=Extra.VIEWS, process=process, message=message, witness=witness, note=rule.value
    )


def in_order(violation: Violation) -> tuple[object, ...]:
    """By process, by the row where it shows, by origin."""
    origin, seq = violation.message
    index = violation.witness[-1].index
    return natural(violation.process), index, seq > 0, natural(origin), seq
