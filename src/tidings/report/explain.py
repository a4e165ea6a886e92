"""A violation told as a proof that a person can follow: Let, Then, However."""

from collections.abc import Callable

from tidings.core import MessageId
from tidings.spec import Extra, Guarantee, Place, Violation


def explain(violation: Violation, run: str, seed: int | None = None) -> str:
    """The proof in words. Event numbers are positions in the named process's own history."""
    let, then = _PROOFS[violation.guarantee](violation)
    title = f"{violation.guarantee.upper()} violated at {violation.process}"
    source = f"run {run}" if seed is None else f"run {run}, seed {seed}"
    return "\n".join(
        [
            f"{title:<47}{source}",
            "Let:",
            *(f"  {line}" for line in let),
            "Then:",
            *(f"  - {line}" for line in then),
        ]
    )


Proof = tuple[list[str], list[str]]


def _let(name: str, message: MessageId) -> str:
    return f"{name} = {message!s:<8} broadcast by {message.origin}"


def _event(place: Place) -> str:
    return f"(its event {place.index})"


def _no_duplication(violation: Violation) -> Proof:
    first, again = violation.witness
    return (
        [_let("m", violation.message)],
        [
            f"{first.process} delivered m {_event(first)}.",
            f"However, {again.process} delivered m again {_event(again)}.",
        ],
    )


def _no_creation(violation: Violation) -> Proof:
    message, process = violation.message, violation.process
    first, *rest = violation.witness
    if not rest:
        return (
            [f"m = {message}   as named at its delivery"],
            [
                f"{process} delivered m {_event(first)}.",
                f"However, {message.origin} never broadcast m.",
            ],
        )
    (other,) = rest
    if first.process == other.process == message.origin and first.index < other.index:
        return (
            [_let("m", message)],
            [
                f"{process} broadcast m {_event(first)}.",
                f"However, {process} broadcast another message under the same name "
                f"{_event(other)}.",
            ],
        )
    return (
        [_let("m", message)],
        [
            f"{other.process} broadcast m {_event(other)}.",
            f"However, {process} delivered m with another text {_event(first)}.",
        ],
    )


def _validity(violation: Violation) -> Proof:
    (broadcast,) = violation.witness
    return (
        [_let("m", violation.message)],
        [
            f"{violation.process} broadcast m {_event(broadcast)} and was up when the run settled.",
            f"However, {violation.process} never delivered m.",
        ],
    )


def _uniform_agreement(violation: Violation) -> Proof:
    broadcast, seen = violation.witness
    return (
        [_let("m", violation.message)],
        [
            f"{broadcast.process} broadcast m {_event(broadcast)}.",
            f"{seen.process} delivered m {_event(seen)}.",
            f"However, {violation.process}, to whom m was addressed and who was up when the run "
            "settled, never delivered m.",
        ],
    )


def _causal_order(violation: Violation) -> Proof:
    had, broadcast, delivery = violation.witness
    assert violation.cause is not None, f"no cause in {violation}"
    verb = "broadcast" if violation.cause.origin == had.process else "delivered"
    return (
        [_let("m1", violation.cause), _let("m2", violation.message)],
        [
            f"m1 happened before m2: {had.process} {verb} m1 {_event(had)} before it broadcast m2 "
            f"{_event(broadcast)}.",
            f"However, {delivery.process} delivered m2 {_event(delivery)} and had not delivered "
            "m1.",
        ],
    )


def _cost(violation: Violation) -> Proof:
    (straw,) = violation.witness
    return (
        [_let("m", violation.message)],
        [
            f"{straw.process} sent another packet {_event(straw)} on account of m.",
            f"However, it was one too many: {violation.note}.",
        ],
    )


def _reach(violation: Violation) -> Proof:
    had, broadcast = violation.witness
    assert violation.cause is not None, f"no cause in {violation}"
    verb = "broadcast" if violation.cause.origin == had.process else "delivered"
    return (
        [_let("m1", violation.cause), _let("m2", violation.message)],
        [
            f"m1 happened before m2: {had.process} {verb} m1 {_event(had)} before it broadcast m2 "
            f"{_event(broadcast)}.",
            f"However, m2 was {violation.note}, to whom m1 was addressed.",
        ],
    )


_PROOFS: dict[Guarantee | Extra, Callable[[Violation], Proof]] = {
    Guarantee.NO_DUPLICATION: _no_duplication,
    Guarantee.NO_CREATION: _no_creation,
    Guarantee.VALIDITY: _validity,
    Guarantee.UNIFORM_AGREEMENT: _uniform_agreement,
    Guarantee.CAUSAL_ORDER: _causal_order,
    Extra.COST: _cost,
    Extra.REACH: _reach,
}
