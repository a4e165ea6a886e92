"""Chance, time and unique names for files that draw, look and invent on their own.

A run must be the same when it is run again, so such a file gets other modules than it asks for:

- ``random`` draws through the process's ``choose``: the seed decides it, the schedule records it
  and the explorer branches on it. ``random()`` knows a hundred numbers, from 0.005 to 0.995;
  seeds are ignored.
- ``time`` tells the process's own time, the same as ``ctx.time()``, and does not sleep.
- ``uuid.uuid1`` and ``uuid.uuid4`` give names that are unique, and always the same.

They work while a process acts. Elsewhere (while the file is loaded, or in a Process of our kind,
which has ``self.choose`` and no clock) they refuse.
"""

import uuid
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from tidings.guests.anysystem.api import checked_time, module_with

Item = TypeVar("Item")


class Acting(Protocol):
    """The process whose handler is running."""

    def draw(self, size: int) -> int:
        """A number below ``size``, each as likely as any other."""

    def time_s(self) -> float | None:
        """What its clock says, if it has one."""

    def unique(self) -> str:
        """A name that no process has been given before."""


_acting: list[Acting] = []


@contextmanager
def acting(process: Acting) -> Iterator[None]:
    _acting.append(process)
    try:
        yield
    finally:
        _acting.pop()


def _who(what: str) -> Acting:
    if not _acting:
        raise RuntimeError(f"{what}: no run could be repeated; a Process draws with self.choose")
    return _acting[-1]


_BASE = 1_000


def _below(size: int) -> int:
    """Large numbers are drawn in parts, so that nobody has to list a million outcomes."""
    if size < 1:
        raise ValueError("there is nothing to draw from")
    who = _who("chance")
    if size <= _BASE:
        return who.draw(size)
    drawn, range_of_drawn = 0, 1
    while range_of_drawn < size:
        drawn, range_of_drawn = drawn * _BASE + who.draw(_BASE), range_of_drawn * _BASE
    return drawn * size // range_of_drawn


class Random:
    """The module's functions, and what ``random.Random(seed)`` gives."""

    def __init__(self, seed: object = None) -> None:
        pass

    def seed(self, seed: object = None) -> None:
        pass

    def random(self) -> float:
        return (_below(100) + 0.5) / 100

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[_below(len(numbers))]

    def randint(self, low: int, high: int) -> int:
        return self.randrange(low, high + 1)

    def getrandbits(self, bits: int) -> int:
        return _below(2**bits)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[_below(len(items))]

    def choices(
        self, items: Sequence[Item], weights: Sequence[float] | None = None, *, k: int = 1
    ) -> list[Item]:
        return [items[self._weighed(weights or [1] * len(items))] for _ in range(k)]

    def _weighed(self, weights: Sequence[float]) -> int:
        left = self.random() * sum(weights)
        for position, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return position
        raise ValueError("the weights add up to nothing")

    def sample(self, items: Sequence[Item], k: int) -> list[Item]:
        left = list(items)
        return [left.pop(_below(len(left))) for _ in range(k)]

    def shuffle(self, items: MutableSequence[Item]) -> None:
        items[:] = self.sample(items, len(items))


_DICE = Random()


def _now() -> float:
    return checked_time(_who("a clock").time_s())


def _now_ns() -> int:
    return round(_now() * 1e9)


def _sleep(seconds: float) -> None:
    raise RuntimeError("a process does not sleep: set a timer")


def _unique(*_: Any) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, _who("a unique name").unique())


_CONTENTS: dict[str, dict[str, Any]] = {
    "random": {
        **{name: getattr(_DICE, name) for name in vars(Random) if not name.startswith("_")},
        "Random": Random,
        "SystemRandom": Random,
    },
    "time": {
        **dict.fromkeys(("time", "monotonic", "perf_counter"), _now),
        **dict.fromkeys(("time_ns", "monotonic_ns"), _now_ns),
        "sleep": _sleep,
    },
    "uuid": {**vars(uuid), "uuid1": _unique, "uuid4": _unique},
}
MODULES = {name: module_with(name, contents) for name, contents in _CONTENTS.items()}
