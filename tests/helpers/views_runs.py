"""Random runs of groups that change, with crashes, restarts and rivals, and what they contained.

There is no clock: of all that may happen next, anything does. What a run contains is drawn, and
the only restraint is that no view loses its majority for good: beyond that nothing is promised.
"""

import random
from collections import Counter
from collections.abc import Iterable
from functools import partial

from msgspec import UNSET, msgpack

from tidings.core import (
    Deny,
    Effect,
    Event,
    Install,
    Members,
    MessageId,
    Recall,
    Receive,
    Replay,
    Rereading,
    UsageError,
    majority,
    ordered,
)
from tidings.node.config import Limits
from tidings.node.wire import Codec, WireFault
from tidings.protocols.frontier.records import Stored
from tidings.protocols.views import Views
from tidings.protocols.views.packets import NO_BALLOT, View
from tidings.simulator import World, choices
from tidings.simulator.choices import Choice
from tidings.simulator.play import recorded, until_quiet
from tidings.spec import Value, Verdict, judge
from tidings.trace import Row, Run

MOST_CHOICES = 400
LIMITS = Limits()


class ChangingRun:
    """One run: a world, the dice, and what is to happen in it."""

    def __init__(self, seed: int, kind: type[Views] = Views) -> None:
        self.seed = seed
        self.dice = dice = random.Random(seed)
        size = dice.randint(1, 5)
        self.options: dict[str, object] = {
            "mode": dice.choice(["all", "origin"]),
            "batch_ms": dice.choice([-1, 0, 0]),
            "push": dice.choice([10_000, 1]),
            "early": dice.choice([10_000, 1]),
            "near": dice.choice([1_000, 1]),
            **self._more_options(),
        }
        self.broadcasts = dice.randint(0, 10)
        self.changes = dice.randint(0, 4)
        self.crashes = dice.randint(0, 2)
        self.restarts = dice.randint(0, 3)
        self.patience = dice.choice([0.0, 0.02, 0.1])
        """How often a timer runs out although packets are under way."""
        self.added = size
        self.removing = ""
        self.handed: dict[str, dict[str, int]] = {}
        self.processed: dict[str, dict[str, int]] = {}
        self.noted: dict[str, dict[str, int]] = {}
        """Of each process what it was handed, what it has processed, and what of that its disk
        knows."""
        self.drowsy: set[str] = set()
        """Those that sleep, or will when they next send or write, and wake up later."""
        self.rows: list[Row] = []
        self.happened: Counter[str] = Counter()
        self.ballots: dict[int, set[str]] = {}
        self.codecs: dict[str, Codec] = {}
        """With which real members read what comes."""
        self.world = World(
            f"seed {seed}",
            tuple(f"p{number}" for number in range(1, size + 1)),
            partial(kind, **self.options),  # type: ignore[arg-type]
            draw=lambda process, label, weights: dice.choices(range(len(weights)), weights)[0],
            watch=self._watch,
            slow_newcomers=self.is_processing,
        )

    def _more_options(self) -> dict[str, object]:
        """Every limit is drawn small: one that is never reached is where guarantees are broken."""
        self.more_dice = dice = random.Random(f"{self.seed}, and more")
        self.is_processing = dice.random() < 0.5
        memory = dice.choice([0, 1, 3])
        options: dict[str, object] = {
            "ahead": dice.choice([10_000, 10_000, 0, 1, 3]),
            "ahead_bytes": dice.choice([2**26, 2**26, 500]),
            "tell": dice.choice([10_000, 1, 10]),
            "ticks": dice.random() < 0.3,
            "strict": dice.random() < 0.2,
            "until_processed": self.is_processing,
            "memory": memory,
            "memory_bytes": dice.choice([0, 1]) if memory else 0,
            "early_bytes": dice.choice([2**26, 1]),
            "push_bytes": dice.choice([2**18, 1]),
        }
        self.is_slow = dice.random() < 0.1
        """Whether messages come late, and all that concerns a member that is to be removed: then
        what it has broadcast may be void."""
        options["tell_bytes"] = random.Random(f"{self.seed}, at last").choice([2**18, 1, 300])
        return options

    # --- what happens

    def play(self) -> Run:
        for _ in range(MOST_CHOICES):
            choice = self._pick()
            if choice is None:
                break
            self._apply(choice)
        self._calm_down()
        return recorded(self.world, self.rows, protocol="views", options=self.options)

    def _calm_down(self) -> None:
        while True:
            for process in sorted(self.asleep):
                self._apply(choices.Recover(process))
            for choice in until_quiet(self.world):
                self._apply(choice)
            if not self.asleep and not self._process_everything():
                break
        self._apply(choices.Settle())

    def _process_everything(self) -> bool:
        """Whether there was anything to process."""
        behind = [one for one in self.world.up if self._is_behind(one)]
        for process in behind:
            self._apply(self._processing(process))
        return bool(behind)

    def _is_behind(self, process: str) -> bool:
        handed = self.handed.get(process, {})
        return self.is_processing and handed != self.processed.get(process, {})

    def _processing(self, process: str) -> Choice:
        """A newcomer has its state, too: what was delivered before its view."""
        upto = self.processed[process] = dict(self.handed[process])
        return choices.UserProcessed(process, tuple(MessageId(*one) for one in upto.items()))

    def _apply(self, choice: Choice) -> None:
        self.rows += self.world.apply(choice)
        for process in self.world.up:
            self.world.processes[process].check(self.world.processes)
        if isinstance(choice, choices.UserProcessed) and choice.process in self.world.up:
            self.noted[choice.process] = dict(choice.upto)

    def _watch(self, process: str, seen: Event | Effect | Row) -> None:
        match seen:
            case Receive():
                self._check_on_the_wire(process, seen)
            case Deny():
                self.happened["denied"] += 1
            case Install(number=number, delivered=before) if number:
                self.happened["installed"] += 1
                handed = self.handed.setdefault(process, {})
                if self.members[process].chain[number].added == process:
                    handed |= before
            case Row(kind="deliver", origin=origin, seq=seq):
                self.handed.setdefault(process, {})[origin] = seq
            case Recall() | Replay():
                self.happened[type(seen).__name__.lower()] += 1
                if isinstance(seen, Replay):
                    self._check_replay(process, seen)
            case Row(kind="send", packet_kind="missed"):
                self.happened["packets that had no room"] += 1
            case Row(kind="send", packet_kind="prepare"):
                number = self.members[process].number + 1
                self.ballots.setdefault(number, set()).add(process)

    def _check_on_the_wire(self, process: str, seen: Receive) -> None:
        """What members say to each other, no real member refuses to read."""
        codec = self.codecs.get(process)
        if codec is None:

            def members_of(number: int) -> Members | None:
                chain = self.members[process].chain
                return chain[number].members if 0 <= number < len(chain) else None

            codec = self.codecs[process] = Codec(Views, None, LIMITS, members_of)
        try:
            came = codec.decode(1, memoryview(msgpack.encode(seen.packet)), seen.sender)
        except WireFault as fault:
            words = f"{process} would hang up on {seen.sender}: {fault}: {seen.packet}"
            raise AssertionError(words) from fault
        assert came.packet == seen.packet, f"{process} would read {came.packet}"

    def _check_replay(self, process: str, replay: Replay) -> None:
        """Nothing that was handed over and not processed is left out; views in their order."""
        views, handed = self.members[process], self.handed.get(process, {})
        assert {one: replay.upto[one] for one in handed} == handed, f"{process}: {replay}"
        noted = self.noted.get(process, {})
        late = {one: last for one, last in replay.after.items() if last > handed.get(one, last)}
        assert not late, f"{process} is not handed {late} again"
        assert all(noted.get(one, 0) <= last for one, last in replay.after.items()), replay
        self.processed[process] = {one: replay.after[one] for one in handed}
        rereading = Rereading(dict(replay.after), replay.upto, 1)
        again: list[MessageId] = []
        while not rereading.is_over:
            wanted = rereading.wanted()
            rereading.add(wanted, views.messages_in(self.world.disks[process], rereading.handed))
            again += [one.id for one in rereading.take()]
        numbers = [self._view_of(views, one) for one in again]
        assert numbers == sorted(numbers), f"{process} is handed {again} of views {numbers}"

    def _view_of(self, views: Views, message: MessageId) -> int:
        """The view in which it was delivered."""
        later = views.chain[1 : views.number + 1]
        before = (view.number - 1 for view in later if message.seq <= _at(view, message.origin))
        return next(before, views.number)

    def _rotate(self, process: str) -> None:
        """The log is begun anew, as a node does it: with a checkpoint, and messages if needed."""
        checkpoint = self.members[process].checkpoint()
        if checkpoint is None:
            return
        disk, forgotten = self.world.disks[process], checkpoint.forgotten
        if self.more_dice.random() < 0.7:
            stored = [one for one in disk if isinstance(getattr(one, "record", None), Stored)]
            ends = [(one, one.record.batch.id.origin, one.record.batch.last) for one in stored]
            disk = [one for one, origin, last in ends if last > forgotten[origin]]
        self.world.disks[process] = [*disk, *checkpoint.records]
        self.happened["checkpoints"] += 1

    @property
    def members(self) -> dict[str, Views]:
        found = self.world.processes.items()
        return {name: one for name, one in found if isinstance(one, Views)}

    @property
    def asleep(self) -> set[str]:
        return self.drowsy & (self.world.crashed - self.world.gone)

    # --- picking

    def _pick(self) -> Choice | None:
        world, dice = self.world, self.dice
        if world.up and self.more_dice.random() < 0.05:
            self._rotate(self.more_dice.choice(world.up))
        behind = [one for one in world.up if self._is_behind(one)]
        if behind and self.more_dice.random() < 0.1:
            return self._processing(self.more_dice.choice(behind))
        possible = world.choices()
        arriving = [one for one in possible if isinstance(one, choices.PacketArrival)]
        timers = [one for one in possible if isinstance(one, choices.TimerExpiry)]
        planned = self.broadcasts + self.changes + self.crashes + self.restarts
        if planned and (not arriving or dice.random() < 0.15):
            return self._pick_planned() or self._pick_from(arriving, timers)
        if not planned and not arriving and not self.asleep:
            return None
        return self._pick_from(arriving, timers)

    def _pick_from(self, arriving: list[Choice], timers: list[Choice]) -> Choice | None:
        dice = self.dice
        if self.is_slow:
            arriving = [one for one in arriving if not self._is_late(one)] or arriving
        if self.asleep and dice.random() < 0.05:
            return self._wake()
        if timers and (not arriving or dice.random() < self.patience):
            return dice.choice(timers)
        return dice.choice(arriving) if arriving else (self._wake() if self.asleep else None)

    def _is_late(self, arrival: Choice) -> bool:
        assert isinstance(arrival, choices.PacketArrival)
        is_data = self.world.in_flight[arrival.packet].content.kind == "data"
        return is_data or self.removing in arrival.packet.link

    def _wake(self) -> Choice | None:
        process = self.dice.choice(sorted(self.asleep))
        self.drowsy.discard(process)
        latest, mine = self.latest().number, self.members[process].number
        self.happened["sleepers through two views"] += latest >= mine + 2
        return choices.Recover(process)

    def _pick_planned(self) -> Choice | None:
        kinds = [self._broadcast] * self.broadcasts + [self._change] * (3 * self.changes)
        kinds += [self._crash] * self.crashes + [self._sleep] * self.restarts
        return self.dice.choice(kinds)()

    def _somebody(self) -> str | None:
        inside = [one for one in self.world.up if one not in self.world.left]
        return self.dice.choice(inside) if inside else None

    def _broadcast(self) -> Choice | None:
        self.broadcasts -= 1
        process = self._somebody()
        return choices.UserBroadcast(process, b"%d" % self.broadcasts) if process else None

    def _change(self) -> Choice | None:
        self.changes -= 1
        process = self._somebody()
        if process is None:
            return None
        add = remove = ""
        how = self.dice.random()
        if how < 0.6:
            remove = self.removing = self.dice.choice(self._to_remove(process))
        if how > 0.4:
            self.added += 1
            gone = sorted(self.world.gone)
            # The same name once more: a replacement that the group has to refuse.
            again = gone and self.dice.random() < 0.3
            add = self.dice.choice(gone) if again else f"p{self.added}"
            for known in (self.handed, self.processed, self.noted):
                known.pop(add, None)  # somebody else, who has nothing
        self.happened["replacements"] += bool(add and remove)
        return choices.ChangeRequest(process, add, remove)

    def _to_remove(self, process: str) -> list[str]:
        """Any member; often one that has just broadcast, so that its message is in danger."""
        members = self.members[process].members
        sent = [one.link.sender for one, it in self.world.in_flight.items() if it.content.about]
        speaking = [member for member in members if member in sent]
        return speaking if speaking and self.dice.random() < 0.6 else list(members)

    def _crash(self) -> Choice | None:
        self.crashes -= 1
        process = self._somebody()
        if process is None or process in self.drowsy or not self._may_die(process):
            return None
        member = self.members[process]
        self.happened["dead proposers"] += member.proposer.ballot != NO_BALLOT
        return self._end(process)

    def _sleep(self) -> Choice | None:
        self.restarts -= 1
        up = [one for one in self.world.up if one in self.members]
        if not up:
            return None
        process = self.dice.choice(up)
        self.drowsy.add(process)
        if self.dice.random() < 0.5:
            sends, writes = self.dice.choice([(1, 0), (2, 0), (0, 1), (0, 2)])
            return choices.Doom(process, sends, writes)
        return self._end(process)

    def _end(self, process: str) -> Choice:
        sent = [packet for packet in self.world.in_flight if packet.link.sender == process]
        share = self.dice.random()
        return choices.Crash(process, tuple(one for one in sent if self.dice.random() < share))

    # --- the restraint

    def latest(self) -> View:
        chains = [one.chain for one in self.members.values() if one.chain]
        return max((chain[-1] for chain in chains), key=lambda view: view.number)

    def _may_die(self, process: str) -> bool:
        """No view in which somebody is, or may come to be, loses its majority for good."""
        world = self.world
        for name, one in self.members.items():
            is_over = name in world.gone or (name in world.crashed and name not in self.drowsy)
            numbers = () if is_over else (view for view in self._all() if view.number >= one.number)
            for view in numbers:
                left = [
                    member
                    for member in view.members
                    if member in world.left
                    or (member in self.drowsy and member != process)
                    or (member in world.up and member != process)
                ]
                if len(left) < majority(len(view.members)):
                    return False
        return True

    def _all(self) -> list[View]:
        """All views so far, those that were proposed among them."""
        found = [view for one in self.members.values() for view in one.chain]
        for one in self.members.values():
            if one.acceptor.vote is not None:
                found.append(one.acceptor.vote.view)
            if one.proposer.proposed is not None:
                found.append(one.proposer.proposed.vote.view)
        return found


