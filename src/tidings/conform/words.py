"""A divergence in plain words: what led there, what the process would do, what was done."""

from collections.abc import Iterator

from tidings.conform.divergence import Divergence, StepTaken
from tidings.core import (
    Accept,
    Broadcast,
    Deliver,
    Effect,
    Event,
    Held,
    LinkDown,
    LinkUp,
    Processed,
    Recalled,
    Send,
    Span,
    Start,
    Timeout,
    spans_of,
    text_spans_of,
)
from tidings.simulator.conversation import in_words

MOST_LINES = 12
"""Of one step; a tick may deliver thousands."""


def story(divergence: Divergence, run: str) -> str:
    """Like the proof of a violation: one heading, and lines under it."""
    member = divergence.member
    place = [f"run {run}", f"life {divergence.life}"]
    if divergence.tick is not None:
        place.append(f"tick {divergence.tick}")
    if divergence.index is not None:
        place.append(f"row {divergence.index}")
    lines = [f"{member} DOES NOT CONFORM: {divergence.words}", f"  {', '.join(place)}"]
    for step in divergence.before[:-1]:
        lines += [f"  {line}" for line in _step(member, step)]
    for step in divergence.before[-1:]:
        lines += ["Then:", *(f"  {line}" for line in _step(member, step))]
    if divergence.would:
        lines.append(f"  would  {divergence.would}")
    if divergence.did:
        lines.append(f"  did    {divergence.did}")
    return "\n".join(lines)


def _step(member: str, step: StepTaken) -> Iterator[str]:
    """What was handed over, and indented what the process wants done."""
    lines = [line for event in step.events for line in _event(member, event)]
    lines += [f"  {line.strip()}" for effect in step.effects for line in _effect(member, effect)]
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"  ... {len(lines) - MOST_LINES:,} more"


def _event(member: str, event: Event) -> Iterator[str]:
    match event:
        case Start(_, recovered):
            yield f"{member} starts" if recovered is None else f"{member} comes back"
        case Broadcast(texts):
            yield f"{member} is to broadcast {len(texts):,} texts"
        case Timeout(name):
            yield f"{member}: timer {name} runs out"
        case LinkUp(peer):
            yield f"{member}: the link to {peer} is up"
        case LinkDown(peer):
            yield f"{member}: the link to {peer} is down"
        case Recalled(peer, first, last):
            yield f"{member} has read {Span(*first, last)} back for {peer}"
        case Processed(upto):
            counts = ", ".join(f"{origin}<={count}" for origin, count in upto.items())
            yield f"{member}: its program has processed {counts}"
        case _:
            yield in_words(member, event)


def _effect(member: str, effect: Effect) -> Iterator[str]:
    match effect:
        case Send(to, packet):
            yield from (f"{member} -> {peer}  {packet}" for peer in to)
        case Accept(ids):
            yield from (f"{member} broadcasts {span}" for span in spans_of(ids))
        case Held(ids):
            yield from (f"{member} holds {span}" for span in spans_of(ids))
        case Deliver(messages):
            yield from (f"{member} delivers {one}" for one in text_spans_of(messages))
        case _:
            if line := in_words(member, effect):
                yield line
