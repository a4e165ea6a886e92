"""A world that can be copied, and judges itself as it goes along.

It is the simulator's World; what it means to send, to crash, to join is decided there. Here a
process's reaction is looked up instead of computed, and nothing is written down: the judge of
safety keeps what it needs to know, in bits, one for each message.

Any of a dying process's packets may be lost with it. Instead of choosing which at the crash, all
stay on their way as its *legacy*, and a packet that never arrives is one that was lost. What is
left of a legacy therefore keeps no state from being settled; and when the way to a state is told,
each crash is told with the packets that did not arrive after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple, Self

from tidings.core import Event, Members, MessageId, Receive, UsageError, take_first
from tidings.explore.reactions import Reactions, Signatures
from tidings.explore.scope import Scope
from tidings.guests.diagnosis import ProcessFault
from tidings.protocols import Factory
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Link, PacketId, Schedule, Step
from tidings.simulator.world import InFlight, World
from tidings.spec import Extra, Guarantee
from tidings.trace import Kind

Property = Guarantee | Extra


class Move(NamedTuple):
    """A choice, what was drawn then, and which of its possible outcomes each process took."""

    choice: Choice
    draws: tuple[int, ...]
    script: tuple[int, ...]
    deaths: int = 0
    """How many had crashed after it, in all lives."""
    inert: bool = False
    """Whether it makes no difference to anybody."""


Path = tuple["Path", Move] | None
"""The moves to a state, last move first; states share what their paths have in common."""


class Way(NamedTuple):
    """How to get to a state: the outcomes taken as the processes started, and all moves since."""

    opening: tuple[int, ...]
    moves: list[Move]


class _Stay(NamedTuple):
    """In a view, and what was delivered before it; or after one, and what was delivered in it."""

    view: int
    delivered: int


Arrivals = dict[str, dict[tuple[str, int, bool], PacketId]]
"""Packets by receiver, and of each under sender, content, and whether it may never arrive."""

MOST_TORN = 32
"""After how many packets, or over how many writes, one step of a process is broken off."""

_MS = 1_000_000


def _draw_nothing(label: str, weights: Sequence[int]) -> int:
    raise UsageError(f"it draws {label!r} in its constructor; to be explored, draw at its Start")


class Branch(World):
    """One state of the group, and the way to it."""

    def __init__(
        self,
        scope: Scope,
        factory: Factory,
        reactions: Reactions,
        signatures: Signatures,
        opening: tuple[int, ...] = (),
    ) -> None:
        self.scope = scope
        self.reactions = reactions
        self.signatures = signatures
        self.path: Path = None
        self.length = 0
        self.opening = self.script = opening
        """Which outcome to take where a process may react in several ways; then the first."""
        self.outcomes: tuple[int, ...] = ()
        """How many ways there were, wherever there was more than one."""
        self.broken: tuple[Property, ...] = ()
        self.everybody = scope.everybody
        self.spoken = dict.fromkeys(scope.everybody, 0)
        self.crashes = self.duplicates = self.restarts = self.rollbacks = 0
        self.early_timeouts = 0
        """How often each has been chosen."""
        self.touched: Members | None = None
        """To whom something happened by the last move that made a difference; at the start, all."""
        self.requests = scope.requests
        """What operators have yet to ask."""
        self.deaths = 0
        """All crashes, also those that nobody chose: a process may halt by itself."""
        self.legacy: dict[PacketId, int] = {}
        """Packets that were in flight when their sender died, and whose death it was."""
        self.judged = 0
        """The sum of the numbers of all that the judge knows."""
        self.delivered = dict.fromkeys(scope.everybody, 0)
        self.met = dict.fromkeys(scope.everybody, 0)
        """What each process has broadcast or delivered: the past of its next message."""
        self.addressed = dict.fromkeys(scope.everybody, 0)
        self.bits: dict[MessageId, int] = {}
        self.pasts: dict[MessageId, int] = {}
        self.digests: dict[MessageId, str] = {}
        self.lists: dict[MessageId, Members] = {}
        self.stays = dict.fromkeys(scope.everybody, _Stay(0, 0))
        """In which view each process is, and what it had delivered before."""
        self.seen: dict[int, int] = {}
        """What anybody delivered in each view."""
        self.ends: dict[int, _Stay] = {}
        """Of each view that somebody has got through: the next, and what was delivered in it."""
        self.unheard: tuple[tuple[str, MessageId, str], ...] = ()
        """Deliveries in this move of what nobody had broadcast before: who, what, its digest."""
        self.disk_numbers: dict[str, int] = {}
        untouched = {*vars(self), "schedule", "cut", "_rows", "_draws", "_indexes"}
        super().__init__("explored", scope.members, factory, weigh=lambda packet: 0)
        self._copied = tuple(
            name
            for name, value in vars(self).items()
            if isinstance(value, dict | set | list) and name not in untouched
        )
        self.opening_draws = tuple(self._draws)
        self._draws.clear()
        self._judge_move()

    def fork(self) -> Self:
        """The same state once more, free to go its own way.

        What World changes in place is copied. What is added here is never changed in place, only
        replaced, and can be shared.
        """
        twin = object.__new__(type(self))
        mine, its = self.__dict__, twin.__dict__
        its.update(mine)
        for name in self._copied:
            its[name] = mine[name].copy()
        its["_draws"] = []
        return twin

    # --- the way here

    def schedule_so_far(self, *, with_inert: bool = True) -> Schedule:
        """The way as a schedule that any World can play, one millisecond for each step."""
        made: list[tuple[Choice, tuple[int, ...]]] = []
        deaths = 0
        for move in self.way().moves:
            if move.inert and not with_inert:
                continue
            died, deaths = move.deaths > deaths, move.deaths
            lost = [one for one in self.in_flight if died and self.legacy.get(one) == deaths]
            if isinstance(move.choice, choices.Crash):
                made.append((choices.Crash(move.choice.process, tuple(lost)), move.draws))
            else:
                made += [(move.choice, move.draws), *((choices.Drop(one), ()) for one in lost)]
        return [
            Step(number * _MS, choice, draws if number > 1 else self.opening_draws + draws)
            for number, (choice, draws) in enumerate(made, start=1)
        ]

    def way(self) -> Way:
        moves: list[Move] = []
        path = self.path
        while path is not None:
            path, move = path
            moves.append(move)
        return Way(self.opening, moves[::-1])

    def retrace(self, moves: Sequence[Move]) -> None:
        """Go a way that somebody else has found."""
        for move in moves:
            self.script, self.outcomes = move.script, ()
            self.go(move.choice, inert=move.inert)
        self.script = self.outcomes = ()

    def go(self, choice: Choice, *, inert: bool = False) -> None:
        """Make the choice happen, and remember it."""
        is_early = isinstance(choice, choices.TimerExpiry) and not self.is_quiet()
        self._make(choice)
        if not inert:
            self.touched = self.touched_by(choice)
        match choice:
            case choices.PacketArrival():
                pass
            case choices.TimerExpiry():
                self.early_timeouts += is_early and self.scope.early_timeouts is not None
            case choices.ChangeRequest():
                self.requests = tuple(one for one in self.requests if one != choice)
            case choices.UserBroadcast(process):
                self.spoken = self.spoken | {process: self.spoken[process] + 1}
                self.judged += self.signatures.of_fact("spoken", process)
            case choices.Crash():
                self.crashes += 1
            case choices.Duplicate():
                self.duplicates += 1
            case choices.Recover():
                self.restarts += 1
                self.rollbacks += choice.disk_old
        self.path = (self.path, Move(choice, tuple(self._draws), self.script, self.deaths, inert))
        self.length += 1
        self._draws.clear()
        self._judge_move()

    def touched_by(self, choice: Choice) -> Members:
        """To whom something happens by the choice."""
        match choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet):
                return (packet.link.receiver,)
            case choices.ChangeRequest(process, add):
                return (process, *((add,) if add else ()))
            case choices.UserBroadcast(process) | choices.TimerExpiry(process):
                return (process,)
            case choices.Join(process):
                return (process,)
            case choices.Recover():
                return self.up  # their links to it come up
        return ()

    def after(self, choice: Choice) -> "Iterator[Branch]":
        """The states to which the choice may lead: one, unless a process draws."""
        scripts: list[tuple[int, ...]] = [()]
        while scripts:
            twin = self.fork()
            twin.script = scripts.pop()
            try:
                twin.go(choice)
            except ProcessFault as fault:
                fatal = Step((self.length + 1) * _MS, choice, fault.draws)
                fault.schedule = [*self.schedule_so_far(), fatal]
                raise
            scripts += twin.other_ways()
            yield twin

    def torn(self, choice: Choice, process: str) -> "Iterator[Branch]":
        """The choice made, but the process dies in the middle of what it makes it do.

        Over the first thing it writes, or the second: that does not reach the disk any more. Or
        after its first packet, or the second. What it did before stands.
        """
        for sends, writes in ((0, 1), (1, 0)):
            for number in range(1, MOST_TORN + 1):
                doomed = self.fork()
                doomed.go(choices.Doom(process, sends * number, writes * number))
                ends = [end for end in doomed.after(choice) if process in end.crashed]
                if not ends:
                    break
                for end in ends:
                    end.crashes += 1
                yield from ends

    def other_ways(self) -> list[tuple[int, ...]]:
        """Where processes could have reacted otherwise, the scripts by which they would."""
        script, outcomes = self.script, self.outcomes
        self.script = self.outcomes = ()
        return [
            (*script, *(0,) * (position - len(script)), other)
            for position in range(len(script), len(outcomes))
            for other in range(1, outcomes[position])
        ]

    # --- what may happen

    def budget_left(self) -> bool:
        """Whether anything but arrivals and timers may still happen."""
        scope = self.scope
        return bool(
            sum(self.spoken.values()) < scope.broadcasts
            or self.crashes < scope.crashes
            or self.restarts < min(scope.restarts, self.crashes)
            or self.duplicates < scope.duplicates
            or len(self.processes) < scope.processes + scope.joiners
            or self.requests
        )

    def may_time_out_early(self) -> bool:
        """Whether a timer may run out before all that is under way has arrived."""
        most = self.scope.early_timeouts
        return bool(self.timers) and (most is None or self.early_timeouts < most)

    def arrivals(self) -> Arrivals:
        """Of each process the packets that may arrive; of equal ones the first."""
        arriving: Arrivals = {}
        any_order = not self.scope.in_order
        for packet, found in self.in_flight.items():
            content = id(found.content) if any_order else 0
            key = (packet.link.sender, content, packet in self.legacy)
            arriving.setdefault(packet.link.receiver, {}).setdefault(key, packet)
        return arriving

    def news(self) -> Iterator[Choice]:
        """Everything but arrivals: timers, users, newcomers, and those who crash or come back."""
        if self.may_time_out_early() or self.is_quiet():
            yield from starmap(choices.TimerExpiry, self.timers)
        inside = tuple(filter(self.is_inside, self.up))
        if sum(self.spoken.values()) < self.scope.broadcasts:
            for process in inside:
                yield choices.UserBroadcast(process, self.scope.text(self.spoken[process]))
        if len(self.processes) < self.scope.processes + self.scope.joiners:
            newcomer = self.everybody[len(self.processes)]
            yield from (choices.Join(newcomer, contact) for contact in inside)
        yield from (request for request in self.requests if request.process in inside)
        if self.crashes < self.scope.crashes:
            yield from map(choices.Crash, self.up)
        if self.restarts < self.scope.restarts:
            for process in self.everybody:
                if process in self.crashed and process not in self.gone:
                    yield choices.Recover(process)
                    if self.rollbacks < self.scope.rollbacks:
                        yield choices.Recover(process, disk_old=True)

    def must_arrive(self, packet: PacketId) -> bool:
        return packet not in self.legacy

    def is_quiet(self) -> bool:
        """Nothing is on its way that must arrive."""
        return all(packet in self.legacy for packet in self.in_flight)

    def received(self, packet: PacketId) -> Receive:
        return Receive(packet.link.sender, self.in_flight[packet].content)

    # --- one state, one number

    def total(self) -> int:
        """The sum of the numbers of everything that decides what may still happen."""
        reactions, fact = self.reactions, self.signatures.of_fact
        total = self.judged
        crashed, numbers = self.crashed, reactions.process_numbers
        for name, process in self.processes.items():
            total += fact("crashed", name) if name in crashed else numbers[id(process)]
        packet_numbers = reactions.packet_numbers
        places: dict[Link, int] = {}
        for (link, _), (content, _) in self.in_flight.items():
            if self.scope.in_order:
                places[link] = places.get(link, 0) + 1
            place = places.get(link, 0)
            known = packet_numbers.get((link, id(content), place))
            total += known or reactions.number_of_packet(link, content, place)
        for timer in self.timers:
            total += fact("timer", *timer)
        for name in self.gone:
            total += fact("gone", name)
        if self.requests:
            total += fact("yet to ask", *self.requests)
        if self.early_timeouts:
            total += fact("early timeouts", self.early_timeouts)
        if self.duplicates:
            total += fact("duplicates", self.duplicates)
        if self.restarts:
            total += fact("restarts", self.crashes, self.restarts)
            for packet in self.legacy.keys() & self.in_flight.keys():
                content = self.in_flight[packet].content
                total += self.signatures.of_value(["legacy", packet.link, content])
        if self.rollbacks:
            total += fact("rollbacks", self.rollbacks)
        total += sum(self.disk_numbers.values())
        if self.scope.max_packets is not None:
            total += fact("packets", self.packets_sent)
        return total

    def fingerprint(self) -> bytes:
        return self.total().to_bytes(16 * 96, "little").rstrip(b"\0")

    # --- reactions are looked up

    def _make_process(self, process: str, members: Members) -> None:
        made = self.factory(process, members, _draw_nothing)
        made.choose = take_first
        self.processes[process] = self.reactions.interned(made)

    def _answer(self, process: str, event: Event) -> Any:
        outcomes = self.reactions.of(self.processes[process], event)
        chosen = 0
        if len(outcomes) > 1:
            position = len(self.outcomes)
            self.outcomes += (len(outcomes),)
            chosen = self.script[position] if position < len(self.script) else 0
        draws, self.processes[process], effects = outcomes[chosen]
        if draws:
            self._draws += draws
        return effects

    def _crash(self, process: str, lost: Sequence[PacketId]) -> None:
        super()._crash(process, lost)
        self.deaths += 1
        left = {one: self.deaths for one in self.in_flight if one.link.sender == process}
        self.legacy = left | self.legacy

    def _write(self, process: str, records: tuple[Any, ...]) -> None:
        """A disk matters to one who may come back; the fewer words on it, the fewer states."""
        if self.scope.restarts:
            written = (*self.disks.get(process, ()), *records)
            self._put_back(process, self.processes[process].compacted(written))

    def _put_back(self, process: str, records: Sequence[Any]) -> None:
        self.disks[process] = tuple(records)
        number = self.signatures.of_value(["disk", process, list(records)])
        self.disk_numbers = self.disk_numbers | {process: number}

    # --- the judge of safety: spec.guarantees, one event at a time

    def _note(
        self,
        process: str,
        kind: Kind,
        origin: Any = None,
        seq: Any = None,
        **columns: Any,
    ) -> None:
        if kind == "deliver":
            self._judge_delivery(process, MessageId(origin, seq), columns["digest"])
        elif kind == "broadcast":
            self._judge_broadcast(process, MessageId(origin, seq), columns)
        elif kind in ("view", "join") and self.scope.changes:
            self._judge_view(process, kind, columns["view"], columns["vector"])
        elif kind == "rebind":
            self._rebind(MessageId(origin, seq), columns["view"])

    def _note_packet(
        self, process: str, kind: Kind, peer: str, number: int, packet: InFlight
    ) -> None:
        pass

    def _judge_move(self) -> None:
        """What can be said only when a process has done all that it does at once."""
        unheard, self.unheard = self.unheard, ()
        for process, message, digest in unheard:
            if message in self.digests:
                self._judge_delivery(process, message, digest)
            else:
                self.broken += (Guarantee.NO_CREATION,)
        most = self.scope.max_packets
        if most is not None and self.packets_sent > most:
            self.broken += (Extra.COST,)

    def _judge_delivery(self, process: str, message: MessageId, digest: str) -> None:
        bit, delivered = self.bits.get(message, 0), self.delivered[process]
        if message not in self.digests:
            self.unheard += ((process, message, digest),)
        elif self.digests[message] != digest:
            self.broken += (Guarantee.NO_CREATION,)
        elif delivered & bit:
            self.broken += (Guarantee.NO_DUPLICATION,)
        else:
            if self.pasts[message] & self.addressed[process] & ~delivered:
                self.broken += (Guarantee.CAUSAL_ORDER,)
            self.delivered = self.delivered | {process: delivered | bit}
            self.met = self.met | {process: self.met[process] | bit}
            self.judged += self.signatures.of_fact("delivered", process, message)
            if self.scope.changes:
                self._judge_delivery_in_view(process, message, bit)

    def _judge_delivery_in_view(self, process: str, message: MessageId, bit: int) -> None:
        view = self.stays[process].view
        self.seen = self.seen | {view: self.seen.get(view, 0) | bit}
        if view in self.ends and not self.ends[view].delivered & bit:
            self.broken += (Extra.VIEWS,)
        self.judged += self.signatures.of_fact("in view", process, message, self._name_of(view))

    def _judge_view(self, process: str, kind: Kind, number: int, cut: Mapping[str, int]) -> None:
        """Who goes on from a view has delivered there what anybody has.

        It follows from what ``spec.views`` says, which also knows the cut, and is asked in the end.
        """
        (view, before), delivered = self.stays[process], self.delivered[process]
        if kind == "view":
            end = _Stay(number, delivered & ~before)
            if self.ends.get(view, end) != end or self.seen.get(view, 0) & ~end.delivered:
                self.broken += (Extra.VIEWS,)
            self.ends = {view: end} | self.ends
        self.stays = self.stays | {process: _Stay(number, delivered)}
        installed = (self._name_of(number), frozenset(cut.items()))
        self.judged += self.signatures.of_fact("installed", process, installed)

    def _address(self, message: MessageId, view: Members) -> None:
        bit = self.bits[message]
        self.lists = self.lists | {message: view}
        self.addressed = {
            member: mask | bit if member in view else mask & ~bit
            for member, mask in self.addressed.items()
        }

    def _rebind(self, message: MessageId, position: int) -> None:
        self._address(message, self.views[position])
        self.judged += self.signatures.of_fact("rebound", message, self._name_of(position))

    def view_of(self, process: str) -> tuple[int, Members]:
        """The number and the members of the view in which the process is."""
        return self._name_of(self.stays[process].view)

    def _name_of(self, position: int) -> tuple[int, Members]:
        """The view at this position of the table, whichever came first into it."""
        return next(name for name, place in self._views.items() if place == position)

    def _judge_broadcast(self, process: str, message: MessageId, columns: Any) -> None:
        if message in self.digests:
            self.broken += (Guarantee.NO_CREATION,)
            return
        digest, view = columns["digest"], self.views[columns["view"]]
        bit, past = 1 << len(self.bits), self.met[process]
        causes = frozenset(cause for cause, its_bit in self.bits.items() if its_bit & past)
        is_short = any(not set(self.lists[cause]) <= set(view) for cause in causes)
        if is_short and not self.scope.changes:
            self.broken += (Extra.REACH,)
        self.bits = self.bits | {message: bit}
        self.digests = self.digests | {message: digest}
        self.pasts = self.pasts | {message: past}
        self.met = self.met | {process: past | bit}
        self._address(message, view)
        self.judged += self.signatures.of_fact(
            "broadcast", message, digest, causes, frozenset(view)
        )
