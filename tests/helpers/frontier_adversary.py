"""An adversary without a clock: any packet, timer or fault may be next, however unlikely in time.

`frontier_runs` draws delays, so that what is sent first mostly arrives first and timers run out
late. Here some links are slow for as long as the dice like, timers run out at once or never, and
the options are tiny: windows of one, a memory for one message, logs that are full.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from frontier_runs import CheckedWorld
from tidings.core import (
    Broadcast,
    Effect,
    Event,
    Message,
    MessageId,
    Reject,
    Replay,
    Rereading,
    quorum,
)
from tidings.protocols import factory
from tidings.protocols.frontier import Frontier
from tidings.protocols.frontier.records import Stored
from tidings.simulator import World, choices, until_quiet
from tidings.simulator.choices import Link
from tidings.simulator.play import recorded
from tidings.spec import Value, judge
from tidings.trace import Row, Run


class WatchedWorld(CheckedWorld):
    """Texts come in batches, disks are compacted, and what is replayed is what must be."""

    def __init__(self, *args: Any, dice: random.Random, **options: Any) -> None:
        self.dice = dice
        self.handed: dict[str, dict[str, int]] = {}
        """What the user of each process was handed, by origin, in all its lives."""
        self.replayed: list[Message] = []
        self.replayed_upto: Mapping[str, int] = {}
        super().__init__(*args, **options)

    def _broadcast(self, process: str, text: bytes) -> None:
        """Every line is a text of its own."""
        self._step(process, Broadcast(tuple(text.split(b"\n"))))

    def _perform(self, process: str, event: Event, effect: Effect) -> None:
        if isinstance(effect, Replay):
            self.replayed = self._read_again(process, effect)
            self.replayed_upto = effect.upto
        super()._perform(process, event, effect)

    def _read_again(self, process: str, replay: Replay) -> list[Message]:
        """As a holder does that has little memory: in pieces, of which any may come."""
        disk, again = self.disks[process], list[Message]()
        rereading = Rereading(dict(replay.after), replay.upto, self.dice.choice([1, 1_000, 5_000]))
        while not rereading.is_over:
            wanted, share = rereading.wanted(), self.dice.random()
            read = [one for one in disk if wanted in _ids_in(one) or self.dice.random() < share]
            rereading.add(wanted, self.processes[process].messages_in(read))
            assert rereading.in_memory <= len(self.processes) * (2 + rereading.share // 200)
            again += rereading.take()
        return again

    def _note(self, process: str, kind: Any, *message: Any, **about: Any) -> None:
        super()._note(process, kind, *message, **about)
        if kind == "deliver":
            origin, seq = message
            self.handed.setdefault(process, {})[origin] = seq

    def _recover(self, process: str, disk_lost: bool, disk_old: bool = False) -> None:
        before = self.processes[process]
        assert isinstance(before, Frontier)
        if self.dice.random() < 0.3:
            self.disks[process] = list(before.compacted(self.disks.get(process, ())))
        self.replayed, self.replayed_upto = [], {}
        handed = dict(self.handed.get(process, {}))
        super()._recover(process, disk_lost)
        after = self.processes[process]
        assert isinstance(after, Frontier)
        done = after.log.processed if after.log.until_processed else after.log.delivered
        for origin, last in handed.items():
            # What is delivered at once, for it is known to be safe only now, is not replayed.
            again = [message.id.seq for message in self.replayed if message.id.origin == origin]
            upto = self.replayed_upto.get(origin, done[origin])
            assert again == list(range(done[origin] + 1, upto + 1))
            assert last <= upto, f"{process} forgot that it delivered"
        self._check_causes_come_first(process, done)

    def _check_causes_come_first(self, process: str, done: dict[str, int]) -> None:
        members = self.processes[process].members
        batches = [one.batch for one in self.disks.get(process, ()) if isinstance(one, Stored)]
        causes = {batch.id: dict(batch.causes.of(members)) for batch in batches if batch.causes}
        handed = dict(done)
        for message in self.replayed:
            for origin, seq in causes.get(message.id, {}).items():
                assert seq <= handed[origin], f"{process} is handed {message.id} before its cause"
            handed[message.id.origin] = message.id.seq


def _ids_in(record: Any) -> Iterable[MessageId]:
    return record.batch.ids() if isinstance(record, Stored) else ()


class Adversary:
    """One run, decided by its seed."""

    world_kind: type[World] = WatchedWorld

    def __init__(self, seed: int, mode: str = "", links: str = "") -> None:
        self.seed = seed
        self.dice = dice = random.Random(seed)
        more_dice = random.Random(-1 - seed)
        size = dice.choice([2, 3, 3, 4, 5, 5, 6, 7])
        self.members = tuple(f"p{number}" for number in range(1, size + 1))
        self.options = {
            "mode": mode or dice.choice(["all", "origin"]),
            "until_processed": dice.random() < 0.4,
            "memory": dice.choice([0, 0, 1, 3]),
            "memory_bytes": dice.choice([0, 0, 1, 8]),
            "window": dice.choice([1, 2, 10_000]),
            "batch_ms": dice.choice([0, -1]),
            "log_limit": dice.choice([10_000_000, 12]),
            "early": dice.choice([10_000, 1, 2]),
            "early_bytes": dice.choice([1 << 20, 1, 3]),
            "push": dice.choice([10_000, 1, 2]),
            "push_bytes": dice.choice([1 << 18, 1, 40]),
            "marks": dice.choice([64, 2, 3]),
            "block": dice.choice([16, 1, 2]),
            "strict": dice.random() < 0.2,
            "ticks": more_dice.random() < 0.4,
            "stable_ms": more_dice.choice([0, 1, 50]),
        }
        self.world = self.world_kind(
            f"adversary-{seed}",
            self.members,
            factory("frontier", self.options),
            links=links or dice.choice(["lossy", "retrying", "retrying"]),
            draw=lambda process, label, weights: dice.choices(range(len(weights)), weights)[0],
            dice=dice,
        )
        self.mortal = set(dice.sample(self.members, dice.randint(0, quorum(size) - 1)))
        self.slow: set[Link] = set()
        self.rows: list[Row] = []
        self.happened: Counter[str] = Counter()
        self.weights = {
            self.broadcast: dice.choice([2, 6, 15]),
            self.crash_or_recover: dice.choice([0, 2, 5]),
            self.cut_or_heal: dice.choice([0, 2]),
            self.take: 10 if self.options["until_processed"] else 0,
            self.time_out: dice.choice([2, 15, 40]),
            self.slow_down: 2,
            self.arrive: 60,
        }
        self.lost = dice.choice([0, 0.05, 0.3]) if self.world.links == "lossy" else 0
        self.duplicated = dice.choice([0, 0.1])

    def run(self) -> Run:
        moves, weights = list(self.weights), list(self.weights.values())
        for move in self.dice.choices(moves, weights, k=self.dice.choice([60, 150, 300])):
            move()
        self.end()
        return recorded(self.world, self.rows, protocol="frontier", options=self.options)

    def do(self, choice: choices.Choice) -> None:
        self.happened[type(choice).__name__] += 1
        self.rows += self.world.apply(choice)

    # --- moves

    def broadcast(self) -> None:
        if self.world.up:
            lines = [b"%d" % number for number in range(self.dice.choice([1, 1, 1, 2, 4]))]
            self.do(choices.UserBroadcast(self.dice.choice(self.world.up), b"\n".join(lines)))

    def arrive(self) -> None:
        deliverable = [one for one in self.world.in_flight if one.link not in self.world.cut]
        packets = [one for one in deliverable if one.link not in self.slow] or deliverable
        if packets:
            packet, luck = self.dice.choice(packets), self.dice.random()
            if luck < self.lost:
                self.do(choices.Drop(packet))
            elif luck < self.lost + self.duplicated:
                self.do(choices.Duplicate(packet))
            else:
                self.do(choices.PacketArrival(packet))

    def time_out(self) -> None:
        if self.world.timers:
            self.do(choices.TimerExpiry(*self.dice.choice(list(self.world.timers))))

    def slow_down(self) -> None:
        links = [Link(one, other) for one in self.members for other in self.members]
        self.slow = {link for link in links if self.dice.random() < 0.4}

    def cut_or_heal(self) -> None:
        if self.world.cut:
            self.do(choices.Heal())
        else:
            links = [Link(a, b) for a in self.members for b in self.members if a != b]
            self.do(choices.Cut(tuple(link for link in links if self.dice.random() < 0.3)))

    def take(self) -> None:
        if not self.world.up:
            return
        name, origin = self.dice.choice(self.world.up), self.dice.choice(self.members)
        process = self.world.processes[name]
        assert isinstance(process, Frontier)
        first, last = process.log.processed[origin] + 1, process.log.delivered[origin]
        if first <= last:
            self.do(
                choices.UserProcessed(name, (MessageId(origin, self.dice.randint(first, last)),))
            )

    def crash_or_recover(self) -> None:
        if self.world.crashed and self.dice.random() < 0.6:
            self.recover(self.dice.choice(sorted(self.world.crashed)))
        elif self.world.up:
            self.crash(self.dice.choice(self.world.up))

    def crash(self, victim: str) -> None:
        match self.dice.choice(["now", "now", "sending", "writing"]):
            case "now":
                self.kill(victim)
            case "sending":
                self.do(choices.Doom(victim, self.dice.randint(1, len(self.members)), 0))
            case "writing":
                self.do(choices.Doom(victim, 0, self.dice.randint(1, 3)))

    def kill(self, victim: str) -> None:
        """With any share of what it had sent and was not received yet."""
        share = self.dice.random()
        sent = [one for one in self.world.in_flight if one.link.sender == victim]
        lost = tuple(one for one in sent if self.dice.random() < share)
        self.do(choices.Crash(victim, lost))

    def end(self) -> None:
        """Links heal, those who are to die do so for good, and everybody else comes back."""
        if self.world.cut:
            self.do(choices.Heal())
        for name in sorted(self.mortal - self.world.crashed):
            self.kill(name)
        # Whoever was doomed and has not died yet dies now, so that nobody does later.
        for name in sorted({*self.world._doomed, *self.world._doomed_to_write}):
            self.kill(name)
        for name in sorted(self.world.crashed - self.mortal):
            self.recover(name)
        for _ in range(self.dice.choice([0, 50, 200])):
            self.dice.choice([self.arrive, self.arrive, self.arrive, self.time_out])()
        self.calm_down()
        self.settle()

    def calm_down(self) -> None:
        for choice in until_quiet(self.world):
            self.do(choice)

    def recover(self, name: str) -> None:
        self.do(choices.Recover(name))

    def settle(self) -> None:
        self.do(choices.Settle())


def survive(seeds: Iterable[int], mode: str = "", links: str = "") -> Counter[str]:
    """All five hold; with everybody up all is stable and nothing is left to do."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        adversary = Adversary(seed, mode, links)
        for verdict in judge(adversary.run()):
            assert verdict.value is Value.HOLDS, f"seed {seed}: {verdict}"
        world = adversary.world
        if not world.crashed or world.links == "retrying":
            assert not world.timers, f"seed {seed}: {list(world.timers)}"
        if not world.crashed:
            for process in world.processes.values():
                assert isinstance(process, Frontier)
                assert process.knowledge.stable == process.log.held, f"seed {seed}: {process.me}"
        happened += adversary.happened
        happened["runs"] += 1
    return happened


