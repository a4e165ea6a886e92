"""Whether a sketch still fails, and whether it is smaller: every attempt is put on trial here."""

from collections.abc import Callable
from typing import NamedTuple

from tidings.core import TidingsError, quorum
from tidings.shrink.play import Play, Size, Sketch, Stage
from tidings.spec import GUARANTEES, Extra, Guarantee, Violation, cost, reach
from tidings.spec.evidence import Evidence
from tidings.spec.views import agreed_views
from tidings.trace import Manifest, Run

Property = Guarantee | Extra

_JUDGES = dict(zip(Guarantee, GUARANTEES, strict=True))


class Charge(NamedTuple):
    """What a run is to break to count as a failure."""

    what: Property
    max_packets: int | None = None

    def against(self, run: Run) -> tuple[Violation, ...]:
        match self.what:
            case Extra.COST:
                assert self.max_packets is not None, "cost is judged by a number of packets"
                return cost(run, self.max_packets)
            case Extra.REACH:
                return reach(run)
            case Extra.VIEWS:
                return agreed_views(Evidence(run)).violations
            case Guarantee():
                return _JUDGES[self.what](Evidence(run)).violations


def planned_packets(manifest: Manifest) -> int | None:
    """How many packets the run was allowed, if whoever made it said so."""
    plan = manifest.plan
    allowed = plan.get("max_packets", plan.get("explored", {}).get("max_packets"))
    return allowed if isinstance(allowed, int) else None


class ShrinkProgress(NamedTuple):
    """How far it has come: the smallest failure so far, and how many runs were tried."""

    size: Size
    tried: int


Watch = Callable[[ShrinkProgress], None]
"""Called before every run that is tried."""


class Trials:
    def __init__(self, stage: Stage, charge: Charge, progress: Watch) -> None:
        self.stage = stage
        self.charge = charge
        self._progress = progress
        self._seen: set[Sketch] = set()
        self._keep_majority = False
        self._smallest: Play | None = None
        self._tried = 0

    def source(self, sketch: Sketch) -> Play | None:
        """The first play of all, if it fails.

        If its group kept a majority alive, so must all others: to those who did not, little is
        owed.
        """
        play = self.failing(sketch)
        self._keep_majority = play is not None and _keeps_majority(play)
        return play

    def failing(self, sketch: Sketch) -> Play | None:
        """The sketch played, if it fails: until the failure is there, or to the end."""
        play = self._played(sketch)
        if play is None or (self._keep_majority and not _keeps_majority(play)):
            return None
        violations = self.charge.against(play.run)
        if not violations:
            return None
        if not self.stage.settles:
            # After how many steps the first of the violations is complete.
            rows = {(row.process, row.index): number for number, row in enumerate(play.rows)}
            steps = play.step_of(
                min(
                    max(rows[place.process, place.index] for place in violation.witness)
                    for violation in violations
                )
            )
            if steps < len(play.moves):
                return self.failing(play.sketch.with_moves(*play.moves[:steps]))
        if self._smallest is None or self.rank(play) < self.rank(self._smallest):
            self._smallest = play
        return play

    def _played(self, sketch: Sketch) -> Play | None:
        self._tried += 1
        if self._smallest is not None:
            self._progress(ShrinkProgress(self._smallest.size, self._tried))
        try:
            play = Play(sketch, self.stage) if sketch.members else None
        except TidingsError:
            return None  # a process that fails in another way is another story
        return play if play is not None and play.came_to_rest else None

    def smaller(self, sketch: Sketch, than: Play) -> Play | None:
        """The sketch played, if it fails and is smaller."""
        if sketch in self._seen:
            return None
        self._seen.add(sketch)
        play = self.failing(sketch)
        return play if play is not None and self.rank(play) < self.rank(than) else None

    def no_larger(self, sketch: Sketch, than: Play) -> Play | None:
        play = self.failing(sketch)
        return play if play is not None and self.rank(play) <= self.rank(than) else None

    def rank(self, play: Play) -> tuple[int, ...]:
        processes, broadcasts, *rest = play.size
        return (*self.order(processes, broadcasts), *rest)

    def order(self, processes: int, broadcasts: int) -> tuple[int, int]:
        """What counts more. Packets grow with the load, so for cost the load comes first."""
        if self.charge.what is Extra.COST:
            return broadcasts, processes
        return processes, broadcasts


def _keeps_majority(play: Play) -> bool:
    return len(play.world.crashed) < quorum(len(play.world.views[0]))
