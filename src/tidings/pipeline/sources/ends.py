"""Who took part in each run, and how it ended for them: as their rows say, or else the mapping."""

from collections.abc import Mapping

from tidings.core import DataError, Members, ordered
from tidings.pipeline.sources.survey import Survey
from tidings.trace import Fate
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.schema import KINDS

NOBODY = "nobody"


Endings = Mapping[tuple[str, str], str]
"""For each history, by its run and its process, the kind of its last row."""


class Ends:
    """What the mapping and the rows say about the processes of every run."""

    def __init__(self, mapping: LogMapping, survey: Survey) -> None:
        self._end = mapping.end
        with_rows: dict[str, list[str]] = {run: [] for run in survey.runs}
        for (run, process), kinds in survey.histories.items():
            if kinds:
                with_rows[run].append(process)
        self.with_rows = {run: ordered(names) for run, names in with_rows.items()}
        members = mapping.members
        self._members = None if members is None else ordered(members)
        # A name that is nowhere else is misspelt.
        known = {*(self._members or ())}.union(*self.with_rows.values())
        for name in ordered({*self._end.fates, *self._end.listed} - known):
            raise DataError(f"end: {name} is no member, and the log has no row of it")

    def members(self, run: str) -> Members:
        return self.with_rows[run] if self._members is None else self._members

    def processes(self, run: str) -> Members:
        """Everybody who is owed a history: the members, and whoever else left one."""
        members, with_rows = self.members(run), self.with_rows[run]
        return members if members == with_rows else ordered((*members, *with_rows))

    def settled(self, run: str) -> Members:
        """Those that had settled, as the mapping says and perhaps no line of the log.

        That all had settled says nothing of those without any row: their logs may be lost.
        """
        return tuple(
            name
            for name in self.processes(run)
            if self._end.settles(name) and (name in self.with_rows[run] or name in self._end.listed)
        )

    def fates(self, run: str) -> dict[str, Fate]:
        named = self._end.fates
        return {name: named[name] for name in self.processes(run) if name in named}

    def untold(self, run: str, endings: Endings) -> Members:
        """Those who may have done more than their rows say, in order."""
        found = {name: endings.get((run, name)) for name in self.processes(run)}
        return tuple(
            name
            for name, ending in found.items()
            if ending is None or ending not in _LAST_OF_ALL[self._end.fates.get(name)]
        )


_LAST_OF_ALL: dict[Fate | None, tuple[str, ...]] = {
    "up": ("settle",),
    "crashed": KINDS,
    "left": KINDS,
    None: ("settle", "crash", "leave"),
}
"""By the fate that the mapping gives, if any: which kind of row leaves nothing more to say."""
