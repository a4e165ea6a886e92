"""The gallery of flaws: each a small change to a sound algorithm that breaks one thing.

They exist to test the judges: a checker that has never rejected anything proves nothing.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings.core import (
    Accept,
    Broadcast,
    Choose,
    Deliver,
    Effect,
    Event,
    Members,
    Message,
    MessageId,
    Send,
    take_first,
)
from tidings.protocols.holdback import Stamped
from tidings.protocols.majority_relay import Copy, MajorityRelay, Notice, Postponed

# --- one for each guarantee


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


# --- majority-relay as its note has it


class ForgetfulRelay(MajorityRelay):
    """Costs twice the packets: the set of relayers is forgotten at delivery.

    A late copy then looks like a first one, and is relayed once more.
    """

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.again: set[MessageId] = set()

    def _take(self, message: Stamped, relayers: Iterable[str], age: int) -> Iterator[Effect]:
        if self._is_finished(message.id) and message.id not in self.again:
            self.again.add(message.id)
            yield Send(self.others, Copy(message))
        else:
            yield from super()._take(message, relayers, age)


class SilentRelay(MajorityRelay):
    """Breaks Validity and Uniform Agreement: who sees enough relayers tells nobody.

    If a relayer's copy to the origin is lost with the relayer, the one process that knows of it
    keeps it to itself.
    """

    def __init__(
        self, me: str, members: Members, choose: Choose = take_first, *, pull: bool = False
    ) -> None:
        super().__init__(me, members, choose, notice=True, pull=pull)

    def _pass_on(self, owed: Postponed) -> Iterator[Effect]:
        sent = list(super()._pass_on(owed))
        yield from (effect for effect in sent if not _is_notice(effect))


def _is_notice(effect: Effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.packet, Notice)


class SelfCountingRelay(MajorityRelay):
    """Breaks Uniform Agreement: a process counts itself a relayer before it decides to relay.

    Then Q "relayers" may be the origin and one that only gave a notice.
    """

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose, notice=True)

    def _pass_on(self, owed: Postponed) -> Iterator[Effect]:
        if owed.message.id.origin != self.me:
            self.relayers[owed.message.id].add(self.me)
        yield from super()._pass_on(owed)


class GamblingRelay(MajorityRelay):
    """Breaks Validity and Uniform Agreement: a relay that loses the toss is never made."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose, postpone=True)

    def _toss_again(self, message: MessageId) -> Iterator[Effect]:
        del self.postponed[message]
        return iter(())


class SmallQuorum(MajorityRelay):
    """Breaks Uniform Agreement: floor(n/2) relayers may all crash when n is odd."""

    def _is_safe(self, message: MessageId) -> bool:
        return len(self.relayers[message]) >= max(1, len(self.members) // 2)
