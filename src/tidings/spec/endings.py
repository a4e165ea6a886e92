"""What can be said of a run before a single message is looked at: how its histories end.

And which agreed views its processes installed, if the group changed by agreement.

A judge of many runs asks this once for each, or once for all that end alike, and looks at the rows
only then.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tidings.core import Members, ordered
from tidings.spec.evidence import Evidence
from tidings.trace import HistoryCut, Manifest, Row, Run


class Life(NamedTuple):
    """What became of one process: how long its history is and how it ends."""

    rows: int
    last_kind: str
    holed: bool


class Ending(NamedTuple):
    """What the specification can say of a run from the ends of its histories alone."""

    run: int
    evidence: Evidence
    places: Mapping[str, int]

    @property
    def is_settled(self) -> bool:
        """Nothing that is missing can still come."""
        return not self.evidence.doubt_about_the_end

    @property
    def is_doomed(self) -> bool:
        """Some list lost its majority, and more than its messages with it.

        Before a run has settled nobody asks what is owed.
        """
        return self.is_settled and self.evidence.spreads_loss

    def survivors(self, view: Members) -> Members:
        return tuple(name for name in view if self.evidence.is_correct(name))

    def numbers(self, names: Iterable[str]) -> list[int]:
        return [self.places[name] for name in names]


def ending_of(
    run: int,
    manifest: Manifest,
    lives: Mapping[str, Life],
    steps: Mapping[str, Sequence[Row]] = MappingProxyType({}),
) -> Ending:
    """The end of one run, every history cut down to a stand-in for its last row.

    Before it come its ``steps``, the rows about agreed views, if there are any.
    """
    histories = {
        name: [*steps.get(name, ()), _last_row(name, life.last_kind)]
        for name, life in lives.items()
    }
    holed = frozenset(name for name, life in lives.items() if life.holed)
    places = {name: place for place, name in enumerate(ordered(manifest.names))}
    return Ending(run, Evidence(Run(manifest, histories, holed)), places)


def _last_row(process: str, last_kind: str) -> Row:
    # Only whether it is an ending matters; a message in it would be misread.
    kind: Any = last_kind if last_kind in ("settle", "crash", "leave") else "state"
    return Row(run="", process=process, index=0, kind=kind, time_ns=0)


def cut_off(ending: Ending) -> tuple[list[int], list[list[int]]]:
    """What was cut off: how many each process had broadcast, how many of each it had delivered."""
    evidence = ending.evidence
    cuts = {name: evidence.cuts.get(name, _NO_CUT) for name in ending.places}
    had = [
        [cut.delivered.get(origin, 0) if name in evidence.processes else 0 for origin in cuts]
        for name, cut in cuts.items()
    ]
    return [cut.broadcast for cut in cuts.values()], had


_NO_CUT = HistoryCut(index=0)