class RollbackWorld(World):
    """Older disks are put back; what processes believe may then be false, and is not checked."""

    def __init__(self, *args: Any, dice: random.Random, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rejected: set[tuple[str, str]] = set()
        """Which process reported which origin."""

    def _broadcast(self, process: str, text: bytes) -> None:
        self._step(process, Broadcast(tuple(text.split(b"\n"))))

    def _perform(self, process: str, event: Event, effect: Effect) -> None:
        if isinstance(effect, Reject):
            self.rejected.add((process, effect.peer))
        super()._perform(process, event, effect)


class Rollbacks(Adversary):
    """The same adversary, who also keeps copies of disks, and puts one back."""

    world_kind = RollbackWorld

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.weights |= {self.backup: 3, self.crash_or_recover: 6}

    def broadcast(self) -> None:
        """No two texts are the same, so that no two histories are."""
        if self.world.up:
            text = b"%d" % len(self.rows)
            self.do(choices.UserBroadcast(self.dice.choice(self.world.up), text))

    def backup(self) -> None:
        self.do(choices.Backup(self.dice.choice(self.members)))

    def recover(self, name: str) -> None:
        is_old = name in self.world.backups and self.dice.random() < 0.5
        self.happened["rollbacks"] += is_old
        self.do(choices.Recover(name, disk_old=is_old))
        if is_old and self.world.up != (name,) and self.dice.random() < 0.7:
            self.hear_few(name)

    def hear_few(self, name: str) -> None:
        """Those that hold most of it are slow to tell it so, and it speaks before they do."""
        process = self.world.processes[name]
        assert isinstance(process, Frontier)
        rest = sorted(
            (one for one in self.world.up if one != name), key=lambda one: self.held_by(one, name)
        )
        heard = [rest.pop(0)]
        while name in self.world.up and process.gate.unheard:
            packets = [
                packet
                for packet in self.world.in_flight
                if packet.link.receiver == name
                and packet.link.sender in heard
                and packet.link not in self.world.cut
            ]
            if packets:
                self.do(choices.PacketArrival(packets[0]))
            elif rest:
                heard.append(rest.pop(0))
            else:
                return
        if name in self.world.up:
            self.do(choices.UserBroadcast(name, b"%d" % len(self.rows)))

    def held_by(self, holder: str, origin: str) -> int:
        process = self.world.processes[holder]
        assert isinstance(process, Frontier)
        return process.log.held[origin]

    def settle(self) -> None:
        pass


def report_every_divergence(seeds: Iterable[int]) -> Counter[str]:
    """Two members that live have delivered the same under one name, or both report its origin."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        adversary = Rollbacks(seed)
        adversary.run()
        world = adversary.world
        assert isinstance(world, RollbackWorld)
        texts: dict[tuple[str, MessageId], str] = {}
        for row in adversary.rows:
            if row.kind == "deliver":
                message = MessageId(row.origin, row.seq)
                texts[row.process, message] = row.digest
        for (one, message), digest in texts.items():
            for other in world.up:
                if one in world.up and texts.get((other, message), digest) != digest:
                    happened["divergences"] += 1
                    for member in {one, other} - {message.origin}:
                        assert (member, message.origin) in world.rejected, f"seed {seed}: {member}"
        happened += adversary.happened
        happened["runs"] += 1
        happened["halts"] += len(world.crashed - adversary.mortal)
    return happened
