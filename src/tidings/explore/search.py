"""Every run in a small scope, breadth first: the first way to break something is a shortest."""

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from tidings.core import UsageError
from tidings.explore.branch import Property, Way
from tidings.explore.crew import Crew, Seen, Worker
from tidings.explore.expand import LIVENESS, Explorer
from tidings.explore.reactions import NotInertError
from tidings.explore.scope import ALL, Reduction, Scope
from tidings.guests.diagnosis import ProcessFault
from tidings.spec import Extra, Guarantee, Value
from tidings.trace import Run

MOST_WORKERS = 64
ENOUGH_FOR_SEVERAL = 2_000
"""How many states a level has before it is shared out: less is done faster by one alone."""


class SearchProgress(msgspec.Struct, frozen=True):
    """How far the search is."""

    states: int = 0
    transitions: int = 0
    settled: int = 0
    """States in which nothing more comes by itself, where liveness was judged."""
    owed: int = 0
    """Those of them in which anything was owed to anybody: the others show nothing."""
    depth: int = 0
    """How many moves away from the start the states are that are being expanded."""
    frontier: int = 0
    """How many states wait to be expanded."""
    memory_mb: int = 0
    seconds: float = 0.0
    pruned: bool = False
    """Whether nobody went on from states in which something is broken already."""
    restless: bool = False
    """Whether there are states of which nobody can say that they come to rest."""

    @property
    def states_per_second(self) -> float:
        return self.states / self.seconds if self.seconds else 0.0


class Explored(msgspec.Struct, frozen=True):
    """What came of it. ``cut`` says why not everything was seen; empty if everything was."""

    scope: Scope
    pace: SearchProgress
    found: Mapping[Property, Run]
    """For each thing that can be broken, one of the shortest runs that break it."""
    cut: str
    reductions: tuple[Reduction, ...]
    lively: tuple[str, ...] = ()
    """Kinds of packets for which the reduction ``inert`` had to be given up."""

    @property
    def properties(self) -> tuple[Property, ...]:
        """What was looked for."""
        extras = [Extra.COST] if self.scope.max_packets is not None else []
        extras += [Extra.REACH] if self.scope.joiners else []
        return (*Guarantee, *extras, *([Extra.VIEWS] if self.scope.changes else []))

    def verdict(self, what: Property) -> Value:
        if what in self.found:
            return Value.VIOLATED
        doubtful = self.cut or self.pace.pruned or (self.pace.restless and what in LIVENESS)
        return Value.UNKNOWN if doubtful else Value.HOLDS


def explore(
    scope: Scope,
    *,
    reductions: frozenset[Reduction] = frozenset(ALL),
    workers: int | None = None,
    keep_going: bool = False,
    most_states: int | None = None,
    progress: Callable[[SearchProgress], None] = lambda now: None,
) -> Explored:
    """Search the scope; stop at the first level where something breaks, unless told to go on.

    With ``most_states`` it ends when there are more, else when memory is full. Ctrl-C ends the
    search early, with what was found so far.
    """
    scope.check()
    workers = (os.cpu_count() or 1) if workers is None else workers
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers takes 1 to {MOST_WORKERS}")
    lively: frozenset[str] = frozenset()
    started = time.monotonic()
    with _uncollected():
        while True:
            explorer = Explorer(scope, reductions, lively)
            search = _Search(explorer, workers, keep_going, most_states, progress, started)
            try:
                return search.run()
            except NotInertError as mistake:
                lively |= {mistake.kind}
            except ProcessFault as fault:
                raise explorer.once_more(fault) from fault
            finally:
                search.close()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: millions of states, none of which refers to itself."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Search:
    def __init__(
        self,
        explorer: Explorer,
        workers: int,
        keep_going: bool,
        most_states: int | None,
        progress: Callable[[SearchProgress], None],
        started: float,
    ) -> None:
        self.explorer = explorer
        self.keep_going = keep_going
        self.most_states = most_states
        self.progress = progress
        self.started = started
        self.pace = SearchProgress()
        self.ways: dict[Property, Way] = {}
        """How to break what can be broken, as far as the levels that are done show it."""
        self.seen = Seen()
        self.workers = workers
        self.crew = Crew(Worker(explorer, self.seen))

    def close(self) -> None:
        self.crew.close()
        self.seen.close()

    def run(self) -> Explored:
        try:
            cut = self._search()
        except KeyboardInterrupt:
            cut = "interrupted"
        return Explored(
            scope=self.explorer.scope,
            pace=self.pace,
            found={
                what: self.explorer.run_that_breaks(what, way) for what, way in self.ways.items()
            },
            cut=cut,
            reductions=tuple(one for one in ALL if one in self.explorer.reductions),
            lively=tuple(sorted(self.explorer.lively)),
        )

    def _search(self) -> str:
        """Level by level; why it ended early, if it did."""
        deepest = self.explorer.scope.depth
        while True:
            if deepest is not None and self.pace.depth >= deepest:
                return f"not deeper than {deepest} moves"
            if not self._expand_level():
                return f"more than {self.most_states or self.seen.room():,} states"
            self.ways = self.crew.found()
            if self.ways and not self.keep_going:
                return "stopped at the first violation"
            if not self.pace.frontier:
                return ""
            self.crew.turn()
            is_enough = self.workers > 1 and self.pace.frontier >= ENOUGH_FOR_SEVERAL
            if is_enough and self.crew.is_alone:
                self.crew.split(self.workers)
            self.pace = msgspec.structs.replace(self.pace, depth=self.pace.depth + 1)

    def _expand_level(self) -> bool:
        """Whether there was room for all that the level leads to."""
        left = 1
        while left:
            if self.most_states is not None and self.pace.states >= self.most_states:
                return False
            while (room := self.seen.room() - self.pace.states) <= 0:
                if not self.seen.grow():
                    return False
            for counts in self.crew.expand(room):
                left = sum(count.left for count in counts)
                self.pace = SearchProgress(
                    states=sum(count.states for count in counts),
                    transitions=sum(count.transitions for count in counts),
                    settled=sum(count.settled for count in counts),
                    owed=sum(count.owed for count in counts),
                    depth=self.pace.depth,
                    frontier=left + sum(count.next for count in counts),
                    memory_mb=sum(count.memory_mb for count in counts),
                    seconds=time.monotonic() - self.started,
                    pruned=any(count.pruned for count in counts),
                    restless=any(count.restless for count in counts),
                )
                self.progress(self.pace)
        return True
