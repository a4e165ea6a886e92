"""Sorted rows become histories: each row gets its index, and each history its end.

Rows come in portions, sorted by history and by the log's own order; what was counted in one goes on
in the next. This runs in the workers, so what is wrong is noted by number, for the driver to put
into words.
"""

from typing import Any, NamedTuple

import numpy as np

from tidings.pipeline.sources.meaning import ABSENT, KIND
from tidings.pipeline.sources.survey import Place
from tidings.trace.schema import KINDS

AT_THE_END = 2**63 - 1
"""The order of a row that is in no source: what the mapping says about the end."""
RUN_BITS = 32
"""A history as one number: that of its run, then the position of its process in the manifest."""
POSITION = (1 << RUN_BITS) - 1

_OVER = (KIND["crash"], KIND["leave"])


class NumberingFault(NamedTuple):
    """What is wrong with a row, in view of the one before it (or, for a name, of another)."""

    place: Place
    what: str
    history: int
    kind: str
    other: Any
    """The kind, or the place, of that other row."""


class Numbering:
    """Puts numbers on sorted rows, and remembers how each history ends."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """The last row of the portion before."""
        self.endings: dict[int, str] = {}
        """By history: the kind of the last row."""
        self.fault: NumberingFault | None = None
        """The first one, by its place."""

    def numbered(self, columns: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """With ``index`` and ``incarnation``; and which rows were kept."""
        rows = _Rows(columns, self._last)
        needed = ~self._needless(rows)
        if not needed.all():
            kept = {name: values[needed] for name, values in columns.items()}
            rows = _Rows(kept, self._last)
        if needed.any():
            self._check(rows)
            return self._columns(rows), needed
        return rows.columns, needed

    def _columns(self, rows: "_Rows") -> dict[str, Any]:
        columns = dict(rows.columns)
        is_by_mapping = rows["source"] == ABSENT
        if is_by_mapping.any():
            columns["time_ns"] = np.where(is_by_mapping, rows.before("time_ns", 0), rows["time_ns"])
        columns["index"] = rows.counted("index", None)
        columns["incarnation"] = rows.counted("incarnation", rows["kind"] == KIND["recover"])
        for row in rows.lasts:
            self.endings[int(rows["history"][row])] = KINDS[rows["kind"][row]]
        self._last = {name: int(values[-1]) for name, values in columns.items()}
        columns["index"] -= 1
        return columns

    # --- what is wrong, and what is not needed

    def _needless(self, rows: "_Rows") -> Any:
        """Ends that the mapping gives of processes whose rows have them already."""
        is_by_mapping = rows["source"] == ABSENT
        if not is_by_mapping.any():
            return is_by_mapping
        before = rows.before("kind", ABSENT)
        is_over = is_by_mapping & np.isin(before, _OVER)
        self._note(rows, is_over, "over", before)
        return is_over | (is_by_mapping & (before == KIND["settle"]))

    def _check(self, rows: "_Rows") -> None:
        before, kind = rows.before("kind", ABSENT), rows["kind"]
        is_over = (before == _OVER[0]) | (before == _OVER[1])
        self._note(rows, is_over & (kind != KIND["recover"]), "acts", before)
        ties = rows.continues & (rows["order"] == rows.before("order", ABSENT))
        if ties.any():
            source, place = rows.before("source", ABSENT), rows.before("place", ABSENT)
            ties &= rows["source"] != source
            self._note(rows, ties, "tie", np.stack([source, place], axis=1))

    def _note(self, rows: "_Rows", wrong: Any, what: str, other: Any) -> None:
        for row in np.flatnonzero(wrong)[:1]:
            source, place = int(rows["source"][row]), int(rows["place"][row])
            found = NumberingFault(
                # What the mapping says comes after all that the log says.
                (AT_THE_END if source == ABSENT else source, place),
                what,
                int(rows["history"][row]),
                KINDS[rows["kind"][row]],
                tuple(other[row].tolist()) if other.ndim > 1 else int(other[row]),
            )
            self.fault = min(self.fault or found, found)


class _Rows:
    """A portion of rows, each of which may continue the history of the row before it."""

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
        values = np.empty_like(self.columns[name])
        values[1:] = self.columns[name][:-1]
        values[:1] = self._last.get(name, otherwise)
        values[~self.continues] = otherwise
        return values

    def counted(self, name: str, which: Any | None) -> Any:
        """How many of these rows the history has had, this one included."""
        if which is None:
            total = np.arange(1, len(self.continues) + 1)
        else:
            total = np.cumsum(which) if which.any() else np.zeros(len(which), np.int64)
        begins = np.flatnonzero(~self.continues)
        # Up to the first history that begins here, that of the portion before goes on.
        bases = np.append(-self._last.get(name, 0), np.where(begins > 0, total[begins - 1], 0))
        return total - np.repeat(bases, np.diff([0, *begins, len(total)]))

    @property
    def lasts(self) -> Any:
        """The last row of each history, as far as this portion goes."""
        return np.append(np.flatnonzero(~self.continues[1:]), len(self.continues) - 1)
