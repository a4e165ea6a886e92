"""How a judgement is stated: three values, what was counted, and the events that show it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from tidings.core import Exit, MessageId, ordered
from tidings.trace import HistoryCut


class Guarantee(StrEnum):
    """The five, in the order in which they are always shown."""

    NO_DUPLICATION = "no duplication"
    NO_CREATION = "no creation"
    VALIDITY = "validity"
    UNIFORM_AGREEMENT = "uniform agreement"
    CAUSAL_ORDER = "causal order"


class Extra(StrEnum):
    """Properties beside the five: see ``spec/extras.py``, and ``spec/views.py`` for the last."""

    COST = "cost"
    REACH = "reach"
    VIEWS = "views"
    """Part of the verdicts on a run with agreed views."""


JUDGED: tuple[Guarantee | Extra, ...] = (*Guarantee, Extra.VIEWS)
"""What an audit judges; the last only where members agreed on views."""


def judged_as(word: str) -> Guarantee | Extra:
    """By the word that stands in tables."""
    return next(one for one in JUDGED if one.value == word)


class ViewRule(StrEnum):
    """In which ways agreed views are violated: the note of such a violation."""

    OUT_OF_TURN = "it installs a view that is not its next one"
    ANOTHER = "it installs another view, or another cut, under the same number"
    FALLING = "its cut is behind that of the view before"
    STAYING = "it leaves by a decision that keeps it"
    ELSEWHERE = "it binds the message to a view that it is not in"
    MISPLACED = "it delivers the message in a view to which that does not belong"
    LEFT_OUT = "it installs a view without the message, which is in the cut"


class Value(StrEnum):
    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


BELOW_THE_CUT = -1


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One row of the trace: an event of one process. Prints as ``p3:17``.

    An event that was cut off its history has the index BELOW_THE_CUT.
    """

    process: str
    index: int

    def __str__(self) -> str:
        return f"{self.process}:{self.index}"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One breach, with the few events that show it.

    ``process`` is where it shows and ``message`` what it is about. ``cause`` is, for Causal
    Order, the message that should have come first, and for reach the one that reached further.
    ``root`` is the message that went wrong at this process and led to it, where all violations of
    the five are known. ``note`` says what no other column can. The events of ``witness`` are, in
    order:

    - No Duplication: the first delivery, the repeated one
    - No Creation: the delivery, then the broadcast under that name if there is one
      (or, for a name used twice, the two broadcasts; or, for what two processes delivered below
      their cuts, two places there)
    - Validity: the broadcast
    - Uniform Agreement: the broadcast, a delivery elsewhere
    - Causal Order: where the origin had the cause, its broadcast of the message, the delivery
    - cost: the first packet too many
    - reach: where the origin had the cause, its broadcast of the message
    - views: the row that shows where the limit is, if there is one (an install of the view, or of
      the next), and the row that does not keep to it; ``message`` has the number 0 if it is about
      none
    """

    guarantee: Guarantee | Extra
    process: str
    message: MessageId
    witness: tuple[Place, ...]
    cause: MessageId | None = None
    root: MessageId | None = None
    note: str = ""


class Fault(StrEnum):
    """In which ways a message goes wrong at a process."""

    REPEATED = "repeated"
    FORGED = "forged"
    LATE = "late"
    """Or lost."""


FAULTS = dict(
    zip(Guarantee, (Fault.REPEATED, Fault.FORGED, Fault.LATE, Fault.LATE, Fault.LATE), strict=True)
)
"""What a violation of each guarantee shows."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What violations follow from (``spec/causes.py``): a message that went wrong at a process.

    A message that went wrong there in two ways is two causes.
    """

    process: str
    message: MessageId
    violated: dict[Guarantee, int]
    """How many violations of each guarantee follow from it."""

    @property
    def fault(self) -> Fault:
        return FAULTS[next(iter(self.violated))]


MOST_CAUSES = 10
"""How many causes a verdict names. All are counted."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement on one guarantee in one run.

    ``judged`` counts what was looked at (deliveries, or broadcasts for Validity and Uniform
    Agreement, or rows about agreed views); ``not_owed`` counts broadcasts whose majority was gone,
    for which nothing was promised. ``violated`` is the exact number of breaches, ``violations`` the
    first of them; ``causes`` the exact number of what they follow from, ``largest_causes`` those
    that are named.
    """

    guarantee: Guarantee | Extra
    value: Value
    judged: int
    not_owed: int = 0
    violated: int = 0
    violations: tuple[Violation, ...] = ()
    causes: int = 0
    largest_causes: tuple[Cause, ...] = ()
    reason: str = ""
    """Why it is unknown."""
    note: str = ""
    """What part of the run it is about, if not all of it."""


def decide(
    guarantee: Guarantee | Extra,
    *,
    judged: int,
    violations: Sequence[Violation] = (),
    not_owed: int = 0,
    doubt: str = "",
) -> Verdict:
    """A breach is a breach, whatever else is missing; without one, any doubt means unknown."""
    if not doubt and not judged and not_owed:
        doubt = f"nothing was owed: {not_owed} broadcasts had lost their majority"
    value = Value.VIOLATED if violations else Value.UNKNOWN if doubt else Value.HOLDS
    return Verdict(
        guarantee=guarantee,
        value=value,
        judged=judged,
        not_owed=not_owed,
        violated=len(violations),
        violations=tuple(violations),
        reason=doubt if value is Value.UNKNOWN else "",
    )


def below_the_cuts(cuts: Mapping[str, HistoryCut]) -> tuple[Violation, ...]:
    """Two processes had delivered equally many messages of an origin, but not the same.

    One name stands for two texts then, and its origin broadcast one of them at most. Which of the
    messages up to the named one it is, the digests do not tell.
    """
    first: dict[tuple[str, int], tuple[str, str]] = {}
    violations = []
    for process in ordered(cuts):
        cut = cuts[process]
        for origin in ordered(cut.digests):
            key = (origin, cut.delivered.get(origin, 0))
            other, digest = first.setdefault(key, (process, cut.digests[origin]))
            if digest != cut.digests[origin]:
                violations.append(
                    Violation(
                        guarantee=Guarantee.NO_CREATION,
                        process=process,
                        message=MessageId(*key),
                        root=MessageId(*key),
                        witness=(Place(other, BELOW_THE_CUT), Place(process, BELOW_THE_CUT)),
                    )
                )
    return tuple(violations)


def from_the_cut_on(
    five: tuple[Verdict, ...], cuts: Mapping[str, HistoryCut], examples: int | None = None
) -> tuple[Verdict, ...]:
    """The verdicts on a run, each with a note if the beginning of a history was cut off.

    What the cuts themselves show is added, as far as no more than the examples are shown.
    """
    if not cuts:
        return five
    if shown_by_cuts := below_the_cuts(cuts):
        five = tuple(
            _with_more(verdict, shown_by_cuts, examples)
            if verdict.guarantee is Guarantee.NO_CREATION
            else verdict
            for verdict in five
        )
    shown = [f"{name} from {cuts[name].index:,}" for name in ordered(cuts)]
    more = f" and {len(shown) - _MOST_CUTS:,} more" if len(shown) > _MOST_CUTS else ""
    note = f"judged from the cut on ({', '.join(shown[:_MOST_CUTS])}{more})"
    deliveries = {verdict.guarantee: verdict.judged for verdict in five}
    untold = deliveries[Guarantee.NO_DUPLICATION] - deliveries[Guarantee.NO_CREATION]
    of_texts = f"{note}; of {untold:,} deliveries the text cannot be compared" if untold else note
    return tuple(
        msgspec.structs.replace(
            verdict, note=of_texts if verdict.guarantee is Guarantee.NO_CREATION else note
        )
        for verdict in five
    )


def _with_more(verdict: Verdict, more: tuple[Violation, ...], examples: int | None) -> Verdict:
    return msgspec.structs.replace(
        verdict,
        value=Value.VIOLATED,
        violated=verdict.violated + len(more),
        violations=(*verdict.violations, *more)[:examples],
        causes=verdict.causes + len(more),
        largest_causes=(*verdict.largest_causes, *map(_cause_below_the_cuts, more))[:MOST_CAUSES],
        reason="",
    )


def _cause_below_the_cuts(violation: Violation) -> Cause:
    """Each is one of its own: nothing else is known of those messages."""
    return Cause(
        process=violation.process,
        message=violation.message,
        violated={Guarantee.NO_CREATION: 1},
    )


_MOST_CUTS = 5
"""How many processes are named."""


def exit_status(verdicts: Sequence[Verdict]) -> Exit:
    """The worst of the verdicts: a breach before a doubt before nothing."""
    values = {verdict.value for verdict in verdicts}
    if Value.VIOLATED in values:
        return Exit.VIOLATED
    return Exit.UNKNOWN if Value.UNKNOWN in values else Exit.HOLDS
