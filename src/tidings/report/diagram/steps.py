"""A diagram read from left to right: each column is one step, with its words.

What stands in one column happened in one breath: a broadcast with its copies, or everybody settling
when nothing was on its way any more.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidings.report.diagram.scene import Scene
from tidings.trace import Row


class DiagramStep(NamedTuple):
    x: float
    rows: tuple[Row, ...]
    where: str
    """Its events, as ``tidings replay --until`` takes them."""
    words: str


def steps(scene: Scene) -> list[DiagramStep]:
    by_column: dict[float, list[Row]] = {}
    for row in scene.rows:
        by_column.setdefault(scene.spot(row).x, []).append(row)
    return [_step(x, by_column[x], scene) for x in sorted(by_column)]


def _step(x: float, rows: Sequence[Row], scene: Scene) -> DiagramStep:
    if all(row.kind == "settle" for row in rows):
        return DiagramStep(x, tuple(rows), "the end", scene.deeds.settled(rows))
    return DiagramStep(x, tuple(rows), scene.deeds.where(rows), scene.deeds.described(rows))
