"""Runs for the judge of a running group: cut into pieces, shuffled, and read again."""

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from tidings.pipeline.watching.pieces import Piece, pieces_of_rows
from tidings.spec import Verdict
from tidings.trace import Run
from tidings.trace.histories import Histories
from traces import Draft


def as_run(draft: Draft) -> Run:
    """Where a draft has a hole, a file is missing."""
    manifest = draft.manifest()
    histories = Histories({manifest.run: manifest})
    for row in draft.rows():
        first, end = draft.holes.get(row.process, (0, 0))
        if not first <= row.index < end:
            histories.begin_file()
            histories.add(row)
    return histories.runs()[0]


def in_pieces(run: Run, rng: Random, most: int = 5) -> Iterator[list[Piece]]:
    """All rows, in pieces that come in any order, some of them together."""
    pieces: list[Piece] = []
    for history in run.histories.values():
        rows = list(history)
        while rows:
            count = rng.randint(1, most)
            pieces += pieces_of_rows(rows[:count])
            rows = rows[count:]
    rng.shuffle(pieces)
    while pieces:
        count = rng.randint(1, 3)
        yield pieces[:count]
        pieces = pieces[count:]


def in_turns(run: Run, count: int = 7) -> Iterator[list[Piece]]:
    """All rows, some of every history at a time."""
    longest = max(map(len, run.histories.values()), default=0)
    for start in range(0, longest, count):
        yield [
            piece
            for history in run.histories.values()
            for piece in pieces_of_rows(history[start : start + count])
        ]


def without_causes(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What violations follow from is for the audit to say."""
    return [
        msgspec.structs.replace(
            verdict,
            causes=0,
            largest_causes=(),
            violations=tuple(msgspec.structs.replace(one, root=None) for one in verdict.violations),
        )
        for verdict in verdicts
    ]


class Source:
    """What can be read again."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked = 0

    def __call__(self, run: str, process: str, begin: int, end: int) -> Iterator[Piece]:
        self.asked += 1
        rows = self.run.histories.get(process, ())
        yield from pieces_of_rows([row for row in rows if begin < row.end and row.index < end])
