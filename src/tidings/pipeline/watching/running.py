"""A batch of a streaming query, judged: what ``foreachBatch`` calls, and what it leaves on disk.

Beside Spark's own checkpoint lies ours, in ``judge``:

    state                       the judges, the batch that they have got to, when, and its findings
    findings/batch-N.parquet    what batch N showed; written from the state
    source                      the folder that it is about
    status.json                 for people

Spark repeats a batch that it has not noted as done, with the same rows. If the state has that batch
already, only the files are written again that come after it; if not, nobody has seen anything of
the batch. Findings depend on how long was waited for what is missing, so they may differ when a
batch is repeated. But nothing is missed and nothing told twice, wherever the driver is killed.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.core import DataError, UsageError
from tidings.disk.files import whole_file
from tidings.pipeline.watching.final import (
    debts,
    ending,
    final_verdicts,
    has_ended,
    has_ended_but_for_parts,
    verdicts,
)
from tidings.pipeline.watching.growing import Growing
from tidings.pipeline.watching.judge import Judge, Standing, WatchLimits
from tidings.pipeline.watching.mapped import manifest_of, pieces_of_log
from tidings.pipeline.watching.pieces import (
    Events,
    Piece,
    Rebinds,
    Step,
    checked,
    decode,
    packed,
)
from tidings.pipeline.watching.rows import Recall, gone
from tidings.pipeline.watching.status import (
    MemberStatus,
    Owed,
    RunStatus,
    SoFar,
    Status,
    write_status,
)
from tidings.pipeline.watching.stored import loaded, stored
from tidings.spec import Verdict, Violation
from tidings.trace import Manifest
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.schema import AGREED, BEGINNINGS, BINDING, ENDS, KINDS

FOLDER = "judge"
STATE = "state"
SOURCE = "source"
FINDINGS = "findings"
LOOKS_S = 0.2
STEPS = 32
"""How exactly it is known since when something is owed."""
_PLACE = pa.struct({"process": pa.string(), "index": pa.int64()})
SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "batch": pa.int64(),
        "found_at": pa.timestamp("us", "UTC"),
        "run": pa.string(),
        "guarantee": pa.string(),
        "process": pa.string(),
        "origin": pa.string(),
        "seq": pa.int64(),
        "cause_origin": pa.string(),
        "cause_seq": pa.int64(),
        "witness": pa.list_(_PLACE),
        "note": pa.string(),
    }
)


class WatchOptions(msgspec.Struct, frozen=True):
    """What to watch, and how patiently. Travels to a Connect server."""

    checkpoint: str
    folder: str | None = None
    """The trace, if it is a folder; then its manifests are read with every batch."""
    manifests: tuple[Manifest, ...] = ()
    form: Literal["packed", "rows", "log"] = "packed"
    mapping: LogMapping | None = None
    """What the columns of a log mean."""
    patience_s: float = 60.0
    """How long a missing part, or an unread broadcast of what may be a cause, is waited for."""
    limits: WatchLimits = WatchLimits()

    @property
    def place(self) -> Path:
        return Path(self.checkpoint, FOLDER)

    def manifests_now(self) -> dict[str, Manifest]:
        if self.folder is not None:
            return Growing(Path(self.folder)).manifests()
        return {one.run: one for one in self.manifests}

    @property
    def lists_members(self) -> bool:
        """Otherwise the members are those who have rows."""
        is_listed = self.mapping is not None and bool(self.mapping.members)
        return is_listed or self.folder is not None or bool(self.manifests)

    @property
    def recall(self) -> Recall:
        return Growing(Path(self.folder)).recall if self.folder is not None else gone


class _Mark(msgspec.Struct, frozen=True):
    at_s: float
    standings: Mapping[str, Standing]


class _Debt(msgspec.Struct, frozen=True, array_like=True):
    """What a member owes an origin."""

    process: str
    origin: str
    steps: list[tuple[int, float]]
    """Up to which number it owed something, from when on; below the first, nothing any more."""


class _State(msgspec.Struct):
    batch: int
    rows: int
    alarms: int
    judges: dict[str, bytes]
    owed: dict[str, list[_Debt]]
    """By run."""
    marks: list[_Mark]
    findings: bytes
    """Those of the batch, as a file; empty without any."""


_decode_state = msgspec.msgpack.Decoder(_State).decode


class BatchJudge:
    """Judges one batch after the other. What it keeps in memory, it could read from disk."""

    def __init__(self, options: WatchOptions) -> None:
        self.options = options
        self._state: _State | None = None
        self._judges: dict[str, Judge] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_state": None, "_judges": {}}

    def __call__(self, frame: Any, batch: int) -> None:
        begin = time.time()
        if batch <= self._loaded(begin).batch:
            self._show_again(begin)
            return
        table = frame.toArrow()
        if self.options.form == "packed":
            pieces = [decode(one) for one in table["piece"].to_pylist()]
        elif self.options.mapping is not None:
            ends = {
                (run, one.name): one.end
                for run, judge in self._judges.items()
                for one in judge.histories
            }
            run = self.options.mapping.run or "watched"
            pieces = list(pieces_of_log(table, self.options.mapping, run, ends))
        else:
            pieces = list(pieces_of_table(table))
        self.judge(pieces, batch, begin)

    def _loaded(self, now_s: float) -> _State:
        if self._state is None:
            self._state, self._judges = load(self.options)
            self._state.marks = _resumed(self._state.marks, now_s)
        return self._state

    def judge(self, pieces: Sequence[Piece], batch: int, begin_s: float) -> None:
        state, options = self._loaded(begin_s), self.options
        manifests = self._that_tell_of(pieces)
        since = self._too_long_ago(state, begin_s)
        found: list[tuple[str, Violation]] = []
        for run, manifest in manifests.items():
            judge = self._judges.get(run)
            if judge is None:
                judge = self._judges[run] = Judge(manifest, options.limits, options.recall)
            judge.know(manifest)
            judge.are_members_listed = options.lists_members
            mine = [piece for piece in pieces if piece.run == run]
            found += [(run, one) for one in judge.take(mine, since.get(run, {}))]
        state.batch = batch
        state.rows += sum(piece.rows for piece in pieces)
        state.alarms += len(found)
        state.findings = _stored_findings(batch, found) if found else b""
        runs = self._runs(manifests, begin_s)
        self._save(state, begin_s)
        self._show(runs, manifests, pieces, begin_s)

    def _show_again(self, now_s: float) -> None:
        """The driver may have died when it had written the state, and nothing else."""
        manifests = self._manifests(())
        judged = {run: one for run, one in manifests.items() if run in self._judges}
        self._show(self._runs(judged, now_s), judged, (), now_s)

    def _runs(self, manifests: Mapping[str, Manifest], now_s: float) -> tuple[RunStatus, ...]:
        state = self._loaded(now_s)
        return tuple(
            _status(self._judges[run], manifest, state, now_s)
            for run, manifest in manifests.items()
        )

    def _show(
        self,
        runs: tuple[RunStatus, ...],
        manifests: Mapping[str, Manifest],
        pieces: Sequence[Piece],
        begin_s: float,
    ) -> None:
        """What others read: findings and status."""
        state, options = self._loaded(begin_s), self.options
        if state.findings:
            write_findings(options.place, state.batch, state.findings)
        newest = max((piece.time_ns for piece in pieces), default=0)
        is_wall = any(one.clock == "wall" for one in manifests.values())
        now = time.time()
        write_status(
            options.place,
            Status(
                batch=state.batch,
                at_s=now,
                rows=state.rows,
                alarms=state.alarms,
                batch_rows=sum(piece.rows for piece in pieces),
                batch_s=now - begin_s,
                lag_s=now - newest / 1e9 if is_wall and newest else None,
                state_bytes=(options.place / STATE).stat().st_size,
                runs=runs,
            ),
        )

    def _that_tell_of(self, pieces: Sequence[Piece]) -> dict[str, Manifest]:
        """The manifests. Where files are copied, rows may come a moment before them."""
        end = time.monotonic() + self.options.patience_s
        while True:
            manifests = self._manifests(pieces)
            try:
                _refuse_strangers(pieces, manifests)
            except DataError:
                if self.options.folder is None or time.monotonic() >= end:
                    raise
                time.sleep(LOOKS_S)
            else:
                return manifests

    def _manifests(self, pieces: Sequence[Piece]) -> dict[str, Manifest]:
        known = self.options.manifests_now()
        if self.options.folder is not None or known:
            return known
        found = {}
        for run in dict.fromkeys([*self._judges, *(piece.run for piece in pieces)]):
            old = self._judges[run].manifest() if run in self._judges else None
            here = [piece for piece in pieces if piece.run == run]
            found[run] = manifest_of(self.options.mapping, run, old, here)
        return found

    def _too_long_ago(self, state: _State, now_s: float) -> Mapping[str, Standing]:
        """How far everything had got before the patience began."""
        old = [one for one in state.marks if one.at_s <= now_s - self.options.patience_s]
        if old:
            state.marks = [one for one in state.marks if one.at_s > old[-1].at_s]
            return old[-1].standings
        return {}

    def _save(self, state: _State, now_s: float) -> None:
        between = self.options.patience_s / 20
        if not state.marks or now_s - state.marks[-1].at_s >= between:
            standings = {run: dict(judge.standing) for run, judge in self._judges.items()}
            state.marks.append(_Mark(now_s, standings))
        state.judges = {run: stored(judge) for run, judge in self._judges.items()}
        data = msgspec.msgpack.encode(state)
        state.judges = {}
        self.options.place.mkdir(parents=True, exist_ok=True)
        with whole_file(self.options.place / STATE) as draft:
            draft.write_bytes(data)


def refuse_another_source(options: WatchOptions) -> None:
    """A checkpoint counts bytes and rows of the files in one folder; in another they mislead."""
    if options.folder is None:
        return
    path = options.place / SOURCE
    if not path.exists():
        with whole_file(path) as draft:
            draft.write_text(options.folder, encoding="utf-8")
    elif (known := path.read_text(encoding="utf-8")) != options.folder:
        raise UsageError(f"{options.checkpoint} is of a watch of {known}; choose another one")


def _resumed(marks: Sequence[_Mark], now_s: float) -> list[_Mark]:
    """Since the last of them nobody watched, so nobody waited either."""
    pause_s = now_s - marks[-1].at_s if marks else 0.0
    return [_Mark(one.at_s + pause_s, one.standings) for one in marks]


def load(options: WatchOptions) -> tuple[_State, dict[str, Judge]]:
    """Where the last batch left everything."""
    try:
        state = _decode_state((options.place / STATE).read_bytes())
    except FileNotFoundError:
        return _State(-1, 0, 0, {}, {}, [], b""), {}
    except msgspec.MsgspecError:
        raise DataError(
            f"{options.checkpoint}: of another version of tidings, or damaged: begin a new one"
        ) from None
    judges = {
        run: loaded(data, options.limits, options.recall) for run, data in state.judges.items()
    }
    state.judges = {}
    return state, judges


def conclusion(options: WatchOptions) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts if nothing more comes, also on runs of which nothing has come yet."""
    _, judges = load(options)
    return {
        run: final_verdicts(judges.get(run) or Judge(manifest), manifest)
        for run, manifest in manifests_at_the_end(options).items()
    }


