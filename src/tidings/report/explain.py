"""A violation told as a proof that a person can follow: Let, Then, However."""

import shlex
from collections.abc import Container, Iterator, Mapping
from os import PathLike
from types import MappingProxyType

from tidings.core import MessageId, ordered
from tidings.report.causality import Causality
from tidings.report.words import LIVENESS, listed, many, packet_of
from tidings.spec import BELOW_THE_CUT, Extra, Guarantee, Place, ViewRule, Violation
from tidings.spec.evidence import place
from tidings.trace import Row, Run

LAST_STEPS = 20
"""How much of a long run one wants to see again, before the place where it goes wrong."""


def explain(
    violation: Violation,
    run: str,
    seed: int | None = None,
    *,
    folder: PathLike[str] | str | None = None,
    is_one_of_many: bool = False,
    is_long: bool = False,
    trace: Run | None = None,
    log: Mapping[Place | MessageId, str] = MappingProxyType({}),
) -> str:
    """The proof in words. Event numbers are positions in the named process's own history.

    With the ``folder`` of the trace, the last line says how to see it again (the run has to be
    named if it ``is_one_of_many`` there; if it ``is_long``, only its last steps are asked for).
    With the ``trace`` itself, what never came is told with the reason why it cannot. With the
    ``log``, messages and events are named as in the log that the trace was made of.
    """
    m, cause = ("m", "") if violation.cause is None else ("m2", "m1")
    title = f"{violation.guarantee.upper()} violated at {violation.process}"
    lines = [
        f"{title:<47}run {run}" + (f", seed {seed}" if seed is not None else ""),
        *(["Let:"] if _is_about_a_message(violation) else []),
        *(f"  {line}" for line in _let(violation, m, cause)),
        "Then:",
        *(f"  - {line}" for line in _proof(violation, m, cause)),
        *(f"  - {line}" for line in (_why_never(violation, trace, m) if trace else ())),
        *(f"  - {line}" for line in _why_so(violation)),
    ]
    if looked_up := list(_looked_up(violation, m, cause, log)):
        lines += ["In the log:", *(f"  {line}" for line in looked_up)]
    if folder:
        named = run if is_one_of_many else None
        lines += [f"Replay:  {replay_command(violation, folder, named, is_long=is_long)}"]
    return "\n".join(lines)


def however(violation: Violation) -> str:
    """The one sentence of the proof that says what is wrong, messages by their own names."""
    *_, last = _proof(violation, str(violation.message), str(violation.cause))
    sentence = last.removeprefix("However, ")
    return sentence[0].upper() + sentence[1:] if sentence.startswith("it ") else sentence


def in_the_log(violation: Violation, log: Mapping[Place | MessageId, str]) -> list[str]:
    """What its messages and events are there, by their own names."""
    return list(_looked_up(violation, str(violation.message), str(violation.cause), log))


def replay_command(
    violation: Violation,
    folder: PathLike[str] | str,
    run: str | None = None,
    *,
    is_long: bool = False,
) -> str:
    """The command that plays a stored run again, up to where the violation shows."""
    until = shows_at(violation)
    is_recorded = until is not None and until.index != BELOW_THE_CUT
    return shlex.join(
        [
            *("tidings", "replay", str(folder)),
            *(("--run", run) if run is not None else ()),
            *(("--until", str(until)) if is_recorded else ()),
            *(("--last", str(LAST_STEPS)) if is_long else ()),
        ]
    )


def shrink_command(
    folder: PathLike[str] | str, run: str | None = None, guarantee: str | None = None
) -> str:
    """The command that looks for a smaller run that breaks the same."""
    return shlex.join(
        [
            *("tidings", "shrink", str(folder)),
            *(("--run", run) if run is not None else ()),
            *(("--guarantee", guarantee) if guarantee is not None else ()),
        ]
    )


def shows_at(violation: Violation) -> Place | None:
    """The event at which the violation is complete; None if it is that something never came."""
    if violation.guarantee in LIVENESS:
        return None
    if violation.guarantee is Guarantee.NO_CREATION and not _is_a_name_used_twice(violation):
        return violation.witness[0]
    return violation.witness[-1]


# --- the proofs


