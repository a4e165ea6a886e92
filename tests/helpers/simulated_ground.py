"""A group in the simulator, with a clock: the seed decides every delay and every loss.

Links are connections, as the node's transport makes them: while one is up it loses nothing and
keeps the order; what was on the way when it broke is gone, and both ends are told. So processes
are told that their links lose nothing, unless there is weather.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ground import CALM, Group, Weather
from tidings.core import Effect, Event, Members, Process, Start
from tidings.guests.diagnosis import trusted
from tidings.protocols.frontier import Frontier
from tidings.simulator import World, choices, recorded, until_quiet
from tidings.simulator.choices import Choice, Link, PacketId
from tidings.trace import Row, Run

_MS = 1_000_000
CALL_AGAIN_MS = 50.0
SILENCE_MS = 300.0
"""A link on which nothing was heard for so long is given up by both ends."""
DEADLINE_MS = 10_000.0


def over_connections(kind: type[Frontier]) -> type[Process]:
    @trusted
    class OverConnections(kind):  # type: ignore[misc, valid-type]
        def step(self, event: Event) -> list[Effect]:
            if isinstance(event, Start):
                event = msgspec.structs.replace(event, lossy=False)
            return super().step(event)

    return OverConnections


class Simulated(Group):
    def __init__(
        self,
        size: int,
        weather: Weather = CALM,
        *,
        seed: int = 1,
        process: type[Frontier] = Frontier,
    ) -> None:
        self.members = tuple(f"p{number}" for number in range(1, size + 1))
        self.weather = weather
        self._dice = random.Random(seed)
        self._delay_ms = (1.0, 5.0)
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = itertools.count()
        self._now_ns = 0
        self._due: dict[tuple[str, str], int] = {}
        self._last_arrival: dict[Link, int] = {}
        self._rows: list[Row] = []
        self._delivered: Counter[str] = Counter()
        self._lives: Counter[str] = Counter()
        self._texts = itertools.count(1)
        self._rate = 0.0
        self._stopped: set[str] = set()
        self._held_up: list[Callable[[], None]] = []
        """What would have happened at a stopped process or behind a cut, in its order."""
        self._blocked: set[Link] = set()
        self._swallowed: set[Link] = set()
        self._breaking: set[Link] = set()
        self._world = World(
            run="acceptance",
            members=self.members,
            factory=over_connections(process) if weather == CALM else process,
            links="lossy",
            draw=lambda process, label, weights: self._draw(weights),
            on_timer=self._note_timer,
        )

    def __exit__(self, *fault: object) -> None:
        pass

    # --- speaking

    def say(self, member: str, count: int = 1, size: int = 10) -> None:
        """What is refused is said again soon, as a node does: it may have restarted just now."""
        for _ in range(count):
            self._say(member, b"%0*d" % (size, next(self._texts)))

    def _say(self, member: str, text: bytes) -> None:
        rows = self._apply(choices.UserBroadcast(member, text))
        if not any(row.kind == "broadcast" for row in rows):
            self._in(1.0, partial(self._say_again, member, text, self._lives[member]))

    def _say_again(self, member: str, text: bytes, life: int) -> None:
        """Unless it has died meanwhile: then nobody was told that it would be said."""
        if self.is_up(member) and self._lives[member] == life:
            self._say(member, text)

    def talk(self, rate: float) -> None:
        self._rate = rate
        for member in self.members:
            self._in(self._dice.random() * 1e3 / rate, partial(self._speak, member))

    def _speak(self, member: str) -> None:
        if self._rate:
            if self.is_up(member) and member not in self._stopped:
                self.say(member)
            self._in(1e3 / self._rate, partial(self._speak, member))

    def hush(self) -> None:
        self._rate = 0.0

    # --- waiting

    def until(self, is_so: Callable[[], bool]) -> None:
        end_ns = self._now_ns + DEADLINE_MS * _MS
        while not is_so():
            assert self._agenda, "nothing more happens"
            assert self._now_ns < end_ns, "it is not so after all this time"
            self._now_ns, _, act = heapq.heappop(self._agenda)
            act()

    def delivered(self, member: str) -> int:
        return self._delivered[member]

    # --- links

    def slow(self, delay_ms: float, jitter_ms: float = 0.0) -> None:
        self._delay_ms = (delay_ms, delay_ms + jitter_ms)

    def break_off(self, sender: str, receiver: str) -> None:
        """The next packet is lost, with whatever else is on the way, in both directions."""
        self._breaking.add(Link(sender, receiver))

    def half_open(self, sender: str, receiver: str) -> None:
        """What the receiver says is lost in silence, until it misses signs of life."""
        self._apply(choices.Cut((Link(sender, receiver),)))
        self._swallowed.add(Link(receiver, sender))
        self._in(SILENCE_MS, partial(self._close_the_other_half, Link(receiver, sender)))

    def _close_the_other_half(self, link: Link) -> None:
        self._swallowed.discard(link)
        self._apply(choices.Cut((link,)))
        self._in(CALL_AGAIN_MS, self.heal)

    def cut(self, sender: str, receiver: str) -> None:
        self._block([Link(sender, receiver)])

    def part(self, one: Members, other: Members) -> None:
        self._block([Link(*pair) for a in one for b in other for pair in ((a, b), (b, a))])

    def _block(self, links: Sequence[Link]) -> None:
        """What is said waits, as TCP would send it again, until somebody misses signs of life."""
        self._blocked.update(links)
        self._in(SILENCE_MS, partial(self._give_up, links))

    def _give_up(self, links: Sequence[Link]) -> None:
        if self._blocked.issuperset(links):
            both_ways = dict.fromkeys(one for link in links for one in (link, Link(*link[::-1])))
            self._apply(choices.Cut(tuple(both_ways)))

    def heal(self) -> None:
        self._blocked.clear()
        self._let_go()
        if self._world.cut:
            self._apply(choices.Heal())

    def _let_go(self) -> None:
        held_up, self._held_up = self._held_up, []
        for act in held_up:
            self._in(0, act)

    def is_linked(self, one: str, other: str) -> bool:
        process = self._world.processes[one]
        assert isinstance(process, Frontier)
        return other not in process.peers.down

    # --- processes

    def kill(self, *members: str) -> None:
        for member in members:
            if self._rate:
                self._apply(choices.Doom(member, self._dice.randint(1, len(self.members) - 2)))
                self.say(member)
            if self.is_up(member):
                sent = [one for one in self._world.in_flight if one.link.sender == member]
                lost = [packet for packet in sent if self._dice.random() < 0.5]
                self._apply(choices.Crash(member, tuple(lost)))
            assert not self.is_up(member)

    def restart(self, *members: str) -> None:
        for member in members:
            self._lives[member] += 1
            self._apply(choices.Recover(member))

    def restart_without_disk(self, member: str) -> None:
        self._apply(choices.Recover(member, disk_lost=True))

    def is_up(self, member: str) -> bool:
        return member in self._world.up

    def stop(self, *members: str) -> None:
        self._stopped.update(members)

    def resume(self, *members: str) -> None:
        self._stopped.difference_update(members)
        self._let_go()

    # --- the end

    def trace(self) -> Run:
        self.weather = CALM
        for choice in until_quiet(self._world):
            self._apply(choice)
        self._apply(choices.Settle())
        return recorded(self._world, self._rows, protocol="frontier")

    # --- the clock

    def _in(self, delay_ms: float, act: Callable[[], None]) -> None:
        self._at(self._now_ns + round(delay_ms * _MS), act)

    def _at(self, time_ns: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time_ns, next(self._tickets), act))

    def _draw(self, weights: Sequence[int]) -> int:
        return self._dice.choices(range(len(weights)), weights)[0]

    def _note_timer(self, process: str, name: str, delay_ms: float) -> None:
        due_ns = self._due[process, name] = self._now_ns + round(delay_ms * _MS)
        self._at(due_ns, partial(self._time_out, process, name, due_ns))

    def _time_out(self, process: str, name: str, due_ns: int) -> None:
        if (process, name) not in self._world.timers or self._due[process, name] != due_ns:
            return  # cancelled, or set again
        if process in self._stopped:
            self._held_up.append(partial(self._time_out, process, name, due_ns))
        else:
            self._apply(choices.TimerExpiry(process, name))

    def _apply(self, choice: Choice) -> list[Row]:
        rows = self._world.apply(choice, self._now_ns)
        self._rows += rows
        for row in rows:
            if row.kind == "send":
                assert isinstance(row.peer, str)
                assert isinstance(row.packet, int)
                self._send(PacketId(Link(row.process, row.peer), row.packet))
            self._delivered[row.process] += row.kind == "deliver"
        return rows

    # --- packets

    def _send(self, packet: PacketId) -> None:
        link = packet.link
        if link in self._breaking:
            self._breaking.discard(link)
            self._apply(choices.Cut((link, Link(*link[::-1]))))
            self._in(CALL_AGAIN_MS, self.heal)
        if self._dice.random() < self.weather.lost:
            self._in(0, partial(self._arrive, choices.Drop, packet))
            return
        if self._dice.random() < self.weather.duplicated:
            self._at(self._arrival_ns(), partial(self._arrive, choices.Duplicate, packet))
        arrival_ns = self._arrival_ns()
        if self._dice.random() >= self.weather.reordered:
            arrival_ns = max(arrival_ns, self._last_arrival.get(link, 0))
            self._last_arrival[link] = arrival_ns
        self._at(arrival_ns, partial(self._arrive, choices.PacketArrival, packet))

    def _arrival_ns(self) -> int:
        return self._now_ns + round(self._dice.uniform(*self._delay_ms) * _MS)

    def _arrive(
        self,
        how: type[choices.PacketArrival | choices.Duplicate | choices.Drop],
        packet: PacketId,
    ) -> None:
        if packet not in self._world.in_flight:
            return  # lost with its connection
        if packet.link in self._blocked or packet.link.receiver in self._stopped:
            self._held_up.append(partial(self._arrive, how, packet))
        elif packet.link in self._swallowed:
            self._apply(choices.Drop(packet))
        else:
            self._apply(how(packet))