def has_holes(options: WatchOptions) -> bool:
    """Whether parts were missing: they may have come since, or have been cut off before."""
    _, judges = load(options)
    histories = [history for judge in judges.values() for history in judge.histories]
    return any(history.holed or history.late for history in histories)


def manifests_at_the_end(options: WatchOptions) -> dict[str, Manifest]:
    """Those of the source; of a stream without any, what the judges know."""
    _, judges = load(options)
    made = {
        run: manifest_of(options.mapping, run, judge.manifest(), ())
        for run, judge in judges.items()
    }
    return made | options.manifests_now()


def _refuse_strangers(pieces: Iterable[Piece], manifests: Mapping[str, Manifest]) -> None:
    for piece in pieces:
        if piece.run not in manifests:
            raise DataError(f"run {piece.run!r} is not in the manifest")
        for name in (piece.process, *piece.origins):
            if name not in manifests[piece.run].names:
                raise DataError(f"{name} is not among the manifest's names")
        if piece.last_view >= len(manifests[piece.run].views):
            raise DataError(f"{piece.process}: view {piece.last_view} is not in the manifest")


def _stepped(
    steps: Sequence[tuple[int, float]], first: int, last: int, now_s: float
) -> list[tuple[int, float]]:
    """How a debt has grown, after it has shrunk to what begins with ``first``.

    Of too many steps the one that tells least is forgotten: what it added is owed since the next.
    """
    left = [(upto, since_s) for upto, since_s in steps if upto >= first]
    if not left or left[-1][0] < last:
        left.append((last, now_s))
    if len(left) > STEPS:
        around = zip(left, left[2:], strict=False)
        gaps = [after_s - before_s for (_, before_s), (_, after_s) in around]
        del left[1 + gaps.index(min(gaps))]
    return left


