"""Two properties beside the five, by which flaws of cost and of reach are found.

They are no promise of the abstraction: a protocol may waste packets, or leave newcomers out, and
keep all five guarantees. Both are judged on any prefix, like the safety guarantees.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from tidings.core import MessageId, ordered
from tidings.spec.evidence import Evidence, place
from tidings.spec.guarantees import GUARANTEES
from tidings.spec.verdict import Extra, Guarantee, Violation
from tidings.spec.views import agreed_views
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
    that reached further is named. Where members agree on views, a group may become smaller.
    """
    evidence = Evidence(run)
    if evidence.agreed:
        return ()
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


def broken(run: Run, what: Guarantee | Extra, most_packets: int | None = None) -> Violation | None:
    """The first violation of exactly this property in a run, if there is one."""
    match what:
        case Extra.COST:
            assert most_packets is not None, "cost is judged by a number of packets"
            violations = cost(run, most_packets)
        case Extra.REACH:
            violations = reach(run)
        case Extra.VIEWS:
            violations = agreed_views(Evidence(run)).violations
        case Guarantee():
            violations = _JUDGES[what](Evidence(run)).violations
    return violations[0] if violations else None


_JUDGES = dict(zip(Guarantee, GUARANTEES, strict=True))
