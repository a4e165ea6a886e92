"""What each process does in each of its states: computed once, remembered, shared.

A group passes through millions of states, its processes through a few thousand. So the search
works on *interned* processes: two that are equal are one object, nobody changes it, and what it
does on an event is looked up.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import xxhash

from tidings.core import (
    Effect,
    Event,
    Halt,
    Packet,
    Process,
    Receive,
    Send,
    SetTimer,
    take_first,
)
from tidings.core.renaming import Names, renamed, renamed_state
from tidings.core.state import fingerprint
from tidings.guests.diagnosis import ProcessFault, answer
from tidings.simulator.choices import Link

_encode = msgspec.msgpack.Encoder().encode
_LANE_BITS = 96
_MASK = 2**64 - 1


class Signatures:
    """States as numbers: equal states, equal numbers, under any hash seed and, if wished, naming.

    A state of the group is a collection of facts: this process is in that state, this packet is on
    its way, that message was delivered there. The number of a fact is a 64-bit hash of its
    canonical bytes, and the number of a state the sum of its facts' numbers. Sums need no sorting
    and are cheap to take.

    For symmetry a fact has one such number for every way to exchange the names of the members, and
    all of them stand side by side in one long integer, 96 bits each, so that one addition adds them
    all without a carry from one into the next. The smallest of the sums is the state's number: it
    is the same for all states that differ by an exchange of names alone.
    """

    def __init__(self, renamings: Sequence[Names]) -> None:
        """``renamings`` are the exchanges of names to be seen through, besides none at all."""
        self._renamings = renamings
        lanes = len(renamings) + 1
        self._bytes = lanes * _LANE_BITS // 8
        self._unpack = struct.Struct("<" + "Q4x" * lanes).unpack
        self.of_fact = cache(lambda *fact: self.of_value(list(fact)))
        """The same for the parts of a fact, remembered."""

    def number(self, total: int) -> int:
        """The number of the state whose facts add up to this; never 0."""
        if not self._renamings:
            return total & _MASK or 1
        return int(min(self._unpack(total.to_bytes(self._bytes, "little")))) or 1

    def lanes(self, number: int) -> tuple[int, ...]:
        """The hashes that stand side by side in the number of one fact, the first as named."""
        return self._unpack(number.to_bytes(self._bytes, "little"))

    def under_names(self, lane: int, value: Any) -> Any:
        """The value under the names of this lane."""
        return renamed(value, self._renamings[lane - 1]) if lane else value

    def of_value(self, value: Any) -> int:
        return self._sum(
            [fingerprint(value)] + [fingerprint(renamed(value, names)) for names in self._renamings]
        )

    def of_process(self, process: Process) -> int:
        state = process.state()
        return self._sum(
            [process.fingerprint()]
            + [fingerprint(renamed_state(state, names)) for names in self._renamings]
        )

    @staticmethod
    def _sum(lanes: Sequence[bytes]) -> int:
        return sum(
            xxhash.xxh3_64_intdigest(lane) << (_LANE_BITS * position)
            for position, lane in enumerate(lanes)
        )


class Reaction(NamedTuple):
    """One way a process may react: what it drew, what became of it, what it wants done."""

    draws: tuple[int, ...]
    process: Process
    effects: tuple[Effect, ...]


Outcomes = tuple[Reaction, ...]


class Expectation(NamedTuple):
    """The process of this number ignores this packet, and so will whatever becomes of it.

    And so will those who differ from it in the members' names alone, with a packet that does.
    """

    number: int
    receive: Receive


class NotInertError(Exception):
    """A packet that was taken for inert made a difference after all."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Reactions:
    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._processes: dict[tuple[str, bytes], Process] = {}
        self._packets: dict[tuple[type, bytes], Packet] = {}
        self._outcomes: dict[Any, Outcomes] = {}
        self.process_numbers: dict[int, int] = {}
        """Under the identity of an interned process."""
        self.packet_numbers: dict[tuple[Link, int, int], int] = {}
        """Under a link, the identity of an interned packet, and its place on the link, if that
        makes a difference."""
        self._mute: dict[Any, bool] = {}
        self._became: dict[int, list[Process]] = {}
        """What a process, known by its identity, may become in one step."""
        self._ignores: dict[int, dict[tuple[str, int], Receive]] = {}
        """Which packets a process, known by its hash, is taken to ignore from now on."""
        self._by_hash: dict[int, Process] = {}
        self._is_ignored: dict[tuple[int, str, int], bool] = {}
        self.expectations: list[Expectation] = []
        """What processes were taken to ignore since this list was last emptied."""

    # --- one object for all that are equal

    def interned(self, process: Process) -> Process:
        known = self._processes.setdefault((process.me, process.fingerprint()), process)
        if known is process:
            number = self._signatures.of_process(known)
            self.process_numbers[id(known)] = number
            self._by_hash[self._signatures.lanes(number)[0]] = known
        return known

    def interned_packet(self, packet: Packet) -> Packet:
        return self._packets.setdefault((type(packet), fingerprint(packet)), packet)

    def number_of_packet(self, link: Link, packet: Packet, place: int) -> int:
        number = self._signatures.of_value(["packet", link, packet, place])
        self.packet_numbers[link, id(packet), place] = number
        return number

    # --- reactions

    def of(self, process: Process, event: Event) -> Outcomes:
        """Every way this process may react to this event, one for each thing it may draw."""
        key = (
            (id(process), event.sender, id(event.packet))
            if type(event) is Receive
            else (id(process), type(event), _encode(event))
        )
        known = self._outcomes.get(key)
        if known is None:
            known = self._outcomes[key] = tuple(self._try_all(process, event))
            self._expect_the_same_of(process, known)
        return known

    def _try_all(self, process: Process, event: Event) -> Iterator[Reaction]:
        scripts: list[tuple[int, ...]] = [()]
        while scripts:
            dice = _Scripted(scripts.pop())
            twin = process.fork(dice)
            try:
                effects = tuple(map(self._interned_effect, answer(twin, event)))
            except ProcessFault as fault:
                fault.draws = tuple(dice.drawn)
                raise
            twin.choose = take_first
            yield Reaction(tuple(dice.drawn), self.interned(twin), effects)
            scripts += dice.others

    def _interned_effect(self, effect: Effect) -> Effect:
        return (
            Send(effect.to, self.interned_packet(effect.packet))
            if isinstance(effect, Send)
            else effect
        )

    # --- packets that make no difference

    def ignores(self, process: Process, sender: str, packet: Packet) -> bool:
        """Whether the process takes no notice of the packet; it is then held to that.

        That it does nothing now is easily seen. That it will do nothing later either is assumed
        here and checked, from now on, in every state that the process is found to reach. Where
        it is not so, the search starts again without this assumption for packets of that kind.
        """
        key = (id(process), sender, id(packet))
        known = self._is_ignored.get(key)
        if known is None:
            known = self._is_ignored[key] = self._does_nothing(process, Receive(sender, packet))
            if known:
                self._expect_ignorance(process, Receive(sender, packet))
        return known

    def _does_nothing(self, process: Process, receive: Receive) -> bool:
        try:
            (outcome, *others) = self.of(process, receive)
        except ProcessFault:
            return False
        return outcome.process is process and not outcome.effects and not others

    def _expect_ignorance(self, process: Process, receive: Receive) -> None:
        """Hold the process to it, whatever becomes of it."""
        waiting = [(process, receive)]
        while waiting:
            one, heard = waiting.pop()
            number = self.process_numbers[id(one)]
            if self._is_expected(number, heard):
                continue
            if not self._does_nothing(one, heard):
                raise NotInertError(heard.packet.kind)
            self.expectations.append(Expectation(number, heard))
            waiting += self._note_expectation(number, heard)

    def _is_expected(self, number: int, receive: Receive) -> bool:
        expected = self._ignores.get(self._signatures.lanes(number)[0], {})
        return (receive.sender, id(receive.packet)) in expected

    def _note_expectation(self, number: int, receive: Receive) -> Iterator[tuple[Process, Receive]]:
        """Write it down, under every naming of the members; who must be held to it next.

        Of states that differ in names alone only one is searched from, under whichever names.
        """
        for place, lane in enumerate(self._signatures.lanes(number)):
            sender, packet = self._signatures.under_names(place, (receive.sender, receive.packet))
            image = Receive(sender, self.interned_packet(packet))
            self._ignores.setdefault(lane, {})[sender, id(image.packet)] = image
            if (known := self._by_hash.get(lane)) is not None:
                yield from ((successor, image) for successor in self._became.get(id(known), ()))

    def learn(self, expectations: Iterable[Expectation]) -> None:
        """Hold the processes met here to what those who search elsewhere expect of them."""
        for number, expected in expectations:
            receive = Receive(expected.sender, self.interned_packet(expected.packet))
            if not self._is_expected(number, receive):
                for successor, image in list(self._note_expectation(number, receive)):
                    self._expect_ignorance(successor, image)

    def _expect_the_same_of(self, process: Process, outcomes: Outcomes) -> None:
        """What a process is held to, it is held to whatever becomes of it."""
        lane = self._signatures.lanes(self.process_numbers[id(process)])[0]
        for became in [one.process for one in outcomes if one.process is not process]:
            self._became.setdefault(id(process), []).append(became)
            for receive in list(self._ignores.get(lane, {}).values()):
                self._expect_ignorance(became, receive)

    # --- processes that cannot make themselves heard

    def is_mute(self, process: Process, arriving: list[Receive]) -> bool:
        """Whether, receiving these packets in any order, the process never sends anything."""
        key = (id(process), tuple(sorted((one.sender, id(one.packet)) for one in arriving)))
        if key not in self._mute:
            try:
                self._mute[key] = all(
                    not any(isinstance(one, Send | SetTimer | Halt) for one in outcome.effects)
                    and self.is_mute(outcome.process, arriving[:place] + arriving[place + 1 :])
                    for place, receive in enumerate(arriving)
                    for outcome in self.of(process, receive)
                )
            except ProcessFault:
                self._mute[key] = False
        return self._mute[key]

    def speaks_to_itself(self, process: Process, arriving: Iterable[Receive]) -> bool:
        """Whether one of these packets makes the process send something to itself."""
        return any(
            isinstance(effect, Send) and process.me in effect.to
            for receive in arriving
            for outcome in self.of(process, receive)
            for effect in outcome.effects
        )


class _Scripted:
    """Dice that fall as written, then on the first possible side; they note the other sides."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self.drawn: list[int] = []
        self.others: list[tuple[int, ...]] = []
        """The scripts by which they fall otherwise somewhere behind what is written."""

    def __call__(self, label: str, weights: Sequence[int]) -> int:
        if self._script:
            self.drawn.append(self._script.pop(0))
        else:
            possible = [side for side, weight in enumerate(weights) if weight > 0]
            self.others += [(*self.drawn, other) for other in possible[1:]]
            self.drawn.append(possible[0])
        return self.drawn[-1]