def _status(judge: Judge, manifest: Manifest, state: _State, now_s: float) -> RunStatus:
    before = {(one.process, one.origin): one.steps for one in state.owed.get(judge.run, ())}
    state.owed[judge.run] = []
    owed = []
    for debt in debts(judge):
        process, origin = judge.names[debt.process], judge.names[debt.origin]
        first, last = int(debt.seqs.firsts[0]), int(debt.seqs.lasts[-1])
        steps = _stepped(before.get((process, origin), []), first, last, now_s)
        state.owed[judge.run].append(_Debt(process, origin, steps))
        owed.append(Owed(process, origin, len(debt.seqs), first, last, steps[0][1]))
    end = ending(judge, manifest)
    return RunStatus(
        run=judge.run,
        members=tuple(
            MemberStatus(
                name=history.name,
                rows=history.rows,
                last_kind=history.last_kind,
                time_ns=history.time_ns,
                late=history.late_rows,
                ended=end.evidence.has_ended(history.name),
            )
            for history in (judge.histories[number] for number in judge.processes)
        ),
        owed=tuple(owed),
        verdicts=tuple(map(SoFar.of, verdicts(judge, manifest))),
        waiting=len(judge.strays.waiting)
        + sum(int((one.open > 0).sum()) for one in judge.histories),
        window_rows=sum(one.events.size for one in judge.histories),
        has_ended=has_ended(judge, manifest),
        has_ended_but_for_parts=has_ended_but_for_parts(judge, manifest),
    )


