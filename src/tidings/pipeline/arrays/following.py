"""How far an exchange is: its tasks leave marks, which a ``Progress`` counts."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tidings.pipeline.arrays.perform import Exchange, Parcel, Stage
from tidings.pipeline.progress import Progress, leave_marks

MARKS = 1 << 16
"""All tasks of an exchange together leave so many."""


def followed(exchange: Exchange, progress: Progress, folder: Path) -> Exchange:
    """The same exchange, whose tasks leave marks; if it is used again, the stage begins again."""
    times = itertools.count()

    def follow(
        items: Sequence[Any], pack: Callable[[Any], Iterable[Parcel]], stages: Sequence[Stage]
    ) -> list[Parcel]:
        if time := next(times):
            progress.once_more()
        marks = folder / str(time)
        progress.expect_marks(marks, MARKS)
        # To read the rows is half of it, and the first to get them do nearly all the rest.
        of_item, of_place = (round(MARKS / 2 / n) for n in (len(items), stages[0].places))
        first = stages[0]._replace(work=Marking(stages[0].work, str(marks), of_place))
        return exchange(items, Marking(pack, str(marks), of_item), [first, *stages[1:]])

    return follow


class Marking:
    """Work at an item or at a place, which leaves so many marks when it is done."""

    def __init__(self, work: Callable[..., Iterable[Parcel]], folder: str, marks: int) -> None:
        self.work, self.folder, self.marks = work, folder, marks

    def __call__(self, *on: Any) -> Iterator[Parcel]:
        yield from self.work(*on)
        leave_marks(self.folder, self.marks)