def _is_about_a_message(violation: Violation) -> bool:
    return violation.guarantee is not Extra.VIEWS or violation.message.seq > 0


def _let(violation: Violation, m: str, cause: str) -> Iterator[str]:
    if not _is_about_a_message(violation):
        return
    if violation.cause is not None:
        yield f"{cause} = {violation.cause!s:<8} broadcast by {violation.cause.origin}"
    message = violation.message
    if violation.guarantee is Guarantee.NO_CREATION and len(violation.witness) == 1:
        yield f"{m} = {message}   as named at its delivery"
    else:
        yield f"{m} = {message!s:<8} broadcast by {message.origin}"


def _looked_up(
    violation: Violation, m: str, cause: str, log: Mapping[Place | MessageId, str]
) -> Iterator[str]:
    """What the messages and the events are where an operator finds them."""
    messages = {cause: violation.cause, m: violation.message}
    named = {word: log[id_] for word, id_ in messages.items() if id_ is not None and id_ in log}
    for word, words in named.items():
        yield f"{word} = {words}"
    for place_ in violation.witness:
        words = log.get(place_, "")
        if words and not any(words in other for other in named.values()):
            yield f"{place_} = {words}"


def _event(place: Place) -> str:
    return "(before its cut)" if place.index == BELOW_THE_CUT else f"(its event {place.index})"


def _proof(violation: Violation, m: str, cause: str) -> list[str]:
    process, witness = violation.process, violation.witness
    match violation.guarantee:
        case Guarantee.NO_DUPLICATION:
            first, again = witness
            return [
                f"{first.process} delivered {m} {_event(first)}.",
                f"However, {again.process} delivered {m} again {_event(again)}.",
            ]
        case Guarantee.NO_CREATION:
            return _no_creation(violation, m)
        case Guarantee.VALIDITY:
            (broadcast,) = witness
            return [
                f"{process} broadcast {m} {_event(broadcast)} and was up when the run settled.",
                f"However, {process} never delivered {m}.",
            ]
        case Guarantee.UNIFORM_AGREEMENT:
            broadcast, seen = witness
            return [
                f"{broadcast.process} broadcast {m} {_event(broadcast)}.",
                f"{seen.process} delivered {m} {_event(seen)}.",
                f"However, {process}, to whom {m} was addressed and who was up when the run "
                f"settled, never delivered {m}.",
            ]
        case Guarantee.CAUSAL_ORDER:
            *before, delivery = witness
            return [
                _happened_before(violation, m, cause, *before),
                f"However, {delivery.process} delivered {m} {_event(delivery)} and had not "
                f"delivered {cause}.",
            ]
        case Extra.COST:
            (straw,) = witness
            return [
                f"{straw.process} sent another packet {_event(straw)} on account of {m}.",
                f"However, it was {violation.note}.",
            ]
        case Extra.REACH:
            return [
                _happened_before(violation, m, cause, *witness),
                f"However, {m} was {violation.note}, to whom {cause} was addressed.",
            ]
        case Extra.VIEWS:
            *limits, here = witness
            return [
                *(f"{one.process} {_limit(violation, one)} {_event(one)}." for one in limits),
                f"However, {process} {_event(here)}: {violation.note.replace('the message', m)}.",
            ]


def _limit(violation: Violation, other: Place) -> str:
    """What another row shows of a rule of agreed views."""
    here = violation.witness[-1]
    match ViewRule(violation.note):
        case ViewRule.ANOTHER | ViewRule.LEFT_OUT:
            return "installed the view of this number"
        case ViewRule.FALLING:
            return "installed the view before"
        case ViewRule.STAYING:
            return f"installed the view of that number, with {violation.process} in it,"
        case ViewRule.MISPLACED if other.process != here.process or other.index > here.index:
            return "installed the next view"
        case _:
            return "installed the view that it was in"


