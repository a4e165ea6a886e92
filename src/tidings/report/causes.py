"""What the violations of a run follow from, in words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.report.words import LIVENESS, many
from tidings.spec import Cause, Guarantee, Verdict
from tidings.spec.causes import largest_first
from tidings.spec.verdict import MOST_CAUSES


class NamedCauses(NamedTuple):
    """The largest causes of a run, and how many there are beside."""

    causes: Sequence[Cause]
    more: str
    """In words; empty if there are none."""


def causes_of(verdicts: Sequence[Verdict], most: int = MOST_CAUSES) -> NamedCauses:
    """What all the verdicts on a run name, each cause once."""
    named = [cause for verdict in verdicts for cause in verdict.largest_causes]
    once = {(one.process, one.message, one.fault): one for one in named}
    causes = sorted(once.values(), key=largest_first)
    # Two guarantees may have a cause in common: beyond what is named, nobody knows.
    unnamed = max((one.causes - len(one.largest_causes) for one in verdicts), default=0)
    more = len(causes[most:]) + unnamed
    at_least = "at least " if unnamed else ""
    return NamedCauses(causes[:most], f"{at_least}{many(more, 'more cause')}" if more else "")


def cause_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line for each cause; of a single violation its proof says all there is to say."""
    if sum(verdict.violated for verdict in verdicts) < 2:
        return
    causes, more = causes_of(verdicts)
    for cause in causes:
        yield f"cause  {what_went_wrong(cause)}: {what_follows(cause)}"
    if more:
        yield f"       and {more}"


def what_went_wrong(cause: Cause) -> str:
    process, message = cause.process, cause.message
    if any(guarantee in cause.violated for guarantee in LIVENESS):
        return f"{process} never delivers {message}"
    if Guarantee.CAUSAL_ORDER in cause.violated:
        return f"{process} does not wait for {message}"
    if Guarantee.NO_DUPLICATION in cause.violated:
        return f"{process} delivers {message} again"
    return f"{message} is not genuine at {process}"


def what_follows(cause: Cause) -> str:
    """112 violations of causal order, 5 of uniform agreement."""
    (guarantee, count), *others = sorted(cause.violated.items(), key=lambda one: -one[1])
    rest = (f", {count:,} of {guarantee.value}" for guarantee, count in others)
    return f"{many(count, 'violation')} of {guarantee.value}{''.join(rest)}"
