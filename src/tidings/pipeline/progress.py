"""How far a long job has come, in one line: the stage, the share done, the pace, the time left.

    judging run 7 in pieces: 42 %, 11,300,000 events/s, about 25 s left

Who works says which stage begins, and how much of what there is to do in it. The share that is
done comes from whoever knows it best:

- the worker itself, about things it can count (``done``);
- the tasks of a long run or of a campaign: they leave marks in a folder that they share with us
  anyway. This needs nothing of Spark, which does not tell in advance how many stages follow;
- Spark, which knows how many tasks are done. It may have more of them in store than it tells
  (a query goes stage by stage), so nothing is said of a share or of the time left.

A pace is no promise: if nothing has moved for longer than the rest should have taken, or if
everything is counted and the stage goes on, the line says only how long it has taken so far.

On a cluster, through Connect and on this machine it is the same, but for how Spark is asked.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

QUIET_S = 2.0
"""What takes no longer needs no figures; and nobody knows a pace sooner."""

LEAST_SHARE = 0.05
"""Of less than this nobody can say how long the rest will take."""

TICK_S = 0.5

AGAIN = ", once more where something is wrong"


Show = Callable[[str], None]
"""Called with each line that says how far it is."""
Counts = tuple[int, int]
"""Of the tasks of one job, how many are done, and how many are known."""
Tasks = Callable[[], Mapping[Hashable, Counts]]


class StageProgress(NamedTuple):
    """A stage at some moment."""

    stage: str
    seconds: float
    share: float = 0.0
    total: int = 0
    unit: str = "events"
    tasks: Counts = (0, 0)
    still_s: float = 0.0
    """For so long the share has not risen."""

    @property
    def words(self) -> str:
        if self.seconds < QUIET_S:
            return self.stage
        lasted = f"{math.floor(self.seconds)} s so far"
        if not self.share:
            done, known = self.tasks
            return f"{self.stage}: {lasted}" + f", {done} of {known} known tasks done" * (known > 0)
        left = self.seconds * (1 / self.share - 1)
        is_overdue = self.still_s >= left
        # Rounded down: what is not done is not called 100 %.
        percent = math.floor(100 * min(self.share, 0.99))
        figures = [] if is_overdue and percent == 99 else [f"{percent} %"]
        if self.total:
            figures.append(f"{_rounded(self.total * self.share / self.seconds):,} {self.unit}/s")
        if is_overdue:
            figures.append(lasted)
        elif self.share >= LEAST_SHARE:
            figures.append(f"about {_lasting(left)} left")
        return f"{self.stage}: {', '.join(figures)}"


def _rounded(pace: float) -> int:
    """Three digits: the others change with every look."""
    digits = max(0, math.floor(math.log10(pace)) - 2) if pace >= 1 else 0
    return int(round(pace / 10**digits) * 10**digits)


def _lasting(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds > 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(seconds)} s"


def silent(words: str) -> None:
    """For those who do not want to know."""


class Progress:
    """One line about a long job, shown anew when a stage begins, and every few seconds."""

    def __init__(
        self,
        show: Show = silent,
        every_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._every_s = every_s
        self._clock = clock
        self._tasks: Tasks = dict
        self.name_jobs: Show = silent
        """Called with each stage that begins."""
        self._lock = threading.Lock()
        self._begin("")

    @classmethod
    def of(cls, show: Show) -> "Progress":
        """For those who take any function that shows the stages."""
        return show if isinstance(show, cls) else cls(show)

    def __call__(self, stage: str) -> None:
        """A stage begins."""
        with self._lock:
            self._begin(stage)
            self.name_jobs(stage)
            self._show(stage)

    def _begin(self, stage: str) -> None:
        self._began = self._shown = self._rose = self._clock()
        self._pace = StageProgress(stage, 0.0)
        self._earlier = frozenset(self._tasks())
        self._marks: tuple[Path, int] | None = None

    def expect(self, total: int, unit: str = "events") -> None:
        """So much has to be done in this stage."""
        with self._lock:
            self._pace = self._pace._replace(total=total, unit=unit)

    def done(self, share: float) -> None:
        """So much of this stage is done, for sure."""
        with self._lock:
            self._share(share)

    def expect_marks(self, folder: Path, count: int) -> None:
        """Tasks will leave so many marks in this folder."""
        folder.mkdir(parents=True)
        with self._lock:
            self._marks = folder, count

    def once_more(self) -> None:
        """The same stage begins again: something was wrong, and has to be looked at."""
        stage, total = self._pace.stage.removesuffix(AGAIN), self._pace.total
        self(f"{stage}{AGAIN}")
        self.expect(total)

    def look(self) -> None:
        """See how far it is, and show it if it is time; before the first stage there is nothing."""
        with self._lock:
            if not self._pace.stage:
                return
            self._measure()
            now = self._clock()
            self._pace = self._pace._replace(seconds=now - self._began, still_s=now - self._rose)
            if now - self._began >= QUIET_S and now - self._shown >= self._every_s:
                self._show(self._pace.words)
                self._shown = now

    def _measure(self) -> None:
        if self._marks is not None:
            folder, count = self._marks
            self._share(_marks_in(folder) / max(1, count))
            return
        jobs = [counts for job, counts in self._tasks().items() if job not in self._earlier]
        done, known = (sum(counts) for counts in zip(*jobs, strict=True)) if jobs else (0, 0)
        self._pace = self._pace._replace(tasks=(done, known))

    def _share(self, share: float) -> None:
        # It never falls: what is counted twice and what is counted late has been done once.
        if share > self._pace.share:
            self._pace = self._pace._replace(share=min(1.0, share))
            self._rose = self._clock()

    @contextmanager
    def following(self, source: AbstractContextManager[Tasks] | None = None) -> Iterator[None]:
        """Look again and again while the block lasts, and ask this source for its tasks."""
        is_over = threading.Event()

        def follow() -> None:
            while not is_over.wait(TICK_S):
                self.look()

        follower = threading.Thread(target=follow, name="progress", daemon=True)
        with source or nullcontext(dict) as self._tasks:
            follower.start()
            try:
                yield
            finally:
                is_over.set()
                follower.join()
                self._tasks = dict


def marked(pieces: Iterable[Any], folder: str) -> Iterator[Any]:
    """The same pieces of work; each that was taken and left again makes a mark in a folder."""
    for piece in pieces:
        yield piece
        leave_marks(folder, 1)


def leave_marks(folder: str, count: int) -> None:
    # Who cannot write there works none the worse for it.
    with suppress(OSError), Path(folder, _name_of(os.getpid())).open("ab") as own:
        own.write(bytes(count))


@cache
def _name_of(pid: int) -> str:
    """Nobody else's, even where machines or containers have the same names and process ids."""
    return f"{pid}-{uuid4().hex}"


def _marks_in(folder: Path) -> int:
    """A task that was done again, after its worker died, has left some of its marks twice."""
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except OSError:
        return 0