def _no_creation(violation: Violation, m: str) -> list[str]:
    process = violation.process
    first, *rest = violation.witness
    if not rest:
        return [
            f"{process} delivered {m} {_event(first)}.",
            f"However, {violation.message.origin} never broadcast {m}.",
        ]
    (other,) = rest
    if other.index == BELOW_THE_CUT:
        return [
            f"{first.process} delivered the messages of {violation.message.origin} up to {m} "
            f"{_event(first)}.",
            f"However, {process} delivered another text under one of their names {_event(other)}.",
        ]
    if _is_a_name_used_twice(violation):
        return [
            f"{process} broadcast {m} {_event(first)}.",
            f"However, {process} broadcast another message under the same name {_event(other)}.",
        ]
    return [
        f"{other.process} broadcast {m} {_event(other)}.",
        f"However, {process} delivered {m} with another text {_event(first)}.",
    ]


def _is_a_name_used_twice(violation: Violation) -> bool:
    """Two broadcasts of one origin, rather than a delivery and a broadcast."""
    first, other = violation.witness[0], violation.witness[-1]
    return first.process == other.process == violation.message.origin and first.index < other.index


def _happened_before(violation: Violation, m: str, cause: str, had: Place, broadcast: Place) -> str:
    assert violation.cause is not None, f"no cause in {violation}"
    verb = "broadcast" if violation.cause.origin == had.process else "delivered"
    return (
        f"{cause} happened before {m}: {had.process} {verb} {cause} {_event(had)} before it "
        f"broadcast {m} {_event(broadcast)}."
    )


def _why_so(violation: Violation) -> Iterator[str]:
    if violation.root not in (None, violation.message, violation.cause):
        yield f"This follows from {violation.root}, which {violation.process} owed before."


# --- why it can never come

MOST_NAMED = 6
"""How many lost packets a line names before it only counts them."""


def _why_never(violation: Violation, trace: Run, m: str) -> Iterator[str]:
    """What became of everything that could have told the process of the message."""
    if shows_at(violation) is not None:
        return
    causality = Causality(trace)
    if not causality.has_packets:
        return
    process, message = violation.process, violation.message
    yield from _what_it_heard(process, message, causality, m)
    knowing = ordered(row.process for row in causality.about(message))
    if gone := [name for name in knowing if causality.has_crashed(name)]:
        yield f"{listed(gone)}, who knew of {m}, crashed."
    if missing := causality.missing_cause(process, message):
        yield f"Before {m} comes {missing}, which {process} had not delivered either."
    yield from _losses({message, missing}, causality)


def _what_it_heard(process: str, message: MessageId, causality: Causality, m: str) -> Iterator[str]:
    """What rows can prove: a packet that speaks of many messages names none of them."""
    sent = [row for row in causality.about(message) if row.kind == "send"]
    to_it = [row for row in sent if row.peer == process]
    unnamed = [row for row in causality.unnamed if row.peer == process]
    arrived = [row for row in unnamed if causality.arrivals[place(row)]]
    about_it = f"about {m} alone" if unnamed else f"about {m}"
    if senders := dict.fromkeys(row.process for row in to_it if causality.arrivals[place(row)]):
        heard = f"{process} heard of {m} from {listed([*senders])}"
        yield f"{heard}, and nothing more about {m} is on its way."
        return
    if not sent and not causality.unnamed:
        yield f"Nobody sent a packet about {m}."
    elif not to_it:
        yield f"Nobody sent a packet {about_it} to {process}."
    elif len(to_it) == 1:
        yield f"The only packet {about_it} that was sent to {process} never arrived."
    else:
        yield f"None of the {len(to_it):,} packets {about_it} that were sent to {process} arrived."
    if arrived:
        received = f"{process} received {many(len(arrived), 'packet')}"
        yield f"{received} without any message's name, which may speak of {m}."


def _losses(messages: Container[MessageId | None], causality: Causality) -> Iterator[str]:
    """The packets about these that survivors never got, one line for each reason."""
    by_reason: dict[str, list[Row]] = {}
    for sent in causality.lost:
        if sent.origin and sent.message in messages and not causality.has_crashed(str(sent.peer)):
            by_reason.setdefault(causality.loss(sent), []).append(sent)
    for reason, packets in by_reason.items():
        named = [f"{packet_of(row)} {row.process}->{row.peer}" for row in packets[:MOST_NAMED]]
        more = len(packets) - len(named)
        rest = f" and {more:,} more" if more else ""
        yield f"{reason[0].upper()}{reason[1:]}: {', '.join(named)}{rest}."
