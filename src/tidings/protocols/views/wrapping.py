"""What a step of a changing group leads to, in the order in which it has to happen."""

from collections.abc import Iterable

from tidings.core import CancelTimer, Effect, Halt, Persist, Send, SetTimer
from tidings.protocols.views.packets import InView
from tidings.protocols.views.records import Written

Effects = list[Effect]


def in_view(number: int, effects: Iterable[Effect]) -> Effects:
    """What a Frontier wants done, with the number of its view."""
    out: Effects = []
    for effect in effects:
        # Of every effect of every step: to match it takes twice the time.
        if type(effect) is Send:
            effect = Send(effect.to, InView(number, effect.packet))  # type: ignore[arg-type]
        elif type(effect) is Persist:
            effect = Persist(tuple([Written(number, record) for record in effect.records]))
        out.append(effect)
    return out


def in_order(effects: Effects) -> Effects:
    """One write before everything, and what happens here before what others hear of it."""
    records = [one for effect in effects if isinstance(effect, Persist) for one in effect.records]
    rest = [effect for effect in effects if not isinstance(effect, Persist)]
    # Sorting keeps the order of what it does not tell apart.
    rest.sort(key=lambda effect: isinstance(effect, Send | SetTimer | CancelTimer | Halt))
    written: Effects = [Persist(tuple(records))] if records else []
    return written + rest
