"""Events in order become histories: each row gets its place, and each history its end.

What comes in is sorted by history and by the log's own order, in blocks; what was counted in one
block goes on in the next.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings.core import DataError, Members, ordered
from tidings.trace.foreign.meaning import (
    ABSENT,
    AT_THE_END,
    BY_MAPPING,
    KIND,
    Interpreter,
    file_of,
    history_of,
    process_of,
    run_of,
)
from tidings.trace.manifest import Fate
from tidings.trace.schema import KINDS

_OVER = [KIND["crash"], KIND["leave"]]
_COUNTED = {"index": None, "incarnation": KIND["recover"], "seq": KIND["broadcast"]}
"""What grows along a history, and with rows of which kind."""


class HistoryEnding(NamedTuple):
    """How a history ends, and how many broadcasts are in it."""

    last_kind: str
    broadcasts: int


class Numbering:
    """Puts numbers on sorted events, and remembers how each history ends."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._last: dict[str, int] = {}
        """The last row of the block before."""
        self.endings: dict[int, HistoryEnding] = {}

    def numbered(self, blocks: Iterable[Any]) -> Iterator[Any]:
        """The events with ``index`` and ``incarnation``; broadcasts known by an id with ``seq``."""
        for block in blocks:
            columns = {name: block[name].to_numpy() for name in block.column_names}
            rows = _Rows(columns, self._last)
            needed = ~self._needless(rows)
            if not needed.any():
                continue
            rows = _Rows({name: values[needed] for name, values in columns.items()}, self._last)
            self._check(rows)
            yield pa.table(self._columns(rows))

    def _columns(self, rows: "_Rows") -> dict[str, Any]:
        columns = dict(rows.columns)
        is_by_mapping = rows["place"] == BY_MAPPING
        columns["time_ns"] = np.where(is_by_mapping, rows.before("time_ns", 0), rows["time_ns"])
        counts = {
            name: rows.counted(name, rows["kind"] == kind if kind is not None else None)
            for name, kind in _COUNTED.items()
        }
        for row in rows.lasts:
            self.endings[int(rows["history"][row])] = HistoryEnding(
                KINDS[rows["kind"][row]], int(counts["seq"][row])
            )
        self._last = {name: int(values[-1]) for name, values in (columns | counts).items()}
        columns["index"] = counts["index"] - 1
        columns["incarnation"] = counts["incarnation"]
        if "id_low" in columns:
            is_broadcast = rows["kind"] == KIND["broadcast"]
            columns["seq"] = np.where(is_broadcast, counts["seq"], ABSENT)
            columns["origin"] = np.where(
                is_broadcast, process_of(rows["history"]), columns["origin"]
            )
        return columns

    # --- what is wrong, and what is not needed

    def _needless(self, rows: "_Rows") -> Any:
        """Ends that the mapping tells of processes whose rows tell it themselves."""
        is_by_mapping = rows["place"] == BY_MAPPING
        before = rows.before("kind", ABSENT)
        is_over = is_by_mapping & np.isin(before, _OVER)
        if is_over.any() and self._interpreter.mapping.end.listed:
            row = int(np.argmax(is_over))
            name, last = self._name(rows, row), KINDS[before[row]]
            raise DataError(f"end.settled: {name} is listed, but its history ends with a {last}")
        return is_over | (is_by_mapping & (before == KIND["settle"]))

    def _check(self, rows: "_Rows") -> None:
        before = rows.before("kind", ABSENT)
        acts = np.isin(before, _OVER) & (rows["kind"] != KIND["recover"])
        for row in np.flatnonzero(acts)[:1]:
            kind, last = KINDS[rows["kind"][row]], KINDS[before[row]]
            fault = f"{self._name(rows, row)} acts ({kind}) after its {last}"
            self._refuse(rows, row, f"{fault}; which rows say that it came back (kinds.recover)?")
        place, order = rows.before("place", ABSENT), rows.before("order", ABSENT)
        ties = rows.continues & (rows["order"] == order)
        ties &= file_of(rows["place"]) != file_of(place)
        for row in np.flatnonzero(ties)[:1]:
            other = self._interpreter.place(int(place[row]))
            fault = f"{self._name(rows, row)} has a row of the same order in {other}"
            self._refuse(rows, row, f"{fault}: which comes first?")

    def _name(self, rows: "_Rows", row: int) -> str:
        return self._interpreter.name(int(rows["history"][row]))

    def _refuse(self, rows: "_Rows", row: int, fault: str) -> None:
        place = self._interpreter.place(int(rows["place"][row]))
        raise DataError(f"{place}: {fault}")


