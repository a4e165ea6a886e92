"""A diagram read from left to right: each column is one step, with its words.

What stands in one column happened in one breath: a broadcast with its copies, or everybody settling
when nothing was on its way any more.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tidings.core import ordered
from tidings.report.diagram.scene import Scene
from tidings.report.words import listed, packet_of
from tidings.spec.evidence import place
from tidings.trace import Row


class Step(NamedTuple):
    x: float
    rows: tuple[Row, ...]
    where: str
    """Its events, as ``tidings replay --until`` takes them."""
    words: str


def steps(scene: Scene) -> list[Step]:
    by_column: dict[float, list[Row]] = {}
    for row in scene.rows:
        by_column.setdefault(scene.spot(row).x, []).append(row)
    return [_step(x, by_column[x], scene) for x in sorted(by_column)]


def _step(x: float, rows: Sequence[Row], scene: Scene) -> Step:
    first, last = rows[0], rows[-1]
    if all(row.kind == "settle" for row in rows):
        names = ordered(row.process for row in rows)
        verb = "settles" if len(names) == 1 else "settle"
        told = f"Nothing more is on its way: {listed(names)} {verb}."
        return Step(x, tuple(rows), "the end", told)
    where = str(place(first)) if first is last else f"{place(first)}–{last.index}"
    *most, end = _deeds(rows, scene)
    deeds = f"{', '.join(most)}, and {end}" if most else end
    return Step(x, tuple(rows), where, f"{first.process} {deeds}.")


def _deeds(rows: Sequence[Row], scene: Scene) -> Iterator[str]:
    """Verbs and their objects; what is sent to several is said once."""
    for (kind, what), same in groupby(rows, key=lambda row: (row.kind, _what(row))):
        if kind == "send":
            sent = list(same)
            peers = listed([str(row.peer) for row in sent])
            yield f"sends {what} to {peers}{_losses(sent, scene)}"
        else:
            yield from (deed(row, scene) for row in same)


def _what(row: Row) -> str:
    """What a packet is; other rows are told one by one."""
    return packet_of(row) if row.kind == "send" else ""


def _losses(sent: Sequence[Row], scene: Scene) -> str:
    """Which of these packets never arrive, and why."""
    lost = [row for row in sent if scene.never_arrives(row)]
    told = [
        f"to {listed([str(row.peer) for row in rows])}: {reason}"
        for reason, rows in groupby(lost, key=scene.causality.loss)
    ]
    return f" ({'; '.join(told)})" if told else ""


def deed(row: Row, scene: Scene) -> str:
    """What the process does there, as a verb and its object."""
    match row.kind:
        case "broadcast" | "deliver":
            return f"{row.kind}s {row.message} {scene.text_of(row)}".rstrip()
        case "send":
            return f"sends {packet_of(row)} to {row.peer}"
        case "receive":
            return f"receives {packet_of(row)} from {row.peer}"
        case "join" | "view":
            assert isinstance(row.view, int)
            return f"addresses {listed(scene.manifest.views[row.view])} from now on"
        case "crash":
            return "crashes"
    return f"{row.kind}s"
