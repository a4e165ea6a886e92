"""Runs as pictures of a page: the drawing, its steps, and which event came before which."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidings.core import MessageId
from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.diagram.scene import Scene
from tidings.report.explain import explain, however
from tidings.report.focus import Focus, focus, leading, marked
from tidings.report.page.model import (
    MOST_EVENTS,
    MOST_LANES,
    Happening,
    Moment,
    Picture,
    Spoken,
)
from tidings.report.spacetime import figure, names, symbols
from tidings.report.svg import shortened
from tidings.report.words import many
from tidings.spec import Place, Violation
from tidings.spec.evidence import place
from tidings.trace import Row

LONGEST_TEXT = 200
"""Of a message, in characters: a page is no place for large ones."""
LONGEST_CHIP = 40
"""Of a text in the list of messages."""


def can_be_drawn(causality: Causality) -> bool:
    return len(causality.processes) <= MOST_LANES


def picture_of(
    causality: Causality,
    violation: Violation | None = None,
    *,
    key: str,
    entry: str,
    title: str = "",
    summary: str = "",
    replay: str = "",
    shrink: str = "",
    texts: Mapping[str, bytes] | None = None,
    most_events: int = MOST_EVENTS,
    log: Mapping[Place | MessageId, str] = MappingProxyType({}),
    view: Focus | None = None,
) -> Picture:
    """The run, or what matters to a violation of it, in at most so many events.

    Or the rows of a ``view`` of it.
    """
    run = causality.run
    known = schedule.texts(run.manifest) if texts is None else texts
    known = {
        digest: shortened(text.decode("utf-8", "backslashreplace"), LONGEST_TEXT).encode()
        for digest, text in known.items()
    }
    if view is None:
        view = _window(focus(causality, violation, most_events), violation, causality, most_events)
    scene = Scene(causality, violation, known, view, is_titled=False)
    columns = _columns(scene)
    moment_of = {place(row): number for number, rows in enumerate(columns.values()) for row in rows}
    pasts = _pasts(causality, set(moment_of))
    if violation is not None:
        title = title or f"{violation.guarantee.capitalize()} violated at {violation.process}"
    return Picture(
        key=key,
        title=title or f"Run {run.manifest.run}",
        entry=entry,
        facts=_facts(causality),
        svg=figure(scene),
        names=names(scene),
        symbols=tuple(symbols(scene)),
        processes=causality.processes,
        moments=tuple(_moment(x, rows, scene) for x, rows in columns.items()),
        happenings=tuple(
            Happening(
                causality.processes.index(row.process),
                row.index,
                moment_of[place(row)],
                pasts[place(row)],
            )
            for row in scene.rows
        ),
        messages=tuple(
            Spoken(str(row.message), shortened(scene.deeds.text_of(row), LONGEST_CHIP), number)
            for number, row in enumerate(scene.rows)
            if row.kind == "broadcast"
        ),
        is_violation=violation is not None,
        summary=however(violation) if violation else summary,
        proof=explain(violation, run.manifest.run, run.manifest.seed, trace=run, log=log)
        if violation
        else "",
        left_out=view.left_out,
        replay=replay,
        shrink=shrink if view.left_out else "",
    )


def _columns(scene: Scene) -> dict[float, list[Row]]:
    """From left to right: what stands in one column happened in one breath.

    A broadcast with its copies, say, or everybody settling when nothing was on its way any more.
    """
    columns: dict[float, list[Row]] = {}
    for row in sorted(scene.rows, key=lambda row: scene.spot(row).x):
        columns.setdefault(scene.spot(row).x, []).append(row)
    return columns


def _moment(x: float, rows: Sequence[Row], scene: Scene) -> Moment:
    places = [place(row) for row in rows]
    is_wrong = scene.marked in places
    if all(row.kind == "settle" for row in rows):
        return Moment(x, "the end", scene.deeds.settled(rows), is_wrong)
    down = "" if scene.downs.isdisjoint(places) else f" Then {rows[-1].process} goes down."
    return Moment(x, scene.deeds.where(rows), f"{scene.deeds.described(rows)}{down}", is_wrong)


def _window(view: Focus, violation: Violation | None, causality: Causality, most: int) -> Focus:
    """If even what matters is too much: what proves the violation, and what stands nearest to it.

    Nearest is last: a violation is found at the end of what led to it.
    """
    if violation is None or len(view.rows) <= most:
        return view
    proof = {*violation.witness, marked(violation, causality)}
    others = [place(row) for row in view.rows if place(row) not in proof]
    spare = most - (len(view.rows) - len(others))
    kept = proof.union(others[-spare:])
    note = f"Of {len(view.rows):,} rows about it only what proves it and the nearest are shown."
    rows = [row for row in view.rows if place(row) in kept]
    return Focus(leading(rows, causality, marked(violation, causality)), view.bright, note)


def _facts(causality: Causality) -> str:
    manifest = causality.run.manifest
    kinds = [row.kind for row in causality.run.rows]
    crashes = len(causality.ends)
    return ", ".join(
        [
            f"run {manifest.run}",
            *([f"seed {manifest.seed}"] if manifest.seed is not None else []),
            many(len(causality.processes), "process"),
            many(kinds.count("broadcast"), "broadcast"),
            *([many(kinds.count("send"), "packet")] if causality.has_packets else []),
            many(crashes, "crash") if crashes else "no crash",
        ]
    )


def _pasts(causality: Causality, wanted: set[Place]) -> dict[Place, tuple[int, ...]]:
    """Vector clocks: of each process, the last index that came before the event, itself included.

    All of them in one pass; -1 where nothing of a process came before. In a trace with a circle,
    what is received before it is sent brings no past along.
    """
    number = {name: position for position, name in enumerate(causality.processes)}
    clocks = {name: (-1,) * len(number) for name in causality.processes}
    spreads = "send" if causality.has_packets else "broadcast"
    pasts: dict[Place, tuple[int, ...]] = {}
    for row in causality.order:
        clock = list(clocks[row.process])
        source = causality.source(row)
        if source is not None and place(source) in pasts:
            clock = list(map(max, clock, pasts[place(source)]))
        clock[number[row.process]] = row.index
        clocks[row.process] = tuple(clock)
        if row.kind == spreads or place(row) in wanted:
            pasts[place(row)] = clocks[row.process]
    return pasts
