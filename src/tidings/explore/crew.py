"""Those who search, level by level: one in this process, then several in processes of their own.

One begins. When there is enough to do, it is copied, and each copy takes a part of the level. The
workers share the table of states seen. A state belongs to whoever saw it first; when one has
much less to do than the others, states are handed over as the ways that lead to them. What a
worker assumes about its processes is told to all others (reactions.py).
"""

import mmap
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from multiprocessing.connection import Connection, wait
from typing import Any

import msgspec

from tidings.explore.branch import Branch, Property, Way
from tidings.explore.expand import Explorer, RestlessError
from tidings.explore.reactions import Expectation

TICK_SECONDS = 0.2
UNEVEN = 1.3
"""States are handed over when somebody has this many times the mean."""
MOST_SLOTS = 2**28
"""Two gigabytes, of which only what is used takes memory."""
FIRST_SLOTS = 2**18
FULLEST = 0.6


class Seen:
    """The numbers of all states met so far, in memory that all workers share.

    An open table of 64-bit words; 0 is a free place. One worker at a time fills a place, so that
    each state is new to exactly one of them. They look without a lock: what is there stays there.
    """

    def __init__(self, slots: int = FIRST_SLOTS) -> None:
        self._filling = multiprocessing.get_context("fork").Lock()
        self._memory = mmap.mmap(-1, 8 * MOST_SLOTS)
        self._words = memoryview(self._memory).cast("Q")
        self.slots = slots

    def add(self, number: int) -> bool:
        """Whether the number is new; from now on it is not."""
        words, mask = self._words, self.slots - 1
        place = number & mask
        while (word := words[place]) != number:
            if word:
                place = (place + 1) & mask
                continue
            with self._filling:
                if words[place] == 0:  # and not filled by another since we looked
                    words[place] = number
                    return True
        return False

    def room(self) -> int:
        """How many numbers may be in it before it becomes slow."""
        return int(self.slots * FULLEST)

    def grow(self) -> bool:
        """Four times the places, while nobody else adds anything; False if there can be no more."""
        if self.slots == MOST_SLOTS:
            return False
        kept = [word for word in self._words[: self.slots] if word]
        self._words[: self.slots] = memoryview(bytes(8 * self.slots)).cast("Q")
        self.slots = min(4 * self.slots, MOST_SLOTS)
        for word in kept:
            self.add(word)
        return True

    def close(self) -> None:
        self._words.release()
        self._memory.close()


class Count(msgspec.Struct):
    """How far a worker is."""

    states: int = 0
    transitions: int = 0
    settled: int = 0
    owed: int = 0
    pruned: bool = False
    """Whether states were not expanded because something was broken in them."""
    restless: bool = False
    """Whether there are states of which nobody can say that they come to rest."""
    left: int = 0
    """States of this level still to be expanded."""
    next: int = 0
    memory_mb: int = 0
    expectations: tuple[Expectation, ...] = ()


class Worker:
    """One of those who search: it expands the states of a level and keeps those it saw first."""

    def __init__(self, explorer: Explorer, seen: Seen) -> None:
        self.explorer = explorer
        self.seen = seen
        self.level: list[Branch] = []
        self.next: list[Branch] = []
        self.fresh: set[int] = set()
        """The numbers of the states of the next level, as far as they were first seen here."""
        self.found: dict[Property, Branch] = {}
        self.count = Count()
        for branch in explorer.first():
            self._take_in(branch, self.level)

    def expand(self, room: int, slots: int) -> Iterator[tuple[bool, Count]]:
        """Work until the level is done, or ``room`` states are added; tell now and then how far it
        is, and whether that is all. The table has ``slots`` places by now.
        """
        self.seen.slots = slots
        most = self.count.states + room
        done = False
        while not done:
            until = time.monotonic() + TICK_SECONDS
            while not done and time.monotonic() <= until:
                if self.level:
                    self._expand(self.level.pop())
                done = not self.level or self.count.states >= most
            yield (
                done,
                msgspec.structs.replace(
                    self.count,
                    left=len(self.level),
                    next=len(self.next),
                    memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                    expectations=tuple(self.expectations()),
                ),
            )

    def _expand(self, branch: Branch) -> None:
        is_settled = self.explorer.is_settled(branch)
        if is_settled:
            self._settle(branch)
        leads_back = False
        for child in self.explorer.following(branch):
            self.count.transitions += 1
            leads_back |= not self._take_in(child, self.next)
        if leads_back and not is_settled:
            # Every circle of states has one that leads back to this level, or an earlier one.
            try:
                circle = self.explorer.circle_after(branch)
            except RestlessError:
                self.count.restless = True
            else:
                if circle is not None:
                    self._settle(circle)

    def _settle(self, branch: Branch) -> None:
        ending = self.explorer.at_the_end(branch)
        self.count.settled += 1
        self.count.owed += ending.is_owed
        for what in ending.broken:
            self._find(what, branch)

    def _take_in(self, branch: Branch, where: list[Branch]) -> bool:
        """Whether the state is new, or at least of the next level; or broken, and so an end."""
        if branch.broken:
            self.count.pruned = True
            for what in branch.broken:
                self._find(what, branch)
            return True
        number = self.explorer.signatures.number(branch.total())
        if self.seen.add(number):
            self.count.states += 1
            self.fresh.add(number)
            where.append(branch)
        return number in self.fresh

    def _find(self, what: Property, branch: Branch) -> None:
        """Of several ways to break something, keep one of the shortest, the same every time."""
        self.found[what] = min(self.found.get(what, branch), branch, key=_rank)

    def turn(self) -> None:
        """The next level becomes the level; what was met first is expanded first."""
        self.level, self.next = self.next[::-1], []
        self.fresh.clear()

    def ways(self) -> dict[Property, Way]:
        """One of the shortest ways to break each thing that was broken."""
        return {what: branch.way() for what, branch in self.found.items()}

    # --- sharing the work with others

    def become_one_of(self, workers: int, place: int) -> None:
        """Of what was done so far the first of them keeps account; the level is parted."""
        self.level = self.level[place::workers]
        if place > 0:
            self.found, self.count = {}, Count()

    def give(self, count: int) -> list[Way]:
        """The ways to some states of the next level, which are somebody else's from now on."""
        self.count.states -= count
        return [self.next.pop().way() for _ in range(count)]

    def take(self, ways: Sequence[Way]) -> None:
        self.count.states += len(ways)
        self.next += map(self.explorer.at_the_end_of, ways)

    def expectations(self) -> list[Expectation]:
        """What has been assumed since this was last asked."""
        expected, self.explorer.reactions.expectations = self.explorer.reactions.expectations, []
        return expected

    def learn(self, expectations: Sequence[Expectation]) -> list[Expectation]:
        """What the others assume; what has to be assumed here for it."""
        self.explorer.reactions.learn(expectations)
        return self.expectations()


