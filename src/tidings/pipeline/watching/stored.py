"""The state of a judge as bytes and back, without pickle: numbers, names and columns."""

from typing import Any

import msgspec
import numpy as np

from tidings.core import DataError, Members
from tidings.pipeline.watching.findings import Found
from tidings.pipeline.watching.judge import Judge, WatchLimits
from tidings.pipeline.watching.pieces import TYPES, Events, Piece, Step, packed
from tidings.pipeline.watching.ranges import Ranges
from tidings.pipeline.watching.reader import Blocker
from tidings.pipeline.watching.rows import Recall, gone
from tidings.pipeline.watching.strays import Stray
from tidings.pipeline.watching.views import Raised
from tidings.pipeline.watching.window import History
from tidings.spec import Guarantee
from tidings.trace import HistoryCut, Manifest

FORMAT = 4
Pairs = list[tuple[int, int]]
_SIMPLE = (
    "begin", "end", "rows", "deliveries", "last_kind", "holed", "time_ns", "late",
    "patience", "cut", "had", "given", "base", "steps", "misbound", "misbindings",
)  # fmt: skip


class _History(msgspec.Struct, frozen=True):
    name: str
    begin: int
    end: int
    rows: int
    deliveries: int
    last_kind: str
    holed: bool
    time_ns: int
    late: list[Piece]
    patience: int
    cut: HistoryCut | None
    had: dict[int, int]
    given: int
    base: int
    steps: list[Step]
    misbound: list[tuple[int, int]]
    misbindings: int
    by_then: list[dict[int, Pairs]]
    got: dict[int, Pairs]
    sent: dict[int, Pairs]
    columns: tuple[bytes, ...]
    is_first: bytes
    open: bytes


class _Judge(msgspec.Struct, frozen=True):
    format: int
    run: str
    views: tuple[Members, ...]
    histories: list[_History]
    passed: bytes
    blockers: list[tuple[int, int, Blocker]]
    strays: list[Stray]
    presumed: list[tuple[int, int, Pairs]]
    again: list[tuple[int, int, list[int]]]
    found: list[Found]
    violated: list[tuple[Guarantee, int, int]]
    ordered: dict[int, int]
    given: int
    given_up: str
    raised: list[Raised]
    places: list[tuple[int, int, int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Judge).decode


class _Format(msgspec.Struct, frozen=True):
    format: int


_format_of = msgspec.msgpack.Decoder(_Format).decode


def stored(judge: Judge) -> bytes:
    return _encode(
        _Judge(
            format=FORMAT,
            run=judge.run,
            views=judge.views,
            histories=[_of_history(one) for one in judge.histories],
            passed=judge.passed.tobytes(),
            blockers=[(*pair, one) for pair, one in judge.blockers.items()],
            strays=judge.strays.waiting,
            presumed=[
                (origin, reader, seqs.pairs)
                for origin, by_reader in judge.strays.presumed.items()
                for reader, seqs in by_reader.items()
            ],
            again=[(*message, sorted(texts)) for message, texts in judge.findings.again.items()],
            found=judge.findings.kept,
            violated=[(*key, count) for key, count in judge.findings.violated.items()],
            ordered=judge.ordered,
            given=judge.given,
            given_up=judge.given_up,
            raised=sorted(judge.agreed.raised),
            places=[(*name, index) for name, index in judge.agreed.places.items()],
        )
    )


def _of_history(history: History) -> _History:
    simple: dict[str, Any] = {name: getattr(history, name) for name in _SIMPLE}
    return _History(
        name=history.name,
        by_then=[_pairs(one) for one in history.by_then],
        got=_pairs(history.got),
        sent=_pairs(history.sent),
        columns=packed(history.events),
        is_first=history.is_first.tobytes(),
        open=history.open.tobytes(),
        **simple,
    )


def _pairs(sets: dict[int, Ranges]) -> dict[int, Pairs]:
    return {key: seqs.pairs for key, seqs in sets.items()}


def _ranges(sets: dict[int, Pairs]) -> dict[int, Ranges]:
    return {key: Ranges.of(pairs) for key, pairs in sets.items()}


def loaded(data: bytes, limits: WatchLimits | None = None, recall: Recall = gone) -> Judge:
    if _format_of(data).format != FORMAT:
        raise DataError("the checkpoint is of another version of tidings: begin a new one")
    state = _decode(data)
    names = tuple(one.name for one in state.histories)
    judge = Judge(Manifest(schema=0, run=state.run, names=names, views=state.views), limits, recall)
    # The manifest lists names in the order of people; the state, as they came.
    judge.names, judge.numbers = list(names), {name: place for place, name in enumerate(names)}
    judge.histories = [_history(one) for one in state.histories]
    judge.know(Manifest(schema=0, run=state.run, names=names, views=state.views))
    size = len(names)
    judge.passed = np.frombuffer(state.passed, np.int64).reshape(size, size).copy()
    judge.blockers = {(reader, origin): one for reader, origin, one in state.blockers}
    judge.strays.waiting = state.strays
    for origin, reader, pairs in state.presumed:
        judge.strays.presumed.setdefault(origin, {})[reader] = Ranges.of(pairs)
    judge.findings.again = {(origin, seq): set(texts) for origin, seq, texts in state.again}
    judge.findings.kept = state.found
    judge.findings.violated = {(what, process): count for what, process, count in state.violated}
    judge.ordered, judge.given = state.ordered, state.given
    judge.given_up = state.given_up
    judge.agreed.raised = set(state.raised)
    judge.agreed.places = {(who, of, seq): index for who, of, seq, index in state.places}
    return judge


def _history(state: _History) -> History:
    history = History(state.name)
    for name in _SIMPLE:
        setattr(history, name, getattr(state, name))
    history.late_rows = sum(one.rows for one in history.late)
    history.by_then = list(map(_ranges, state.by_then))
    history.got, history.sent = _ranges(state.got), _ranges(state.sent)
    history.events = Events(
        *(np.frombuffer(one, kind) for one, kind in zip(state.columns, TYPES, strict=True))
    )
    history.is_first = np.frombuffer(state.is_first, bool)
    history.open = np.frombuffer(state.open, np.int8).copy()
    return history
