"""A group of processes, the packets between them, and everything that can go wrong.

A World makes no decisions. It says what may happen next (``choices``) and makes it happen
(``apply``). Random walks, scripts, replay, shrinking and exhaustive search are one thing to it:
somebody who picks. What happens is returned as rows of the trace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tidings.core import (
    Accept,
    Approve,
    Broadcast,
    CancelTimer,
    Change,
    Choose,
    Deliver,
    Deny,
    Effect,
    Event,
    Halt,
    Held,
    Install,
    Leave,
    LinkDown,
    LinkUp,
    Members,
    Packet,
    Persist,
    Process,
    Processed,
    Rebind,
    Recall,
    Recalled,
    Receive,
    Refuse,
    Reject,
    Replay,
    Send,
    SetTimer,
    Stable,
    Start,
    Timeout,
    UsageError,
    each_id,
    each_message,
    ordered,
    take_first,
)
from tidings.core.state import fingerprint
from tidings.guests.diagnosis import ProcessFault, answer
from tidings.protocols import Factory
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Link, PacketId, Schedule, Step
from tidings.trace import Kind, Row, digest

Links = Literal["retrying", "lossy"]
"""Retrying links lose nothing: a cut only delays. Lossy links lose what they lose."""

Draw = Callable[[str, str, Sequence[int]], int]
"""``draw(process, label, weights)``: where the random choices of all processes come from."""

OnTimer = Callable[[str, str, float], None]
"""``on_timer(process, name, delay_ms)``: told of every timer that is set."""

Watch = Callable[[str, Event | Effect | Row], None]
"""``watch(process, seen)``: sees the events, effects and rows of all processes, in order."""

Weigh = Callable[[Packet], int]
"""How many bytes a packet has; on every network of ours it travels as msgpack."""

_encode = msgspec.msgpack.Encoder().encode


def as_msgpack(packet: Packet) -> int:
    return len(_encode(packet))


class InFlight(NamedTuple):
    content: Packet
    bytes: int


def draw_first(process: str, label: str, weights: Sequence[int]) -> int:
    return take_first(label, weights)


def ignore_timer(process: str, name: str, delay_ms: float) -> None:
    pass


def watch_nothing(process: str, seen: Event | Effect | Row) -> None:
    pass


class World:
    def __init__(
        self,
        run: str,
        members: Members,
        factory: Factory,
        *,
        links: Links = "retrying",
        draw: Draw = draw_first,
        on_timer: OnTimer = ignore_timer,
        watch: Watch = watch_nothing,
        weigh: Weigh = as_msgpack,
        slow_newcomers: bool = False,
    ) -> None:
        """``slow_newcomers`` say themselves, by UserProcessed, when they have their state."""
        self.run = run
        self.factory = factory
        self.links = links
        self.draw = draw
        self.on_timer = on_timer
        self.watch = watch
        self.weigh = weigh
        self.slow_newcomers = slow_newcomers
        self.now_ns = 0
        self.packets_sent = 0
        self.schedule: Schedule = []
        self.processes: dict[str, Process] = {}
        self.crashed: set[str] = set()
        self.in_flight: dict[PacketId, InFlight] = {}
        self.timers: dict[tuple[str, str], float] = {}
        """Delays in milliseconds of the timers that are set; a timer set again moves to the end."""
        self.cut: set[Link] = set()
        self.left: dict[str, int | None] = {}
        """Processes that are no members any more, and which agreed view is the first without them.
        They may go on for a while: the row that says so is their last."""
        self.gone: set[str] = set()
        """Those of them that have stopped by themselves."""
        self.views: list[Members] = [members]
        self.disks: dict[str, Any] = {}
        self.backups: dict[str, list[Any]] = {}
        self._view_of: dict[str, int] = {}
        self._views: dict[tuple[int, Members], int] = {(0, members): 0}
        """Where agreed views stand in the table, by number and members."""
        self._numbers: dict[Link, int] = {}
        self._indexes: dict[str, int] = {}
        self._incarnations: dict[str, int] = {}
        self._identities: dict[str, int] = {}
        self._entered: dict[str, Mapping[str, int]] = {}
        """Newcomers that have just come to be in a view, and what was delivered before it."""
        self._doomed: dict[str, int] = {}
        self._doomed_to_write: dict[str, int] = {}
        self._draws: list[int] = []
        self._rows: list[Row] = []
        for member in members:
            self._create(member, members)
        # All are there before the first one speaks: it may speak to any of them.
        for member in members:
            self._step(member, Start(lossy=links == "lossy"))

    @property
    def up(self) -> Members:
        return tuple(member for member in self.processes if member not in self.crashed)

    def is_inside(self, process: str) -> bool:
        """Whether it is in the group: it has come to be in a view, and has not left."""
        return process in self._view_of and process not in self.left

    @property
    def drawn(self) -> tuple[int, ...]:
        """What the processes have drawn since the last choice: by the first one, at their start."""
        return tuple(self._draws)

    # --- what may happen

    def choices(self) -> list[Choice]:
        """What would happen by itself: packets arrive, timers run out. Faults are extra."""
        arriving: list[Choice] = [
            choices.PacketArrival(packet)
            for packet in self.in_flight
            if packet.link not in self.cut
        ]
        return arriving + [choices.TimerExpiry(*timer) for timer in self.timers]

    def fingerprint(self) -> bytes:
        """Everything that decides what may still happen, as canonical bytes."""
        return fingerprint(
            {
                "processes": [self.processes[process].fingerprint() for process in self.up],
                "crashed": self.crashed,
                "left": [self.left, self.gone],
                "doomed": [self._doomed, self._doomed_to_write],
                "in flight": self.in_flight,
                "cut": self.cut,
                "timers": self.timers,
                "views": self._view_of,
                "disks": [self.disks, self.backups],
            }
        )

    # --- making it happen

    def apply(self, choice: Choice, time_ns: int | None = None) -> list[Row]:
        """Make the choice happen, now or at a later time, and say what came of it."""
        if time_ns is not None:
            assert time_ns >= self.now_ns, f"time runs backwards: {time_ns} < {self.now_ns}"
            self.now_ns = time_ns
        try:
            self._make(choice)
        except ProcessFault as fault:
            fault.world, fault.rows = self, self._rows
            fault.schedule = [*self.schedule, Step(self.now_ns, choice, tuple(self._draws))]
            raise
        self.schedule.append(Step(self.now_ns, choice, tuple(self._draws)))
        rows = self._rows
        self._rows, self._draws = [], []
        return rows

    def _make(self, choice: Choice) -> None:
        match choice:
            case choices.UserBroadcast(process, text):
                self._broadcast(self._living(process), text)
            case choices.PacketArrival(packet):
                self._receive(packet, self._take(packet))
            case choices.Duplicate(packet):
                self._receive(packet, self._find(packet))
            case choices.Drop(packet):
                self._drop(packet)
            case choices.TimerExpiry(process, name):
                self._time_out(self._living(process), name)
            case choices.Crash(process, lost):
                self._crash(self._living(process), lost)
            case choices.Doom(process, sends, writes):
                self._doom(self._living(process), sends, writes)
            case choices.Recover(process, disk_lost, disk_old):
                self._recover(process, disk_lost, disk_old)
            case choices.Backup(process):
                self.backups[process] = list(self.disks.get(process, ()))
            case choices.UserProcessed(process, upto):
                self._step(self._living(process), Processed(dict(upto)))
            case choices.Join(process, contact):
                self._join(process, self._living(contact))
            case choices.ChangeRequest(process, add, remove):
                self._change(self._living(process), add, remove)
            case choices.Cut(links):
                self._cut(links)
            case choices.Heal():
                self._heal()
            case choices.Sample():
                for process in self.up:
                    self._sample(process)
            case choices.Settle():
                for process in self.up:
                    self.processes[process].check(self.processes)
                    self._note_end(process, "settle")

    def _living(self, process: str) -> str:
        if process not in self.processes:
            raise UsageError(f"there is no {process}; the group is {', '.join(self.processes)}")
        if process in self.crashed:
            raise UsageError(f"{process} has crashed")
        return process

    # --- packets

    def _find(self, packet: PacketId) -> InFlight:
        if packet not in self.in_flight:
            raise UsageError(f"no packet number {packet.number} is in flight {packet.link}")
        if packet.link in self.cut:
            raise UsageError(f"the link {packet.link} is cut")
        return self.in_flight[packet]

    def _take(self, packet: PacketId) -> InFlight:
        found = self._find(packet)
        del self.in_flight[packet]
        return found

    def _receive(self, packet: PacketId, found: InFlight) -> None:
        sender, receiver = packet.link
        self._note_packet(receiver, "receive", sender, packet.number, found)
        self._step(receiver, Receive(sender, found.content))

    def _drop(self, packet: PacketId) -> None:
        if self.links != "lossy" and packet.link.sender not in self.crashed:
            raise UsageError("only lossy links drop packets, or a crash does; write 'links lossy'")
        self._take(packet)

    def _send(self, sender: str, event: Event, effect: Send) -> None:
        sent = InFlight(effect.packet, self.weigh(effect.packet))
        for receiver in effect.to:
            if receiver not in self.processes:
                known = ", ".join(self.processes)
                raise ProcessFault(sender, event, f"it sends to {receiver}; there are: {known}")
            link = Link(sender, receiver)
            number = self._numbers[link] = self._numbers.get(link, 0) + 1
            self.packets_sent += 1
            self._note_packet(sender, "send", receiver, number, sent)
            lost = receiver in self.crashed or (self.links == "lossy" and link in self.cut)
            if not lost:
                self.in_flight[PacketId(link, number)] = sent
            if sender in self._doomed:
                self._doomed[sender] -= 1
                if self._doomed[sender] == 0:
                    self._crash(sender, ())
                    return

    # --- processes

    def _create(self, process: str, members: Members) -> None:
        self._make_process(process, members)
        self._view_of[process] = self._view_number(members)

    def _make_process(self, process: str, members: Members) -> None:
        def choose(label: str, weights: Sequence[int]) -> int:
            drawn = self.draw(process, label, weights)
            self._draws.append(drawn)
            return drawn

        chooser: Choose = choose
        self.processes[process] = self.factory(process, members, chooser)

    def _broadcast(self, process: str, text: bytes) -> None:
        self._step(process, Broadcast((text,)))

    def _time_out(self, process: str, name: str) -> None:
        if (process, name) not in self.timers:
            raise UsageError(f"{process} has no timer {name!r}")
        del self.timers[process, name]
        self._step(process, Timeout(name))

    def _crash(self, process: str, lost: Sequence[PacketId]) -> None:
        for packet in lost:
            if packet.link.sender != process:
                raise UsageError(f"{process} cannot lose {packet.link}: it did not send it")
            if self.in_flight.pop(packet, None) is None:
                raise UsageError(f"no packet number {packet.number} is in flight {packet.link}")
        self.crashed.add(process)
        self._entered.pop(process, None)
        self._doomed.pop(process, None)
        self._doomed_to_write.pop(process, None)
        for packet in [packet for packet in self.in_flight if packet.link.receiver == process]:
            del self.in_flight[packet]
        for timer in [timer for timer in self.timers if timer[0] == process]:
            del self.timers[timer]
        self._note_end(process, "crash")

    def _doom(self, process: str, sends: int, writes: int) -> None:
        if max(sends, writes) < 1:
            raise UsageError("a process crashes after at least one send; use a plain crash")
        if sends:
            self._doomed[process] = sends
        if writes:
            self._doomed_to_write[process] = writes

    def _persist(self, process: str, records: tuple[Any, ...]) -> None:
        if process in self._doomed_to_write:
            self._doomed_to_write[process] -= 1
            if self._doomed_to_write[process] == 0:
                self._crash(process, ())
                return
        self._write(process, records)

    def _write(self, process: str, records: tuple[Any, ...]) -> None:
        self.disks.setdefault(process, []).extend(records)

    def _put_back(self, process: str, records: Sequence[Any]) -> None:
        self.disks[process] = list(records)

    def _recover(self, process: str, disk_lost: bool, disk_old: bool = False) -> None:
        if process not in self.crashed:
            raise UsageError(f"{process} has not crashed")
        if process in self.gone:
            raise UsageError(f"{process} has left the group")
        if not self.processes[process].recovers:
            raise UsageError(f"{process} keeps nothing on disk and cannot come back")
        self.crashed.remove(process)
        self._incarnations[process] = self._incarnations.get(process, 0) + 1
        if disk_old:
            self._put_back(process, self.backups.get(process, []))
        recovered: tuple[Any, ...] | None = tuple(self.disks.get(process, ()))
        if disk_lost:
            # Who starts with nothing is somebody new.
            self._identities[process] = self._incarnations[process]
            self.disks.pop(process, None)
            recovered = None
        self._make_process(process, self.processes[process].members)
        self._note(process, "recover")
        identity = self._identities.get(process, 0)
        self._step(process, Start(identity, recovered, lossy=self.links == "lossy"))
        self._link_up(self._links_of(process))

    def _join(self, process: str, contact: str) -> None:
        if process in self.processes:
            raise UsageError(f"{process} is a member already")
        if not self.processes[contact].grows:
            raise UsageError("this protocol has a fixed group; nobody can join")
        members = ordered((*self.processes[contact].members, process))
        self._create(process, members)
        self._note(process, "join", view=self._view_of[process])
        self._step(process, Start(joining=True))

    def _change(self, process: str, add: str, remove: str) -> None:
        if not self.processes[process].changes:
            raise UsageError("this protocol has a fixed group; nobody can change it")
        if add and (add not in self.processes or add in self.gone):
            self._start_newcomer(add, process)
        self._step(process, Change(add, remove))

    def _start_newcomer(self, newcomer: str, contact: str) -> None:
        """It is in no view yet. One that has left, and starts again, starts with nothing."""
        is_again = newcomer in self.gone
        self.left.pop(newcomer, None)
        self.gone.discard(newcomer)
        self.crashed.discard(newcomer)
        self.disks.pop(newcomer, None)
        self._view_of.pop(newcomer, None)
        members = ordered((*self.processes[contact].members, newcomer))
        self._make_process(newcomer, members)
        if is_again:
            self._incarnations[newcomer] = self._incarnations.get(newcomer, 0) + 1
            self._note(newcomer, "recover")
        self._step(newcomer, Start(joining=True, lossy=self.links == "lossy"))

    # --- links

    def _cut(self, links: Sequence[Link]) -> None:
        for link in links:
            if link.sender not in self.processes or link.receiver not in self.processes:
                raise UsageError(f"there is no link {link}")
        self.cut.update(links)
        if self.links == "lossy":
            for packet in [packet for packet in self.in_flight if packet.link in self.cut]:
                del self.in_flight[packet]
            for sender, receiver in links:
                if sender not in self.crashed:
                    self._step(sender, LinkDown(receiver))

    def _heal(self) -> None:
        healed = sorted(self.cut)
        self.cut.clear()
        if self.links == "lossy":
            self._link_up(healed)

    def _links_of(self, process: str) -> Iterator[Link]:
        for other in self.up:
            if other != process:
                yield Link(process, other)
                yield Link(other, process)

    def _link_up(self, links: Iterator[Link] | Sequence[Link]) -> None:
        for link in links:
            # Retrying links deliver in the end even while they are cut; lossy ones do not.
            lost = link in self.cut and self.links == "lossy"
            if not lost and not self.crashed.intersection(link):
                self._step(
                    link.sender, LinkUp(link.receiver, self._identities.get(link.receiver, 0))
                )

    # --- effects

    def _step(self, process: str, event: Event) -> None:
        self.watch(process, event)
        for effect in self._answer(process, event):
            self.watch(process, effect)
            self._perform(process, event, effect)
            if process in self.crashed:
                return
        if process in self._entered:
            self._step(process, Processed(self._entered.pop(process)))

    def _answer(self, process: str, event: Event) -> list[Effect]:
        effects = answer(self.processes[process], event)
        if isinstance(event, Broadcast):
            answered = any(isinstance(effect, Accept | Refuse) for effect in effects)
            assert answered, f"{process} neither accepts nor refuses {event}"
        return effects

    def _perform(self, process: str, event: Event, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(process, event, effect)
            case Deliver(messages):
                for message in each_message(messages):
                    self._note(process, "deliver", *message.id, digest=digest(message.text))
            case Held(ids):
                for held in each_id(ids):
                    self._note(process, "held", *held)
            case Accept(ids):
                assert isinstance(event, Broadcast), f"{process} accepts what nobody broadcast"
                view = self._view_of[process]
                for accepted, text in zip(each_id(ids), event.texts, strict=True):
                    self._note(process, "broadcast", *accepted, digest=digest(text), view=view)
            case SetTimer(name, delay_ms):
                self.timers.pop((process, name), None)
                self.timers[process, name] = delay_ms
                self.on_timer(process, name, delay_ms)
            case CancelTimer(name):
                self.timers.pop((process, name), None)
            case Persist(records):
                self._persist(process, records)
            case Install(view, number, delivered):
                self._install(process, view, number, delivered)
            case Rebind(ids):
                for moved in each_id(ids):
                    self._note(process, "rebind", *moved, view=self._view_of[process])
            case Leave(_, number):
                self.left[process] = number
            case Recall(peer, first, last):
                records = tuple(self.disks.get(process, ()))
                self._step(process, Recalled(peer, first, last, records))
            case Halt():
                if process in self.left:
                    self.gone.add(process)
                self._crash(process, ())
            case Refuse() | Reject() | Replay() | Stable() | Approve() | Deny():
                pass
            case _:
                raise ProcessFault(process, event, f"{effect!r} is not an effect")

    def _install(
        self, process: str, view: Members, number: int | None, delivered: Mapping[str, int]
    ) -> None:
        kind: Kind = "view" if process in self._view_of else "join"
        self._view_of[process] = self._view_number(view, number)
        agreed: dict[str, Any] = {}
        if number is not None:
            vector = {origin: last for origin, last in delivered.items() if last}
            agreed = {"value": number, "vector": vector}
        self._note(process, kind, view=self._view_of[process], **agreed)
        if kind == "join" and not self.slow_newcomers:
            self._entered[process] = delivered

    def _view_number(self, view: Members, number: int | None = None) -> int:
        if number is not None:
            if (number, view) not in self._views:
                self._views[number, view] = len(self.views)
                self.views.append(view)
            return self._views[number, view]
        if view not in self.views:
            self.views.append(view)
        return self.views.index(view)

    # --- rows

    def _sample(self, process: str) -> None:
        for name, value in self.processes[process].kept().items():
            self._note(process, "state", name=name, value=value)

    def _note(
        self,
        process: str,
        kind: Kind,
        origin: Any = msgspec.UNSET,
        seq: Any = msgspec.UNSET,
        **columns: Any,
    ) -> None:
        index = self._indexes.get(process, 0)
        self._indexes[process] = index + 1
        row = Row(
            run=self.run,
            process=process,
            index=index,
            kind=kind,
            time_ns=self.now_ns,
            incarnation=self._incarnations.get(process, 0),
            origin=origin,
            seq=seq,
            **columns,
        )
        self._rows.append(row)
        self.watch(process, row)

    def _note_end(self, process: str, kind: Literal["crash", "settle"]) -> None:
        """Whatever ends one that was removed: it left, and by which decision."""
        if process not in self.left:
            self._note(process, kind)
        elif (number := self.left[process]) is None:
            self._note(process, "leave")
        else:
            self._note(process, "leave", value=number)

    def _note_packet(
        self, process: str, kind: Kind, peer: str, number: int, packet: InFlight
    ) -> None:
        self._note(
            process,
            kind,
            *(packet.content.about or ()),
            peer=peer,
            packet=number,
            packet_kind=packet.content.kind,
            bytes=packet.bytes,
        )
