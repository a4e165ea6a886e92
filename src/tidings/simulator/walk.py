"""A random run: one seed decides every delay, every fault and every draw, each by its key.

The walk keeps the clock that a World lacks: each packet is given a delay and each timer its due
time, and whatever is due next is what happens next. Packets overtake each other because their
delays differ.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings import guests
from tidings.core import Members, MessageId, UsageError, quorum
from tidings.protocols import Factory
from tidings.simulator import choices
from tidings.simulator.choices import Choice, Link, PacketId
from tidings.simulator.churn import Churn
from tidings.simulator.luck import Luck
from tidings.simulator.play import recorded
from tidings.simulator.world import Links, Weigh, World, as_msgpack
from tidings.trace import Row, Run, digest

_MS = 1_000_000

LOSSY_ROUNDS = 2
"""How many rounds of timers links go on losing packets after the load."""

ANSWERS_A_MESSAGE = 2
"""On average, in runs with answers."""

MOST_PROCESSES = 1_000
MOST_BROADCASTS = 1_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a random run is made of. Times are simulated milliseconds; shares are from 0 to 1."""

    protocol: str = "majority-relay"
    """This is what manifests leave out; commands name theirs."""
    options: dict[str, Any] = {}
    processes: int = 5
    broadcasts: int = 20
    texts: tuple[bytes, ...] = ()
    """What the messages say, in turn; without any, each says its number."""
    gap_ms_mean: float = 5.0
    """Between one broadcast and the next, whoever makes it."""
    burst: int = 1
    """How many broadcasts come at once; the gap before a burst is as many times longer."""
    replies: float = 0.0
    """The share of the broadcasts that answer one that was delivered: people who chat."""
    links: Links = "retrying"
    delay_ms_min: float = 1.0
    delay_ms_max: float = 20.0
    slow: int = 0
    """How many members are slow: packets from and to them take ``slow_factor`` times as long."""
    slow_factor: float = 10.0
    tail: float = 0.0
    """The exponent of a Pareto tail on the delays: below 1 they have no mean; 0 for none."""
    duplicated: float = 0.0
    """The share of packets that arrive twice."""
    lost: float = 0.0
    """The share of packets lost: sent again later on retrying links, gone on lossy ones."""
    retry_ms: float = 30.0
    crashes: int = 0
    """How many crash, newcomers among them."""
    mid_broadcast: float = 0.5
    """The share of crashes that strike between two sends of a broadcast, or on joining."""
    restarts: int = 0
    """How often somebody crashes and comes back with its disk; more may be down than a minority."""
    restart_ms: float = 40.0
    """For how long, at most, it stays down."""
    take_ms: float = 0.0
    """How long, at most, users take to process what they are handed; 0: nobody asks them."""
    joiners: int = 0
    """How many join while the load runs, each through any member; half of them speak at once."""
    changes: int = 0
    """How often the group is to add, remove or replace a member, by agreement."""
    rivals: float = 0.3
    """The share of changes for which another member is asked for another one at the same time."""
    partitions: int = 0
    partition_ms: float = 40.0
    sample_ms: float = 0.0
    """How often the processes note how much they keep, besides at the end; 0 for not at all."""
    budget: int = 1_000_000
    """How many choices, or packets, before the run is given up, unsettled."""

    def check(self) -> None:
        most = quorum(self.processes) - 1
        complaints = [
            (
                not 1 <= self.processes <= MOST_PROCESSES,
                f"a group has 1 to {MOST_PROCESSES:,} processes",
            ),
            (
                not 0 <= self.broadcasts <= MOST_BROADCASTS,
                f"a run has 0 to {MOST_BROADCASTS:,} broadcasts",
            ),
            (
                not 0 <= self.crashes <= self.processes,
                f"{self.crashes} of {self.processes} processes cannot crash",
            ),
            (
                self.crashes > most,
                f"only a minority may crash: at most {most} of {self.processes}",
            ),
            (self.restarts < 0, "a run cannot have fewer than 0 restarts"),
            (self.joiners < 0, "fewer than 0 processes cannot join"),
            (self.changes < 0, "a group cannot change fewer than 0 times"),
            (not 0 <= self.rivals <= 1, "the share of rivals is from 0 to 1"),
            (
                self.changes > 0 and self.joiners > 0,
                "a group changes by agreement, or processes join by themselves, not both",
            ),
            (not 0 <= self.lost <= 0.9, "the share of lost packets is from 0 to 0.9"),
            (self.partitions < 0, "a run cannot have fewer than 0 partitions"),
            (
                not 0 <= self.mid_broadcast <= 1,
                "the share of crashes in mid-broadcast is from 0 to 1",
            ),
            (self.gap_ms_mean <= 0, "the mean gap between broadcasts is above 0"),
            (0 < self.sample_ms < 0.001, "state is sampled every 0.001 ms at most, or never: 0"),
            (self.burst < 1, "a burst has at least one broadcast"),
            (not 0 <= self.replies < 1, "the share of answers is from 0 to less than 1"),
            (
                not 0 <= self.slow <= self.processes,
                f"{self.slow} of {self.processes} processes cannot be slow",
            ),
            (self.slow_factor <= 0, "the factor by which a slow member is slower is above 0"),
            (not 0 <= self.duplicated <= 1, "the share of duplicated packets is from 0 to 1"),
            (self.partitions > 0 and self.processes < 2, "one process cannot be partitioned"),
            (
                not 0 <= self.delay_ms_min <= self.delay_ms_max,
                "the shortest delay cannot exceed the longest",
            ),
        ]
        for wrong, complaint in complaints:
            if wrong:
                raise UsageError(complaint)


