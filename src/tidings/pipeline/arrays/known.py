"""What is known about runs before a single message is looked at, as arrays.

The specification draws these conclusions from the manifest and from the last row of each history
(``spec.endings``). Most runs of a campaign are alike in both, so it is asked once for each kind of
ending, not once for each run.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tidings.core import Members, ordered
from tidings.pipeline.arrays.findings import Array
from tidings.spec.endings import Ending, Life, cut_off, ending_of
from tidings.trace import KINDS, Manifest, Row

ABSENT = -1
"""The kind of the last row of a history that has none."""


class Shape(NamedTuple):
    """What the manifests of many runs have in common."""

    manifest: Manifest
    names: Members
    """In the order a person expects: the place of a name here is the number of the process."""
    numbers: Array
    """The number of each name of the manifest's dictionary."""

    @classmethod
    def of(cls, manifest: Manifest) -> "Shape":
        names = ordered(manifest.names)
        places = {name: place for place, name in enumerate(names)}
        return cls(manifest, names, np.array([places[name] for name in manifest.names], np.int64))


def shapes_of(manifests: Iterable[Manifest]) -> tuple[list[Shape], Array]:
    """The different shapes, and for each manifest the number of its own."""
    numbers: dict[Any, int] = {}
    shapes: list[Shape] = []
    of_each = []
    for manifest in manifests:
        fates = tuple(sorted(manifest.fates.items())) if manifest.fates else ()
        cuts = msgspec.json.encode(manifest.cuts, order="sorted") if manifest.cuts else b""
        key = (manifest.names, manifest.views, fates, cuts)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(shapes)
            shapes.append(
                Shape.of(
                    Manifest(
                        schema=manifest.schema,
                        run="",
                        names=manifest.names,
                        views=manifest.views,
                        fates=manifest.fates,
                        cuts=manifest.cuts,
                    )
                )
            )
        of_each.append(number)
    return shapes, np.array(of_each, np.int64)


class Rebind(NamedTuple):
    """A message of the process itself that is bound to another view."""

    row: int
    """The index of the row that says so."""
    process: int
    seq: int
    view: int


class RunSteps(NamedTuple):
    """What the rows of one run say of agreed views."""

    steps: dict[int, list[Row]]
    """Of each process, by its number, the rows about agreed views."""
    rebinds: list[Rebind]
    """By index."""


class Lives(NamedTuple):
    """How the histories of some runs end: (run, process)."""

    last_kind: Array
    """A place in KINDS, or ABSENT."""
    holed: Array
    changing: Mapping[int, RunSteps] = MappingProxyType({})
    """The runs that have agreed views, by their places here."""

    @property
    def keys(self) -> list[tuple[bytes, str]]:
        """Equal for runs that end alike."""
        both = np.concatenate([self.last_kind, self.holed], axis=1).astype(np.int8)
        return [
            (row.tobytes(), repr(self.changing[run].steps) if run in self.changing else "")
            for run, row in enumerate(both)
        ]


class KnownRuns(NamedTuple):
    """What is known about some runs; all their lists of members stand in one table of views."""

    settled: Array
    """(run): nothing that is missing can still come."""
    present: Array
    """(run, process): it is owed a history."""
    correct: Array
    is_complete: Array
    """(run, process): what is not in its history did not happen."""
    holed: Array
    first_view: Array
    """(run): where its views begin in the table of views."""
    members: Array
    """(view, process)"""
    survivors: Array
    """(view, process): members that are correct."""
    rank: Array
    """(view, process): the place of a member in its list."""
    forsaken: Array
    """(view): it lost its majority."""
    spreads: Array
    """(run): such a loss forsakes what depends on it, too."""
    doubts: Sequence[tuple[str, str]]
    """(run): why its histories, why its end are in doubt, if they are."""
    cuts: "Cuts | None"
    """What was cut off the histories, if anything was."""
    changing: Mapping[int, tuple[Ending, Sequence[Rebind]]] = MappingProxyType({})
    """Of the runs with agreed views, what their ends say, and which messages were moved."""

    @property
    def is_whole(self) -> Array:
        """(run, process): nothing is missing in the middle of its history."""
        return self.present & ~self.holed

    @property
    def may_come(self) -> Array:
        """(run, process): its history does not tell all."""
        return self.present & ~self.is_complete


