"""A schedule read loosely, and played: each move is made if it is possible, and passed over if not.

In a schedule a packet is named by its link and its number, and numbers shift as soon as anything
before is left out. In a sketch a packet is the one that a certain move sent, or else the oldest
that looks like it; timers likewise. So a sketch still means something when parts of it are gone.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidings.core import Members, MessageId, ordered
from tidings.protocols import Factory
from tidings.simulator import World, choices, until_quiet
from tidings.simulator.choices import Choice, Link, PacketId, Schedule
from tidings.simulator.play import fate_of
from tidings.simulator.world import Links, draw_first
from tidings.trace import SCHEMA_VERSION, Manifest, Row, Run

MS = 1_000_000

FAULTS = (
    choices.Crash,
    choices.Doom,
    choices.Recover,
    choices.Join,
    choices.ChangeRequest,
    choices.Cut,
    choices.Duplicate,
    choices.Drop,
)
"""What need not happen: faults, and newcomers."""


# --- the sketch


class SketchedPacket(NamedTuple):
    """A packet by where it comes from, and by what it looks like."""

    move: int
    link: Link
    position: int
    """Which one it is of those that the move sent on this link."""
    kind: str
    about: int | None
    """The move that broadcast the message of which it speaks."""


class Alarm(NamedTuple):
    """A timer by where it comes from."""

    move: int
    process: str
    position: int


class SketchedChoice(NamedTuple):
    """A choice of a sketch; ``id`` stays the same, whatever is left out around it."""

    id: int
    choice: Choice
    draws: tuple[int, ...] = ()
    parcels: tuple[SketchedPacket, ...] | None = None
    """What arrives or is dropped, or what a crash loses; None: as the choice says."""
    kept: tuple[SketchedPacket, ...] = ()
    """What a crash does not lose."""
    loses_others: bool = False
    """Whether a crash loses what is in neither list."""
    alarm: Alarm | None = None
    messages: tuple[int, ...] = ()
    """The moves that broadcast what a user takes to heart."""

    @property
    def actor(self) -> str:
        """To whom it happens, or nobody."""
        match self.choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                return packet.link.receiver
            case choices.Cut() | choices.Heal() | choices.Sample() | choices.Settle():
                return ""
            case _:
                return self.choice.process

    def concerns(self, process: str) -> bool:
        """Whether it has no meaning without the process."""
        match self.choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                return process in packet.link
        return self.actor == process


class Sketch(NamedTuple):
    members: Members
    moves: tuple[SketchedChoice, ...]

    def without(self, moves: Collection[int]) -> "Sketch":
        return Sketch(self.members, tuple(move for move in self.moves if move.id not in moves))

    def among(self, processes: Collection[str]) -> "Sketch":
        """Only what concerns nobody but these processes."""
        joined = {move.actor for move in self.moves if isinstance(move.choice, choices.Join)}
        gone = {*self.members, *joined}.difference(processes)
        return Sketch(
            tuple(member for member in self.members if member not in gone),
            tuple(move for move in self.moves if not any(map(move.concerns, gone))),
        )

    def with_moves(self, *moves: SketchedChoice) -> "Sketch":
        return Sketch(self.members, moves)

    def renamed(self, names: Mapping[str, str]) -> "Sketch":
        """The same under other names; two names may become one."""
        return Sketch(
            ordered(names[member] for member in self.members),
            tuple(_renamed(move, names) for move in self.moves),
        )


def sketch_of(members: Members, schedule: Schedule) -> Sketch:
    """A schedule as it stands; but a settling follows from itself, and is left out."""
    return Sketch(
        members,
        tuple(
            SketchedChoice(number, step.choice, step.draws)
            for number, step in enumerate(schedule, start=1)
            if not isinstance(step.choice, choices.Settle)
        ),
    )


def _renamed(move: SketchedChoice, names: Mapping[str, str]) -> SketchedChoice:
    def link(one: Link) -> Link:
        return Link(names[one.sender], names[one.receiver])

    def parcels(some: tuple[SketchedPacket, ...]) -> tuple[SketchedPacket, ...]:
        return tuple(parcel._replace(link=link(parcel.link)) for parcel in some)

    choice = move.choice
    match choice:
        case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
            choice = type(choice)(packet._replace(link=link(packet.link)))
        case choices.Crash(process):
            choice = choices.Crash(names[process])
        case choices.Join(process, contact):
            choice = choices.Join(names[process], names[contact])
        case choices.ChangeRequest(process, add, remove):
            there = names.get(remove, remove)
            choice = choices.ChangeRequest(names[process], names.get(add, add), there)
        case choices.Cut(links):
            apart = map(link, links)
            choice = choices.Cut(tuple(one for one in apart if one.sender != one.receiver))
        case choices.Heal() | choices.Sample() | choices.Settle():
            pass
        case _:
            choice = msgspec.structs.replace(choice, process=names[choice.process])
    return move._replace(
        choice=choice,
        parcels=parcels(move.parcels or ()),
        kept=parcels(move.kept),
        alarm=move.alarm and move.alarm._replace(process=names[move.alarm.process]),
    )


# --- playing it


class Stage(NamedTuple):
    """What all plays of one shrinking have in common."""

    factory: Factory
    links: Links
    settles: bool
    """Whether a play goes on, fairly, until nothing more happens."""
    most_steps: int


class Size(NamedTuple):
    """How large a run is; what counts most stands first."""

    processes: int
    broadcasts: int
    faults: int
    steps: int
    moves: int
    """Steps that would not happen by themselves in the end."""


class Play:
    """A sketch, played: the run that came of it, and the sketch in the terms of this run."""

    def __init__(self, sketch: Sketch, stage: Stage) -> None:
        self.rows: list[Row] = []
        self.moves: list[SketchedChoice] = []
        self.came_to_rest = True
        self.struck: dict[int, SketchedChoice] = {}
        """After which move a doomed process crashed, and that crash as a move of its own."""
        self._here = 0
        """The move that is being made; 0 for what the processes do when they start."""
        self._draws: list[int] = []
        self._parcels: dict[PacketId, SketchedPacket] = {}
        self._sent: dict[tuple[int, Link, int], PacketId] = {}
        self._alarms: dict[tuple[str, str], Alarm] = {}
        self._timers: dict[Alarm, str] = {}
        self._so_far: Counter[Link | str] = Counter()
        """How many packets the move has sent on a link, and how many timers set at a process."""
        self._spoken: dict[MessageId, int] = {}
        self._ids: dict[int, MessageId] = {}
        self._delivered: set[tuple[str, MessageId]] = set()
        self._ends: list[int] = []
        """After each step, how many rows there were."""
        self.world = World(
            "shrunk",
            sketch.members,
            stage.factory,
            links=stage.links,
            draw=self._draw,
            on_timer=self._note_timer,
            weigh=lambda packet: 0,  # nobody asks how many bytes the packets of an attempt have
        )
        for move in sketch.moves:
            choice = self._read(move)
            if choice is not None:
                self.moves.append(self._in_terms_of_this_run(move, choice))
                self._make(move.id, choice, move.draws)
        if stage.settles:
            self._settle(stage.most_steps)

    @property
    def sketch(self) -> Sketch:
        return Sketch(self.world.views[0], tuple(self.moves))

    @property
    def size(self) -> Size:
        made = [step.choice for step in self.world.schedule]
        return Size(
            processes=len(self.world.processes),
            broadcasts=sum(isinstance(choice, choices.UserBroadcast) for choice in made),
            # A doomed process is two faults, so that a plain crash is the smaller one.
            faults=sum(isinstance(one, FAULTS) + isinstance(one, choices.Doom) for one in made),
            steps=len(made),
            moves=len(self.moves),
        )

    @property
    def run(self) -> Run:
        """As much of a run as a judge looks at."""
        world = self.world
        histories: dict[str, list[Row]] = {}
        for row in self.rows:
            histories.setdefault(row.process, []).append(row)
        manifest = Manifest(
            schema=SCHEMA_VERSION,
            run=world.run,
            names=tuple(world.processes),
            views=tuple(world.views),
            fates={name: fate_of(name, world) for name in world.processes},
        )
        return Run(manifest, histories)

    def step_of(self, row: int) -> int:
        """The number of the step, counted from 1, in which a row was written."""
        return next(step for step, end in enumerate(self._ends, start=1) if end > row)

    # --- making choices

    def _make(self, move: int, choice: Choice, draws: Sequence[int]) -> None:
        self._here = move
        self._draws = list(draws)
        self._so_far.clear()
        rows = self.world.apply(choice, self.world.now_ns + MS)
        for row in rows:
            if row.kind == "broadcast":
                self._spoken[row.message] = move
                self._ids[move] = row.message
            elif row.kind == "deliver":
                self._delivered.add((row.process, row.message))
            elif row.kind == "send":
                self._note_parcel(row)
            elif row.kind == "crash" and not isinstance(choice, choices.Crash):
                self._note_stroke(row.process)
        self.rows += rows
        self._ends.append(len(self.rows))

    def _settle(self, most_steps: int) -> None:
        by_itself = -1
        if self.world.cut:
            self._make(by_itself, choices.Heal(), ())
        for choice in until_quiet(self.world):
            if len(self._ends) >= most_steps:
                self.came_to_rest = False
                return
            self._make(by_itself, choice, ())
        self._make(by_itself, choices.Settle(), ())

    def _draw(self, process: str, label: str, weights: Sequence[int]) -> int:
        if self._draws:
            drawn = self._draws.pop(0)
            if drawn < len(weights) and weights[drawn] > 0:
                return drawn
        return draw_first(process, label, weights)

    # --- from the sketch to this run

    def _read(self, move: SketchedChoice) -> Choice | None:
        """The choice that the move means here, or None if it is not possible."""
        world = self.world
        match move.choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                found = packet if move.parcels is None else self._packet(*move.parcels)
                if found is None or found not in world.in_flight or found.link in world.cut:
                    return None
                return type(move.choice)(found)
            case choices.TimerExpiry(process, name):
                name = self._timers.get(move.alarm, name) if move.alarm else name
                is_set = (process, name) in world.timers
                return choices.TimerExpiry(process, name) if is_set else None
            case choices.Crash(process):
                return self._read_crash(move, process) if process in world.up else None
            case choices.Recover(process):
                return move.choice if process in world.crashed else None
            case choices.Backup(process):
                return move.choice if process in world.processes else None
            case choices.UserProcessed(process, upto):
                return self._read_processed(move, process, upto) if process in world.up else None
            case choices.Join(process, contact):
                if process in world.processes or not world.up:
                    return None
                return choices.Join(process, contact if contact in world.up else world.up[0])
            case choices.ChangeRequest(process):
                return move.choice if process in world.up else None
            case choices.Cut(links):
                there = [link for link in links if set(link) <= world.processes.keys()]
                return choices.Cut(tuple(there)) if there else None
            case choices.Heal():
                return move.choice if world.cut else None
            case choices.Sample() | choices.Settle():
                return move.choice
            case choices.UserBroadcast(process) | choices.Doom(process):
                return move.choice if process in world.up else None

    def _packet(self, parcel: SketchedPacket) -> PacketId | None:
        """The very packet, or the oldest that looks like it."""
        found = self._sent.get(parcel[:3])
        if found is not None and found in self.world.in_flight:
            return found
        on_link = (packet for packet in self.world.in_flight if packet.link == parcel.link)
        return next((one for one in on_link if self._parcels[one][3:] == parcel[3:]), None)

    def _read_crash(self, move: SketchedChoice, process: str) -> Choice:
        if move.parcels is None:
            return move.choice
        lost = {self._packet(parcel) for parcel in move.parcels}
        kept = {self._packet(parcel) for parcel in move.kept}
        return choices.Crash(
            process,
            tuple(
                packet
                for packet in self._in_flight_from(process)
                if packet in lost or (move.loses_others and packet not in kept)
            ),
        )

    def _read_processed(
        self, move: SketchedChoice, process: str, upto: tuple[MessageId, ...]
    ) -> Choice | None:
        named = [self._ids.get(one) for one in move.messages] if move.messages else list(upto)
        known = [one for one in named if one is not None and (process, one) in self._delivered]
        return choices.UserProcessed(process, tuple(known)) if known else None

    def _in_flight_from(self, process: str) -> list[PacketId]:
        return [packet for packet in self.world.in_flight if packet.link.sender == process]

    # --- from this run to a sketch

    def _in_terms_of_this_run(self, move: SketchedChoice, choice: Choice) -> SketchedChoice:
        match choice:
            case choices.PacketArrival(packet) | choices.Duplicate(packet) | choices.Drop(packet):
                return move._replace(choice=choice, parcels=(self._parcels[packet],))
            case choices.TimerExpiry(process, name):
                return move._replace(choice=choice, alarm=self._alarms[process, name])
            case choices.Crash(process, lost):
                sent = self._in_flight_from(process)
                return move._replace(
                    choice=choice,
                    parcels=tuple(self._parcels[packet] for packet in lost),
                    kept=tuple(self._parcels[packet] for packet in sent if packet not in lost),
                )
            case choices.UserProcessed(_, upto):
                spoken = tuple(self._spoken[one] for one in upto if one in self._spoken)
                return move._replace(choice=choice, messages=spoken)
        return move._replace(choice=choice)

    def _note_parcel(self, row: Row) -> None:
        assert isinstance(row.peer, str)
        assert isinstance(row.packet, int)
        link = Link(row.process, row.peer)
        self._so_far[link] += 1
        about = self._spoken.get(row.message) if row.origin else None
        parcel = SketchedPacket(self._here, link, self._so_far[link], str(row.packet_kind), about)
        packet = self._sent[parcel[:3]] = PacketId(link, row.packet)
        self._parcels[packet] = parcel

    def _note_stroke(self, process: str) -> None:
        dooms = [move for move in self.moves if isinstance(move.choice, choices.Doom)]
        doom = next((move for move in reversed(dooms) if move.actor == process), None)
        if doom is not None:  # or it halted of its own accord
            kept = tuple(self._parcels[packet] for packet in self._in_flight_from(process))
            self.struck[self._here] = SketchedChoice(
                doom.id, choices.Crash(process), parcels=(), kept=kept, loses_others=True
            )

    def _note_timer(self, process: str, name: str, delay_ms: float) -> None:
        self._so_far[process] += 1
        alarm = self._alarms[process, name] = Alarm(self._here, process, self._so_far[process])
        self._timers[alarm] = name
