"""A protocol of one's own: pass every message on once, deliver it in the order of its origin.

    tidings simulate --process examples/relay.py:Relay --crashes 2

Whoever has a message relays it before delivering it, but does not wait to hear that others have
it, too: a process may deliver a message and die with it. Uniform Agreement breaks, and so does
Causal Order, for only messages of one origin wait for each other.
"""

from tidings.core import (
    Accept,
    Broadcast,
    Choose,
    Deliver,
    Effect,
    Event,
    Held,
    Members,
    Message,
    MessageId,
    Packet,
    Process,
    Receive,
    Send,
    take_first,
)


class Copy(Packet, frozen=True, tag="copy"):
    id: MessageId
    text: bytes


class Relay(Process):
    def __init__(self, me: str, members: Members, choose: Choose = take_first) -> None:
        super().__init__(me, members, choose)
        self.seq = 0
        self.delivered = dict.fromkeys(members, 0)
        self.waiting: dict[MessageId, Copy] = {}

    def step(self, event: Event) -> list[Effect]:
        match event:
            case Broadcast((text,)):
                self.seq += 1
                copy = Copy(MessageId(self.me, self.seq), text)
                return [Accept((copy.id,)), *self.take(copy)]
            case Receive(_, Copy() as copy) if self.is_new(copy.id):
                return self.take(copy)
        return []

    def is_new(self, message: MessageId) -> bool:
        return message.seq > self.delivered[message.origin] and message not in self.waiting

    def take(self, copy: Copy) -> list[Effect]:
        self.waiting[copy.id] = copy
        effects: list[Effect] = [Held((copy.id,)), Send(self.others, copy)]
        origin = copy.id.origin
        while ready := self.waiting.pop(MessageId(origin, self.delivered[origin] + 1), None):
            self.delivered[origin] += 1
            effects.append(Deliver((Message(*ready.id, ready.text),)))
        return effects