class Cuts(NamedTuple):
    """What was cut off. Many runs may share a row of the tables."""

    row: Array
    """(run)"""
    broadcast: Array
    """(row, process): how many messages it had broadcast."""
    had: Array
    """(row, process, origin): how many of the origin it had delivered."""

    def are_given(self, run: Array, origin: Array, seq: Array) -> Array:
        """Which messages were broadcast below the cut."""
        return (seq >= 1) & (seq <= self.broadcast[self.row[run], origin])

    def had_delivered(self, reader: int, run: Array, origin: Array, seq: Array) -> Array:
        """Which messages the reader had delivered below its cut."""
        return (seq >= 1) & (seq <= self.had[self.row[run], reader, origin])


class _Part(NamedTuple):
    """The same for one kind of ending."""

    settled: bool
    processes: Array
    views: Array
    forsaken: Array
    doubts: tuple[str, str]
    broadcast: Array
    had: Array
    ending: Ending


class Endings:
    """Asks the specification about each kind of ending once."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.shapes = shapes
        self.width = max(len(shape.names) for shape in shapes)
        self._parts: dict[tuple[int, bytes, str], int] = {}
        self._all: list[_Part] = []

    def known(self, shape: Array, lives: Lives) -> KnownRuns:
        """What is known about runs of these shapes with these lives."""
        kinds = [
            self._number(of_run, key, lives.changing.get(run, _UNCHANGED).steps)
            for run, (of_run, key) in enumerate(zip(shape.tolist(), lives.keys, strict=True))
        ]
        used, of_run = np.unique(np.array(kinds, np.int64), return_inverse=True)
        parts = [self._all[number] for number in used]
        begins = np.cumsum([0, *(len(part.forsaken) for part in parts)])[:-1]
        processes = np.stack([part.processes for part in parts])[of_run]
        views = np.concatenate([part.views for part in parts])
        return KnownRuns(
            settled=np.array([part.settled for part in parts])[of_run],
            present=processes[:, 0],
            correct=processes[:, 1],
            is_complete=processes[:, 2],
            holed=processes[:, 3],
            first_view=begins[of_run],
            members=views[:, 0] > 0,
            survivors=views[:, 1] > 0,
            rank=views[:, 0],
            forsaken=np.concatenate([part.forsaken for part in parts]),
            spreads=np.array([part.ending.evidence.spreads_loss for part in parts])[of_run],
            doubts=[parts[kind].doubts for kind in of_run],
            cuts=_cuts(parts, of_run),
            changing={
                run: (parts[of_run[run]].ending, one.rebinds) for run, one in lives.changing.items()
            },
        )

    def _number(self, shape: int, key: tuple[bytes, str], steps: dict[int, list[Row]]) -> int:
        number = self._parts.get((shape, *key))
        if number is None:
            number = self._parts[shape, *key] = len(self._all)
            row = np.frombuffer(key[0], np.int8).reshape(2, -1)
            self._all.append(self._part(self.shapes[shape], row[0], row[1], steps))
        return number

    def _part(
        self, shape: Shape, last_kind: Array, holed: Array, steps: dict[int, list[Row]]
    ) -> _Part:
        lives = {
            name: Life(0, KINDS[kind], bool(hole))
            for name, kind, hole in zip(shape.names, last_kind, holed, strict=False)
            if kind != ABSENT
        }
        named = {shape.names[process]: rows for process, rows in steps.items()}
        ending = ending_of(0, shape.manifest, lives, named)
        evidence = ending.evidence
        processes = np.zeros((4, self.width), bool)
        for name in evidence.processes:
            processes[:, ending.places[name]] = (
                True,
                evidence.is_correct(name),
                evidence.is_complete(name),
                name in evidence.run.holed,
            )
        broadcast, had = np.zeros(self.width, np.int64), np.zeros((self.width,) * 2, np.int64)
        if evidence.cuts:
            count = len(ending.places)
            broadcast[:count], had[:count, :count] = cut_off(ending)
        return _Part(
            ending.is_settled,
            processes,
            np.stack([self._view(ending, view) for view in evidence.views]),
            np.array([view in evidence.forsaken_views for view in range(len(evidence.views))]),
            (evidence.doubt_about_histories, evidence.doubt_about_the_end),
            broadcast,
            had,
            ending,
        )

    def _view(self, ending: Ending, view: Members) -> Array:
        """For each process its place in the list, from 1, and whether it survived; else 0."""
        row = np.zeros((2, self.width), np.int64)
        row[0, ending.numbers(view)] = np.arange(len(view)) + 1
        row[1, ending.numbers(ending.survivors(view))] = 1
        return row


_UNCHANGED = RunSteps({}, [])


def _cuts(parts: Sequence[_Part], of_run: Array) -> Cuts | None:
    if not any(part.broadcast.any() or part.had.any() for part in parts):
        return None
    tables = ([part.broadcast for part in parts], [part.had for part in parts])
    return Cuts(of_run, *map(np.stack, tables))
