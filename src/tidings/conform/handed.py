"""What can be handed to a process, after all that it was handed and asked for before."""

from collections import Counter
from collections.abc import Mapping

from tidings.conform.divergence import Diverged
from tidings.conform.meaning import Wanted
from tidings.core import (
    Event,
    LinkDown,
    LinkUp,
    MessageId,
    Processed,
    Recalled,
    Receive,
    Start,
    Timeout,
)
from tidings.trace.steps import DIGEST_BYTES, digests_of


class Handed:
    """The surroundings of one life: its timers and links, what it wrote and asked for."""

    def __init__(self, me: str) -> None:
        self.is_lossy = False
        self._has_started = False
        self._timers: set[str] = set()
        self._linked = {me}
        self._asked = Counter[tuple[str, MessageId, int]]()
        self._persisted: set[bytes] = set()

    def add_persisted(self, digests: bytes) -> None:
        self._persisted |= _cut(digests)

    def is_linked(self, peer: str) -> bool:
        return peer in self._linked

    def expect(self, wanted: Wanted) -> None:
        """What a step asks for can happen from now on."""
        for name, is_running in wanted.timers.items():
            (self._timers.add if is_running else self._timers.discard)(name)
        for one in wanted.recalls:
            self._asked[one.peer, one.first, one.last] += 1

    def check(self, event: Event, delivered: Mapping[str, int]) -> None:
        """Whether this can be handed over now, when so much was delivered before the tick."""
        if isinstance(event, Start) == self._has_started:
            raise Diverged("a life begins with its start, and there is one start in a life")
        match event:
            case Start():
                self._has_started, self.is_lossy = True, event.lossy
            case LinkUp(peer):
                self._linked.add(peer)
            case LinkDown(peer):
                self._linked.discard(peer)
            case Receive(sender) if sender not in self._linked:
                raise Diverged(f"a packet of {sender}, to whom there is no link")
            case Timeout(name) if name not in self._timers:
                raise Diverged(f"timer {name} ran out, and is not set")
            case Timeout(name):
                self._timers.discard(name)
            case Recalled():
                self._check_recalled(event)
            case Processed(upto):
                for origin, count in upto.items():
                    if count > delivered.get(origin, 0):
                        raise Diverged(f"{origin}#{count} is processed, and was not delivered")

    def _check_recalled(self, event: Recalled) -> None:
        asked = (event.peer, event.first, event.last)
        if not self._asked[asked]:
            raise Diverged(f"{event.first} was read back for {event.peer}, and nobody asked for it")
        self._asked[asked] -= 1
        if not _cut(digests_of(event.records)) <= self._persisted:
            raise Diverged("it read back what it did not write")


def _cut(digests: bytes) -> set[bytes]:
    return {digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)}
