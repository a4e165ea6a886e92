"""Runs as pictures of a page: the drawing, its steps, and which event came before which."""

from collections.abc import Mapping, Sequence

from tidings.report import schedule
from tidings.report.causality import Causality
from tidings.report.diagram.document import figure, symbols
from tidings.report.diagram.scene import Scene
from tidings.report.diagram.steps import steps
from tidings.report.explain import explain, however
from tidings.report.focus import Focus, focus, marked
from tidings.report.page.model import (
    MOST_EVENTS,
    MOST_LANES,
    Happening,
    Moment,
    Picture,
    Spoken,
    Symbol,
)
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
    replay: str = "",
    texts: Mapping[str, bytes] | None = None,
    most_events: int = MOST_EVENTS,
) -> Picture:
    """The run, or what matters to a violation of it, in at most so many events."""
    run = causality.run
    known = schedule.texts(run.manifest) if texts is None else texts
    known = {digest: _cut(text) for digest, text in known.items()}
    view = _window(focus(causality, violation, most_events), violation, causality, most_events)
    scene = Scene(causality, violation, known, view, is_titled=False)
    columns = steps(scene)
    moment_of = {place(row): number for number, column in enumerate(columns) for row in column.rows}
    pasts = _pasts(causality, set(moment_of))
    numbers = {name: number for number, name in enumerate(causality.processes)}
    happenings = [
        Happening(numbers[row.process], row.index, moment_of[place(row)], pasts[place(row)])
        for row in scene.rows
    ]
    wrong = (
        f"{violation.guarantee.capitalize()} violated at {violation.process}" if violation else ""
    )
    return Picture(
        key=key,
        title=title or wrong or f"Run {run.manifest.run}",
        entry=entry,
        facts=_facts(causality),
        svg=figure(scene),
        symbols=tuple(Symbol(*symbol) for symbol in symbols(scene)),
        processes=causality.processes,
        moments=tuple(
            Moment(
                column.x,
                column.where,
                column.words,
                scene.marked in {place(row) for row in column.rows},
            )
            for column in columns
        ),
        happenings=tuple(happenings),
        messages=_messages(scene),
        is_violation=violation is not None,
        summary=however(violation) if violation else "",
        proof=explain(violation, run.manifest.run, run.manifest.seed, trace=run)
        if violation
        else "",
        left_out=view.left_out,
        replay=replay,
    )


def _window(view: Focus, violation: Violation | None, causality: Causality, most: int) -> Focus:
    """If even what matters is too much: what proves the violation, and what stands nearest to it.

    Nearest is last: a violation is found at the end of what led to it.
    """
    if violation is None or len(view.rows) <= most:
        return view
    proof = {*violation.witness, marked(violation, causality)}
    spare = most - sum(place(row) in proof for row in view.rows)
    others = [row for row in view.rows if place(row) not in proof]
    kept = {place(row) for row in others[-spare:]} | proof
    rows = [row for row in view.rows if place(row) in kept]
    note = f"Of {len(view.rows):,} rows about it only what proves it and the nearest are shown."
    return Focus(rows, view.bright, note)


def _cut(text: bytes) -> bytes:
    return shortened(text.decode("utf-8", "backslashreplace"), LONGEST_TEXT).encode()


def _facts(causality: Causality) -> str:
    run = causality.run
    kinds = [row.kind for row in run.rows]
    # Who was killed without a last word has no crash row.
    killed = [name for name in causality.processes if _is_killed(name, causality)]
    crashes = kinds.count("crash") + len(killed)
    parts = [
        f"run {run.manifest.run}",
        *([f"seed {run.manifest.seed}"] if run.manifest.seed is not None else []),
        many(len(causality.processes), "process"),
        many(kinds.count("broadcast"), "broadcast"),
        *([many(kinds.count("send"), "packet")] if causality.has_packets else []),
        many(crashes, "crash") if crashes else "no crash",
    ]
    return ", ".join(parts)


def _is_killed(process: str, causality: Causality) -> bool:
    rows = causality.run.histories.get(process)
    return causality.has_crashed(process) and not (rows and rows[-1].kind == "crash")


def _messages(scene: Scene) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(str(row.message), shortened(scene.deeds.text_of(row), LONGEST_CHIP), number)
        for number, row in enumerate(scene.rows)
        if row.kind == "broadcast"
    )


def _pasts(causality: Causality, wanted: set[Place]) -> dict[Place, tuple[int, ...]]:
    """Vector clocks: of each process, the last index that came before the event, itself included.

    All of them in one pass; -1 where nothing of a process came before. In a trace with a circle,
    what is received before it is sent brings no past along.
    """
    number = {name: position for position, name in enumerate(causality.processes)}
    clocks = {name: [-1] * len(number) for name in causality.processes}
    sent: dict[Place, tuple[int, ...]] = {}
    pasts: dict[Place, tuple[int, ...]] = {}
    for row in causality.order:
        clock = clocks[row.process]
        source = causality.source(row)
        if source is not None:
            _merge(clock, sent.get(place(source), ()))
        clock[number[row.process]] = row.index
        if _is_a_source(row, causality):
            sent[place(row)] = tuple(clock)
        if place(row) in wanted:
            pasts[place(row)] = tuple(clock)
    return pasts


def _merge(clock: list[int], other: Sequence[int]) -> None:
    for position, index in enumerate(other):
        if index > clock[position]:
            clock[position] = index


def _is_a_source(row: Row, causality: Causality) -> bool:
    return row.kind == ("send" if causality.has_packets else "broadcast")