class _Rows:
    """A block of rows, each of which may continue the history of the row before it."""

    def __init__(self, columns: dict[str, Any], last: dict[str, int]) -> None:
        self.columns = columns
        self._last = last
        history = columns["history"]
        self.continues = history == np.append(last.get("history", ABSENT), history[:-1])
        """Whether the row before is of the same history."""

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def before(self, name: str, otherwise: int) -> Any:
        """The value on the row before, within the same history."""
        values = np.append(self._last.get(name, otherwise), self.columns[name][:-1])
        return np.where(self.continues, values, otherwise)

    def counted(self, name: str, which: Any | None) -> Any:
        """How many of these rows the history has had, this one included."""
        total = np.arange(1, len(self.continues) + 1) if which is None else np.cumsum(which)
        begins = np.flatnonzero(~self.continues)
        base = np.zeros(len(total), np.int64)
        base[begins] = np.where(begins > 0, total[begins - 1], 0)
        # Before the first that begins here, the history of the block before goes on.
        counted = total - np.maximum.accumulate(base)
        going_on = begins[0] if len(begins) else len(total)
        counted[:going_on] += self._last.get(name, 0)
        return counted

    @property
    def lasts(self) -> Any:
        """The last row of each history, as far as this block goes."""
        return np.append(np.flatnonzero(~self.continues[1:]), len(self.continues) - 1)


# --- what became of each process: as its rows say, or else as the mapping does


class Ends:
    """Who took part in each run, and how it ended for them."""

    def __init__(self, interpreter: Interpreter, endings: Mapping[int, HistoryEnding]) -> None:
        self._end = interpreter.mapping.end
        self._names = interpreter.names
        self._endings = endings
        """Filled while the rows are put in order."""
        with_rows: dict[int, list[str]] = {run: [] for run in range(len(interpreter.runs.words))}
        for history in interpreter.histories:
            with_rows[run_of(history)].append(interpreter.name(history))
        self._with_rows = {run: ordered(names) for run, names in with_rows.items()}
        members = interpreter.mapping.members
        self._members = None if members is None else ordered(members)
        # A name that is nowhere else is misspelt.
        known = {*(self._members or ())}.union(*self._with_rows.values())
        for name in ordered({*self._end.fates, *self._end.listed} - known):
            raise DataError(f"end: {name} is no member, and the log has no row of it")

    def members(self, run: int) -> Members:
        return self._with_rows[run] if self._members is None else self._members

    def processes(self, run: int) -> Members:
        """Everybody who is owed a history: the members, and whoever else left one."""
        members, with_rows = self.members(run), self._with_rows[run]
        return members if members == with_rows else ordered((*members, *with_rows))

    def settled_by_mapping(self, like: Any) -> Any:
        """The last rows of processes that had settled, as the mapping says and no line of the log.

        That all had settled says nothing of those without any row: their logs may be lost.
        """
        settled = [
            self.history(run, name)
            for run, with_rows in self._with_rows.items()
            for name in self.processes(run)
            if self._end.settles(name) and (name in with_rows or name in self._end.listed)
        ]
        row = {"order": AT_THE_END, "place": BY_MAPPING, "kind": KIND["settle"], "time_ns": 0}
        columns = {
            name: np.full(len(settled), row.get(name, ABSENT), np.int64)
            for name in like.column_names
        }
        return pa.table(columns | {"history": np.array(settled, np.int64)})

    def history(self, run: int, name: str) -> int:
        return int(history_of(run, self._names.code(name)))

    def ending(self, run: int, name: str) -> HistoryEnding | None:
        return self._endings.get(self.history(run, name))

    def fates(self, run: int) -> dict[str, Fate]:
        named = self._end.fates
        return {name: named[name] for name in self.processes(run) if name in named}

    def untold(self, run: int) -> Members:
        """Those who may have done more than their rows say, in order."""
        endings = {name: self.ending(run, name) for name in self.processes(run)}
        return tuple(
            name
            for name, ending in endings.items()
            if ending is None or ending.last_kind not in _LAST_OF_ALL[self._end.fates.get(name)]
        )


_LAST_OF_ALL: dict[Fate | None, tuple[str, ...]] = {
    "up": ("settle",),
    "crashed": KINDS,
    "left": KINDS,
    None: ("settle", "crash", "leave"),
}
"""By the fate that the mapping tells, if any: which kind of row leaves nothing more to say."""
