"""Sorted rows become histories: each row gets its index, and each history its end.

Rows come in blocks, sorted by history and by the log's own order; what was counted in one block
goes on in the next. This runs in the workers, so what is wrong is noted by number, for the driver
to put into words.
"""

from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.sources.meaning import KIND
from tidings.pipeline.sources.survey import LINE_BITS
from tidings.trace.schema import KINDS

ABSENT = -1
AT_THE_END = BY_MAPPING = 2**63 - 1
"""The order, and the place, of a row that is in no file: what the mapping says about the end."""
RUN_BITS = 32
"""A history as one number: that of its run, then the position of its process in the manifest."""

_OVER = [KIND["crash"], KIND["leave"]]
_MESSAGES = [KIND["broadcast"], KIND["deliver"], KIND["held"]]
_COUNTED = {"index": None, "incarnation": KIND["recover"], "sent": KIND["broadcast"]}
"""What grows along a history, and with rows of which kind."""


class NumberingFault(NamedTuple):
    """What is wrong with a row, in view of the one before it (or, for a name, of another)."""

    place: int
    what: str
    history: int
    kind: str
    other: int
    """The kind, or the place, of the row before."""


class Numbering:
    """Puts numbers on sorted rows, and remembers how each history ends."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """The last row of the block before."""
        self.endings: dict[int, tuple[str, int]] = {}
        """By history: the kind of the last row, and how many broadcasts there are."""
        self.fault: NumberingFault | None = None
        """The first one, by its place."""
        self.nameless = 0
        """How many rows are about messages that nobody is seen to broadcast."""

    def numbered(self, columns: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """With ``index`` and ``incarnation``; and which rows were kept."""
        rows = _Rows(columns, self._last)
        needed = ~self._needless(rows)
        rows = _Rows({name: values[needed] for name, values in columns.items()}, self._last)
        if needed.any():
            self._check(rows)
            return self._columns(rows), needed
        return rows.columns, needed

    def _columns(self, rows: "_Rows") -> dict[str, Any]:
        columns = dict(rows.columns)
        is_by_mapping = rows["place"] == BY_MAPPING
        columns["time_ns"] = np.where(is_by_mapping, rows.before("time_ns", 0), rows["time_ns"])
        counts = {
            name: rows.counted(name, rows["kind"] == kind if kind is not None else None)
            for name, kind in _COUNTED.items()
        }
        for row in rows.lasts:
            self.endings[int(rows["history"][row])] = (
                KINDS[rows["kind"][row]],
                int(counts["sent"][row]),
            )
        self._last = {name: int(values[-1]) for name, values in (columns | counts).items()}
        columns["index"] = counts["index"] - 1
        columns["incarnation"] = counts["incarnation"]
        return columns

    # --- what is wrong, and what is not needed

    def _needless(self, rows: "_Rows") -> Any:
        """Ends that the mapping gives of processes whose rows have them already."""
        is_by_mapping = rows["place"] == BY_MAPPING
        before = rows.before("kind", ABSENT)
        is_over = is_by_mapping & np.isin(before, _OVER)
        self._note(rows, is_over, "over", before)
        return is_over | (is_by_mapping & (before == KIND["settle"]))

    def _check(self, rows: "_Rows") -> None:
        before, kind = rows.before("kind", ABSENT), rows["kind"]
        self._note(rows, np.isin(before, _OVER) & (kind != KIND["recover"]), "acts", before)
        place, order = rows.before("place", ABSENT), rows.before("order", ABSENT)
        ties = rows.continues & (rows["order"] == order)
        ties &= rows["place"] >> LINE_BITS != place >> LINE_BITS
        self._note(rows, ties, "tie", place)
        nameless = np.isin(kind, _MESSAGES) & (rows["origin"] == ABSENT)
        self.nameless += int(nameless.sum())
        process = rows["history"] & (1 << RUN_BITS) - 1
        others = (kind == KIND["broadcast"]) & ~nameless & (rows["origin"] != process)
        self._note(rows, others, "named", rows["origin"])

    def _note(self, rows: "_Rows", wrong: Any, what: str, other: Any) -> None:
        for row in np.flatnonzero(wrong)[:1]:
            found = NumberingFault(
                int(rows["place"][row]),
                what,
                int(rows["history"][row]),
                KINDS[rows["kind"][row]],
                int(other[row]),
            )
            self.fault = min(self.fault or found, found)


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