# --- findings


def key_of(run: str, one: Violation) -> str:
    """The same for the same violation, whichever batch shows it."""
    places = ",".join(map(str, one.witness))
    return blake2b(
        "\0".join((run, str(one.guarantee), one.process, str(one.message), places)).encode(),
        digest_size=8,
    ).hexdigest()


def _stored_findings(batch: int, found: Sequence[tuple[str, Violation]]) -> bytes:
    """As a file of Parquet."""
    now = int(time.time() * 1e6)
    rows = [
        {
            "key": key_of(run, one),
            "batch": batch,
            "found_at": now,
            "run": run,
            "guarantee": str(one.guarantee),
            "process": one.process,
            "origin": one.message.origin,
            "seq": one.message.seq,
            "cause_origin": one.cause.origin if one.cause else None,
            "cause_seq": one.cause.seq if one.cause else None,
            "witness": [{"process": at.process, "index": at.index} for at in one.witness],
            "note": one.note or None,
        }
        for run, one in found
    ]
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), file)
    return bytes(file.getvalue().to_pybytes())


def write_findings(place: Path, batch: int, findings: bytes) -> None:
    folder = place / FINDINGS
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / f"batch-{batch:09}.parquet") as draft:
        draft.write_bytes(findings)


def read_findings(
    place: Path, after: int = -1, upto: int | None = None
) -> Iterator[dict[str, Any]]:
    """What batches after the one and up to the other showed, in their order."""
    for path in sorted((place / FINDINGS).glob("batch-*.parquet")):
        batch = int(path.stem.removeprefix("batch-"))
        if after < batch and (upto is None or batch <= upto):
            yield from pq.read_table(path).to_pylist()


# --- rows of any stream


def pieces_of_table(table: Any) -> Iterator[Piece]:
    """Rows with the columns of a trace and names as texts, in any order."""
    if not len(table):
        return
    for name in ("run", "process", "index", "kind"):
        if table[name].null_count:
            raise DataError(f"a row needs {name!r}")
    table = table.sort_by([(name, "ascending") for name in ("run", "process", "index")])
    run, process = (table[name].combine_chunks() for name in ("run", "process"))
    index = table["index"].to_numpy()
    known = pc.index_in(table["kind"].cast(pa.string()), pa.array(KINDS))
    if known.null_count:
        (first,) = table["kind"].filter(pc.is_null(known)).slice(0, 1).to_pylist()
        raise DataError(f"{first!r} is no kind of row")
    kind = known.to_numpy()
    ends = index + 1
    if "value" in table.column_names:
        is_gap = kind == KINDS.index("gap")
        ends = np.where(is_gap, table["value"].fill_null(0).to_numpy() + 1, ends)
    names = [f"{a}\0{b}" for a, b in zip(run.to_pylist(), process.to_pylist(), strict=True)]
    is_new = np.array([True, *(a != b for a, b in zip(names[1:], names[:-1], strict=True))])
    is_new[1:] |= index[1:] != ends[:-1]
    starts = np.flatnonzero(is_new)
    for begin, end in zip(starts, [*starts[1:], len(index)], strict=True):
        rows = table.slice(begin, end - begin)
        yield _piece_of_table(rows, kind[begin:end], index[begin:end], ends[begin:end])


