"""The same adversary with links as TCP has them: they lose nothing in silence, but they break.

Both ends hear that a link is down, one of them perhaps much later; what was under way is gone, and
nothing passes until it is up again. A process that crashes takes its links with it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from frontier_adversary import Adversary, WatchedWorld
from tidings.core import Effect, Event, LinkDown, LinkUp, Send
from tidings.protocols.frontier import Frontier
from tidings.simulator import until_quiet
from tidings.spec import Value, judge
from tidings.trace import Row

Pair = tuple[str, str]


class BreakingWorld(WatchedWorld):
    def __init__(self, *args: Any, **options: Any) -> None:
        self.broken: set[Pair] = set()
        self.unaware: list[Pair] = []
        """Who has yet to hear that its link to whom is down."""
        super().__init__(*args, **options)

    def _perform(self, process: str, event: Event, effect: Effect) -> None:
        super()._perform(process, event, effect)
        if isinstance(effect, Send):
            self._lose_what_is_on_broken_links()

    def _lose_what_is_on_broken_links(self) -> None:
        for packet in [one for one in self.in_flight if pair(*one.link) in self.broken]:
            del self.in_flight[packet]

    def _crash(self, process: str, lost: Any) -> None:
        super()._crash(process, lost)
        for packet in [one for one in self.in_flight if one.link.sender == process]:
            del self.in_flight[packet]
        self.unaware += [(other, process) for other in self.up]

    def _links_of(self, process: str) -> Any:
        self.unaware = [one for one in self.unaware if process not in one]
        return (link for link in super()._links_of(process) if pair(*link) not in self.broken)

    def bring_down(self, one: str, other: str) -> list[Row]:
        self.broken.add(pair(one, other))
        self._lose_what_is_on_broken_links()
        self.unaware += [(one, other), (other, one)]
        return self._rows_so_far()

    def hear(self, number: int) -> list[Row]:
        """Somebody learns that its link is down."""
        self._hear(number)
        return self._rows_so_far()

    def _hear(self, number: int) -> None:
        process, peer = self.unaware.pop(number)
        if process not in self.crashed:
            self._step(process, LinkDown(peer))

    def bring_up(self, one: str, other: str) -> list[Row]:
        """Those that had not heard that it was down hear of it first."""
        for number in reversed(range(len(self.unaware))):
            if pair(*self.unaware[number]) == pair(one, other):
                self._hear(number)
        self.broken.discard(pair(one, other))
        if not self.crashed.intersection((one, other)):
            for process, peer in ((one, other), (other, one)):
                self._step(process, LinkUp(peer, self._identities.get(peer, 0)))
        return self._rows_so_far()

    def _rows_so_far(self) -> list[Row]:
        rows, self._rows, self._draws = self._rows, [], []
        return rows


def pair(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)


class Breaking(Adversary):
    world_kind = BreakingWorld

    def __init__(self, seed: int) -> None:
        super().__init__(seed, links="retrying")
        self.weights[self.cut_or_heal] = self.dice.choice([1, 4, 10])
        self.weights[self.hear] = self.dice.choice([1, 6])

    @property
    def links(self) -> BreakingWorld:
        assert isinstance(self.world, BreakingWorld)
        return self.world

    def cut_or_heal(self) -> None:
        one, other = self.dice.sample(self.members, 2)
        is_broken = pair(one, other) in self.links.broken
        self.happened["links up" if is_broken else "links down"] += 1
        self.rows += (self.links.bring_up if is_broken else self.links.bring_down)(one, other)

    def hear(self) -> None:
        if self.links.unaware:
            self.rows += self.links.hear(self.dice.randrange(len(self.links.unaware)))

    def calm_down(self) -> None:
        for one, other in sorted(self.links.broken):
            self.rows += self.links.bring_up(one, other)
            for _ in range(self.dice.choice([0, 0, 10, 50])):
                self.dice.choice([self.arrive, self.arrive, self.arrive, self.time_out])()
        while self.links.unaware:
            self.hear()
        for choice in until_quiet(self.world):
            self.do(choice)


def survive_broken_links(seeds: Iterable[int]) -> Counter[str]:
    """All five hold, and nothing is left to do; with everybody up all is stable."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        adversary = Breaking(seed)
        for verdict in judge(adversary.run()):
            assert verdict.value is Value.HOLDS, f"seed {seed}: {verdict}"
        world = adversary.world
        assert not world.timers, f"seed {seed}: {list(world.timers)}"
        if not world.crashed:
            for process in world.processes.values():
                assert isinstance(process, Frontier)
                assert process.knowledge.stable == process.log.held, f"seed {seed}: {process.me}"
        happened += adversary.happened
        happened["runs"] += 1
    return happened
