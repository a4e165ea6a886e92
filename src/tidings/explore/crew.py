"""Those who search, level by level: one in this process, then several in processes of their own.

One begins. When there is enough to do, it is copied, and each copy takes a part of the level. The
workers share the table of states seen. A state belongs to whoever saw it first; when one has
much less to do than the others, states are handed over as the ways that lead to them. What a
worker assumes about its processes is told to all others (reactions.py).
"""

import multiprocessing
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from tidings.explore.branch import Property, Way
from tidings.explore.reactions import Expectation
from tidings.explore.worker import Worker

TICK_SECONDS = 0.2
UNEVEN = 1.3
"""States are handed over when somebody has this many times the mean."""


class Count(NamedTuple):
    """How far a worker is."""

    states: int = 0
    transitions: int = 0
    settled: int = 0
    left: int = 0
    """States of this level still to be expanded."""
    next: int = 0
    memory_mb: int = 0
    pruned: bool = False
    restless: bool = False
    expectations: tuple[Expectation, ...] = ()


class Crew(Protocol):
    """What the search needs of those who do it."""

    def expand(self, room: int) -> Iterator[Sequence[Count]]:
        """Work until the level is done or the table full; tell now and then how far it is."""

    def turn(self) -> None:
        """Begin the next level."""

    def grown(self, slots: int) -> None:
        """The table has this many places now."""

    def found(self) -> dict[Property, Way]:
        """One of the shortest ways to break each thing that was broken."""

    def close(self) -> None: ...


class Alone:
    """One worker, here."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        worker.begin()

    def joined_by_others(self, workers: int) -> "Together":
        """The same search from here on with several workers, between two levels."""
        self._worker.expectations()  # those who are copied now know all of them
        return Together(self._worker, workers)

    def expand(self, room: int) -> Iterator[Sequence[Count]]:
        most = self._worker.states + room
        done = False
        while not done and self._worker.states < most:
            done = self._worker.expand(TICK_SECONDS, most - self._worker.states)
            yield [_count(self._worker)]

    def turn(self) -> None:
        self._worker.turn()

    def grown(self, slots: int) -> None:
        pass

    def found(self) -> dict[Property, Way]:
        return {what: branch.way() for what, branch in self._worker.found.items()}

    def close(self) -> None:
        pass


def _count(worker: Worker) -> Count:
    return Count(
        worker.states,
        worker.transitions,
        worker.settled,
        len(worker.level),
        len(worker.next),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        worker.pruned,
        worker.restless,
        tuple(worker.expectations()),
    )


class Together:
    """Several workers, each in a process of its own."""

    def __init__(self, worker: Worker, workers: int) -> None:
        context = multiprocessing.get_context("fork")
        self._ends: list[Connection[Any, Any]] = []
        self._people = []
        for place in range(workers):
            here, there = context.Pipe()
            person = context.Process(
                target=_serve, args=(there, worker, place, workers), daemon=True
            )
            person.start()
            there.close()
            self._ends.append(here)
            self._people.append(person)

    def expand(self, room: int) -> Iterator[Sequence[Count]]:
        share = max(1, room // len(self._ends))
        for end in self._ends:
            end.send(("expand", share))
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

    def _ask(self, end: Connection, *question: Any) -> Any:
        end.send(question)
        return self._answer(end)

    def _share_expectations(self, news: list[list[Expectation]]) -> None:
        """Tell everybody what the others assume, until nobody learns anything new from it."""
        while any(news):
            answers = []
            for place, end in enumerate(self._ends):
                others = [one for other, its in enumerate(news) if other != place for one in its]
                answers.append(self._ask(end, "learn", others))
            news = answers

    def _share_work(self, sizes: list[int]) -> None:
        mean = sum(sizes) / len(sizes)
        if max(sizes) <= UNEVEN * mean + len(sizes):
            return
        spare: list[Way] = []
        for end, size in zip(self._ends, sizes, strict=True):
            if size > mean:
                spare += self._ask(end, "give", int(size - mean))
        for end, size in zip(self._ends, sizes, strict=True):
            lacking = max(0, round(mean - size))
            if lacking:
                self._ask(end, "take", spare[:lacking])
                spare = spare[lacking:]
        if spare:
            self._ask(self._ends[0], "take", spare)

    def turn(self) -> None:
        for end in self._ends:
            self._ask(end, "turn")

    def grown(self, slots: int) -> None:
        for end in self._ends:
            self._ask(end, "grown", slots)

    def found(self) -> dict[Property, Way]:
        best: dict[Property, Way] = {}
        for end in self._ends:
            for what, way in self._ask(end, "found").items():
                if what not in best or len(way.moves) < len(best[what].moves):
                    best[what] = way
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
    worker.become_one_of(workers, place)
    try:
        while True:
            verb, *words = end.recv()
            _ANSWERS[verb](end, worker, *words)
    except (EOFError, BrokenPipeError):
        return
    except Exception as fault:
        end.send(fault)


def _expand(end: Connection, worker: Worker, room: int) -> None:
    most = worker.states + room
    done = False
    while not done:
        done = worker.expand(TICK_SECONDS, most - worker.states) or worker.states >= most
        end.send((done, _count(worker)))


def _learn(end: Connection, worker: Worker, expectations: list[Expectation]) -> None:
    worker.explorer.reactions.learn(expectations)
    end.send(worker.expectations())


def _turn(end: Connection, worker: Worker) -> None:
    worker.turn()
    end.send(None)


def _grown(end: Connection, worker: Worker, slots: int) -> None:
    worker.seen.slots = slots
    end.send(None)


def _give(end: Connection, worker: Worker, count: int) -> None:
    end.send(worker.give(count))


def _take(end: Connection, worker: Worker, ways: list[Way]) -> None:
    worker.take(ways)
    end.send(None)


def _found(end: Connection, worker: Worker) -> None:
    end.send({what: branch.way() for what, branch in worker.found.items()})


_ANSWERS: dict[str, Callable[..., None]] = {
    "expand": _expand,
    "learn": _learn,
    "turn": _turn,
    "grown": _grown,
    "give": _give,
    "take": _take,
    "found": _found,
}