def _at(view: View, origin: str) -> int:
    return dict(view.cut).get(origin, -1)


def what_is_wrong(run: Run) -> list[Verdict]:
    """Violated, or unknown for another reason than that nothing was owed."""
    return [
        one
        for one in judge(run)
        if one.value is Value.VIOLATED or (one.value is Value.UNKNOWN and not one.not_owed)
    ]


def hold_everything(seeds: Iterable[int]) -> Counter[str]:
    """Every run must settle, in one chain of views, and hold all guarantees."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        changing = ChangingRun(seed)
        try:
            run = changing.play()
        except (AssertionError, UsageError) as fault:
            raise AssertionError(f"seed {seed}: {fault}") from fault
        wrong = what_is_wrong(run)
        assert not wrong, f"seed {seed}: {wrong[0]}"
        _all_are_there(changing, seed)
        happened += changing.happened + what_happened(changing, run)
        happened["runs"] += 1
    return happened


def _all_are_there(changing: ChangingRun, seed: int) -> None:
    """All that live are in the last view, if they belong there, or have left."""
    last = changing.latest()
    for name, one in changing.members.items():
        if name in changing.world.up and name not in changing.world.left and one.number >= 0:
            assert one.number == last.number, f"seed {seed}: {name} stays in view {one.number}"
            assert not one.is_wedged, f"seed {seed}: {name} is wedged in view {one.number}"
            if all(member in changing.world.up for member in last.members):
                assert not one.formers.logs, f"seed {seed}: {name} keeps {one.formers.logs}"


def what_happened(changing: ChangingRun, run: Run) -> Counter[str]:
    happened: Counter[str] = Counter()
    happened["rival proposals"] += sum(len(some) > 1 for some in changing.ballots.values())
    members = ordered(changing.members)
    chain = max((changing.members[name].chain for name in members), key=len)
    happened["views"] += max(len(chain) - 1, 0)
    happened["newcomers"] += sum(bool(view.added) for view in chain)
    before = chain[0].members if chain else ()
    for view in chain[1:]:
        happened["no change"] += view.members == before
        before = view.members
    happened["left"] += len(changing.world.left)
    born: dict[object, int] = {}
    arrived: set[object] = set()
    for process in members:
        here = 0
        for row in run.histories.get(process, ()):
            if row.kind in ("view", "join"):
                assert row.view is not UNSET
                here = row.view
            elif row.kind == "broadcast":
                born[row.message] = here
                happened["broadcasts"] += 1
    for process in members:
        here = 0
        for row in run.histories.get(process, ()):
            if row.kind in ("view", "join"):
                assert row.view is not UNSET
                here = row.view
            elif row.kind == "deliver" and row.message not in arrived:
                arrived.add(row.message)
                happened["rebound messages"] += here != born[row.message]
    void = [one for one in born if one not in arrived and one[0] in changing.world.left]  # type: ignore[index]
    happened["void messages"] += len(void)
    return happened
