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
    IntervalSet,
    Members,
    Message,
    MessageId,
    Packet,
    Process,
    Receive,
    Send,
    quorum,
    take_first,
)
from tidings.protocols import history_sets, interval_history
from tidings.protocols.history_sets import HistorySets
from tidings.protocols.holdback import Stamped
from tidings.protocols.interval_history import IntervalHistory, Lists
from tidings.protocols.majority_relay import Copy, MajorityRelay, Notice, Postponed
from tidings.protocols.stage_gossip import Gossip, StageGossip
from tidings.protocols.two_phase import TwoPhase

# --- one for each guarantee


class Repeating(MajorityRelay):
    """Breaks No Duplication: a copy that comes late is taken for a reason to deliver again."""

    def _take(self, message: Stamped, relayers: Iterable[str], age: int) -> Iterator[Effect]:
        if self._is_finished(message.id):
            yield Deliver((Message(*message.id, message.text),))
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
    keeps it to itself. With ``pull`` it is sound: that process delivers, and says that it has.
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


# --- two-phase as its note has it


class BcastAsWritten(Packet, frozen=True, tag="bcast"):
    text: bytes
    id: MessageId


class AckAsWritten(Packet, frozen=True, tag="ack"):
    text: bytes
    id: MessageId


class BcastDeliverAsWritten(Packet, frozen=True, tag="bcast-deliver"):
    text: bytes
    id: MessageId


class Finack(Packet, frozen=True, tag="finack"):
    text: bytes
    id: MessageId


class TwoPhaseAsWritten(Process):
    """Breaks Uniform Agreement: the whole fourth note, its FINACK included, as it stands.

    The origin delivers with its own BCAST_DELIVER; if the others are lost with it, nobody else
    does. Messages are known by their texts, acknowledgements are only counted, nothing orders
    anything. The ids in the packets are for the trace alone: no decision reads them.
    """

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.seq = 0
        self.sent: set[bytes] = set()
        self.received: set[bytes] = set()
        self.acks: dict[bytes, int] = {}
        self.delivered: set[bytes] = set()
        self.released: set[bytes] = set()

    def step(self, event: Event) -> list[Effect]:
        return list(self._react(event))

    def _react(self, event: Event) -> Iterator[Effect]:
        match event:
            case Broadcast(texts):
                for text in texts:
                    self.seq += 1
                    message = MessageId(self.me, self.seq)
                    yield Accept((message,))
                    self.sent.add(text)
                    yield Send(self.others, BcastAsWritten(text, message))
            case Receive(sender, BcastAsWritten(text, message)):
                if text not in self.sent and text not in self.received:
                    self.received.add(text)
                    yield Send((sender,), AckAsWritten(text, message))
            case Receive(_, AckAsWritten(text, message)):
                yield from self._count(text, message)
            case Receive(sender, BcastDeliverAsWritten(text, message)):
                if text not in self.delivered:
                    yield from self._deliver(text, message)
                    yield Send(self.others, BcastDeliverAsWritten(text, message))
                    yield Send((sender,), Finack(text, message))
            case Receive(_, Finack(text, message)):
                if text not in self.delivered:
                    yield from self._deliver(text, message)

    def _count(self, text: bytes, message: MessageId) -> Iterator[Effect]:
        self.acks[text] = self.acks.get(text, 0) + 1
        if self.acks[text] >= len(self.members) // 2 and text not in self.released:
            self.released.add(text)
            yield Send(self.others, BcastDeliverAsWritten(text, message))
            yield from self._hear_oneself(text, message)

    def _hear_oneself(self, text: bytes, message: MessageId) -> Iterator[Effect]:
        """Sent to all means to oneself too, who delivers it and passes it on like everybody."""
        if text not in self.delivered:
            yield from self._deliver(text, message)
            yield Send(self.others, BcastDeliverAsWritten(text, message))

    def _deliver(self, text: bytes, message: MessageId) -> Iterator[Effect]:
        self.delivered.add(text)
        yield Deliver((Message(*message, text),))


class WaitingForFinack(TwoPhaseAsWritten):
    """Breaks Uniform Agreement: the other reading of the fourth note, where FINACK matters.

    The origin sends BCAST_DELIVER to the others alone and delivers at the first FINACK. Who
    delivered first may be gone by then, and the origin with it.
    """

    def _hear_oneself(self, text: bytes, message: MessageId) -> Iterator[Effect]:
        return iter(())


class FirstWord(TwoPhase):
    """Breaks Uniform Agreement: one BCAST_DELIVER, even one's own, is enough to deliver."""

    def _is_safe(self, message: MessageId) -> bool:
        return message in self.relayers


