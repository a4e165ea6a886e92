"""How work is handed out, wherever it is done: Spark's workers, or right here."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Perform = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Does a task for each item of a list, and returns what came of each, in order."""


def plainly(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest Perform: here, one after the other."""
    return [task(item) for item in items]


def in_bundles(items: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """Neighbours together, in at most so many bundles of about the same size."""
    count = min(len(items), most)
    return [items[len(items) * n // count : len(items) * (n + 1) // count] for n in range(count)]


class Parcel(NamedTuple):
    """Something for whoever works at a place."""

    place: int
    content: Any


class Stage(NamedTuple):
    """Work at each place that got anything, with all that it got, in any order."""

    places: int
    """They are numbered from 0."""
    tasks: int
    """Neighbouring places share a task if there are fewer of these."""
    work: Callable[[int, list[Any]], Iterable[Parcel]]


Exchange = Callable[
    [Sequence[Any], Callable[[Any], Iterable[Parcel]], Sequence[Stage]], list[Parcel]
]
"""Makes parcels of each item of a list, and sends them through the stages; returns the last."""


def exchanged_plainly(
    items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
) -> list[Parcel]:
    """The simplest Exchange: here, one after the other."""
    parcels = [parcel for item in items for parcel in pack(item)]
    for stage in stages:
        arrived: dict[int, list[Any]] = {}
        for place, content in parcels:
            arrived.setdefault(place, []).append(content)
        parcels = [
            parcel for place in sorted(arrived) for parcel in stage.work(place, arrived[place])
        ]
    return parcels
