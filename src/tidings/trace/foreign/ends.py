"""What became of each process: as its rows say, or else as the mapping does."""

from collections.abc import Iterator, Mapping

from tidings.core import DataError, Members, ordered
from tidings.trace.foreign.meaning import Interpreter, history_of, run_of
from tidings.trace.foreign.numbering import HistoryEnding
from tidings.trace.manifest import Fate


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
        self._refuse_strangers()

    def _refuse_strangers(self) -> None:
        """A name that is nowhere else is misspelt."""
        named = {*self._end.fates, *self._end.listed}
        named -= {*(self._members or ())}
        for names in self._with_rows.values():
            named -= {*names}
        for name in ordered(named):
            raise DataError(f"end: {name} is no member, and the log has no row of it")

    def members(self, run: int) -> Members:
        return self._with_rows[run] if self._members is None else self._members

    def processes(self, run: int) -> Members:
        """Everybody who is owed a history: the members, and whoever else left one."""
        members, with_rows = self.members(run), self._with_rows[run]
        return members if members == with_rows else ordered((*members, *with_rows))

    def settled_by_mapping(self) -> Iterator[int]:
        """The histories that end in calm, as the mapping says.

        That all had settled says nothing of those without any row: their logs may be lost.
        """
        for run, with_rows in self._with_rows.items():
            for name in self.processes(run):
                if self._end.settles(name) and (name in with_rows or name in self._end.listed):
                    yield self.history(run, name)

    def history(self, run: int, name: str) -> int:
        return int(history_of(run, self._names.code(name)))

    def ending(self, run: int, name: str) -> HistoryEnding | None:
        return self._endings.get(self.history(run, name))

    def fates(self, run: int) -> dict[str, Fate]:
        named = self._end.fates
        return {name: named[name] for name in self.processes(run) if name in named}

    def untold(self, run: int) -> Members:
        """Those who may have done more than their rows say, in order."""
        return tuple(
            name
            for name in self.processes(run)
            if not self._is_complete(name, self.ending(run, name))
        )

    def _is_complete(self, name: str, ending: HistoryEnding | None) -> bool:
        if ending is None:
            return False
        match self._end.fates.get(name):
            case "up":
                return ending.last_kind == "settle"
            case None:
                return ending.last_kind in ("settle", "crash", "leave")
        return True