class KnownByText(TwoPhase):
    """Breaks Validity: a text said twice is taken for the same message."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.spoken: set[bytes] = set()

    def _ask(self, message: Stamped) -> Iterator[Effect]:
        if message.text not in self.spoken:
            self.spoken.add(message.text)
            yield from super()._ask(message)


class NeverAlone(TwoPhase):
    """Breaks Validity: the origin waits for others to acknowledge, also where there are none."""

    def _first_ackers(self) -> set[str]:
        return set()


class Unordered(TwoPhase):
    """Breaks Causal Order: the note has no order at all."""

    def _causes_are_delivered(self, message: Stamped) -> bool:
        return True


# --- stage-gossip as its note has it


class Storm(StageGossip):
    """Costs about n^4 packets, or any number: every receipt is forwarded, news or not.

    Two processes that hold a message whose predecessor died with its origin go on for ever.
    """

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose, form="news")

    def _is_news(self, message: MessageId) -> bool:
        return True


class HalfOnly(StageGossip):
    """Breaks Validity and Uniform Agreement: half of the group is told, the others never."""

    def _successors(self) -> Members:
        return super()._successors()[: len(self.members) // 2]

    def _bystanders(self, successors: Members) -> Members:
        return ()


class RelayersVector(StageGossip):
    """Breaks Causal Order: a copy carries what its relayer has delivered, not its origin."""

    def _packet(self, message: Stamped) -> Gossip:
        causes = tuple(self.delivered.values())
        return super()._packet(msgspec.structs.replace(message, causes=causes))


class ReceivedVector(StageGossip):
    """Breaks Validity: a message waits for all its origin had received, the undeliverable too."""

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.received = dict.fromkeys(members, 0)

    def _hold(self, message: Stamped) -> Iterator[Effect]:
        origin, seq = message.id
        self.received[origin] = max(self.received[origin], seq)
        yield from super()._hold(message)

    def _stamp(self, text: bytes) -> Stamped:
        message = super()._stamp(text)
        others = self.received | {self.me: message.id.seq - 1}
        return msgspec.structs.replace(message, causes=tuple(others.values()))


class SinglePass(StageGossip):
    """Breaks Uniform Agreement: what a delivery frees is not looked for again."""

    def _deliver_what_is_ready(self) -> Iterator[Effect]:
        for message in list(self.waiting.values()):
            if self.delivered[message.id.origin] == message.id.seq - 1 and self._is_ready(message):
                yield from self._deliver(message)


# --- history-sets as its note has it


class OnReceiptOnly(HistorySets):
    """Breaks Validity: delivery is tried on receipt only, and a group of one receives nothing."""

    def _take(self, sender: str, copy: history_sets.CopyWithPast) -> Iterator[Effect]:
        if sender != self.me:
            yield from super()._take(sender, copy)
        else:
            yield from self._hold(copy)
            self.holders[copy.id].add(self.me)


class CopyCounting(HistorySets):
    """Breaks Uniform Agreement: copies are counted, not who sent them, and links duplicate."""

    def _take(self, sender: str, copy: history_sets.CopyWithPast) -> Iterator[Effect]:
        if copy.id in self.holders:
            yield from self._count(copy.id, {f"copy {len(self.holders[copy.id])}"})
        else:
            yield from super()._take(sender, copy)


class OthersOnly(HistorySets):
    """Breaks Validity and Uniform Agreement: half must hold it, and oneself does not count."""

    def _is_safe(self, message: MessageId) -> bool:
        return len(self.holders[message] - {self.me}) >= quorum(len(self.members))


class EarlyExit(HistorySets):
    """Breaks Validity and Uniform Agreement: what was sent already is not even counted."""

    def _take(self, sender: str, copy: history_sets.CopyWithPast) -> Iterator[Effect]:
        if copy.id not in self.held:
            yield from super()._take(sender, copy)


# --- interval-history as its note has it


class WaitingForAll(IntervalHistory):
    """Breaks Uniform Agreement: a newcomer waits for messages that were never addressed to it."""

    def _hold(
        self, copy: interval_history.CopyWithRanges, lists: dict[str, Lists]
    ) -> Iterator[Effect]:
        yield from super()._hold(copy, lists)
        self.missing[copy.id] = {origin: IntervalSet(ranges) for origin, ranges in copy.past}


class SkippingOnly(IntervalHistory):
    """Breaks Uniform Agreement: newcomers skip what others still wait for, in vain.

    What died on its way to the old list is nothing to a newcomer, who delivers what follows it.
    """

    def _hold(
        self, copy: interval_history.CopyWithRanges, lists: dict[str, Lists]
    ) -> Iterator[Effect]:
        yield from super()._hold(copy, lists)
        whole = self.waiting[copy.id]
        self.waiting[copy.id] = msgspec.structs.replace(whole, lists=whole.lists[-1:])

    def _kept_back_for(self, message: MessageId) -> IntervalSet:
        return IntervalSet()


class LeavingOut(IntervalHistory):
    """Leaves newcomers out: lists are merged on JOIN, but not before a delivery.

    Who answers a message that a newcomer got may not yet know of the newcomer.
    """

    def _merge(self, members: Members) -> Iterator[Effect]:
        if not self.delivering:
            yield from super()._merge(members)

    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.delivering = False

    def _deliver(self, message: MessageId) -> Iterator[Effect]:
        self.delivering = True
        yield from super()._deliver(message)
        self.delivering = False
