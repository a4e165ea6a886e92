"""Messages known by an id get names like p1#4: the fourth message that p1 broadcast.

The broadcasts of every history are numbered in its order, and kept as a table sorted by the hash of
the id (128 bits, with the run and perhaps the origin in it), which every worker maps into memory.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.pipeline.arrays.perform import Perform
from tidings.pipeline.sources.gathering import Gathering, Rows, Shelf, portions
from tidings.pipeline.sources.hashing import mixed
from tidings.pipeline.sources.meaning import ABSENT
from tidings.pipeline.sources.numbering import POSITION, RUN_BITS, NumberingFault
from tidings.pipeline.sources.storing import MOST_MAPPED, mapped, write_columns

BUCKET_ROWS = 1 << 22
"""A bucket of the table has about so many names."""
_BITS = 64


class Names(NamedTuple):
    """Tables of names, each for the keys that begin with its number; and one more, for the rest."""

    buckets: Sequence[str]
    others: str | None = None

    def of(self, rows: Rows, which: Any) -> tuple[Any, Any, Any]:
        """The origin and the number of each message, ABSENT where none is known; and whether it
        was seen to be broadcast."""
        origin = np.full(len(which), ABSENT)
        seq = np.full(len(which), ABSENT)
        key, other = keys_of(rows)
        bucket = _buckets(key, len(self.buckets))
        for number, path in enumerate(self.buckets):
            those = which if bucket is None else which & (bucket == number)
            _look_up(_table(path), key, other, np.flatnonzero(those), origin, seq)
        is_seen = origin != ABSENT
        if self.others is not None:
            lost = np.flatnonzero(which & ~is_seen)
            _look_up(_table(self.others), key, other, lost, origin, seq)
        return origin, seq, is_seen


def keys_of(rows: Rows) -> tuple[Any, Any]:
    """The hash of an id is that of a message if it tells what the id is unique in."""
    run = rows["history"] >> RUN_BITS
    within = (run << 16 | rows["by"] & 0xFFFF) if "by" in rows else run
    if not within.any():
        return rows["key"], rows["other_key"]
    salt = mixed(within.view(np.uint64))
    return rows["key"] ^ salt, rows["other_key"] ^ salt


def _buckets(key: Any, count: int) -> Any | None:
    bits = (count - 1).bit_length()
    return key >> np.uint64(_BITS - bits) if bits else None


class _Table(NamedTuple):
    """Names sorted by their keys, and where those begin that start with the same bits."""

    rows: Any
    """key, other_key, origin and seq, side by side: a look at a name is a look at one place."""
    begins: Any
    shift: Any


@lru_cache(maxsize=MOST_MAPPED)
def _table(path: str) -> _Table:
    rows = np.load(path, mmap_mode="r")
    bits = max(1, len(rows).bit_length())
    shift = np.uint64(_BITS - bits)
    counts = np.bincount((rows[:, 0] >> shift).view(np.int64), minlength=1 << bits)
    return _Table(rows, np.append(0, np.cumsum(counts)[:-1]), shift)


def _look_up(table: _Table, key: Any, other: Any, rows: Any, origin: Any, seq: Any) -> None:
    """From where a key would begin, ahead until it is found, or a larger one."""
    if not len(table.rows):
        return
    wanted, half = key[rows], other[rows]
    at = table.begins[(wanted >> table.shift).view(np.int64)]
    while len(rows):
        found = table.rows[np.minimum(at, len(table.rows) - 1)]
        is_it = (found[:, 0] == wanted) & (found[:, 1] == half)
        origin[rows[is_it]] = found[is_it, 2]
        seq[rows[is_it]] = found[is_it, 3]
        on = np.flatnonzero(~is_it & (found[:, 0] <= wanted) & (at < len(table.rows)))
        rows, at, wanted, half = rows[on], at[on] + 1, wanted[on], half[on]


def _write(folder: Path, columns: Rows) -> str:
    rows = np.stack([columns[name].view(np.uint64) for name in _NAMED], axis=1)
    path = _new(folder).with_suffix(".npy")
    np.save(path, rows)
    return str(path)


_NAMED = ("key", "other_key", "origin", "seq")


# --- making them


class _Numbered(NamedTuple):
    path: str
    ends: Sequence[int]
    """For each bucket, where its names end in the file."""


def names_of(
    perform: Perform,
    jobs: Sequence[Sequence[Gathering]],
    shelves: Sequence[Shelf],
    has_origin: bool,
    broadcasts: int,
    folder: Path,
) -> tuple[Names, NumberingFault | None]:
    """The names of all messages that were broadcast; and the first id of two messages."""
    count = 1 << max(0, broadcasts // BUCKET_ROWS).bit_length()
    wanted = ["key", "other_key", *(["by"] if has_origin else [])]

    def number(job: Sequence[Gathering]) -> _Numbered:
        return _number(job, shelves, wanted, count, folder)

    parts = perform(number, jobs)

    def index(bucket: int) -> tuple[str, NumberingFault | None]:
        return _index(parts, bucket, folder)

    tables = perform(index, range(count))
    faults = [fault for _, fault in tables if fault is not None]
    return Names([path for path, _ in tables]), min(faults, default=None)


def _number(
    job: Sequence[Gathering],
    shelves: Sequence[Shelf],
    wanted: Sequence[str],
    count: int,
    folder: Path,
) -> _Numbered:
    parts: list[Rows] = []
    last, broadcast = ABSENT, 0
    for rows in portions(job, shelves, wanted, broadcasts=True):
        history = rows["history"]
        begins = np.flatnonzero(np.diff(history, prepend=last))
        bases = np.append(-broadcast if last == history[0] else 0, begins)
        seq = np.arange(1, len(history) + 1) - np.repeat(bases, np.diff([0, *begins, len(history)]))
        last, broadcast = int(history[-1]), int(seq[-1])
        key, other = keys_of(rows)
        named = {"key": key, "other_key": other, "history": history, "seq": seq}
        parts.append(named | {name: rows[name] for name in ("source", "place")})
    if not parts:
        return _Numbered("", [0] * count)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    in_order = np.argsort(columns["key"], kind="stable")
    columns = {name: values[in_order] for name, values in columns.items()}
    bucket = _buckets(columns["key"], count)
    numbers = np.arange(count, dtype=np.uint64)
    ends = [len(in_order)] if bucket is None else np.searchsorted(bucket, numbers, "right").tolist()
    return _Numbered(write_columns(_new(folder), columns), ends)


def _index(
    parts: Sequence[_Numbered], bucket: int, folder: Path
) -> tuple[str, NumberingFault | None]:
    """One name for each key: the first, of the process that the manifest has first."""
    found: list[Rows] = [_NONE]
    for part in parts:
        begin, end = part.ends[bucket - 1] if bucket else 0, part.ends[bucket]
        if begin < end:
            table = mapped(part.path)
            found.append({name: values[begin:end] for name, values in table.items()})
    columns = {name: np.concatenate([one[name] for one in found]) for name in _NONE}
    in_order = np.argsort(columns["key"], kind="stable")
    columns = {name: values[in_order] for name, values in columns.items()}
    again = (columns["key"][1:] == columns["key"][:-1]) & (
        columns["other_key"][1:] == columns["other_key"][:-1]
    )
    fault = None
    if again.any():
        fault = _reused(columns, again)
        first = np.append(True, ~again)
        columns = {name: values[first] for name, values in columns.items()}
    columns["origin"] = columns.pop("history") & POSITION
    return _write(folder, columns), fault


_NONE: Rows = {
    "key": np.array([], np.uint64),
    "other_key": np.array([], np.uint64),
    "history": np.array([], np.int64),
    "seq": np.array([], np.int64),
    "source": np.array([], np.int64),
    "place": np.array([], np.int64),
}


def _reused(columns: Rows, again: Any) -> NumberingFault | None:
    """The first broadcast of an id that another process has broadcast."""
    group = np.append(0, np.cumsum(~again))
    owner = columns["history"][np.append(True, ~again)]
    others = np.flatnonzero(columns["history"] != owner[group])
    if not len(others):
        return None
    places = np.stack([columns["source"], columns["place"]], axis=1)
    row = min(others.tolist(), key=lambda one: places[one].tolist())
    same = [one for one in np.flatnonzero(group == group[row]).tolist() if one != row]
    first = min(tuple(places[one].tolist()) for one in same)
    history = int(columns["history"][row])
    return NumberingFault(tuple(places[row].tolist()), "named", history, "broadcast", first)


def _new(folder: Path) -> Path:
    return folder / f"{uuid4().hex}.names"


def invented(
    tables: Sequence[str], suspects: Sequence[int], used: Callable[[int, int], int], folder: Path
) -> str:
    """A table of names for what nobody is seen to broadcast.

    For each run there is a suspect, unless the log names the origin; the names are numbered in the
    order of the ids, from the next number on that the origin has not used.
    """
    lost = [mapped(path) for path in tables]
    names = ("key", "other_key", "run", "by")
    columns = {name: np.concatenate([one[name] for one in lost]) for name in names}
    ids = pa.chunked_array([one["id"] for one in lost])
    given = columns.pop("by")
    origin = np.where(given == ABSENT, np.array(suspects)[columns["run"]], given)
    listed = pa.table({"run": columns["run"], "origin": origin, "id": ids})
    by_id = pc.sort_indices(listed, [(name, "ascending") for name in listed.column_names])
    columns = {name: one[by_id.to_numpy()] for name, one in (columns | {"origin": origin}).items()}
    is_new = np.append(True, columns["key"][1:] != columns["key"][:-1])
    columns = {name: one[is_new] for name, one in columns.items()}
    whose = columns.pop("run") << RUN_BITS | columns["origin"]
    begins = np.flatnonzero(np.diff(whose, prepend=ABSENT))
    bases = [used(int(whose[one] >> RUN_BITS), int(whose[one] & POSITION)) for one in begins]
    before = np.repeat(np.array(bases) - begins, np.diff([*begins, len(whose)]))
    columns["seq"] = np.arange(1, len(whose) + 1) + before
    in_order = np.argsort(columns["key"], kind="stable")
    return _write(folder, {name: one[in_order] for name, one in columns.items()})