def walk(
    plan: Plan,
    seed: int,
    *,
    factory: Factory | None = None,
    weigh: Weigh = as_msgpack,
    world: type[World] = World,
) -> Run:
    """The run that this plan and this seed determine, down to the last byte of its trace.

    ``factory`` makes the processes instead of the plan's protocol; ``world`` may watch them.
    """
    plan.check()
    if seed < 0:
        raise UsageError("a seed is 0 or more")
    plan = _plainly(plan)
    make = factory or guests.factory(plan.protocol, plan.options)
    name = plan.protocol if factory is None else getattr(factory, "__name__", "unnamed")
    return _Walk(plan, name, seed, make, weigh, world).run()


def _plainly(plan: Plan) -> Plan:
    """An equal plan that is written like all that are equal to it, what is usual left out.

    msgspec leaves a field out if it holds the very object that is the default.
    """
    fields = msgspec.structs.asdict(plan).items()
    usual = Plan()
    return Plan(**{name: value for name, value in fields if value != getattr(usual, name)})


Arrival = choices.PacketArrival | choices.Duplicate | choices.Drop
Timer = tuple[str, str]
"""A process and the name of its timer."""
Pick = Callable[[], Choice | None]
"""Decides, when its time has come, what happens: None if there is nothing left to decide."""


