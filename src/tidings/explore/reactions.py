"""What each process does in each of its states: computed once, remembered, shared.

A group passes through millions of states, its processes through a few thousand. So the search
works on *interned* processes: two that are equal are one object, nobody changes it, and what it
does on an event is looked up.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

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
from tidings.core.state import fingerprint
from tidings.explore.signatures import Signatures
from tidings.guests.diagnosis import ProcessFault, answer
from tidings.simulator.choices import Link

_encode = msgspec.msgpack.Encoder().encode


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
        self.packet_numbers: dict[tuple[Link, int], int] = {}
        """Under a link and the identity of an interned packet."""
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

    def number_of_packet(self, link: Link, packet: Packet) -> int:
        number = self._signatures.of_value(["packet", link, packet])
        self.packet_numbers[link, id(packet)] = number
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
            script = scripts.pop()
            dice = _Scripted(script)
            twin = process.fork(dice)
            try:
                effects = tuple(map(self._interned_effect, answer(twin, event)))
            except ProcessFault as fault:
                fault.draws = tuple(dice.drawn)
                raise
            twin.choose = take_first
            yield Reaction(tuple(dice.drawn), self.interned(twin), effects)
            for position in range(len(script), len(dice.drawn)):
                for other in dice.others[position]:
                    scripts.append((*dice.drawn[:position], other))

    def _interned_effect(self, effect: Effect) -> Effect:
        if isinstance(effect, Send):
            return Send(effect.to, self.interned_packet(effect.packet))
        return effect

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
            receive = Receive(sender, packet)
            known = self._is_ignored[key] = self._does_nothing(process, receive)
            if known:
                self._expect_ignorance(process, receive)
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
                for successor in self._became.get(id(known), ()):
                    yield successor, image

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
        for outcome in outcomes:
            if outcome.process is process:
                continue
            self._became.setdefault(id(process), []).append(outcome.process)
            for receive in list(self._ignores.get(lane, {}).values()):
                self._expect_ignorance(outcome.process, receive)

    # --- processes that cannot make themselves heard

    def is_mute(self, process: Process, arriving: Sequence[Receive]) -> bool:
        """Whether, receiving these packets in any order, the process never sends anything."""
        key = (id(process), tuple(sorted((one.sender, id(one.packet)) for one in arriving)))
        known = self._mute.get(key)
        if known is None:
            known = self._mute[key] = self._find_out_if_mute(process, arriving)
        return known

    def _find_out_if_mute(self, process: Process, arriving: Sequence[Receive]) -> bool:
        try:
            return all(
                self._says_nothing(outcome)
                and self.is_mute(outcome.process, [*arriving[:position], *arriving[position + 1 :]])
                for position, receive in enumerate(arriving)
                for outcome in self.of(process, receive)
            )
        except ProcessFault:
            return False

    @staticmethod
    def _says_nothing(outcome: Reaction) -> bool:
        return not any(isinstance(effect, Send | SetTimer | Halt) for effect in outcome.effects)

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
        self._script = script
        self.drawn: list[int] = []
        self.others: list[list[int]] = []

    def __call__(self, label: str, weights: Sequence[int]) -> int:
        possible = [position for position, weight in enumerate(weights) if weight > 0]
        position = len(self.drawn)
        drawn = self._script[position] if position < len(self._script) else possible[0]
        self.drawn.append(drawn)
        self.others.append([other for other in possible if other != drawn])
        return drawn
