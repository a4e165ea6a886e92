"""Valid traces of any size, made column by column.

Time goes in epochs. In each, every process broadcasts ``LOAD`` messages and delivers all those of
the epoch before, those of one origin in their order, otherwise in a random order of its own, its
broadcasts anywhere between. So whatever a message depends on is of its own origin or of an earlier
epoch, and everybody delivers it before. The last process crashes in its last epoch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.trace import KINDS, Manifest
from tidings.trace.parquet import ARROW, FORM, ROWS_A_GROUP

Array = Any

LOAD = 8
SMALL_LOAD, SMALL_EPOCHS = 2, 4
"""For the runs of a campaign."""

KIND = pa.array(list(KINDS), pa.string())
BROADCAST, DELIVER, CRASH, SETTLE = map(KINDS.index, ("broadcast", "deliver", "crash", "settle"))


def long_run(folder: Path, events: int, processes: int, seed: int = 1) -> None:
    """About so many events, one file for each process."""
    epochs = max(2, events // (processes * (processes + 1) * LOAD))
    names = _names(processes)
    _write_manifest(folder, ["long"], names)
    for process in range(processes):
        rng = np.random.default_rng((seed, process))
        chunks = _history(rng, process, processes, epochs)
        path = folder / f"{names[process]}.parquet"
        with pq.ParquetWriter(path, ARROW, **FORM) as writer:
            for table in _in_groups(chunks, process, "long"):
                writer.write_table(table, row_group_size=ROWS_A_GROUP)


def _history(
    rng: Any, process: int, processes: int, epochs: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Kind, origin and seq of each event, some epochs at a time."""
    at_once = max(1, ROWS_A_GROUP // ((processes + 1) * LOAD))
    deliveries = np.repeat(np.arange(processes, dtype=np.int8), LOAD)
    block = np.concatenate([deliveries, np.full(LOAD, processes, np.int8)])
    next_seq = np.ones(processes + 1, np.int64)
    yield _numbered(np.full(LOAD, processes, np.int8), process, next_seq)
    for begin in range(0, epochs - 1, at_once):
        count = min(at_once, epochs - 1 - begin)
        labels = rng.permuted(np.tile(block, (count, 1)), axis=1).ravel()
        yield _numbered(labels, process, next_seq)
    labels = rng.permuted(deliveries)
    is_crashing = process == processes - 1
    yield _numbered(labels[: len(labels) // 2] if is_crashing else labels, process, next_seq)
    last = CRASH if is_crashing and processes > 2 else SETTLE
    yield np.array([last]), np.array([-1]), np.array([-1])


def _numbered(labels: Array, process: int, next_seq: Array) -> tuple[Array, Array, Array]:
    """Labels are origins, or one more for a broadcast."""
    seq = np.empty(len(labels), np.int64)
    broadcast = len(next_seq) - 1
    for label in range(len(next_seq)):
        places = np.flatnonzero(labels == label)
        seq[places] = next_seq[label] + np.arange(len(places))
        next_seq[label] += len(places)
    is_broadcast = labels == broadcast
    origin = np.where(is_broadcast, process, labels).astype(np.int16)
    return np.where(is_broadcast, BROADCAST, DELIVER), origin, seq


def _in_groups(chunks: Iterator[Any], process: int, run: str) -> Iterator[Any]:
    """Tables of a whole group of rows each, but for the last."""
    waiting: list[Any] = []
    rows = index = 0
    for chunk in chunks:
        waiting.append(chunk)
        rows += len(chunk[0])
        if rows >= ROWS_A_GROUP:
            whole = [np.concatenate(column) for column in zip(*waiting, strict=True)]
            here = [column[:ROWS_A_GROUP] for column in whole]
            yield _table([run], 0, process, index + np.arange(ROWS_A_GROUP), *here)
            index += ROWS_A_GROUP
            waiting = [tuple(column[ROWS_A_GROUP:] for column in whole)]
            rows -= ROWS_A_GROUP
    whole = [np.concatenate(column) for column in zip(*waiting, strict=True)]
    yield _table([run], 0, process, index + np.arange(rows), *whole)


def campaign(folder: Path, runs: int, processes: int, seed: int = 1, files: int = 8) -> None:
    """Many small runs, whole runs in each file."""
    names = _names(processes)
    labels = [f"run-{number}" for number in range(runs)]
    _write_manifest(folder, labels, names)
    for number, part in enumerate(np.array_split(np.arange(runs), files)):
        rng = np.random.default_rng((seed, number))
        with pq.ParquetWriter(folder / f"runs-{number}.parquet", ARROW, **FORM) as writer:
            for some in np.array_split(part, max(1, len(part) // 4000)):
                if len(some):
                    writer.write_table(_small_runs(rng, labels, some, processes))


def _small_runs(rng: Any, labels: list[str], runs: Array, processes: int) -> Any:
    deliveries = np.repeat(np.arange(processes, dtype=np.int8), SMALL_LOAD)
    block = np.concatenate([deliveries, np.full(SMALL_LOAD, processes, np.int8)])
    histories = []
    for process in range(processes):
        parts = [np.full((len(runs), SMALL_LOAD), processes, np.int8)]
        for epoch in range(SMALL_EPOCHS):
            shuffled = block if epoch < SMALL_EPOCHS - 1 else deliveries
            parts.append(rng.permuted(np.tile(shuffled, (len(runs), 1)), axis=1))
        label = np.concatenate(parts, axis=1)
        seq = np.empty(label.shape, np.int64)
        for one in range(processes + 1):
            here = label == one
            seq[here] = (np.cumsum(here, axis=1))[here]
        is_broadcast = label == processes
        end = np.full((len(runs), 1), -1)
        kind = np.where(is_broadcast, BROADCAST, DELIVER)
        origin = np.where(is_broadcast, process, label)
        histories.append(
            (
                np.concatenate([kind, np.full((len(runs), 1), SETTLE)], axis=1),
                np.concatenate([origin, end], axis=1),
                np.concatenate([seq, end], axis=1),
            )
        )
    kind, origin, seq = (np.stack(column, axis=1) for column in zip(*histories, strict=True))
    rows = kind.shape[2]
    index = np.tile(np.arange(rows), len(runs) * processes)
    process = np.tile(np.repeat(np.arange(processes), rows), len(runs))
    run = np.repeat(np.arange(len(runs)), processes * rows)
    here = [labels[number] for number in runs]
    return _table(here, run, process, index, kind.ravel(), origin.ravel(), seq.ravel())


def digests(run: Array, origin: Array, seq: Array) -> Array:
    """Numbers that look like hashes of texts, different for different messages."""
    with np.errstate(over="ignore"):
        mixed = seq.astype(np.uint64) + (np.uint64(1 << 40) * origin.astype(np.uint64))
        mixed = (mixed + np.uint64(7919) * np.asarray(run, np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def _table(
    labels: list[str],
    run: Array | int,
    process: Array | int,
    index: Array,
    kind: Array,
    origin: Array,
    seq: Array,
) -> Any:
    rows = len(index)
    absent = origin < 0
    run = np.broadcast_to(np.asarray(run, np.int32), rows)
    columns = {
        "run": pa.DictionaryArray.from_arrays(run, pa.array(labels)),
        "process": pa.array(np.broadcast_to(np.asarray(process, np.int16), rows)),
        "index": pa.array(index),
        "kind": pa.DictionaryArray.from_arrays(kind.astype(np.int32), KIND),
        "time_ns": pa.array(index * 1000),
        "incarnation": pa.array(np.zeros(rows, np.int64)),
        "origin": pa.array(origin.astype(np.int16), mask=absent),
        "seq": pa.array(seq, mask=absent),
        "digest": pa.array(digests(run, origin, seq), mask=absent),
        "view": pa.array(np.zeros(rows, np.int64), mask=kind != BROADCAST),
    }
    empty = {one.name: pa.nulls(rows, one.type) for one in ARROW if one.name not in columns}
    return pa.table(columns | empty, schema=ARROW)


def _names(processes: int) -> tuple[str, ...]:
    return tuple(f"p{number}" for number in range(1, processes + 1))


def _write_manifest(folder: Path, runs: list[str], names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts = (
        msgspec.json.encode(Manifest(schema=1, run=run, names=names, views=(names,)))
        for run in runs
    )
    (folder / "manifest.jsonl").write_bytes(b"".join(part + b"\n" for part in parts))
