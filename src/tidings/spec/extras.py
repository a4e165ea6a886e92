"""Three properties beside the five, by which flaws of cost, of reach and of views are found.

Two are no promise of the abstraction: a protocol may waste packets, or leave newcomers out, and
keep all five guarantees. The third is one of groups whose members agree on one view after the
other. All are judged on any prefix, like the safety guarantees.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from tidings.core import MessageId, majority, ordered
from tidings.spec.evidence import Evidence, place
from tidings.spec.guarantees import GUARANTEES
from tidings.spec.verdict import Extra, Guarantee, Place, Violation
from tidings.trace import Row, Run


def cost(run: Run, most_packets: int) -> tuple[Violation, ...]:
    """No more packets are sent than allowed. At most one violation: the packet too many.

    Which one that is has to come from the clock: no history knows how many the others sent.
    """
    # Rows come by process and index, and sorting keeps that order within one moment.
    sent = sorted((row for row in run.rows if row.kind == "send"), key=lambda row: row.time_ns)
    if len(sent) <= most_packets:
        return ()
    straw = sent[most_packets]
    violation = Violation(
        guarantee=Extra.COST,
        process=straw.process,
        message=_what_it_is_about(straw, run),
        witness=(place(straw),),
        note=f"{_which(straw, sent)}, where {most_packets:,} are allowed",
    )
    return (violation,)


def _which(straw: Row, sent: Sequence[Row]) -> str:
    """The packet by its number, and how many there are when its sender has sent the rest."""
    number = sent.index(straw) + 1
    after = sum(row.time_ns <= straw.time_ns for row in sent)
    more = f" ({after:,} after this step)" if after > number else ""
    return f"the {_ordinal(number)} packet{more}"


def _ordinal(number: int) -> str:
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _what_it_is_about(sent: Row, run: Run) -> MessageId:
    """The message that a packet speaks of, or the one with which everything began."""
    if sent.origin is not UNSET:
        return sent.message
    broadcasts = [row for row in run.rows if row.kind == "broadcast"]
    if broadcasts:
        return min(broadcasts, key=lambda row: row.time_ns).message
    return MessageId(sent.process, 0)  # nobody has broadcast: there is no first message yet


def reach(run: Run) -> tuple[Violation, ...]:
    """A message is addressed to everybody to whom any of its causes was addressed.

    Otherwise somebody hears the question and never the answer. For each message the first cause
    that reached further is named.
    """
    evidence = Evidence(run)
    return tuple(
        violation
        for process in evidence.processes
        for violation in _falling_short(process, evidence)
    )


def _falling_short(process: str, run: Evidence) -> Iterator[Violation]:
    reached: dict[str, Row] = {}
    """Everybody to whom a cause was addressed, and where the process first had such a cause."""
    for row in run.history(process):
        sent = run.broadcasts.get(row.message)
        addressees = run.addressees(sent) if sent is not None else ()
        if row.kind == "broadcast":
            addressees = run.addressees(row)
            left_out = [member for member in reached if member not in addressees]
            if left_out:
                cause = reached[left_out[0]]
                yield Violation(
                    guarantee=Extra.REACH,
                    process=process,
                    message=row.message,
                    cause=cause.message,
                    witness=(place(cause), place(row)),
                    note=f"not addressed to {', '.join(ordered(left_out))}",
                )
        for member in addressees:
            reached.setdefault(member, row)


class _Stay(NamedTuple):
    """The time that a process spent in one view."""

    process: str
    view: int
    delivered: dict[MessageId, Place]
    end: Row | None
    """Where it installed the next view, settled, or stands at last; None if it has just come."""


def views(run: Run) -> tuple[Violation, ...]:
    """All that get through a view go on to the same one, and have delivered the same in it.

    Whatever anybody delivered in it, also one that crashed, they have delivered in it. A process
    gets through a view when it installs the next; or when it settles there, if no more than a
    minority of its members failed to get through.
    """
    evidence = Evidence(run)
    stays = [stay for process in evidence.processes for stay in _stays(process, evidence)]
    return tuple(
        violation
        for view in dict.fromkeys(stay.view for stay in stays)
        for violation in _differing([one for one in stays if one.view == view], evidence)
    )


def _stays(process: str, run: Evidence) -> Iterator[_Stay]:
    view = 0 if process in run.views[0] else None
    delivered: dict[MessageId, Place] = {}
    last = None
    for last in run.run.histories.get(process, ()):
        if last.kind == "deliver":
            delivered.setdefault(last.message, place(last))
        elif last.kind in ("view", "join"):
            if view is not None:
                yield _Stay(process, view, delivered, last)
            assert isinstance(last.view, int)
            view, delivered = last.view, {}
    if view is not None:
        is_new = last is None or last.kind in ("view", "join")
        yield _Stay(process, view, delivered, None if is_new else last)


def _differing(stays: Sequence[_Stay], run: Evidence) -> Iterator[Violation]:
    """``stays`` are those in one view."""
    gone_on = [stay for stay in stays if stay.end is not None and stay.end.kind in ("view", "join")]
    for stay in gone_on:
        first, end = gone_on[0].end, stay.end
        assert first is not None
        assert end is not None
        if end.view != first.view:
            yield Violation(
                guarantee=Extra.VIEWS,
                process=stay.process,
                message=MessageId(stay.process, 0),
                witness=(place(first), place(end)),
                note=f"after view {stay.view} it installs {end.view}, another {first.view}",
            )
    settled = [stay for stay in stays if stay.end is not None and stay.end.kind == "settle"]
    through = [*gone_on, *settled]
    if len(through) < majority(len(run.views[stays[0].view])):
        through = gone_on
    seen = {message: where for stay in stays for message, where in stay.delivered.items()}
    for stay in through:
        assert stay.end is not None
        for message in [one for one in seen if one not in stay.delivered]:
            yield Violation(
                guarantee=Extra.VIEWS,
                process=stay.process,
                message=message,
                witness=(seen[message], place(stay.end)),
                note=f"it gets through view {stay.view} without it",
            )


def broken(run: Run, what: Guarantee | Extra, most_packets: int | None = None) -> Violation | None:
    """The first violation of exactly this property in a run, if there is one."""
    match what:
        case Extra.COST:
            assert most_packets is not None, "cost is judged by a number of packets"
            violations = cost(run, most_packets)
        case Extra.REACH:
            violations = reach(run)
        case Extra.VIEWS:
            violations = views(run)
        case Guarantee():
            violations = _JUDGES[what](Evidence(run)).violations
    return violations[0] if violations else None


_JUDGES = dict(zip(Guarantee, GUARANTEES, strict=True))
