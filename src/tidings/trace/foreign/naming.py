"""Messages known by an id get names like p1#4: the fourth message that p1 broadcast.

Rows are sorted by their ids, the broadcast first, so that every row finds the name of its message
in front of it; then they are sorted back into their histories.

An id that was delivered and never broadcast has no name. It is ascribed to a process whose
history does not tell its end, for that one may have broadcast it, and the verdicts are unknown. If
there is none, it is the message of nobody, and a violation.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.core import DataError
from tidings.trace.foreign.meaning import ABSENT, KIND, Interpreter, run_of
from tidings.trace.foreign.numbering import Ends
from tidings.trace.foreign.sorting import Sorter

NOBODY = "nobody"
ID = ("run", "id_high", "id_low")
BY_ID = (*ID, "follows", "history", "index")


class Inventor:
    """Names for what nobody is seen to broadcast."""

    def __init__(self, interpreter: Interpreter, ends: Ends) -> None:
        self._interpreter = interpreter
        self._ends = ends
        self._suspects: dict[int, str] = {}
        self._invented: Counter[int] = Counter()

    def name(self, run: int, origin: int) -> tuple[int, int]:
        """An origin, the one that the log names if it does, and a number it has not used."""
        names = self._interpreter.names
        if run not in self._suspects:
            self._suspects[run] = next(iter(self._ends.untold(run)), NOBODY)
        suspect = self._suspects[run] if origin == ABSENT else names.words[origin]
        history, ending = self._ends.history(run, suspect), self._ends.ending(run, suspect)
        self._interpreter.mentioned.add(history)
        self._invented[history] += 1
        own = ending.broadcasts if ending is not None else 0
        return names.code(suspect), own + self._invented[history]


def with_keys(messages: Any) -> Any:
    """Rows about messages, ready to be sorted by id."""
    follows = messages["kind"].to_numpy() != KIND["broadcast"]
    messages = messages.append_column("run", pa.array(run_of(messages["history"].to_numpy())))
    return messages.append_column("follows", pa.array(follows.astype(np.int64)))


def named(by_id: Sorter, interpreter: Interpreter, inventor: Inventor) -> Iterator[Any]:
    """Rows about messages, all with ``origin`` and ``seq``, and no longer with ids."""
    last: dict[str, int] = {}
    for block in by_id.blocks():
        rows = {name: block[name].to_numpy() for name in block.column_names}
        same = np.logical_and.reduce(
            [rows[key] == np.append(last.get(key, ABSENT), rows[key][:-1]) for key in ID]
        )
        same[0] &= bool(last)
        rows["origin"], rows["seq"] = rows["origin"].copy(), rows["seq"].copy()
        for row in np.flatnonzero(~same & (rows["follows"] == 1)):
            run, origin = int(rows["run"][row]), int(rows["origin"][row])
            rows["origin"][row], rows["seq"][row] = inventor.name(run, origin)
        at = np.maximum.accumulate(np.where(same, ABSENT, np.arange(len(same))))
        first = {
            name: np.where(at == ABSENT, last.get(name, ABSENT), values[at])
            for name, values in rows.items()
        }
        _refuse_two_origins(rows, same, first, interpreter)
        rows["origin"], rows["seq"] = first["origin"], first["seq"]
        last = {name: int(first[name][-1]) for name in rows}
        yield pa.table({name: rows[name] for name in rows if name not in (*ID, "follows")})


def _refuse_two_origins(
    rows: dict[str, Any], same: Any, first: dict[str, Any], interpreter: Interpreter
) -> None:
    """``first`` has, over all rows of an id, the values on the first of them."""
    twice = same & (rows["follows"] == 0) & (rows["history"] != first["history"])
    for row in np.flatnonzero(twice)[:1]:
        place, other = (
            interpreter.place(int(places[row])) for places in (rows["place"], first["place"])
        )
        raise DataError(
            f"{place}: the id of a message that {other} has broadcast already; if ids are only "
            "unique for each origin, say which column tells it (columns.origin)"
        )
