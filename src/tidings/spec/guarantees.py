"""The five guarantees, each one function over a trace. Everything answers to this file.

Where members agreed on views, ``spec/views.py`` has the sixth.

Safety (No Duplication, No Creation, Causal Order) is judged on any prefix, at every process,
crashed ones included. Validity and Uniform Agreement say that something will happen: they are
judged only when the run has settled and the fate of every process is known.
"""

from tidings.core import MessageId
from tidings.spec.causes import with_causes
from tidings.spec.evidence import Evidence, place
from tidings.spec.verdict import Guarantee, Verdict, Violation, decide, from_the_cut_on
from tidings.spec.views import agreed_views
from tidings.trace import Row, Run


def no_duplication(run: Evidence) -> Verdict:
    """A process delivers a message at most once."""
    deliveries = [row for p in run.processes for row in run.history(p) if row.kind == "deliver"]
    violations = [
        Violation(
            guarantee=Guarantee.NO_DUPLICATION,
            process=again.process,
            message=again.message,
            witness=(run.first_delivery(again.process, again.message), place(again)),
        )
        for again in deliveries
        if run.deliveries[again.process].get(again.message) is not again
    ]
    return decide(
        Guarantee.NO_DUPLICATION,
        judged=len(deliveries),
        violations=violations,
        doubt=run.doubt_about_histories,
    )


def no_creation(run: Evidence) -> Verdict:
    """What is delivered was broadcast by its stated origin, with that text."""
    deliveries = [row for p in run.processes for row in run.history(p) if row.kind == "deliver"]
    violations = []
    for row in filter(run.was_invented, deliveries):
        broadcast = run.broadcasts.get(row.message)
        violations.append(
            Violation(
                guarantee=Guarantee.NO_CREATION,
                process=row.process,
                message=row.message,
                witness=(place(row), *([place(broadcast)] if broadcast else [])),
            )
        )
    # One name for two broadcasts: whoever delivers it cannot say which it is.
    violations += [
        Violation(
            guarantee=Guarantee.NO_CREATION,
            process=again.process,
            message=again.message,
            witness=(first, place(again)),
        )
        for first, again in run.renamed
    ]
    return decide(
        Guarantee.NO_CREATION,
        judged=sum(not run.is_given(row.message) for row in deliveries),
        violations=violations,
        doubt=run.doubt_about_broadcasts,
    )


def validity(run: Evidence) -> Verdict:
    """A correct process delivers what it broadcast."""
    if run.doubt_about_the_end:
        return decide(Guarantee.VALIDITY, judged=0, doubt=run.doubt_about_the_end)
    promised = [row for row in run.broadcasts.values() if run.is_correct(row.process)]
    owed = [row for row in promised if run.is_owed(row)]
    violations = [
        Violation(
            guarantee=Guarantee.VALIDITY,
            process=row.process,
            message=row.message,
            witness=(place(row),),
        )
        for row in owed
        if not run.has_delivered(row.process, row.message)
    ]
    return decide(
        Guarantee.VALIDITY,
        judged=len(owed),
        not_owed=len(promised) - len(owed),
        violations=violations,
    )


def uniform_agreement(run: Evidence) -> Verdict:
    """What any process delivers, even one that crashed, every correct addressee delivers."""
    if run.doubt_about_the_end:
        return decide(Guarantee.UNIFORM_AGREEMENT, judged=0, doubt=run.doubt_about_the_end)
    everywhere = ((row, run.seen(row.message)) for row in run.broadcasts.values())
    delivered = [(row, seen) for row, seen in everywhere if seen is not None]
    owed = [(row, seen) for row, seen in delivered if run.is_owed(row)]
    violations = [
        Violation(
            guarantee=Guarantee.UNIFORM_AGREEMENT,
            process=process,
            message=row.message,
            witness=(place(row), seen),
        )
        for row, seen in owed
        for process in run.addressees(row)
        if run.is_correct(process) and not run.has_delivered(process, row.message)
    ]
    return decide(
        Guarantee.UNIFORM_AGREEMENT,
        judged=len(owed),
        not_owed=len(delivered) - len(owed),
        violations=violations,
    )


def causal_order(run: Evidence) -> Verdict:
    """Before m of origin u, a process delivers all that u had broadcast or delivered before m.

    All that is addressed to it, that is. For each delivery the first missing cause is named.
    """
    violations = []
    judged = 0
    for process in run.processes:
        if process in run.run.holed:
            continue  # what seems missing may be in the hole
        past = _PastSeenBy(process, run)
        for message, delivery in run.deliveries[process].items():
            broadcast = run.broadcasts.get(message)
            if broadcast is not None:
                judged += 1
                if (cause := past.first_missing_cause(broadcast)) is not None:
                    violations.append(
                        Violation(
                            guarantee=Guarantee.CAUSAL_ORDER,
                            process=process,
                            message=message,
                            cause=cause.message,
                            witness=(place(cause), place(broadcast), place(delivery)),
                        )
                    )
            past.delivered.add(message)
    return decide(
        Guarantee.CAUSAL_ORDER,
        judged=judged,
        violations=violations,
        doubt=run.doubt_about_broadcasts,
    )


class _PastSeenBy:
    """What one process has delivered so far, against the pasts of all origins.

    What was delivered stays delivered, so each past is read once, from where it was left.
    """

    def __init__(self, process: str, run: Evidence) -> None:
        self.process = process
        self.run = run
        self.delivered: set[MessageId] = set()
        self._pasts = {origin: run.history(origin) for origin in run.processes}
        self._read = dict.fromkeys(run.processes, 0)

    def first_missing_cause(self, broadcast: Row) -> Row | None:
        past = self._pasts[broadcast.process]
        for position in range(self._read[broadcast.process], len(past)):
            self._read[broadcast.process] = position
            if past[position].index >= broadcast.index:
                return None
            if self._is_missing(past[position].message):
                return past[position]
        return None

    def _is_missing(self, cause: MessageId) -> bool:
        if cause in self.delivered or self.run.had_delivered(self.process, cause):
            return False
        if self.run.is_given(cause):
            # There is but one list of members where anything was cut off.
            return self.process in self.run.views[0]
        sent = self.run.broadcasts.get(cause)
        return sent is not None and self.process in self.run.addressees(sent)


GUARANTEES = (no_duplication, no_creation, validity, uniform_agreement, causal_order)


def judge(run: Run) -> tuple[Verdict, ...]:
    """All five verdicts on one run, in their usual order; with agreed views, one more."""
    evidence = Evidence(run)
    five = with_causes(tuple(guarantee(evidence) for guarantee in GUARANTEES), evidence)
    more = (agreed_views(evidence),) if evidence.agreed else ()
    return from_the_cut_on((*five, *more), run.manifest.cuts)
