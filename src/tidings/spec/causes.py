"""What violations follow from: one lost message and all that it entails is one cause.

A cause is a process r and a message, the root, that went wrong there: r delivered it twice, or a
forged one, or too late, or never. The first two are causes by themselves. In the other cases every
violation names a message that r lacks: its own one, or, for Causal Order, the missing cause. That
one may be late or missing only because another is.

- *Late.* If c came before its own cause d, then what came before c came before d as well: follow d.
  Positions at r grow on the way, so it ends.
- *Never.* Let the debts of r be what it owes, by Validity or Uniform Agreement, and never delivers.
  If r delivers a later message of the same origin, it did not wait for this one, which is then a
  loss of its own. Otherwise r may have been right to wait: look at the history of the origin u
  after the last of u's broadcasts that r delivers. The first event there that is about a debt of r
  is the earliest reason why r could deliver nothing more of u in causal order: follow its message.
  It was broadcast before, so this ends too.

So a loss, what was held back for it and what was delivered in spite of it are one cause; losses of
concurrent messages are several, and so are those of a process that goes on delivering regardless.
In a trace that no clock allows, where debts are delivered before they are broadcast, the second way
may lead around in a circle, and the first process of the circle stands for all of it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from tidings.core import MessageId
from tidings.core.group import natural
from tidings.spec.evidence import Evidence
from tidings.spec.verdict import FAULTS, MOST_CAUSES, Cause, Fault, Guarantee, Verdict, Violation


def with_causes(five: tuple[Verdict, ...], run: Evidence) -> tuple[Verdict, ...]:
    """The verdicts, every violation with its root, and the causes of all."""
    of_processes: dict[str, list[Violation]] = {}
    for violation in (one for verdict in five for one in verdict.violations):
        of_processes.setdefault(violation.process, []).append(violation)
    if not of_processes:
        return five
    roots = {process: _Roots(process, of_it, run) for process, of_it in of_processes.items()}
    rooted = tuple(
        msgspec.structs.replace(
            verdict,
            violations=tuple(
                msgspec.structs.replace(one, root=roots[one.process].of(one))
                for one in verdict.violations
            ),
        )
        for verdict in five
    )
    causes = causes_of(one for verdict in rooted for one in verdict.violations)
    return tuple(caused(verdict, causes) for verdict in rooted)


def causes_of(violations: Iterable[Violation]) -> list[Cause]:
    """What all of these follow from, the largest cause first."""
    counts = Counter((one.process, one.root, Guarantee(one.guarantee)) for one in violations)
    violated: dict[tuple[str, MessageId, Fault], dict[Guarantee, int]] = {}
    for (process, root, guarantee), count in counts.items():
        assert root is not None, f"a violation of {guarantee} at {process} without a root"
        violated.setdefault((process, root, FAULTS[guarantee]), {})[guarantee] = count
    causes = [
        Cause(
            process=process,
            message=message,
            violated={one: counts[one] for one in Guarantee if one in counts},
        )
        for (process, message, _), counts in violated.items()
    ]
    return sorted(causes, key=largest_first)


def largest_first(cause: Cause) -> tuple[object, ...]:
    origin, seq = cause.message
    size = sum(cause.violated.values())
    return -size, natural(cause.process), natural(origin), seq, [*Fault].index(cause.fault)


def caused(verdict: Verdict, causes: Sequence[Cause]) -> Verdict:
    mine = [cause for cause in causes if verdict.guarantee in cause.violated]
    return msgspec.structs.replace(
        verdict, causes=len(mine), largest_causes=tuple(mine[:MOST_CAUSES])
    )


class _Roots:
    """What the violations at one process follow from."""

    def __init__(self, process: str, violations: Sequence[Violation], run: Evidence) -> None:
        self.process = process
        self.run = run
        self.missing_cause: dict[MessageId, MessageId] = {}
        """What should have come before each message that came too early."""
        self.debts: dict[MessageId, int] = {}
        """What is owed and never delivered, with the index of its broadcast."""
        for one in violations:
            if one.cause is not None:
                self.missing_cause[one.message] = one.cause
            elif one.guarantee in (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT):
                self.debts[one.message] = run.broadcasts[one.message].index

    def of(self, violation: Violation) -> MessageId:
        message = violation.message
        if violation.guarantee in (Guarantee.NO_DUPLICATION, Guarantee.NO_CREATION):
            return message
        # A message that was delivered before it was broadcast is its own cause.
        while (cause := self.missing_cause.get(message, message)) != message:
            message = cause
        return self._loss(message) if message in self.debts else message

    def _loss(self, debt: MessageId) -> MessageId:
        passed: list[str] = []
        while not self._is_skipped(debt):
            if debt.origin in passed:
                circle = passed[passed.index(debt.origin) :]
                return self._first_debt[min(circle, key=natural)]
            passed.append(debt.origin)
            debt = self._first_debt[debt.origin]
        return debt

    def _is_skipped(self, debt: MessageId) -> bool:
        """The process delivers a later message of the same origin."""
        return self.debts[debt] < self._last_delivered[debt.origin]

    @cached_property
    def _last_delivered(self) -> dict[str, int]:
        """The index of the last broadcast of each origin that the process delivers."""
        return {
            origin: max(
                (
                    row.index
                    for row in self.run.history(origin)
                    if row.kind == "broadcast" and self.run.has_delivered(self.process, row.message)
                ),
                default=-1,
            )
            for origin in self.run.processes
        }

    @cached_property
    def _first_debt(self) -> dict[str, MessageId]:
        """The debt that the history of each origin first meets after that broadcast."""
        first: dict[str, MessageId] = {}
        for origin, last in self._last_delivered.items():
            for row in self.run.history(origin):
                if row.index > last and row.message in self.debts:
                    first.setdefault(origin, row.message)
        return first
