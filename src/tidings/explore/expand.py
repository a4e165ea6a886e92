"""From one state to the next ones: everything that may happen, minus what need not be tried."""

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice, permutations
from typing import Any, NamedTuple

import msgspec

from tidings.core import Receive, UsageError, take_first
from tidings.core.renaming import Names
from tidings.explore.branch import Arrivals, Branch, Property, Way
from tidings.explore.reactions import Reactions, Signatures
from tidings.explore.scope import Reduction, Scope
from tidings.guests import factory
from tidings.guests.diagnosis import ProcessFault
from tidings.protocols import Factory
from tidings.simulator import World, choices
from tidings.simulator.choices import Choice, Schedule
from tidings.simulator.failure import ANOTHER_TIME
from tidings.simulator.play import recorded, replay, until_quiet
from tidings.spec import Guarantee, Value, broken, judge
from tidings.trace import Run, digest

MOST_RENAMED = 4
"""Up to how many members are exchanged: 24 ways; five would have 120, which costs more than it
saves."""


class Completion(Enum):
    """How a way to a state is made into a run."""

    CUT = "it stops there"
    SETTLE = "nothing more comes"
    QUIET_AND_SETTLE = "what is under way arrives, then nothing more comes"


class Ending(NamedTuple):
    """What a settled state says of Validity and Uniform Agreement."""

    broken: tuple[Property, ...]
    is_owed: bool
    """Whether anything was owed to anybody: where nothing was, nothing is shown."""


