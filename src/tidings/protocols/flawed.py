"""The gallery of flaws: each a small change to a sound algorithm that breaks one thing.

They exist to test the judges: a checker that has never rejected anything proves nothing.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings.core import Accept, Broadcast, Deliver, Effect, Event, Message, MessageId, Send
from tidings.protocols.holdback import Stamped
from tidings.protocols.majority_relay import Copy, MajorityRelay


class Repeating(MajorityRelay):
    """Breaks No Duplication: a copy that comes late is taken for a reason to deliver again."""

    def _take(self, message: Stamped, relayers: Iterable[str], age: int) -> Iterator[Effect]:
        if self._is_finished(message.id):
            yield Deliver((Message(message.id, message.text),))
        else:
            yield from super()._take(message, relayers, age)


class Embroidering(MajorityRelay):
    """Breaks No Creation: who passes a message on adds a little of their own."""

    def _take(self, message: Stamped, relayers: Iterable[str], age: int) -> Iterator[Effect]:
        if message.id.origin != self.me and message.id not in self.waiting:
            message = msgspec.structs.replace(message, text=message.text + b", they say")
        yield from super()._take(message, relayers, age)


class FallingSilent(MajorityRelay):
    """Breaks Validity: after three broadcasts it takes its user's texts and tells nobody."""

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts) if self.seq >= 3:
                for text in texts:
                    yield Accept((self._stamp(text).id,))
            case _:
                yield from super()._react(event)


class Hasty(MajorityRelay):
    """Breaks Uniform Agreement: it delivers the first copy at once and relays nothing."""

    def _take(self, message: Stamped, relayers: Iterable[str], age: int) -> Iterator[Effect]:
        if self._is_finished(message.id) or message.id in self.waiting:
            return
        self.relayers[message.id] = {self.me}
        yield from self._hold(message)
        yield from self._deliver_what_is_ready()
        if message.id.origin == self.me:
            yield Send(self.others, Copy(message))

    def _is_safe(self, message: MessageId) -> bool:
        return True


class Careless(MajorityRelay):
    """Breaks Causal Order: an answer may arrive before its question."""

    def _causes_are_delivered(self, message: Stamped) -> bool:
        return True