def _piece_of_table(rows: Any, kind: Any, index: Any, ends: Any) -> Piece:
    about = np.flatnonzero(np.isin(kind, _codes("broadcast", "deliver")))
    some = rows.take(pa.array(about))
    _refuse_impossible(rows, kind)
    for column in ("origin", "seq", "digest"):
        if some[column].null_count:
            raise DataError(f"a row about a message needs {column!r}")
    origins = some["origin"].cast(pa.string()).combine_chunks().dictionary_encode()
    times = rows["time_ns"].to_pylist() if "time_ns" in rows.column_names else [0]
    events = Events(
        index[about],
        kind[about] == KINDS.index("broadcast"),
        origins.indices.to_numpy(),
        some["seq"].to_numpy(),
        some["digest"].to_numpy(),
        some["view"].fill_null(-1).to_numpy(),
    )
    return Piece(
        run=rows["run"][0].as_py(),
        process=rows["process"][0].as_py(),
        begin=int(index[0]),
        end=int(ends[-1]),
        rows=len(index),
        first_kind=KINDS[kind[0]],
        last_kind=KINDS[kind[-1]],
        has_gap=bool((kind == KINDS.index("gap")).any()),
        origins=tuple(origins.dictionary.to_pylist()),
        columns=packed(events),
        time_ns=times[-1] or 0,
        steps=tuple(_steps(rows, kind)),
        rebinds=tuple(
            Rebinds(row["index"], row["seq"], 1, row["view"])
            for row in _rows_of(rows, kind, "rebind", columns=("index", "seq", "view"))
        ),
    )


def _codes(*kinds: str) -> list[int]:
    return [KINDS.index(one) for one in kinds]


def _refuse_impossible(rows: Any, kind: Any) -> None:
    """What no process can do, and the audit of a trace refuses, too."""
    process = rows["process"][0].as_py()
    for column in ("index", "seq", "view"):
        least = pc.min(rows[column]).as_py()
        if least is not None and least < 0:
            raise DataError(f"{process}: {column} {least}")
    is_over = np.isin(kind[:-1], _codes(*ENDS)) & ~np.isin(kind[1:], _codes(*BEGINNINGS))
    if is_over.any():
        place = int(np.flatnonzero(is_over)[0])
        words = f"{process} acts ({KINDS[kind[place + 1]]}) after its {KINDS[kind[place]]}"
        raise DataError(words)
    binding = rows.take(pa.array(np.flatnonzero(np.isin(kind, _codes(*BINDING)))))
    if any(binding[column].null_count for column in ("origin", "seq", "view")):
        raise DataError("a row that binds a message needs 'origin', 'seq' and 'view'")
    others = binding.filter(pc.not_equal(binding["origin"].cast(pa.string()), process))
    if len(others):
        (first,) = others.slice(0, 1).select(["kind", "origin"]).to_pylist()
        raise DataError(f"{process} cannot {first['kind']} a message of {first['origin']}")


def _rows_of(rows: Any, kind: Any, *kinds: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    chosen = np.flatnonzero(np.isin(kind, _codes(*kinds)))
    return list(rows.select(columns).take(pa.array(chosen)).to_pylist()) if len(chosen) else []


def _steps(rows: Any, kind: Any) -> Iterator[Step]:
    """Those that have a number; without a column of numbers there are none."""
    names = ("index", "kind", "view", "value", "vector")
    columns = [name for name in names if name in rows.column_names]
    for row in _rows_of(rows, kind, *AGREED, columns=columns):
        if row.get("value") is not None:
            cut = dict(row.get("vector") or ())
            yield checked(Step(row["index"], row["kind"], row["value"], row["view"], cut))
