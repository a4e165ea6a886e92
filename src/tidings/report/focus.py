"""Which events matter to a violation, so that a long run can be told in short."""

from collections.abc import Callable
from typing import NamedTuple

from tidings.core import MessageId
from tidings.report.causality import Causality, is_in
from tidings.report.explain import shows_at
from tidings.report.words import listed
from tidings.spec import Extra, Place, Violation
from tidings.spec.evidence import place
from tidings.trace import Row

UNTOLD = ("held", "state")
"""Kinds of rows that no story tells: what a process keeps, not what it does."""


class Focus(NamedTuple):
    rows: list[Row]
    """What to tell, in an order in which causes come first."""
    bright: set[Place]
    """Of it, what led to the violation; everything if there is none."""
    left_out: str
    """What is not told, in words, or nothing."""


def focus(causality: Causality, violation: Violation | None, most: int) -> Focus:
    """Everything, if that is not more than ``most`` rows; else the past of the violation.

    If even that is too much, only what happened to the messages that it is about.
    """
    rows = [row for row in causality.order if row.kind not in UNTOLD]
    if violation is None:
        few, all_of_it = leading(rows[:most], causality), {place(row) for row in rows}
        cut = f"Only the first {most:,} of {len(rows):,} rows are shown."
        return Focus(few, all_of_it, cut if most < len(rows) else "")
    bright = list(filter(_what_matters_to(violation, causality), rows))
    places = {place(row) for row in bright}
    if len(rows) <= most:
        return Focus(rows, places, "")
    end = marked(violation, causality)
    bright = leading(bright, causality, end)
    if len(bright) <= most:
        note = f"Only the {len(bright):,} rows that led to it are shown, of {causality.count:,}."
        return Focus(bright, places, note)
    messages = _messages_of(violation, causality)
    core = leading([row for row in bright if _is_central(row, violation, messages)], causality, end)
    names = listed([*map(str, messages)])
    note = f"Only what happened to {names} is shown: {len(core):,} of {causality.count:,} rows."
    return Focus(core, places, note)


def leading(rows: list[Row], causality: Causality, end: Place | None = None) -> list[Row]:
    """Without packets whose arrivals are left out: they lead nowhere, unless they are the end."""
    places = {place(row) for row in rows}

    def leads_somewhere(row: Row) -> bool:
        if row.kind != "send" or place(row) == end:
            return True
        arrivals = causality.arrivals[place(row)]
        return not arrivals or any(place(one) in places for one in arrivals)

    return [row for row in rows if leads_somewhere(row)]


def _what_matters_to(violation: Violation, causality: Causality) -> Callable[[Row], bool]:
    """A test for rows: did this lead to the violation?"""
    end = shows_at(violation)
    if violation.guarantee is Extra.COST:
        # Every packet before the one too many did its part.
        assert end is not None
        last = causality.position[end]
        return lambda row: causality.position[place(row)] <= last
    past = causality.past(violation.witness)
    if end is not None:
        return lambda row: is_in(row, past)
    # Something never came: its packets, wherever they went, and the crashes took it away.
    messages = _messages_of(violation, causality)
    return lambda row: is_in(row, past) or _is_central(row, violation, messages)


def _messages_of(violation: Violation, causality: Causality) -> list[MessageId]:
    """The message in question, and the one that should have come before it."""
    cause = violation.cause
    if shows_at(violation) is None:
        cause = causality.missing_cause(violation.process, violation.message)
    return [message for message in (cause, violation.message) if message is not None]


def _is_central(row: Row, violation: Violation, messages: list[MessageId]) -> bool:
    """Whether it is about one of the messages, ends a process, or proves the violation."""
    about = bool(row.origin) and row.message in messages
    return about or row.kind in ("crash", "settle") or place(row) in violation.witness


def marked(violation: Violation, causality: Causality) -> Place | None:
    """Where the violation shows: its last event, or the end of a process that waited in vain."""
    rows = causality.run.histories.get(violation.process)
    return shows_at(violation) or (place(rows[-1]) if rows else None)
