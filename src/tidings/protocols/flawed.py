"""The gallery of flaws: each a small change to a sound algorithm that breaks one thing.

They exist to test the judges: a checker that has never rejected anything proves nothing.
"""

from collections.abc import Iterator

import msgspec

from tidings.core import Accept, Broadcast, Deliver, Effect, Event, Held, Message, MessageId, Send
from tidings.protocols.majority_relay import Copy, MajorityRelay


class Repeating(MajorityRelay):
    """Breaks No Duplication: a copy that comes late is taken for a reason to deliver again."""

    def _take(self, copy: Copy, sender: str) -> Iterator[Effect]:
        if copy.id.seq <= self.delivered[copy.id.origin]:
            yield Deliver((Message(copy.id, copy.text),))
        else:
            yield from super()._take(copy, sender)


class Embroidering(MajorityRelay):
    """Breaks No Creation: who passes a message on adds a little of their own."""

    def _take(self, copy: Copy, sender: str) -> Iterator[Effect]:
        if copy.id.origin != self.me and copy.id not in self.waiting:
            copy = msgspec.structs.replace(copy, text=copy.text + b", they say")
        yield from super()._take(copy, sender)


class FallingSilent(MajorityRelay):
    """Breaks Validity: after three broadcasts it takes its user's texts and tells nobody."""

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts) if self.seq >= 3:
                for _ in texts:
                    self.seq += 1
                    yield Accept((MessageId(self.me, self.seq),))
            case _:
                yield from super()._react(event)


class Hasty(MajorityRelay):
    """Breaks Uniform Agreement: it delivers the first copy at once and relays nothing."""

    def _take(self, copy: Copy, sender: str) -> Iterator[Effect]:
        if copy.id.seq <= self.delivered[copy.id.origin] or copy.id in self.waiting:
            return
        self.waiting[copy.id] = copy
        self.relayers[copy.id] = {self.me}
        yield Held((copy.id,))
        yield from self._deliver_what_is_ready()
        if copy.id.origin == self.me:
            yield Send(self.others, copy)

    def _is_safe(self, message: MessageId) -> bool:
        return True


class Careless(MajorityRelay):
    """Breaks Causal Order: an answer may arrive before its question."""

    def _causes_are_delivered(self, copy: Copy) -> bool:
        return True