class Explorer:
    """Knows a scope: its first state, what follows each state, and what is wrong with a state."""

    def __init__(
        self, scope: Scope, reductions: frozenset[Reduction], lively: frozenset[str] = frozenset()
    ) -> None:
        """Packets of ``lively`` kinds are never taken for inert."""
        scope.check()
        self.scope = scope
        self.reductions = reductions
        self.lively = lively
        self.factory: Factory = factory(scope.protocol, scope.options)
        specimen = self.factory(scope.members[0], scope.members, take_first)
        if scope.joiners and not specimen.grows:
            raise UsageError(f"{scope.protocol} has a fixed group; nobody can join")
        if scope.changes and not specimen.changes:
            raise UsageError(f"{scope.protocol} has a fixed group; nobody can change it")
        if scope.restarts and not specimen.recovers:
            raise UsageError(f"a process of {scope.protocol} cannot come back: it keeps no disk")
        is_symmetric = Reduction.SYMMETRY in reductions and specimen.indifferent
        self.signatures = Signatures(self._renamings() if is_symmetric else [])
        self.reactions = Reactions(self.signatures)
        self._ends: dict[Any, Ending] = {}
        self._ends_in_rest: set[int] = set()
        """Numbers of states from which the group comes to rest, round by round."""

    def _renamings(self) -> list[Names]:
        """Every exchange of the members' names but the one that changes nothing."""
        members = self.scope.members
        if len(members) > MOST_RENAMED:
            return []
        _, *exchanges = permutations(members)
        return [
            dict(zip(members, names, strict=True))
            | {newcomer: newcomer for newcomer in self.scope.newcomers}
            for names in exchanges
        ]

    def first(self) -> Iterator[Branch]:
        """The states in which the group may start: one, unless its processes draw as they do."""
        openings: list[tuple[int, ...]] = [()]
        while openings:
            branch = self._start(openings.pop())
            openings += branch.other_ways()
            yield branch

    def _start(self, opening: tuple[int, ...]) -> Branch:
        return Branch(self.scope, self.factory, self.reactions, self.signatures, opening)

    def at_the_end_of(self, way: Way) -> Branch:
        branch = self._start(way.opening)
        branch.retrace(way.moves)
        return branch

    # --- what comes next

    def following(self, branch: Branch) -> Iterator[Branch]:
        """Every state that one choice leads to from here, or stands for those that it leads to."""
        for choice in self._worth_trying(branch):
            for child in self._after(branch, choice):
                if Reduction.INERT in self.reductions and not child.broken:
                    self._ignore_what_is_ignored(child, branch)
                yield child

    def _after(self, branch: Branch, choice: Choice) -> Iterator[Branch]:
        yield from branch.after(choice)
        if self.scope.restarts and branch.crashes < self.scope.crashes:
            for process in branch.touched_by(choice):
                yield from branch.torn(choice, process)

    def _worth_trying(self, branch: Branch) -> Iterator[Choice]:
        arrivals = branch.arrivals()
        speaker = self._speaker(branch, arrivals)
        heard = [speaker] if speaker is not None else arrivals
        packets = [packet for process in heard for packet in arrivals[process].values()]
        yield from map(choices.PacketArrival, packets)
        if speaker is None:
            if branch.duplicates < self.scope.duplicates:
                yield from map(choices.Duplicate, packets)
            yield from self._worth_crashing(branch)

    def _worth_crashing(self, branch: Branch) -> Iterator[Choice]:
        """All news; but of a process to which nothing has just happened, no crash.

        It has crashed right after something did, and then happened what has happened since to
        others: that led to the same state. (What they sent to it is lost, sooner or later; and what
        it had sent may arrive or not, before or after.)
        """
        touched = branch.touched if Reduction.CRASH in self.reductions else None
        for choice in branch.news():
            if isinstance(choice, choices.Crash) and touched is not None:
                if choice.process in touched:
                    yield choice
            else:
                yield choice

    def _ignore_what_is_ignored(self, child: Branch, parent: Branch) -> None:
        """Receive every packet that will never make a difference; the parent has done so."""
        known, was = parent.in_flight, parent.processes
        for packet, found in list(child.in_flight.items()):
            sender, receiver = packet.link
            process = child.processes[receiver]
            is_news = packet not in known or process is not was.get(receiver)
            if (
                is_news
                and found.content.kind not in self.lively
                and self.reactions.ignores(process, sender, found.content)
            ):
                child.go(choices.PacketArrival(packet), inert=True)

    def _speaker(self, branch: Branch, arrivals: Arrivals) -> str | None:
        """The one process whose receipts need be tried now, if there is one.

        When users, timers and faults are done, and all processes but one can receive whatever
        is under way in any order without sending anything, then what happens to them commutes
        with what happens to that one, and may come after it.
        """
        is_tried = Reduction.ORDER in self.reductions and arrivals
        if not is_tried or branch.may_time_out_early() or branch.budget_left():
            return None
        heard: dict[str, list[Receive]] = {}
        for packet in branch.in_flight:
            heard.setdefault(packet.link.receiver, []).append(branch.received(packet))
        speakers = [
            process
            for process, arriving in heard.items()
            if not self.reactions.is_mute(branch.processes[process], arriving)
        ]
        if len(speakers) > 1 or any(
            # It could go on for ever, and the others would never have their turn.
            self.reactions.speaks_to_itself(branch.processes[one], heard[one])
            for one in speakers
        ):
            return None
        # What a crashed process left behind may never arrive, so it cannot be waited for.
        bound_to_hear = (
            process
            for process in speakers or sorted(arrivals)
            if any(map(branch.must_arrive, arrivals[process].values()))
        )
        return next(bound_to_hear, None)

    # --- what is wrong

    def is_settled(self, branch: Branch) -> bool:
        """Nothing is under way, and a round in which every timer runs out changes nothing."""
        if not branch.is_quiet():
            return False
        if not branch.timers:
            return True
        try:
            twin = next(self._rounds(branch))
        except ProcessFault:
            return False  # it is told where the search comes to it
        return not twin.outcomes and twin.total() == branch.total()

    def circle_after(self, branch: Branch) -> Branch | None:
        """A state to which the group comes back again and again, if it never comes to rest.

        Everything that must arrive arrives, and every timer runs out, round by round: what is not
        delivered by the time a state recurs is never delivered.
        """
        drawn: dict[int, int] = {}
        try:
            for twin in islice(self._rounds(branch), MOST_ROUNDS):
                number = self.signatures.number(twin.total())
                if number in self._ends_in_rest or self.is_settled(twin):
                    self._ends_in_rest |= drawn.keys()
                    return None
                if drawn.get(number) == len(twin.outcomes):
                    return twin
                if number in drawn:
                    break  # it draws on its way round: the dice may yet fall otherwise
                drawn[number] = len(twin.outcomes)
        except ProcessFault:
            return None  # it is told where the search comes to it
        raise RestlessError

    def _rounds(self, branch: Branch) -> Iterator[Branch]:
        """What becomes of the group by itself, round by round."""
        twin = branch.fork()
        while True:
            for timer in list(twin.timers):
                if timer in twin.timers:
                    twin.go(choices.TimerExpiry(*timer))
            for packet in list(twin.in_flight):
                if packet in twin.in_flight and twin.must_arrive(packet):
                    twin.go(choices.PacketArrival(packet))
            twin.early_timeouts = branch.early_timeouts
            yield twin

    def at_the_end(self, branch: Branch) -> Ending:
        """Validity and Uniform Agreement in a settled state, as the specification judges them.

        They depend on who crashed and on who broadcast and delivered what, so states that have
        this in common are judged once.
        """
        key = (branch.judged, frozenset(branch.crashed), frozenset(branch.left.items()))
        known = self._ends.get(key)
        if known is None:
            run = self._run_of(branch, Completion.SETTLE)
            verdicts = judge(run)
            violated = tuple(one.guarantee for one in verdicts if one.value is Value.VIOLATED)
            is_owed = any(one.judged for one in verdicts if one.guarantee in LIVENESS)
            known = self._ends[key] = Ending(violated, is_owed)
        return known

    def run_that_breaks(self, what: Property, way: Way) -> Run:
        """The way as a run of an ordinary world, no longer than the specification needs it.

        Safety is broken the moment it is. That something will never come can be said of a run
        that has settled; and so can that nobody broadcast what was delivered.
        """
        end = self.at_the_end_of(way)
        for ending in Completion:
            run = self._run_of(end, ending)
            if broken(run, what, self.scope.max_packets) is not None:
                return run
        raise AssertionError(f"the specification does not see {what} broken by {way}")

    def once_more(self, fault: ProcessFault) -> ProcessFault:
        """The same fault in an ordinary world, which keeps an account of what happened."""
        try:
            replay(self._world(fault.schedule, fault.schedule[0].draws), fault.schedule)
        except ProcessFault as again:
            return again
        fault.add_note(ANOTHER_TIME)
        return fault

    def _world(self, schedule: Schedule, draws: Iterable[int]) -> World:
        """An ordinary world, named after the scope and what will happen in it.

        ``draws`` begin with what its processes draw as they start.
        """
        identity = msgspec.json.encode((self.scope, schedule), order="deterministic")
        drawn = iter(draws)
        return World(
            digest(identity)[:8],
            self.scope.members,
            self.factory,
            draw=lambda process, label, weights: next(drawn),
        )

    def _run_of(self, branch: Branch, ending: Completion) -> Run:
        # What makes no difference may stay under way, but not for ever.
        schedule = branch.schedule_so_far(with_inert=ending is not Completion.CUT)
        world = self._world(schedule, branch.opening_draws)
        rows = replay(world, schedule)
        if ending is Completion.QUIET_AND_SETTLE:
            for choice in until_quiet(world):
                rows += world.apply(choice)
        if ending is not Completion.CUT:
            rows += world.apply(choices.Settle())
        return recorded(
            world,
            rows,
            protocol=self.scope.protocol,
            options=self.scope.options,
            plan={"explored": msgspec.to_builtins(self.scope)},
        )


LIVENESS = (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT)
MOST_ROUNDS = 1_000
"""After how many rounds nobody waits for a group to come to rest any more."""


class RestlessError(Exception):
    """Nobody can say whether the group comes to rest."""
