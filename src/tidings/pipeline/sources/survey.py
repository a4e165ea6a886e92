"""What the driver has to know of all rows before any of them is laid out.

Every task has told what it stored. Here the blocks of each source are put in order, so that a
position becomes the number of a line, and the first bad row of all is refused.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidings.core import DataError, without_secrets
from tidings.pipeline.sources.lookup import place_in
from tidings.pipeline.sources.storing import Store

Place = tuple[int, int]
"""The number of a source, and that of a row in it."""


class Sources(NamedTuple):
    """How the sources are called, and what a place in them means."""

    given: Sequence[str]
    """As the user named them, in that order; others follow."""
    are_lines: bool = True
    """Whether a position is counted within its block."""
    have_places: bool = True


class PlacedBlock(NamedTuple):
    source: int
    """The number of the source among all, in the order in which they were given."""
    offset: int
    """What makes a position the number of a row in its source."""


class Survey(NamedTuple):
    read: int
    ignored: int
    histories: Mapping[tuple[str, str], Counter[str]]
    """How many rows of each kind a process of a run has; none if it is only an origin."""
    stores: Sequence[Store]
    blocks: Sequence[Sequence[PlacedBlock]]
    """For each store, where its blocks lie."""
    labels: Sequence[str]
    """The sources by number, as the user named them, but for passwords."""

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(run for run, _ in self.histories))

    def place(self, place: Place) -> str:
        source, number = place
        return place_in(self.labels[source], number)


def survey(stores: Sequence[Store], sources: Sources) -> Survey:
    """Put together what all tasks found; DataError for the first bad row."""
    labels, placed = _placed(stores, sources)
    _refuse_the_first(stores, placed, labels, sources)
    histories = _histories(stores, placed)
    return Survey(
        read=sum(one.read for one in stores),
        ignored=sum(one.ignored for one in stores),
        histories=histories,
        stores=stores,
        blocks=placed,
        labels=labels,
    )


def _placed(stores: Sequence[Store], sources: Sources) -> tuple[list[str], list[list[PlacedBlock]]]:
    given = {name: number for number, name in enumerate(sources.given)}
    in_order = sorted(
        (given.get(block.source, len(given)), block.source, block.start, store, number, block.lines)
        for store, one in enumerate(stores)
        for number, block in enumerate(one.blocks)
    )
    names: list[str] = []
    before = 0
    placed = [[PlacedBlock(0, 0)] * len(one.blocks) for one in stores]
    for _, source, _, store, number, lines in in_order:
        if not names or names[-1] != source:
            names.append(source)
            before = 0
        placed[store][number] = PlacedBlock(len(names) - 1, before if sources.are_lines else 0)
        before += lines
    return list(map(without_secrets, names)), placed


def _refuse_the_first(
    stores: Sequence[Store],
    placed: Sequence[Sequence[PlacedBlock]],
    labels: Sequence[str],
    sources: Sources,
) -> None:
    bad = [
        (where.source, block.bad.position + where.offset, block.bad.why)
        for one, places in zip(stores, placed, strict=True)
        for block, where in zip(one.blocks, places, strict=True)
        if block.bad is not None
    ]
    for source, number, why in sorted(bad)[:1]:
        place = place_in(labels[source], number) if sources.have_places else labels[source]
        raise DataError(f"{place}: {why}")


def _histories(
    stores: Sequence[Store], placed: Sequence[Sequence[PlacedBlock]]
) -> dict[tuple[str, str], Counter[str]]:
    """In the order of their first rows; after them whoever is only an origin."""
    firsts: dict[tuple[str, str], Place] = {}
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for one, places in zip(stores, placed, strict=True):
        for history in one.histories:
            key = history.run, history.process
            kinds.setdefault(key, Counter()).update(history.kinds)
            if history.rows:
                block, position = history.first
                place = places[block].source, position + places[block].offset
                firsts[key] = min(firsts.get(key, place), place)
    origins = sorted(kinds.keys() - firsts.keys())
    return {key: kinds[key] for key in [*sorted(firsts, key=firsts.__getitem__), *origins]}