def _rank(branch: Branch) -> tuple[int, bytes]:
    return branch.length, msgspec.json.encode(branch.schedule_so_far())


class Crew:
    """The worker here, or several, each in a process of its own and asked through a pipe."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ends: list[Connection[Any, Any]] = []
        self._people: list[multiprocessing.context.ForkProcess] = []

    @property
    def is_alone(self) -> bool:
        return not self._ends

    def split(self, workers: int) -> None:
        """Go on with several workers, between two levels."""
        self._worker.expectations()  # those who are copied now know all of them
        context = multiprocessing.get_context("fork")
        for place in range(workers):
            here, there = context.Pipe()
            person = context.Process(
                target=_serve, args=(there, self._worker, place, workers), daemon=True
            )
            person.start()
            there.close()
            self._ends.append(here)
            self._people.append(person)

    def expand(self, room: int) -> Iterator[Sequence[Count]]:
        """Work until the level is done or the table full; tell now and then how far it is."""
        slots = self._worker.seen.slots
        if self.is_alone:
            yield from ([count] for _, count in self._worker.expand(room, slots))
            return
        for end in self._ends:
            end.send((Worker.expand, max(1, room // len(self._ends)), slots))
        counts = [Count()] * len(self._ends)
        news: list[list[Expectation]] = [[] for _ in self._ends]
        busy = set(self._ends)
        while busy:
            ready = wait(list(busy), timeout=TICK_SECONDS)
            for place, end in enumerate(self._ends):
                if end in ready:
                    done, counts[place] = self._answer(end)
                    news[place] += counts[place].expectations
                    busy -= {end} if done else set()
            yield counts
        self._share_expectations(news)
        self._share_work([count.next for count in counts])

    def _answer(self, end: Connection) -> Any:
        try:
            answer = end.recv()
        except EOFError:
            raise RuntimeError("a worker died; it may have run out of memory") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _ask(self, end: Connection, question: Callable[..., Any], *words: Any) -> Any:
        end.send((question, *words))
        return self._answer(end)

    def _ask_all(self, question: Callable[[Worker], Any]) -> list[Any]:
        if self.is_alone:
            return [question(self._worker)]
        return [self._ask(end, question) for end in self._ends]

    def _share_expectations(self, news: list[list[Expectation]]) -> None:
        """Tell everybody what the others assume, until nobody learns anything new from it."""
        while any(news):
            news = [
                self._ask(end, Worker.learn, [*chain(*news[:place], *news[place + 1 :])])
                for place, end in enumerate(self._ends)
            ]

    def _share_work(self, sizes: list[int]) -> None:
        mean = sum(sizes) / len(sizes)
        if max(sizes) <= UNEVEN * mean + len(sizes):
            return
        spare: list[Way] = []
        for end, size in zip(self._ends, sizes, strict=True):
            if size > mean:
                spare += self._ask(end, Worker.give, int(size - mean))
        for end, size in zip(self._ends, sizes, strict=True):
            lacking = max(0, round(mean - size))
            self._ask(end, Worker.take, spare[:lacking])
            spare = spare[lacking:]
        self._ask(self._ends[0], Worker.take, spare)

    def turn(self) -> None:
        """Begin the next level."""
        self._ask_all(Worker.turn)

    def found(self) -> dict[Property, Way]:
        """One of the shortest ways to break each thing that was broken."""
        best: dict[Property, Way] = {}
        for ways in self._ask_all(Worker.ways):
            for what, way in ways.items():
                best[what] = min(best.get(what, way), way, key=lambda way: len(way.moves))
        return best

    def close(self) -> None:
        for end in self._ends:
            end.close()
        for person in self._people:
            person.terminate()
            person.join()


def _serve(end: Connection, worker: Worker, place: int, workers: int) -> None:
    """What a worker's process does: answer, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who was asked to stop stops us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever else it means where we come from
    worker.become_one_of(workers, place)
    try:
        while True:
            question, *words = end.recv()
            answers = question(worker, *words)
            for answer in answers if question is Worker.expand else [answers]:
                end.send(answer)
    except (EOFError, BrokenPipeError):
        return
    except Exception as fault:
        end.send(fault)