class _Walk:
    def __init__(
        self,
        plan: Plan,
        protocol: str,
        seed: int,
        factory: Factory,
        weigh: Weigh,
        world: type[World],
    ) -> None:
        self.plan = plan
        self.protocol = protocol
        self.seed = seed
        self.luck = Luck(seed)
        self.rows: list[Row] = []
        self.now_ns = 0
        self.agenda: list[tuple[int, int, Pick]] = []
        self.tickets = itertools.count()
        self.timers_due: dict[Timer, int] = {}
        self.mortal: list[str] = []
        """Who crashes for good."""
        self.handed: dict[str, dict[str, int]] = {}
        self.slow: list[str] = []
        self.answers_left = int(plan.broadcasts * plan.replies)
        self.calm = False
        """Whether links that lose packets have stopped doing so."""
        identity = msgspec.json.encode((plan, seed), order="deterministic")
        self.world = world(
            run=digest(identity)[:8],
            members=tuple(f"p{number}" for number in range(1, plan.processes + 1)),
            factory=factory,
            links=plan.links,
            draw=self._draw,
            on_timer=self._note_timer,
            weigh=weigh,
        )
        self.churn = Churn(self.world, self.luck) if plan.changes else None

    def run(self) -> Run:
        if self.plan.slow:
            self.slow = self.luck.some_of(self.world.up, self.plan.slow, "slow")
        self._plan_load_and_crashes()
        for number in range(1, self.plan.changes + 1):
            self._plan_change(number)
        for number in range(self.plan.restarts):
            self._plan_restart(number)
        for number in range(self.plan.partitions):
            self._plan_partition(number)
        if self.plan.sample_ms:
            self._plan_samples()
        if self._come_to_rest():
            self._apply(choices.Sample(), self.world.now_ns)
            self._apply(choices.Settle(), self.world.now_ns)
        return recorded(
            self.world,
            self.rows,
            protocol=self.protocol,
            options=self.plan.options,
            seed=self.seed,
            plan=msgspec.to_builtins(self.plan),
        )

    # --- the clock

    def _come_to_rest(self) -> bool:
        """Do what is due until it changes nothing any more; False if the budget runs out first."""
        before = b""
        for rounds in itertools.count():
            while self.agenda and self._has_budget:
                self._do_what_is_due()
            if not self._has_budget:
                return False
            state = self.world.fingerprint()
            if (self.calm and state == before) or not self.timers_due:
                return True
            before = state
            # Settled means that the faults are over: a round in which a link lost what would
            # have made the difference proves nothing.
            self.calm = rounds >= LOSSY_ROUNDS or self.plan.links != "lossy"
            self._let_every_timer_run_out()
        raise AssertionError("counting never ends")

    @property
    def _has_budget(self) -> bool:
        return max(len(self.world.schedule), self.world.packets_sent) < self.plan.budget

    def _let_every_timer_run_out(self) -> None:
        """At least once each, with everything that falls due in between."""
        pending = set(self.timers_due)
        while pending and self._has_budget:
            fired = self._do_what_is_due()
            pending = {timer for timer in pending if timer in self.timers_due} - {fired}

    def _do_what_is_due(self) -> Timer | None:
        """Whatever comes next, a planned pick or a timer; the timer, if it was one."""
        timer = min(self.timers_due, key=self.timers_due.__getitem__, default=None)
        if timer is not None:
            due_ns = self.timers_due[timer]
            if not self.agenda or due_ns <= self.agenda[0][0]:
                del self.timers_due[timer]
                self.now_ns = due_ns
                if timer in self.world.timers:
                    self._apply(choices.TimerExpiry(*timer), due_ns)
                return timer
        self.now_ns, _, pick = heapq.heappop(self.agenda)
        choice = pick()
        if choice is not None:
            self._apply(choice, self.now_ns)
        return None

    def _apply(self, choice: Choice, time_ns: int) -> None:
        rows = self.world.apply(choice, time_ns)
        self.rows += rows
        for row in rows:
            if row.kind == "send":
                self._plan_arrival(row)
            elif row.kind == "deliver":
                if self.plan.take_ms:
                    self._plan_to_take(row)
                if self.answers_left and row.process != row.origin:
                    self._plan_answer(row)

    def _at(self, time_ns: int, pick: Pick) -> None:
        # Tickets keep what is due at the same time in the order of planning.
        heapq.heappush(self.agenda, (time_ns, next(self.tickets), pick))

    def _note_timer(self, process: str, name: str, delay_ms: float) -> None:
        # Not the world's own time: processes set timers at their start, while it is being made.
        self.timers_due[process, name] = self.now_ns + round(delay_ms * _MS)

    def _draw(self, process: str, label: str, weights: Sequence[int]) -> int:
        return self.luck.weighted(weights, "choice", process, label)

    # --- the load and the faults

    def _plan_load_and_crashes(self) -> None:
        members = self.world.up
        joins = self._plan_joins()
        time_ns = 0
        broadcasts = []
        gap_ms_mean = self.plan.gap_ms_mean * self.plan.burst
        for number in range(1, self.plan.broadcasts - self.answers_left + 1):
            if number % self.plan.burst == 1 % self.plan.burst:
                time_ns += round(self.luck.gap(gap_ms_mean, "gap", number) * _MS)
            present = (*members, *(who for who, when in joins.items() if when <= time_ns))
            speaker = self.luck.one_of(present, "speaker", number)
            broadcasts.append((time_ns, speaker, self._text(number)))
        # The last words travel for a while: crashes strike then, too.
        end_ns = time_ns + round(2 * self.plan.delay_ms_max * _MS)
        # Every list contains the first one, so a minority of the first is a minority of each.
        self.mortal = self.luck.some_of((*members, *joins), self.plan.crashes, "mortal")
        for victim in self.mortal:
            if self.churn is not None and self.luck.share("mid", victim) < self.plan.mid_broadcast:
                self._plan_last_wish(victim)
                continue
            spoken = [when for when, who, _ in broadcasts if who == victim]
            is_in_mid = self.luck.share("mid", victim) < self.plan.mid_broadcast
            if spoken and is_in_mid:
                when = self.luck.one_of(spoken, "last words", victim)
                self._plan_crash_in_mid_sentence(when, victim)
            elif victim in joins and is_in_mid:
                self._at(joins[victim], partial(self._crash, victim))
            else:
                begin_ns = min(joins.get(victim, 0), end_ns)
                when = self.luck.between(begin_ns, end_ns, "crash", victim)
                self._at(when, partial(self._crash, victim))
        for when, who, text in broadcasts:
            self._at(when, partial(self._broadcast, who, text))

    def _plan_joins(self) -> dict[str, int]:
        """Who will join, and when."""
        joins = {}
        for number in range(1, self.plan.joiners + 1):
            joiner = f"p{self.plan.processes + number}"
            joins[joiner] = self.luck.between(0, self._load_ns, "join", joiner)
            self._at(joins[joiner], partial(self._join, joiner))
            if self.luck.share("speaks at once", joiner) < 0.5:
                self._at(joins[joiner], partial(self._broadcast, joiner, self._text(number)))
        return joins

    def _plan_change(self, number: int) -> None:
        if not all(one.changes for one in self.world.processes.values()):
            raise UsageError(f"{self.protocol} has a fixed group; nobody can change it")
        when = self.luck.between(0, self._load_ns, "change at", number)
        self._at(when, partial(self._change, number, 0))
        if self.luck.share("rival", number) < self.plan.rivals:
            self._at(when, partial(self._change, number, 1))

    def _plan_last_wish(self, victim: str) -> None:
        """It crashes while it proposes a change: one more, that no other member is asked for."""
        when = self.luck.between(0, self._load_ns, "last wish at", victim)
        sends = self.luck.between(1, 4 * self.plan.processes, "sends", victim, when)
        self._at(when, partial(self._doom, victim, sends))
        self._at(when, partial(self._change, 0, 0, victim))

    @property
    def _load_ns(self) -> int:
        """About how long the load runs."""
        return round(self.plan.broadcasts * self.plan.gap_ms_mean * _MS)

    def _text(self, number: int) -> bytes:
        texts = self.plan.texts
        return texts[number % len(texts)] if texts else b"message %d" % number

    def _plan_samples(self) -> None:
        end_ms = self.plan.broadcasts * self.plan.gap_ms_mean
        for count in range(1, int(end_ms / self.plan.sample_ms) + 1):
            self._at(round(count * self.plan.sample_ms * _MS), choices.Sample)

    def _plan_crash_in_mid_sentence(self, time_ns: int, victim: str) -> None:
        most = max(1, self.plan.processes - 2)
        sends = self.luck.between(1, most, "sends", victim, time_ns)
        self._at(time_ns, partial(self._if_up, victim, choices.Doom(victim, sends)))

    def _plan_restart(self, number: int) -> None:
        """Somebody crashes, at rest, between two packets or at a lost write, and comes back."""
        survivors = [process for process in self.world.up if process not in self.mortal]
        if not all(self.world.processes[process].recovers for process in survivors):
            raise UsageError(f"{self.protocol} keeps nothing on disk: nobody can come back")
        victim = self.luck.one_of(survivors, "restart", number)
        begin_ns = self.luck.between(0, self._load_ns, "restart at", number)
        match self.luck.between(0, 2, "restart how", number):
            case 0:
                self._at(begin_ns, partial(self._crash, victim))
            case 1:
                self._plan_crash_in_mid_sentence(begin_ns, victim)
            case _:
                writes = self.luck.between(1, 3, "writes", number)
                doom = choices.Doom(victim, 0, writes)
                self._at(begin_ns, partial(self._if_up, victim, doom))
        self._at(begin_ns + self._down_ns(victim), partial(self._recover, victim))

    def _down_ns(self, process: str) -> int:
        return round(self.luck.next_share("down", process) * self.plan.restart_ms * _MS)

    def _plan_to_take(self, row: Row) -> None:
        assert isinstance(row.origin, str)
        assert isinstance(row.seq, int)
        handed = self.handed.setdefault(row.process, {})
        handed[row.origin] = row.seq
        upto = tuple(MessageId(*one) for one in handed.items())
        share = self.luck.share("take", row.process, row.origin, row.seq)
        delay_ns = round(share * self.plan.take_ms * _MS)
        self._at(self.world.now_ns + delay_ns, partial(self._take, row.process, upto))

    def _plan_answer(self, row: Row) -> None:
        """Two members, on average, answer a message, each after some thought."""
        assert isinstance(row.origin, str)
        assert isinstance(row.seq, int)
        about = (row.process, row.origin, row.seq)
        others = len(self.world.processes) - 1
        if self.luck.share("answer", *about) * others >= ANSWERS_A_MESSAGE:
            return
        text = self._text(self.plan.broadcasts - self.answers_left + 1)
        self.answers_left -= 1
        thought_ns = round(self.luck.gap(self.plan.gap_ms_mean, "thought", *about) * _MS)
        self._at(self.world.now_ns + thought_ns, partial(self._broadcast, row.process, text))

    def _plan_partition(self, number: int) -> None:
        time_ns = self.luck.between(0, self._load_ns, "partition", number)
        members = self.world.up
        size = self.luck.between(1, len(members) - 1, "sides", number)
        side = self.luck.some_of(members, size, "side", number)
        self._at(time_ns, partial(self._cut, members, side, number))
        self._at(time_ns + round(self.plan.partition_ms * _MS), choices.Heal)

    def _plan_arrival(self, row: Row) -> None:
        assert isinstance(row.peer, str)
        assert isinstance(row.packet, int)
        packet = PacketId(Link(row.process, row.peer), row.packet)
        losing = self.plan.links == "lossy" and not self.calm
        if losing and self._happens(self.plan.lost, "lost", packet):
            self._at(self.world.now_ns, partial(self._arrive, choices.Drop, packet))
            return
        arrival_ns = self._arrival_ns(packet, 1)
        if self._happens(self.plan.duplicated, "duplicated", packet):
            first_ns, arrival_ns = sorted((arrival_ns, self._arrival_ns(packet, 2)))
            self._at(first_ns, partial(self._arrive, choices.Duplicate, packet))
        self._at(arrival_ns, partial(self._arrive, choices.PacketArrival, packet))

    def _happens(self, share: float, what: str, packet: PacketId) -> bool:
        # What never happens need not be drawn: by its key, it changes nothing else.
        return share > 0 and self.luck.share(what, *packet.link, packet.number) < share

    def _arrival_ns(self, packet: PacketId, copy: int) -> int:
        plan, luck, link = self.plan, self.luck, packet.link
        key = (*link, packet.number, copy)
        delay_ms = plan.delay_ms_min
        delay_ms += luck.share("delay", *key) * (plan.delay_ms_max - plan.delay_ms_min)
        if self.slow and (link.sender in self.slow or link.receiver in self.slow):
            delay_ms *= plan.slow_factor
        if plan.tail:
            delay_ms *= luck.tail(plan.tail, "tail", *key)
        if plan.lost and plan.links == "retrying":
            delay_ms += plan.retry_ms * luck.retries(plan.lost, "retries", *key)
        return self.world.now_ns + round(delay_ms * _MS)

    # --- picks, made when their time has come

    def _arrive(self, how: type[Arrival], packet: PacketId) -> Choice | None:
        if packet not in self.world.in_flight:
            return None
        if packet.link in self.world.cut:
            retry_ns = self.now_ns + round(self.plan.retry_ms * _MS)
            self._at(retry_ns, partial(self._arrive, how, packet))
            return None
        return how(packet)

    def _broadcast(self, process: str, text: bytes) -> Choice | None:
        if self.churn is not None:
            process = self.churn.speaker(process)
        return self._if_up(process, choices.UserBroadcast(process, text))

    def _change(self, number: int, rival: int, asked: str = "") -> Choice | None:
        assert self.churn is not None
        return self.churn.request(number, rival, asked)

    def _doom(self, process: str, sends: int) -> Choice | None:
        if self.churn is not None and not self.churn.may_crash(process):
            return None
        return self._if_up(process, choices.Doom(process, sends))

    def _join(self, process: str) -> Choice:
        return choices.Join(process, self.luck.one_of(self.world.up, "contact", process))

    def _cut(self, members: Members, side: Sequence[str], number: int) -> Choice:
        """Part the members; each of those who joined them finds itself on either side."""
        new = [process for process in self.world.processes if process not in members]
        joined = (one for one in new if self.luck.share("joined side", number, one) < 0.5)
        side = (*side, *joined)
        links = [
            Link(one, other)
            for one in (*members, *new)
            for other in (*members, *new)
            if (one in side) != (other in side)
        ]
        return choices.Cut(tuple(links))

    def _crash(self, process: str) -> Choice | None:
        if process in self.mortal and self.churn and not self.churn.may_crash(process):
            return None
        sent = [packet for packet in self.world.in_flight if packet.link.sender == process]
        # A share, so that losing all, and losing none, is not rare.
        share = self.luck.next_share("lost", process)
        lost = tuple(packet for packet in sent if self._happens(share, "gone", packet))
        return self._if_up(process, choices.Crash(process, lost))

    def _recover(self, process: str) -> Choice | None:
        """Back again; whoever was to crash and found no occasion does so now, and returns later."""
        if process in self.world.gone:
            return None
        if process in self.world.crashed:
            return choices.Recover(process)
        self._at(self.now_ns + self._down_ns(process), partial(self._recover, process))
        return self._crash(process)

    def _take(self, process: str, upto: tuple[MessageId, ...]) -> Choice | None:
        return self._if_up(process, choices.UserProcessed(process, upto))

    def _if_up(self, process: str, choice: Choice) -> Choice | None:
        return choice if process in self.world.up else None
